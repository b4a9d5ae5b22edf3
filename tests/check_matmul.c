/* check_matmul.c - the kernels of matrix products: every path x weight format x shape against the scalar definition
 * (same bits) and against binary64 (a bound); all buffers end at an unreadable page. */
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

enum { M_MAX = 33 };

static const char *const paths[] = {"scalar", "avx2", "avx512", "avx512bf16"};
static const int all_k[] = {32, 64, 96, 160, 576, 1536}, odd_k[] = {1, 7, 33, 99}, block_k[] = {256, 512, 1536};
static const int all_n[] = {1, 16, 17, 48, 100};
static const int all_m[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 33};
#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

/* The i-th count of columns that this format is tried with; 0: no more. */
static int next_k(int format, int i) {
    if (weight_format_of(format)->block > WEIGHT_BLOCK) return i < COUNT(block_k) ? block_k[i] : 0;
    if (i < COUNT(all_k)) return all_k[i];
    i -= COUNT(all_k);
    return !block_shape_of(format) && i < COUNT(odd_k) ? odd_k[i] : 0;
}

/* ------------------------------------------------------------------------------------ kernels: the same bits */

static void kind_same_bits(const problem *p, int kind) {
    float *want = problem_run(p, "scalar", kind, p->m);
    for (int i = 1; i < COUNT(paths); i++) {
        if (!kernels_of(paths[i])) continue;
        for (int j = 0; j < COUNT(all_m); j++) {
            float *y = problem_run(p, paths[i], kind, all_m[j]);
            size_t bad = n_different(want, y, (size_t)(all_m[j] * p->n_panels * TILE));
            if (bad)
                fail_msg("%s %s %s, n %d k %d m %d: %zu values differ from scalar", paths[i],
                         weight_format_of(p->format)->name, kind_name[kind], p->n, p->k, all_m[j], bad);
            guard_free(y);
        }
    }
    guard_free(want);
}

static void same_bits(const problem *p) {
    for (int kind = 0; kind < N_KINDS; kind++)
        if (has_kind(p->format, kind)) kind_same_bits(p, kind);
}

static void every_path_gives_the_scalar_bits(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int n = 0; n < COUNT(all_n); n++)
            for (int i = 0, k; (k = next_k(f, i)); i++) {
                problem p = problem_make(f, all_n[n], k, M_MAX);
                same_bits(&p);
                problem_free(&p);
            }
}

static void planted_error(int format, int kind) {
    /* given a result */
    const block_shape *shape = block_shape_of(format);
    problem p = problem_make(format, 48, next_k(format, 1), 3);
    for (int i = 0; i < p.m * p.k; i++) p.x[i] = copysignf(fmaxf(fabsf(p.x[i]), 0.2f), p.x[i]); /* no code is 0 */
    problem_quantise(&p);
    uint8_t *block = p.file + 40 * p.row_bytes;
    if (shape && shape->unit) memcpy(block + shape->groups, shape->unit, shape->n_unit); /* nor is a scale */
    problem_pack(&p);
    size_t n = (size_t)(p.m * p.n_panels * TILE);
    float *before = problem_run(&p, "scalar", kind, p.m);
    /* when one bit of one code changes, then that row of outputs does, for each row of activations */
    block[4 + (shape ? shape->code : 2)] ^= 2;
    problem_pack(&p);
    for (int i = 0; i < COUNT(paths); i++) {
        if (!kernels_of(paths[i])) continue;
        float *after = problem_run(&p, paths[i], kind, p.m);
        assert_int_equal(n_different(before, after, n), p.m);
        guard_free(after);
    }
    /* and one unit in the last place of one value is not overlooked */
    float *copy = problem_run(&p, "scalar", kind, p.m);
    memcpy(copy, before, n * sizeof *copy);
    copy[n - 1] = nextafterf(copy[n - 1], 1);
    assert_int_equal(n_different(before, copy, n), 1);
    guard_free(copy);
    guard_free(before);
    problem_free(&p);
}

static void a_planted_error_is_seen(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int kind = 0; kind < N_KINDS; kind++)
            if (has_kind(f, kind)) planted_error(f, kind);
}

/* ---------------------------------------------------------------------------------- kernels: the right values */

/* Outputs that are off by more than 4e-6 of the sum of the sizes of the products, or NaN. Weights and activations
 * come from the file and from the codes, not from panels. */
static int n_wrong(const problem *p, int kind, const float *y) {
    int bad = 0;
    float *w = malloc((size_t)p->k * sizeof *w);
    assert_non_null(w);
    for (int row = 0; row < p->n; row++) {
        weight_format_of(p->format)->widen(p->file + (size_t)row * p->row_bytes, (size_t)p->k, w);
        for (int r = 0; r < p->m; r++) {
            double sum = 0, size = 0;
            for (int k = 0; k < p->k; k++) {
                int i = r * p->k + k;
                double x = p->x[i];
                if (kind != FLOAT) x = (double)p->codes[kind].s[i / WEIGHT_BLOCK] * act_at(p, kind, i);
                double product = w[k] * x;
                sum += product;
                size += fabs(product);
            }
            bad += !(fabs(y[r * p->n_panels * TILE + row] - sum) <= 4e-6 * size);
        }
    }
    free(w);
    return bad;
}

static void values_are_close_to_binary64(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int i = 0, k; (k = next_k(f, i)); i++)
            for (int path = 0; path < COUNT(paths); path++) {
                if (!kernels_of(paths[path])) continue;
                problem p = problem_make(f, 17, k, 9);
                for (int kind = 0; kind < N_KINDS; kind++) {
                    if (!has_kind(f, kind)) continue;
                    float *y = problem_run(&p, paths[path], kind, p.m);
                    assert_int_equal(n_wrong(&p, kind, y), 0);
                    guard_free(y);
                }
                problem_free(&p);
            }
}

/* How the codes of the next test are drawn. */
enum { DRAW_ANY, DRAW_LOWEST, DRAW_HIGHEST, DRAW_ENDS, N_DRAWS };

static int draw(int how, int lowest, int highest) {
    if (how == DRAW_ANY) return lowest + (int)(rng() % (uint32_t)(highest - lowest + 1));
    if (how == DRAW_ENDS) return rng() & 1 ? lowest : highest;
    return how == DRAW_LOWEST ? lowest : highest;
}

/* Scales of 1 and minima of 0; a code whose bits are all 0 or all 1 is at an end. */
static void fill_weights(problem *p, int how) {
    const block_shape *shape = block_shape_of(p->format);
    size_t block_bytes = weight_format_of(p->format)->block_bytes;
    for (size_t at = 0; at < (size_t)p->n * p->row_bytes; at += block_bytes) {
        uint8_t *b = p->file + at;
        for (size_t i = 0; i < block_bytes; i++)
            b[i] = (uint8_t)(p->format == WEIGHT_Q8_0 ? draw(how, -128, 127) : draw(how, 0, 255));
        memcpy(b + shape->d, &(uint16_t){0x3c00}, 2); /* 1 */
        if (shape->m >= 0) memset(b + shape->m, 0, 2);
        if (shape->unit) memcpy(b + shape->groups, shape->unit, shape->n_unit);
    }
    problem_pack(p);
}

/* Scales of 1; codes drawn, up to +-127 or +-32767. */
static void fill_activations(problem *p, int kind, int how) {
    static const int most[N_KINDS] = {[INT8] = 127, [INT16] = 32767};
    codes *c = &p->codes[kind];
    for (int b = 0; b < p->m * p->n_blocks; b++) {
        c->sum[b] = 0;
        c->s[b] = 1;
        for (int i = 0; i < WEIGHT_BLOCK; i++) {
            int code = draw(how, -most[kind], most[kind]);
            if (i == WEIGHT_BLOCK / 2) c->half[b] = c->sum[b];
            act_put(p, kind, b * WEIGHT_BLOCK + i, code);
            c->sum[b] += code;
        }
        c->fs[b] = (float)c->sum[b];
    }
}

/* w: a row of such weights, each its code less the bias. The exact dot of a group is rounded once, the sum of two once
 * more; 8 bits need neither, as 2^24 is far. */
static float dots_by_group(const problem *p, int kind, const float *w, int r) {
    const int group = weight_layouts[p->format].group;
    float sum = 0;
    for (int first = 0; first < p->k; first += group) {
        int64_t dot = 0;
        for (int k = first; k < first + group; k++) dot += (int64_t)w[k] * act_at(p, kind, r * p->k + k);
        sum = (float)dot + sum;
    }
    return sum;
}

static void check_dots(const problem *p, int kind) {
    float *w = malloc((size_t)p->k * sizeof *w), *y[COUNT(paths)] = {NULL};
    assert_non_null(w);
    for (int i = 0; i < COUNT(paths); i++)
        if (kernels_of(paths[i])) y[i] = problem_run(p, paths[i], kind, p->m);
    for (int row = 0; row < p->n; row++) {
        weight_format_of(p->format)->widen(p->file + (size_t)row * p->row_bytes, (size_t)p->k, w);
        for (int r = 0; r < p->m; r++) {
            float want = dots_by_group(p, kind, w, r);
            for (int i = 0; i < COUNT(paths); i++)
                if (y[i] && y[i][r * p->n_panels * TILE + row] != want)
                    fail_msg("%s %s %s, row %d: %g, not %g", paths[i], weight_format_of(p->format)->name,
                             kind_name[kind], row, (double)y[i][r * p->n_panels * TILE + row], (double)want);
        }
    }
    for (int i = 0; i < COUNT(paths); i++) guard_free(y[i]);
    free(w);
}

static void integer_dots_are_exact(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int draws = 0; block_shape_of(f) && draws < 2 * N_DRAWS * N_DRAWS; draws++) {
            /* given scales of 1 and codes up to their ends */
            int kind = draws % 2 ? INT16 : INT8;
            problem p = problem_make(f, 17, next_k(f, 1), 9);
            fill_weights(&p, draws / 2 / N_DRAWS);
            fill_activations(&p, kind, draws / 2 % N_DRAWS);
            check_dots(&p, kind);
            problem_free(&p);
        }
}

/* -------------------------------------------------------------------------------------------- kernels: extremes */

/* What row 1 of three is filled with in turn. */
static const float extreme[] = {0.f, -0.f, 1e-40f, 1e-38f, 1e30f, 3e38f, INFINITY, -INFINITY, NAN};

static void extreme_rows_stay_by_themselves(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int e = 0; e < COUNT(extreme); e++)
            for (int kind = 0; kind < N_KINDS; kind++) {
                if (!has_kind(f, kind)) continue;
                /* given three rows, and the middle one with a value at the edge */
                problem p = problem_make(f, 17, next_k(f, 2), 3);
                size_t width = (size_t)p.n_panels * TILE;
                float *calm = problem_run(&p, "scalar", kind, p.m), *want;
                for (int i = 0; i < p.k; i++)
                    if (isfinite(extreme[e]) || i == 50) p.x[p.k + i] = extreme[e];
                problem_quantise(&p);
                want = problem_run(&p, "scalar", kind, p.m);
                /* then its neighbours do not notice, it is NaN (or infinite) where it must be, and paths agree */
                assert_int_equal(n_different(calm, want, width), 0);
                assert_int_equal(n_different(calm + 2 * width, want + 2 * width, width), 0);
                for (int i = 0; i < p.n && !isfinite(extreme[e]); i++) {
                    assert_false(isfinite(want[width + (size_t)i]));
                    if (kind != FLOAT || isnan(extreme[e])) assert_true(isnan(want[width + (size_t)i]));
                }
                for (int i = 1; i < COUNT(paths); i++) {
                    if (!kernels_of(paths[i])) continue;
                    float *y = problem_run(&p, paths[i], kind, p.m);
                    assert_int_equal(n_different(want, y, (size_t)p.m * width), 0);
                    guard_free(y);
                }
                guard_free(calm);
                guard_free(want);
                problem_free(&p);
            }
}

static void extreme_weights_give_the_scalar_bits(void **state) {
    (void)state;
    static const uint16_t halves[] = {0, 0x8000, 1, 0x83ff, 0x0400, 0x7bff, 0x7c00, 0x7e00}; /* 0 ... NaN */
    for (int f = WEIGHT_F32; f < N_WEIGHT_FORMATS; f++)
        for (int h = 0; h < COUNT(halves); h++) {
            problem p = problem_make(f, 17, next_k(f, 1), M_MAX);
            const block_shape *shape = block_shape_of(f);
            size_t step = weight_format_of(f)->block_bytes * 3;
            for (size_t at = 0; at < (size_t)p.n * p.row_bytes; at += step) {
                int place = !shape ? (f == WEIGHT_F32) * 2 : shape->m >= 0 && rng() % 2 ? shape->m : shape->d;
                memcpy(p.file + at + place, &halves[h], 2);
            }
            problem_pack(&p);
            same_bits(&p);
            problem_free(&p);
        }
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
        TEST(every_path_gives_the_scalar_bits),
        TEST(a_planted_error_is_seen),
        TEST(values_are_close_to_binary64),
        TEST(integer_dots_are_exact),
        TEST(extreme_rows_stay_by_themselves),
        TEST(extreme_weights_give_the_scalar_bits),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
