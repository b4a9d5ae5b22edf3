/* test_family.c - a tiny model of each architecture and of each way of stretching positions (tests/vectors/family.py):
 * logits against the reference implementation's, the same bits however the text is cut, and where contexts end. */
#include <math.h>
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
#include "subject.h"

/* ------------------------------------------------------------------------------------- what was recorded */

enum { POSITIONS_MAX = 64 };

/* A text and the reference's logits at some of its positions. */
typedef struct run {
    const char *name;
    int32_t *ids; /* [n] */
    int n, n_positions, positions[POSITIONS_MAX];
    const float *logits; /* [n_positions][n_vocab] */
} run;

static struct {
    kvt_workers *team;
    json_t *json;
    float *logits;
    run runs[64];
    int n_runs;
    size_t n_vocab;
} family;

static int open_family(void **state) {
    (void)state;
    const json_t *entry;
    size_t i, n_rows = 0, at = 0;
    assert_int_equal(kvt_workers_open(&family.team, 2), KVT_OK);
    family.json = vectors_load("family.json");
    family.n_vocab = (size_t)json_integer_value(json_object_get(family.json, "n_vocab"));
    json_array_foreach(json_object_get(family.json, "runs"), i, entry)
        n_rows += json_array_size(json_object_get(entry, "positions"));
    family.logits = floats_load("family.f32", n_rows * family.n_vocab);
    json_array_foreach(json_object_get(family.json, "runs"), i, entry) {
        run *r = &family.runs[family.n_runs++];
        r->name = json_string_value(json_object_get(entry, "name"));
        r->ids = ids_load(json_object_get(entry, "ids"), &r->n);
        int32_t *positions = ids_load(json_object_get(entry, "positions"), &r->n_positions);
        for (int j = 0; j < r->n_positions; j++) r->positions[j] = positions[j];
        r->logits = family.logits + at * family.n_vocab;
        at += (size_t)r->n_positions;
        free(positions);
    }
    return 0;
}

static int close_family(void **state) {
    (void)state;
    for (int i = 0; i < family.n_runs; i++) free(family.runs[i].ids);
    free(family.logits);
    json_decref(family.json);
    kvt_workers_close(family.team);
    return 0;
}

static const run *run_of(const char *name) {
    for (int i = 0; i < family.n_runs; i++)
        if (strcmp(family.runs[i].name, name) == 0) return &family.runs[i];
    fail_msg("%s is not in family.json", name);
    return NULL;
}

static model *model_of(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "tests/vectors/family-%s.gguf", name);
    return model_good(path, family.team);
}

/* Logits [n][n_vocab] of all positions, in chunks, of an engine made for `context` tokens. */
static float *all_logits(model *m, const run *r, kvt_math math, kvt_format format, int chunk, int context) {
    float *logits = calloc((size_t)r->n * family.n_vocab, sizeof *logits);
    subject s = subject_of(m, family.team, math, format, context, chunk);
    subject_forward(&s, r->ids, r->n, chunk, NULL, r->n, logits);
    subject_free(&s);
    return logits;
}

/* ------------------------------------------------------------------------------------------------- tests */

static double distance(const run *r, const float *logits) {
    double most = 0;
    for (int i = 0; i < r->n_positions; i++) {
        size_t from = (size_t)r->positions[i] * family.n_vocab;
        double off = worst(logits + from, r->logits + (size_t)i * family.n_vocab, family.n_vocab);
        if (!(off <= most)) most = off;
    }
    return most;
}

/* In exact mode: one prefill, token by token, odd chunks. */
static void check_exact(const run *r) {
    static const int chunks[] = { 1, 7 };
    model *m = model_of(r->name);
    float *whole = all_logits(m, r, KVT_MATH_EXACT, KVT_F32, r->n, r->n);
    double off = distance(r, whole);
    print_message("%s, %d tokens: largest difference %.2g\n", r->name, r->n, off);
    if (!(off <= 1e-4)) fail_msg("%s is off by %g", r->name, off);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        float *cut = all_logits(m, r, KVT_MATH_EXACT, KVT_F32, chunks[i], r->n);
        assert_memory_equal(cut, whole, (size_t)r->n * family.n_vocab * sizeof *whole);
        free(cut);
    }
    free(whole);
    model_close(m);
}

static void test_exact_logits_are_the_references(void **state) {
    (void)state;
    assert_true(family.n_runs >= 14);
    for (int i = 0; i < family.n_runs; i++) check_exact(&family.runs[i]);
}

static int best(const float *x, size_t n) {
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return (int)at;
}

/* The mode that people use: bits of any chunk, and the reference's first token in all but close calls. */
static void test_fast_logits_are_near(void **state) {
    (void)state;
    int same = 0, all = 0;
    for (int i = 0; i < family.n_runs; i++) {
        const run *r = &family.runs[i];
        model *m = model_of(r->name);
        float *whole = all_logits(m, r, KVT_MATH_FAST, KVT_BF16, r->n, r->n);
        float *cut = all_logits(m, r, KVT_MATH_FAST, KVT_BF16, 5, r->n);
        assert_memory_equal(cut, whole, (size_t)r->n * family.n_vocab * sizeof *whole);
        for (int j = 0; j < r->n_positions; j++, all++)
            same += best(whole + (size_t)r->positions[j] * family.n_vocab, family.n_vocab) ==
                    best(r->logits + (size_t)j * family.n_vocab, family.n_vocab);
        free(whole);
        free(cut);
        model_close(m);
    }
    print_message("fast: %d of %d first tokens are the reference's\n", same, all);
    assert_true(same >= all * 9 / 10);
}

/* LongRoPE: an engine for long contexts turns by the long factors from its first token on, one for short ones by the
 * short factors. */
static void test_the_context_asked_for_chooses_the_factors(void **state) {
    (void)state;
    const run *r = run_of("phi3-long");
    model *m = model_of(r->name);
    int original = model_config_of(m)->rope.original;
    assert_true(r->n <= original);
    float *least = all_logits(m, r, KVT_MATH_EXACT, KVT_F32, 9, r->n);
    float *most = all_logits(m, r, KVT_MATH_EXACT, KVT_F32, 9, original);
    float *beyond = all_logits(m, r, KVT_MATH_EXACT, KVT_F32, 9, original + 1);
    assert_memory_equal(least, most, (size_t)r->n * family.n_vocab * sizeof *most);
    assert_true(distance(r, most) <= 1e-4);
    assert_true(distance(r, beyond) > 0.1);
    free(least);
    free(most);
    free(beyond);
    model_close(m);
}

/* A cache that keeps nothing has a context as short as its text, and turns as the others do all the same. */
static void test_the_kind_of_cache_chooses_no_factors(void **state) {
    (void)state;
    const run *r = run_of("phi3-long");
    model *m = model_of(r->name);
    float *logits[2];
    for (int kind = 0; kind < 2; kind++) {
        error_text err;
        engine *e;
        int seq;
        engine_options opt = engine_options_default();
        if (kind == 1) {
            opt.kind = KVT_NONE;
            opt.context = r->n;
            opt.rope_context = model_context(model_config_of(m));
        }
        logits[kind] = calloc(family.n_vocab, sizeof(float));
        assert_int_equal(engine_open(&e, m, family.team, &opt, &err), KVT_OK);
        assert_int_equal(engine_add(e, r->ids, r->n, &seq), KVT_OK);
        while (engine_waiting(e)) assert_int_equal(engine_step(e), KVT_OK);
        memcpy(logits[kind], engine_logits(e, seq), family.n_vocab * sizeof(float));
        engine_close(e);
    }
    assert_memory_equal(logits[0], logits[1], family.n_vocab * sizeof(float));
    free(logits[0]);
    free(logits[1]);
    model_close(m);
}

/* A window is not there yet: contexts end where it would begin to matter. */
static void check_limit(const char *name, int limit, const char *key) {
    model *m = model_of(name);
    error_text err;
    engine *e;
    engine_options opt = engine_options_default();
    assert_int_equal(model_context(model_config_of(m)), limit);
    assert_int_equal(engine_open(&e, m, family.team, &opt, &err), KVT_OK);
    assert_int_equal(engine_options_of(e)->context, limit);
    engine_close(e);

    opt.context = limit + 1;
    char more[16], most[16];
    snprintf(more, sizeof more, "%d", limit + 1);
    snprintf(most, sizeof most, "%d", limit);
    assert_int_equal(engine_open(&e, m, family.team, &opt, &err), KVT_E_LIMIT);
    assert_null(e);
    assert_non_null(strstr(err.text, key));
    assert_non_null(strstr(err.text, more));
    assert_non_null(strstr(err.text, most));
    model_close(m);
}

static void test_contexts_end_where_a_window_would_begin(void **state) {
    (void)state;
    check_limit("mistral", 40, "sliding_window");
    check_limit("mistral3", 64, "temperature_scale");
    model *plain = model_of("qwen2");
    assert_int_equal(model_config_of(plain)->limit, 0);
    assert_int_equal(model_context(model_config_of(plain)), 128);
    model_close(plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_logits_are_the_references),
        cmocka_unit_test(test_fast_logits_are_near),
        cmocka_unit_test(test_the_context_asked_for_chooses_the_factors),
        cmocka_unit_test(test_the_kind_of_cache_chooses_no_factors),
        cmocka_unit_test(test_contexts_end_where_a_window_would_begin),
    };
    return cmocka_run_group_tests(tests, open_family, close_family);
}
