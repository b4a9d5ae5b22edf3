/* test_engine_tiers.c - engines whose blocks outlive them: what a later one finds in a tier, in the same bits, and what
 * a tier that misbehaves or says nothing costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cohort.h"
#include "faulty_tier.h"

static void test_a_later_engine_finds_in_a_tier_what_an_earlier_one_computed(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    cohort_ids(cohort_models[2], 1, ids, N_PROMPT + N_MORE);
    for (int f = 0; f < N_FORMATS; f++) {
        kvt_tier *tier = cohort_tier();
        engine_options opt = engine_with_tier(engine_in_format(engine_plain(), format_cases[f]), &tier);
        rows expected = run_alone(cohort_models[2], engine_in_format(engine_cold(), format_cases[f]), ids, N_PROMPT);
        assert_same_rows(run_alone(cohort_models[2], opt, ids, N_PROMPT), expected, "writing, format", f);
        engine *e = cohort_engine(cohort_models[2], opt);
        assert_same_rows(run_in(e, ids, N_PROMPT), expected, "reading, format", f);
        engine_counters count = engine_counted(e);
        assert_int_equal(count.tokens_fetched, whole_blocks(N_PROMPT - 1));
        assert_int_equal(count.tokens_found, 0);
        assert_int_equal(count.prefill_positions, N_PROMPT - whole_blocks(N_PROMPT - 1));
        engine_close(e);
        kvt_tier_close(tier);
        free(expected.at);
    }
}

static void test_what_a_cache_takes_is_known_with_a_tier_too(void **state) {
    (void)state;
    kvt_tier *tier = cohort_tier();
    kvt_bytes_info without, with;
    engine_options opt = engine_plain();
    assert_int_equal(engine_bytes(cohort_models[0], &opt, &without), KVT_OK);
    opt = engine_with_tier(opt, &tier);
    assert_int_equal(engine_bytes(cohort_models[0], &opt, &with), KVT_OK);
    assert_int_equal(with.bytes_cache, without.bytes_cache);
    assert_true(with.bytes_total > without.bytes_total); /* what is on its way has buffers */
    opt.cache_bytes = SIZE_MAX / 4;
    assert_int_equal(engine_bytes(cohort_models[0], &opt, &without), KVT_OK);
    assert_int_equal(with.bytes_total, without.bytes_total);
    kvt_tier_close(tier);
}

static void test_a_tier_gives_nothing_to_other_arithmetic_or_weights(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    cohort_ids(cohort_models[2], 1, ids, N_PROMPT + N_MORE);
    kvt_tier *tier = cohort_tier();
    free(run_alone(cohort_models[2], engine_with_tier(engine_plain(), &tier), ids, N_PROMPT).at);
    for (int m = 0; m < 3; m += 2) {
        engine_options opt = engine_plain();
        opt.math = m == 2 ? KVT_MATH_EXACT : KVT_MATH_FAST;
        cohort_ids(cohort_models[m], 1, ids, N_PROMPT + N_MORE);
        rows expected = run_alone(cohort_models[m], opt, ids, N_PROMPT);
        engine *e = cohort_engine(cohort_models[m], engine_with_tier(opt, &tier));
        assert_same_rows(run_in(e, ids, N_PROMPT), expected, "model", m);
        assert_int_equal(engine_counted(e).tokens_fetched, 0);
        engine_close(e);
        free(expected.at);
    }
    kvt_tier_close(tier);
}

/* One fetches, the others find it in memory. */
static void test_what_prompts_have_in_common_is_fetched_once(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    kvt_tier *tier = cohort_tier();
    cohort_run(&c, engine_with_tier(engine_plain(), &tier), false);
    engine_counters count = cohort_run(&c, engine_with_tier(engine_plain(), &tier), false);
    int each = whole_blocks(N_PROMPT);
    assert_int_equal(count.positions_computed, N_SEQS * (N_PROMPT - each));
    assert_int_equal(count.tokens_found, (N_SEQS - 1) * N_COMMON);
    assert_int_equal(count.tokens_fetched, N_SEQS * each - (N_SEQS - 1) * N_COMMON);
    kvt_tier_close(tier);
    cohort_free(&c);
}

/* ------------------------------------------------------------------------------------------------- bad tiers */

static void test_a_tier_that_misbehaves_changes_no_bit(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        faulty_tier *faulty;
        kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = seed });
        engine_options opt = engine_with_tier(engine_plain(), &tier);
        opt.chunk = 40;
        if (seed % 2) opt.cache_bytes = bytes_of_blocks(cohort_models[1], 12);
        cohort_run(&c, opt, true);
        faulty_set(faulty, (faults){ .fail = 0.2, .tear = 0.2, .lie = 0.2, .forget = 0.1 });
        for (int i = 0; i < 4; i++) cohort_run(&c, opt, true);
        kvt_tier_close(tier);
    }
    cohort_free(&c);
}

static void test_a_tier_that_says_nothing_is_not_waited_for(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    faulty_tier *faulty;
    cohort_ids(cohort_models[0], 1, ids, N_PROMPT + N_MORE);
    rows expected = run_alone(cohort_models[0], engine_cold(), ids, N_PROMPT);
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = 1 });
    engine_options opt = engine_with_tier(engine_plain(), &tier);
    free(run_alone(cohort_models[0], opt, ids, N_PROMPT).at);
    engine *e = cohort_engine(cohort_models[0], opt);
    faulty_shut(faulty);
    assert_same_rows(run_in(e, ids, N_PROMPT), expected, "a shut gate", 0);
    assert_int_equal(engine_counted(e).tokens_fetched, 0);
    assert_int_equal(engine_counted(e).prefill_positions, N_PROMPT);
    faulty_let_in(faulty);
    engine_close(e);
    kvt_tier_close(tier);
    free(expected.at);
}

/* A block that is being fetched for a sequence which ended is nobody's, and not free either. */
static void test_room_that_a_fetch_holds_is_waited_for(void **state) {
    (void)state;
    enum { N_ALL = 8 * BLOCK };
    int32_t ids[N_ALL], other[N_ALL];
    faulty_tier *faulty;
    cohort_ids(cohort_models[0], 1, ids, N_ALL);
    cohort_ids(cohort_models[0], 2, other, N_ALL);
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = 1, .stall_ns = 300000000 });
    engine_options opt = engine_with_tier(engine_plain(), &tier);
    opt.cache_bytes = bytes_of_blocks(cohort_models[0], 8);
    free(run_alone(cohort_models[0], opt, ids, N_PROMPT).at);
    engine *e = cohort_engine(cohort_models[0], opt);
    faulty_set(faulty, (faults){ .stall = 1 });
    uint64_t gets = faulty_counts_of(faulty).gets;
    int seq = cohort_add(e, ids, N_PROMPT);
    while (faulty_counts_of(faulty).gets == gets) assert_int_equal(engine_step(e), KVT_OK);
    engine_end(e, seq);
    faulty_set(faulty, (faults){ 0 }); /* but for the one that is on its way */
    assert_true(engine_stats(e).moves_open > 0);
    seq = cohort_add(e, other, N_ALL);
    cohort_step_all(e);
    assert_non_null(engine_logits(e, seq));
    engine_close(e);
    kvt_tier_close(tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_later_engine_finds_in_a_tier_what_an_earlier_one_computed),
        cmocka_unit_test(test_what_a_cache_takes_is_known_with_a_tier_too),
        cmocka_unit_test(test_a_tier_gives_nothing_to_other_arithmetic_or_weights),
        cmocka_unit_test(test_what_prompts_have_in_common_is_fetched_once),
        cmocka_unit_test(test_a_tier_that_misbehaves_changes_no_bit),
        cmocka_unit_test(test_a_tier_that_says_nothing_is_not_waited_for),
        cmocka_unit_test(test_room_that_a_fetch_holds_is_waited_for),
    };
    return cmocka_run_group_tests(tests, cohort_begin, cohort_end);
}
