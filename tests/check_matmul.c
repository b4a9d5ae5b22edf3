/* check_matmul.c - matrix products: every path x weight format x shape against the scalar definition (same bits) and
 * against binary64 (a bound); all buffers end at an unreadable page. Then the public calls: a row's result is the same
 * alone, in a batch, on any number of threads, beside other products. */
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
#include "kernel/kernel.h"
#include "kvtile_ops.h"

enum { BLOCK = 32, M_MAX = 33, N_MAX = 100 };

static const char *const paths[] = {"scalar", "avx2", "avx512"};
static const int all_k[] = {32, 64, 96, 160, 576, 1536}, odd_k[] = {1, 7, 33, 99};
static const int all_n[] = {1, 15, 16, 17, 48, 100}, all_m[] = {1, 2, 3, 5, 8, 9, 16, 33};
#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

/* ------------------------------------------------------------------------------------------ random problems */

static uint64_t seed;
static uint32_t rng(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}
static float rng_float(float size) {
    return size * ((float)(rng() & 0xffffff) / 8388608.f - 1);
}

/* A matrix in panels, activations as floats and as codes. Made by the calls below, freed by problem_free. */
typedef struct problem {
    int format, n, k, m, n_panels, n_blocks;
    size_t panel_bytes, row_bytes;
    uint8_t *file, *panels;
    float *x; /* [m][k] */
    act_rows act;
    int8_t *q; /* what act points to */
    float *s, *fs;
    int32_t *sum;
} problem;

static int is_quantised(int format) {
    return weight_format_of(format)->block > 1;
}

static void put16(uint8_t *p, uint16_t h) {
    memcpy(p, &h, sizeof h);
}

/* Random codes; scales and minima of usual size. */
static void fill_file(problem *p) {
    const weight_format *f = weight_format_of(p->format);
    size_t block_bytes = f->block_bytes, n = (size_t)p->n * p->row_bytes;
    for (size_t at = 0; at < n; at += block_bytes) {
        uint8_t *b = p->file + at;
        float w = rng_float(0.1f);
        if (p->format == WEIGHT_F32) memcpy(b, &w, sizeof w);
        if (p->format == WEIGHT_F16) put16(b, f32_to_f16(w));
        if (p->format == WEIGHT_BF16) put16(b, f32_to_bf16(w));
        if (!is_quantised(p->format)) continue;
        for (size_t i = 2; i < block_bytes; i++) b[i] = (uint8_t)rng();
        put16(b, f32_to_f16(rng_float(0.02f)));
        if (p->format == WEIGHT_Q4_1) put16(b + 2, f32_to_f16(w));
    }
}

static void pack(problem *p) {
    const weight_format *f = weight_format_of(p->format);
    for (int i = 0; i < p->n_panels; i++)
        f->pack(p->file + (size_t)i * TILE * p->row_bytes, p->row_bytes,
                p->n - i * TILE < TILE ? p->n - i * TILE : TILE, (size_t)p->k, p->panels + (size_t)i * p->panel_bytes);
}

static void quantise(problem *p) {
    if (!is_quantised(p->format)) return;
    const kernels *scalar = kernels_of("scalar");
    for (size_t r = 0; r < (size_t)p->m; r++) {
        size_t b = r * (size_t)p->n_blocks;
        scalar->quantise(p->x + r * (size_t)p->k, p->k, p->q + r * (size_t)p->k, p->s + b, p->fs + b, p->sum + b);
    }
}

static problem problem_make(int format, int n, int k, int m) {
    const weight_format *f = weight_format_of(format);
    problem p = {.format = format, .n = n, .k = k, .m = m, .n_panels = (n + TILE - 1) / TILE, .n_blocks = k / BLOCK};
    p.row_bytes = weight_row_bytes(f, (size_t)k);
    p.panel_bytes = weight_panel_bytes(f, (size_t)k);
    p.file = malloc((size_t)n * p.row_bytes);
    p.panels = guard_alloc((size_t)p.n_panels * p.panel_bytes, 64);
    p.x = guard_alloc((size_t)(m * k) * sizeof *p.x, 4);
    size_t numbers = (size_t)(m * p.n_blocks + 1) * 4; /* one more, as there may be no block at all */
    p.q = guard_alloc((size_t)(m * k), 1);
    p.s = (float *)guard_alloc(numbers, 4) + 1;
    p.fs = (float *)guard_alloc(numbers, 4) + 1;
    p.sum = (int32_t *)guard_alloc(numbers, 4) + 1;
    p.act = (act_rows){p.q, p.s, p.fs, p.sum, (size_t)k, (size_t)p.n_blocks};
    assert_non_null(p.file);
    for (int i = 0; i < m * k; i++) p.x[i] = rng_float(i % 97 ? 1.f : 20.f);
    fill_file(&p);
    pack(&p);
    quantise(&p);
    return p;
}

static void problem_free(problem *p) {
    free(p->file);
    guard_free(p->panels);
    guard_free(p->x);
    guard_free(p->q);
    guard_free(p->s - 1);
    guard_free(p->fs - 1);
    guard_free(p->sum - 1);
}

/* The first m rows on one path; fast: integer dots. y [m][16 * n_panels], for guard_free. */
static float *run(const problem *p, const char *path, int fast, int m) {
    const kernels *k = kernels_of(path);
    size_t stride = (size_t)p->n_panels * TILE;
    float *y = guard_alloc((size_t)m * stride * sizeof *y, 4);
    mm_panels w = {p->panels, p->panel_bytes, p->n_panels, p->k};
    memset(y, 0xff, (size_t)m * stride * sizeof *y);
    if (fast) k->mm_int8[p->format](&w, &p->act, m, y, stride);
    else k->mm_f32[p->format](&w, p->x, (size_t)p->k, m, y, stride);
    return y;
}

/* Values that differ in a bit; any NaN is like any other. */
static size_t n_different(const float *a, const float *b, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]));
    return bad;
}

/* ------------------------------------------------------------------------------------ kernels: the same bits */

static void same_bits(const problem *p, int fast) {
    float *want = run(p, "scalar", fast, p->m);
    for (int i = 1; i < COUNT(paths); i++) {
        if (!kernels_of(paths[i])) continue;
        for (int j = 0; j < COUNT(all_m); j++) {
            float *y = run(p, paths[i], fast, all_m[j]);
            size_t bad = n_different(want, y, (size_t)(all_m[j] * p->n_panels * TILE));
            if (bad)
                fail_msg("%s %s %s, n %d k %d m %d: %zu values differ from scalar", paths[i],
                         weight_format_of(p->format)->name, fast ? "fast" : "exact", p->n, p->k, all_m[j], bad);
            guard_free(y);
        }
    }
    guard_free(want);
}

static void every_path_gives_the_scalar_bits(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++)
        for (int n = 0; n < COUNT(all_n); n++)
            for (int k = 0; k < COUNT(all_k) + (is_quantised(f) ? 0 : COUNT(odd_k)); k++) {
                problem p = problem_make(f, all_n[n], k < COUNT(all_k) ? all_k[k] : odd_k[k - COUNT(all_k)], M_MAX);
                same_bits(&p, 0);
                if (is_quantised(f)) same_bits(&p, 1);
                problem_free(&p);
            }
}

static void a_planted_error_is_seen(void **state) {
    (void)state;
    for (int f = 0; f < N_WEIGHT_FORMATS; f++) {
        /* given a result */
        problem p = problem_make(f, 48, 160, 3);
        size_t n = (size_t)(p.m * p.n_panels * TILE);
        float *before = run(&p, "scalar", 0, p.m);
        /* when one bit of one code changes, then that row of outputs does, for each row of activations */
        p.file[40 * p.row_bytes + 10] ^= 2;
        pack(&p);
        for (int i = 0; i < COUNT(paths); i++) {
            if (!kernels_of(paths[i])) continue;
            float *after = run(&p, paths[i], 0, p.m);
            assert_int_equal(n_different(before, after, n), p.m);
            guard_free(after);
        }
        /* and one unit in the last place of one value is not overlooked */
        float *copy = run(&p, "scalar", 0, p.m);
        memcpy(copy, before, n * sizeof *copy);
        copy[n - 1] = nextafterf(copy[n - 1], 1);
        assert_int_equal(n_different(before, copy, n), 1);
        guard_free(copy);
        guard_free(before);
        problem_free(&p);
    }
}

/* ---------------------------------------------------------------------------------- kernels: the right values */

/* Outputs that are off by more than 4e-6 of the sum of the sizes of the products, or NaN. Weights and activations
 * come from the file and from the codes, not from panels. */
static int n_wrong(const problem *p, int fast, const float *y) {
    int bad = 0;
    float *w = malloc((size_t)p->k * sizeof *w);
    assert_non_null(w);
    for (int row = 0; row < p->n; row++) {
        weight_format_of(p->format)->widen(p->file + (size_t)row * p->row_bytes, (size_t)p->k, w);
        for (int r = 0; r < p->m; r++) {
            double sum = 0, size = 0;
            for (int k = 0; k < p->k; k++) {
                int i = r * p->k + k;
                double product = w[k] * (fast ? (double)p->s[i / BLOCK] * p->q[i] : (double)p->x[i]);
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
        for (int k = 0; k < COUNT(all_k) + (is_quantised(f) ? 0 : COUNT(odd_k)); k++)
            for (int i = 0; i < COUNT(paths); i++) {
                if (!kernels_of(paths[i])) continue;
                problem p = problem_make(f, 17, k < COUNT(all_k) ? all_k[k] : odd_k[k - COUNT(all_k)], 9);
                for (int fast = 0; fast <= is_quantised(f); fast++) {
                    float *y = run(&p, paths[i], fast, p.m);
                    assert_int_equal(n_wrong(&p, fast, y), 0);
                    guard_free(y);
                }
                problem_free(&p);
            }
}

/* Code of a file's row less its bias, as the format's table in docs has it. */
static int code_of(const problem *p, int row, int k) {
    size_t block_bytes = weight_format_of(p->format)->block_bytes;
    const uint8_t *b = p->file + (size_t)row * p->row_bytes + (size_t)(k / BLOCK) * block_bytes;
    int i = k % BLOCK;
    if (p->format == WEIGHT_Q8_0) return (int8_t)b[2 + i];
    b += p->format == WEIGHT_Q4_1 ? 4 : 2;
    return (i < 16 ? b[i] & 15 : b[i - 16] >> 4) - (p->format == WEIGHT_Q4_0 ? 8 : 0);
}

/* How the codes of the next test are drawn. */
enum { DRAW_ANY, DRAW_LOWEST, DRAW_HIGHEST, DRAW_ENDS, N_DRAWS };

static int draw(int how, int lowest, int highest) {
    if (how == DRAW_ANY) return lowest + (int)(rng() % (uint32_t)(highest - lowest + 1));
    if (how == DRAW_ENDS) return rng() & 1 ? lowest : highest;
    return how == DRAW_LOWEST ? lowest : highest;
}

/* Scales of 1 and minima of 0; codes of weights and activations drawn, up to -128 and +-127. */
static void fill_unit(problem *p, int how_w, int how_x) {
    size_t block_bytes = weight_format_of(p->format)->block_bytes;
    for (size_t at = 0; at < (size_t)p->n * p->row_bytes; at += block_bytes) {
        for (size_t i = 2; i < block_bytes; i++) {
            int low = draw(how_w, 0, 15), high = draw(how_w, 0, 15);
            p->file[at + i] = (uint8_t)(p->format == WEIGHT_Q8_0 ? draw(how_w, -128, 127) : low | high << 4);
        }
        put16(p->file + at, f32_to_f16(1));
        if (p->format == WEIGHT_Q4_1) put16(p->file + at + 2, 0);
    }
    pack(p);
    for (int b = 0; b < p->m * p->n_blocks; b++) {
        p->sum[b] = 0;
        p->s[b] = 1;
        for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++) p->sum[b] += p->q[i] = (int8_t)draw(how_x, -127, 127);
        p->fs[b] = (float)p->sum[b];
    }
}

static void integer_dots_are_exact(void **state) {
    (void)state;
    for (int f = WEIGHT_Q4_0; f <= WEIGHT_Q8_0; f++)
        for (int draws = 0; draws < N_DRAWS * N_DRAWS; draws++) {
            /* given scales of 1, so that a sum of up to 2^24 is itself in float32 */
            problem p = problem_make(f, 17, 576, 9);
            fill_unit(&p, draws / N_DRAWS, draws % N_DRAWS);
            for (int i = 0; i < COUNT(paths); i++) {
                if (!kernels_of(paths[i])) continue;
                float *y = run(&p, paths[i], 1, p.m);
                for (int o = 0; o < p.n * p.m; o++) {
                    int64_t dot = 0;
                    for (int k = 0; k < p.k; k++) dot += code_of(&p, o / p.m, k) * p.q[o % p.m * p.k + k];
                    assert_true(y[o % p.m * p.n_panels * TILE + o / p.m] == (float)dot);
                }
                guard_free(y);
            }
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
            for (int fast = 0; fast <= is_quantised(f); fast++) {
                /* given three rows, and the middle one with a value at the edge */
                problem p = problem_make(f, 17, 96, 3);
                size_t width = (size_t)p.n_panels * TILE;
                float *calm = run(&p, "scalar", fast, p.m), *want;
                for (int i = 0; i < p.k; i++)
                    if (isfinite(extreme[e]) || i == 50) p.x[p.k + i] = extreme[e];
                quantise(&p);
                want = run(&p, "scalar", fast, p.m);
                /* then its neighbours do not notice, it is NaN (or infinite) where it must be, and paths agree */
                assert_int_equal(n_different(calm, want, width), 0);
                assert_int_equal(n_different(calm + 2 * width, want + 2 * width, width), 0);
                for (int i = 0; i < p.n && !isfinite(extreme[e]); i++) {
                    assert_false(isfinite(want[width + (size_t)i]));
                    if (fast || isnan(extreme[e])) assert_true(isnan(want[width + (size_t)i]));
                }
                for (int i = 1; i < COUNT(paths); i++) {
                    if (!kernels_of(paths[i])) continue;
                    float *y = run(&p, paths[i], fast, p.m);
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
            problem p = problem_make(f, 17, 96, M_MAX);
            size_t step = weight_format_of(f)->block_bytes * 3;
            for (size_t at = 0; at < (size_t)p.n * p.row_bytes; at += step)
                put16(p.file + at + (f == WEIGHT_F32 ? 2 : f == WEIGHT_Q4_1 ? (size_t)(rng() & 2) : 0), halves[h]);
            pack(&p);
            same_bits(&p, 0);
            if (is_quantised(f)) same_bits(&p, 1);
            problem_free(&p);
        }
}

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
    assert_int_equal(kvt_input_new(&in, M_MAX, 600, math), KVT_OK);
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

static void a_row_is_the_same_in_any_company(void **state) {
    (void)state;
    for (int math = KVT_MATH_FAST; math <= KVT_MATH_EXACT; math++) {
        /* given three matrices of different formats and sizes with the same input */
        problem p[3] = {problem_make(WEIGHT_Q4_1, 100, 576, M_MAX), problem_make(WEIGHT_F16, 17, 576, M_MAX),
                        problem_make(WEIGHT_Q8_0, 48, 576, M_MAX)};
        kvt_matrix *w[3] = {matrix_of(&p[0], NULL), matrix_of(&p[1], NULL), matrix_of(&p[2], NULL)};
        for (int i = 1; i < 3; i++) {
            memcpy(p[i].x, p[0].x, (size_t)(M_MAX * p[0].k) * sizeof *p[0].x);
            quantise(&p[i]);
        }
        float *batch = calloc(3 * M_MAX * N_MAX, sizeof *batch), *y = calloc(3 * M_MAX * N_MAX, sizeof *y);
        multiply(p, w, (kvt_math)math, 1, 3, 0, M_MAX, batch);
        /* then the kernels' own results are what comes out, without the padding */
        for (int i = 0; i < 3; i++) {
            float *want = run(&p[i], "scalar", math == KVT_MATH_FAST && is_quantised(p[i].format), M_MAX);
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
}

static void many_rows_are_cut_and_put_together(void **state) {
    (void)state;
    /* given more rows than an item takes, and more panels */
    problem p = problem_make(WEIGHT_Q4_0, 1100, 64, 205);
    kvt_workers *team;
    kvt_input *in;
    assert_int_equal(kvt_workers_open(&team, 2), KVT_OK);
    kvt_matrix *w = matrix_of(&p, team);
    for (int math = KVT_MATH_FAST; math <= KVT_MATH_EXACT; math++) {
        assert_int_equal(kvt_input_new(&in, p.m, p.k, (kvt_math)math), KVT_OK);
        kvt_input_set(in, team, p.x, (size_t)p.k, p.m, p.k);
        float *y = guard_alloc((size_t)(p.m * p.n) * sizeof *y, 4);
        float *want = run(&p, "scalar", math == KVT_MATH_FAST, p.m);
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
        problem p = problem_make(f, 100, 160, 1);
        kvt_matrix *w = matrix_of(&p, NULL);
        float got[160], want[160];
        for (int row = 0; row < p.n; row++) {
            weight_format_of(f)->widen(p.file + (size_t)row * p.row_bytes, 160, want);
            kvt_matrix_row(w, (size_t)row, got);
            assert_memory_equal(got, want, sizeof want);
        }
        assert_int_equal(kvt_matrix_rows(w), 100);
        assert_int_equal(kvt_matrix_cols(w), 160);
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
    bad.type = (kvt_weight_type)14;
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
    assert_int_equal(kvt_input_new(&in, 1, 32, (kvt_math)2), KVT_E_ARGUMENT);
    assert_null(in);
    assert_string_equal(kvt_weight_name(KVT_W_Q4_1), "Q4_1");
    assert_null(kvt_weight_name((kvt_weight_type)14));
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
    seed = 20240229;
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
        TEST(a_row_is_the_same_in_any_company),
        TEST(many_rows_are_cut_and_put_together),
        TEST(a_row_comes_back_widened),
        TEST(bad_descriptions_are_refused),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
