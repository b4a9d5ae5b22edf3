/* test_score.c - readings of a known text against the reference's logits: how well tokens are foreseen, and how far two
 * readings are apart. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/score.h"
#include "subject.h"

enum { ROWS = 128 };

typedef struct known {
    loaded loaded;
    int32_t *ids; /* [n] */
    int n, n_vocab;
    float *logits; /* [n][n_vocab] the reference's */
} known;

static known known_open(const char *name) {
    char file[64];
    known k = { 0 };
    snprintf(file, sizeof file, "%s.json", name);
    json_t *about = vectors_load(file);
    k.ids = ids_load(json_object_get(about, "ids"), &k.n);
    json_decref(about);
    assert_int_equal(kvt_workers_open(&k.loaded.team, 2), KVT_OK);
    snprintf(file, sizeof file, "tests/vectors/%s.gguf", name);
    k.loaded.model = model_good(file, k.loaded.team);
    k.n_vocab = model_config_of(k.loaded.model)->n_vocab;
    snprintf(file, sizeof file, "%s.f32", name);
    k.logits = floats_load(file, (size_t)k.n * (size_t)k.n_vocab);
    return k;
}

static void known_close(known *k) {
    model_close(k->loaded.model);
    kvt_workers_close(k->loaded.team);
    free(k->ids);
    free(k->logits);
}

static double nll_of(const known *k, int at) {
    const float *row = k->logits + (size_t)at * (size_t)k->n_vocab;
    double sum = 0;
    for (int i = 0; i < k->n_vocab; i++) sum += exp((double)row[i]);
    return log(sum) - (double)row[k->ids[at + 1]];
}

static score_setup setup_of(kvt_math math, kvt_format format) {
    return (score_setup){ .math = math, .k_format = format, .v_format = format, .block_tokens = 32, .context = 128,
                          .rows_max = ROWS };
}

/* Read the text, rows of the reading against the reference's and against `other`'s. */
static void read_all(const known *k, score_reader *r, score_reader *other, score_row *rows) {
    int32_t next[ROWS];
    assert_int_equal(score_seek(r, 0), CLI_DONE);
    if (other) assert_int_equal(score_seek(other, 0), CLI_DONE);
    for (int at = 0, n; at < k->n; at += n) {
        n = k->n - at < 50 ? k->n - at : 50;
        assert_int_equal(score_read(r, k->ids + at, n), CLI_DONE);
        if (other) assert_int_equal(score_read(other, k->ids + at, n), CLI_DONE);
        for (int i = 0; i < n; i++) next[i] = at + i + 1 < k->n ? k->ids[at + i + 1] : -1;
        score_rows(r, other, next, n, rows + at);
    }
}

static void tokens_are_foreseen_as_the_reference_foresees_them(void **state) {
    (void)state;
    static const char *const names[] = { "tiny-a", "tiny-b" };
    for (size_t i = 0; i < 2; i++) {
        known k = known_open(names[i]);
        score_reader r;
        score_setup setup = setup_of(KVT_MATH_EXACT, KVT_F32);
        score_row rows[ROWS];
        assert_int_equal(score_open(&r, &k.loaded, &setup), CLI_DONE);
        for (int again = 0; again < 2; again++) { /* the second window as the first */
            read_all(&k, &r, NULL, rows);
            for (int at = 0; at + 1 < k.n; at++) assert_true(fabs(rows[at].nll - nll_of(&k, at)) < 1e-3);
            assert_true(rows[k.n - 1].nll == 0);
        }
        score_close(&r);
        known_close(&k);
    }
}

static void a_reading_is_no_distance_from_itself(void **state) {
    (void)state;
    known k = known_open("tiny-b");
    score_reader r, same, rough;
    score_setup exact = setup_of(KVT_MATH_EXACT, KVT_F32), bf16 = setup_of(KVT_MATH_EXACT, KVT_BF16);
    score_row rows[ROWS];
    double sum = 0;
    assert_int_equal(score_open(&r, &k.loaded, &exact), CLI_DONE);
    assert_int_equal(score_open(&same, &k.loaded, &exact), CLI_DONE);
    assert_int_equal(score_open(&rough, &k.loaded, &bf16), CLI_DONE);
    read_all(&k, &r, &same, rows);
    for (int at = 0; at < k.n; at++) assert_true(rows[at].kl < 1e-12 && rows[at].top_agrees);
    /* when keys and values are rounded, then it is some distance, and a small one */
    read_all(&k, &rough, &r, rows);
    for (int at = 0; at < k.n; at++) sum += rows[at].kl;
    assert_true(sum > 1e-9 && sum / k.n < 1e-2);
    score_close(&r);
    score_close(&same);
    score_close(&rough);
    known_close(&k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_foreseen_as_the_reference_foresees_them),
        cmocka_unit_test(a_reading_is_no_distance_from_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
