/* subject.c - see subject.h. */
#include "subject.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture.h"

model *model_good(const char *path, kvt_workers *team) {
    error_text err;
    model *m;
    if (model_open(&m, path, team, &err) != KVT_OK) fail_msg("%s", err.text);
    return m;
}

subject subject_of(model *m, kvt_workers *team, kvt_math math, kvt_format format, int tokens_max, int rows_max) {
    subject s = { .team = team, .model = m, .rows_max = rows_max, .n_vocab = model_config_of(m)->n_vocab };
    kvt_layer *layers = calloc((size_t)model_config_of(m)->n_layers, sizeof *layers);
    model_layers(model_config_of(m), layers);
    kvt_options opt = kvt_options_default();
    opt.layers = layers;
    opt.n_layers = model_config_of(m)->n_layers;
    opt.k_format = opt.v_format = format;
    opt.tokens_max = tokens_max;
    opt.sequences_max = 1;
    opt.batch_tokens_max = rows_max;
    opt.math = math;
    opt.workers = team;
    assert_int_equal(kvt_open(&s.cache, &opt), KVT_OK);
    assert_int_equal(model_state_new(&s.state, m, rows_max, tokens_max, math, team), KVT_OK);
    free(layers);
    return s;
}

void subject_free(subject *s) {
    model_state_free(s->state);
    kvt_close(s->cache);
}

void subject_forward(subject *s, const int32_t *ids, int n, int chunk, const int *wanted, int n_wanted, float *logits) {
    kvt_seq seq;
    int *rows = calloc((size_t)chunk, sizeof *rows), next = 0;
    assert_int_equal(kvt_seq_new(s->cache, &seq), KVT_OK);
    for (int first = 0; first < n; first += chunk) {
        int n_new = n - first < chunk ? n - first : chunk;
        model_step step = { .batch = { 1, &seq, &n_new }, .tokens = ids + first, .wanted = rows };
        step.logits = logits + (size_t)next * (size_t)s->n_vocab;
        for (; next < n_wanted && (wanted ? wanted[next] : next) < first + n_new; next++)
            rows[step.n_wanted++] = (wanted ? wanted[next] : next) - first;
        assert_int_equal(kvt_reserve(s->cache, &step.batch), KVT_OK);
        assert_int_equal(model_forward(s->state, s->cache, &step), KVT_OK);
        assert_int_equal(kvt_commit(s->cache, &step.batch, step.tokens), KVT_OK);
    }
    kvt_seq_free(s->cache, seq);
    free(rows);
}

/* --------------------------------------------------------------------------------------------- vectors */

json_t *vectors_load(const char *name) {
    char path[256];
    json_error_t error;
    snprintf(path, sizeof path, "tests/vectors/%s", name);
    json_t *v = json_load_file(path, 0, &error);
    if (!v) fail_msg("%s: %s", path, error.text);
    return v;
}

float *floats_load(const char *name, size_t n) {
    char path[256];
    size_t bytes;
    snprintf(path, sizeof path, "tests/vectors/%s", name);
    float *f = (float *)(void *)fixture_read(path, &bytes);
    assert_int_equal(bytes, n * sizeof(float));
    return f;
}

int32_t *ids_load(const json_t *list, int *n) {
    *n = (int)json_array_size(list);
    int32_t *ids = calloc((size_t)*n + 1, sizeof *ids);
    for (int i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return ids;
}

double worst(const float *a, const float *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}
