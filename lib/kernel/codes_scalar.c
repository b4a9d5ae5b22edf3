/* codes_scalar.c - attention over sealed blocks, in plain loops: the definition (docs/numeric-contract.md, section 8).
 *
 * Owns the order of every operation on codes; every other path gives the same bits. Leaves where a code lies and what
 * number it is to format/kv.c, and making records to the seals.
 *
 * Queries and weights are kept as they come: int16 [ATTN_ROWS][ATTN_DIM_MAX] and int16 [ATTN_ROWS][ATTN_STEP]. */
#include "kernel.h"

#include "base/bits.h"
#include "rows.h"
#include "scalar.h"

static int16_t *query_row(const code_queries *q, int row) { return (int16_t *)(void *)q->q + row * ATTN_DIM_MAX; }
static int16_t *weight_row(const code_weights *p, int row) { return (int16_t *)(void *)p->p + row * ATTN_STEP; }

/* ------------------------------------------------------------------------------------ floats as integers */

/* Integers of up to `most` in size for n floats, nearest even; returns what one of them stands for. */
static float integers_of(const float *x, int n, float most, int16_t *to) {
    uint32_t largest = 0; /* as integers, sizes of floats are in the order of their values, infinity and NaN on top */
    for (int i = 0; i < n; i++) {
        uint32_t size = bits_of_f32(x[i]) & 0x7fffffff;
        if (size > largest) largest = size;
    }
    float scale, inverse;
    const bool some = rows_scale(largest, most, &scale, &inverse);
    for (int i = 0; i < n; i++) to[i] = some ? (int16_t)rows_integer(x[i] * inverse) : 0;
    return scale;
}

static void query(const float *q, int dim, int row, code_queries *to) {
    to->scale[row] = integers_of(q, dim, CODE_QUERY_MAX, query_row(to, row));
}

static void weigh(const float *p, const uint16_t *const *v_scale, int n_tiles, int row, code_weights *to) {
    float w[ATTN_STEP];
    for (int t = 0; t < n_tiles * TILE; t++) {
        w[t] = p[t / TILE * (ATTN_ROWS * TILE) + t % TILE] * bf16_to_f32(v_scale[t / TILE][t % TILE]);
    }
    to->scale[row] = integers_of(w, n_tiles * TILE, CODE_WEIGHT_MAX, weight_row(to, row));
}

/* --------------------------------------------------------------------------------------------- products */

static float centroid_dot(const uint16_t *m, const float *q, int dim) {
    float a[TILE] = {0};
    for (int d = 0; d < dim; d++) a[d % TILE] = scalar_fma(bf16_to_f32(m[d]), q[d], a[d % TILE]);
    return scalar_tree16(a);
}

static void centre(const uint16_t *const *centroid, int n_blocks, int dim, const float *q, int n_rows, float *to) {
    for (int r = 0; r < n_rows; r++, q += dim) {
        for (int b = 0; b < n_blocks; b++) to[b * ATTN_ROWS + r] = centroid_dot(centroid[b], q, dim);
    }
}

/* x[dim] = the numbers of one token of a tile of keys. */
static void key_of(int format, const void *tile, int token, int dim, int8_t *x) {
    const kv_format *f = kv_format_of(format);
    for (int d = 0; d < dim; d++) x[d] = (int8_t)kv_number(f, tile, dim, 1, token, d);
}

/* x[16] = the numbers of dimension d of a tile of values. */
static void values_of(int format, const void *tile, int d, int dim, int8_t *x) {
    const kv_format *f = kv_format_of(format);
    for (int t = 0; t < TILE; t++) x[t] = (int8_t)kv_number(f, tile, dim, 0, t, d);
}

static int32_t dot(const int8_t *x, const int16_t *y, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Of head h. */
static void qk_head(int format, const code_qk_args *a, int h) {
    int8_t key[ATTN_DIM_MAX];
    for (int t = 0; t < a->n_tiles * TILE; t++) {
        const int tile = t / TILE, at = h * SEGMENT_TILES + tile;
        const float k_scale = bf16_to_f32(a->k_scale[at][t % TILE]);
        key_of(format, a->k_tile[at], t % TILE, a->dim, key);
        for (int r = h * a->n_rows; r < (h + 1) * a->n_rows; r++) {
            const float sum = (float)dot(key, query_row(a->q, a->row + r), a->dim);
            a->s[(tile * ATTN_ROWS + r) * TILE + t % TILE] =
                scalar_fma(sum, a->q->scale[a->row + r] * k_scale, a->centre[tile][r]);
        }
    }
}

static void qk(int format, const code_qk_args *a) {
    for (int h = 0; h < a->n_heads; h++) qk_head(format, a, h);
}

static void pv_head(int format, const code_pv_args *a, int h) {
    const void *const *tile = a->v_tile + h * SEGMENT_TILES;
    int8_t value[ATTN_STEP];
    for (int d = 0; d < a->dim; d++) {
        for (int t = 0; t < a->n_tiles; t++) values_of(format, tile[t], d, a->dim, value + t * TILE);
        for (int r = h * a->n_rows; r < (h + 1) * a->n_rows; r++) {
            const float sum = (float)dot(value, weight_row(a->p, a->row + r), a->n_tiles * TILE);
            float *o = a->o + (size_t)r * (size_t)a->dim + d;
            *o = scalar_fma(sum, a->p->scale[a->row + r], *o);
        }
    }
}

static void pv(int format, const code_pv_args *a) {
    for (int h = 0; h < a->n_heads; h++) pv_head(format, a, h);
}

#define CODES_FUNCTIONS(NAME, FORMAT, BITS)                             \
    static void qk_##NAME(const code_qk_args *a) { qk(FORMAT, a); }     \
    static void pv_##NAME(const code_pv_args *a) { pv(FORMAT, a); }
#define CODES_ROW(NAME, FORMAT, BITS) k->code_qk[FORMAT] = qk_##NAME, k->code_pv[FORMAT] = pv_##NAME;

KV_CODES_EACH(CODES_FUNCTIONS)

/* ---------------------------------------------------------------------------------------------- float8 */

static void widen(int format, const void *tile, int dim, int keys, void *bf16) {
    const kv_format *f = kv_format_of(format);
    const element_format *to = element_format_of(ELEMENT_BF16);
    float x[ATTN_DIM_MAX];
    for (int t = 0; t < TILE; t++) {
        for (int d = 0; d < dim; d++) x[d] = kv_number(f, tile, dim, keys, t, d);
        if (keys) to->put_k(bf16, t, x, dim);
        else to->put_v(bf16, t, x, dim, dim);
    }
}

#define WIDEN_FUNCTIONS(NAME, FORMAT, BITS)                                                                       \
    static void widen_k_##NAME(const void *tile, int dim, void *bf16) { widen(FORMAT, tile, dim, 1, bf16); }      \
    static void widen_v_##NAME(const void *tile, int dim, void *bf16) { widen(FORMAT, tile, dim, 0, bf16); }
#define WIDEN_ROW(NAME, FORMAT, BITS) k->widen_k[FORMAT] = widen_k_##NAME, k->widen_v[FORMAT] = widen_v_##NAME;

KV_FLOAT8_EACH(WIDEN_FUNCTIONS)

void codes_scalar(kernels *k) {
    k->code_query = query;
    k->code_centre = centre;
    k->code_weigh = weigh;
    KV_CODES_EACH(CODES_ROW)
    KV_FLOAT8_EACH(WIDEN_ROW)
}
