/* code_rows_body.h - rows of queries and weights as integers, and what centroids add to scores, in the 16-lane words of
 * one instruction set.
 *
 * Included once by each of its files, behind words_*.h and the words of its own:
 *
 *     vf_load_bf16_row(p)         16 bf16 as they lie
 *     sizes, sizes_none           bits of the largest |x| so far in each lane
 *     sizes_with(most, x)         with those of x
 *     sizes_most(most)            the largest, as bits
 *     query_sums, query_none      what the path wants to know of a query's codes, of 16 so far
 *     query_put(x, to, sums)      16 codes, rounded from x, put to to[4 steps][ATTN_ROWS * 8 bytes]
 *     query_end(sums, sum)        the same of the whole query
 *     weights_put(x, to)          16 codes of weights, rounded from x, put to to[32] */
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

static void centre(const uint16_t *const *centroid, int n_blocks, int dim, const float *q, int n_rows, float *to) {
    for (int b = 0; b < n_blocks; b++, to += ATTN_ROWS) {
        for (int r = 0; r < n_rows; r++) {
            const float *x = q + (size_t)r * (size_t)dim;
            vf sum = vf_zero();
            for (int d = 0; d < dim; d += TILE) sum = vf_fma(vf_load_bf16_row(centroid[b] + d), vf_load(x + d), sum);
            to[r] = vf_sum(sum);
        }
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
