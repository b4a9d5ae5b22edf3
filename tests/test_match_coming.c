/* test_match_coming.c - blocks that are on their way to a sequence when something else happens: another prompt is asked
 * for, or one of them fails while room is made for the next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tier/tier.h"
#include "toy.h"

enum { BLOCK = 16, PROMPT = 128 };

/* A tier whose `has` can let the movers run, and whose `get` can fail. */
typedef struct window {
    kvt_tier *inner;
    kvt_cache *c; /* NULL: `has` does nothing else */
    int number;   /* of the tier */
    bool fails;
} window;

static kvt_status put(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    kvt_tier *t = ((window *)ctx)->inner;
    return t->ops.put(t->ctx, key, pieces, n_pieces);
}

static kvt_status get(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    const window *w = ctx;
    return w->fails ? KVT_E_IO : w->inner->ops.get(w->inner->ctx, key, pieces, n_pieces);
}

static int has(void *ctx, const kvt_tier_key *key) {
    const window *w = ctx;
    while (w->c && move_run_one(w->c, w->number)) {}
    return w->inner->ops.has(w->inner->ctx, key);
}

static void drop(void *ctx, const kvt_tier_key *key) {
    kvt_tier_drop(((window *)ctx)->inner, key);
}

static kvt_status walk(void *ctx, kvt_tier_fn fn, void *fn_ctx) {
    return kvt_tier_walk(((window *)ctx)->inner, fn, fn_ctx);
}

static void usage(void *ctx, kvt_tier_usage *out) {
    kvt_tier_usage_get(((window *)ctx)->inner, out);
}

static void close_inner(void *ctx) {
    kvt_tier_close(((window *)ctx)->inner);
}

static kvt_tier *window_open(window *w) {
    static const kvt_tier_ops ops = {"window", put, get, has, drop, walk, usage, close_inner};
    kvt_tier *tier;
    *w = (window){0};
    assert_int_equal(kvt_tier_memory(&w->inner, 1 << 24), KVT_OK);
    assert_int_equal(kvt_tier_new(&tier, &ops, w), KVT_OK);
    return tier;
}

/* ------------------------------------------------------------------------------------------------- caches */

static kvt_cache *open_inline(kvt_tier *const *tiers, int n_tiers, int n_blocks) {
    static const uint8_t identity[32] = "test_match_coming";
    kvt_options opt = toy_options();
    kvt_bytes_info info;
    kvt_cache *c;
    opt.identity = identity;
    kvt_bytes(&opt, &info);
    if (n_blocks) opt.bytes_max = (size_t)n_blocks * info.bytes_per_block;
    opt.tiers = tiers;
    opt.n_tiers = n_tiers;
    assert_int_equal(cache_open(&c, &opt, &(cache_check){.poison = true, .moves_inline = true}), KVT_OK);
    return c;
}

static kvt_seq seq_new(kvt_cache *c) {
    kvt_seq s;
    assert_int_equal(kvt_seq_new(c, &s), KVT_OK);
    return s;
}

/* The tier has PROMPT tokens from `first` on. */
static void written(kvt_tier *tier, int32_t first) {
    kvt_cache *c = open_inline(&tier, 1, 0);
    assert_int_equal(toy_add(c, seq_new(c), first, PROMPT), KVT_OK);
    kvt_close(c);
}

/* n_first tokens from `first` on, then others, up to n. */
static kvt_match_result match(kvt_cache *c, kvt_seq s, int32_t first, int n_first, int n) {
    int32_t tokens[PROMPT];
    kvt_match_result r;
    for (int i = 0; i < n; i++) tokens[i] = i < n_first ? first + i : 9000 + i;
    assert_int_equal(kvt_match(c, s, tokens, n, NULL, &r), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    return r;
}

/* -------------------------------------------------------------------------------------------------- moments */

/* The sequence gets blocks of the prompt that was asked for last, and waits for no others. */
static void another_prompt_is_asked_for(void **state) {
    static const struct { int n_first, n, n_coming; } cases[] = {
        {0, PROMPT, 0}, {50, PROMPT, 48}, {100, PROMPT, 96}, {PROMPT, 40, 32}, {PROMPT, 7, 0}, {PROMPT, PROMPT, 128}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int arrived = 0; arrived < 2; arrived++) {
            window w;
            kvt_tier *tier = window_open(&w);
            written(tier, 100);
            kvt_cache *c = open_inline(&tier, 1, 0);
            kvt_seq s = seq_new(c);
            assert_int_equal(match(c, s, 100, PROMPT, PROMPT).n_coming, PROMPT);
            if (arrived) while (move_run_one(c, 0)) {}
            kvt_match_result r = match(c, s, 100, cases[i].n_first, cases[i].n);
            if (!arrived) assert_int_equal(r.n_coming, cases[i].n_coming);
            while (move_run_one(c, 0)) {}
            r = match(c, s, 100, cases[i].n_first, cases[i].n);
            int whole = cases[i].n_coming < PROMPT ? cases[i].n_coming : PROMPT - BLOCK;
            assert_in_range(r.n_tokens, whole, cases[i].n_first < cases[i].n ? cases[i].n_first : cases[i].n - 1);
            assert_int_equal(r.n_coming, 0);
            assert_true(toy_holds(c, s, 100, r.n_tokens));
            kvt_close(c);
            kvt_tier_close(tier);
        }
    }
}

/* The pool is full of blocks that wait to be written. What leaves for a block that comes lets the owner see that the
 * ones before it have failed. */
static void one_fails_while_room_is_made_for_the_next(void **state) {
    (void)state;
    for (int n_blocks = 1; n_blocks <= 8; n_blocks++) {
        window near, far;
        kvt_tier *tiers[] = {window_open(&near), window_open(&far)};
        written(tiers[1], 100);
        kvt_cache *c = open_inline(tiers, 2, 8);
        kvt_seq s = seq_new(c), other = seq_new(c);
        assert_int_equal(toy_add(c, other, 5000, n_blocks * BLOCK), KVT_OK);
        kvt_seq_free(c, other);
        while (move_run_one(c, 1)) {}
        far = (window){.inner = far.inner, .c = c, .number = 1, .fails = true};
        kvt_match_result r = match(c, s, 100, PROMPT, PROMPT);
        while (move_run_one(c, 1)) {}
        for (int i = 0; i < 3; i++) r = match(c, s, 100, PROMPT, PROMPT);
        assert_int_equal(r.n_tokens, 0);
        assert_int_equal(r.n_coming, 0);
        assert_int_equal(r.reason, KVT_MISS_TIER_BAD);
        far.c = NULL;
        kvt_close(c);
        for (int i = 0; i < 2; i++) kvt_tier_close(tiers[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_prompt_is_asked_for),
        cmocka_unit_test(one_fails_while_room_is_made_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
