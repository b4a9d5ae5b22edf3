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
WORD mf mf_negative(mf x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.f)); }
WORD mf mf_fma(mf x, mf y, mf z) { return _mm256_fmadd_ps(x, y, z); }
WORD mf mf_from_i(mi x) { return _mm256_cvtepi32_ps(x); }
/* LANES f16. */
WORD mf mf_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }

WORD mi mi_zero(void) { return _mm256_setzero_si256(); }
WORD mi mi_set1(int32_t x) { return _mm256_set1_epi32(x); }
WORD mi mi_sub(mi x, mi y) { return _mm256_sub_epi32(x, y); }
/* -x times a power of two. */
WORD mi mi_minus_times(mi x, int by) { return mi_sub(mi_zero(), _mm256_slli_epi32(x, __builtin_ctz((unsigned)by))); }
WORD mi mi_load(const void *p) { return _mm256_loadu_si256(p); }
/* 4 bytes to every row. */
WORD mi mi_set4(const void *p) {
    int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm256_set1_epi32(x);
}

/* A byte of each row, without and with a sign. */
WORD mi mi_load_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)); }
WORD mi mi_load_i8(const void *p) { return _mm256_cvtepi8_epi32(_mm_loadl_epi64(p)); }
WORD mi mi_low4(mi x) { return _mm256_and_si256(x, _mm256_set1_epi32(15)); }
WORD mi mi_high4(mi x) { return _mm256_srli_epi32(x, 4); } /* of a byte without a sign */

/* n bits of every byte, from bit `from` on, as numbers. */
WORD mi mi_bits(mi x, int from, int n) {
    if (from > 0) x = _mm256_srli_epi16(x, from);
    return _mm256_and_si256(x, _mm256_set1_epi8((char)((1 << n) - 1)));
}
/* x with such bits of y put into its bits from `to` on, which are 0. */
WORD mi mi_or_bits(mi x, mi y, int from, int n, int to) {
    if (from > to) y = _mm256_srli_epi16(y, from - to);
    if (from < to) y = _mm256_slli_epi16(y, to - from);
    return _mm256_or_si256(x, _mm256_and_si256(y, _mm256_set1_epi8((char)(((1 << n) - 1) << to))));
}
WORD mi mi_less(mi x, int bias) { return _mm256_sub_epi8(x, _mm256_set1_epi8((char)bias)); }
/* Bytes 0 .. 15 are places in weight_table. */
WORD mi mi_of_table(mi x) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)weight_table)), x);
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
 * signed codes give their sign to the activation: 2 * 128 * 127 fits. Unsigned codes of few bits fit together over a
 * run of steps, those of 4 bits over all 8 of a block (8 * 2 * 15 * 127), and are widened once a run. */
typedef struct code {
    mi a, b; /* 8 bits: unsigned code; the signed one where that is another. 16 bits: even columns; odd ones */
} code;
typedef struct dot {
    mi sum, pairs; /* in 32 bits; in 16 bits, not yet in sum */
} dot;
enum { CODE8_BIAS = 0 };
WORD mi dot_sum(dot d) { return d.sum; }

/* The empty instruction keeps sums in the order they are written in: regrouped, they do not fit the registers. */
WORD mi dot_step(mi d) {
    __asm__("" : "+x"(d));
    return d;
}
WORD mi dot_widen(mi pairs) { return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)); }

WORD code code8(mi x) { return (code){_mm256_abs_epi8(x), x}; }
WORD code code8_of_table(mi x) { return code8(mi_of_table(x)); }
WORD dot dot8_start(mi bias) {
    (void)bias;
    return (dot){.sum = mi_zero()};
}
WORD dot dot8_add(dot d, code w, mi x) {
    d.sum = dot_step(_mm256_add_epi32(d.sum, dot_widen(_mm256_maddubs_epi16(w.a, _mm256_sign_epi8(x, w.b)))));
    return d;
}

WORD code code_unsigned(mi x) { return (code){.a = x}; }
WORD dot dot_unsigned_start(mi bias) {
    (void)bias;
    return (dot){mi_zero(), mi_zero()};
}
/* bits: of a code; n: of n_steps steps, which one this is. */
WORD dot dot_unsigned_add(dot d, code w, mi x, int bits, int n, int n_steps) {
    const int run = 32767 / (2 * 127 * ((1 << bits) - 1)), last = n % run == run - 1 || n == n_steps - 1;
    mi pairs = _mm256_maddubs_epi16(w.a, x);
    d.pairs = n % run ? dot_step(_mm256_add_epi16(d.pairs, pairs)) : pairs;
    if (last) d.sum = n < run ? dot_widen(d.pairs) : dot_step(_mm256_add_epi32(d.sum, dot_widen(d.pairs)));
    return d;
}
WORD mi dot_unsigned_end(dot d, mi bias) { return _mm256_add_epi32(d.sum, bias); }

/* With 16 bits codes are widened, and pairs of products are added in 32 bits. */
WORD code wide8(mi x) {
    return (code){_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
}
WORD code wide_unsigned(mi x) {
    return (code){_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srli_epi16(x, 8)};
}
WORD code wide4_low(mi x) {
    const mi nibble = _mm256_set1_epi16(15);
    return (code){_mm256_and_si256(x, nibble), _mm256_and_si256(_mm256_srli_epi16(x, 8), nibble)};
}
WORD code wide4_high(mi x) {
    return (code){_mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi16(15)), _mm256_srli_epi16(x, 12)};
}
WORD dot dot16_start(mi bias) { return (dot){.sum = bias}; }
WORD dot dot16_add(dot d, code w, mi even, mi odd) {
    d.sum = dot_step(_mm256_add_epi32(d.sum, _mm256_madd_epi16(w.a, even)));
    d.sum = dot_step(_mm256_add_epi32(d.sum, _mm256_madd_epi16(w.b, odd)));
    return d;
}

/* Into the second-level cache: the first has too few places for lines under way. */
WORD void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

#endif
