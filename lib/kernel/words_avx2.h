/* words_avx2.h - the vector words of the kernels in AVX2 with FMA and F16C: 16 lanes as two halves of 8. */
#ifndef KVT_WORDS_AVX2_H
#define KVT_WORDS_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define WORD static inline __attribute__((always_inline))

typedef struct vf { __m256 a, b; } vf;  /* 16 floats */
typedef struct vi { __m256i a, b; } vi; /* 16 int32, or 64 bytes */

WORD vf vf_zero(void) { return (vf){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
WORD vf vf_set1(float x) { return (vf){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
WORD vf vf_load(const float *p) { return (vf){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
WORD void vf_store(float *p, vf x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
WORD vf vf_add(vf x, vf y) { return (vf){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
WORD vf vf_mul(vf x, vf y) { return (vf){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
WORD vf vf_div(vf x, vf y) { return (vf){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
WORD vf vf_max(vf x, vf y) { return (vf){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
WORD vf vf_fma(vf x, vf y, vf z) { return (vf){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }

WORD __m256 first8(__m256 x, __m256 y, int n) {
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_blendv_ps(y, x, _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane)));
}
/* Lanes 0 .. n-1 of x, the rest of y; n in 0 .. 16. */
WORD vf vf_first(vf x, vf y, int n) { return (vf){first8(x.a, y.a, n), first8(x.b, y.b, n - 8)}; }

/* tree16 of the numeric contract. */
WORD float vf_sum(vf x) {
    __m256 h = _mm256_add_ps(x.a, x.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}
WORD float vf_max_all(vf x) {
    __m256 h = _mm256_max_ps(x.a, x.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}

WORD __m256 even8(__m256i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
WORD __m256 odd8(__m256i x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u))); }
/* A line of 16-bit pairs: even and odd elements as floats. */
WORD void vf_load_bf16(const void *line, vf *even, vf *odd) {
    const __m256i *p = line;
    __m256i x = _mm256_loadu_si256(p), y = _mm256_loadu_si256(p + 1);
    __asm__("" : "+x"(x), "+x"(y)); /* used twice; without this GCC 12 loads them twice */
    *even = (vf){even8(x), even8(y)};
    *odd = (vf){odd8(x), odd8(y)};
}
/* 16 consecutive bf16. */
WORD vf vf_widen_bf16(const void *p) {
    const __m128i *h = p;
    return (vf){even8(_mm256_cvtepu16_epi32(_mm_loadu_si128(h))), even8(_mm256_cvtepu16_epi32(_mm_loadu_si128(h + 1)))};
}
/* 16 consecutive f16. */
WORD vf vf_load_f16(const void *p) {
    const __m128i *h = p;
    return (vf){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}
WORD __m256 narrow8(__m256 a) {
    __m256i x = _mm256_castps_si256(a);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    x = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u)));
}
/* Round to bf16 values, nearest even. Inputs are finite, not denormal. */
WORD vf vf_narrow(vf x) { return (vf){narrow8(x.a), narrow8(x.b)}; }

/* The same for 0 and for 2^-126 .. 2^100, in fewer operations; see words_avx512.h. */
WORD vf vf_narrow_weight(vf x) {
    vf c = vf_mul(x, vf_set1(65537.f));
    return (vf){_mm256_sub_ps(c.a, _mm256_sub_ps(c.a, x.a)), _mm256_sub_ps(c.b, _mm256_sub_ps(c.b, x.b))};
}

WORD __m256 exp2_8(__m256 t) {
    t = _mm256_min_ps(_mm256_set1_ps(127.f), t); /* second operand where t is NaN */
    __m256 dead = _mm256_cmp_ps(t, _mm256_set1_ps(-126.f), _CMP_LT_OQ);
    __m256 n = _mm256_floor_ps(t), f = _mm256_sub_ps(t, n);
    __m256 p = _mm256_set1_ps(1.867138582e-03f);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(9.017012227e-03f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(5.579992612e-02f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(2.401644466e-01f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(6.931513121e-01f));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.f));
    __m256i scale = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_andnot_ps(dead, _mm256_mul_ps(p, _mm256_castsi256_ps(scale)));
}
/* exp2 of the numeric contract, section 3. */
WORD vf vf_exp2(vf x) { return (vf){exp2_8(x.a), exp2_8(x.b)}; }

WORD void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

#endif
