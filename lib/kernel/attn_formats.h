/* attn_formats.h - attention for every element format in the words of one instruction set, and its part of the table.
 * Included by attn_avx2.c and attn_avx512.c behind their words. */

#define STORE_WEIGHTS vf_store
#include "attn_soft.h"

#define NAME(f) f##_bf16
#define BYTES 2
#define STEP 2
#define LOAD(line, odd, x, y) lanes_load_bf16(line, &(x), &(y))
#define ADD(f, x, y, e, o) ((e) = lanes_fma1(x, f, e), (o) = lanes_fma1(y, (f) + 1, o))
#define FOLD(x, y) lanes_add(x, y)
#include "attn_body.h"

/* f16 is widened in the order it lies in, so even and odd chains alternate within a register. */
#define NAME(f) f##_f16
#define BYTES 2
#define STEP 2
#define LOAD(line, odd, x, y) ((x) = lanes_load_f16(line), (y) = lanes_load_f16((line) + LANES * 2))
#define ADD(f, x, y, e, o) ((e) = lanes_fma(x, lanes_set2(f), e), (o) = lanes_fma(y, lanes_set2(f), o))
#define FOLD(x, y) lanes_fold(x, y)
#include "attn_body.h"

#define NAME(f) f##_f32
#define BYTES 4
#define STEP 2
#define LOAD(line, odd, x, y) ((x) = lanes_load(line), (y) = lanes_load((line) + (odd)))
#define ADD(f, x, y, e, o) ((e) = lanes_fma1(x, f, e), (o) = lanes_fma1(y, (f) + 1, o))
#define FOLD(x, y) lanes_add(x, y)
#include "attn_body.h"

static void softmax(const attn_row *row) {
    softmax_begin(row);
    const int how = softmax_how(row);
    if (row->v_scale && row->narrow) softmax_pairs(row, NARROW_ANY, row->v_scale);
    else if (row->v_scale) softmax_pairs(row, NARROW_NOT, row->v_scale);
    else if (how == NARROW_NOT) softmax_pairs(row, NARROW_NOT, NULL);
    else if (how == NARROW_WEIGHT) softmax_pairs(row, NARROW_WEIGHT, NULL);
    else softmax_pairs(row, NARROW_ANY, NULL);
}

static void merge(int dim, float *M, float *L, float *O, float m, float l, const float *o) {
    if (l == 0) return;
    if (*L == 0) {
        *M = m;
        *L = l;
        memcpy(O, o, (size_t)dim * sizeof *O);
        return;
    }
    const float top = m > *M ? m : *M, old = scalar_exp2(*M - top), new = scalar_exp2(m - top);
    *M = top;
    *L = scalar_fma(l, new, *L * old);
    for (int d = 0; d < dim; d += TILE) {
        vf_store(O + d, vf_fma(vf_load(o + d), vf_set1(new), vf_mul(vf_load(O + d), vf_set1(old))));
    }
}

static void finish(int dim, float L, const float *O, float *out) {
    const vf scale = vf_set1(1 / L);
    for (int d = 0; d < dim; d += TILE) vf_store(out + d, vf_mul(vf_load(O + d), scale));
}

static void attn_fill(kernels *k) {
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
