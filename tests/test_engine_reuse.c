/* test_engine_reuse.c - what an engine does not compute a second time: beginnings that the cache knows, and
 * those that another sequence is computing. Whatever was found, the logits are those of a cold cache in every bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cohort.h"

/* ------------------------------------------------------------------------------------------------ warm and cold */

/* What the first one leaves: its full blocks. */
enum { N_FULL = (N_PROMPT + N_MORE) / BLOCK * BLOCK };

/* A prompt that shares its first `common` tokens with one that was there before. */
static void check_hit(const model *m, format_case f, int common) {
    int32_t first[N_PROMPT + N_MORE], second[N_PROMPT + N_MORE];
    cohort_ids(m, 1, first, N_PROMPT + N_MORE);
    cohort_ids(m, 2, second, N_PROMPT + N_MORE);
    memcpy(second, first, (size_t)common * sizeof first[0]);
    second[common] = first[common] == 5 ? 6 : 5;

    rows expected = run_alone(m, engine_in_format(engine_cold(), f), second, N_PROMPT);
    engine *e = cohort_engine(m, engine_in_format(engine_plain(), f));
    free(run_in(e, first, N_PROMPT).at);
    engine_counters before = engine_counted(e);
    assert_int_equal(before.tokens_found, 0);
    assert_same_rows(run_in(e, second, N_PROMPT), expected, "after so many common tokens:", common);
    engine_counters after = engine_counted(e);
    int found = (int)after.tokens_found, most = common < N_FULL ? common : N_FULL;
    assert_true(found >= whole_blocks(most) && found <= most);
    if (!f.codes) assert_int_equal(found, most);
    assert_int_equal(after.prefill_positions - before.prefill_positions, N_PROMPT - found);
    assert_int_equal(after.tokens_fetched, 0);
    engine_close(e);
    free(expected.at);
}

static void test_warm_equals_cold_in_every_format(void **state) {
    (void)state;
    static const int commons[] = { 0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7, N_PROMPT - 1,
                                   N_PROMPT };
    for (int m = 0; m < 3; m++)
        for (int f = 0; f < N_FORMATS; f++)
            for (size_t i = 0; i < sizeof commons / sizeof commons[0]; i++)
                if (m == 0 || i % 3 == 1) check_hit(cohort_models[m], format_cases[f], commons[i]);
}

/* Every length of a hit, for one format that is kept as it comes and one of codes. */
static void test_warm_equals_cold_at_every_length(void **state) {
    (void)state;
    for (int n = 0; n <= N_PROMPT; n++) {
        check_hit(cohort_models[2], format_cases[0], n);
        check_hit(cohort_models[2], format_cases[6], n);
    }
}

static void test_other_kinds_of_cache_and_no_sharing_find_nothing(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    cohort_ids(cohort_models[0], 1, ids, N_PROMPT + N_MORE);
    rows expected = run_alone(cohort_models[0], engine_cold(), ids, N_PROMPT);
    for (int kind = 0; kind < 3; kind++) {
        engine_options opt = kind == KVT_PAGED ? engine_cold() : engine_plain();
        opt.kind = (kvt_cache_kind)kind;
        engine *e = cohort_engine(cohort_models[0], opt);
        for (int i = 0; i < 2; i++) assert_same_rows(run_in(e, ids, N_PROMPT), expected, "kind", kind);
        assert_int_equal(engine_counted(e).tokens_found, 0);
        engine_close(e);
    }
    free(expected.at);
}

/* -------------------------------------------------------------------------------------------- waiting for others */

static void test_what_prompts_have_in_common_is_computed_once(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    static const int chunks[] = { 5, BLOCK, 40, 512 };
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        engine_options opt = engine_plain();
        opt.chunk = chunks[i];
        engine_counters count = cohort_run(&c, opt, i % 2);
        assert_int_equal(count.positions_computed, N_SEQS * N_PROMPT - (N_SEQS - 1) * N_COMMON);
        assert_int_equal(count.tokens_found, (N_SEQS - 1) * N_COMMON);
        opt.wait = false;
        if (opt.chunk < 512) continue;
        assert_int_equal(cohort_run(&c, opt, false).positions_computed, N_SEQS * N_PROMPT);
    }
    cohort_free(&c);
}

/* Caches that cannot be asked make nobody wait. */
static void test_other_kinds_of_cache_compute_all_at_once(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    for (int kind = KVT_CONTIGUOUS; kind <= KVT_NONE; kind++) {
        engine_options opt = engine_plain();
        opt.kind = (kvt_cache_kind)kind;
        engine_counters count = cohort_run(&c, opt, false);
        assert_int_equal(count.positions_computed, N_SEQS * N_PROMPT);
        assert_int_equal(count.n_steps, 1);
    }
    cohort_free(&c);
}

/* The first one goes away before the common beginning is computed: the others go on, one of them as the first. */
static void test_whoever_waits_goes_on_when_the_other_one_ends(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    for (int n_steps = 0; n_steps < 5; n_steps++) {
        engine_options opt = engine_plain();
        opt.chunk = BLOCK;
        engine *e = cohort_engine(cohort_models[1], opt);
        int seq[N_SEQS];
        for (int i = 0; i < N_SEQS; i++) seq[i] = cohort_add(e, c.ids[i], N_PROMPT);
        for (int i = 0; i < n_steps; i++) assert_int_equal(engine_step(e), KVT_OK);
        engine_end(e, seq[0]);
        bool done[N_SEQS] = { true };
        while (engine_waiting(e)) {
            assert_int_equal(engine_step(e), KVT_OK);
            for (int i = 1; i < N_SEQS; i++) {
                if (done[i] || !engine_logits(e, seq[i])) continue;
                assert_prompt_row(&c, e, seq[i], i);
                done[i] = true;
            }
        }
        for (int i = 0; i < N_SEQS; i++) assert_true(done[i]);
        engine_close(e);
    }
    cohort_free(&c);
}

/* Another one whose number is that of one that ended is not taken for it. */
static void test_a_sequence_in_the_place_of_another_is_not_waited_for(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    engine_options opt = engine_plain();
    opt.sequences_max = 2;
    engine *e = cohort_engine(cohort_models[1], opt);
    int first = cohort_add(e, c.ids[0], N_PROMPT), second = cohort_add(e, c.ids[1], N_PROMPT);
    engine_end(e, first);
    int32_t other[N_PROMPT];
    cohort_ids(cohort_models[1], 99, other, N_PROMPT);
    assert_int_equal(cohort_add(e, other, N_PROMPT), first);
    assert_int_equal(engine_step(e), KVT_OK);
    assert_prompt_row(&c, e, second, 1);
    engine_close(e);
    cohort_free(&c);
}

/* --------------------------------------------------------------------------------------------------- a full cache */

/* Between the least that a cache can have and room for all, with sequences that come to their prompts' ends or stay. */
static void test_a_full_cache_stops_nobody_for_ever(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    for (int n_blocks = 8; n_blocks <= 26; n_blocks += 3) {
        engine_options opt = engine_plain();
        opt.context = 128;
        opt.cache_bytes = bytes_of_blocks(cohort_models[1], n_blocks);
        for (opt.chunk = 7; opt.chunk < 100; opt.chunk += 40) cohort_run(&c, opt, true);
        kvt_tier *tier = cohort_tier();
        cohort_run(&c, engine_with_tier(opt, &tier), true);
        engine_counters count = cohort_run(&c, engine_with_tier(opt, &tier), true);
        assert_true(count.tokens_fetched > 0);
        kvt_tier_close(tier);
    }
    cohort_free(&c);
}

/* The oldest has what it wants, and stays; the next one finds no room beside it, and the youngest would. */
static void test_nobody_waits_for_one_that_is_paused(void **state) {
    (void)state;
    enum { N_OLDEST = 7 * BLOCK - 1, N_LARGE = 7 * BLOCK, N_SMALL = 2 * BLOCK + 8 };
    int32_t ids[2][N_LARGE];
    for (int i = 0; i < 2; i++) cohort_ids(cohort_models[1], (uint64_t)(60 + i), ids[i], N_LARGE);
    engine_options opt = engine_plain();
    opt.cache_bytes = bytes_of_blocks(cohort_models[1], 10);
    opt.chunk = 4 * BLOCK;
    engine *e = cohort_engine(cohort_models[1], opt);
    cohort_add(e, ids[0], N_OLDEST);
    cohort_step_all(e);
    int large = cohort_add(e, ids[1], N_LARGE), small = cohort_add(e, ids[1], N_SMALL);
    assert_int_equal(engine_step(e), KVT_OK);
    assert_non_null(engine_logits(e, small));
    assert_null(engine_logits(e, large));
    assert_int_equal(engine_counted(e).n_paused, 1);
    engine_close(e);
}

/* Two that do not fit together: the younger one gives way, and finds its own blocks when it comes back. */
static void test_what_a_paused_sequence_finds_again_is_counted_apart(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t ids[2][N];
    kvt_tier *tier = cohort_tier();
    engine_options opt = engine_with_tier(engine_plain(), &tier);
    opt.cache_bytes = bytes_of_blocks(cohort_models[1], 8);
    opt.chunk = BLOCK;
    engine *e = cohort_engine(cohort_models[1], opt);
    int seq[2];
    for (int i = 0; i < 2; i++) {
        cohort_ids(cohort_models[1], (uint64_t)(40 + i), ids[i], N);
        seq[i] = cohort_add(e, ids[i], N);
    }
    while (engine_waiting(e)) {
        assert_int_equal(engine_step(e), KVT_OK);
        for (int i = 0; i < 2; i++)
            if (engine_logits(e, seq[i])) engine_end(e, seq[i]);
    }
    engine_counters count = engine_counted(e);
    assert_true(count.n_paused > 0);
    assert_true(count.tokens_resumed > 0);
    assert_int_equal(count.tokens_found + count.tokens_fetched, count.tokens_resumed);
    assert_int_equal(engine_stats(e).tokens_resumed, count.tokens_resumed);
    engine_close(e);
    kvt_tier_close(tier);
}

/* -------------------------------------------------------------------------------------------------------- answers */

typedef struct seen {
    int64_t done, total;
} seen;

static void see(void *ctx, int64_t done, int64_t total) {
    assert_true(done >= 0 && done <= total);
    *(seen *)ctx = (seen){ done, total };
}

static void test_progress_is_of_what_is_really_read(void **state) {
    (void)state;
    cohort c = cohort_of(cohort_models[1]);
    prompt prompts[N_SEQS];
    answer answers[N_SEQS];
    error_text err;
    seen last;
    for (int i = 0; i < N_SEQS; i++) prompts[i] = (prompt){ c.ids[i], N_PROMPT };
    engine *e = cohort_engine(cohort_models[1], engine_plain());
    generate_options g = {
        .prompts = prompts,
        .n_prompts = N_SEQS,
        .n_samples = 1,
        .tokens_max = 3,
        .sampling = sample_options_default(),
        .on_progress = see,
        .ctx = &last,
    };
    for (int turn = 0; turn < 2; turn++) {
        engine_counters before = engine_counted(e);
        if (generate(e, &g, answers, &err) != KVT_OK) fail_msg("%s", err.text);
        int64_t read = (int64_t)(engine_counted(e).prefill_positions - before.prefill_positions);
        assert_int_equal(last.done, read);
        assert_int_equal(last.total, read);
        int once = N_SEQS * N_PROMPT - (N_SEQS - 1) * N_COMMON, again = N_SEQS * (N_PROMPT - whole_blocks(N_PROMPT));
        assert_int_equal(read, turn ? again : once);
        answers_free(answers, N_SEQS);
    }
    engine_close(e);
    cohort_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_equals_cold_in_every_format),
        cmocka_unit_test(test_warm_equals_cold_at_every_length),
        cmocka_unit_test(test_other_kinds_of_cache_and_no_sharing_find_nothing),
        cmocka_unit_test(test_what_prompts_have_in_common_is_computed_once),
        cmocka_unit_test(test_other_kinds_of_cache_compute_all_at_once),
        cmocka_unit_test(test_whoever_waits_goes_on_when_the_other_one_ends),
        cmocka_unit_test(test_a_sequence_in_the_place_of_another_is_not_waited_for),
        cmocka_unit_test(test_a_full_cache_stops_nobody_for_ever),
        cmocka_unit_test(test_nobody_waits_for_one_that_is_paused),
        cmocka_unit_test(test_what_a_paused_sequence_finds_again_is_counted_apart),
        cmocka_unit_test(test_progress_is_of_what_is_really_read),
    };
    return cmocka_run_group_tests(tests, cohort_begin, cohort_end);
}
