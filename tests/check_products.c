/* check_products.c - the public calls of matrix products: a row's result is the kernel's, the same alone, in a batch,
 * on any number of threads, beside other products; matrices are packed and give their rows back. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "guard.h"
#include "problem.h"

enum { M_MAX = 33, N_MAX = 100 };

/* ------------------------------------------------------------------------------------------------ public calls */

static kvt_matrix *matrix_of(const problem *p, kvt_workers *team) {
    kvt_matrix *w;
    kvt_weight_type type = (kvt_weight_type)weight_format_of(p->format)->ggml_type;
    kvt_matrix_source src = {type, (size_t)p->n, (size_t)p->k, p->file, (size_t)p->n * p->row_bytes};
    assert_int_equal(kvt_matrix_pack(&w, &src, team), KVT_OK);
    return w;
}

/* Products of the rows first .. first + m - 1 with three matrices of 1, 2 or 3 calls; y [3][m][N_MAX], rows as long as
 * their matrix, so that one value too many lands in the next row. */
static void multiply(const problem p[3], kvt_matrix *const w[3], kvt_math math, int threads, int n_calls, int first,
                     int m, float *y) {
    kvt_workers *team;
    kvt_input *in;
    assert_int_equal(kvt_workers_open(&team, threads), KVT_OK);
    assert_int_equal(kvt_input_new(&in, M_MAX, 800, math), KVT_OK);
    kvt_input_set(in, team, p[0].x + first * p[0].k, (size_t)p[0].k, m, p[0].k);
    kvt_product product[3];
    for (int i = 0; i < 3; i++) product[i] = (kvt_product){w[i], y + i * m * N_MAX, (size_t)p[i].n};
    for (int call = 0; call < n_calls; call++) {
        int from = 3 * call / n_calls, to = 3 * (call + 1) / n_calls;
        kvt_matmul(team, in, product + from, to - from);
    }
    kvt_input_free(in);
    kvt_workers_close(team);
}

/* Three matrices of different formats and sizes with the same input. */
static void check_company(const int formats[3], int k, int math) {
    const int n[3] = {100, 17, 48};
    problem p[3];
    kvt_matrix *w[3];
    for (int i = 0; i < 3; i++) {
        p[i] = problem_make(formats[i], n[i], k, M_MAX);
        w[i] = matrix_of(&p[i], NULL);
        memcpy(p[i].x, p[0].x, (size_t)(M_MAX * k) * sizeof *p[0].x);
        problem_quantise(&p[i]);
    }
    float *batch = calloc(3 * M_MAX * N_MAX, sizeof *batch), *y = calloc(3 * M_MAX * N_MAX, sizeof *y);
    multiply(p, w, (kvt_math)math, 1, 3, 0, M_MAX, batch);
    /* then the kernels' own results are what comes out, without the padding */
    for (int i = 0; i < 3; i++) {
        float *want = problem_run(&p[i], "scalar", has_kind(p[i].format, math) ? math : FLOAT, M_MAX);
        for (int r = 0; r < M_MAX; r++)
            assert_int_equal(n_different(want + r * p[i].n_panels * TILE, batch + i * M_MAX * N_MAX + r * p[i].n,
                                         (size_t)p[i].n), 0);
        guard_free(want);
    }
    /* and neither threads nor the other products change a bit */
    for (int threads = 1; threads <= 3; threads++)
        for (int n_calls = 1; n_calls <= 3; n_calls += 2) {
            memset(y, 0, 3 * M_MAX * N_MAX * sizeof *y);
            multiply(p, w, (kvt_math)math, threads, n_calls, 0, M_MAX, y);
            assert_memory_equal(y, batch, 3 * M_MAX * N_MAX * sizeof *y);
        }
    /* and a row alone is the row of the batch */
    for (int r = 0; r < M_MAX; r++) {
        multiply(p, w, (kvt_math)math, 2, 1, r, 1, y);
        for (int i = 0; i < 3; i++)
            assert_memory_equal(y + i * N_MAX, batch + i * M_MAX * N_MAX + r * p[i].n, (size_t)p[i].n * sizeof *y);
    }
    for (int i = 0; i < 3; i++) {
        kvt_matrix_free(w[i]);
        problem_free(&p[i]);
    }
    free(batch);
    free(y);
}

static void a_row_is_the_same_in_any_company(void **state) {
    (void)state;
    for (int math = 0; math < N_KINDS; math++) {
        check_company((const int[]){WEIGHT_Q4_1, WEIGHT_F16, WEIGHT_Q8_0}, 576, math);
        check_company((const int[]){WEIGHT_Q2_K, WEIGHT_Q6_K, WEIGHT_IQ4_NL}, 768, math);
    }
}

static void many_rows_are_cut_and_put_together(void **state) {
    (void)state;
    /* given more rows than an item takes, and more panels */
    problem p = problem_make(WEIGHT_Q4_0, 1100, 64, 205);
    kvt_workers *team;
    kvt_input *in;
    assert_int_equal(kvt_workers_open(&team, 2), KVT_OK);
    kvt_matrix *w = matrix_of(&p, team);
    for (int math = 0; math < N_KINDS; math++) {
        assert_int_equal(kvt_input_new(&in, p.m, p.k, (kvt_math)math), KVT_OK);
        kvt_input_set(in, team, p.x, (size_t)p.k, p.m, p.k);
        float *y = guard_alloc((size_t)(p.m * p.n) * sizeof *y, 4);
        float *want = problem_run(&p, "scalar", math, p.m);
        kvt_matmul(team, in, &(kvt_product){w, y, (size_t)p.n}, 1);
        for (int r = 0; r < p.m; r++)
            assert_int_equal(n_different(want + r * p.n_panels * TILE, y + r * p.n, (size_t)p.n), 0);
        guard_free(want);
        guard_free(y);
        kvt_input_free(in);
    }
    kvt_matrix_free(w);
    kvt_workers_close(team);
    problem_free(&p);
}

static void a_row_comes_back_widened(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++) {
        enum { K_MAX = 512 };
        const int k = weight_format_of(f)->block > WEIGHT_BLOCK ? K_MAX : 160;
        problem p = problem_make(f, 100, k, 1);
        kvt_matrix *w = matrix_of(&p, NULL);
        float got[K_MAX], want[K_MAX];
        for (int row = 0; row < p.n; row++) {
            weight_format_of(f)->widen(p.file + (size_t)row * p.row_bytes, (size_t)k, want);
            kvt_matrix_row(w, (size_t)row, got);
            assert_memory_equal(got, want, (size_t)k * sizeof *want);
        }
        assert_int_equal(kvt_matrix_rows(w), 100);
        assert_int_equal(kvt_matrix_cols(w), k);
        assert_int_equal(kvt_matrix_bytes(w), 7 * p.panel_bytes);
        kvt_matrix_free(w);
        problem_free(&p);
    }
}

static void bad_descriptions_are_refused(void **state) {
    (void)state;
    uint8_t data[68] = {0};
    kvt_matrix *w;
    kvt_input *in;
    kvt_matrix_source good = {KVT_W_Q8_0, 2, 32, data, sizeof data}, bad = good;
    assert_int_equal(kvt_matrix_pack(&w, &good, NULL), KVT_OK);
    kvt_matrix_free(w);
    bad.type = (kvt_weight_type)9;
    assert_int_equal(kvt_matrix_pack(&w, &bad, NULL), KVT_E_UNSUPPORTED);
    assert_null(w);
    bad = good, bad.n_cols = 33;
    assert_int_equal(kvt_matrix_pack(&w, &bad, NULL), KVT_E_ARGUMENT);
    bad = good, bad.n_rows = 0;
    assert_int_equal(kvt_matrix_pack(&w, &bad, NULL), KVT_E_ARGUMENT);
    bad = good, bad.data_bytes = 67;
    assert_int_equal(kvt_matrix_pack(&w, &bad, NULL), KVT_E_ARGUMENT);
    bad = good, bad.n_rows = SIZE_MAX / 17, bad.data_bytes = SIZE_MAX / 17 * 34;
    assert_int_equal(kvt_matrix_pack(&w, &bad, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_input_new(&in, 0, 32, KVT_MATH_FAST), KVT_E_ARGUMENT);
    assert_int_equal(kvt_input_new(&in, 1, 32, (kvt_math)3), KVT_E_ARGUMENT);
    assert_null(in);
    assert_string_equal(kvt_weight_name(KVT_W_Q4_1), "Q4_1");
    assert_null(kvt_weight_name((kvt_weight_type)9));
    assert_int_equal(kvt_weight_bytes(KVT_W_Q4_1, 64), 40);
    assert_int_equal(kvt_weight_bytes(KVT_W_Q4_1, 33), 0);
    kvt_matrix_free(NULL);
    kvt_input_free(NULL);
}

/* Kernels expect the mode of the contract; each test starts with the same numbers. */
static int setup(void **state) {
    static uint64_t callers;
    *state = &callers;
    callers = fp_enter();
    rng_start();
    return 0;
}
static int teardown(void **state) {
    fp_leave(*(uint64_t *)*state);
    return 0;
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_the_same_in_any_company),
        TEST(many_rows_are_cut_and_put_together),
        TEST(a_row_comes_back_widened),
        TEST(bad_descriptions_are_refused),
    };
    return cmocka_run_group_tests_name("products", tests, NULL, NULL);
}
