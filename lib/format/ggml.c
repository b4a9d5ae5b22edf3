/* ggml.c - the element types of GGUF's weights: the table of all of them, the floats, sizes.
 * ggml_blocks.c and ggml_k.c have the quantised ones. */
#include "ggml.h"

#include <string.h>

#include "base/mem.h"

enum { CHUNK = 64 }; /* columns */

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

/* ------------------------------------------------------------------------------------------------- panels
 *
 * A line is the same dword of 16 rows, so that packing is a transpose of dwords. */

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

/* The two constant calls let the compiler unroll the 16 rows of a whole panel. */
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

/* ---------------------------------------------------------------------------------------------- the table */

#define FLOAT_FORMAT(TEXT, NAME, GGML_TYPE, BYTES) \
    {TEXT, GGML_TYPE, 1, BYTES, CHUNK, CHUNK * ROWS * (BYTES), widen_##NAME, pack_##NAME, panel_row_##NAME}

static const weight_format float_formats[] = {
    FLOAT_FORMAT("F32", f32, 0, 4),
    FLOAT_FORMAT("F16", f16, 1, 2),
    FLOAT_FORMAT("BF16", bf16, 30, 2),
};

static const weight_format *const formats[N_WEIGHT_FORMATS] = {
    [WEIGHT_F32] = &float_formats[0], [WEIGHT_F16] = &float_formats[1], [WEIGHT_BF16] = &float_formats[2],
    [WEIGHT_Q4_0] = &weight_q4_0,     [WEIGHT_Q4_1] = &weight_q4_1,     [WEIGHT_Q5_0] = &weight_q5_0,
    [WEIGHT_Q5_1] = &weight_q5_1,     [WEIGHT_Q8_0] = &weight_q8_0,     [WEIGHT_IQ4_NL] = &weight_iq4_nl,
    [WEIGHT_IQ4_XS] = &weight_iq4_xs, [WEIGHT_Q2_K] = &weight_q2_k,     [WEIGHT_Q3_K] = &weight_q3_k,
    [WEIGHT_Q4_K] = &weight_q4_k,     [WEIGHT_Q5_K] = &weight_q5_k,     [WEIGHT_Q6_K] = &weight_q6_k,
};

const weight_format *weight_format_of(int format) {
    return format >= 0 && format < N_WEIGHT_FORMATS ? formats[format] : NULL;
}

int weight_format_find(int ggml_type) {
    for (int i = 0; i < N_WEIGHT_FORMATS; i++)
        if (formats[i]->ggml_type == ggml_type) return i;
    return -1;
}

size_t weight_row_bytes(const weight_format *f, size_t n_k) {
    size_t bytes;
    if (n_k % (size_t)f->block || !mem_mul(n_k / (size_t)f->block, f->block_bytes, &bytes)) return 0;
    return bytes;
}

size_t weight_panel_bytes(const weight_format *f, size_t n_k) {
    size_t chunk = (size_t)f->chunk, bytes; /* SIZE_MAX where it overflows, which no allocation gives */
    mem_mul(n_k / chunk + (n_k % chunk != 0), f->chunk_bytes, &bytes);
    return bytes;
}
