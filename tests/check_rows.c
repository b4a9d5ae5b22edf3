/* check_rows.c - the row kernels: every path against the scalar one bit by bit, and the scalar one against doubles; odd
 * lengths, buffers that end at an unreadable page, every kind of number. Then the public calls, whole and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/fp.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "kvtile_ops.h"
#include "random.h"

enum { LENGTH_MAX = 1000 };

static const char *const paths[] = {"scalar", "avx2", "avx512", "avx512bf16"};
enum { N_PATHS = sizeof paths / sizeof *paths };

/* 1 .. 70, then what models have. */
static int next_length(int n) {
    return n < 70 ? n + 1 : n == 70 ? 576 : n == 576 ? LENGTH_MAX : 0;
}

/* --------------------------------------------------------------------------------------------- buffers */

static float *floats(size_t n) {
    return guard_alloc(n * sizeof(float), sizeof(float));
}

static float *copy_of(const float *x, size_t n) {
    return memcpy(floats(n), x, n * sizeof(float));
}

/* Ordinary numbers, as activations are. */
static float *plain(size_t n, uint64_t *seed) {
    float *x = floats(n);
    for (size_t i = 0; i < n; i++) x[i] = (float)(random_between(seed, -1, 1) * exp2(random_between(seed, -12, 4)));
    return x;
}

/* Any bits at all: denormals, infinities, NaN, the largest and the least. */
static float *wild(size_t n, uint64_t *seed) {
    float *x = floats(n);
    for (size_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)random_bits(seed), kind = random_below(seed, 12);
        if (kind == 0) r &= 0x807fffff;                       /* denormal or zero */
        else if (kind == 1) r |= 0x7f800000;                  /* NaN */
        else if (kind == 2) r = (r & 0x80000000) | 0x7f800000; /* infinity */
        else if (kind == 3) r &= 0x80000000;
        x[i] = bits_to_f32(r);
    }
    return x;
}

/* ----------------------------------------------------------------------------------------------- judges */

/* Elements whose bits differ. NaN equals NaN, whose payload is nobody's promise. */
static size_t bits_differ(const float *x, const float *y, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += memcmp(x + i, y + i, sizeof *x) != 0 && !(x[i] != x[i] && y[i] != y[i]);
    return bad;
}

/* Elements farther from `want` than `bound`; NaN is. */
static size_t values_differ(const float *x, const double *want, const double *bound, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += !(fabs((double)x[i] - want[i]) <= bound[i]);
    return bad;
}

static void test_the_judges_see_planted_errors(void **state) {
    (void)state;
    float x[3] = {1, -2, 0}, y[3] = {1, -2, 0};
    double want[3] = {1, -2, 0}, bound[3] = {1e-6, 1e-6, 1e-6};
    assert_int_equal(bits_differ(x, y, 3) + values_differ(x, want, bound, 3), 0);
    y[1] = bits_to_f32(bits_of_f32(y[1]) + 1); /* one in the last place */
    y[2] = -0.f;
    assert_int_equal(bits_differ(x, y, 3), 2);
    y[0] = NAN;
    y[1] = -2.000002f;
    assert_int_equal(values_differ(y, want, bound, 3), 2);
    assert_int_equal(bits_differ(x, y, 1), 1);
}

/* ------------------------------------------------------------------------------ the operations, one shape */

/* An operation on n elements of x in place, with a second operand as long. */
typedef struct operation {
    const char *name;
    void (*run)(const kernels *k, float *x, const float *by, int n);
    /* Result in doubles, and how far off it may be. */
    void (*want)(const float *x, const float *by, int n, double *want, double *bound);
    int step; /* lengths are multiples of it */
} operation;

static void norm_run(const kernels *k, float *x, const float *by, int n) {
    k->norm(x, by, 1e-5f, n, x);
}
static void norm_want(const float *x, const float *by, int n, double *want, double *bound) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * x[i];
    for (int i = 0; i < n; i++) {
        want[i] = x[i] / sqrt(sum / n + 1e-5f) * by[i];
        bound[i] = 4e-6 * fabs(want[i]);
    }
}

static void add_run(const kernels *k, float *x, const float *by, int n) {
    k->add(x, by, (size_t)n);
}
static void add_want(const float *x, const float *by, int n, double *want, double *bound) {
    for (int i = 0; i < n; i++) {
        want[i] = (double)x[i] + by[i];
        bound[i] = 0x1p-24 * fabs(want[i]);
    }
}

/* The factor is the second operand's first element: as wild as the rest. */
static void add_scaled_run(const kernels *k, float *x, const float *by, int n) {
    k->add_scaled(x, by, by[0], (size_t)n);
}
static void add_scaled_want(const float *x, const float *by, int n, double *want, double *bound) {
    for (int i = 0; i < n; i++) {
        want[i] = (double)x[i] + (double)by[0] * (double)by[i];
        bound[i] = 0x1.001p-24 * fabs(want[i]); /* rounded once: a rounded product would be farther off */
    }
}

static void scale_run(const kernels *k, float *x, const float *by, int n) {
    k->scale(x, by[0], (size_t)n);
}
static void scale_want(const float *x, const float *by, int n, double *want, double *bound) {
    for (int i = 0; i < n; i++) {
        want[i] = (double)x[i] * (double)by[0];
        bound[i] = 0x1p-24 * fabs(want[i]);
    }
}

static void silu_run(const kernels *k, float *x, const float *by, int n) {
    k->silu_mul(x, by, (size_t)n);
}
/* The exponent x log2 e is rounded to binary32: e^-x is off by up to |x| times 2^-24 and the constant's own error, and
 * exp2 by 1.6e-7. */
static void silu_want(const float *x, const float *by, int n, double *want, double *bound) {
    for (int i = 0; i < n; i++) {
        want[i] = x[i] / (1 + exp(-(double)x[i])) * by[i];
        bound[i] = (5e-7 + 1e-7 * fabs((double)x[i])) * fabs(want[i]);
    }
}

static void rope_beside_run(const kernels *k, float *x, const float *by, int n) {
    k->rope(x, by, n, 0);
}
static void rope_apart_run(const kernels *k, float *x, const float *by, int n) {
    k->rope(x, by, n, 1);
}
static void rope_want(const float *x, const float *by, int n, int step, int apart, double *want, double *bound) {
    for (int i = 0; i < n / 2; i++) {
        int at = i * step;
        double a = x[at], b = x[at + apart], c = by[2 * i], s = by[2 * i + 1];
        want[at] = a * c - b * s;
        want[at + apart] = b * c + a * s;
        bound[at] = 1.5e-7 * (fabs(a * c) + fabs(b * s));
        bound[at + apart] = 1.5e-7 * (fabs(b * c) + fabs(a * s));
    }
}
static void rope_beside_want(const float *x, const float *by, int n, double *want, double *bound) {
    rope_want(x, by, n, 2, 1, want, bound);
}
static void rope_apart_want(const float *x, const float *by, int n, double *want, double *bound) {
    rope_want(x, by, n, 1, n / 2, want, bound);
}

static void narrow_run(const kernels *k, float *x, const float *by, int n) {
    (void)by;
    k->narrow(x, (size_t)n);
}
static void narrow_want(const float *x, const float *by, int n, double *want, double *bound) {
    (void)by;
    for (int i = 0; i < n; i++) {
        want[i] = bf16_to_f32(f32_to_bf16(x[i]));
        bound[i] = 0;
    }
}

static const operation operations[] = {
    {"norm", norm_run, norm_want, 1},
    {"add", add_run, add_want, 1},
    {"add_scaled", add_scaled_run, add_scaled_want, 1},
    {"scale", scale_run, scale_want, 1},
    {"silu_mul", silu_run, silu_want, 1},
    {"rope, pairs beside", rope_beside_run, rope_beside_want, 2},
    {"rope, pairs apart", rope_apart_run, rope_apart_want, 2},
    {"narrow", narrow_run, narrow_want, 1},
};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

/* Every path on the same input: the scalar result against doubles (where the input is plain), the others against it. */
static void check_paths(const operation *op, float *(*fill)(size_t, uint64_t *), int n, uint64_t *seed) {
    float *x = fill((size_t)n, seed), *by = fill((size_t)n, seed), *scalar = copy_of(x, (size_t)n);
    double want[LENGTH_MAX], bound[LENGTH_MAX];
    op->run(kernels_of("scalar"), scalar, by, n);
    if (fill == plain) {
        op->want(x, by, n, want, bound);
        if (values_differ(scalar, want, bound, (size_t)n)) fail_msg("%s of %d: off from doubles", op->name, n);
    }
    for (int p = 1; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        float *got = copy_of(x, (size_t)n);
        op->run(kernels_of(paths[p]), got, by, n);
        size_t bad = bits_differ(scalar, got, (size_t)n);
        if (bad) fail_msg("%s of %d on %s: %zu elements differ from scalar", op->name, n, paths[p], bad);
        guard_free(got);
    }
    guard_free(x);
    guard_free(by);
    guard_free(scalar);
}

static void test_paths_agree_on_plain_numbers(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int o = 0; o < N_OPERATIONS; o++)
        for (int n = 1; n; n = next_length(n))
            for (int round = 0; round < 20; round++)
                if (n % operations[o].step == 0) check_paths(&operations[o], plain, n, &seed);
}

static void test_paths_agree_on_wild_numbers(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int o = 0; o < N_OPERATIONS; o++)
        for (int n = 1; n; n = next_length(n))
            for (int round = 0; round < 20; round++)
                if (n % operations[o].step == 0) check_paths(&operations[o], wild, n, &seed);
}

/* narrow is f32_to_bf16 also where doubles do not reach: NaN stays NaN, denormals become zeros of their sign. */
static void test_narrow_is_the_formats_narrowing(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int p = 0; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        float *x = wild(LENGTH_MAX, &seed), *want = copy_of(x, LENGTH_MAX);
        x[0] = want[0] = bits_to_f32(0x7fffffff);
        x[1] = want[1] = bits_to_f32(0xff800001);
        for (int i = 0; i < LENGTH_MAX; i++) want[i] = bf16_to_f32(f32_to_bf16(want[i]));
        kernels_of(paths[p])->narrow(x, LENGTH_MAX);
        assert_memory_equal(x, want, LENGTH_MAX * sizeof *x);
        guard_free(x);
        guard_free(want);
    }
}

/* ------------------------------------------------------------------------------ activations as codes */

/* Codes of 8 or 16 bits, the largest of a block `most`. */
typedef struct codes {
    int n, bits, most;
    void *q;
    float *s, *fs;
    int32_t *sum, *half;
} codes;

static codes codes_of(const char *path, int bits, const float *x, int n) {
    size_t n_blocks = (size_t)n / 32, bytes = (size_t)bits / 8;
    codes c = {n, bits, bits == 8 ? 127 : 32767, guard_alloc((size_t)n * bytes, bytes), floats(n_blocks),
               floats(n_blocks), guard_alloc(n_blocks * 4, 4), guard_alloc(n_blocks * 4, 4)};
    const kernels *k = kernels_of(path);
    memset(c.sum, 0xff, n_blocks * 4);
    memset(c.half, 0xff, n_blocks * 4);
    (bits == 8 ? k->quantise8 : k->quantise16)(x, n, c.q, c.s, c.fs, c.sum, c.half);
    return c;
}

/* Code of element i. Those of 16 bits lie as 0, 2, 1, 3 in each four. */
static int code_at(const codes *c, int i) {
    if (c->bits == 8) return ((int8_t *)c->q)[i];
    return ((int16_t *)c->q)[i - i % 4 + (const int[]){0, 2, 1, 3}[i % 4]];
}

static void codes_free(codes *c) {
    guard_free(c->q);
    guard_free(c->s);
    guard_free(c->fs);
    guard_free(c->sum);
    guard_free(c->half);
}

static int codes_differ(const codes *x, const codes *y) {
    size_t n_blocks = (size_t)x->n / 32;
    return memcmp(x->q, y->q, (size_t)(x->n * x->bits / 8)) || memcmp(x->sum, y->sum, n_blocks * 4) ||
           memcmp(x->half, y->half, n_blocks * 4) ||
           bits_differ(x->s, y->s, n_blocks) || bits_differ(x->fs, y->fs, n_blocks);
}

/* Block b by the contract's own words. */
static void check_block(const codes *c, const float *x, int b) {
    float most = 0;
    int32_t sum = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    for (int i = 0; i < 32; i++) {
        assert_int_equal(code_at(c, 32 * b + i), lrintf(x[i] * ((float)c->most / most)));
        if (i == 16) assert_int_equal(c->half[b], sum);
        sum += code_at(c, 32 * b + i);
    }
    assert_int_equal(c->sum[b], sum);
    float scale = most / (float)c->most;
    assert_true(c->s[b] == scale && c->fs[b] == scale * (float)sum);
}

static void check_quantise(int bits, float *(*fill)(size_t, uint64_t *), int n, uint64_t *seed) {
    float *x = fill((size_t)n, seed);
    codes scalar = codes_of("scalar", bits, x, n);
    for (int p = 1; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        codes got = codes_of(paths[p], bits, x, n);
        if (codes_differ(&scalar, &got)) fail_msg("%d codes of %d bits on %s differ from scalar", n, bits, paths[p]);
        codes_free(&got);
    }
    for (int b = 0; b < n / 32 && fill == plain; b++) check_block(&scalar, x + 32 * b, b);
    codes_free(&scalar);
    guard_free(x);
}

static void test_codes_are_near_and_alike(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int n = 32; n <= 640; n += 32)
        for (int round = 0; round < 40; round++) {
            int bits = round % 2 ? 16 : 8;
            check_quantise(bits, plain, n, &seed);
            check_quantise(bits, wild, n, &seed);
        }
}

static void special_blocks(const char *path, int bits) {
    const int most = bits == 8 ? 127 : 32767;
    const float size = (float)most;
    float *x = floats(6 * 32);
    x[0] = size; /* block 0: scale 1, ties to even */
    x[1] = 0.5f, x[2] = 1.5f, x[3] = -2.5f, x[4] = 0.5f - size, x[31] = -size;
    x[32] = 9e-31f;      /* 1: too small */
    x[64] = INFINITY;    /* 2 */
    x[96 + 31] = -NAN;   /* 3 */
    x[128] = 3.4e38f, x[129] = -3.4e38f, x[130] = 1.7e38f; /* 4 */
    x[160] = 1.1e-30f, x[191] = -1.1e-30f;                 /* 5: the inverse is large, but a number */
    codes c = codes_of(path, bits, x, 6 * 32);
    const int first[6] = {most, 0, 2, -2, 1 - most, 0};
    for (int i = 0; i < 6; i++) assert_int_equal(code_at(&c, i), first[i]);
    assert_int_equal(code_at(&c, 31), -most);
    assert_true(c.s[0] == 1 && c.sum[0] == 1 - most && c.fs[0] == 1 - size);
    assert_true(c.s[1] == 0 && c.fs[1] == 0 && code_at(&c, 32) == 0);
    assert_true(isnan(c.s[2]) && isnan(c.fs[2]) && c.sum[2] == 0 && c.half[2] == 0 && code_at(&c, 64) == 0);
    assert_true(isnan(c.s[3]) && isnan(c.fs[3]) && c.sum[3] == 0 && code_at(&c, 127) == 0);
    assert_true(code_at(&c, 128) == most && code_at(&c, 129) == -most && code_at(&c, 130) == (most + 1) / 2);
    assert_true(isfinite(c.s[4]));
    assert_true(code_at(&c, 160) == most && code_at(&c, 191) == -most && c.s[5] == 1.1e-30f / size);
    codes_free(&c);
    guard_free(x);
}

static void test_codes_of_special_blocks(void **state) {
    (void)state;
    for (int p = 0; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        special_blocks(paths[p], 8);
        special_blocks(paths[p], 16);
    }
}

/* ----------------------------------------------------------------------------------------- the public calls */

enum { ROWS = 91, WIDTH = 576, ALL = ROWS * WIDTH }; /* enough to be cut */

/* Every public row operation on the same input, one after the other. */
static float *public_calls(kvt_workers *team) {
    uint64_t seed = 5;
    float *x = plain(ALL, &seed), *y = plain(ALL, &seed), *weight = plain(WIDTH, &seed), *turns = floats(ROWS * 64);
    int32_t positions[ROWS];
    for (int r = 0; r < ROWS; r++) positions[r] = 17 * r;
    kvt_rope rope = {64, 10000, 0};
    kvt_rmsnorm(team, x, weight, 1e-5f, ROWS, WIDTH, x);
    kvt_add(team, x, y, ALL - 3);
    kvt_add_scaled(team, x, y, 0.3f, ALL - 7);
    kvt_scale(team, x, 1.7f, ALL - 9);
    kvt_add_row(team, x, weight, ROWS, WIDTH);
    kvt_silu_mul(team, x, y, ALL - 5);
    kvt_rope_turns(&rope, positions, ROWS, turns);
    kvt_rope_apply(team, &rope, turns, x, WIDTH, ROWS, 9, 64);
    rope.halves = 1;
    kvt_rope_apply(team, &rope, turns, x, WIDTH, ROWS, 3, 192);
    guard_free(y);
    guard_free(weight);
    guard_free(turns);
    return x;
}

/* The same by the kernels, row by row. */
static float *direct_calls(void) {
    uint64_t seed = 5;
    const kernels *k = kernels_of("scalar");
    float *x = plain(ALL, &seed), *y = plain(ALL, &seed), *weight = plain(WIDTH, &seed), *turns = floats(ROWS * 64);
    int32_t positions[ROWS];
    for (int r = 0; r < ROWS; r++) positions[r] = 17 * r;
    kvt_rope_turns(&(kvt_rope){64, 10000, 0}, positions, ROWS, turns);
    for (int r = 0; r < ROWS; r++) k->norm(x + r * WIDTH, weight, 1e-5f, WIDTH, x + r * WIDTH);
    k->add(x, y, ALL - 3);
    k->add_scaled(x, y, 0.3f, ALL - 7);
    k->scale(x, 1.7f, ALL - 9);
    for (int r = 0; r < ROWS; r++) k->add(x + r * WIDTH, weight, WIDTH);
    k->silu_mul(x, y, ALL - 5);
    for (int h = 0; h < ROWS * 9; h++) k->rope(x + h * 64, turns + h / 9 * 64, 64, 0);
    for (int h = 0; h < ROWS * 3; h++) k->rope(x + h * 192, turns + h / 3 * 64, 64, 1);
    guard_free(y);
    guard_free(weight);
    guard_free(turns);
    return x;
}

static void test_public_calls_are_the_kernels_on_any_team(void **state) {
    (void)state;
    float *want = direct_calls();
    for (int n_threads = 0; n_threads < 5; n_threads++) {
        kvt_workers *team = NULL; /* 0 here: no pool */
        if (n_threads) assert_int_equal(kvt_workers_open(&team, n_threads), KVT_OK);
        float *got = public_calls(team);
        assert_memory_equal(got, want, ALL * sizeof *got);
        guard_free(got);
        kvt_workers_close(team);
    }
    guard_free(want);
}

static void test_turns_are_rounded_once(void **state) {
    (void)state;
    const int32_t positions[] = {0, 1, 2, 63, 1000, 8191, 100003, 1048575};
    enum { N = sizeof positions / sizeof *positions };
    const kvt_rope ropes[] = {{64, 10000, 0}, {128, 500000, 1}, {2, 10000, 0}, {96, 100000, 0}};
    for (size_t o = 0; o < 4; o++) {
        int dim = ropes[o].dim;
        float *turns = floats((size_t)(N * dim));
        kvt_rope_turns(&ropes[o], positions, N, turns);
        for (int r = 0; r < N; r++)
            for (int i = 0; i < dim / 2; i++) {
                float f = (float)powl(ropes[o].base, -2.0L * i / dim), angle = (float)positions[r] * f;
                float c = (float)cosl((long double)angle), s = (float)sinl((long double)angle);
                assert_true(turns[r * dim + 2 * i] == c);
                assert_true(turns[r * dim + 2 * i + 1] == s);
            }
        guard_free(turns);
    }
}

/* A caller's frequencies instead of the base's, and a magnitude that is multiplied in before rounding. */
static void test_turns_of_given_frequencies(void **state) {
    (void)state;
    const int32_t positions[] = {0, 3, 4096, 131071};
    const float freqs[] = {1, 0.31f, 0.07f, 1e-4f, 3e-6f};
    const kvt_rope ropes[] = {{10, 0, 0, freqs, 0}, {10, 10000, 1, freqs, 1.1902381f}};
    for (size_t o = 0; o < 2; o++) {
        float turns[4 * 10];
        long double magnitude = o == 0 ? 1 : (long double)ropes[o].magnitude;
        kvt_rope_turns(&ropes[o], positions, 4, turns);
        for (int r = 0; r < 4; r++)
            for (int i = 0; i < 5; i++) {
                float angle = (float)positions[r] * freqs[i];
                assert_true(turns[r * 10 + 2 * i] == (float)(cosl((long double)angle) * magnitude));
                assert_true(turns[r * 10 + 2 * i + 1] == (float)(sinl((long double)angle) * magnitude));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_judges_see_planted_errors),
        cmocka_unit_test(test_paths_agree_on_plain_numbers),
        cmocka_unit_test(test_paths_agree_on_wild_numbers),
        cmocka_unit_test(test_narrow_is_the_formats_narrowing),
        cmocka_unit_test(test_codes_are_near_and_alike),
        cmocka_unit_test(test_codes_of_special_blocks),
        cmocka_unit_test(test_public_calls_are_the_kernels_on_any_team),
        cmocka_unit_test(test_turns_are_rounded_once),
        cmocka_unit_test(test_turns_of_given_frequencies),
    };
    uint64_t fp = fp_enter(); /* as kernels are always called */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fp_leave(fp);
    return failed;
}
