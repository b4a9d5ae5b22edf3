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

/* Arithmetic: activations as they are, as codes of 8 or of 16 bits. Numbered as kvt_math. */
enum { INT8 = KVT_MATH_FAST, FLOAT = KVT_MATH_EXACT, INT16 = KVT_MATH_ACCURATE, N_KINDS };
static const char *const kind_name[N_KINDS] = {"fast", "exact", "accurate"};
static const int code_most[N_KINDS] = {127, 0, 32767}, code_bytes[N_KINDS] = {1, 0, 2};
static const char *const paths[] = {"scalar", "avx2", "avx512", "avx512bf16"};
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

/* Activations as codes of one width; for FLOAT without memory. */
typedef struct codes {
    uint8_t *q;
    float *s, *fs;
    int32_t *sum;
} codes;

/* A matrix in panels, activations as floats and as codes. Made by the calls below, freed by problem_free. */
typedef struct problem {
    int format, n, k, m, n_panels, n_blocks;
    size_t panel_bytes, row_bytes;
    uint8_t *file, *panels;
    float *x; /* [m][k] */
    codes codes[N_KINDS];
} problem;

static int is_quantised(int format) {
    return weight_format_of(format)->block > 1;
}

/* Float weights know one arithmetic. */
static int has_kind(int format, int kind) {
    return kind == FLOAT || is_quantised(format);
}

/* Code of activation i [m][k]. */
static int act_at(const problem *p, int kind, int i) {
    int row = i / p->k, k = i % p->k;
    if (kind == INT8) return ((int8_t *)p->codes[INT8].q)[i];
    int16_t q;
    int place = k - k % 4 + (const int[]){0, 2, 1, 3}[k % 4];
    memcpy(&q, p->codes[INT16].q + 2 * (row * p->k + place), sizeof q);
    return q;
}
static void act_put(problem *p, int kind, int i, int code) {
    int place = i - i % 4 + (const int[]){0, 2, 1, 3}[i % 4]; /* k is a multiple of 4 */
    int16_t q = (int16_t)code;
    if (kind == INT8) p->codes[INT8].q[i] = (uint8_t)code;
    else memcpy(p->codes[INT16].q + 2 * place, &q, sizeof q);
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
    const codes *c8 = &p->codes[INT8], *c16 = &p->codes[INT16];
    for (size_t r = 0; r < (size_t)p->m; r++) {
        size_t b = r * (size_t)p->n_blocks, k = r * (size_t)p->k;
        scalar->quantise8(p->x + k, p->k, c8->q + k, c8->s + b, c8->fs + b, c8->sum + b);
        scalar->quantise16(p->x + k, p->k, c16->q + 2 * k, c16->s + b, c16->fs + b, c16->sum + b);
    }
}

static codes codes_make(int m, int k, int bytes) {
    size_t numbers = (size_t)(m * (k / BLOCK) + 1) * 4; /* one more, as there may be no block at all */
    codes c = {guard_alloc((size_t)(m * k * bytes), (size_t)bytes), (float *)guard_alloc(numbers, 4) + 1,
               (float *)guard_alloc(numbers, 4) + 1, (int32_t *)guard_alloc(numbers, 4) + 1};
    return c;
}

static void codes_free(codes *c) {
    guard_free(c->q);
    guard_free(c->s - 1);
    guard_free(c->fs - 1);
    guard_free(c->sum - 1);
}

static problem problem_make(int format, int n, int k, int m) {
    const weight_format *f = weight_format_of(format);
    problem p = {.format = format, .n = n, .k = k, .m = m, .n_panels = (n + TILE - 1) / TILE, .n_blocks = k / BLOCK};
    p.row_bytes = weight_row_bytes(f, (size_t)k);
    p.panel_bytes = weight_panel_bytes(f, (size_t)k);
    p.file = malloc((size_t)n * p.row_bytes);
    p.panels = guard_alloc((size_t)p.n_panels * p.panel_bytes, 64);
    p.x = guard_alloc((size_t)(m * k) * sizeof *p.x, 4);
    p.codes[INT8] = codes_make(m, k, 1);
    p.codes[INT16] = codes_make(m, k, 2);
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
    codes_free(&p->codes[INT8]);
    codes_free(&p->codes[INT16]);
}

/* The first m rows on one path. y [m][16 * n_panels], for guard_free. */
static float *run(const problem *p, const char *path, int kind, int m) {
    const kernels *k = kernels_of(path);
    size_t stride = (size_t)p->n_panels * TILE;
    float *y = guard_alloc((size_t)m * stride * sizeof *y, 4);
    mm_panels w = {p->panels, p->panel_bytes, p->n_panels, p->k};
    memset(y, 0xff, (size_t)m * stride * sizeof *y);
    const codes *c = &p->codes[kind];
    act_rows act = {c->q, c->s, c->fs, c->sum, (size_t)(p->k * code_bytes[kind]), (size_t)p->n_blocks};
    if (kind == INT8) k->mm_int8[p->format](&w, &act, m, y, stride);
    else if (kind == INT16) k->mm_int16[p->format](&w, &act, m, y, stride);
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

static void kind_same_bits(const problem *p, int kind) {
    float *want = run(p, "scalar", kind, p->m);
    for (int i = 1; i < COUNT(paths); i++) {
        if (!kernels_of(paths[i])) continue;
        for (int j = 0; j < COUNT(all_m); j++) {
            float *y = run(p, paths[i], kind, all_m[j]);
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
            for (int k = 0; k < COUNT(all_k) + (is_quantised(f) ? 0 : COUNT(odd_k)); k++) {
                problem p = problem_make(f, all_n[n], k < COUNT(all_k) ? all_k[k] : odd_k[k - COUNT(all_k)], M_MAX);
                same_bits(&p);
                problem_free(&p);
            }
}

static void planted_error(int format, int kind) {
    /* given a result */
    problem p = problem_make(format, 48, 160, 3);
    size_t n = (size_t)(p.m * p.n_panels * TILE);
    float *before = run(&p, "scalar", kind, p.m);
    /* when one bit of one code changes, then that row of outputs does, for each row of activations */
    p.file[40 * p.row_bytes + 10] ^= 2;
    pack(&p);
    for (int i = 0; i < COUNT(paths); i++) {
        if (!kernels_of(paths[i])) continue;
        float *after = run(&p, paths[i], kind, p.m);
        assert_int_equal(n_different(before, after, n), p.m);
        guard_free(after);
    }
    /* and one unit in the last place of one value is not overlooked */
    float *copy = run(&p, "scalar", kind, p.m);
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
                double x = kind == FLOAT ? (double)p->x[i] : (double)p->codes[kind].s[i / BLOCK] * act_at(p, kind, i);
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
        for (int k = 0; k < COUNT(all_k) + (is_quantised(f) ? 0 : COUNT(odd_k)); k++)
            for (int i = 0; i < COUNT(paths); i++) {
                if (!kernels_of(paths[i])) continue;
                problem p = problem_make(f, 17, k < COUNT(all_k) ? all_k[k] : odd_k[k - COUNT(all_k)], 9);
                for (int kind = 0; kind < N_KINDS; kind++) {
                    if (!has_kind(f, kind)) continue;
                    float *y = run(&p, paths[i], kind, p.m);
                    assert_int_equal(n_wrong(&p, kind, y), 0);
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

/* Scales of 1 and minima of 0; codes of weights and activations drawn, up to -128 and +-127 or +-32767. */
static void fill_unit(problem *p, int kind, int how_w, int how_x) {
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
    codes *c = &p->codes[kind];
    for (int b = 0; b < p->m * p->n_blocks; b++) {
        c->sum[b] = 0;
        c->s[b] = 1;
        for (int i = b * BLOCK; i < (b + 1) * BLOCK; i++) {
            int code = draw(how_x, -code_most[kind], code_most[kind]);
            act_put(p, kind, i, code);
            c->sum[b] += code;
        }
        c->fs[b] = (float)c->sum[b];
    }
}

/* The exact dot of a block is rounded once, the sum of two once more; 8 bits need neither, as 2^24 is far. */
static float dots_by_block(const problem *p, int kind, int row, int r) {
    float sum = 0;
    for (int b = 0; b < p->n_blocks; b++) {
        int64_t dot = 0;
        for (int k = b * BLOCK; k < (b + 1) * BLOCK; k++)
            dot += (int64_t)code_of(p, row, k) * act_at(p, kind, r * p->k + k);
        sum = (float)dot + sum;
    }
    return sum;
}

static void integer_dots_are_exact(void **state) {
    (void)state;
    for (int f = WEIGHT_Q4_0; f <= WEIGHT_Q8_0; f++)
        for (int draws = 0; draws < 2 * N_DRAWS * N_DRAWS; draws++) {
            /* given scales of 1 and codes up to their ends */
            int kind = draws % 2 ? INT16 : INT8;
            problem p = problem_make(f, 17, 576, 9);
            fill_unit(&p, kind, draws / 2 / N_DRAWS, draws / 2 % N_DRAWS);
            for (int i = 0; i < COUNT(paths); i++) {
                if (!kernels_of(paths[i])) continue;
                float *y = run(&p, paths[i], kind, p.m);
                for (int o = 0; o < p.n * p.m; o++)
                    assert_true(y[o % p.m * p.n_panels * TILE + o / p.m] == dots_by_block(&p, kind, o / p.m, o % p.m));
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
            for (int kind = 0; kind < N_KINDS; kind++) {
                if (!has_kind(f, kind)) continue;
                /* given three rows, and the middle one with a value at the edge */
                problem p = problem_make(f, 17, 96, 3);
                size_t width = (size_t)p.n_panels * TILE;
                float *calm = run(&p, "scalar", kind, p.m), *want;
                for (int i = 0; i < p.k; i++)
                    if (isfinite(extreme[e]) || i == 50) p.x[p.k + i] = extreme[e];
                quantise(&p);
                want = run(&p, "scalar", kind, p.m);
                /* then its neighbours do not notice, it is NaN (or infinite) where it must be, and paths agree */
                assert_int_equal(n_different(calm, want, width), 0);
                assert_int_equal(n_different(calm + 2 * width, want + 2 * width, width), 0);
                for (int i = 0; i < p.n && !isfinite(extreme[e]); i++) {
                    assert_false(isfinite(want[width + (size_t)i]));
                    if (kind != FLOAT || isnan(extreme[e])) assert_true(isnan(want[width + (size_t)i]));
                }
                for (int i = 1; i < COUNT(paths); i++) {
                    if (!kernels_of(paths[i])) continue;
                    float *y = run(&p, paths[i], kind, p.m);
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
            same_bits(&p);
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
    for (int math = 0; math < N_KINDS; math++) {
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
            float *want = run(&p[i], "scalar", has_kind(p[i].format, math) ? math : FLOAT, M_MAX);
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
    for (int math = 0; math < N_KINDS; math++) {
        assert_int_equal(kvt_input_new(&in, p.m, p.k, (kvt_math)math), KVT_OK);
        kvt_input_set(in, team, p.x, (size_t)p.k, p.m, p.k);
        float *y = guard_alloc((size_t)(p.m * p.n) * sizeof *y, 4);
        float *want = run(&p, "scalar", math, p.m);
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
    assert_int_equal(kvt_input_new(&in, 1, 32, (kvt_math)3), KVT_E_ARGUMENT);
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
