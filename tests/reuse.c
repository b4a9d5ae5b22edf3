/* reuse.c - see reuse.h. */
#include "reuse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

/* ------------------------------------------------------------------------------------------------ texts */

text text_random(uint64_t seed, int n) {
    text t = {.n = n};
    assert_true(n <= TEXT_MAX);
    for (int i = 0; i < n; i++) t.token[i] = (int32_t)random_below(&seed, 30000);
    return t;
}

text text_branch(const text *of, int n_same, int n, uint64_t seed) {
    text t = text_random(seed, n);
    memcpy(t.token, of->token, (size_t)n_same * sizeof *t.token);
    if (n_same < n && n_same < of->n && t.token[n_same] == of->token[n_same]) t.token[n_same] ^= 1;
    return t;
}

void known_add(known *k, const text *t, int block_tokens) {
    if (k->n == k->room) {
        k->room = 2 * k->room + 16;
        k->text = realloc(k->text, (size_t)k->room * sizeof *k->text);
        assert_non_null(k->text);
    }
    k->text[k->n] = *t;
    k->text[k->n++].n = t->n / block_tokens * block_tokens;
}

void known_free(known *k) {
    free(k->text);
    *k = (known){0};
}

int known_longest(const known *k, const text *t) {
    int longest = 0;
    for (int i = 0; i < k->n; i++) {
        const text *other = &k->text[i];
        int n = 0;
        while (n < other->n && n < t->n && other->token[n] == t->token[n]) n++;
        if (n > longest) longest = n;
    }
    return longest < t->n ? longest : t->n - 1;
}

/* ----------------------------------------------------------------------------------------------- trials */

const char *trial_name(const trial *t) {
    static char name[200];
    snprintf(name, sizeof name, "%s, %s, blocks of %d, %d hot, %s, keys of %d bits, %s", kvt_format_name(t->k),
             kvt_format_name(t->v), t->block_tokens, t->hot_tokens, t->cpu ? t->cpu : "best", t->key_bits,
             t->tier ? "a tier" : "memory");
    return name;
}

static uint64_t still(void *ctx) {
    (void)ctx;
    return 1000000000;
}

kvt_options trial_options(const trial *t) {
    static const uint8_t identity[32] = "a model of tests";
    static kvt_tier *tiers[1];
    kvt_options opt = forward_options();
    opt.k_format = t->k;
    opt.v_format = t->v;
    opt.block_tokens = t->block_tokens;
    opt.hot_tokens = t->hot_tokens;
    opt.n_threads = t->n_threads ? t->n_threads : 1;
    opt.forget = t->forget;
    opt.identity = t->identity ? t->identity : identity;
    opt.tiers = tiers;
    opt.n_tiers = t->tier != NULL;
    opt.clock = still;
    tiers[0] = t->tier;
    if (t->n_blocks == 0) opt.sequences_max = 64; /* and with it slots for first blocks that nobody uses */
    forward_blocks(&opt, t->n_blocks ? t->n_blocks : 1600);
    return opt;
}

kvt_cache *trial_open(const trial *t) {
    kvt_options opt = trial_options(t);
    cache_check check = {.poison = true, .key_bits = t->key_bits};
    kvt_cache *c;
    if (t->cpu) check.kernels = kernels_of(t->cpu);
    assert_int_equal(cache_open(&c, &opt, &check), KVT_OK);
    return c;
}

int trial_found_blocks(const trial *t, const known *k, const text *x) {
    return known_longest(k, x) / t->block_tokens * t->block_tokens;
}

/* A block of codes cannot go on; the first ones are kept as they came. */
int trial_found(const trial *t, const known *k, const text *x) {
    int n = known_longest(k, x), n_hot = (t->hot_tokens + t->block_tokens - 1) / t->block_tokens;
    bool codes = t->k > KVT_F32 || t->v > KVT_F32;
    return codes && n >= n_hot * t->block_tokens ? trial_found_blocks(t, k, x) : n;
}

/* ---------------------------------------------------------------------------------------------- asking */

kvt_match_result reuse_match(kvt_cache *c, kvt_seq id, const text *x, const kvt_match_options *opt) {
    kvt_match_result all = {0}, r;
    do {
        assert_int_equal(kvt_match(c, id, x->token, x->n, opt, &r), KVT_OK);
        assert_int_equal(r.n_tokens, kvt_seq_length(c, id));
        all.n_tokens = r.n_tokens;
        all.n_found += r.n_found;
        all.n_partial += r.n_partial;
        all.n_fetched += r.n_fetched;
        all.reason = r.reason;
        if (r.n_coming) assert_int_equal(kvt_wait(c, -1), KVT_OK);
    } while (r.n_coming);
    return all;
}

kvt_match_result reuse_look(kvt_cache *c, const text *x) {
    kvt_seq id;
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    kvt_match_result r = reuse_match(c, id, x, NULL);
    assert_int_equal(kvt_seq_free(c, id), KVT_OK);
    return r;
}

void reuse_compute(kvt_cache *c, const text *x) {
    kvt_seq id;
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    assert_int_equal(forward_run(c, id, x->token, x->n, x->n, NULL), KVT_OK);
    assert_int_equal(kvt_seq_free(c, id), KVT_OK);
}

void reuse_check(kvt_cache *c) {
    kvt_stats s;
    uint64_t missed = 0;
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(kvt_stats_get(c, &s), KVT_OK);
    for (int i = 0; i < KVT_N_MISSES; i++) missed += s.tokens_missed[i];
    assert_int_equal(s.tokens_asked, s.tokens_found + s.tokens_fetched + missed);
    assert_int_equal(s.blocks_total, s.blocks_used + s.blocks_free);
    assert_true(s.blocks_idle <= s.blocks_free);
    assert_int_equal(s.blocks_taken - s.blocks_given, s.blocks_used);
}
