/* ggml.c - the element types of GGUF's weights: how blocks of 32 lie in the file, and panels of 16 rows of them.
 *
 *     Q8_0  | d f16 | 32 int8 |                 value d * q
 *     Q4_0  | d f16 | 16 bytes |                value d * (q - 8)      byte i: element i low, element i + 16 high
 *     Q4_1  | d f16 | m f16 | 16 bytes |        value d * q + m
 *
 * d * q is exact in float32 (11 bits times 8), so that widening needs no fma. */
#include "format/format.h"

#include <string.h>

#include "base/bits.h"
#include "base/mem.h"

enum { ROWS = 16, LINE = 64, CHUNK = 64, BLOCK = 32 }; /* rows of a panel, bytes of a line, columns */

static uint16_t u16_at(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

/* -------------------------------------------------------------------------- widening as a row lies in the file */

static void widen_f32(const void *row, size_t n, float *out) {
    memcpy(out, row, n * sizeof *out);
}

static void widen_f16(const void *row, size_t n, float *out) {
    const uint8_t *p = row;
    for (size_t i = 0; i < n; i++) out[i] = f16_to_f32(u16_at(p + 2 * i));
}

static void widen_bf16(const void *row, size_t n, float *out) {
    const uint8_t *p = row;
    for (size_t i = 0; i < n; i++) out[i] = bf16_to_f32(u16_at(p + 2 * i));
}

static void widen_q4_0(const void *row, size_t n, float *out) {
    const uint8_t *p = row;
    for (size_t b = 0; b < n / BLOCK; b++, p += 18, out += BLOCK) {
        float d = f16_to_f32(u16_at(p));
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)((p[2 + i] & 15) - 8);
            out[i + 16] = d * (float)((p[2 + i] >> 4) - 8);
        }
    }
}

static void widen_q4_1(const void *row, size_t n, float *out) {
    const uint8_t *p = row;
    for (size_t b = 0; b < n / BLOCK; b++, p += 20, out += BLOCK) {
        float d = f16_to_f32(u16_at(p)), m = f16_to_f32(u16_at(p + 2));
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)(p[4 + i] & 15) + m;
            out[i + 16] = d * (float)(p[4 + i] >> 4) + m;
        }
    }
}

static void widen_q8_0(const void *row, size_t n, float *out) {
    const uint8_t *p = row;
    for (size_t b = 0; b < n / BLOCK; b++, p += 34, out += BLOCK) {
        float d = f16_to_f32(u16_at(p));
        for (int i = 0; i < BLOCK; i++) out[i] = d * (float)(int8_t)p[2 + i];
    }
}

/* ------------------------------------------------------------------------------------------------- panels
 *
 * A line is the same dword of 16 rows, so that packing is a transpose of dwords in every format. */

/* n_bytes from each of n_rows rows to lines; a last incomplete dword leaves the rest of its place as it was. */
static inline void to_lines(const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_bytes, uint8_t *lines) {
    size_t at = 0;
    for (; at + 4 <= n_bytes; at += 4)
        for (int r = 0; r < n_rows; r++) memcpy(lines + at * ROWS + 4 * r, rows + (size_t)r * row_bytes + at, 4);
    for (int r = 0; r < n_rows && at < n_bytes; r++)
        memcpy(lines + at * ROWS + 4 * r, rows + (size_t)r * row_bytes + at, n_bytes - at);
}

/* The way back for one row. */
static inline void from_lines(const uint8_t *lines, int lane, size_t n_bytes, uint8_t *row) {
    for (size_t at = 0; at < n_bytes; at += 4)
        memcpy(row + at, lines + at * ROWS + 4 * lane, n_bytes - at < 4 ? n_bytes - at : 4);
}

/* A block of the file is n_halves f16 (scale, then minimum), then code_bytes of codes. */
typedef struct block_shape {
    size_t n_halves, code_bytes;
} block_shape;

static const block_shape shape_q4_0 = {1, 16}, shape_q4_1 = {2, 16}, shape_q8_0 = {1, 32};

static inline size_t shape_chunk(block_shape s) {
    return 2 * s.code_bytes * ROWS + s.n_halves * LINE;
}

/* Codes of block b (0, 1) of a chunk, and the 16 scales (h = 0) or minima (h = 1) that belong to it. */
static inline size_t codes_at(block_shape s, size_t b) {
    return b * s.code_bytes * ROWS;
}
static inline size_t halves_at(block_shape s, size_t b, size_t h) {
    return 2 * s.code_bytes * ROWS + h * LINE + b * LINE / 2;
}

static inline void pack_blocks(block_shape s, const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_k,
                               uint8_t *panel) {
    size_t halves_bytes = 2 * s.n_halves, block_bytes = halves_bytes + s.code_bytes;
    for (size_t k = 0; k < n_k; k += BLOCK, rows += block_bytes) {
        uint8_t *chunk = panel + k / CHUNK * shape_chunk(s);
        size_t b = k / BLOCK % 2;
        to_lines(rows + halves_bytes, row_bytes, n_rows, s.code_bytes, chunk + codes_at(s, b));
        for (size_t h = 0; h < s.n_halves; h++)
            for (int r = 0; r < n_rows; r++)
                memcpy(chunk + halves_at(s, b, h) + 2 * r, rows + (size_t)r * row_bytes + 2 * h, 2);
    }
}

/* Block k / 32 of a row, put together again as the file has it. */
static inline void unpack_block(block_shape s, const uint8_t *panel, int lane, size_t k, uint8_t *block) {
    const uint8_t *chunk = panel + k / CHUNK * shape_chunk(s);
    size_t b = k / BLOCK % 2;
    for (size_t h = 0; h < s.n_halves; h++) memcpy(block + 2 * h, chunk + halves_at(s, b, h) + 2 * lane, 2);
    from_lines(chunk + codes_at(s, b), lane, s.code_bytes, block + 2 * s.n_halves);
}

/* The two constant calls let the compiler unroll the 16 rows of a whole panel. */
#define QUANTISED(NAME)                                                                                         \
    static void pack_##NAME(const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_k, uint8_t *panel) {    \
        if (n_rows < ROWS || n_k % CHUNK)                                                                       \
            memset(panel, 0, (n_k + CHUNK - 1) / CHUNK * shape_chunk(shape_##NAME));                            \
        if (n_rows == ROWS) pack_blocks(shape_##NAME, rows, row_bytes, ROWS, n_k, panel);                       \
        else pack_blocks(shape_##NAME, rows, row_bytes, n_rows, n_k, panel);                                    \
    }                                                                                                           \
    static void panel_row_##NAME(const uint8_t *panel, int lane, size_t n_k, float *out) {                      \
        uint8_t block[34];                                                                                      \
        for (size_t k = 0; k < n_k; k += BLOCK) {                                                               \
            unpack_block(shape_##NAME, panel, lane, k, block);                                                  \
            widen_##NAME(block, BLOCK, out + k);                                                                \
        }                                                                                                       \
    }

#define FLOATS(NAME, BYTES)                                                                                     \
    static void pack_##NAME(const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_k, uint8_t *panel) {    \
        if (n_rows < ROWS || n_k % CHUNK) memset(panel, 0, (n_k + CHUNK - 1) / CHUNK * CHUNK * ROWS * (BYTES)); \
        if (n_rows == ROWS) to_lines(rows, row_bytes, ROWS, n_k * (BYTES), panel);                              \
        else to_lines(rows, row_bytes, n_rows, n_k * (BYTES), panel);                                           \
    }                                                                                                           \
    static void panel_row_##NAME(const uint8_t *panel, int lane, size_t n_k, float *out) {                      \
        uint8_t run[CHUNK * (BYTES)];                                                                           \
        for (size_t k = 0; k < n_k; k += CHUNK) {                                                               \
            size_t n = n_k - k < CHUNK ? n_k - k : CHUNK;                                                       \
            from_lines(panel + k * ROWS * (BYTES), lane, n * (BYTES), run);                                     \
            widen_##NAME(run, n, out + k);                                                                      \
        }                                                                                                       \
    }

FLOATS(f32, 4)
FLOATS(f16, 2)
FLOATS(bf16, 2)
QUANTISED(q4_0)
QUANTISED(q4_1)
QUANTISED(q8_0)

/* ---------------------------------------------------------------------------------------------- the table */

#define ROW(TEXT, NAME, GGML, BLOCK_SIZE, BLOCK_BYTES, CHUNK_BYTES) \
    {TEXT, GGML, BLOCK_SIZE, BLOCK_BYTES, CHUNK_BYTES, widen_##NAME, pack_##NAME, panel_row_##NAME}

static const weight_format formats[N_WEIGHT_FORMATS] = {
    [WEIGHT_F32] = ROW("F32", f32, 0, 1, 4, 64 * LINE),
    [WEIGHT_F16] = ROW("F16", f16, 1, 1, 2, 32 * LINE),
    [WEIGHT_BF16] = ROW("BF16", bf16, 30, 1, 2, 32 * LINE),
    [WEIGHT_Q4_0] = ROW("Q4_0", q4_0, 2, BLOCK, 18, (8 + 1) * LINE),
    [WEIGHT_Q4_1] = ROW("Q4_1", q4_1, 3, BLOCK, 20, (8 + 2) * LINE),
    [WEIGHT_Q8_0] = ROW("Q8_0", q8_0, 8, BLOCK, 34, (16 + 1) * LINE),
};

const weight_format *weight_format_of(int format) {
    return format >= 0 && format < N_WEIGHT_FORMATS ? &formats[format] : NULL;
}

int weight_format_find(int ggml_type) {
    for (int i = 0; i < N_WEIGHT_FORMATS; i++)
        if (formats[i].ggml_type == ggml_type) return i;
    return -1;
}

size_t weight_row_bytes(const weight_format *f, size_t n_k) {
    size_t bytes;
    if (n_k % (size_t)f->block || !mem_mul(n_k / (size_t)f->block, f->block_bytes, &bytes)) return 0;
    return bytes;
}

size_t weight_panel_bytes(const weight_format *f, size_t n_k) {
    size_t bytes; /* SIZE_MAX where it overflows, which no allocation gives */
    mem_mul(n_k / CHUNK + (n_k % CHUNK != 0), f->chunk_bytes, &bytes);
    return bytes;
}
