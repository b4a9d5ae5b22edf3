/* words_avx512.h - the vector words of the kernels in AVX-512: 16 floats, 16 int32, one line of 64 bytes each. */
#ifndef KVT_WORDS_AVX512_H
#define KVT_WORDS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define WORD static inline __attribute__((always_inline))

typedef __m512 vf;  /* 16 floats */
typedef __m512i vi; /* 16 int32, or 64 bytes */

WORD vf vf_zero(void) { return _mm512_setzero_ps(); }
WORD vf vf_set1(float x) { return _mm512_set1_ps(x); }
WORD vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
WORD void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
WORD vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
WORD vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
WORD vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
WORD vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
WORD vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }

/* Lanes 0 .. n-1 of a, the rest of b; n in 0 .. 16. */
WORD vf vf_first(vf a, vf b, int n) { return _mm512_mask_blend_ps((__mmask16)((1u << n) - 1), b, a); }

/* tree16 of the numeric contract. */
WORD float vf_sum(vf a) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
WORD float vf_max_all(vf a) { return _mm512_reduce_max_ps(a); }

/* A line of 16-bit pairs: even and odd elements as floats. */
WORD void vf_load_bf16(const void *line, vf *even, vf *odd) {
    __m512i x = _mm512_loadu_si512(line);
    __asm__("" : "+v"(x)); /* used twice; without this GCC 12 loads it twice */
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
/* 16 consecutive bf16. */
WORD vf vf_widen_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
/* 16 consecutive f16. */
WORD vf vf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
/* Round to bf16 values, nearest even. Inputs are finite, not denormal. */
WORD vf vf_narrow(vf a) {
    __m512i x = _mm512_castps_si512(a);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
    x = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
/* The same for 0 and for 2^-126 .. 2^100, in fewer operations: what is left of a when 16 bits more than bf16 has are
 * cut off at its head (Dekker 1971). Ties go to even: checked for every float. */
WORD vf vf_narrow_weight(vf a) {
    vf c = _mm512_mul_ps(a, _mm512_set1_ps(65537.f));
    return _mm512_sub_ps(c, _mm512_sub_ps(c, a));
}
/* exp2 of the numeric contract, section 3. What is below 2^-126 is flushed to zero. */
WORD vf vf_exp2(vf t) {
    /* The second operand where t is NaN. */
    t = _mm512_max_ps(_mm512_set1_ps(-200.f), _mm512_min_ps(_mm512_set1_ps(127.f), t));
    __m512 f = _mm512_sub_ps(t, _mm512_roundscale_ps(t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    __m512 p = _mm512_set1_ps(1.867138582e-03f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.017012227e-03f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.579992612e-02f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.401644466e-01f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.931513121e-01f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.f));
    return _mm512_scalef_ps(p, t);
}

/* Into the second-level cache: vector loops read lines faster than a first-level prefetch can bring them. Volatile, or
 * the compiler gathers those of a loop in one burst, for which the processor has no room. */
WORD void prefetch_line(const void *p) { __asm__ volatile("prefetcht1 %0" ::"m"(*(const char *)p)); }

#endif
