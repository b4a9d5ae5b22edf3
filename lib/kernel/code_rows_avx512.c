/* code_rows_avx512.c - rows of queries and weights as integers in AVX-512: the words of it; the rest is
 * code_rows_body.h. codes_avx512.c has the layouts. */
#include "kernel.h"

#include "words_avx512.h"

WORD vf vf_load_bf16_row(const uint16_t *p) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
/* Halves of two registers are added together, then quarters of four. */
WORD void vf_sum4(vf a, vf b, vf c, vf d, float *sum) {
    const vf ab = vf_add(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    const vf cd = vf_add(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    vf x = vf_add(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    x = vf_add(x, _mm512_permute_ps(x, 0x4e));
    x = vf_add(x, _mm512_permute_ps(x, 0xb1));
    _mm_storeu_ps(sum, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, x)));
}

typedef vi sizes;
WORD sizes sizes_none(void) { return _mm512_setzero_si512(); }
WORD sizes sizes_with(sizes most, vf x) {
    const vi size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    return _mm512_max_epi32(most, size);
}
WORD uint32_t sizes_most(sizes most) { return _mm512_reduce_max_epu32(most); }

/* Of an element, 256 times the high byte and the low one, both signed. */
typedef struct query_sums {
    vi high, low;
} query_sums;
WORD query_sums query_none(void) { return (query_sums){_mm512_setzero_si512(), _mm512_setzero_si512()}; }

WORD void put_step(uint8_t *to, __m128i two_steps) {
    _mm_storel_epi64((__m128i *)to, two_steps);
    _mm_storeh_pd((double *)(to + ATTN_ROWS * 8), _mm_castsi128_pd(two_steps));
}
WORD void query_put(vf x, uint8_t *to, query_sums *sums) {
    const vi code = _mm512_cvtps_epi32(x), half = _mm512_set1_epi32(128);
    const vi high = _mm512_srai_epi32(_mm512_add_epi32(code, half), 8);
    /* Bytes of a dword: high, low, 0, 0. Four elements' high ones first, then the low ones. */
    const vi low = _mm512_slli_epi32(_mm512_and_si512(code, _mm512_set1_epi32(255)), 8);
    const __m256i order = _mm256_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15,
                                           0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const vi both = _mm512_ternarylogic_epi32(high, low, _mm512_set1_epi32(255), 0xe4); /* high where 255, else low */
    const __m256i steps = _mm256_shuffle_epi8(_mm512_cvtepi32_epi16(both), order);
    put_step(to, _mm256_castsi256_si128(steps));
    put_step(to + 2 * ATTN_ROWS * 8, _mm256_extracti128_si256(steps, 1));
    sums->high = _mm512_add_epi32(sums->high, high);
    sums->low = _mm512_add_epi32(sums->low, _mm512_sub_epi32(code, _mm512_slli_epi32(high, 8)));
}
WORD void query_end(query_sums sums, int32_t *sum) {
    sum[0] = -128 * _mm512_reduce_add_epi32(sums.high);
    sum[1] = -128 * _mm512_reduce_add_epi32(sums.low);
}

WORD void weights_put(vf x, uint8_t *to) {
    const __m256i order = _mm256_setr_epi8(1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14,
                                           1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14);
    const __m256i codes = _mm256_shuffle_epi8(_mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)), order);
    _mm256_storeu_si256((__m256i *)to, codes);
}

#include "code_rows_body.h"

void code_rows_avx512(kernels *k) { code_rows_fill(k); }
