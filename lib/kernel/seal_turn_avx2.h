/* seal_turn_avx2.h - matrices turned around for sealing values, whose lanes are dims where sealing wants tokens; in
 * AVX2 for every path that has it. */
#ifndef KVT_SEAL_TURN_AVX2_H
#define KVT_SEAL_TURN_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#include "base/unroll.h"

/* Eight rows of eight dwords become eight columns. */
static inline __attribute__((always_inline)) void turn8(__m256i r[8]) {
    __m256i p[8], q[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        p[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        p[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        q[i] = _mm256_unpacklo_epi64(p[i], p[i + 2]);
        q[i + 1] = _mm256_unpackhi_epi64(p[i], p[i + 2]);
        q[i + 2] = _mm256_unpacklo_epi64(p[i + 1], p[i + 3]);
        q[i + 3] = _mm256_unpackhi_epi64(p[i + 1], p[i + 3]);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2x128_si256(q[i], q[i + 4], 0x20);
        r[i + 4] = _mm256_permute2x128_si256(q[i], q[i + 4], 0x31);
    }
}

/* 16 values of bf16 as floats. */
static inline __attribute__((always_inline)) void turn_widen(float *to, __m256i x) {
    __m256i low = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
    __m256i high = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
    _mm256_storeu_si256((__m256i *)to, _mm256_slli_epi32(low, 16));
    _mm256_storeu_si256((__m256i *)(to + 8), _mm256_slli_epi32(high, 16));
}

/* Hot values in bf16 to x[dim][16 tokens]. */
static void turn_values(const void *tile, int dim, float *x) {
    for (int d = 0; d < dim; d += 8, x += 8 * 16) {
        const uint8_t *line = (const uint8_t *)tile + (size_t)d * 4;
        __m256i r[8];
        UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_si256((const void *)(line + (size_t)(i * dim) * 4));
        turn8(r);
        UNROLL for (int i = 0; i < 8; i++) turn_widen(x + i * 16, r[i]);
    }
}

/* Lines of codes, [dim/4] of [16 tokens][4 dims], to [dim/16][4 quads] of [16 dims][4 tokens], in place. */
static void turn_codes(uint8_t (*line)[64], int dim) {
    const __m128i turn = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int i = 0; i < dim / 4; i += 4) {
        __m128i part[4][4];
        UNROLL for (int j = 0; j < 4; j++) {
            UNROLL for (int q = 0; q < 4; q++) part[j][q] = _mm_loadu_si128((const __m128i *)line[i + j] + q);
        }
        UNROLL for (int j = 0; j < 4; j++) {
            UNROLL for (int q = 0; q < 4; q++) {
                _mm_storeu_si128((__m128i *)line[i + q] + j, _mm_shuffle_epi8(part[j][q], turn));
            }
        }
    }
}

#endif
