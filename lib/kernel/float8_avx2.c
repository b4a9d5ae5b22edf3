/* float8_avx2.c - float8 tiles widened in AVX2: the words of it; the rest is float8_body.h. */
#include "kernel.h"
#include "words_int_avx2.h"

WORD void mi_store(void *p, mi x) { _mm256_storeu_si256(p, x); }

WORD mi mi_upper(mi x, const int second) {
    const __m128i first = _mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    return _mm256_shuffle_epi8(second ? _mm256_srli_epi32(x, 16) : x, _mm256_broadcastsi128_si256(first));
}

/* The sign stays where it is, size and exponent move down, and the exponent's bias grows. */
WORD mi mi_bf16(mi x, const int e5m2) {
    const mi normal = _mm256_set1_epi16(e5m2 ? 0x7c00 : 0x7800);
    const mi kept = _mm256_set1_epi16((short)(e5m2 ? 0x8fe0 : 0x87f0));
    const mi bias = _mm256_set1_epi16((short)((e5m2 ? 112 : 120) << 7));
    const mi y = _mm256_add_epi16(_mm256_and_si256(_mm256_srai_epi16(x, e5m2 ? 3 : 4), kept), bias);
    const mi small = _mm256_cmpeq_epi16(_mm256_and_si256(x, normal), mi_zero());
    return _mm256_andnot_si256(_mm256_and_si256(small, _mm256_set1_epi16(0x7fff)), y);
}

#include "float8_body.h"

void float8_avx2(kernels *k) { float8_fill(k); }
