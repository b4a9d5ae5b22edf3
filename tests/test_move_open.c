/* test_move_open.c - what tiers cost a cache, what of their options is refused, and caches that cannot open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "yard.h"

static void a_cache_without_tiers_has_no_movers(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_bytes_info few, many;
    opt.moves_max = 1;
    assert_int_equal(kvt_bytes(&opt, &few), KVT_OK);
    opt.moves_max = 4096;
    assert_int_equal(kvt_bytes(&opt, &many), KVT_OK);
    assert_int_equal(few.bytes_tables, many.bytes_tables);
    kvt_cache *c = toy_open(&opt);
    move_result r;
    assert_false(move_take(c, &r));
    assert_true(move_wait(c, -1, true) && move_wait(c, -1, false));
    assert_int_equal(move_cancel_puts(c, 1), 0);
    assert_false(move_cancel_get(c, 0));
    kvt_close(c);
}

static void a_tier_costs_a_record_and_its_pieces(void **state) {
    (void)state;
    faulty_tier *faulty;
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){0}), *both[] = {tier, tier};
    kvt_options opt = with_tiers(toy_options(), both, 1);
    kvt_bytes_info one, two;
    opt.k_format = KVT_INT4; /* hot tiles are larger than records */
    assert_int_equal(kvt_bytes(&opt, &one), KVT_OK);
    opt.n_tiers = 2;
    assert_int_equal(kvt_bytes(&opt, &two), KVT_OK);
    kvt_cache *c = toy_open(&opt);
    size_t hot = c->layout.hot_block_bytes;
    assert_true(hot > c->layout.bytes_per_block);
    size_t pieces = mem_round((TOY_LAYERS + 1) * sizeof(kvt_piece), 64);
    assert_int_equal(two.bytes_tables - one.bytes_tables, mem_round(RECORD_HEADER + hot, 64) + pieces);
    kvt_close(c);
    kvt_tier_close(tier);
}

/* Memory that runs out after so many times. */
static void *alloc_few(void *ctx, size_t bytes, size_t align) {
    int *n_left = ctx;
    return (*n_left)-- > 0 ? aligned_alloc(align, mem_round(bytes, align)) : NULL;
}

static void release_few(void *ctx, void *p, size_t bytes) {
    (void)ctx, (void)bytes;
    free(p);
}

static void a_cache_that_cannot_open_leaves_nothing_behind(void **state) {
    (void)state;
    faulty_tier *faulty;
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){0});
    kvt_options opt = with_tiers(toy_options(), &tier, 1);
    int n_left, n_failed = 0;
    opt.alloc = alloc_few;
    opt.release = release_few;
    opt.alloc_ctx = &n_left;
    for (int n = 0; n < 5; n++) {
        kvt_cache *c;
        n_left = n;
        n_failed += kvt_open(&c, &opt) == KVT_E_MEMORY;
        kvt_close(c);
    }
    assert_int_equal(n_failed, 3); /* tables, store, scratch */
    kvt_tier_close(tier);
}

typedef struct said {
    int n_lines;
    char line[256];
} said;

static void hear(void *ctx, kvt_log_level level, const char *message) {
    said *s = ctx;
    (void)level;
    s->n_lines++;
    snprintf(s->line, sizeof s->line, "%s", message);
}

static void change_nothing(kvt_options *o) { (void)o; }
static void too_few(kvt_options *o) { o->n_tiers = -1; }
static void too_many(kvt_options *o) { o->n_tiers = 5; }
static void no_list(kvt_options *o) { o->tiers = NULL; }
static void no_tier(kvt_options *o) { static kvt_tier *const none[1]; o->tiers = none; }
static void no_identity(kvt_options *o) { o->identity = NULL; }
static void contiguous(kvt_options *o) { o->kind = KVT_CONTIGUOUS; }
static void no_cache(kvt_options *o) { o->kind = KVT_NONE; }
static void no_moves(kvt_options *o) { o->moves_max = 0; }
static void many_moves(kvt_options *o) { o->moves_max = 4097; }
static void another_write(kvt_options *o) { o->write = (kvt_write)2; }

static void options_of_tiers_are_checked(void **state) {
    static const struct {
        void (*change)(kvt_options *o);
        kvt_status status;
        const char *says;
    } rows[] = {
        {change_nothing, KVT_OK, NULL},
        {too_few, KVT_E_ARGUMENT, "n_tiers"},
        {too_many, KVT_E_ARGUMENT, "n_tiers"},
        {no_list, KVT_E_ARGUMENT, "tiers is NULL"},
        {no_tier, KVT_E_ARGUMENT, "tiers[0]"},
        {no_identity, KVT_E_ARGUMENT, "identity"},
        {contiguous, KVT_E_ARGUMENT, "kind"},
        {no_cache, KVT_E_ARGUMENT, "kind"},
        {no_moves, KVT_E_ARGUMENT, "moves_max"},
        {many_moves, KVT_E_ARGUMENT, "moves_max"},
        {another_write, KVT_E_UNSUPPORTED, "write"},
    };
    (void)state;
    faulty_tier *faulty;
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){0});
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        said heard = {0};
        kvt_options opt = with_tiers(toy_options(), &tier, 1);
        opt.log = hear;
        opt.log_ctx = &heard;
        rows[i].change(&opt);
        kvt_cache *c;
        assert_int_equal(kvt_open(&c, &opt), rows[i].status);
        assert_int_equal(heard.n_lines, rows[i].says ? 1 : 0);
        if (rows[i].says && !strstr(heard.line, rows[i].says)) fail_msg("\"%s\" lacks %s", heard.line, rows[i].says);
        kvt_close(c);
    }
    kvt_tier_close(tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_without_tiers_has_no_movers),
        cmocka_unit_test(a_tier_costs_a_record_and_its_pieces),
        cmocka_unit_test(a_cache_that_cannot_open_leaves_nothing_behind),
        cmocka_unit_test(options_of_tiers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
