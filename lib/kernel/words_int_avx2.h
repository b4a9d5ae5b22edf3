/* words_int_avx2.h - the vector words of matrix products in AVX2 with FMA and F16C. A word is the part of a line that
 * one register holds, LANES rows of a panel: here half a line. */
#ifndef KVT_WORDS_INT_AVX2_H
#define KVT_WORDS_INT_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "kernel.h"

#define WORD static inline __attribute__((always_inline))

enum { LANES = 8, WORDS = TILE / LANES };

typedef __m256 mf;  /* LANES floats */
typedef __m256i mi; /* LANES int32, or 4 bytes of each row */

WORD mf mf_zero(void) { return _mm256_setzero_ps(); }
WORD mf mf_set1(float x) { return _mm256_set1_ps(x); }
WORD mf mf_load(const void *p) { return _mm256_loadu_ps(p); }
WORD void mf_store(float *p, mf x) { _mm256_storeu_ps(p, x); }
WORD mf mf_mul(mf x, mf y) { return _mm256_mul_ps(x, y); }
WORD mf mf_fma(mf x, mf y, mf z) { return _mm256_fmadd_ps(x, y, z); }
WORD mf mf_from_i(mi x) { return _mm256_cvtepi32_ps(x); }
/* LANES f16. */
WORD mf mf_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

WORD mi mi_load(const void *p) { return _mm256_loadu_si256(p); }
/* 4 bytes to every row. */
WORD mi mi_set4(const void *p) {
    int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

/* Pairs of 16-bit floats: the first and the second of each row. */
WORD mf f16_low(mi x) { /* from dwords whose upper half is zero */
    x = _mm256_packus_epi32(x, x);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(x, 0x08)));
}
WORD mf mf_f16_first(mi x) { return f16_low(_mm256_and_si256(x, _mm256_set1_epi32(0xffff))); }
WORD mf mf_f16_second(mi x) { return f16_low(_mm256_srli_epi32(x, 16)); }
WORD mf mf_bf16_first(mi x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
WORD mf mf_bf16_second(mi x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000u))); }

/* Byte i of each row, signed. */
WORD mf mf_byte(mi x, int i) { return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(x, 24 - 8 * i), 24)); }
/* The four bits from `shift` on of each row, less bias (0 or 8). */
WORD mf mf_nibble(mi x, int shift, int bias) {
    x = _mm256_and_si256(_mm256_srli_epi32(x, shift), _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(bias ? _mm256_sub_epi32(x, _mm256_set1_epi32(bias)) : x);
}

/* Integer dots of codes with activations: four products of each row at a time, exact. A code is what four columns of a
 * line become before they meet activations of 8 or of 16 bits.
 * With 8 bits the instruction multiplies unsigned by signed bytes and adds pairs in 16 bits, which must not saturate:
 * 8-bit codes give their sign to the activation: 2 * 128 * 127 fits. The pairs of eight lines of 4-bit codes, at most
 * 8 * 2 * 15 * 127, fit together, so they are widened once a block. */
typedef struct code {
    mi a, b; /* 8 bits: unsigned code; the signed one where that is another. 16 bits: even columns; odd ones */
} code;
WORD code code8(mi x) { return (code){_mm256_abs_epi8(x), x}; }
WORD code code4_low(mi x) { return (code){_mm256_and_si256(x, _mm256_set1_epi8(15)), x}; }
WORD code code4_high(mi x) { return code4_low(_mm256_srli_epi16(x, 4)); }

/* The empty instruction keeps sums in the order they are written in: regrouped, they do not fit the registers. */
WORD mi dot_step(mi d) {
    __asm__("" : "+x"(d));
    return d;
}
WORD mi dot8_start(int sum) {
    (void)sum;
    return _mm256_setzero_si256();
}
WORD mi dot8_add(mi d, code w, mi x) {
    mi pairs = _mm256_maddubs_epi16(w.a, _mm256_sign_epi8(x, w.b));
    return dot_step(_mm256_add_epi32(d, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
WORD mi dot4_start(int bias, int sum) {
    (void)bias, (void)sum;
    return _mm256_setzero_si256();
}
WORD mi dot4_add(mi d, code w, mi x) { return dot_step(_mm256_add_epi16(d, _mm256_maddubs_epi16(w.a, x))); }
WORD mi dot4_end(mi d, int bias, int sum) {
    d = _mm256_madd_epi16(d, _mm256_set1_epi16(1));
    return bias ? _mm256_sub_epi32(d, _mm256_set1_epi32(bias * sum)) : d;
}

/* With 16 bits codes are widened, and pairs of products are added in 32 bits. */
WORD code wide8(mi x) {
    return (code){_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
}
WORD code wide4_low(mi x) {
    const mi nibble = _mm256_set1_epi16(15);
    return (code){_mm256_and_si256(x, nibble), _mm256_and_si256(_mm256_srli_epi16(x, 8), nibble)};
}
WORD code wide4_high(mi x) {
    return (code){_mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi16(15)), _mm256_srli_epi16(x, 12)};
}
WORD mi dot16_start(int bias, int sum) { return bias ? _mm256_set1_epi32(-bias * sum) : _mm256_setzero_si256(); }
WORD mi dot16_add(mi d, code w, mi even, mi odd) {
    d = dot_step(_mm256_add_epi32(d, _mm256_madd_epi16(w.a, even)));
    return dot_step(_mm256_add_epi32(d, _mm256_madd_epi16(w.b, odd)));
}

/* Into the second-level cache: the first has too few places for lines under way. */
WORD void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

#endif
