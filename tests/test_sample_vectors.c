/* test_sample_vectors.c - the sampling rules beside Hugging Face's processors: which tokens are left, how likely each
 * is (tests/vectors/sampling.py). And what rank_first keeps, beside sorting. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "random.h"

static json_t *vectors;

static int read_vectors(void **state) {
    json_error_t error;
    (void)state;
    vectors = json_load_file("tests/vectors/sampling.json", 0, &error);
    if (!vectors) fail_msg("sampling.json: %s", error.text);
    return 0;
}

static int drop_vectors(void **state) {
    (void)state;
    json_decref(vectors);
    return 0;
}

static int int_of(const json_t *row, const char *key, int otherwise) {
    const json_t *v = json_object_get(row, key);
    return v ? (int)json_integer_value(v) : otherwise;
}

static double real_of(const json_t *row, const char *key, double otherwise) {
    const json_t *v = json_object_get(row, key);
    return v ? json_number_value(v) : otherwise;
}

/* As logits_of and history_of in sampling.py. */
static float *logits_of(const json_t *row) {
    uint64_t seed = (uint64_t)int_of(row, "seed", 0);
    int n = int_of(row, "n_vocab", 0);
    double spread = real_of(row, "spread", 0);
    float *logits = malloc((size_t)n * sizeof *logits);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int j = 0; j < 4; j++) sum += random_between(&seed, -1, 1);
        logits[i] = (float)(sum * spread);
    }
    return logits;
}

static void history_of(const json_t *row, int32_t *tokens) {
    uint64_t seed = (uint64_t)int_of(row, "seed", 0) + 1000;
    int n_vocab = int_of(row, "n_vocab", 0);
    for (int i = 0; i < int_of(row, "n_history", 0); i++)
        tokens[i] = i % 3 ? (int32_t)(random_bits(&seed) % (uint64_t)n_vocab) : i / 4 % n_vocab;
}

static sample_options options_of(const json_t *row, sample_bias *bias) {
    const json_t *biases = json_object_get(row, "bias");
    int n_bias = (int)json_array_size(biases);
    for (int i = 0; i < n_bias; i++) {
        const json_t *pair = json_array_get(biases, (size_t)i);
        bias[i].id = (int32_t)json_integer_value(json_array_get(pair, 0));
        bias[i].value = json_number_value(json_array_get(pair, 1));
    }
    return (sample_options){
        .temp = real_of(row, "temp", 1),
        .top_k = int_of(row, "top_k", 0),
        .top_p = real_of(row, "top_p", 1),
        .min_p = real_of(row, "min_p", 0),
        .typical = real_of(row, "typical", 1),
        .repeat_penalty = real_of(row, "repeat_penalty", 1),
        .repeat_last = int_of(row, "repeat_last", 64),
        .frequency_penalty = real_of(row, "frequency_penalty", 0),
        .presence_penalty = real_of(row, "presence_penalty", 0),
        .bias = bias,
        .n_bias = n_bias,
    };
}

static int by_id(const void *a, const void *b) {
    return ((const candidate *)a)->id - ((const candidate *)b)->id;
}

static void check_case(int which, const json_t *row) {
    int32_t tokens[64];
    sample_bias bias[8];
    const candidate *kept;
    int n_vocab = int_of(row, "n_vocab", 0);
    float *logits = logits_of(row);
    sample_options opt = options_of(row, bias);
    history_of(row, tokens);
    sample_history history = { tokens, int_of(row, "n_history", 0), int_of(row, "n_before", 0) };
    assert_int_equal(sample_options_check(&opt, n_vocab, NULL), KVT_OK);
    sampler *s = sampler_new(n_vocab);

    const json_t *ids = json_object_get(row, "ids"), *p = json_object_get(row, "p");
    int n_kept = sampler_kept(s, &opt, logits, &history, &kept), n = 0;
    candidate *sorted = malloc((size_t)n_kept * sizeof *sorted);
    double sum = 0;
    for (int i = 0; i < n_kept; i++) sum += kept[i].weight;
    for (int i = 0; i < n_kept; i++)
        if (kept[i].weight / sum >= 1e-17) sorted[n++] = kept[i];
    if (n != (int)json_array_size(ids))
        fail_msg("case %d: %d tokens are left, not %zu", which, n, json_array_size(ids));
    qsort(sorted, (size_t)n, sizeof *sorted, by_id);
    for (int i = 0; i < n; i++) {
        double expected = json_number_value(json_array_get(p, (size_t)i));
        assert_int_equal(sorted[i].id, json_integer_value(json_array_get(ids, (size_t)i)));
        if (!(fabs(sorted[i].weight / sum - expected) <= 1e-6))
            fail_msg("case %d: token %d has %g, not %g", which, sorted[i].id, sorted[i].weight / sum, expected);
    }
    free(sorted);
    free(logits);
    sampler_free(s);
}

static void what_is_left_agrees_with_hugging_face(void **state) {
    (void)state;
    size_t i;
    json_t *row, *cases = json_object_get(vectors, "cases");
    json_array_foreach(cases, i, row) check_case((int)i, row);
    assert_true(i >= 50);
}

static void check_logprob(const json_t *row) {
    token_logprob out[1 + LOGPROBS_TOP_MAX];
    const json_t *top = json_object_get(row, "top"), *values = json_object_get(row, "top_logprobs");
    int n_top = (int)json_array_size(top), n_vocab = int_of(row, "n_vocab", 0);
    double sum = 0;
    float *logits = logits_of(row);
    for (int n = 0; n <= n_top; n++) {
        logprobs_of(logits, n_vocab, int_of(row, "token", 0), n, out);
        assert_int_equal(out[0].id, int_of(row, "token", 0));
        assert_true(fabs(out[0].logprob - real_of(row, "logprob", 0)) <= 1e-12);
    }
    for (int i = 0; i < n_top; i++) {
        assert_int_equal(out[1 + i].id, json_integer_value(json_array_get(top, (size_t)i)));
        assert_true(fabs(out[1 + i].logprob - json_number_value(json_array_get(values, (size_t)i))) <= 1e-12);
        sum += exp(out[1 + i].logprob);
    }
    assert_true(sum <= 1 + 1e-12 && (n_top < n_vocab || sum >= 1 - 1e-12));
    free(logits);
}

static void log_probabilities_agree_with_torch(void **state) {
    (void)state;
    size_t i;
    json_t *row, *rows = json_object_get(vectors, "logprobs");
    json_array_foreach(rows, i, row) check_logprob(row);
    assert_true(i >= 5);
}

static void log_probabilities_of_equals_and_of_the_impossible(void **state) {
    (void)state;
    const float logits[] = { 1, 2, -INFINITY, 2, 1 };
    token_logprob out[6];
    logprobs_of(logits, 5, 2, 5, out);
    static const int expected[] = { 2, 1, 3, 0, 4, 2 };
    for (int i = 0; i < 6; i++) assert_int_equal(out[i].id, expected[i]);
    assert_true(out[0].logprob == -INFINITY && out[5].logprob == -INFINITY && out[1].logprob == out[2].logprob);
}

/* ------------------------------------------------------------------------------------------------- ranking */

enum { MANY = 3000 };

static int by_key(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->id - y->id;
}

/* Lists of every kind of key: spread, equal, few values, far apart, both signs. */
static float random_key(uint64_t *seed, int kind) {
    switch (kind) {
    case 0: return (float)random_between(seed, -5, 5);
    case 1: return 2;
    case 2: return (float)random_below(seed, 7) - 3;
    case 3: return (float)random_between(seed, -1, 1) * (random_below(seed, 2) ? 1e-30f : 1e30f);
    default: return (float)random_between(seed, 0, 1) * 1e-42f;
    }
}

static void check_rank(uint64_t *seed, int kind) {
    static candidate list[MANY], sorted[MANY], scratch[MANY];
    int n = 1 + (int)random_below(seed, kind % 2 ? MANY : 50), most = 1 + (int)random_below(seed, (uint32_t)n + 5);
    double total = 0, mass, sum = 0;
    for (int i = 0; i < n; i++) {
        list[i] = (candidate){ random_between(seed, 0, 1), random_key(seed, kind), i };
        total += list[i].weight;
    }
    mass = random_below(seed, 3) ? total * random_between(seed, 0, 1) : INFINITY;
    memcpy(sorted, list, sizeof list);
    qsort(sorted, (size_t)n, sizeof *sorted, by_key);
    int expected = 0;
    while (expected < n && expected < most && (expected == 0 || sum < mass)) sum += sorted[expected++].weight;

    assert_int_equal(rank_first(list, scratch, n, most, mass), expected);
    for (int i = 0; i < expected; i++) assert_int_equal(list[i].id, sorted[i].id);
}

static void ranking_agrees_with_sorting(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) check_rank(&seed, round % 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_agrees_with_hugging_face),
        cmocka_unit_test(log_probabilities_agree_with_torch),
        cmocka_unit_test(log_probabilities_of_equals_and_of_the_impossible),
        cmocka_unit_test(ranking_agrees_with_sorting),
    };
    return cmocka_run_group_tests(tests, read_vectors, drop_vectors);
}
