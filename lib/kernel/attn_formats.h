/* attn_formats.h - attention for every element format in the words of one instruction set, and its part of the table.
 * Included by attn_avx2.c and attn_avx512.c behind their words. */

#include "attn_soft.h"

#define NAME(f) f##_bf16
#define BYTES 2
#define LOAD(line, odd, x, y) lanes_load_bf16(line, &(x), &(y))
#define SPREAD(f, x, y) ((x) = lanes_set1((f)[0]), (y) = lanes_set1((f)[1]))
#define FOLD(x, y) lanes_add(x, y)
#include "attn_body.h"

/* f16 is widened in the order it lies in, so even and odd chains alternate within a register. */
#define NAME(f) f##_f16
#define BYTES 2
#define LOAD(line, odd, x, y) ((x) = lanes_load_f16(line), (y) = lanes_load_f16((line) + LANES * 2))
#define SPREAD(f, x, y) ((x) = (y) = lanes_set2(f))
#define FOLD(x, y) lanes_fold(x, y)
#include "attn_body.h"

#define NAME(f) f##_f32
#define BYTES 4
#define LOAD(line, odd, x, y) ((x) = lanes_load(line), (y) = lanes_load((line) + (odd)))
#define SPREAD(f, x, y) ((x) = lanes_set1((f)[0]), (y) = lanes_set1((f)[1]))
#define FOLD(x, y) lanes_add(x, y)
#include "attn_body.h"

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
