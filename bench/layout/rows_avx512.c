/* rows_avx512.c - attention over rows in AVX-512: products in float32, or in pairs by vdpbf16ps. */
#include "format/format.h"
#include "kernel/unroll.h"
#include "kernel/words_avx512.h"
#include "layout.h"

typedef __m512 lanes;
typedef __m512i raw;
#define LANES 16
#define SHARE 2
#define ROWS 4
#define PV_LINES 2

WORD lanes lanes_zero(void) { return _mm512_setzero_ps(); }
WORD lanes lanes_load(const float *p) { return _mm512_loadu_ps(p); }
WORD void lanes_store(float *p, lanes x) { _mm512_storeu_ps(p, x); }
WORD lanes lanes_set1(float x) { return _mm512_set1_ps(x); }
WORD lanes lanes_fma(lanes x, lanes y, lanes z) { return _mm512_fmadd_ps(x, y, z); }
WORD lanes lanes_join(lanes x, lanes y, const int bit) {
    const __m512i by1 = _mm512_setr_epi32(1, 16, 3, 18, 5, 20, 7, 22, 9, 24, 11, 26, 13, 28, 15, 30);
    const __m512i by4 = _mm512_setr_epi32(4, 5, 6, 7, 16, 17, 18, 19, 12, 13, 14, 15, 24, 25, 26, 27);
    switch (bit) {
    case 1: return _mm512_add_ps(_mm512_mask_blend_ps(0xaaaa, x, y), _mm512_permutex2var_ps(x, by1, y));
    case 4: return _mm512_add_ps(_mm512_mask_blend_ps(0xf0f0, x, y), _mm512_permutex2var_ps(x, by4, y));
    default: return _mm512_add_ps(_mm512_mask_blend_ps(0xff00, x, y), _mm512_shuffle_f32x4(x, y, 0x4e));
    }
}

WORD raw raw_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
WORD void raw_widen(raw x, lanes *even, lanes *odd) {
    *even = _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    *odd = _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
WORD void raw_join(raw *x, raw *y) {
    raw a = *x, b = *y;
    KEEP(a);
    KEEP(b);
    *x = _mm512_mask_blend_epi32(0xcccc, a, b);
    *y = _mm512_castps_si512(_mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0x4e));
}

#include "rows_f32.h"

/* ------------------------------------------------------------------------------------------- vdpbf16ps */

WORD __m512bh line16_of(raw x) { return (__m512bh)x; }
WORD __m512bh query16_load(const uint8_t *p) {
    raw q = raw_load(p);
    KEEP(q);
    return (__m512bh)q;
}
WORD lanes line16_dot(__m512bh x, __m512bh q, lanes sum) { return _mm512_dpbf16_ps(sum, x, q); }

/* Even and odd dims, each with two tokens side by side. */
typedef struct two16 {
    __m512bh even, odd;
} two16;
typedef struct weights16 {
    uint32_t pair[ROWS][TILE / 2];
} weights16;
WORD two16 two16_of(raw a, raw b) {
    const __mmask32 odd = 0xaaaaaaaa;
    return (two16){(__m512bh)_mm512_mask_blend_epi16(odd, a, _mm512_slli_epi32(b, 16)),
                   (__m512bh)_mm512_mask_blend_epi16(odd, _mm512_srli_epi32(a, 16), b)};
}
WORD void weights16_make(const int rows, const float *p, weights16 *w) {
    UNROLL for (int r = 0; r < rows; r++) {
        _mm256_storeu_si256((__m256i *)w->pair[r], (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(p + r * TILE)));
    }
}
WORD __m512bh weight16_load(const weights16 *w, int row, int i) {
    return (__m512bh)_mm512_set1_epi32((int)w->pair[row][i]);
}
WORD void two16_add(two16 x, __m512bh w, lanes *o) {
    o[0] = _mm512_dpbf16_ps(o[0], x.even, w);
    o[1] = _mm512_dpbf16_ps(o[1], x.odd, w);
}

/* Per line the elements, and once more for the words two places off. */
static void put_q_16(const float *x, int dim, int row, void *q) {
    uint16_t *to = (uint16_t *)q + row * dim * 2;
    for (int d = 0; d < dim; d++) {
        const int i = d % 32;
        for (int h = 0; h < 2; h++) to[(d - i) * 2 + 32 * h + (i ^ (4 * h))] = f32_to_bf16(x[d]);
    }
}

#define NAME(f) f##_16
#define line __m512bh
#define line_of line16_of
#define LINE_Q 128
#define line_dot line16_dot
#define query_load query16_load
#define two two16
#define two_of two16_of
#define two_add two16_add
#define weight __m512bh
#define weight_load weight16_load
#define weights weights16
#define weights_make weights16_make
#include "rows_body.h"

/* -------------------------------------------------------------------------------------- pieces to tiles */

/* 16 x 16 words of two elements: four rounds of pairs, from neighbours to halves. */
WORD void turn16(raw *x) {
    raw y[16];
    UNROLL for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    UNROLL for (int i = 0; i < 16; i += 8) {
        UNROLL for (int j = 0; j < 4; j++) {
            y[i + j] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0x88);
            y[i + j + 4] = _mm512_shuffle_i32x4(x[i + j], x[i + j + 4], 0xdd);
        }
    }
    UNROLL for (int j = 0; j < 8; j++) {
        x[j] = _mm512_shuffle_i32x4(y[j], y[j + 8], 0x88);
        x[j + 8] = _mm512_shuffle_i32x4(y[j], y[j + 8], 0xdd);
    }
}

static void turn_k(const void *piece, int dim, void *tile) {
    const uint8_t *from = piece;
    uint8_t *to = tile;
    for (int d = 0; d < dim; d += 32) {
        raw x[16];
        UNROLL for (int t = 0; t < 16; t++) x[t] = raw_load(from + (t * dim + d) * 2);
        turn16(x);
        UNROLL for (int i = 0; i < 16; i++) _mm512_storeu_si512(to + (d / 2 + i) * 64, x[i]);
    }
}

static void turn_v(const void *piece, int dim, void *tile) {
    const raw first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const raw second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    const uint8_t *from = piece;
    uint8_t *to = tile;
    for (int pair = 0; pair < TILE / 2; pair++, from += 4 * dim) {
        for (int d = 0; d < dim; d += 32, to += 128) {
            const raw a = raw_load(from + 2 * d), b = raw_load(from + 2 * dim + 2 * d);
            _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, first, b));
            _mm512_storeu_si512(to + 64, _mm512_permutex2var_epi16(a, second, b));
        }
    }
}

const rival rival_rows_avx512 = {qk_32, pv_32, put_q_32, get_o_32, turn_k, turn_v};
const rival rival_rows_bf16_avx512 = {qk_16, pv_16, put_q_16, get_o_16, NULL, NULL};
