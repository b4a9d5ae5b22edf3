/* test_vectors.c - the forward pass against logits of the reference implementation (tests/vectors): every position of
 * small models of each weight type, and the default model; greedy answers; and how far `fast` and `accurate` are from
 * `exact`. */
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

/* -------------------------------------------------------------------------------------------- tiny models */

static void check_tiny(const char *name, int chunk) {
    char path[256], file[64];
    snprintf(path, sizeof path, "tests/vectors/%s.gguf", name);
    snprintf(file, sizeof file, "%s.json", name);
    json_t *v = vectors_load(file);
    int n;
    int32_t *ids = ids_load(json_object_get(v, "ids"), &n);
    int n_vocab = (int)json_integer_value(json_object_get(v, "n_vocab"));
    size_t n_logits = (size_t)n * (size_t)n_vocab;
    float *expected = floats_load(json_string_value(json_object_get(v, "logits")), n_logits);
    float *got = calloc(n_logits, sizeof *got);
    kvt_workers *team;
    assert_int_equal(kvt_workers_open(&team, 2), KVT_OK);
    model *m = model_good(path, team);
    assert_int_equal(model_config_of(m)->n_vocab, n_vocab);
    subject s = subject_of(m, team, KVT_MATH_EXACT, KVT_F32, 512, chunk < n ? chunk : n);

    subject_forward(&s, ids, n, s.rows_max, NULL, n, got);

    double off = worst(got, expected, n_logits);
    print_message("%s in chunks of %d: largest difference %.2g\n", name, s.rows_max, off);
    assert_true(off <= 1e-4);
    subject_free(&s);
    model_close(m);
    kvt_workers_close(team);
    free(got);
    free(expected);
    free(ids);
    json_decref(v);
}

static void test_tiny_models_give_the_reference_logits(void **state) {
    (void)state;
    static const char *const names[] = { "tiny-a", "tiny-b", "tiny-c" };
    static const int chunks[] = { 512, 1, 7 };
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) check_tiny(names[i], chunks[j]);
}

/* ----------------------------------------------------------------------------------------- the default model */

typedef struct default_model {
    kvt_workers *team;
    model *model;
} default_model;

static default_model shared;

static model *default_or_skip(void) {
    if (fixture_quick()) skip();
    const char *path = fixture_model();
    if (!path) fixture_skip("the default model is not there");
    if (!shared.team) assert_int_equal(kvt_workers_open(&shared.team, 0), KVT_OK);
    if (!shared.model) shared.model = model_good(path, shared.team);
    return shared.model;
}

static int close_default(void **state) {
    (void)state;
    model_close(shared.model);
    kvt_workers_close(shared.team);
    return 0;
}

/* Logits at the recorded positions: the largest 32 of each, and the last position whole. */
static void check_prompt(subject *s, const json_t *entry) {
    int n, n_wanted = 0, wanted[64];
    int32_t *ids = ids_load(json_object_get(entry, "ids"), &n);
    const json_t *tops = json_object_get(entry, "top"), *top;
    size_t i, n_vocab = (size_t)s->n_vocab;
    json_array_foreach(tops, i, top) wanted[n_wanted++] = (int)json_integer_value(json_object_get(top, "pos"));
    bool last_twice = n_wanted > 0 && wanted[n_wanted - 1] == n - 1;
    if (!last_twice) wanted[n_wanted++] = n - 1;
    float *got = calloc((size_t)n_wanted * n_vocab, sizeof *got);
    float *last = floats_load(json_string_value(json_object_get(entry, "last")), n_vocab);

    subject_forward(s, ids, n, s->rows_max, wanted, n_wanted, got);

    double off_last = worst(got + (size_t)(n_wanted - 1) * n_vocab, last, n_vocab), off_top = 0;
    json_array_foreach(tops, i, top) {
        const json_t *id, *logits = json_object_get(top, "logits");
        size_t j;
        json_array_foreach(json_object_get(top, "ids"), j, id) {
            float expected = (float)json_number_value(json_array_get(logits, j));
            double off = worst(&got[i * n_vocab + (size_t)json_integer_value(id)], &expected, 1);
            if (!(off <= off_top)) off_top = off;
        }
    }
    print_message("%s: %d tokens, largest difference %.2g at the end, %.2g among the top of %zu positions\n",
                  json_string_value(json_object_get(entry, "name")), n, off_last, off_top, json_array_size(tops));
    assert_true(off_last <= 1e-3);
    assert_true(off_top <= 1e-3);
    free(got);
    free(last);
    free(ids);
}

static void test_default_model_gives_the_reference_logits(void **state) {
    (void)state;
    model *m = default_or_skip();
    json_t *v = vectors_load("smollm2.json");
    subject s = subject_of(m, shared.team, KVT_MATH_EXACT, KVT_F32, 8192, 256);
    const json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(v, "prompts"), i, entry) check_prompt(&s, entry);
    subject_free(&s);
    json_decref(v);
}

/* Where an answer leaves the reference's, the reference itself was close to undecided. */
static void check_greedy(const model *m, const json_t *entry) {
    int n, n_expected;
    error_text err;
    int32_t *ids = ids_load(json_object_get(entry, "ids"), &n);
    int32_t *expected = ids_load(json_object_get(entry, "greedy"), &n_expected);
    const json_t *gaps = json_object_get(entry, "gap");
    engine_options opt = engine_options_default();
    opt.math = KVT_MATH_EXACT;
    engine *e;
    assert_int_equal(engine_open(&e, m, shared.team, &opt, &err), KVT_OK);
    int seq, i = 0;
    assert_int_equal(engine_add(e, ids, n, &seq), KVT_OK);
    sampler *picker = sampler_new(model_config_of(m)->n_vocab);
    sample_options greedy = sample_options_default();

    for (; i < n_expected; i++) {
        while (engine_waiting(e)) assert_int_equal(engine_step(e), KVT_OK);
        int token = sampler_pick(picker, &greedy, engine_logits(e, seq), 0, 0);
        if (token != expected[i]) break;
        assert_int_equal(engine_append(e, seq, token), KVT_OK);
    }
    double gap = i < n_expected ? json_number_value(json_array_get(gaps, (size_t)i)) : 0;
    print_message("%s: %d of %d greedy tokens as the reference's, gap where it parts %.3f\n",
                  json_string_value(json_object_get(entry, "name")), i, n_expected, gap);
    assert_true(gap < 0.05);
    sampler_free(picker);
    engine_close(e);
    free(ids);
    free(expected);
}

static void test_greedy_answers_follow_the_reference(void **state) {
    (void)state;
    model *m = default_or_skip();
    json_t *v = vectors_load("smollm2.json");
    const json_t *entry;
    size_t i;
    int n = 0;
    json_array_foreach(json_object_get(v, "prompts"), i, entry) {
        if (!json_object_get(entry, "greedy")) continue;
        check_greedy(m, entry);
        n++;
    }
    assert_int_equal(n, 3);
    json_decref(v);
}

/* -------------------------------------------------------------------------------------------- fast and exact */

enum { WINDOW = 1024, WINDOWS = 4 };

static int best(const float *x, int n) {
    int at = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return at;
}

static double log_sum(const float *x, int n) {
    double sum = 0, most = (double)x[best(x, n)];
    for (int i = 0; i < n; i++) sum += (double)expf((float)((double)x[i] - most));
    return most + log(sum);
}

/* KL(p || q) of two rows of logits. */
static double divergence(const float *p, const float *q, int n) {
    double zp = log_sum(p, n), zq = log_sum(q, n), sum = 0;
    for (int i = 0; i < n; i++) {
        double lp = (double)p[i] - zp, lq = (double)q[i] - zq;
        if (lp > -40) sum += (double)expf((float)lp) * (lp - lq);
    }
    return sum;
}

/* How far a mode is from another over the same text: mean KL divergence, share of positions with the same top token. */
typedef struct distance {
    double kl, same;
} distance;

static void distance_add(distance *d, const float *from, const float *to, int n_vocab) {
    for (int i = 0; i < WINDOW; i++) {
        const float *p = from + (size_t)i * (size_t)n_vocab, *q = to + (size_t)i * (size_t)n_vocab;
        d->kl += divergence(p, q, n_vocab) / (WINDOW * WINDOWS);
        d->same += (double)(best(p, n_vocab) == best(q, n_vocab)) / (WINDOW * WINDOWS);
    }
}

static void window_logits(model *m, kvt_math math, kvt_format format, const int32_t *ids, float *logits) {
    subject s = subject_of(m, shared.team, math, format, WINDOW, WINDOW);
    subject_forward(&s, ids, WINDOW, WINDOW, NULL, WINDOW, logits);
    subject_free(&s);
}

static void test_fast_and_accurate_are_close_to_exact(void **state) {
    (void)state;
    model *m = default_or_skip();
    const char *path = fixture_data("wikitext2-test.txt");
    if (!path) fixture_skip("wikitext2-test.txt is not there");
    size_t n_text;
    char *text = fixture_read(path, &n_text);
    token_list ids = { 0 };
    assert_int_equal(tokenizer_encode(model_tokenizer(m), text, n_text < 65536 ? n_text : 65536, false, &ids), KVT_OK);
    assert_true(ids.n >= WINDOW * WINDOWS);
    int n_vocab = model_config_of(m)->n_vocab;
    float *exact = calloc((size_t)WINDOW * (size_t)n_vocab, sizeof *exact);
    float *other = calloc((size_t)WINDOW * (size_t)n_vocab, sizeof *other);
    distance fast = { 0 }, accurate = { 0 };

    for (int w = 0; w < WINDOWS; w++) {
        const int32_t *from = ids.id + w * WINDOW;
        window_logits(m, KVT_MATH_EXACT, KVT_F32, from, exact);
        window_logits(m, KVT_MATH_FAST, KVT_BF16, from, other);
        distance_add(&fast, exact, other, n_vocab);
        window_logits(m, KVT_MATH_ACCURATE, KVT_F32, from, other);
        distance_add(&accurate, exact, other, n_vocab);
    }
    print_message("fast against exact: mean KL %.3g, same top token %.2f %%\n", fast.kl, 100 * fast.same);
    print_message("accurate against exact: mean KL %.3g, same top token %.2f %%\n", accurate.kl, 100 * accurate.same);
    /* Fast is just within what is wanted of it: 0.00195 and 97.17 % were measured, and 0.0026 and 96.8 % with 8-bit
     * activations before the output matrix too. Accurate: 4.8e-8 and no other top token. */
    assert_true(fast.kl < 0.002);
    assert_true(fast.same >= 0.97);
    assert_true(accurate.kl < 2e-7);
    assert_true(accurate.same >= 0.999);
    free(exact);
    free(other);
    token_list_free(&ids);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_models_give_the_reference_logits),
        cmocka_unit_test(test_default_model_gives_the_reference_logits),
        cmocka_unit_test(test_greedy_answers_follow_the_reference),
        cmocka_unit_test(test_fast_and_accurate_are_close_to_exact),
    };
    return cmocka_run_group_tests(tests, NULL, close_default);
}
