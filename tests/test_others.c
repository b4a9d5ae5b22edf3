/* test_others.c - records of other caches in a tier, of which this build cannot make any: of another numeric contract,
 * and beside them of another layout. The same tokens are there; what is said is why they are not found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "finds.h"

enum { BLOCK = 16, PROMPT = 40, FIRST = 100 };

static kvt_tier_key key_of(const block_key *space, const block_key *name) {
    kvt_tier_key key;
    memcpy(key.space, space->byte, sizeof key.space);
    memcpy(key.name, name->byte, sizeof key.name);
    return key;
}

static void record_put(kvt_tier *tier, record_kind kind, const block_key *space, const block_key *name, void *payload,
                       size_t n) {
    uint8_t header[RECORD_HEADER];
    kvt_tier_key key = key_of(space, name);
    record r = {.kind = kind, .payload_bytes = n};
    memcpy(r.space, key.space, sizeof r.space);
    memcpy(r.key, key.name, sizeof r.key);
    kvt_piece pieces[] = {{header, sizeof header}, {payload, n}};
    record_write(&r, record_hash(&pieces[1], 1), header);
    assert_int_equal(tier->ops.put(tier->ctx, &key, pieces, 2), KVT_OK);
}

/* A space of such a cache, with the first block of the prompt. */
static void space_make(kvt_tier *tier, const kvt_options *opt, uint32_t contract) {
    static const uint8_t no_secret[KEY_BYTES];
    uint8_t payload[RECORD_ABOUT_BYTES], block[64] = {0};
    block_key root = {{1, (uint8_t)contract}}, first = key_next(no_secret, &root, from(FIRST, BLOCK), BLOCK);
    record_about about = {.contract = contract, .n_layers = 2, .block_tokens = BLOCK, .text = "another cache"};
    memcpy(about.identity, opt->identity, sizeof about.identity);
    about_write(&about, payload);
    record_put(tier, RECORD_ABOUT, &root, &root, payload, sizeof payload);
    record_put(tier, RECORD_BLOCK, &root, &first, block, sizeof block);
}

static kvt_miss reason_over(kvt_tier *tier, kvt_options opt) {
    opt.tiers = &tier;
    opt.n_tiers = 1;
    kvt_cache *c = toy_open(&opt);
    kvt_match_result r = match_all(c, seq_new(c), FIRST, PROMPT);
    assert_int_equal(r.n_tokens, 0);
    kvt_close(c);
    return r.reason;
}

static void why_records_of_others_are_not_found(void **state) {
    static const struct {
        uint32_t contract;
        kvt_miss reason;
    } cases[] = {{KVT_NUMERIC_CONTRACT + 1, KVT_MISS_OTHER_MODEL},
                 {KVT_NUMERIC_CONTRACT - 1, KVT_MISS_OTHER_MODEL},
                 {KVT_NUMERIC_CONTRACT, KVT_MISS_OTHER_FORMAT}};
    (void)state;
    kvt_options opt = finds_options(2, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvt_tier *tier;
        assert_int_equal(kvt_tier_memory(&tier, 1 << 20), KVT_OK);
        assert_int_equal(reason_over(tier, opt), KVT_MISS_COLD);
        space_make(tier, &opt, cases[i].contract);
        assert_int_equal(reason_over(tier, opt), cases[i].reason);
        kvt_tier_close(tier);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(why_records_of_others_are_not_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
