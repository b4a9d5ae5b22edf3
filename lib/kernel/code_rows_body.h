/* code_rows_body.h - rows of queries and weights as integers, and what centroids add to scores, in the 16-lane words of
 * one instruction set.
 *
 * Included once by each of its files, behind words_*.h and the words of its own:
 *
 *     vf_load_bf16_row(p)         16 bf16 as they lie
 *     vf_sum4(a, b, c, d, sum)    tree16 of each
 *     sizes, sizes_none           bits of the largest |x| so far in each lane
 *     sizes_with(most, x)         with those of x
 *     sizes_most(most)            the largest, as bits
 *     query_sums, query_none      what the path wants to know of a query's codes, of 16 so far
 *     query_put(x, to, sums)      16 codes, rounded from x, put to to[4 steps][ATTN_ROWS * 8 bytes]
 *     query_end(sums, sum)        the same of the whole query
 *     weights_put(x, to)          16 codes of weights, rounded from x, put to to[32] */
#include "base/unroll.h"
#include "rows.h"

/* The largest size of a register of sizes, as bits: in the order of their values, infinity and NaN on top. */
WORD float inverse_of(sizes most, float code, float *scale) {
    float inverse;
    return rows_scale(sizes_most(most), code, scale, &inverse) ? inverse : 0;
}

static void query(const float *q, int dim, int row, code_queries *to) {
    sizes most = sizes_none();
    query_sums sums = query_none();
    for (int d = 0; d < dim; d += TILE) most = sizes_with(most, vf_load(q + d));
    const float inverse = inverse_of(most, CODE_QUERY_MAX, &to->scale[row]);
    for (int d = 0; d < dim; d += TILE) {
        const vf x = inverse > 0 ? vf_mul(vf_load(q + d), vf_set1(inverse)) : vf_zero();
        query_put(x, to->q + (d / 4 * ATTN_ROWS + row) * 8, &sums);
    }
    query_end(sums, to->sum[row]);
}

/* Of up to four blocks, so that their sums are folded together. */
static void centre_four(const uint16_t *const *centroid, int n_blocks, int dim, const float *q, int n_rows, float *to) {
    _Alignas(64) float m[4][ATTN_DIM_MAX];
    for (int b = 0; b < 4; b++) {
        const uint16_t *from = centroid[b < n_blocks ? b : 0];
        for (int d = 0; d < dim; d += TILE) vf_store(m[b] + d, vf_load_bf16_row(from + d));
    }
    for (int r = 0; r < n_rows; r++, q += dim) {
        vf sum[4];
        float folded[4];
        UNROLL for (int b = 0; b < 4; b++) sum[b] = vf_zero();
        for (int d = 0; d < dim; d += TILE) {
            const vf x = vf_load(q + d);
            UNROLL for (int b = 0; b < 4; b++) sum[b] = vf_fma(vf_load(m[b] + d), x, sum[b]);
        }
        vf_sum4(sum[0], sum[1], sum[2], sum[3], folded);
        for (int b = 0; b < n_blocks; b++) to[b * ATTN_ROWS + r] = folded[b];
    }
}

static void centre(const uint16_t *const *centroid, int n_blocks, int dim, const float *q, int n_rows, float *to) {
    for (int b = 0; b < n_blocks; b += 4) {
        const int n = n_blocks - b < 4 ? n_blocks - b : 4;
        centre_four(centroid + b, n, dim, q, n_rows, to + b * ATTN_ROWS);
    }
}

static void weigh(const float *p, const uint16_t *const *v_scale, int n_tiles, int row, code_weights *to) {
    _Alignas(64) float w[STEP_TILES * TILE];
    sizes most = sizes_none();
    for (int t = 0; t < n_tiles; t++) {
        const vf x = vf_mul(vf_load(p + t * (ATTN_ROWS * TILE)), vf_load_bf16_row(v_scale[t]));
        vf_store(w + t * TILE, x);
        most = sizes_with(most, x);
    }
    const float inverse = inverse_of(most, CODE_WEIGHT_MAX, &to->scale[row]);
    uint8_t *at = to->p + row * 32;
    for (int t = 0; t < n_tiles; t++, at += ATTN_ROWS * 32) {
        weights_put(inverse > 0 ? vf_mul(vf_load(w + t * TILE), vf_set1(inverse)) : vf_zero(), at);
    }
}

static void code_rows_fill(kernels *k) {
    k->code_query = query;
    k->code_centre = centre;
    k->code_weigh = weigh;
}
