/* check_codes.c - attention over segments that are partly sealed: every path against the scalar one bit by bit, and the
 * scalar one against binary64 over what format/kv.c says the records mean.
 *
 * The bound on the error of an output element is that of check_attn.c, and more where queries or weights were rounded
 * to integers: half a unit of each, qmax / 32512 of a query, the step's largest p * scale / 32767 of a weight. An
 * error of a score, in units of the exponent, changes weights by at most as much, relatively, and their sum likewise.
 * */
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
#include "random.h"

static const char *const path[] = {"avx2", "avx512", "avx512bf16"};
enum { N_PATHS = sizeof path / sizeof *path, HEADS_MAX = 5, TOKENS_MAX = 1024 };
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static uint64_t seed = 1;
static int random_int(int n) { return (int)random_below(&seed, (unsigned)n); }
static float random_float(double most) { return (float)random_between(&seed, -most, most); }

/* ------------------------------------------------------------------------------------------- the data */

/* What a check is about. */
typedef struct scene {
    int k_format, v_format, dim_k, dim_v, block_tiles;
    int n_tokens, sealed_from, sealed_to; /* tokens */
    int n_heads, n_rows, narrow, place;
    float spread; /* of queries */
    int most;     /* sealed elements are up to 2 to this, centroids aside */
    int extreme, first; /* what is out of the common; the segment's first position */
} scene;

/* Keys or values of one head: hot tiles and records, each in memory of its own that ends at an unreadable page. */
typedef struct half {
    void *hot[SEGMENT_TILES + 1], *record[SEGMENT_TILES];
} half;

typedef struct store {
    scene is;
    half k[HEADS_MAX], v[HEADS_MAX];
    const void **k_tile, **v_tile; /* [n_heads][SEGMENT_TILES] */
    void *zero_tile;
    float *q;
    int position[ATTN_ROWS];
} store;

/* Numbers at which paths might part. Scales are those that sealing makes. */
enum { COMMON, ONE_WEIGHT, UNDERFLOW, DENORMAL_QUERY, LEAST_SCALES, HUGE_SCALES, HUGE_QUERY, MIXED_SCALES, N_EXTREMES };

/* Scale of a token of an extreme scene. One key beyond all others leaves a weight of 1 and zeros. */
static float extreme_scale(const scene *s, int keys, int token) {
    switch (s->extreme) {
    case ONE_WEIGHT: return keys && token == 3 ? 0x1p20f : keys ? 0x1p-100f : 1;
    case UNDERFLOW: return keys ? 0.4f * (float)(1 + token % 5) : 0x1p-100f;
    case LEAST_SCALES: return 0x1p-100f;
    case HUGE_SCALES: return 1e30f;
    case MIXED_SCALES: return token % 3 ? 0x1p-100f : 1e30f;
    default: return 0.01f;
    }
}

static float query_size(const scene *s) {
    return s->extreme == DENORMAL_QUERY ? 0x1p-127f : s->extreme == HUGE_QUERY ? 1e30f : s->spread;
}

static int tiles_of(const scene *s) { return (s->n_tokens + TILE - 1) / TILE; }
static int is_sealed(const scene *s, int token) { return token >= s->sealed_from && token < s->sealed_to; }

static void record_fill(const scene *s, const kv_format *f, int dim, int keys, uint8_t *record) {
    const size_t n_codes = kv_scales_at(f, dim, s->block_tiles);
    uint16_t *scale = (uint16_t *)(void *)(record + n_codes);
    for (size_t i = 0; i < n_codes; i++) {
        record[i] = (uint8_t)random_int(256);
        if (record[i] == 0x80 && f->bits == 8) record[i] = 0; /* no seal makes it */
    }
    for (int t = 0; t < s->block_tiles * TILE; t++) {
        const int least = s->most - (f->kind == KV_CODES ? 7 : f == kv_format_of(KV_E4M3) ? 9 : 16) - random_int(3);
        scale[t] = f32_to_bf16((float)ldexp(1 + random_int(256) / 256., least));
        if (s->extreme) scale[t] = f32_to_bf16(extreme_scale(s, keys, t));
    }
    if (f->kind != KV_CODES || !keys) return;
    uint16_t *centroid = (uint16_t *)(void *)(record + kv_centroid_at(f, dim, s->block_tiles));
    for (int d = 0; d < dim; d++) centroid[d] = f32_to_bf16(random_float(d % 9 == 0 ? 20 : 1));
}

static void hot_fill(const element_format *f, int dim, int keys, void *tile) {
    float x[ATTN_DIM_MAX];
    for (int t = 0; t < TILE; t++) {
        for (int d = 0; d < dim; d++) x[d] = random_float(2);
        if (keys) f->put_k(tile, t, x, dim);
        else f->put_v(tile, t, x, dim, dim);
    }
}

/* What is sealed exists only so, the rest only as hot tiles. */
static void half_make(const scene *s, int format, int dim, int keys, half *to, const void **tile) {
    const kv_format *f = kv_format_of(format);
    const element_format *hot = element_format_of(keys ? f->hot_k : f->hot_v);
    for (int t = 0; t < tiles_of(s); t++) {
        const int block = t / s->block_tiles;
        if (is_sealed(s, t * TILE) && f->kind != KV_PLAIN) {
            if (!to->record[block]) {
                to->record[block] = guard_alloc(kv_record_bytes(f, dim, s->block_tiles, keys), 64);
                record_fill(s, f, dim, keys, to->record[block]);
            }
            tile[t] = (uint8_t *)to->record[block] + (size_t)(t % s->block_tiles) * kv_tile_bytes(f, dim);
        } else {
            tile[t] = to->hot[t] = guard_alloc((size_t)(TILE * dim) * hot->bytes, 64);
            hot_fill(hot, dim, keys, to->hot[t]);
        }
    }
}

/* Decoding, all at the end; three rows per token; or each somewhere else. */
enum { AT_END, CAUSAL, SPREAD_OUT, N_PLACES };

static void rows_place(store *x) {
    const scene *s = &x->is;
    for (int r = 0; r < s->n_rows; r++) {
        const int after = s->n_rows - 1 - r;
        const int back = s->place == AT_END ? 0 : s->place == CAUSAL ? after / 3 : after * s->n_tokens / s->n_rows;
        x->position[r] = s->first + (back < s->n_tokens ? s->n_tokens - 1 - back : 0);
    }
}

static int narrows(int format) {
    const kv_format *f = kv_format_of(format);
    return f->hot_v == ELEMENT_BF16 && f->kind != KV_CODES;
}

static store *store_new(scene s) {
    store *x = calloc(1, sizeof *x);
    const size_t n_q = (size_t)(s.n_heads * s.n_rows * s.dim_k);
    x->is = s;
    x->k_tile = guard_alloc((size_t)s.n_heads * SEGMENT_TILES * sizeof *x->k_tile, sizeof *x->k_tile);
    x->v_tile = guard_alloc((size_t)s.n_heads * SEGMENT_TILES * sizeof *x->v_tile, sizeof *x->v_tile);
    const element_format *hot_v = element_format_of(kv_format_of(s.v_format)->hot_v);
    x->zero_tile = guard_alloc((size_t)(TILE * s.dim_v) * hot_v->bytes, 64);
    for (int h = 0; h < s.n_heads; h++) {
        half_make(&s, s.k_format, s.dim_k, 1, &x->k[h], x->k_tile + h * SEGMENT_TILES);
        half_make(&s, s.v_format, s.dim_v, 0, &x->v[h], x->v_tile + h * SEGMENT_TILES);
    }
    x->q = guard_alloc(n_q * sizeof *x->q, 64);
    for (size_t i = 0; i < n_q; i++) {
        x->q[i] = random_float((double)query_size(&s));
        if (s.narrow && narrows(s.k_format)) x->q[i] = bf16_to_f32(f32_to_bf16(x->q[i]));
    }
    rows_place(x);
    return x;
}

static void store_free(store *x) {
    for (int h = 0; h < x->is.n_heads; h++) {
        for (int t = 0; t < SEGMENT_TILES; t++) {
            guard_free(x->k[h].hot[t]);
            guard_free(x->v[h].hot[t]);
            guard_free(x->k[h].record[t]);
            guard_free(x->v[h].record[t]);
        }
    }
    guard_free((void *)x->k_tile);
    guard_free((void *)x->v_tile);
    guard_free(x->zero_tile);
    guard_free(x->q);
    free(x);
}

/* ------------------------------------------------------------------------------------------- running */

typedef struct result {
    float m[ATTN_ROWS], l[ATTN_ROWS], o[ATTN_ROWS * ATTN_DIM_MAX];
} result;

static attn_scratch *scratch_of(void) {
    static attn_scratch *scratch;
    if (!scratch) scratch = guard_alloc(sizeof *scratch, 64);
    memset(scratch, 0xff, sizeof *scratch); /* NaN: nothing is taken over from before */
    return scratch;
}

/* Heads head .. head + n_heads - 1 of a store. */
static void run_heads(const kernels *k, const store *x, int head, int n_heads, result *to) {
    const scene *s = &x->is;
    const int row = head * s->n_rows;
    const attn_segment seg = {.k_tile = x->k_tile + head * SEGMENT_TILES,
                              .v_tile = x->v_tile + head * SEGMENT_TILES,
                              .sealed_from = s->sealed_from,
                              .sealed_to = s->sealed_to,
                              .block_tiles = s->block_tiles,
                              .zero_tile = x->zero_tile,
                              .n_tokens = s->n_tokens,
                              .first = s->first,
                              .k_format = s->k_format,
                              .v_format = s->v_format,
                              .dim_k = s->dim_k,
                              .dim_v = s->dim_v,
                              .n_heads = n_heads,
                              .n_rows = s->n_rows,
                              .position = x->position,
                              .q = x->q + row * s->dim_k,
                              .c = (float)(1.4426950408889634 / sqrt(s->dim_k)),
                              .narrow_q = s->narrow && narrows(s->k_format),
                              .narrow = s->narrow && narrows(s->v_format)};
    const uint64_t fp = fp_enter();
    attn_segment_run(k, &seg, scratch_of(), to->m + row, to->l + row, to->o + row * s->dim_v);
    fp_leave(fp);
}

/* NaN is NaN. */
static int floats_differ(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return 1;
    }
    return 0;
}

static int results_differ(const store *x, const result *a, const result *b) {
    const size_t n = (size_t)(x->is.n_heads * x->is.n_rows);
    return floats_differ(a->m, b->m, n) || floats_differ(a->l, b->l, n) ||
           floats_differ(a->o, b->o, n * (size_t)x->is.dim_v);
}

/* ----------------------------------------------------------------------------------------- the reference */

static double worst;

/* One token's key or value: number, what it is multiplied by, what is added. */
typedef struct token {
    double x[ATTN_DIM_MAX], number[ATTN_DIM_MAX], scale;
    int codes;
} token;

static void token_read(const scene *s, const half *of, int format, int dim, int keys, int t, token *to) {
    const kv_format *f = kv_format_of(format);
    const int in_block = t % (s->block_tiles * TILE);
    const uint8_t *record = of->record[t / TILE / s->block_tiles];
    to->codes = 0, to->scale = 1;
    if (!is_sealed(s, t) || f->kind == KV_PLAIN) {
        const element_format *hot = element_format_of(keys ? f->hot_k : f->hot_v);
        float x[ATTN_DIM_MAX];
        if (keys) hot->get_k(of->hot[t / TILE], t % TILE, x, dim);
        else hot->get_v(of->hot[t / TILE], t % TILE, x, dim, dim);
        for (int d = 0; d < dim; d++) to->x[d] = x[d];
        return;
    }
    const uint16_t *centroid = (const void *)(record + kv_centroid_at(f, dim, s->block_tiles));
    to->codes = f->kind == KV_CODES;
    const uint16_t *scale = (const void *)(record + kv_scales_at(f, dim, s->block_tiles));
    to->scale = bf16_to_f32(scale[in_block]);
    for (int d = 0; d < dim; d++) {
        to->number[d] = kv_number(f, record, dim, keys, in_block, d);
        to->x[d] = to->scale * to->number[d] + (keys && to->codes ? bf16_to_f32(centroid[d]) : 0);
    }
}

/* Exponents of one row's weights, 2 to which, and the bound of their error. */
static double row_exponents(const store *x, int head, int r, double *exponent) {
    const scene *s = &x->is;
    const float *q = x->q + (head * s->n_rows + r) * s->dim_k;
    const double c = 1.4426950408889634 / sqrt(s->dim_k);
    double q_most = 0, bound = 0;
    for (int d = 0; d < s->dim_k; d++) q_most = fmax(q_most, fabs(q[d]));
    for (int t = 0; t <= x->position[r] - s->first; t++) {
        token k;
        double sum = 0, size = 0, codes = 0;
        token_read(s, &x->k[head], s->k_format, s->dim_k, 1, t, &k);
        for (int d = 0; d < s->dim_k; d++) {
            sum += k.x[d] * q[d];
            size += fabs(k.x[d] * q[d]);
            if (k.codes) codes += fabs(k.scale * k.number[d]);
        }
        exponent[t] = c * sum;
        bound = fmax(bound, c * (size * 0x1p-22 + codes * q_most / 32512 / 2));
    }
    return bound;
}

/* Output elements of one row off by more than the bound. */
static int row_wrong(const store *x, int head, int r, const result *got) {
    const scene *s = &x->is;
    static double exponent[TOKENS_MAX];
    double out[ATTN_DIM_MAX] = {0}, bound[ATTN_DIM_MAX] = {0}, step_sum[ATTN_DIM_MAX] = {0}, w_most = 0, sum = 0;
    double top = -INFINITY, share = 2 * 0.694 * row_exponents(x, head, r, exponent) + 4e-6 + (s->narrow ? 0x1p-8 : 0);
    const int row = head * s->n_rows + r;
    int bad = 0;
    for (int t = 0; t <= x->position[r] - s->first; t++) top = fmax(top, exponent[t]);
    for (int t = 0; t <= x->position[r] - s->first; t++) sum += exp2(exponent[t] - top);
    for (int t = 0; t <= x->position[r] - s->first; t++) {
        token v;
        const double p = exp2(exponent[t] - top) / sum;
        token_read(s, &x->v[head], s->v_format, s->dim_v, 0, t, &v);
        if (v.codes) w_most = fmax(w_most, p * v.scale);
        for (int d = 0; d < s->dim_v; d++) {
            out[d] += p * v.x[d];
            bound[d] += share * fabs(p * v.x[d]);
            if (v.codes) step_sum[d] += fabs(v.number[d]);
        }
        if (t % ATTN_STEP != ATTN_STEP - 1 && t != x->position[r] - s->first) continue;
        for (int d = 0; d < s->dim_v; d++) bound[d] += w_most / 32767 * 0.51 * step_sum[d];
        memset(step_sum, 0, sizeof step_sum);
        w_most = 0;
    }
    for (int d = 0; d < s->dim_v; d++) {
        const double off = fabs((double)got->o[row * s->dim_v + d] / got->l[row] - out[d]);
        bad += !(off <= bound[d]);
        if (bound[d] > 0) worst = fmax(worst, off / bound[d]);
    }
    return bad;
}

/* ------------------------------------------------------------------------------------------- the checks */

static void complain(const scene *s, const char *what) {
    print_error("%s: k %s %d, v %s %d, blocks of %d tiles, %d tokens, sealed %d to %d, %d heads, %d rows, narrow %d, "
                "place %d, extreme %d, first %d\n",
                what, kv_format_of(s->k_format)->name, s->dim_k, kv_format_of(s->v_format)->name, s->dim_v,
                s->block_tiles, s->n_tokens, s->sealed_from, s->sealed_to, s->n_heads, s->n_rows, s->narrow, s->place,
                s->extreme, s->first);
}

/* Every path gives the scalar bits, heads together what they give alone, and the scalar path what is right, where
 * numbers are common enough for the bound. */
static int check_scene(scene s) {
    static result scalar, got;
    store *x = store_new(s);
    int bad = 0, off = 0;
    for (int h = 0; h < s.n_heads; h++) run_heads(kernels_of("scalar"), x, h, 1, &scalar);
    for (int r = 0; !s.extreme && r < s.n_heads * s.n_rows; r++)
        off += row_wrong(x, r / s.n_rows, r % s.n_rows, &scalar);
    if (off && ++bad) complain(&s, "scalar is off");
    for (int p = -1; p < N_PATHS; p++) {
        const kernels *k = kernels_of(p < 0 ? "scalar" : path[p]);
        if (!k) continue;
        run_heads(k, x, 0, s.n_heads, &got);
        if (results_differ(x, &scalar, &got) && ++bad) complain(&s, k->cpu);
    }
    store_free(x);
    return bad;
}

static const int dims[] = {16, 32, 48, 64, 80, 96, 112, 128, 192, 256};
static const int lengths[] = {1, 16, 17, 31, 33, 48, 64, 79, 100, 128, 200, 255, 256, 257, 272, 300, 320};
static const int rows[][2] = {{1, 1}, {1, 3}, {1, 16}, {2, 3}, {3, 3}, {3, 5}, {5, 1}, {5, 3}, {1, 7}, {2, 8}, {1, 2}};

/* Blocks from some on to some other. */
static void scene_seal(scene *s) {
    const int block = s->block_tiles * TILE, n = s->n_tokens / block, from = random_int(n + 1);
    s->sealed_from = from * block;
    s->sealed_to = s->sealed_from + random_int(n - from + 1) * block;
    if (random_int(4) == 0) s->sealed_from = 0;
    if (random_int(2) == 0) s->sealed_to = n * block;
}

static scene scene_random(int pair) {
    const int row = random_int(COUNT(rows));
    scene s = {.k_format = pair / N_KV_FORMATS, .v_format = pair % N_KV_FORMATS};
    s.dim_k = dims[random_int(COUNT(dims))], s.dim_v = dims[random_int(COUNT(dims))];
    s.block_tiles = 1 << random_int(3);
    s.n_tokens = lengths[random_int(COUNT(lengths))];
    s.n_heads = rows[row][0], s.n_rows = rows[row][1];
    s.narrow = random_int(2);
    s.place = random_int(N_PLACES);
    s.spread = random_int(2) ? 1 : 0.1f;
    s.most = 1;
    scene_seal(&s);
    return s;
}

static void every_pair_of_formats(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS * 6; i++) bad += check_scene(scene_random(i / 6));
    print_message("largest error: %.2f of the bound\n", worst);
    assert_int_equal(bad, 0);
}

static void extremes_on_every_path(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS * (N_EXTREMES - 1); i++) {
        scene s = scene_random(i / (N_EXTREMES - 1));
        s.extreme = 1 + i % (N_EXTREMES - 1);
        if (s.n_tokens >= s.block_tiles * TILE) s.sealed_from = 0, s.sealed_to = s.block_tiles * TILE;
        bad += check_scene(s);
    }
    assert_int_equal(bad, 0);
}

static void segments_after_the_first(void **state) {
    (void)state;
    int bad = 0;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS; i++) {
        scene s = scene_random(i);
        s.first = ATTN_SEGMENT * (1 + random_int(3));
        bad += check_scene(s);
    }
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_formats),
        cmocka_unit_test(extremes_on_every_path),
        cmocka_unit_test(segments_after_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
