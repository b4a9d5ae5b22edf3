/* format.h - the door of the formats: element formats of the cache and block formats of weights, one table
 * row each, and how a matrix of them is packed into panels.
 *
 * Owns layouts and conversions. Leaves arithmetic to kernel/.
 */
#ifndef KVT_FORMAT_H
#define KVT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------------------- single conversions */

float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f); /* nearest even, denormals to zero */
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* nearest even, f32 denormals to zero */

/* ------------------------------------------------------------- element formats of keys and values */

/* Numbered as kvt_format. */
enum { ELEMENT_BF16, ELEMENT_F16, ELEMENT_F32, N_ELEMENT_FORMATS };

typedef struct element_format {
    const char *name;
    size_t bytes; /* per element */
    uint32_t infinite; /* bits of the least float32 that is kept as infinity; larger sizes are, too, or NaN */
    /* Write one token's head of dim values (dim_pad of them kept, the rest untouched) into slot 0 .. 15 of a tile. */
    void (*put_k)(void *tile, int slot, const float *x, int dim);
    void (*put_v)(void *tile, int slot, const float *x, int dim, int dim_pad);
    /* Read it back, widened; for checks and tools. */
    void (*get_k)(const void *tile, int slot, float *x, int dim);
    void (*get_v)(const void *tile, int slot, float *x, int dim, int dim_pad);
} element_format;

/* NULL: there is none with that number. */
const element_format *element_format_of(int format);
int element_format_find(const char *name); /* -1: none of that name */

/* --------------------------------------------------------------------------- block formats of weights
 *
 * A matrix of N rows by K columns is kept as panels of 16 rows, each a run of 64-byte lines. A chunk is 64 columns:
 * its code lines, then its scale lines, so that a product reads one sequential stream.
 *
 *     8-bit line   [16 rows][4 k] int8
 *     4-bit line   the same dword of 16 rows of the file: low nibbles are one 8-bit line, high nibbles another
 *     16-bit line  [16 rows][2 k]           32-bit line  [16 rows]
 *
 *     Q8_0  16 code lines (block 0: lines 0-7, block 1: 8-15) + 1 line f16 scales [2 blocks][16 rows]
 *     Q4_0   8 code lines (block b: lines 4b .. 4b+3; line t, low nibbles: k = 4t .. 4t+3 of the block; high: k + 16)
 *            + 1 scale line
 *     Q4_1   8 code lines + 1 line scales [2][16] + 1 line minima [2][16]
 *     F16, BF16  32 lines      F32  64 lines
 *
 * Rows past N and columns past K are zero (codes and scales). */

enum { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_Q4_0, WEIGHT_Q4_1, WEIGHT_Q8_0, N_WEIGHT_FORMATS };

typedef struct weight_format {
    const char *name;
    int ggml_type;      /* number in a GGUF file */
    int block;          /* elements that share a scale in the file; 1 for floats */
    size_t block_bytes; /* of the file */
    size_t chunk_bytes; /* 64 columns of 16 rows in a panel */
    /* Widen a row as it lies in the file: n elements, a multiple of block. */
    void (*widen)(const void *row, size_t n, float *out);
    /* Pack n_rows (1 .. 16) rows, each row_bytes apart in the file and n_k long, into one panel. */
    void (*pack)(const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_k, uint8_t *panel);
    /* Widen row `lane` of a panel: n_k elements. */
    void (*panel_row)(const uint8_t *panel, int lane, size_t n_k, float *out);
} weight_format;

const weight_format *weight_format_of(int format);
int weight_format_find(int ggml_type); /* -1: not offered */
size_t weight_row_bytes(const weight_format *f, size_t n_k); /* in the file; 0: not whole blocks */
size_t weight_panel_bytes(const weight_format *f, size_t n_k);

#endif
