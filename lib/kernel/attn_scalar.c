/* attn_scalar.c - attention of query rows over tiles, in plain loops: the definition (docs/numeric-contract.md,
 * section 6).
 *
 * Owns the order of every operation. Every other path gives the same bits. */
#include <math.h>

#include "kernel.h"
#include "scalar.h"

/* Element i of a tile, widened. */
static float element(int format, const void *tile, size_t i) {
    switch (format) {
    case ELEMENT_BF16: return bf16_to_f32(((const uint16_t *)tile)[i]);
    case ELEMENT_F16: return f16_to_f32(((const uint16_t *)tile)[i]);
    default: return ((const float *)tile)[i];
    }
}

/* Elements that share a dword of a line. */
static size_t width_of(int format) { return format == ELEMENT_F32 ? 1 : 2; }

/* x[dim] = the key of one token of a tile. */
static void key_of(int format, const void *tile, size_t token, size_t dim, float *x) {
    size_t w = width_of(format);
    for (size_t d = 0; d < dim; d++) x[d] = element(format, tile, d / w * (TILE * w) + token * w + d % w);
}

/* x[16] = dimension d of the values of a tile. */
static void values_of(int format, const void *tile, size_t d, size_t dim, float *x) {
    size_t w = width_of(format);
    for (size_t t = 0; t < TILE; t++) x[t] = element(format, tile, t / w * (dim * w) + d * w + t % w);
}

/* Two chains, over even and odd elements, and their sum: what both products are made of. n is even. */
static float dot(const float *x, const float *y, int n) {
    float even = 0, odd = 0;
    for (int i = 0; i < n; i += 2) {
        even = scalar_fma(x[i], y[i], even);
        odd = scalar_fma(x[i + 1], y[i + 1], odd);
    }
    return even + odd;
}

static void qk(int format, const attn_qk_args *a) {
    float key[ATTN_DIM_MAX], q[ATTN_DIM_MAX];
    for (int r = 0; r < a->n_rows; r++) {
        for (int d = 0; d < a->dim; d++) q[d] = a->q[(d / 2 * ATTN_ROWS + r) * 2 + d % 2];
        for (int t = 0; t < a->n_pairs * 2 * TILE; t++) {
            key_of(format, a->k_tile[t / TILE], (size_t)(t % TILE), (size_t)a->dim, key);
            float sum = 0;
            for (int d = 0; d < a->dim; d += 32) sum = sum + dot(key + d, q + d, a->dim - d < 32 ? a->dim - d : 32);
            a->s[(t / TILE * ATTN_ROWS + r) * TILE + t % TILE] = sum;
        }
    }
}

static void pv(int format, const attn_pv_args *a) {
    for (int pair = 0; pair < a->n_pairs; pair++) {
        const float *p = a->p + 2 * pair * ATTN_ROWS * TILE;
        for (int d = 0; d < a->dim; d++) {
            float value[2 * TILE], weight[2 * TILE];
            values_of(format, a->v_tile[2 * pair], (size_t)d, (size_t)a->dim, value);
            values_of(format, a->v_tile[2 * pair + 1], (size_t)d, (size_t)a->dim, value + TILE);
            for (int r = 0; r < a->n_rows; r++) {
                memcpy(weight, p + r * TILE, TILE * sizeof *p);
                memcpy(weight + TILE, p + (ATTN_ROWS + r) * TILE, TILE * sizeof *p);
                float *o = a->o + (size_t)r * (size_t)a->dim + d;
                *o = *o + dot(value, weight, 2 * TILE);
            }
        }
    }
}

static void qk_bf16(const attn_qk_args *a) { qk(ELEMENT_BF16, a); }
static void qk_f16(const attn_qk_args *a) { qk(ELEMENT_F16, a); }
static void qk_f32(const attn_qk_args *a) { qk(ELEMENT_F32, a); }
static void pv_bf16(const attn_pv_args *a) { pv(ELEMENT_BF16, a); }
static void pv_f16(const attn_pv_args *a) { pv(ELEMENT_F16, a); }
static void pv_f32(const attn_pv_args *a) { pv(ELEMENT_F32, a); }

/* Score (and weight) of token t of the step. */
static float *score(const attn_row *row, int t) { return row->s + t / TILE * (ATTN_ROWS * TILE) + t % TILE; }

/* What all tokens of a row's step are multiplied by, if anything. */
static void scale_tokens(const attn_row *row, const uint16_t *const *by) {
    for (int t = 0; by && t < row->n_pairs * 2 * TILE; t++) {
        *score(row, t) = *score(row, t) * bf16_to_f32(by[t / TILE][t % TILE]);
    }
}

static void softmax(const attn_row *row) {
    scale_tokens(row, row->k_scale);
    float top = -INFINITY;
    for (int t = 0; t < row->n_visible; t++) {
        if (*score(row, t) > top) top = *score(row, t);
    }
    top = top * row->c;
    if (!(top <= *row->m + 8)) {
        float scale = *row->m == -INFINITY ? 0 : scalar_exp2(*row->m - top);
        for (int i = 0; i < TILE; i++) row->l[i] = row->l[i] * scale;
        for (int d = 0; d < row->dim; d++) row->o[d] = row->o[d] * scale;
        *row->m = top;
    }
    for (int t = 0; t < row->n_pairs * 2 * TILE; t++) {
        float *s = score(row, t);
        *s = t < row->n_visible ? scalar_exp2(scalar_fma(*s, row->c, -*row->m)) : 0;
    }
    for (int pair = 0; pair < row->n_pairs; pair++) {
        for (int i = 0; i < TILE; i++) {
            row->l[i] = row->l[i] + (*score(row, 2 * pair * TILE + i) + *score(row, (2 * pair + 1) * TILE + i));
        }
    }
    scale_tokens(row, row->v_scale);
    for (int t = 0; row->narrow && t < row->n_pairs * 2 * TILE; t++) *score(row, t) = scalar_narrow(*score(row, t));
}

static void merge(int dim, float *M, float *L, float *O, float m, float l, const float *o) {
    if (l == 0) return;
    if (*L == 0) {
        *M = m;
        *L = l;
        memcpy(O, o, (size_t)dim * sizeof *O);
        return;
    }
    float top = m > *M ? m : *M, old = scalar_exp2(*M - top), new = scalar_exp2(m - top);
    *M = top;
    *L = scalar_fma(l, new, *L * old);
    for (int d = 0; d < dim; d++) O[d] = scalar_fma(o[d], new, O[d] * old);
}

static void finish(int dim, float L, const float *O, float *out) {
    float scale = 1 / L;
    for (int d = 0; d < dim; d++) out[d] = O[d] * scale;
}

void attn_scalar(kernels *k) {
    k->attn_qk[ELEMENT_BF16] = qk_bf16;
    k->attn_qk[ELEMENT_F16] = qk_f16;
    k->attn_qk[ELEMENT_F32] = qk_f32;
    k->attn_pv[ELEMENT_BF16] = pv_bf16;
    k->attn_pv[ELEMENT_F16] = pv_f16;
    k->attn_pv[ELEMENT_F32] = pv_f32;
    k->attn_softmax = softmax;
    k->attn_merge = merge;
    k->attn_finish = finish;
}
