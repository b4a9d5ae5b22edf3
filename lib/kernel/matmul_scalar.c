/* matmul_scalar.c - matrix products over packed panels: the definition (numeric contract, section 5).
 * Every other matmul file gives these bits. Owns the order of the sums; format/ owns the layout that is read here. */
#include "kernel.h"

#include <string.h>

#include "matmul_formats.h"
#include "scalar.h"

enum { LINE = WEIGHT_LINE, BLOCK = WEIGHT_BLOCK };

static float f16_at(const uint8_t *p) {
    return f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* One block of 32 columns of a panel, as numbers; scales and minima of both its halves. */
typedef struct block {
    int8_t q[TILE][BLOCK]; /* less the bias */
    float d[2][TILE], m[2][TILE];
} block;

/* The n bits of step j of column `place` (a lane's fours side by side) from planes that hold 8 / n steps a line. */
static inline int bits_at(const uint8_t *planes, int n, int j, int place) {
    return planes[j * n / 8 * LINE + place] >> j * n % 8 & ((1 << n) - 1);
}

/* Column i of a lane, less the bias; `code` is the block's. */
static inline int code_at(weight_layout f, const uint8_t *code, int lane, int i) {
    int place = lane * 4 + i % 4, j = i % 16 / 4 * 2 + i / 16;
    if (f.low == 8) return (int8_t)code[i / 4 * LINE + place];
    int q = bits_at(code, f.low, j, place);
    if (f.high > 0) q |= bits_at(code + f.low * LINE, f.high, j, place) << f.low;
    return f.table ? weight_table[q] : q - f.bias;
}

/* Scale and minimum of a lane in the group that column i of block b (of its chunk) belongs to; `line` is the first of
 * the chunk's scale lines. */
static inline void scale_at(weight_layout f, const uint8_t *line, int b, int i, int lane, float *d, float *m) {
    *m = 0;
    if (f.chunk == 64) {
        *d = f16_at(line + b * (LINE / 2) + 2 * lane);
        if (f.minima) *m = f16_at(line + LINE + b * (LINE / 2) + 2 * lane);
        return;
    }
    const uint8_t *byte = line + (b * BLOCK + i) / f.group * TILE + lane, *head = line + weight_scale_bytes(f) - LINE;
    int scale = f.is_signed ? (int8_t)*byte : *byte, minimum = 0;
    if (f.nibbles) minimum = scale >> 4, scale &= 15;
    else if (f.minima) minimum = byte[f.chunk / f.group * TILE];
    *d = f16_at(head + 2 * lane) * (float)scale;
    if (f.minima) *m = -(f16_at(head + LINE / 2 + 2 * lane) * (float)minimum);
}

static inline void block_read(weight_layout f, const uint8_t *panel, int b, block *out) {
    int n_blocks = f.chunk / BLOCK, place = b % n_blocks;
    const uint8_t *chunk = panel + (size_t)(b / n_blocks) * (size_t)weight_chunk_bytes(f);
    const uint8_t *code = chunk + place * weight_code_bytes(f), *line = chunk + n_blocks * weight_code_bytes(f);
    for (int lane = 0; lane < TILE; lane++) {
        for (int i = 0; i < BLOCK; i++) out->q[lane][i] = (int8_t)code_at(f, code, lane, i);
        for (int half = 0; half < 2; half++)
            scale_at(f, line, place, half * BLOCK / 2, lane, &out->d[half][lane], &out->m[half][lane]);
    }
}

/* ------------------------------------------------------------------------------------ activations as codes */

/* Codes of a block of a row, bits (8 or 16) wide, in the order of the columns. */
static inline void act_read(int bits, const act_rows *a, size_t row, size_t b, int x[BLOCK]) {
    const char *line = (const char *)a->q + row * a->q_stride;
    const int8_t *q8 = (const void *)line;
    const int16_t *q16 = (const void *)line;
    for (int i = 0; i < BLOCK; i++) x[i] = bits == 8 ? q8[b * BLOCK + i] : q16[b * BLOCK + act16_place(i)];
}

/* Sixteen or 32 columns from `first` on: one scale, one dot. */
static inline void int_group(weight_layout f, const block *w, const int x[BLOCK], int first, float s, float fs,
                             float *y) {
    const float *d = w->d[first * 2 / BLOCK], *m = w->m[first * 2 / BLOCK];
    for (int lane = 0; lane < TILE; lane++) {
        int dot = 0; /* 32 * 128 * 32767 fits */
        for (int i = first; i < first + f.group; i++) dot += w->q[lane][i] * x[i];
        y[lane] = scalar_fma((float)dot, d[lane] * s, y[lane]);
        if (f.minima) y[lane] = scalar_fma(m[lane], fs, y[lane]);
    }
}

static inline void int_block(weight_layout f, int bits, const block *w, const act_rows *a, size_t row, size_t b,
                             float *y) {
    size_t at = row * a->block_stride + b;
    float s = a->s[at];
    int x[BLOCK], half = a->half[at];
    act_read(bits, a, row, b, x);
    if (f.group == BLOCK) {
        int_group(f, w, x, 0, s, a->fs[at], y);
        return;
    }
    int_group(f, w, x, 0, s, s * (float)half, y);
    int_group(f, w, x, BLOCK / 2, s, s * (float)(a->sum[at] - half), y);
}

static inline void int_panels(weight_layout f, int bits, const mm_panels *w, const act_rows *a, int n_rows, float *y,
                              size_t y_stride) {
    block bl;
    for (int p = 0; p < w->n_panels; p++, y += TILE) {
        for (int r = 0; r < n_rows; r++) memset(y + (size_t)r * y_stride, 0, TILE * sizeof *y);
        for (int b = 0; b < w->n_k / BLOCK; b++) {
            block_read(f, w->data + (size_t)p * w->panel_bytes, b, &bl);
            for (int r = 0; r < n_rows; r++)
                int_block(f, bits, &bl, a, (size_t)r, (size_t)b, y + (size_t)r * y_stride);
        }
    }
}

/* -------------------------------------------------------------------------------------- float activations */

/* Columns k .. k + n - 1 (at most 32, inside one block) of a panel's row, widened. */
typedef void (*widen_fn)(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]);

static void widen_f32(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {
    memcpy(w, panel + (size_t)k * LINE, (size_t)n * LINE);
}

static void widen_bf16(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {
    for (int i = 0; i < n; i++)
        for (int lane = 0; lane < TILE; lane++) {
            const uint8_t *p = panel + (size_t)((k + i) / 2) * LINE + 4 * lane + (k + i) % 2 * 2;
            w[i][lane] = bf16_to_f32((uint16_t)(p[0] | p[1] << 8));
        }
}

static void widen_f16(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {
    for (int i = 0; i < n; i++)
        for (int lane = 0; lane < TILE; lane++)
            w[i][lane] = f16_at(panel + (size_t)((k + i) / 2) * LINE + 4 * lane + (k + i) % 2 * 2);
}

static inline void widen_codes(weight_layout f, const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {
    block bl;
    block_read(f, panel, k / BLOCK, &bl);
    for (int i = 0; i < n; i++)
        for (int lane = 0; lane < TILE; lane++) {
            float q = (float)bl.q[lane][i], d = bl.d[i * 2 / BLOCK][lane];
            w[i][lane] = f.minima ? scalar_fma(d, q, bl.m[i * 2 / BLOCK][lane]) : d * q;
        }
}

static inline void f32_panels(widen_fn widen, const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,
                              size_t y_stride) {
    float wide[BLOCK][TILE];
    for (int p = 0; p < w->n_panels; p++, y += TILE) {
        for (int r = 0; r < n_rows; r++) memset(y + (size_t)r * y_stride, 0, TILE * sizeof *y);
        for (int k = 0; k < w->n_k; k += BLOCK) {
            int n = w->n_k - k < BLOCK ? w->n_k - k : BLOCK;
            widen(w->data + (size_t)p * w->panel_bytes, k, n, wide);
            for (int r = 0; r < n_rows; r++) {
                const float *xr = x + (size_t)r * x_stride + k;
                float *acc = y + (size_t)r * y_stride;
                for (int i = 0; i < n; i++)
                    for (int lane = 0; lane < TILE; lane++) acc[lane] = scalar_fma(wide[i][lane], xr[i], acc[lane]);
            }
        }
    }
}

/* ---------------------------------------------------------------------------------------------- the table */

#define ANY(NAME, FORMAT)                                                                                          \
    static void f32_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,              \
                           size_t y_stride) {                                                                      \
        f32_panels(widen_##NAME, w, x, x_stride, n_rows, y, y_stride);                                             \
    }
#define QUANTISED(NAME, FORMAT)                                                                                    \
    static void int8_##NAME(const mm_panels *w, const act_rows *a, int n_rows, float *y, size_t y_stride) {        \
        int_panels(weight_layouts[FORMAT], 8, w, a, n_rows, y, y_stride);                                          \
    }                                                                                                              \
    static void int16_##NAME(const mm_panels *w, const act_rows *a, int n_rows, float *y, size_t y_stride) {       \
        int_panels(weight_layouts[FORMAT], 16, w, a, n_rows, y, y_stride);                                         \
    }                                                                                                              \
    static void widen_##NAME(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {                           \
        widen_codes(weight_layouts[FORMAT], panel, k, n, w);                                                       \
    }                                                                                                              \
    ANY(NAME, FORMAT)

EACH_FLOAT(ANY)
EACH_QUANTISED(QUANTISED)

void matmul_scalar(kernels *k) {
#define FILL_FLOAT(NAME, FORMAT) k->mm_f32[FORMAT] = f32_##NAME;
#define FILL(NAME, FORMAT) \
    FILL_FLOAT(NAME, FORMAT) k->mm_int8[FORMAT] = int8_##NAME, k->mm_int16[FORMAT] = int16_##NAME;
    EACH_FLOAT(FILL_FLOAT)
    EACH_QUANTISED(FILL)
}
