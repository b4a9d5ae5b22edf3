/* attn_avx512bf16.c - attention over bf16 tiles with vdpbf16ps, where queries and weights are bf16 values too.
 *
 * The instruction adds the product of the upper halves of two dwords to a float, then that of the lower ones, each with
 * one rounding to nearest even and denormals as zeros: exactly two steps of a chain of the numeric contract, if the
 * dwords hold elements that follow each other in that chain. Tiles are laid out otherwise; two lines of one are woven
 * into dwords of the even chain and dwords of the odd one, and then every multiplication counts twice. */
#include "kernel.h"
#include "lanes_avx512.h"
#include "base/unroll.h"

/* Of every dword of two lines the lower halves, and the upper halves: the first line's above the second's. */
WORD void lanes_weave(const void *first, const void *second, lanes *lower, lanes *upper) {
    __m512i x = _mm512_loadu_si512(first), y = _mm512_loadu_si512(second);
    const __mmask32 below = 0x55555555;
    __asm__("" : "+v"(x), "+v"(y)); /* both are used twice; without this GCC 12 loads them twice */
    *lower = _mm512_castsi512_ps(_mm512_mask_blend_epi16(below, _mm512_slli_epi32(x, 16), y));
    *upper = _mm512_castsi512_ps(_mm512_mask_blend_epi16(below, x, _mm512_srli_epi32(y, 16)));
}
/* The factor comes from memory within the instruction; compilers make a load of its own of it. Volatile, so that
 * prefetches stay between them. */
WORD lanes lanes_dot(lanes x, const float *f, lanes sum) {
    __asm__ volatile("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(x), "m"(*f));
    return sum;
}
/* 16 weights that are bf16 values as 8 dwords, even and odd tokens of four in turn. */
WORD void store_pairs(float *s, vf w) {
    const __m512i order = _mm512_castsi256_si512(
        _mm256_setr_epi16(5, 1, 7, 3, 13, 9, 15, 11, 21, 17, 23, 19, 29, 25, 31, 27));
    const __m512i pairs = _mm512_permutexvar_epi16(order, _mm512_castps_si512(w));
    _mm256_storeu_si256((__m256i *)s, _mm512_castsi512_si256(pairs));
}

#define STORE_WEIGHTS store_pairs
#include "attn_soft.h"

#define NAME(f) f##_pairs
#define BYTES 2
#define STEP 4
#define LOAD(line, odd, x, y) lanes_weave(line, (line) + (odd), &(x), &(y))
#define ADD(f, x, y, e, o) ((e) = lanes_dot(x, f, e), (o) = lanes_dot(y, (f) + 1, o))
#define FOLD(x, y) lanes_add(x, y)
#include "attn_body.h"

static void softmax_narrow_pairs(const attn_row *row) {
    softmax_begin(row);
    if (row->v_scale) softmax_pairs(row, NARROW_ANY, row->v_scale);
    else if (softmax_how(row) == NARROW_WEIGHT) softmax_pairs(row, NARROW_WEIGHT, NULL);
    else softmax_pairs(row, NARROW_ANY, NULL);
}

void attn_avx512bf16(kernels *k) {
    k->attn_qk_pairs = qk_pairs;
    k->attn_softmax_pairs = softmax_narrow_pairs;
    k->attn_pv_pairs = pv_pairs;
}
