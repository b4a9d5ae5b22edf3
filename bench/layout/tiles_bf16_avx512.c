/* tiles_bf16_avx512.c - tiles with products in pairs by vdpbf16ps: what of the rival's speed is the instruction's, and
 * what the layout's. */
#include <string.h>

#include "format/format.h"
#include "kernel/unroll.h"
#include "kernel/words_avx512.h"
#include "layout.h"

#define ROWS 4

WORD __m512bh spread(uint32_t pair) { return (__m512bh)_mm512_set1_epi32((int)pair); }
WORD __m512bh load(const uint8_t *p) {
    __m512i x = _mm512_loadu_si512(p);
    KEEP(x);
    return (__m512bh)x;
}

/* q: [dim / 2][ATTN_ROWS] pairs, taken in turn by two chains. */
WORD void qk_rows(const int rows, const uint8_t *const *k, size_t dim, const uint32_t *q, float *s,
                  const uint8_t *const *next) {
    vf sum[ROWS][2][2];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int tile = 0; tile < 2; tile++) sum[r][tile][0] = sum[r][tile][1] = vf_zero();
    }
    for (size_t i = 0; i < dim / 2; i += 2) {
        UNROLL for (int chain = 0; chain < 2; chain++) {
            const size_t line = i + (size_t)chain;
            const __m512bh x[2] = {load(k[0] + line * 64), load(k[1] + line * 64)};
            UNROLL for (int tile = 0; tile < 2; tile++) prefetch_line(next[tile] + line * 64);
            UNROLL for (int r = 0; r < rows; r++) {
                const __m512bh f = spread(q[line * ATTN_ROWS + (size_t)r]);
                UNROLL for (int tile = 0; tile < 2; tile++) {
                    sum[r][tile][chain] = _mm512_dpbf16_ps(sum[r][tile][chain], x[tile], f);
                }
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int tile = 0; tile < 2; tile++) {
            vf_store(s + (tile * ATTN_ROWS + r) * TILE, vf_add(sum[r][tile][0], sum[r][tile][1]));
        }
    }
}

/* Four lines, 64 dims, at a time. */
WORD void pv_rows(const int rows, const uint8_t *const *v, size_t dim, const float *p, float *o,
                  const uint8_t *const *next) {
    uint32_t w[2][ROWS][TILE / 2];
    UNROLL for (int r = 0; r < 2 * rows; r++) {
        const float *from = p + (r / rows * ATTN_ROWS + r % rows) * TILE;
        _mm256_storeu_si256((__m256i *)w[r / rows][r % rows], (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
    }
    for (size_t d = 0; d < dim; d += 64) {
        vf sum[ROWS][4];
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < 4; c++) sum[r][c] = vf_load(o + (size_t)r * dim + d + c * 16);
        }
        for (size_t i = 0; i < TILE; i++) {
            const uint8_t *line = v[i / 8] + i % 8 * dim * 4 + d * 4;
            __m512bh x[4];
            UNROLL for (int c = 0; c < 4; c++) x[c] = load(line + c * 64);
            UNROLL for (int c = 0; c < 4; c++) prefetch_line(next[i / 8] + d * 2 * TILE + i % 8 * 256 + c * 64);
            UNROLL for (int r = 0; r < rows; r++) {
                const __m512bh f = spread(w[i / 8][r][i % 8]);
                UNROLL for (int c = 0; c < 4; c++) sum[r][c] = _mm512_dpbf16_ps(sum[r][c], x[c], f);
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < 4; c++) vf_store(o + (size_t)r * dim + d + c * 16, sum[r][c]);
        }
    }
}

static void qk(const attn_qk_args *a) {
    for (int i = 0; i < 2 * a->n_pairs; i += 2) {
        const uint8_t *k[2] = {a->k_tile[i], a->k_tile[i + 1]}, *ahead[2] = {a->ahead.tile[i], a->ahead.tile[i + 1]};
        const uint8_t *const *next = ahead;
        const uint32_t *q = (const uint32_t *)a->q;
        float *s = a->s + i * (ATTN_ROWS * TILE);
        for (int left = a->n_rows; left > 0; left -= ROWS, q += ROWS, s += ROWS * TILE, next = k) {
            switch (left) {
            case 1: qk_rows(1, k, (size_t)a->dim, q, s, next); break;
            case 2: qk_rows(2, k, (size_t)a->dim, q, s, next); break;
            case 3: qk_rows(3, k, (size_t)a->dim, q, s, next); break;
            default: qk_rows(4, k, (size_t)a->dim, q, s, next);
            }
        }
    }
}

static void pv(const attn_pv_args *a) {
    const size_t dim = (size_t)a->dim;
    for (int i = 0; i < 2 * a->n_pairs; i += 2) {
        const uint8_t *v[2] = {a->v_tile[i], a->v_tile[i + 1]}, *ahead[2] = {a->ahead.tile[i], a->ahead.tile[i + 1]};
        const uint8_t *const *next = ahead;
        const float *p = a->p + i * (ATTN_ROWS * TILE);
        float *o = a->o;
        for (int left = a->n_rows; left > 0; left -= ROWS, p += ROWS * TILE, o += ROWS * dim, next = v) {
            switch (left) {
            case 1: pv_rows(1, v, dim, p, o, next); break;
            case 2: pv_rows(2, v, dim, p, o, next); break;
            case 3: pv_rows(3, v, dim, p, o, next); break;
            default: pv_rows(4, v, dim, p, o, next);
            }
        }
    }
}

static void put_q(const float *x, int dim, int row, void *q) {
    for (int d = 0; d < dim; d++) ((uint16_t *)q)[(d / 2 * ATTN_ROWS + row) * 2 + d % 2] = f32_to_bf16(x[d]);
}
static void get_o(const float *o, int dim, float *out) { memcpy(out, o, (size_t)dim * sizeof *o); }

const rival rival_tiles_bf16_avx512 = {qk, pv, put_q, get_o, NULL, NULL};
