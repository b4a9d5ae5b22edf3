/* attn_avx2.c - attention in AVX2 with FMA and F16C: a line is two registers, taken one after the other. */
#include <string.h>

#include "kernel.h"
#include "unroll.h"
#include "words_avx2.h"

typedef __m256 lanes;
#define LANES 8
/* 16 registers: 4 rows of two chains and their sums, and the operands. */
#define ROWS 4
#define PAIRS 1

WORD lanes lanes_zero(void) { return _mm256_setzero_ps(); }
WORD lanes lanes_load(const void *p) { return _mm256_loadu_ps(p); }
WORD void lanes_store(float *p, lanes x) { _mm256_storeu_ps(p, x); }
WORD lanes lanes_set1(float x) { return _mm256_set1_ps(x); }
WORD lanes lanes_add(lanes x, lanes y) { return _mm256_add_ps(x, y); }
WORD lanes lanes_fma(lanes x, lanes y, lanes z) { return _mm256_fmadd_ps(x, y, z); }
WORD void lanes_load_bf16(const void *p, lanes *even, lanes *odd) {
    __m256i x = _mm256_loadu_si256(p);
    *even = even8(x);
    *odd = odd8(x);
}
WORD lanes lanes_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
/* f[0] and f[1] in turn. */
WORD lanes lanes_set2(const float *f) {
    double both;
    memcpy(&both, f, sizeof both);
    return _mm256_castpd_ps(_mm256_set1_pd(both));
}
/* x and y hold 16 sums, even and odd in turn: 8 sums of two. */
WORD lanes lanes_fold(lanes x, lanes y) {
    __m256 even = _mm256_shuffle_ps(x, y, 0x88), odd = _mm256_shuffle_ps(x, y, 0xdd); /* quarters x y x y */
    __m256d sum = _mm256_castps_pd(_mm256_add_ps(even, odd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(sum, 0xd8));
}

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

void attn_avx2(kernels *k) {
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
