/* rows_avx512.c - the row kernels in AVX-512: the words that only they need; the rest is rows_body.h. */
#include "kernel.h"

#include <string.h>

#include "rows.h"
#include "words_avx512.h"

WORD __mmask16 lanes(int n) {
    return (__mmask16)((1u << n) - 1);
}
/* Lanes 0 .. n-1 from or to memory, nothing else touched; n in 0 .. 16. The other lanes load as 0. */
WORD vf vf_load_first(const float *p, int n) {
    return _mm512_maskz_loadu_ps(lanes(n), p);
}
WORD void vf_store_first(float *p, vf x, int n) {
    _mm512_mask_storeu_ps(p, lanes(n), x);
}

WORD vf vf_fms(vf x, vf y, vf z) {
    return _mm512_fmsub_ps(x, y, z);
}
/* Eight pairs (a, b) with their (cos, sin): a cos - b sin, b cos + a sin. */
WORD vf vf_turn_beside(vf x, vf turns) {
    vf swapped = _mm512_permute_ps(x, 0xb1);
    return _mm512_fmaddsub_ps(x, _mm512_moveldup_ps(turns), vf_mul(swapped, _mm512_movehdup_ps(turns)));
}
/* 32 numbers to the 16 even and the 16 odd ones. */
WORD void vf_unzip(vf low, vf high, vf *even, vf *odd) {
    __m512i e = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(low, e, high);
    *odd = _mm512_permutex2var_ps(low, _mm512_add_epi32(e, _mm512_set1_epi32(1)), high);
}

/* Round to bf16 values, whatever the input is. */
WORD vf vf_narrow_any(vf x) {
    __m512i bits = _mm512_castps_si512(x), size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __mmask16 nan = _mm512_cmpgt_epi32_mask(size, _mm512_set1_epi32(0x7f800000));
    __mmask16 denormal = _mm512_cmplt_epi32_mask(size, _mm512_set1_epi32(0x00800000));
    __m512i y = _mm512_castps_si512(vf_narrow(x));
    y = _mm512_mask_or_epi32(y, nan, bits, _mm512_set1_epi32(0x00400000));
    y = _mm512_mask_xor_epi32(y, denormal, bits, size);
    return _mm512_castsi512_ps(_mm512_and_si512(y, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Bits of the largest size among 32. */
WORD uint32_t vf_most(vf x, vf y) {
    __m512i size = _mm512_set1_epi32(0x7fffffff);
    __m512i a = _mm512_and_si512(_mm512_castps_si512(x), size), b = _mm512_and_si512(_mm512_castps_si512(y), size);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(a, b));
}
/* Round 32 numbers to codes of 8 or of 16 bits, these at act16_place; their sum, and that of x. */
WORD int32_t vf_codes8(vf x, vf y, uint8_t *q, int32_t *half) {
    __m512i a = _mm512_cvtps_epi32(x), b = _mm512_cvtps_epi32(y);
    _mm_storeu_si128((__m128i *)q, _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128((__m128i *)(q + 16), _mm512_cvtepi32_epi8(b));
    *half = _mm512_reduce_add_epi32(a);
    return *half + _mm512_reduce_add_epi32(b);
}
WORD int32_t vf_codes16(vf x, vf y, uint8_t *q, int32_t *half) {
    __m512i a = _mm512_cvtps_epi32(x), b = _mm512_cvtps_epi32(y);
    _mm256_storeu_si256((__m256i *)q, _mm512_cvtepi32_epi16(_mm512_shuffle_epi32(a, 0xd8)));
    _mm256_storeu_si256((__m256i *)(q + 32), _mm512_cvtepi32_epi16(_mm512_shuffle_epi32(b, 0xd8)));
    *half = _mm512_reduce_add_epi32(a);
    return *half + _mm512_reduce_add_epi32(b);
}

#include "rows_body.h"

void rows_avx512(kernels *k) {
    rows_fill(k);
}
