/* matmul_scalar.c - matrix products over packed panels: the definition (numeric contract, section 5).
 * Every other matmul file gives these bits. Owns the order of the sums; format/ owns the layout that is read here. */
#include "kernel.h"

#include <string.h>

#include "scalar.h"

enum { LINE = 64, CHUNK = 64, BLOCK = 32 }; /* bytes of a line; columns of a chunk and of a block */

/* Code bytes of a block, bits of a code, whether minima follow the scales, what is taken off a code. */
typedef struct codes {
    int block_bytes, bits, has_min, bias;
} codes;

static const codes q8_0 = {512, 8, 0, 0}, q4_0 = {256, 4, 0, 8}, q4_1 = {256, 4, 1, 0};

static inline size_t chunk_bytes(codes f) {
    return (size_t)(2 * f.block_bytes + LINE + f.has_min * LINE);
}

static float f16_at(const uint8_t *p) {
    return f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* One block of 32 columns of a panel, as numbers. */
typedef struct block {
    int8_t q[TILE][BLOCK]; /* less the bias */
    float d[TILE], m[TILE];
} block;

static inline void block_read(codes f, const uint8_t *panel, int b, block *out) {
    const uint8_t *chunk = panel + (size_t)(b / 2) * chunk_bytes(f);
    const uint8_t *code = chunk + b % 2 * f.block_bytes, *scale = chunk + 2 * f.block_bytes + b % 2 * (LINE / 2);
    for (int lane = 0; lane < TILE; lane++) {
        for (int i = 0; i < BLOCK; i++) {
            if (f.bits == 8) out->q[lane][i] = (int8_t)code[i / 4 * LINE + lane * 4 + i % 4];
            else out->q[lane][i] = (int8_t)((code[i % 16 / 4 * LINE + lane * 4 + i % 4] >> i / 16 * 4 & 15) - f.bias);
        }
        out->d[lane] = f16_at(scale + 2 * lane);
        out->m[lane] = f.has_min ? f16_at(scale + LINE + 2 * lane) : 0;
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

static inline void int_block(codes f, int bits, const block *w, const act_rows *a, size_t row, size_t b, float *y) {
    float s = a->s[row * a->block_stride + b], fs = a->fs[row * a->block_stride + b];
    int x[BLOCK];
    act_read(bits, a, row, b, x);
    for (int lane = 0; lane < TILE; lane++) {
        int dot = 0; /* 32 * 128 * 32767 fits */
        for (int i = 0; i < BLOCK; i++) dot += w->q[lane][i] * x[i];
        y[lane] = scalar_fma((float)dot, w->d[lane] * s, y[lane]);
        if (f.has_min) y[lane] = scalar_fma(w->m[lane], fs, y[lane]);
    }
}

static inline void int_panels(codes f, int bits, const mm_panels *w, const act_rows *a, int n_rows, float *y,
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

static inline void widen_codes(codes f, const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {
    block bl;
    block_read(f, panel, k / BLOCK, &bl);
    for (int i = 0; i < n; i++)
        for (int lane = 0; lane < TILE; lane++) {
            float q = (float)bl.q[lane][i];
            w[i][lane] = f.has_min ? scalar_fma(bl.d[lane], q, bl.m[lane]) : bl.d[lane] * q;
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

#define QUANTISED(NAME)                                                                                            \
    static void int8_##NAME(const mm_panels *w, const act_rows *a, int n_rows, float *y, size_t y_stride) {        \
        int_panels(NAME, 8, w, a, n_rows, y, y_stride);                                                            \
    }                                                                                                              \
    static void int16_##NAME(const mm_panels *w, const act_rows *a, int n_rows, float *y, size_t y_stride) {       \
        int_panels(NAME, 16, w, a, n_rows, y, y_stride);                                                           \
    }                                                                                                              \
    static void widen_##NAME(const uint8_t *panel, int k, int n, float w[BLOCK][TILE]) {                           \
        widen_codes(NAME, panel, k, n, w);                                                                         \
    }
#define ANY(NAME)                                                                                                  \
    static void f32_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,              \
                           size_t y_stride) {                                                                      \
        f32_panels(widen_##NAME, w, x, x_stride, n_rows, y, y_stride);                                             \
    }

QUANTISED(q4_0)
QUANTISED(q4_1)
QUANTISED(q8_0)
ANY(f32)
ANY(f16)
ANY(bf16)
ANY(q4_0)
ANY(q4_1)
ANY(q8_0)

void matmul_scalar(kernels *k) {
    k->mm_int8[WEIGHT_Q4_0] = int8_q4_0;
    k->mm_int8[WEIGHT_Q4_1] = int8_q4_1;
    k->mm_int8[WEIGHT_Q8_0] = int8_q8_0;
    k->mm_int16[WEIGHT_Q4_0] = int16_q4_0;
    k->mm_int16[WEIGHT_Q4_1] = int16_q4_1;
    k->mm_int16[WEIGHT_Q8_0] = int16_q8_0;
    k->mm_f32[WEIGHT_F32] = f32_f32;
    k->mm_f32[WEIGHT_F16] = f32_f16;
    k->mm_f32[WEIGHT_BF16] = f32_bf16;
    k->mm_f32[WEIGHT_Q4_0] = f32_q4_0;
    k->mm_f32[WEIGHT_Q4_1] = f32_q4_1;
    k->mm_f32[WEIGHT_Q8_0] = f32_q8_0;
}
