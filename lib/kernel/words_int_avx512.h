/* words_int_avx512.h - the vector words of matrix products in AVX-512 with VNNI. A word is the part of a line that one
 * register holds, LANES rows of a panel: here the whole line. */
#ifndef KVT_WORDS_INT_AVX512_H
#define KVT_WORDS_INT_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#include "kernel.h"

#define WORD static inline __attribute__((always_inline))

enum { LANES = 16, WORDS = TILE / LANES };

typedef __m512 mf;  /* LANES floats */
typedef __m512i mi; /* LANES int32, or 4 bytes of each row */

WORD mf mf_zero(void) { return _mm512_setzero_ps(); }
WORD mf mf_set1(float x) { return _mm512_set1_ps(x); }
WORD mf mf_load(const void *p) { return _mm512_loadu_ps(p); }
WORD void mf_store(float *p, mf x) { _mm512_storeu_ps(p, x); }
WORD mf mf_mul(mf x, mf y) { return _mm512_mul_ps(x, y); }
WORD mf mf_negative(mf x) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)0x80000000u)));
}
WORD mf mf_fma(mf x, mf y, mf z) { return _mm512_fmadd_ps(x, y, z); }
WORD mf mf_from_i(mi x) { return _mm512_cvtepi32_ps(x); }
/* LANES f16. */
WORD mf mf_load_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

WORD mi mi_zero(void) { return _mm512_setzero_si512(); }
WORD mi mi_set1(int32_t x) { return _mm512_set1_epi32(x); }
WORD mi mi_sub(mi x, mi y) { return _mm512_sub_epi32(x, y); }
/* -x times a power of two. */
WORD mi mi_minus_times(mi x, int by) {
    return mi_sub(mi_zero(), _mm512_slli_epi32(x, (unsigned)__builtin_ctz((unsigned)by)));
}
WORD mi mi_load(const void *p) { return _mm512_loadu_si512(p); }
/* 4 bytes to every row. */
WORD mi mi_set4(const void *p) {
    int32_t x;
    __builtin_memcpy(&x, p, sizeof x);
    return _mm512_set1_epi32(x);
}

/* A byte of each row, without and with a sign. */
WORD mi mi_load_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
WORD mi mi_load_i8(const void *p) { return _mm512_cvtepi8_epi32(_mm_loadu_si128(p)); }
WORD mi mi_low4(mi x) { return _mm512_and_si512(x, _mm512_set1_epi32(15)); }
WORD mi mi_high4(mi x) { return _mm512_srli_epi32(x, 4); } /* of a byte without a sign */

/* n bits of every byte, from bit `from` on, as numbers. */
WORD mi mi_bits(mi x, int from, int n) {
    if (from > 0) x = _mm512_srli_epi16(x, (unsigned)from);
    return _mm512_and_si512(x, _mm512_set1_epi8((char)((1 << n) - 1)));
}
/* x with such bits of y put into its bits from `to` on, which are 0. */
WORD mi mi_or_bits(mi x, mi y, int from, int n, int to) {
    if (from > to) y = _mm512_srli_epi16(y, (unsigned)(from - to));
    if (from < to) y = _mm512_slli_epi16(y, (unsigned)(to - from));
    return _mm512_ternarylogic_epi32(x, y, _mm512_set1_epi8((char)(((1 << n) - 1) << to)), 0xf8); /* x | (y & mask) */
}
WORD mi mi_less(mi x, int bias) { return _mm512_sub_epi8(x, _mm512_set1_epi8((char)bias)); }
/* Bytes 0 .. 15 are places in weight_table. */
WORD mi mi_of_table(mi x) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)weight_table)), x);
}

/* Pairs of 16-bit floats: the first and the second of each row. */
WORD mi f16_split(mi x) { /* the first ones of all rows, then the second ones */
    const __m512i order =
        _mm512_setr_epi32(0x020000, 0x060004, 0x0a0008, 0x0e000c, 0x120010, 0x160014, 0x1a0018, 0x1e001c,
                          0x030001, 0x070005, 0x0b0009, 0x0f000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d);
    return _mm512_permutexvar_epi16(order, x);
}
WORD mf mf_f16_first(mi x) { return _mm512_cvtph_ps(_mm512_castsi512_si256(f16_split(x))); }
WORD mf mf_f16_second(mi x) { return _mm512_cvtph_ps(_mm512_extracti64x4_epi64(f16_split(x), 1)); }
WORD mf mf_bf16_first(mi x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
WORD mf mf_bf16_second(mi x) {
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}

/* Byte i of each row, signed. */
WORD mf mf_byte(mi x, int i) { return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(x, 24 - 8 * i), 24)); }
/* The four bits from `shift` on of each row, less bias (0 or 8). The permutation reads only those of its index. */
WORD mf mf_nibble(mi x, int shift, int bias) {
    __m512 n = bias ? _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7)
                    : _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(x, (unsigned)shift), n);
}

/* Integer dots of codes with activations: four products of each row at a time, exact. A code is what four columns of a
 * line become before they meet activations of 8 or of 16 bits.
 * With 8 bits the instruction wants one side unsigned: signed codes come with CODE8_BIAS added. A dot starts
 * with what that, or the bias of unsigned codes, takes off again. */
typedef struct code {
    mi a, b; /* 8 bits: unsigned code; not used. 16 bits: even columns; odd ones */
} code;
typedef mi dot;
enum { CODE8_BIAS = 128 };
WORD mi dot_sum(dot d) { return d; }

WORD code code8(mi x) { return (code){.a = _mm512_xor_si512(x, _mm512_set1_epi8((char)0x80))}; }
WORD code code8_of_table(mi x) {
    const __m128i table = _mm_loadu_si128((const __m128i *)weight_table);
    return (code){.a = _mm512_shuffle_epi8(code8(_mm512_broadcast_i32x4(table)).a, x)};
}
WORD dot dot8_start(mi bias) { return bias; }
WORD dot dot8_add(dot d, code w, mi x) { return _mm512_dpbusd_epi32(d, w.a, x); }

WORD code code_unsigned(mi x) { return (code){.a = x}; }
WORD dot dot_unsigned_start(mi bias) { return bias; }
WORD dot dot_unsigned_add(dot d, code w, mi x, int bits, int n, int n_steps) {
    (void)bits, (void)n, (void)n_steps;
    return _mm512_dpbusd_epi32(d, w.a, x);
}
WORD mi dot_unsigned_end(dot d, mi bias) {
    (void)bias;
    return d;
}

/* With 16 bits codes are widened, and both sides are signed. */
WORD code wide8(mi x) {
    return (code){_mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), _mm512_srai_epi16(x, 8)};
}
WORD code wide_unsigned(mi x) {
    return (code){_mm512_and_si512(x, _mm512_set1_epi16(255)), _mm512_srli_epi16(x, 8)};
}
WORD code wide4_low(mi x) {
    const mi nibble = _mm512_set1_epi16(15);
    return (code){_mm512_and_si512(x, nibble), _mm512_and_si512(_mm512_srli_epi16(x, 8), nibble)};
}
WORD code wide4_high(mi x) {
    return (code){_mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi16(15)), _mm512_srli_epi16(x, 12)};
}
WORD dot dot16_start(mi bias) { return bias; }
WORD dot dot16_add(dot d, code w, mi even, mi odd) {
    return _mm512_dpwssd_epi32(_mm512_dpwssd_epi32(d, w.a, even), w.b, odd);
}

/* Into the second-level cache: the first has too few places for lines under way. */
WORD void prefetch_line(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

#endif
