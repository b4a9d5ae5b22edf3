/* check_code_paths.c - attention over codes and float8, function by function: every path, the scalar one among them,
 * against the numeric contract (section 8) written out here with 64-bit integers, bit by bit. Every buffer ends at an
 * unreadable page. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/fp.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "kernel/scalar.h"
#include "random.h"

static const char *const path[] = {"scalar", "avx2", "avx512", "avx512bf16"};
#define NUMBER(NAME, FORMAT, BITS) FORMAT,
static const int format[] = {KV_CODES_EACH(NUMBER)};
static uint64_t seed = 1;

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* ------------------------------------------------------------------------------------------ what there is */

/* Tiles of codes with their scales, queries, weights and centroids, in one call's shape. */
typedef struct scene {
    const kv_format *f;
    int format, dim, n_tiles, row, n_rows;
    void *tile[STEP_TILES];
    uint16_t *scale[STEP_TILES], *centroid[STEP_TILES];
    float *q;               /* [n_rows][dim] */
    float *p;               /* [n_tiles][ATTN_ROWS][16], up to the last row's end */
    float *o;               /* [n_rows][dim] before */
    const float *centre[STEP_TILES];
} scene;

typedef enum size { ANY, LARGEST, SIZES } size;

static float some(size how) {
    if (how == LARGEST) return 1;
    const float x = (float)random_between(&seed, -2, 2);
    return how == SIZES ? x * bits_to_f32((uint32_t)(97 + random_below(&seed, 60)) << 23) : x;
}

/* The code of the largest number, or any; int8 has none below -127. */
static unsigned some_code(const kv_format *f, size how) {
    if (how == LARGEST) return f->level ? (1u << f->bits) - 1 : 127;
    if (f->level) return random_below(&seed, 1u << f->bits);
    return (random_below(&seed, 255) - 127) & 255;
}

static size_t floats_of_p(const scene *s) {
    return (size_t)((s->n_tiles - 1) * ATTN_ROWS * TILE + (s->n_rows - 1) * TILE + TILE);
}

static void fill(scene *s, int keys, size how) {
    for (int t = 0; t < s->n_tiles; t++) {
        memset(s->tile[t], 0, kv_tile_bytes(s->f, s->dim));
        for (int i = 0; i < TILE * s->dim; i++)
            kv_put_code(s->f, s->tile[t], s->dim, keys, i / s->dim, i % s->dim, some_code(s->f, how));
        for (int i = 0; i < TILE; i++) s->scale[t][i] = f32_to_bf16(fabsf(some(how)) + 1e-20f);
        for (int i = 0; i < s->dim; i++) s->centroid[t][i] = f32_to_bf16(some(how));
    }
    for (int i = 0; i < s->n_rows * s->dim; i++) s->q[i] = some(how), s->o[i] = some(how);
    for (size_t i = 0; i < floats_of_p(s); i++) s->p[i] = fabsf(some(how));
}

static scene scene_new(int kv, int dim, int n_tiles, int row, int n_rows) {
    scene s = {.f = kv_format_of(kv), .format = kv, .dim = dim, .n_tiles = n_tiles, .row = row, .n_rows = n_rows};
    for (int t = 0; t < n_tiles; t++) {
        s.tile[t] = guard_alloc(kv_tile_bytes(s.f, dim), 64);
        s.scale[t] = guard_alloc(TILE * sizeof(uint16_t), sizeof(uint16_t));
        s.centroid[t] = guard_alloc((size_t)dim * sizeof(uint16_t), sizeof(uint16_t));
    }
    s.q = guard_alloc((size_t)(n_rows * dim) * sizeof(float), sizeof(float));
    s.o = guard_alloc((size_t)(n_rows * dim) * sizeof(float), sizeof(float));
    s.p = guard_alloc(floats_of_p(&s) * sizeof(float), sizeof(float));
    return s;
}

static void scene_free(scene *s) {
    for (int t = 0; t < s->n_tiles; t++) guard_free(s->tile[t]), guard_free(s->scale[t]), guard_free(s->centroid[t]);
    guard_free(s->q);
    guard_free(s->o);
    guard_free(s->p);
}

/* ------------------------------------------------------------------------------------------- the contract */

/* Integers of n floats, and what one of them stands for. The product in binary64 is exact, and so is its rounding to
 * binary32 that follows. */
static float integers(const float *x, int n, float most, int64_t *to) {
    float largest = 0;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        largest = fmaxf(largest, fabsf(x[i]));
    }
    if (largest < 1e-30f) return 0;
    const float inverse = most / largest;
    for (int i = 0; i < n; i++) to[i] = llrint((float)((double)x[i] * inverse));
    return largest / most;
}

static int64_t number(const scene *s, int keys, int tile, int token, int dim) {
    return (int64_t)kv_number(s->f, s->tile[tile], s->dim, keys, token, dim);
}

/* s[n_tiles][n_rows][16] */
static void expect_scores(const scene *s, float centre[][ATTN_ROWS], float *to) {
    static int64_t q[ATTN_DIM_MAX];
    static float scale;
    for (int r = 0; r < s->n_rows; r++) {
        scale = integers(s->q + r * s->dim, s->dim, 32512, q);
        for (int i = 0; i < s->n_tiles * TILE; i++) {
            int64_t sum = 0;
            for (int d = 0; d < s->dim; d++) sum += q[d] * number(s, 1, i / TILE, i % TILE, d);
            assert_true(sum == (int32_t)sum);
            const float by = scale * bf16_to_f32(s->scale[i / TILE][i % TILE]);
            to[(i / TILE * s->n_rows + r) * TILE + i % TILE] = scalar_fma((float)sum, by, centre[i / TILE][r]);
        }
    }
}

static void expect_centres(const scene *s, float centre[][ATTN_ROWS]) {
    for (int i = 0; i < s->n_tiles * s->n_rows; i++) {
        const int t = i / s->n_rows, r = i % s->n_rows;
        float a[16] = {0};
        for (int d = 0; d < s->dim; d++)
            a[d % 16] = scalar_fma(bf16_to_f32(s->centroid[t][d]), s->q[r * s->dim + d], a[d % 16]);
        centre[t][r] = scalar_tree16(a);
    }
}

/* o[n_rows][dim] */
static void expect_values(const scene *s, float *o) {
    for (int r = 0; r < s->n_rows; r++) {
        static float w[ATTN_STEP];
        static int64_t p[ATTN_STEP];
        for (int t = 0; t < s->n_tiles * TILE; t++) {
            w[t] = s->p[(t / TILE * ATTN_ROWS + r) * TILE + t % TILE] * bf16_to_f32(s->scale[t / TILE][t % TILE]);
        }
        const float scale = integers(w, s->n_tiles * TILE, 32767, p);
        for (int d = 0; d < s->dim; d++) {
            int64_t sum = 0;
            for (int t = 0; t < s->n_tiles * TILE; t++) sum += p[t] * number(s, 0, t / TILE, t % TILE, d);
            assert_true(sum == (int32_t)sum);
            o[r * s->dim + d] = scalar_fma((float)sum, scale, s->o[r * s->dim + d]);
        }
    }
}

/* -------------------------------------------------------------------------------------------- the paths */

static code_queries *queries_of(void) {
    static code_queries *q;
    if (!q) q = guard_alloc(sizeof *q, 64);
    memset(q, 0xff, sizeof *q);
    return q;
}
static code_weights *weights_of(void) {
    static code_weights *p;
    if (!p) p = guard_alloc(sizeof *p, 64);
    memset(p, 0xff, sizeof *p);
    return p;
}

static attn_ahead ahead_of(const scene *s) {
    return (attn_ahead){(const void *const *)s->tile, kv_tile_bytes(s->f, s->dim)};
}

static void run_scores(const kernels *k, const scene *s, float centre[][ATTN_ROWS], float *to) {
    code_queries *q = queries_of();
    const float *rows[STEP_TILES];
    float *all = guard_alloc(floats_of_p(s) * sizeof *all, 64);
    k->code_centre((const uint16_t *const *)s->centroid, s->n_tiles, s->dim, s->q, s->n_rows, centre[0]);
    for (int r = 0; r < s->n_rows; r++) k->code_query(s->q + r * s->dim, s->dim, s->row + r, q);
    for (int t = 0; t < s->n_tiles; t++) rows[t] = centre[t];
    k->code_qk[s->format](&(code_qk_args){.k_tile = (const void *const *)s->tile,
                                          .k_scale = (const uint16_t *const *)s->scale,
                                          .centre = rows,
                                          .n_heads = 1,
                                          .n_tiles = s->n_tiles,
                                          .group = s->n_tiles,
                                          .dim = s->dim,
                                          .row = s->row,
                                          .n_rows = s->n_rows,
                                          .q = q,
                                          .s = all,
                                          .ahead = ahead_of(s)});
    for (int i = 0; i < s->n_tiles * s->n_rows; i++) {
        memcpy(to + i * TILE, all + (i / s->n_rows * ATTN_ROWS + i % s->n_rows) * TILE, TILE * sizeof *to);
    }
    guard_free(all);
}

static void run_values(const kernels *k, const scene *s, float *to) {
    code_weights *p = weights_of();
    float *o = guard_alloc((size_t)(s->n_rows * s->dim) * sizeof *o, 64);
    memcpy(o, s->o, (size_t)(s->n_rows * s->dim) * sizeof *o);
    for (int r = 0; r < s->n_rows; r++)
        k->code_weigh(s->p + r * TILE, (const uint16_t *const *)s->scale, s->n_tiles, s->row + r, p);
    k->code_pv[s->format](&(code_pv_args){.v_tile = (const void *const *)s->tile,
                                          .n_heads = 1,
                                          .n_tiles = s->n_tiles,
                                          .group = s->n_tiles,
                                          .dim = s->dim,
                                          .row = s->row,
                                          .n_rows = s->n_rows,
                                          .p = p,
                                          .o = o,
                                          .ahead = ahead_of(s)});
    memcpy(to, o, (size_t)(s->n_rows * s->dim) * sizeof *o);
    guard_free(o);
}

/* Floats whose bits differ, and not because both are NaN. */
static int differ(const float *a, const float *b, int n) {
    int bad = 0;
    for (int i = 0; i < n; i++) bad += bits_of_f32(a[i]) != bits_of_f32(b[i]) && !(isnan(a[i]) && isnan(b[i]));
    return bad;
}

static int complain(const scene *s, const char *who, const char *what, int n) {
    if (n) print_error("%s: %s, %s, %d dims, %d tiles, rows %d + %d: %d numbers differ\n", who, what, s->f->name,
                       s->dim, s->n_tiles, s->row, s->n_rows, n);
    return n != 0;
}

static int check_scores(const scene *s) {
    static float expected[STEP_TILES * ATTN_ROWS * TILE], got[STEP_TILES * ATTN_ROWS * TILE];
    static float centre[2][STEP_TILES][ATTN_ROWS];
    int bad = 0;
    expect_centres(s, centre[0]);
    expect_scores(s, centre[0], expected);
    for (int i = 0; i < COUNT(path); i++) {
        if (!kernels_of(path[i])) continue;
        run_scores(kernels_of(path[i]), s, centre[1], got);
        for (int t = 0; t < s->n_tiles; t++)
            bad += complain(s, path[i], "centre", differ(centre[0][t], centre[1][t], s->n_rows));
        bad += complain(s, path[i], "scores", differ(expected, got, s->n_tiles * s->n_rows * TILE));
    }
    return bad;
}

static int check_values(const scene *s) {
    static float expected[ATTN_ROWS * ATTN_DIM_MAX], got[ATTN_ROWS * ATTN_DIM_MAX];
    int bad = 0;
    expect_values(s, expected);
    for (int i = 0; i < COUNT(path); i++) {
        if (!kernels_of(path[i])) continue;
        run_values(kernels_of(path[i]), s, got);
        bad += complain(s, path[i], "values", differ(expected, got, s->n_rows * s->dim));
    }
    return bad;
}

static int check(scene *s, size how) {
    const uint64_t fp = fp_enter();
    fill(s, 1, how);
    int bad = check_scores(s);
    fill(s, 0, how);
    bad += check_values(s);
    fp_leave(fp);
    return bad;
}

/* -------------------------------------------------------------------------------------------- the tests */

/* Every number of rows and of tiles, with every number of dims for some of them. */
static void test_shapes(void **state) {
    const int dims[] = {16, 32, 48, 64, 80, 96, 112, 128, 192, 256, 512};
    int bad = 0;
    (void)state;
    for (int f = 0; f < COUNT(format); f++) {
        for (int d = 0; d < COUNT(dims); d++) {
            for (int i = 0; i < STEP_TILES; i++) {
                const int n_tiles = dims[d] > 128 && i % 4 ? 1 + i % 3 : 1 + (i * 7 + d) % STEP_TILES, n_rows = 1 + i;
                scene s = scene_new(format[f], dims[d], n_tiles, (ATTN_ROWS - n_rows) / (1 + d % 2), n_rows);
                bad += check(&s, i % 3 == 2 ? SIZES : ANY);
                scene_free(&s);
            }
        }
    }
    assert_int_equal(bad, 0);
}

/* All at the maximum: no sum leaves 32 bits. */
static void test_largest(void **state) {
    int bad = 0;
    (void)state;
    for (int f = 0; f < COUNT(format); f++) {
        scene s = scene_new(format[f], ATTN_DIM_MAX, STEP_TILES, 0, 2);
        bad += check(&s, LARGEST);
        scene_free(&s);
    }
    assert_int_equal(bad, 0);
}

/* Nothing to scale by, and what has no size. */
static void test_odd_numbers(void **state) {
    const float odd[] = {0, 1e-31f, 1e-38f, 1e30f, INFINITY, NAN};
    int bad = 0;
    (void)state;
    for (int i = 0; i < COUNT(odd) * COUNT(format); i++) {
        const uint64_t fp = fp_enter();
        scene s = scene_new(format[i % COUNT(format)], 64, 3, 1, 3);
        for (int keys = 0; keys < 2; keys++) {
            fill(&s, keys, ANY);
            for (int d = 0; d < 64; d++) s.q[64 + d] *= d ? 1e-32f : 0;
            s.q[64 + 5] = odd[i / COUNT(format)];
            for (int t = 0; t < 3 * TILE; t++) s.p[(t / TILE * ATTN_ROWS + 1) * TILE + t % TILE] *= t ? 1e-32f : 0;
            s.p[TILE + 5] = odd[i / COUNT(format)];
            bad += keys ? check_scores(&s) : check_values(&s);
            /* a token that has no finite scale */
            s.scale[1][3] = 0x7fc0;
            bad += keys ? check_scores(&s) : check_values(&s);
        }
        scene_free(&s);
        fp_leave(fp);
    }
    assert_int_equal(bad, 0);
}

/* Every code of float8 in every place of a line, by every path. */
static void test_float8(void **state) {
    int bad = 0;
    (void)state;
    for (int i = 0; i < 4 * (ATTN_DIM_MAX / TILE); i++) {
        const int kv = i % 2 ? KV_E5M2 : KV_E4M3, keys = i / 2 % 2, dim = (i / 4 + 1) * TILE;
        const kv_format *f = kv_format_of(kv);
        const element_format *to = element_format_of(ELEMENT_BF16);
        const size_t n = (size_t)dim * TILE * sizeof(uint16_t);
        uint8_t *tile = guard_alloc(kv_tile_bytes(f, dim), 64);
        uint8_t *got = guard_alloc(n, 64), *expected = guard_alloc(n, 64);
        float x[ATTN_DIM_MAX];
        for (int j = 0; j < dim * TILE; j++) tile[j] = (uint8_t)(j + i * 7 + j / 64);
        for (int t = 0; t < TILE; t++) {
            for (int d = 0; d < dim; d++) x[d] = kv_number(f, tile, dim, keys, t, d);
            if (keys) to->put_k(expected, t, x, dim);
            else to->put_v(expected, t, x, dim, dim);
        }
        for (int p = 0; p < COUNT(path); p++) {
            if (!kernels_of(path[p])) continue;
            memset(got, 0xff, n);
            (keys ? kernels_of(path[p])->widen_k : kernels_of(path[p])->widen_v)[kv](tile, dim, got);
            if (memcmp(got, expected, n) == 0) continue;
            print_error("%s: %s, keys %d, %d dims\n", path[p], f->name, keys, dim);
            bad++;
        }
        guard_free(tile);
        guard_free(got);
        guard_free(expected);
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_float8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
