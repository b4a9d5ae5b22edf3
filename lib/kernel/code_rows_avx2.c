/* code_rows_avx2.c - rows of queries and weights as integers in AVX2: the words of it; the rest is code_rows_body.h.
 * codes_avx2.c has the layouts. */
#include "kernel.h"

#include "words_avx2.h"

WORD __m256 bf16_8(const uint16_t *p) {
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
WORD vf vf_load_bf16_row(const uint16_t *p) { return (vf){bf16_8(p), bf16_8(p + 8)}; }
WORD __m256 halves_added(__m256 x, __m256 y) {
    return _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
}
WORD void vf_sum4(vf a, vf b, vf c, vf d, float *sum) {
    const __m256 ac = halves_added(_mm256_add_ps(a.a, a.b), _mm256_add_ps(c.a, c.b));
    const __m256 bd = halves_added(_mm256_add_ps(b.a, b.b), _mm256_add_ps(d.a, d.b));
    __m256 x = _mm256_add_ps(_mm256_shuffle_ps(ac, bd, 0x44), _mm256_shuffle_ps(ac, bd, 0xee)); /* a a b b, c c d d */
    x = _mm256_add_ps(_mm256_shuffle_ps(x, x, 0x88), _mm256_shuffle_ps(x, x, 0xdd));
    _mm_storeu_ps(sum, _mm_movelh_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
}

typedef vi sizes;
WORD __m256i size8(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff)); }
WORD sizes sizes_none(void) { return (sizes){_mm256_setzero_si256(), _mm256_setzero_si256()}; }
WORD sizes sizes_with(sizes most, vf x) {
    return (sizes){_mm256_max_epi32(most.a, size8(x.a)), _mm256_max_epi32(most.b, size8(x.b))};
}
WORD uint32_t sizes_most(sizes most) {
    const __m256i m = _mm256_max_epi32(most.a, most.b);
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

typedef struct query_sums {
    char none;
} query_sums;
WORD query_sums query_none(void) { return (query_sums){0}; }
WORD void query_end(query_sums sums, int32_t *sum) {
    (void)sums;
    sum[0] = sum[1] = 0;
}

/* 16 codes of 16 bits, four by four in the order 0 2 1 3. Packing works in halves. */
WORD __m256i codes16(vf x) {
    const __m256i a = _mm256_shuffle_epi32(_mm256_cvtps_epi32(x.a), 0xd8);
    const __m256i b = _mm256_shuffle_epi32(_mm256_cvtps_epi32(x.b), 0xd8);
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
}
WORD void put_step(uint8_t *to, __m128i two_steps) {
    _mm_storel_epi64((__m128i *)to, two_steps);
    _mm_storeh_pd((double *)(to + ATTN_ROWS * 8), _mm_castsi128_pd(two_steps));
}
WORD void query_put(vf x, uint8_t *to, query_sums *sums) {
    const __m256i steps = codes16(x);
    (void)sums;
    put_step(to, _mm256_castsi256_si128(steps));
    put_step(to + 2 * ATTN_ROWS * 8, _mm256_extracti128_si256(steps, 1));
}
WORD void weights_put(vf x, uint8_t *to) { _mm256_storeu_si256((__m256i *)to, codes16(x)); }

#include "code_rows_body.h"

void code_rows_avx2(kernels *k) { code_rows_fill(k); }
