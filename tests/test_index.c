/* test_index.c - the prefix index without bytes: what stays, what leaves first, what is remembered. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "fixture.h"
#include "kvtile.h"
#include "random.h"

static kvt_index *index_of(int blocks_max, int chain_max, int ghosts_max) {
    kvt_index *x;
    kvt_index_options opt = { blocks_max, chain_max, ghosts_max };
    assert_int_equal(kvt_index_open(&x, &opt), KVT_OK);
    return x;
}

static kvt_index_result read_full(kvt_index *x, const uint64_t *keys, int n) {
    kvt_index_result r;
    assert_int_equal(kvt_index_request(x, keys, n, n, &r), KVT_OK);
    return r;
}

/* ------------------------------------------------------------------------------------------------ by hand */

static void a_prefix_is_found_up_to_where_it_differs(void **state) {
    (void)state;
    kvt_index *x = index_of(8, 4, -1);
    const uint64_t first[] = { 1, 2, 3, 4 }, second[] = { 1, 2, 30, 40 };
    kvt_index_result cold = read_full(x, first, 4), again = read_full(x, first, 4), other = read_full(x, second, 4);
    assert_int_equal(cold.n_hit, 0);
    assert_int_equal(cold.n_cold, 4);
    assert_int_equal(again.n_hit, 4);
    assert_int_equal(other.n_hit, 2);
    assert_int_equal(other.n_cold, 2);
    kvt_index_close(x);
}

static void children_leave_before_their_parents(void **state) {
    (void)state;
    /* given room for six blocks, and two prefixes of four that share nothing */
    kvt_index *x = index_of(6, 4, -1);
    const uint64_t a[] = { 1, 2, 3, 4 }, b[] = { 11, 12, 13, 14 };
    read_full(x, a, 4);
    /* when the second one comes, then the two that leave are ends, so that both begin with what is there */
    kvt_index_result r = read_full(x, b, 4);
    assert_int_equal(r.n_left, 2);
    kvt_index_result back = read_full(x, a, 4), back_b = read_full(x, b, 4);
    assert_true(back.n_hit >= 2 && back.n_hit + back.n_evicted == 4);
    assert_true(back_b.n_hit >= 2 && back_b.n_hit + back_b.n_evicted == 4);
    kvt_index_close(x);
}

static void what_left_is_known_until_it_is_forgotten(void **state) {
    (void)state;
    /* given room for one block, and for two that are remembered */
    kvt_index *x = index_of(1, 1, 2);
    const uint64_t keys[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    read_full(x, &keys[0], 1);
    read_full(x, &keys[1], 1);
    assert_int_equal(read_full(x, &keys[0], 1).n_cold, 0);
    /* when many others have left since, then it is as if it had never been there */
    for (int i = 1; i < 8; i++) read_full(x, &keys[i], 1);
    for (int i = 1; i < 8; i++) read_full(x, &keys[i], 1);
    assert_int_equal(read_full(x, &keys[7], 1).n_cold, 0);
    int n_cold = 0;
    for (int i = 0; i < 7; i++) n_cold += read_full(x, &keys[i], 1).n_cold;
    assert_true(n_cold >= 3);
    kvt_index_close(x);
}

static void an_open_block_leaves_first(void **state) {
    (void)state;
    kvt_index *x = index_of(3, 2, -1);
    const uint64_t a[] = { 1, 2 }, b[] = { 11, 12 };
    kvt_index_result r;
    assert_int_equal(kvt_index_request(x, a, 2, 1, &r), KVT_OK); /* 2 is open */
    read_full(x, b, 2);
    assert_int_equal(read_full(x, b, 2).n_hit, 2);
    assert_int_equal(kvt_index_request(x, a, 2, 1, &r), KVT_OK);
    assert_int_equal(r.n_hit, 1);
    assert_int_equal(r.n_evicted, 1);
    kvt_index_close(x);
}

static void bad_arguments_change_nothing(void **state) {
    (void)state;
    kvt_index *x;
    const kvt_index_options bad[] = { { 0, 1, 0 }, { 1, 0, 0 }, { 1, 1, -2 }, { 1 << 27, 1, 0 }, { 1, 1 << 21, 0 } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(kvt_index_open(&x, &bad[i]), KVT_E_ARGUMENT);
        assert_null(x);
    }
    assert_int_equal(kvt_index_open(&x, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_index_open(NULL, &(kvt_index_options){ 1, 1, 0 }), KVT_E_ARGUMENT);
    x = index_of(2, 2, 0);
    const uint64_t keys[] = { 1, 2, 3 };
    kvt_index_result r;
    assert_int_equal(kvt_index_request(x, keys, 3, 3, &r), KVT_E_LIMIT);
    assert_int_equal(kvt_index_request(x, NULL, 1, 1, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_index_request(x, keys, -1, 0, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_index_request(x, NULL, 0, 0, &r), KVT_OK);
    assert_int_equal(read_full(x, keys, 2).n_cold, 2);
    kvt_index_close(x);
    kvt_index_close(NULL);
}

/* Keys that name no prefixes (one key twice in a request, or under two parents) are a caller's mistake: nothing is
 * promised about hits, but the index must stand. */
static void keys_that_are_no_prefixes_do_no_harm(void **state) {
    (void)state;
    enum { REQUESTS = 20000, CHAIN = 9 };
    kvt_index *x = index_of(16, CHAIN, 8);
    uint64_t seed = 7;
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t keys[CHAIN];
        int n = (int)(random_bits(&seed) % (CHAIN + 1));
        for (int j = 0; j < n; j++) keys[j] = random_bits(&seed) % 40;
        kvt_index_result r = read_full(x, keys, n);
        assert_true(r.n_hit >= 0 && r.n_cold >= 0 && r.n_evicted >= 0 && r.n_hit + r.n_cold + r.n_evicted == n);
    }
    kvt_index_close(x);
}

/* -------------------------------------------------------------------------------- against the formula itself
 *
 * The rule of evict.h once more, in the simplest way: all blocks in one array, the victim by looking at each. */

enum { NAIVE_KEYS = 4096 };

typedef struct naive {
    int blocks_max, n_in, n_gaps;
    unsigned now;
    double gap_ln;
    struct naive_block {
        bool known, in;
        int parent, n_children, n_uses;
        unsigned last;
        double score;
    } block[NAIVE_KEYS];
} naive;

static void naive_use(naive *v, int key, int parent, int depth, bool open, double bonus) {
    struct naive_block *b = &v->block[key];
    if (!b->in) {
        b->in = true;
        b->parent = parent;
        v->n_in++;
        if (parent >= 0) v->block[parent].n_children++;
    }
    if (b->n_uses > 0 && depth > 0) {
        if (v->n_gaps < 200) v->n_gaps++;
        double step = 0.9 / v->n_gaps;
        v->gap_ln += log(v->now - b->last) > v->gap_ln ? step : -step;
    }
    if (b->n_uses < 10) b->n_uses++;
    b->known = true;
    b->last = v->now;
    b->score = v->now + exp(v->gap_ln) * (bonus + 0.5 * b->n_uses - 0.05 * log2(1 + depth) - (open ? 50 : 0));
}

static void naive_shrink(naive *v) {
    while (v->n_in > v->blocks_max) {
        int victim = -1;
        for (int k = 0; k < NAIVE_KEYS; k++)
            if (v->block[k].in && v->block[k].n_children == 0 &&
                (victim < 0 || v->block[k].score < v->block[victim].score))
                victim = k;
        v->block[victim].in = false;
        v->n_in--;
        if (v->block[victim].parent >= 0) v->block[v->block[victim].parent].n_children--;
    }
}

static int naive_request(naive *v, const uint64_t *keys, int n, int n_full) {
    int n_hit = 0, n_known = 0;
    while (n_hit < n && v->block[keys[n_hit]].in) n_hit++;
    while (n_known < n && v->block[keys[n_known]].known) n_known++;
    v->now++;
    double late = n_known > 1 ? log2(v->now - v->block[keys[n_known - 1]].last) - v->gap_ln / log(2) - 1 : 0;
    double bonus = -0.25 * log2(1 + n - n_known) - (late > 0 ? late : 0);
    for (int i = 0; i < n; i++) naive_use(v, (int)keys[i], i > 0 ? (int)keys[i - 1] : -1, i, i >= n_full, bonus);
    naive_shrink(v);
    return n_hit;
}

/* Conversations that grow: each request is one of them, some blocks longer than the last time. */
static int conversation(uint64_t *seed, int length[32], uint64_t *keys, int *n_full) {
    int c = (int)(random_bits(seed) % 8 * (random_bits(seed) % 4 + 1));
    if (length[c] < 100) length[c] += (int)(random_bits(seed) % 5);
    int n = 1 + length[c];
    keys[0] = 0; /* what all have in common */
    for (int i = 1; i < n; i++) keys[i] = (uint64_t)(1 + c * 120 + i);
    *n_full = (int)(random_bits(seed) % 2) ? n : n - 1;
    return n;
}

static void what_leaves_is_what_the_formula_says(void **state) {
    (void)state;
    static naive v;
    const int sizes[] = { 1, 40, 300, 1000 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        uint64_t seed = 11 + s, keys[128];
        int length[32] = { 0 }, n_full, n_hits = 0;
        memset(&v, 0, sizeof v);
        v.blocks_max = sizes[s];
        v.gap_ln = 3;
        kvt_index *x = index_of(sizes[s], 128, NAIVE_KEYS);
        mem_guard("requests");
        for (int i = 0; i < 3000; i++) {
            int n = conversation(&seed, length, keys, &n_full);
            kvt_index_result r;
            assert_int_equal(kvt_index_request(x, keys, n, n_full, &r), KVT_OK);
            assert_int_equal(r.n_hit, naive_request(&v, keys, n, n_full));
            n_hits += r.n_hit;
        }
        mem_guard(NULL);
        assert_true(n_hits > 1000);
        kvt_index_close(x);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prefix_is_found_up_to_where_it_differs),
        cmocka_unit_test(children_leave_before_their_parents),
        cmocka_unit_test(what_left_is_known_until_it_is_forgotten),
        cmocka_unit_test(an_open_block_leaves_first),
        cmocka_unit_test(bad_arguments_change_nothing),
        cmocka_unit_test(keys_that_are_no_prefixes_do_no_harm),
        cmocka_unit_test(what_leaves_is_what_the_formula_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
