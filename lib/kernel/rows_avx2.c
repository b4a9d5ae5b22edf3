/* rows_avx2.c - the row kernels in AVX2: the words that only they need; the rest is rows_body.h. */
#include "kernel.h"

#include <string.h>

#include "rows.h"
#include "words_avx2.h"

WORD __m256i lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/* Lanes 0 .. n-1 from or to memory, nothing else touched; n in 0 .. 16. The other lanes load as 0. */
WORD vf vf_load_first(const float *p, int n) {
    return (vf){_mm256_maskload_ps(p, lanes(n)), _mm256_maskload_ps(p + 8, lanes(n - 8))};
}
WORD void vf_store_first(float *p, vf x, int n) {
    _mm256_maskstore_ps(p, lanes(n), x.a);
    _mm256_maskstore_ps(p + 8, lanes(n - 8), x.b);
}

WORD vf vf_fms(vf x, vf y, vf z) {
    return (vf){_mm256_fmsub_ps(x.a, y.a, z.a), _mm256_fmsub_ps(x.b, y.b, z.b)};
}
WORD __m256 turn8(__m256 x, __m256 turns) {
    __m256 swapped = _mm256_permute_ps(x, 0xb1);
    return _mm256_fmaddsub_ps(x, _mm256_moveldup_ps(turns), _mm256_mul_ps(swapped, _mm256_movehdup_ps(turns)));
}
/* Eight pairs (a, b) with their (cos, sin): a cos - b sin, b cos + a sin. */
WORD vf vf_turn_beside(vf x, vf turns) {
    return (vf){turn8(x.a, turns.a), turn8(x.b, turns.b)};
}
/* Shuffles work in halves: two of the first operand, two of the second, then the same from the upper halves. */
WORD __m256 in_order(__m256 x) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}
/* 32 numbers to the 16 even and the 16 odd ones. */
WORD void vf_unzip(vf low, vf high, vf *even, vf *odd) {
    *even = (vf){in_order(_mm256_shuffle_ps(low.a, low.b, 0x88)), in_order(_mm256_shuffle_ps(high.a, high.b, 0x88))};
    *odd = (vf){in_order(_mm256_shuffle_ps(low.a, low.b, 0xdd)), in_order(_mm256_shuffle_ps(high.a, high.b, 0xdd))};
}

WORD __m256i size8(__m256 x) {
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}
WORD __m256 narrow_any8(__m256 x) {
    __m256i nan = _mm256_cmpgt_epi32(size8(x), _mm256_set1_epi32(0x7f800000));
    __m256i denormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), size8(x));
    __m256 quiet = _mm256_or_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x00400000)));
    __m256 y = _mm256_blendv_ps(narrow8(x), quiet, _mm256_castsi256_ps(nan));
    y = _mm256_blendv_ps(y, _mm256_and_ps(x, _mm256_set1_ps(-0.f)), _mm256_castsi256_ps(denormal));
    return _mm256_and_ps(y, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000u)));
}
/* Round to bf16 values, whatever the input is. */
WORD vf vf_narrow_any(vf x) {
    return (vf){narrow_any8(x.a), narrow_any8(x.b)};
}

/* Bits of the largest size among 32. */
WORD uint32_t vf_most(vf x, vf y) {
    __m256i m = _mm256_max_epi32(_mm256_max_epi32(size8(x.a), size8(x.b)), _mm256_max_epi32(size8(y.a), size8(y.b)));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}
WORD int32_t sum16(__m256i a, __m256i b) {
    __m256i t = _mm256_add_epi32(a, b);
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(t), _mm256_extracti128_si256(t, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}
/* Round 32 numbers to codes of 8 or of 16 bits, these at act16_place; their sum. Packing works in halves. */
WORD int32_t vf_codes8(vf x, vf y, uint8_t *q, int32_t *half) {
    __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
    __m256i c = _mm256_cvtps_epi32(y.a), d = _mm256_cvtps_epi32(y.b);
    __m256i codes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    codes = _mm256_permutevar8x32_epi32(codes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)q, codes);
    *half = sum16(a, b);
    return *half + sum16(c, d);
}
WORD __m256i codes16(__m256i a, __m256i b) {
    __m256i codes = _mm256_packs_epi32(_mm256_shuffle_epi32(a, 0xd8), _mm256_shuffle_epi32(b, 0xd8));
    return _mm256_permute4x64_epi64(codes, 0xd8);
}
WORD int32_t vf_codes16(vf x, vf y, uint8_t *q, int32_t *half) {
    __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
    __m256i c = _mm256_cvtps_epi32(y.a), d = _mm256_cvtps_epi32(y.b);
    _mm256_storeu_si256((__m256i *)q, codes16(a, b));
    _mm256_storeu_si256((__m256i *)(q + 32), codes16(c, d));
    *half = sum16(a, b);
    return *half + sum16(c, d);
}

#include "rows_body.h"

void rows_avx2(kernels *k) {
    rows_fill(k);
}
