/* float8_avx512.c - float8 tiles widened in AVX-512: the words of it; the rest is float8_body.h. */
#include "kernel.h"
#include "words_int_avx512.h"

WORD void mi_store(void *p, mi x) { _mm512_storeu_si512(p, x); }

WORD mi mi_upper(mi x, const int second) {
    const mi first = _mm512_broadcast_i32x4(_mm_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13));
    return _mm512_shuffle_epi8(second ? _mm512_srli_epi32(x, 16) : x, first);
}

/* The sign stays where it is, size and exponent move down, and the exponent's bias grows. */
WORD mi mi_bf16(mi x, const int e5m2) {
    const mi normal = _mm512_set1_epi16(e5m2 ? 0x7c00 : 0x7800);
    const mi kept = _mm512_set1_epi16((short)(e5m2 ? 0x8fe0 : 0x87f0));
    const mi y = _mm512_and_si512(_mm512_srai_epi16(x, e5m2 ? 3 : 4), kept);
    const mi zero = _mm512_and_si512(x, _mm512_set1_epi16((short)0x8000));
    const mi bias = _mm512_set1_epi16((short)((e5m2 ? 112 : 120) << 7));
    return _mm512_mask_add_epi16(zero, _mm512_test_epi16_mask(x, normal), y, bias);
}

#include "float8_body.h"

void float8_avx512(kernels *k) { float8_fill(k); }
