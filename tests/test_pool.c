/* test_pool.c - blocks: taking, sharing, giving, the counters, and that kvt_check sees every record that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "toy.h"

static pool *pool_new(int n_blocks) {
    carve size = {0};
    pool unplaced;
    pool_carve(&unplaced, &size, n_blocks, 16);
    pool *p = calloc(1, sizeof *p);
    pool_carve(p, &(carve){.base = calloc(1, size.used)}, n_blocks, 16);
    pool_open(p);
    return p;
}

static void pool_free(pool *p) {
    free(p->next); /* the first array is the start of the memory */
    free(p);
}

static void blocks_come_in_order_until_none_is_left(void **state) {
    (void)state;
    pool *p = pool_new(3);
    assert_int_equal(pool_take(p), 0);
    assert_int_equal(pool_take(p), 1);
    assert_int_equal(pool_take(p), 2);
    assert_int_equal(p->n_free, 0);
    assert_int_equal(pool_take(p), POOL_NONE);
    assert_int_equal(p->counts.taken, 3);
    pool_free(p);
}

static void the_last_one_given_is_the_first_one_taken(void **state) {
    (void)state;
    pool *p = pool_new(4);
    for (int i = 0; i < 4; i++) pool_take(p);
    assert_true(pool_give(p, 2));
    assert_true(pool_give(p, 0));
    assert_int_equal(pool_take(p), 0);
    assert_int_equal(pool_take(p), 2);
    pool_free(p);
}

static void a_shared_block_is_free_after_the_last_of_its_names(void **state) {
    (void)state;
    pool *p = pool_new(2);
    int b = pool_take(p);
    pool_share(p, b);
    pool_share(p, b);
    assert_int_equal(p->refs[b], 3);
    assert_int_equal(p->n_shared, 1);
    assert_false(pool_give(p, b));
    assert_int_equal(p->n_shared, 1);
    assert_false(pool_give(p, b));
    assert_int_equal(p->n_shared, 0);
    assert_int_equal(p->n_free, 1);
    assert_true(pool_give(p, b));
    assert_int_equal(p->n_free, 2);
    assert_int_equal(p->counts.taken, 1);
    assert_int_equal(p->counts.given, 1);
    pool_free(p);
}

static void the_highest_use_is_remembered(void **state) {
    (void)state;
    pool *p = pool_new(5);
    for (int i = 0; i < 4; i++) pool_take(p);
    for (int i = 0; i < 4; i++) pool_give(p, i);
    pool_take(p);
    assert_int_equal(p->counts.used_most, 4);
    pool_free(p);
}

static void arrays_of_a_carve_do_not_overlap_and_start_at_lines(void **state) {
    (void)state;
    char *memory = aligned_alloc(64, 4096);
    carve c = {.base = memory};
    char *a = carve_take(&c, 3, 5), *b = carve_take(&c, 1, 65), *d = carve_take(&c, 0, 8);
    assert_ptr_equal(a, memory);
    assert_ptr_equal(b, memory + 64);
    assert_ptr_equal(d, memory + 192);
    assert_int_equal(c.used, 192);
    assert_null(carve_take(&c, SIZE_MAX / 2, 3));
    assert_int_equal(c.used, SIZE_MAX);
    free(memory);
}

/* ------------------------------------------------------------------------------------------- kvt_check */

/* Sequences a (20 tokens), b (a fork of it) and d (5 tokens): blocks 0 and 1 are shared, 2 is not, the rest free. */
static kvt_cache *cache_of_three(void) {
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a, b, d;
    assert_int_equal(kvt_seq_new(c, &a), KVT_OK);
    assert_int_equal(toy_add(c, a, 0, 20), KVT_OK);
    assert_int_equal(kvt_seq_fork(c, a, &b), KVT_OK);
    assert_int_equal(kvt_seq_new(c, &d), KVT_OK);
    assert_int_equal(toy_add(c, d, 100, 5), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    return c;
}

typedef struct damage {
    const char *what;
    void (*do_it)(kvt_cache *c);
} damage;

static void lose_a_block(kvt_cache *c) { c->pool.free_first = c->pool.next[c->pool.free_first]; }
static void lose_and_forget(kvt_cache *c) { lose_a_block(c), c->pool.n_free--; }
static void free_a_used_block(kvt_cache *c) {
    c->pool.next[2] = c->pool.free_first;
    c->pool.free_first = 2;
    c->pool.n_free++;
}
static void close_a_circle(kvt_cache *c) { c->pool.next[c->pool.next[c->pool.free_first]] = c->pool.free_first; }
static void leave_the_pool(kvt_cache *c) { c->pool.next[c->pool.free_first] = 1 << 20; }
static void count_a_name_too_many(kvt_cache *c) { c->pool.refs[0]++; }
static void count_a_name_too_few(kvt_cache *c) { c->pool.refs[0]--; }
static void name_a_free_block(kvt_cache *c) { c->seqs.slot[2].table[0] = c->pool.free_first; }
static void name_no_block(kvt_cache *c) { c->seqs.slot[2].table[0] = -7; }
static void swap_two_blocks(kvt_cache *c) { c->seqs.slot[1].table[0] = 1, c->seqs.slot[1].table[1] = 0; }
static void hold_a_block_less(kvt_cache *c) { c->seqs.slot[0].n_blocks--; }
static void grow_too_long(kvt_cache *c) { c->seqs.slot[0].length = 129; }
static void miscount_shared(kvt_cache *c) { c->pool.n_shared--; }
static void miscount_taken(kvt_cache *c) { c->pool.counts.taken++; }
static void miscount_sequences(kvt_cache *c) { c->seqs.n_alive++; }
static void free_a_live_slot(kvt_cache *c) { c->seqs.free_first = 0; }
static void write_too_much(kvt_cache *c) { c->pool.written[2] = 17; }

static void every_wrong_record_is_found(void **state) {
    static const damage damages[] = {
        {"a block lost from the free list", lose_a_block},
        {"a block lost and not counted", lose_and_forget},
        {"a block both free and used", free_a_used_block},
        {"a circle in the free list", close_a_circle},
        {"a free list that leaves the pool", leave_the_pool},
        {"a reference too many", count_a_name_too_many},
        {"a reference too few", count_a_name_too_few},
        {"a table that names a free block", name_a_free_block},
        {"a table that names no block", name_no_block},
        {"a shared block at two places", swap_two_blocks},
        {"a table with a block less than its tokens need", hold_a_block_less},
        {"a sequence longer than the longest", grow_too_long},
        {"the number of shared blocks", miscount_shared},
        {"the number of taken blocks", miscount_taken},
        {"the number of sequences", miscount_sequences},
        {"a slot both free and alive", free_a_live_slot},
        {"more slots written than there are", write_too_much},
    };
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        kvt_cache *c = cache_of_three();
        damages[i].do_it(c);
        if (kvt_check(c) != KVT_E_CORRUPT) fail_msg("not found: %s", damages[i].what);
        kvt_close(c);
    }
}

static void poison_is_written_to_freed_blocks(void **state) {
    (void)state;
    kvt_cache *c = cache_of_three();
    kvt_seq d = (kvt_seq)1 << 16 | 2;
    assert_true(toy_holds(c, d, 100, 5));
    float k[TOY_VALUES_MAX], v[TOY_VALUES_MAX];
    assert_int_equal(kvt_seq_free(c, d), KVT_OK);
    store_get(c, 1, 2, 0, 0, k, v);
    assert_true(k[0] != k[0] && v[0] != v[0]);
    kvt_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_in_order_until_none_is_left),
        cmocka_unit_test(the_last_one_given_is_the_first_one_taken),
        cmocka_unit_test(a_shared_block_is_free_after_the_last_of_its_names),
        cmocka_unit_test(the_highest_use_is_remembered),
        cmocka_unit_test(arrays_of_a_carve_do_not_overlap_and_start_at_lines),
        cmocka_unit_test(every_wrong_record_is_found),
        cmocka_unit_test(poison_is_written_to_freed_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
