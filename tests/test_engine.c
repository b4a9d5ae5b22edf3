/* test_engine.c - the engine: logits that do not depend, in a single bit, on the kind of cache, threads, chunks,
 * blocks, the batch, forks, truncation or a full cache; and what answers stop at, cost and share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fixture.h"

/* ------------------------------------------------------------------------------------------- what is run */

/* A text of n_tokens ids, its first n_prompt given at once and the others one after the other: n_tokens - n_prompt + 1
 * rows of logits. */
typedef struct script {
    const model *model;
    int n_prompt, n_tokens;
    uint64_t seed;
} script;

static kvt_workers *teams[4]; /* by number of threads */

static kvt_workers *team_of(int n_threads) {
    if (!teams[n_threads]) assert_int_equal(kvt_workers_open(&teams[n_threads], n_threads), KVT_OK);
    return teams[n_threads];
}

static model *open_model(const char *path) {
    error_text err;
    model *m;
    if (model_open(&m, path, team_of(2), &err) != KVT_OK) fail_msg("%s", err.text);
    return m;
}

static int32_t *ids_of(const script *s) {
    int32_t *ids = calloc((size_t)s->n_tokens, sizeof *ids);
    uint64_t x = s->seed * 2 + 1;
    for (int i = 0; i < s->n_tokens; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((x >> 33) % (uint64_t)model_config_of(s->model)->n_vocab);
    }
    return ids;
}

static int rows_of(const script *s) {
    return s->n_tokens - s->n_prompt + 1;
}

static size_t row_floats(const script *s) {
    return (size_t)model_config_of(s->model)->n_vocab;
}

static engine *engine_for(const script *s, int n_threads, engine_options opt) {
    error_text err;
    engine *e;
    if (engine_open(&e, s->model, team_of(n_threads), &opt, &err) != KVT_OK) fail_msg("%s", err.text);
    return e;
}

static void step_all(engine *e) {
    while (engine_waiting(e)) assert_int_equal(engine_step(e), KVT_OK);
}

/* Let a sequence that has its prompt's logits go on to the script's end; rows [rows_of]. */
static void follow(engine *e, int seq, const script *s, const int32_t *ids, float *rows) {
    for (int i = s->n_prompt;; i++) {
        const float *logits = engine_logits(e, seq);
        assert_non_null(logits);
        memcpy(rows + (size_t)(i - s->n_prompt) * row_floats(s), logits, row_floats(s) * sizeof *rows);
        if (i == s->n_tokens) break;
        assert_int_equal(engine_append(e, seq, ids[i]), KVT_OK);
        step_all(e);
    }
}

static float *run_in(engine *e, const script *s) {
    float *rows = calloc((size_t)rows_of(s) * row_floats(s), sizeof *rows);
    int32_t *ids = ids_of(s);
    int seq;
    assert_int_equal(engine_add(e, ids, s->n_prompt, &seq), KVT_OK);
    step_all(e);
    follow(e, seq, s, ids, rows);
    engine_end(e, seq);
    free(ids);
    return rows;
}

static float *run_alone(const script *s, int n_threads, engine_options opt) {
    engine *e = engine_for(s, n_threads, opt);
    float *rows = run_in(e, s);
    engine_close(e);
    return rows;
}

static void assert_same_bits(const script *s, const float *a, const float *b, const char *what) {
    size_t n = row_floats(s);
    for (int i = 0; i < rows_of(s); i++)
        if (memcmp(a + (size_t)i * n, b + (size_t)i * n, n * sizeof *a) != 0) fail_msg("%s: row %d differs", what, i);
}

/* ---------------------------------------------------------------------------------------- the subjects */

enum { N_SUBJECTS = 4 };
static model *models[N_SUBJECTS];

/* Three small models and, where it is there, the default one. */
static script subject(int i) {
    static const char *const names[] = { "tests/vectors/tiny-a.gguf", "tests/vectors/tiny-b.gguf",
                                         "tests/vectors/tiny-c.gguf" };
    if (i == 3 && fixture_quick()) return (script){ 0 };
    const char *path = i < 3 ? names[i] : fixture_model();
    if (!path) {
        if (getenv("KVTILE_DATA")) fail_msg("the default model is not there, though KVTILE_DATA is set");
        print_message("skipped: the default model is not there\n");
        return (script){ 0 };
    }
    if (!models[i]) models[i] = open_model(path);
    return i < 3 ? (script){ models[i], 150, 156, 7 } : (script){ models[i], 90, 93, 7 };
}

static engine_options plain(void) {
    engine_options opt = engine_options_default();
    opt.sequences_max = 5;
    return opt;
}

static engine_options plain_in(kvt_math math) {
    engine_options opt = plain();
    opt.math = math;
    return opt;
}

static engine_options with_context(engine_options opt, const script *s) {
    if (opt.kind == KVT_NONE) opt.context = s->n_tokens;
    return opt;
}

static void compare(const script *s, const float *expected, int n_threads, engine_options opt, const char *what) {
    float *rows = run_alone(s, n_threads, with_context(opt, s));
    assert_same_bits(s, rows, expected, what);
    free(rows);
}

/* Each variation of how the same text is computed. */
static void check_variations(const script *s, kvt_math math) {
    char what[64];
    engine_options opt = plain_in(math);
    float *expected = run_alone(s, 2, opt);
    for (int kind = 0; kind < 3; kind++) {
        opt.kind = (kvt_cache_kind)kind;
        compare(s, expected, 2, opt, kvt_cache_kind_name(opt.kind));
    }
    opt = plain_in(math);
    for (int n = 1; n <= 3; n++) {
        snprintf(what, sizeof what, "%d threads", n);
        compare(s, expected, n, opt, what);
    }
    static const int chunks[] = { 1, 7, 16, 64, 2048 };
    for (int i = s->n_tokens < 1000 ? 0 : 3; i < 5; i++) { /* small ones take long on a long text */
        opt.chunk = chunks[i];
        snprintf(what, sizeof what, "chunks of %d", chunks[i]);
        compare(s, expected, 2, opt, what);
    }
    opt = plain_in(math);
    for (opt.block_tokens = 16; opt.block_tokens <= 64; opt.block_tokens *= 2) {
        snprintf(what, sizeof what, "blocks of %d", opt.block_tokens);
        compare(s, expected, 2, opt, what);
    }
    free(expected);
}

static void test_same_bits_for_cache_kind_threads_chunk_and_block(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        script s = subject(i);
        if (s.model) check_variations(&s, KVT_MATH_FAST);
    }
    script quantised = subject(2);
    check_variations(&quantised, KVT_MATH_ACCURATE);
    /* Over the end of a segment of 1,024 tokens, where attention merges. */
    script longer = subject(3);
    longer.n_prompt = 1021;
    longer.n_tokens = 1025;
    if (longer.model) check_variations(&longer, KVT_MATH_FAST);
}

static void test_the_rows_are_not_trivially_equal(void **state) {
    (void)state;
    script s = subject(2), other = s;
    other.seed++;
    float *a = run_alone(&s, 1, plain()), *b = run_alone(&other, 1, plain());
    for (int i = 0; i < rows_of(&s); i++)
        assert_memory_not_equal(a + (size_t)i * row_floats(&s), b + (size_t)i * row_floats(&s),
                                row_floats(&s) * sizeof *a);
    free(a);
    free(b);
}

static void test_each_math_has_its_own_bits(void **state) {
    (void)state;
    script s = subject(2); /* the one whose weights are quantised */
    float *rows[3];
    for (int math = 0; math < 3; math++) rows[math] = run_alone(&s, 1, plain_in((kvt_math)math));
    for (int math = 0; math < 3; math++)
        assert_memory_not_equal(rows[math], rows[(math + 1) % 3], row_floats(&s) * sizeof *rows[0]);
    for (int math = 0; math < 3; math++) free(rows[math]);
}

/* Five texts of different lengths whose steps go through the engine together. */
static void check_batch(const script *s, engine_options opt) {
    enum { N = 5 };
    script each[N];
    float *alone[N], *rows[N];
    int32_t *ids[N];
    int seq[N];
    for (int i = 0; i < N; i++) {
        each[i] = *s;
        each[i].n_prompt = s->n_prompt / (i + 1) + 3 * i;
        each[i].n_tokens = each[i].n_prompt + rows_of(s) - 1;
        each[i].seed = (uint64_t)(10 + i);
        alone[i] = run_alone(&each[i], 2, with_context(plain(), s));
        rows[i] = calloc((size_t)rows_of(s) * row_floats(s), sizeof *rows[i]);
        ids[i] = ids_of(&each[i]);
    }

    engine *e = engine_for(s, 2, opt);
    for (int i = 0; i < N; i++) assert_int_equal(engine_add(e, ids[i], each[i].n_prompt, &seq[i]), KVT_OK);
    int row[N] = { 0 };
    while (engine_waiting(e)) {
        assert_int_equal(engine_step(e), KVT_OK);
        for (int i = 0; i < N; i++) {
            const float *logits = engine_logits(e, seq[i]);
            if (!logits) continue;
            memcpy(rows[i] + (size_t)row[i] * row_floats(s), logits, row_floats(s) * sizeof *logits);
            int next = each[i].n_prompt + row[i]++;
            if (next == each[i].n_tokens) engine_end(e, seq[i]);
            else assert_int_equal(engine_append(e, seq[i], ids[i][next]), KVT_OK);
        }
    }
    engine_close(e);

    for (int i = 0; i < N; i++) {
        assert_int_equal(row[i], rows_of(s));
        assert_same_bits(&each[i], rows[i], alone[i], "in a batch of five");
        free(alone[i]);
        free(rows[i]);
        free(ids[i]);
    }
}

static void test_same_bits_alone_and_in_a_batch(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        script s = subject(i);
        if (!s.model) continue;
        engine_options opt = plain();
        check_batch(&s, opt);
        opt.chunk = 33; /* prompts that are cut while others decode */
        check_batch(&s, opt);
        opt = plain();
        opt.kind = KVT_CONTIGUOUS;
        check_batch(&s, opt);
        opt.kind = KVT_NONE;
        opt.context = s.n_tokens; /* steps that have no room for all five */
        if (i < 3) check_batch(&s, opt);
    }
}

static void check_fork(const script *s, kvt_cache_kind kind) {
    script other = *s;
    other.n_prompt += 2; /* what the fork goes on with, in the middle of a block */
    engine_options opt = plain();
    opt.kind = kind;
    opt = with_context(opt, s);
    float *expected = run_alone(s, 2, opt), *rows = calloc((size_t)rows_of(s) * row_floats(s), sizeof *rows);
    int32_t *ids = ids_of(s);
    engine *e = engine_for(s, 2, opt);
    int seq, fork;
    assert_int_equal(engine_add(e, ids, s->n_prompt, &seq), KVT_OK);
    step_all(e);

    assert_int_equal(engine_fork(e, seq, &fork), KVT_OK);
    follow(e, fork, s, ids, rows);
    assert_same_bits(s, rows, expected, "a fork");
    int32_t swerve = ids[s->n_prompt] == 5 ? 6 : 5;
    assert_int_equal(engine_append(e, seq, swerve), KVT_OK);
    step_all(e);
    assert_memory_not_equal(engine_logits(e, seq), expected + row_floats(s), row_floats(s) * sizeof *rows);

    /* And the first one, back at the prompt's end, does not know that it ever went another way. */
    assert_int_equal(engine_truncate(e, seq, s->n_prompt), KVT_OK);
    step_all(e);
    follow(e, seq, s, ids, rows);
    assert_same_bits(s, rows, expected, "after truncate");
    assert_int_equal(engine_truncate(e, seq, s->n_prompt / 3), KVT_OK);
    for (int i = s->n_prompt / 3; i < s->n_prompt; i++) assert_int_equal(engine_append(e, seq, ids[i]), KVT_OK);
    step_all(e);
    follow(e, seq, s, ids, rows);
    assert_same_bits(s, rows, expected, "after truncate into the prompt");
    engine_close(e);
    free(expected);
    free(rows);
    free(ids);
}

static void test_same_bits_after_fork_and_truncate(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        script s = subject(i);
        for (int kind = 0; s.model && kind < (i < 3 ? 3 : 2); kind++) check_fork(&s, (kvt_cache_kind)kind);
    }
}

/* ----------------------------------------------------------------------------------------- a full cache */

static void test_a_full_cache_pauses_the_youngest_and_changes_no_bit(void **state) {
    (void)state;
    script s = subject(2);
    engine_options opt = plain();
    opt.block_tokens = 16;
    opt.context = 170;
    const model_config *c = model_config_of(s.model);
    size_t per_token = (size_t)c->n_layers * (size_t)(c->n_heads_kv * (c->dim_k + c->dim_v)) * 2;
    opt.cache_bytes = per_token * 16 * 24; /* 24 blocks: two of five texts at full length */
    for (int kind = 0; kind < 2; kind++) {
        opt.kind = (kvt_cache_kind)kind;
        check_batch(&s, opt);
    }

    opt.kind = KVT_PAGED;
    opt.share = false; /* three times the same text would take the room of one */
    engine *e = engine_for(&s, 1, opt);
    int32_t *ids = ids_of(&s);
    int seq[3];
    for (int i = 0; i < 3; i++) assert_int_equal(engine_add(e, ids, s.n_prompt, &seq[i]), KVT_OK);
    for (int i = 0; i < 6 && !engine_logits(e, seq[0]); i++) assert_int_equal(engine_step(e), KVT_OK);
    assert_true(engine_counted(e).n_paused > 0);
    assert_non_null(engine_logits(e, seq[0]));
    engine_end(e, seq[0]);
    engine_end(e, seq[1]);
    step_all(e);
    assert_non_null(engine_logits(e, seq[2]));
    engine_close(e);
    free(ids);
}

static void test_a_cache_for_less_than_one_sequence_is_refused(void **state) {
    (void)state;
    script s = subject(0);
    engine_options opt = plain();
    engine *e;
    error_text err = { "" };
    opt.cache_bytes = 4096;
    assert_int_equal(engine_open(&e, s.model, team_of(1), &opt, &err), KVT_E_LIMIT);
    assert_null(e);
    assert_true(strlen(err.text) > 0);
}

static void test_a_limit_is_no_wish_for_more(void **state) {
    (void)state;
    script s = subject(0);
    engine_options opt = plain();
    kvt_bytes_info unlimited, limited;
    engine *e;
    error_text err = { "" };
    assert_int_equal(engine_bytes(s.model, &opt, &unlimited), KVT_OK);
    opt.cache_bytes = SIZE_MAX / 4;
    assert_int_equal(engine_bytes(s.model, &opt, &limited), KVT_OK);
    assert_int_equal(limited.bytes_total, unlimited.bytes_total);
    assert_int_equal(engine_open(&e, s.model, team_of(1), &opt, &err), KVT_OK);
    engine_close(e);
}

/* --------------------------------------------------------------------------------------------- answers */

typedef struct heard {
    int n_tokens[8], n_logits[8];
} heard;

static void hear_token(void *ctx, int index, int32_t token) {
    (void)token;
    ((heard *)ctx)->n_tokens[index]++;
}

static void hear_logits(void *ctx, int index, const float *logits) {
    (void)logits;
    ((heard *)ctx)->n_logits[index]++;
}

static generate_options asking(const prompt *p, int n_prompts, int n_samples, int tokens_max) {
    sample_options sampling = sample_options_default();
    sampling.temp = 1;
    sampling.seed = 3;
    return (generate_options){
        .prompts = p,
        .n_prompts = n_prompts,
        .n_samples = n_samples,
        .tokens_max = tokens_max,
        .sampling = sampling,
    };
}

static void answer_with(const script *s, engine_options opt, const generate_options *g, answer *out,
                        engine_counters *count) {
    error_text err;
    engine *e = engine_for(s, 2, opt);
    if (generate(e, g, out, &err) != KVT_OK) fail_msg("%s", err.text);
    if (count) *count = engine_counted(e);
    engine_close(e);
}

static void assert_same_answer(const answer *a, const answer *b) {
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->finish, b->finish);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof a->tokens[0]);
}

static void test_samples_share_one_prefill_and_equal_their_own_runs(void **state) {
    (void)state;
    script s = subject(1);
    int32_t *ids = ids_of(&s);
    prompt p = { ids, s.n_prompt };
    answer one[1], four[4];
    engine_counters count;
    heard h = { { 0 }, { 0 } };
    generate_options g = asking(&p, 1, 4, 12);
    g.on_token = hear_token;
    g.on_logits = hear_logits;
    g.ctx = &h;
    engine_options opt = plain();
    answer_with(&s, opt, &g, four, &count);

    assert_int_equal(count.prefill_positions, s.n_prompt);
    int n_tokens = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(h.n_tokens[i], four[i].n_tokens);
        assert_int_equal(h.n_logits[i], four[i].n_tokens);
        n_tokens += four[i].n_tokens;
    }
    assert_int_equal(count.positions_computed, s.n_prompt + n_tokens - 4);
    assert_true(four[0].n_tokens != four[1].n_tokens ||
                memcmp(four[0].tokens, four[1].tokens, (size_t)four[0].n_tokens * sizeof(int32_t)) != 0);
    g = asking(&p, 1, 1, 12);
    answer_with(&s, opt, &g, one, NULL);
    assert_same_answer(&one[0], &four[0]);
    answers_free(one, 1);
    for (int kind = 1; kind < 3; kind++) {
        answer again[4];
        opt.kind = (kvt_cache_kind)kind;
        g = asking(&p, 1, 4, 12);
        answer_with(&s, opt, &g, again, NULL);
        for (int i = 0; i < 4; i++) assert_same_answer(&again[i], &four[i]);
        answers_free(again, 4);
    }
    answers_free(four, 4);
    free(ids);
}

static void test_prompts_in_one_batch_equal_their_own_runs(void **state) {
    (void)state;
    script s = subject(0);
    int32_t *ids = ids_of(&s);
    prompt p[3] = { { ids, 90 }, { ids + 20, 1 }, { ids + 5, 40 } };
    answer all[3], one[1];
    generate_options g = asking(p, 3, 1, 20);
    answer_with(&s, plain(), &g, all, NULL);
    for (int i = 0; i < 3; i++) {
        g = asking(&p[i], 1, 1, 20);
        answer_with(&s, plain(), &g, one, NULL);
        assert_same_answer(&one[0], &all[i]);
        answers_free(one, 1);
    }
    answers_free(all, 3);
    free(ids);
}

/* A prompt of P and N tokens: P + N - 1 positions with a cache, the sum of P .. P + N - 1 without. */
static void test_positions_computed(void **state) {
    (void)state;
    script s = subject(0);
    int32_t *ids = ids_of(&s);
    prompt p = { ids, 100 };
    for (int kind = 0; kind < 3; kind++) {
        answer a[1];
        engine_counters count;
        engine_options opt = plain();
        opt.kind = (kvt_cache_kind)kind;
        generate_options g = asking(&p, 1, 1, 10);
        g.sampling.seed = 1;
        answer_with(&s, opt, &g, a, &count);
        int n = a[0].n_tokens, with = 100 + n - 1, without = 100 * n + n * (n - 1) / 2;
        assert_true(n > 1);
        assert_int_equal(count.positions_computed, kind == KVT_NONE ? without : with);
        answers_free(a, 1);
    }
    free(ids);
}

static void test_answers_stop_where_the_context_ends(void **state) {
    (void)state;
    script s = subject(0);
    int32_t *ids = ids_of(&s);
    prompt p = { ids, 100 };
    engine_options opt = plain();
    opt.context = 104;
    answer a[1];
    engine_counters count;
    generate_options g = asking(&p, 1, 1, 1000);
    g.sampling.seed = 1;
    answer_with(&s, opt, &g, a, &count);
    assert_int_equal(a[0].finish, FINISH_LENGTH);
    assert_int_equal(a[0].n_tokens, 5); /* the last one is told, but has no place to be read from */
    assert_int_equal(count.positions_computed, 104);
    answers_free(a, 1);

    error_text err = { "" };
    opt.context = 99;
    engine *e = engine_for(&s, 1, opt);
    assert_int_equal(generate(e, &g, a, &err), KVT_E_LIMIT);
    assert_non_null(strstr(err.text, "100"));
    assert_non_null(strstr(err.text, "99"));
    assert_int_equal(engine_counted(e).positions_computed, 0);
    engine_close(e);
    free(ids);
}

static volatile sig_atomic_t stop_flag;

static void stop_after_three(void *ctx, int index, int32_t token) {
    heard *h = ctx;
    (void)token;
    if (++h->n_tokens[index] == 3) stop_flag = 1;
}

static void test_a_stop_ends_answers_between_steps(void **state) {
    (void)state;
    script s = subject(0);
    int32_t *ids = ids_of(&s);
    prompt p = { ids, 50 };
    answer a[1];
    heard h = { { 0 }, { 0 } };
    generate_options g = asking(&p, 1, 1, 100);
    g.sampling.seed = 1;
    g.on_token = stop_after_three;
    g.ctx = &h;
    g.stop = &stop_flag;
    answer_with(&s, plain(), &g, a, NULL);
    assert_int_equal(a[0].n_tokens, 3);
    assert_int_equal(a[0].finish, FINISH_INTERRUPTED);
    answers_free(a, 1);
    free(ids);
}

static int close_all(void **state) {
    (void)state;
    for (int i = 0; i < N_SUBJECTS; i++) model_close(models[i]);
    for (int i = 0; i < 4; i++) kvt_workers_close(teams[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_for_cache_kind_threads_chunk_and_block),
        cmocka_unit_test(test_the_rows_are_not_trivially_equal),
        cmocka_unit_test(test_each_math_has_its_own_bits),
        cmocka_unit_test(test_same_bits_alone_and_in_a_batch),
        cmocka_unit_test(test_same_bits_after_fork_and_truncate),
        cmocka_unit_test(test_a_full_cache_pauses_the_youngest_and_changes_no_bit),
        cmocka_unit_test(test_a_cache_for_less_than_one_sequence_is_refused),
        cmocka_unit_test(test_a_limit_is_no_wish_for_more),
        cmocka_unit_test(test_samples_share_one_prefill_and_equal_their_own_runs),
        cmocka_unit_test(test_prompts_in_one_batch_equal_their_own_runs),
        cmocka_unit_test(test_positions_computed),
        cmocka_unit_test(test_answers_stop_where_the_context_ends),
        cmocka_unit_test(test_a_stop_ends_answers_between_steps),
    };
    return cmocka_run_group_tests(tests, NULL, close_all);
}
