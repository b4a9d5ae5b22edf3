/* check_attn.c - attention kernels: every path against the scalar one bit by bit, and the scalar one against binary64.
 *
 * The bound on the error of an output element, with the softmax's true weights p, values v, keys k and query q:
 *
 *     (4e-6 + 2^-22 * largest over tokens of c * sum |k q|) * sum |p v|         weights in float32
 *     2^-8 * sum |p v| more                                                    weights rounded to bf16
 *
 * 4e-6 is the sums' and exp2's part; the second term is the rounding of scores, which the exponential turns into a
 * relative error of weights; half a unit in the last of bf16's 8 places is at most 2^-8. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "kvtile.h"

enum { TOKENS_MAX = 2500, TILES_MAX = (TOKENS_MAX + TILE - 1) / TILE + 1, SEGMENTS_MAX = 3 };

static const char *const path[] = {"avx2", "avx512", "avx512bf16"};
enum { N_PATHS = sizeof path / sizeof *path };

/* ------------------------------------------------------------------------------------------- the data */

static uint64_t seed = 1;
static uint32_t random_bits(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}
/* Of variance 1, between -3.5 and 3.5. */
static float random_normal(void) {
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += random_bits() * 0x1p-32 - 0.5;
    return (float)(sum * sqrt(3));
}

/* Keys and values of one head: every tile in memory of its own that ends at an unreadable page. */
typedef struct store {
    int k_format, v_format, dim_k, dim_v, n_tokens;
    void *k_tile[TILES_MAX], *v_tile[TILES_MAX];
    float *key, *value; /* [n_tokens][dim_k], [n_tokens][dim_v] as stored, widened */
} store;

static void store_put(store *s, int token) {
    const element_format *kf = element_format_of(s->k_format), *vf = element_format_of(s->v_format);
    float *key = s->key + token * s->dim_k, *value = s->value + token * s->dim_v;
    for (int d = 0; d < s->dim_k; d++) key[d] = random_normal();
    for (int d = 0; d < s->dim_v; d++) value[d] = random_normal();
    kf->put_k(s->k_tile[token / TILE], token % TILE, key, s->dim_k);
    vf->put_v(s->v_tile[token / TILE], token % TILE, value, s->dim_v, s->dim_v);
    kf->get_k(s->k_tile[token / TILE], token % TILE, key, s->dim_k);
    vf->get_v(s->v_tile[token / TILE], token % TILE, value, s->dim_v, s->dim_v);
}

static store *store_new(int k_format, int v_format, int dim_k, int dim_v, int n_tokens) {
    store *s = calloc(1, sizeof *s);
    *s = (store){.k_format = k_format, .v_format = v_format, .dim_k = dim_k, .dim_v = dim_v, .n_tokens = n_tokens};
    s->key = malloc((size_t)(n_tokens * dim_k) * sizeof(float));
    s->value = malloc((size_t)(n_tokens * dim_v) * sizeof(float));
    for (int t = 0; t <= (n_tokens + TILE - 1) / TILE; t++) {
        s->k_tile[t] = guard_alloc((size_t)(TILE * dim_k) * element_format_of(k_format)->bytes, 64);
        s->v_tile[t] = guard_alloc((size_t)(TILE * dim_v) * element_format_of(v_format)->bytes, 64);
    }
    for (int t = 0; t < n_tokens; t++) store_put(s, t);
    return s;
}

static void store_free(store *s) {
    for (int t = 0; t < TILES_MAX; t++) {
        guard_free(s->k_tile[t]);
        guard_free(s->v_tile[t]);
    }
    free(s->key);
    free(s->value);
    free(s);
}

/* Query rows over the first n_tokens tokens of a store. */
typedef struct rows {
    const store *s;
    int n_tokens, n_rows, narrow;
    int position[ATTN_ROWS];
    float c;
    float *q; /* [n_rows][dim_k] */
} rows;

/* Where the rows stand: decoding, all at the end; prefill, three rows per token; or spread over the whole sequence. */
enum { AT_END, CAUSAL, SPREAD_OUT, N_PLACES };

static void rows_place(rows *x, int place) {
    for (int r = 0; r < x->n_rows; r++) {
        int after = x->n_rows - 1 - r, back = 0;
        if (place == CAUSAL) back = after / 3;
        if (place == SPREAD_OUT) back = after * x->n_tokens / x->n_rows;
        x->position[r] = back < x->n_tokens ? x->n_tokens - 1 - back : 0;
    }
}

static rows *rows_new(const store *s, int n_rows, int narrow, float spread) {
    rows *x = calloc(1, sizeof *x);
    *x = (rows){.s = s, .n_tokens = s->n_tokens, .n_rows = n_rows, .narrow = narrow};
    x->c = (float)(1.4426950408889634 / sqrt(s->dim_k));
    x->q = guard_alloc((size_t)(n_rows * s->dim_k) * sizeof(float), 64);
    for (int i = 0; i < n_rows * s->dim_k; i++) {
        float f = spread * random_normal();
        x->q[i] = narrow && s->k_format == ELEMENT_BF16 ? bf16_to_f32(f32_to_bf16(f)) : f;
    }
    rows_place(x, AT_END);
    return x;
}

static void rows_free(rows *x) {
    guard_free(x->q);
    free(x);
}

/* ------------------------------------------------------------------------------------------ running */

/* All that a run computes: per segment m and l and o of each row, then the output of each row. */
static size_t record_size(const rows *x) {
    return (size_t)x->n_rows * (size_t)(SEGMENTS_MAX * (2 + x->s->dim_v) + x->s->dim_v);
}
static float *record_new(const rows *x) { return calloc(record_size(x), sizeof(float)); }
static float *record_out(const rows *x, float *record) {
    return record + (size_t)x->n_rows * (size_t)(SEGMENTS_MAX * (2 + x->s->dim_v));
}

/* n pointers that end at an unreadable page. */
static const void **pointers_new(void *const *from, int n) {
    const void **p = guard_alloc((size_t)n * sizeof *p, sizeof *p);
    memcpy(p, from, (size_t)n * sizeof *p);
    return p;
}

static attn_scratch *scratch_of(void) {
    static attn_scratch *scratch;
    if (!scratch) scratch = guard_alloc(sizeof *scratch, 64);
    memset(scratch, 0xff, sizeof *scratch); /* NaN: nothing is taken over from before */
    return scratch;
}

/* Segment `index` of the rows: m [n_rows], l [n_rows], o [n_rows][dim_v]. */
static void run_segment(const kernels *k, const rows *x, int index, float *m, float *l, float *o) {
    const int first = index * ATTN_SEGMENT, left = x->n_tokens - first;
    const int n = left < ATTN_SEGMENT ? left : ATTN_SEGMENT, n_k = (n + TILE - 1) / TILE, n_v = (n_k + 1) / 2 * 2;
    attn_segment seg = {.k_tile = pointers_new(x->s->k_tile + first / TILE, n_k),
                        .v_tile = pointers_new(x->s->v_tile + first / TILE, n_v),
                        .n_tokens = n,
                        .first = first,
                        .k_format = x->s->k_format,
                        .v_format = x->s->v_format,
                        .dim_k = x->s->dim_k,
                        .dim_v = x->s->dim_v,
                        .n_heads = 1,
                        .n_rows = x->n_rows,
                        .position = x->position,
                        .q = x->q,
                        .c = x->c,
                        .narrow_q = x->narrow && x->s->k_format == ELEMENT_BF16,
                        .narrow = x->narrow && x->s->v_format == ELEMENT_BF16};
    attn_segment_run(k, &seg, scratch_of(), m, l, o);
    guard_free((void *)seg.k_tile);
    guard_free((void *)seg.v_tile);
}

static void run(const kernels *k, const rows *x, float *record) {
    const int n_segments = (x->n_tokens + ATTN_SEGMENT - 1) / ATTN_SEGMENT;
    const size_t n_rows = (size_t)x->n_rows, dim = (size_t)x->s->dim_v;
    float *m = guard_alloc(n_rows * sizeof *m, sizeof *m), *l = guard_alloc(n_rows * sizeof *l, sizeof *l);
    float *o = guard_alloc(n_rows * dim * sizeof *o, 64), *O = guard_alloc(n_rows * dim * sizeof *O, 64);
    float *out = guard_alloc(n_rows * dim * sizeof *out, 64), M[ATTN_ROWS], L[ATTN_ROWS] = {0};
    const uint64_t fp = fp_enter();
    for (size_t r = 0; r < n_rows; r++) M[r] = -INFINITY;
    for (int i = 0; i < n_segments; i++, record += n_rows * (2 + dim)) {
        run_segment(k, x, i, m, l, o);
        memcpy(record, m, n_rows * sizeof *m);
        memcpy(record + n_rows, l, n_rows * sizeof *l);
        memcpy(record + 2 * n_rows, o, n_rows * dim * sizeof *o);
        for (size_t r = 0; r < n_rows; r++) k->attn_merge((int)dim, &M[r], &L[r], O + r * dim, m[r], l[r], o + r * dim);
    }
    record += (size_t)(SEGMENTS_MAX - n_segments) * n_rows * (2 + dim);
    for (size_t r = 0; r < n_rows; r++) k->attn_finish((int)dim, L[r], O + r * dim, out + r * dim);
    fp_leave(fp);
    memcpy(record, out, n_rows * dim * sizeof *out);
    float *all[] = {m, l, o, O, out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) guard_free(all[i]);
}

static int records_differ(const rows *x, const float *a, const float *b) {
    return memcmp(a, b, record_size(x) * sizeof *a) != 0;
}

/* --------------------------------------------------------------------------------------- the reference */

static double worst[2]; /* error over bound, the largest so far; float32 weights, bf16 weights */

/* One row in binary64: out[dim] and the bound of its error. */
static void reference_row(const rows *x, int r, double *out, double *bound) {
    static double weight[TOKENS_MAX];
    const store *s = x->s;
    double top = -INFINITY, size_most = 0, sum = 0;
    const int n = x->position[r] + 1;
    for (int t = 0; t < n; t++) {
        double score = 0, size = 0;
        for (int d = 0; d < s->dim_k; d++) {
            double product = (double)s->key[t * s->dim_k + d] * x->q[r * s->dim_k + d];
            score += product;
            size += fabs(product);
        }
        weight[t] = score * x->c;
        top = fmax(top, weight[t]);
        size_most = fmax(size_most, size * x->c);
    }
    memset(out, 0, (size_t)s->dim_v * sizeof *out);
    memset(bound, 0, (size_t)s->dim_v * sizeof *bound);
    for (int t = 0; t < n; t++) sum += weight[t] = exp2(weight[t] - top);
    const double share = 4e-6 + 0x1p-22 * size_most + (x->narrow ? 0x1p-8 : 0);
    for (int t = 0; t < n; t++) {
        for (int d = 0; d < s->dim_v; d++) {
            double product = weight[t] / sum * s->value[t * s->dim_v + d];
            out[d] += product;
            bound[d] += share * fabs(product);
        }
    }
}

/* Output elements off by more than the bound. */
static int wrong_elements(const rows *x, const float *out) {
    static double expected[ATTN_DIM_MAX], bound[ATTN_DIM_MAX];
    int bad = 0;
    for (int r = 0; r < x->n_rows; r++) {
        reference_row(x, r, expected, bound);
        for (int d = 0; d < x->s->dim_v; d++) {
            double diff = fabs(out[r * x->s->dim_v + d] - expected[d]);
            bad += !(diff <= bound[d]);
            worst[x->narrow] = fmax(worst[x->narrow], diff / bound[d]);
        }
    }
    return bad;
}

/* ------------------------------------------------------------------------------------------- the checks */

static void complain(const rows *x, const char *what) {
    const store *s = x->s;
    print_error("%s: k %s %d, v %s %d, %d rows, %d tokens, narrow %d, first row at %d\n", what,
                element_format_of(s->k_format)->name, s->dim_k, element_format_of(s->v_format)->name, s->dim_v,
                x->n_rows, x->n_tokens, x->narrow, x->position[0]);
}

/* Every path gives the scalar bits, and those are right. Returns the number of failures. */
static int check_rows(const rows *x) {
    int bad = 0;
    float *expected = record_new(x), *got = record_new(x);
    run(kernels_of("scalar"), x, expected);
    if (wrong_elements(x, record_out(x, expected))) {
        complain(x, "scalar is off");
        bad++;
    }
    for (int p = 0; p < N_PATHS; p++) {
        if (!kernels_of(path[p])) continue;
        run(kernels_of(path[p]), x, got);
        if (!records_differ(x, expected, got)) continue;
        complain(x, path[p]);
        bad++;
    }
    free(expected);
    free(got);
    return bad;
}

/* All group sizes and some lengths over one store. */
static int check_store(store *s, const int *lengths, int n_lengths, const int *groups, int n_groups) {
    int bad = 0;
    for (int g = 0; g < n_groups; g++) {
        const int narrows = s->k_format == ELEMENT_BF16 || s->v_format == ELEMENT_BF16;
        for (int narrow = 0; narrow <= narrows; narrow++) {
            rows *x = rows_new(s, groups[g], narrow, g % 2 ? 6.f : 1.f);
            for (int i = 0; i < n_lengths; i++) {
                x->n_tokens = lengths[i];
                rows_place(x, (i + g) % N_PLACES);
                bad += check_rows(x);
            }
            rows_free(x);
        }
    }
    return bad;
}

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void test_formats_shapes_and_lengths(void **state) {
    (void)state;
    const int dims[][2] = {{32, 32},   {64, 64},   {80, 80},   {96, 96}, {128, 128},
                           {192, 192}, {256, 256}, {192, 128}, {48, 80}};
    const int lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 100, 255, 256, 257, 300};
    const int groups[] = {1, 2, 3, 4, 7, 8, 16};
    int bad = 0;
    for (int f = 0; f < N_ELEMENT_FORMATS * N_ELEMENT_FORMATS; f++) {
        for (int i = 0; i < COUNT(dims); i++) {
            store *s = store_new(f / N_ELEMENT_FORMATS, f % N_ELEMENT_FORMATS, dims[i][0], dims[i][1], 300);
            /* Every length for equal formats, every third for mixed ones: a kernel knows only one of the two. */
            int step = f / N_ELEMENT_FORMATS == f % N_ELEMENT_FORMATS ? 1 : 3, some[COUNT(lengths)], n = 0;
            for (int j = (f + i) % step; j < COUNT(lengths); j += step) some[n++] = lengths[j];
            bad += check_store(s, some, n, groups, COUNT(groups));
            store_free(s);
        }
    }
    assert_int_equal(bad, 0);
}

/* Several heads in one call give the bits of a call for each. */
static void test_heads_together(void **state) {
    enum { HEADS = 4, TOKENS = 1100 };
    static const void *k_tile[HEADS][SEGMENT_TILES], *v_tile[HEADS][SEGMENT_TILES];
    const int lengths[] = {1, 17, 33, 256, 290, 1024}, formats[] = {ELEMENT_BF16, ELEMENT_F16, ELEMENT_F32};
    int bad = 0;
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        store *s[HEADS];
        for (int h = 0; h < HEADS; h++) s[h] = store_new(formats[f], formats[(f + 1) % 3], 64, 96, TOKENS);
        for (int i = 0; i < COUNT(lengths) * (ATTN_ROWS / HEADS); i++) {
            const int n = lengths[i % COUNT(lengths)], n_rows = 1 + i / COUNT(lengths);
            float m[2][ATTN_ROWS], l[2][ATTN_ROWS], o[2][ATTN_ROWS * 96];
            rows *x = rows_new(s[0], HEADS * n_rows, i % 2, 1);
            x->n_tokens = n;
            rows_place(x, CAUSAL);
            for (int h = 0; h < HEADS; h++) {
                memcpy(k_tile[h], s[h]->k_tile, sizeof k_tile[h]);
                memcpy(v_tile[h], s[h]->v_tile, sizeof v_tile[h]);
            }
            attn_segment seg = {.k_tile = k_tile[0], .v_tile = v_tile[0], .n_tokens = n, .k_format = s[0]->k_format};
            seg.v_format = s[0]->v_format, seg.dim_k = 64, seg.dim_v = 96, seg.q = x->q, seg.c = x->c;
            seg.position = x->position, seg.n_rows = n_rows;
            seg.narrow_q = x->narrow && seg.k_format == ELEMENT_BF16;
            seg.narrow = x->narrow && seg.v_format == ELEMENT_BF16;
            for (int p = 0; p < N_PATHS; p++) {
                if (!kernels_of(path[p])) continue;
                seg.n_heads = HEADS;
                attn_segment_run(kernels_of(path[p]), &seg, scratch_of(), m[0], l[0], o[0]);
                for (int h = 0; h < HEADS; h++) {
                    attn_segment one = seg;
                    one.n_heads = 1, one.k_tile = k_tile[h], one.v_tile = v_tile[h], one.q = x->q + h * n_rows * 64;
                    attn_segment_run(kernels_of(path[p]), &one, scratch_of(), m[1] + h * n_rows, l[1] + h * n_rows,
                                     o[1] + h * n_rows * 96);
                }
                const size_t rows_all = (size_t)(HEADS * n_rows);
                bad += memcmp(m[0], m[1], rows_all * sizeof(float)) || memcmp(l[0], l[1], rows_all * sizeof(float)) ||
                       memcmp(o[0], o[1], rows_all * 96 * sizeof(float));
            }
            rows_free(x);
        }
        for (int h = 0; h < HEADS; h++) store_free(s[h]);
    }
    assert_int_equal(bad, 0);
}

static void test_segments_and_merge(void **state) {
    (void)state;
    const int dims[][2] = {{64, 64}, {96, 128}};
    const int lengths[] = {1000, 1024, 1025, 2500}, groups[] = {2, 5};
    int bad = 0;
    for (int f = 0; f < N_ELEMENT_FORMATS * N_ELEMENT_FORMATS; f++) {
        store *s = store_new(f / N_ELEMENT_FORMATS, f % N_ELEMENT_FORMATS, dims[f % 2][0], dims[f % 2][1], TOKENS_MAX);
        bad += check_store(s, lengths, COUNT(lengths), groups, COUNT(groups));
        store_free(s);
    }
    assert_int_equal(bad, 0);
    print_message("largest error: %.2f of the bound, %.2f with narrow weights\n", worst[0], worst[1]);
}

/* What lies behind the visible tokens changes nothing: anything at all in keys, any finite number in values. */
static void test_unused_slots(void **state) {
    (void)state;
    enum { N = 300, SEEN = 261 };
    int bad = 0;
    for (int f = 0; f < N_ELEMENT_FORMATS; f++) {
        store *s = store_new(f, f, 80, 80, N);
        rows *x = rows_new(s, 5, f == ELEMENT_BF16, 1);
        float *before = record_new(x), *after = record_new(x), *zero = calloc(80, sizeof *zero);
        x->n_tokens = SEEN;
        rows_place(x, CAUSAL);
        for (int p = -1; p < N_PATHS; p++) {
            const kernels *k = kernels_of(p < 0 ? "scalar" : path[p]);
            if (!k) continue;
            /* given a result, when all that no row may see is replaced, then it is the same */
            for (int t = SEEN; t < N; t++) store_put(s, t);
            run(k, x, before);
            for (int t = SEEN; t < N; t++) {
                float poison[80];
                for (int d = 0; d < 80; d++) poison[d] = t % 3 == 0 ? NAN : t % 3 == 1 ? INFINITY : 1e38f;
                element_format_of(f)->put_k(s->k_tile[t / TILE], t % TILE, poison, 80);
                element_format_of(f)->put_v(s->v_tile[t / TILE], t % TILE, zero, 80, 80);
            }
            run(k, x, after);
            bad += records_differ(x, before, after);
        }
        free(before);
        free(after);
        free(zero);
        rows_free(x);
        store_free(s);
    }
    assert_int_equal(bad, 0);
}

/* A row's output depends neither on the rows it shares a call with nor on the pairs and steps visited for them. */
static void test_grouping(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_PLACES * N_ELEMENT_FORMATS; i++) {
        store *s = store_new(i % N_ELEMENT_FORMATS, ELEMENT_BF16, 64, 96, 1500);
        rows *x = rows_new(s, ATTN_ROWS, i % 2, 3);
        rows_place(x, i / N_ELEMENT_FORMATS);
        float *together = record_new(x), *alone = record_new(x);
        for (int p = 0; p < N_PATHS; p++) {
            const kernels *k = kernels_of(path[p]);
            if (!k) continue;
            run(k, x, together);
            for (int r = 0; r < ATTN_ROWS; r++) {
                rows one = *x;
                one.n_rows = 1;
                one.q = x->q + r * s->dim_k;
                one.position[0] = x->position[r];
                one.n_tokens = x->position[r] + 1;
                run(k, &one, alone);
                const float *row = record_out(x, together) + r * s->dim_v;
                bad += memcmp(row, record_out(&one, alone), (size_t)s->dim_v * sizeof *row) != 0;
            }
        }
        free(together);
        free(alone);
        rows_free(x);
        store_free(s);
    }
    assert_int_equal(bad, 0);
}

/* exp2 as softmax shows it: with c = 1 and m = 0 a score's weight is its exp2. */
static void exp2_of(const kernels *k, const float *t, float *p) {
    static _Alignas(64) float s[STEP_TILES][ATTN_ROWS * TILE];
    float m = 0, l[TILE] = {0}, o[TILE] = {0};
    for (int i = 0; i < ATTN_STEP; i++) s[i / TILE][i % TILE] = t[i];
    const uint64_t fp = fp_enter();
    k->attn_softmax(&(attn_row){
        .s = s[0], .n_visible = ATTN_STEP, .n_pairs = STEP_TILES / 2, .c = 1, .m = &m, .l = l, .o = o, .dim = TILE});
    fp_leave(fp);
    for (int i = 0; i < ATTN_STEP; i++) p[i] = s[i / TILE][i % TILE];
}

static void test_exp2(void **state) {
    (void)state;
    const float special[] = {0, -0.f, -INFINITY, NAN, -126, -126.00001f, -1e30f, 8, 7.9999995f, 1, -1, 1e-30f, -1e-30f};
    int differ = 0, off = 0;
    for (int round = 0; round < 2000; round++) {
        float t[ATTN_STEP], expected[ATTN_STEP], got[ATTN_STEP];
        for (int i = 0; i < ATTN_STEP; i++) {
            float close = (float)(round % 130 - 126) + random_normal() * 1e-6f; /* around whole numbers */
            t[i] = i < COUNT(special) ? special[i] : i % 2 ? random_bits() * 0x1p-32f * 136 - 128 : close;
            if (t[i] > 8) t[i] = 8;
        }
        exp2_of(kernels_of("scalar"), t, expected);
        for (int i = 0; i < ATTN_STEP; i++) {
            double truth = t[i] < -126 ? 0 : exp2(t[i]);
            off += !(fabs(expected[i] - truth) <= 2.5e-7 * truth) && t[i] == t[i];
        }
        assert_true(expected[0] == 1 && expected[2] == 0 && isnan(expected[3]));
        for (int p = 0; p < N_PATHS; p++) {
            if (!kernels_of(path[p])) continue;
            exp2_of(kernels_of(path[p]), t, got);
            for (int i = 0; i < ATTN_STEP; i++) {
                differ += memcmp(&got[i], &expected[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(expected[i]));
            }
        }
    }
    assert_int_equal(off, 0);
    assert_int_equal(differ, 0);
}

/* A score that is NaN makes the sum NaN, wherever it lies, and leaves the maximum to the others. */
static void test_nan_scores(void **state) {
    static _Alignas(64) float s[STEP_TILES][ATTN_ROWS * TILE];
    (void)state;
    for (int p = -1; p < N_PATHS; p++) {
        const kernels *k = kernels_of(p < 0 ? "scalar" : path[p]);
        if (!k) continue;
        for (int i = 0; i < 41 * 3; i++) {
            const int n = i / 3 + 1, at = i % 3 * (n - 1) / 2;
            float m = -INFINITY, l[TILE] = {0}, o[TILE] = {0}, sum = 0;
            for (int t = 0; t < n; t++) s[t / TILE][t % TILE] = t == at ? NAN : (float)(t * 7 % 41);
            float top = -INFINITY;
            for (int t = 0; t < n; t++) top = t != at && s[t / TILE][t % TILE] > top ? s[t / TILE][t % TILE] : top;
            const uint64_t fp = fp_enter();
            k->attn_softmax(&(attn_row){
                .s = s[0], .n_visible = n, .n_pairs = (n + 31) / 32, .c = 1, .m = &m, .l = l, .o = o, .dim = TILE});
            fp_leave(fp);
            for (int t = 0; t < TILE; t++) sum += l[t];
            if (m != top || !isnan(sum)) fail_msg("%s: NaN %d of %d: m is %g", k->cpu, at, n, (double)m);
        }
    }
}

/* The checks bite: the least change of one score, of one sum or of one output is seen. */
static void flip_last_bit(float *f) {
    uint32_t bits;
    memcpy(&bits, f, sizeof bits);
    bits ^= 1;
    memcpy(f, &bits, sizeof bits);
}
static void qk_off(const attn_qk_args *a) {
    kernels_of("scalar")->attn_qk[ELEMENT_F32](a);
    float *top = a->s; /* the largest of the first tile: a small one's last bit would vanish in the sums */
    for (int t = 1; t < TILE; t++) top = a->s[t] > *top ? a->s + t : top;
    flip_last_bit(top);
}
static void pv_off(const attn_pv_args *a) {
    kernels_of("scalar")->attn_pv[ELEMENT_F32](a);
    flip_last_bit(a->o + a->dim - 1);
}
static void finish_off(int dim, float L, const float *O, float *out) {
    kernels_of("scalar")->attn_finish(dim, L, O, out);
    flip_last_bit(out + dim - 1);
}
static void finish_nan(int dim, float L, const float *O, float *out) {
    kernels_of("scalar")->attn_finish(dim, L, O, out);
    out[0] = NAN;
}

static void test_planted_faults(void **state) {
    (void)state;
    store *s = store_new(ELEMENT_F32, ELEMENT_F32, 64, 64, TILE);
    rows *x = rows_new(s, 1, 0, 6); /* scores large enough that their last bit shows in the weight */
    float *right = record_new(x), *wrong = record_new(x);
    run(kernels_of("scalar"), x, right);

    kernels fault[4];
    for (int i = 0; i < COUNT(fault); i++) fault[i] = *kernels_of("scalar");
    fault[0].attn_qk[ELEMENT_F32] = qk_off;
    fault[1].attn_pv[ELEMENT_F32] = pv_off;
    fault[2].attn_finish = finish_off;
    fault[3].attn_finish = finish_nan;
    for (int i = 0; i < COUNT(fault); i++) {
        run(&fault[i], x, wrong);
        assert_true(records_differ(x, right, wrong));
    }
    assert_int_equal(wrong_elements(x, record_out(x, wrong)), 1); /* the NaN */
    run(kernels_of("scalar"), x, wrong);
    assert_false(records_differ(x, right, wrong));
    record_out(x, wrong)[0] *= 1.001f;
    assert_int_equal(wrong_elements(x, record_out(x, wrong)), 1);
    worst[0] = worst[1] = 0;

    free(right);
    free(wrong);
    rows_free(x);
    store_free(s);
}

/* The names of the table mean what they say. */
static void test_table(void **state) {
    (void)state;
    assert_non_null(kernels_of("scalar"));
    assert_null(kernels_of("no such path"));
    assert_null(kernels_of(NULL));
    assert_ptr_equal(kernels_of(kernels_get()->cpu), kernels_get());
    assert_string_equal(kvt_cpu(), kernels_get()->cpu);
    for (int p = 0; p < N_PATHS; p++) {
        if (kernels_of(path[p])) assert_string_equal(kernels_of(path[p])->cpu, path[p]);
        else print_message("%s: not on this machine, not checked\n", path[p]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_planted_faults),
        cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_unused_slots),
        cmocka_unit_test(test_grouping),
        cmocka_unit_test(test_formats_shapes_and_lengths),
        cmocka_unit_test(test_heads_together),
        cmocka_unit_test(test_segments_and_merge),
        cmocka_unit_test(test_nan_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
