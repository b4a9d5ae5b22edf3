/* rows_avx2.c - attention over rows in AVX2 with FMA. */
#include "kernel/unroll.h"
#include "kernel/words_avx2.h"
#include "layout.h"

typedef __m256 lanes;
typedef __m256i raw;
#define LANES 8
#define SHARE 1
#define ROWS 4
#define PV_LINES 1

WORD lanes lanes_zero(void) { return _mm256_setzero_ps(); }
WORD lanes lanes_load(const float *p) { return _mm256_loadu_ps(p); }
WORD void lanes_store(float *p, lanes x) { _mm256_storeu_ps(p, x); }
WORD lanes lanes_set1(float x) { return _mm256_set1_ps(x); }
WORD lanes lanes_fma(lanes x, lanes y, lanes z) { return _mm256_fmadd_ps(x, y, z); }
WORD lanes lanes_join(lanes x, lanes y, const int bit) {
    switch (bit) {
    case 1: return _mm256_add_ps(_mm256_blend_ps(x, y, 0xaa), _mm256_permute_ps(_mm256_blend_ps(y, x, 0xaa), 0xb1));
    case 2: return _mm256_add_ps(_mm256_blend_ps(x, y, 0xcc), _mm256_shuffle_ps(x, y, 0x4e));
    default: return _mm256_add_ps(_mm256_blend_ps(x, y, 0xf0), _mm256_permute2f128_ps(x, y, 0x21));
    }
}

WORD raw raw_load(const uint8_t *p) { return _mm256_loadu_si256((const raw *)p); }
WORD void raw_widen(raw x, lanes *even, lanes *odd) {
    *even = even8(x);
    *odd = odd8(x);
}
/* Sums of two tokens in one register cost more here than they save: a line is half as long. */
WORD void raw_join(raw *x, raw *y) {
    (void)x;
    (void)y;
}

#include "rows_f32.h"

/* -------------------------------------------------------------------------------------- pieces to tiles */

/* 8 x 8 words of two elements: three rounds of pairs, from neighbours to halves. */
WORD void turn8(raw *x) {
    raw y[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_epi32(x[i], x[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_unpacklo_epi64(y[i], y[i + 2]);
        x[i + 1] = _mm256_unpackhi_epi64(y[i], y[i + 2]);
        x[i + 2] = _mm256_unpacklo_epi64(y[i + 1], y[i + 3]);
        x[i + 3] = _mm256_unpackhi_epi64(y[i + 1], y[i + 3]);
    }
    UNROLL for (int j = 0; j < 4; j++) {
        y[j] = _mm256_permute2x128_si256(x[j], x[j + 4], 0x20);
        y[j + 4] = _mm256_permute2x128_si256(x[j], x[j + 4], 0x31);
    }
    UNROLL for (int j = 0; j < 8; j++) x[j] = y[j];
}

static void turn_k(const void *piece, int dim, void *tile) {
    const uint8_t *from = piece;
    uint8_t *to = tile;
    for (int t = 0; t < TILE; t += 8) {
        for (int d = 0; d < dim; d += 16) {
            raw x[8];
            UNROLL for (int i = 0; i < 8; i++) x[i] = raw_load(from + ((t + i) * dim + d) * 2);
            turn8(x);
            UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_si256((raw *)(to + (d / 2 + i) * 64 + t * 4), x[i]);
        }
    }
}

static void turn_v(const void *piece, int dim, void *tile) {
    const uint8_t *from = piece;
    raw *to = tile;
    for (int pair = 0; pair < TILE / 2; pair++, from += 4 * dim) {
        for (int d = 0; d < dim; d += 16, to += 2) {
            const raw a = raw_load(from + 2 * d), b = raw_load(from + 2 * dim + 2 * d);
            const raw low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
            _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
            _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
        }
    }
}

const rival rival_rows_avx2 = {qk_32, pv_32, put_q_32, get_o_32, turn_k, turn_v};
