/* finds.c - see finds.h. */
#include "finds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t identity[32] = "weights of a toy";

kvt_options finds_options(int n_sequences, int n_blocks) {
    kvt_options opt = toy_options();
    kvt_bytes_info info;
    opt.identity = identity;
    opt.sequences_max = n_sequences;
    kvt_bytes(&opt, &info);
    if (n_blocks) opt.bytes_max = (size_t)n_blocks * info.bytes_per_block;
    return opt;
}

kvt_seq seq_new(kvt_cache *c) {
    kvt_seq s;
    assert_int_equal(kvt_seq_new(c, &s), KVT_OK);
    return s;
}

int32_t *from(int32_t first, int n) {
    static int32_t tokens[512];
    for (int i = 0; i < n; i++) tokens[i] = first + i;
    return tokens;
}

void leave_behind(kvt_cache *c, int32_t first, int n) {
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, first, n), KVT_OK);
    kvt_seq_free(c, s);
}

kvt_match_result match(kvt_cache *c, kvt_seq s, int32_t first, int n) {
    kvt_match_result r;
    assert_int_equal(kvt_match(c, s, from(first, n), n, NULL, &r), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    return r;
}

kvt_match_result match_all(kvt_cache *c, kvt_seq s, int32_t first, int n) {
    kvt_match_result r = match(c, s, first, n);
    while (r.n_coming > 0) {
        assert_int_equal(kvt_wait(c, -1), KVT_OK);
        r = match(c, s, first, n);
    }
    return r;
}

int found(kvt_cache *c, int32_t first, int n) {
    kvt_seq s = seq_new(c);
    kvt_match_result r = match(c, s, first, n);
    assert_true(toy_holds(c, s, first, r.n_tokens));
    kvt_seq_free(c, s);
    return r.n_tokens;
}

kvt_stats stats_of(const kvt_cache *c) {
    kvt_stats s;
    assert_int_equal(kvt_stats_get(c, &s), KVT_OK);
    return s;
}

tiered tiered_of(int n_blocks, kvt_write write) {
    tiered y = {.opt = finds_options(3, n_blocks)};
    y.tier = faulty_tier_new(&y.faulty, &(faulty_options){.seed = 1});
    y.opt.write = write;
    y.opt.n_tiers = 1;
    return y;
}

void tiered_open(tiered *y) {
    y->opt.tiers = &y->tier;
    y->c = toy_open(&y->opt);
}

void tiered_close(tiered *y) {
    kvt_close(y->c);
    kvt_tier_close(y->tier);
}
