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

/* ------------------------------------------------------------------- formats of a cache's keys and values
 *
 * Numbered as kvt_format; the first N_ELEMENT_FORMATS are element formats. A block that can still change, and the first
 * ones of a sequence, are kept in an element format ("hot"); a block that is full is sealed: encoded once, into
 * records of one key/value head each. A record is the code lines of the block's tiles, tile by tile, then scales,
 * bf16[tokens of the block], then, of keys in codes, the centroid, bf16[pad]; scales and centroid are filled up to
 * whole lines of 64 bytes with zeros. pad: the head's dims, a multiple of 16.
 *
 * Code lines of a tile. A step is a line of whole codes, [16 tokens][4 dims] of keys, step j being dims 4j .. 4j+3;
 * [16 dims][4 tokens] of values, steps in the order of [4 quads of tokens][pad/16 groups of dims]. Fewer bits put
 * several steps into one line, byte by byte:
 *
 *     8 bits  1 step     step j in line j
 *     4 bits  2 steps    keys: step 2i in the low nibbles of line i, step 2i+1 in the high ones
 *                        values: of group g, quads 2h and 2h+1 in the nibbles of line h * groups + g   (h = 0, 1)
 *     2 bits  4 steps    keys: step 4i+j in bits 2j, 2j+1 of line i
 *                        values: quad j of group g in bits 2j, 2j+1 of line g
 *     1 bit   8 steps    keys: step 8i+j in bit j of line i, the last line perhaps in part
 *                        values: quad j of group g in bit 4 (g%2) + j of line g/2, the last line perhaps in part
 *
 * Bits that are no power of two lie in planes of such, the lowest bits in the largest plane, which comes first: 3 bits
 * are a plane of the two lower ones and behind it a plane of the third.
 *
 * KV_CODES: a code of 8 bits is a signed number, a shorter one a place in `level`; element = scale * number, of keys
 * plus the centroid's element. What is kept is rotated (rows_rotate in kernel.h), hot tokens too, so that queries are
 * rotated once and outputs once. KV_FLOAT8: codes are e4m3 or e5m2 without denormals, infinities and NaN; element =
 * scale * number; a number is a bf16 value. KV_PLAIN: an element format; a record is its tiles alone. */

enum {
    KV_E4M3 = N_ELEMENT_FORMATS,
    KV_E5M2,
    KV_INT8,
    KV_INT4,
    KV_INT3,
    KV_INT2,
    N_KV_FORMATS
};

/* Formats that are encoded, for what is made once for each: X(name, number, bits of a code). */
#define KV_FLOAT8_EACH(X) X(e4m3, KV_E4M3, 8) X(e5m2, KV_E5M2, 8)
#define KV_CODES_EACH(X) X(int8, KV_INT8, 8) X(int4, KV_INT4, 4) X(int3, KV_INT3, 3) X(int2, KV_INT2, 2)

typedef enum kv_kind { KV_PLAIN, KV_FLOAT8, KV_CODES } kv_kind;

typedef struct kv_format {
    const char *name;
    kv_kind kind;
    int bits;             /* of an element or a code */
    int hot_k, hot_v;     /* element formats of keys and of values that are not sealed */
    const int8_t *level;  /* [1 << bits] ascending; NULL: none */
} kv_format;

/* NULL: there is none with that number. */
const kv_format *kv_format_of(int format);
int kv_format_find(const char *name); /* -1: none of that name */

/* Bytes of a tile's lines, of a record of n_tiles tiles (a block), and where in it scales and centroid begin. */
size_t kv_tile_bytes(const kv_format *f, int pad);
size_t kv_record_bytes(const kv_format *f, int pad, int n_tiles, int keys);
size_t kv_scales_at(const kv_format *f, int pad, int n_tiles);
size_t kv_centroid_at(const kv_format *f, int pad, int n_tiles);

/* Put the code of one element into a record whose bits for it are zero. Slow, as kv_number is: the definition. */
void kv_put_code(const kv_format *f, uint8_t *record, int pad, int keys, int token, int dim, unsigned code);

/* Number (not yet scaled) of one element of a record: codes through `level`, float8 widened. For the scalar kernels,
 * checks and tools. */
float kv_number(const kv_format *f, const uint8_t *record, int pad, int keys, int token, int dim);

/* --------------------------------------------------------------------------- block formats of weights
 *
 * A matrix of N rows by K columns is kept as panels of 16 rows, each a run of 64-byte lines. A chunk is some columns:
 * its code lines, block of 32 columns by block, then its scale lines, so that a product reads one sequential stream.
 *
 *     16-bit line   [16 rows][2 k]            32-bit line  [16 rows]
 *     F16, BF16  32 lines a chunk of 64 columns      F32  64 lines
 *
 * Codes are unsigned, less a bias (Q8_0: signed as they lie). A line of codes holds one or more steps, and a step is
 * four columns of 16 rows, [16 rows][4 k]. Whole codes: step j is columns 4j .. 4j+3 of the block. Codes in planes of
 * bits: step j (0 .. 7) is columns 4 (j/2) + 16 (j%2) and the three behind, so that even steps are the first half of a
 * block and odd steps the second.
 *
 *     low bits 8    8 lines       line j: step j
 *     low bits 4    4 lines       line t: low nibbles step 2t, high nibbles step 2t+1
 *     low bits 2    2 lines       line t: step 4t+i in bits 2i and 2i+1 (i = 0 .. 3)
 *     high bits 2   2 lines more  the same, for the two bits above the low ones
 *     high bits 1   1 line more   step j in bit j
 *
 * Scales of a chunk of 64 columns: 1 line f16 [2 blocks][16 rows]; where there are minima, one more line of those.
 * Of a chunk of 256 columns ("head"): 1 byte for every group of columns, [256/group][16 rows]; minima likewise behind
 * them (Q2_K: both in one byte, the scale in the low nibble); then the head line, f16 d[16 rows], dmin[16 rows] (zeros
 * where there are none). A group's scale is d * byte, its minimum -(dmin * byte); both products are exact.
 *
 *              low high group  chunk  lines   bits per weight here and in the file
 *     Q8_0      8    0    32     64    16+1    8.5    8.5
 *     Q4_0      4    0    32     64     8+1    4.5    4.5
 *     Q4_1      4    0    32     64     8+2    5.0    5.0     (minimum added, not taken off)
 *     Q5_0      4    1    32     64    10+1    5.5    5.5
 *     Q5_1      4    1    32     64    10+2    6.0    6.0     (likewise)
 *     IQ4_NL    4    0    32     64     8+1    4.5    4.5     (a code is a place in weight_table)
 *     IQ4_XS    4    0    32    256    32+3    4.375  4.25    (likewise)
 *     Q2_K      2    0    16    256    16+5    2.625  2.625
 *     Q3_K      2    1    16    256    24+5    3.625  3.4375
 *     Q4_K      4    0    32    256    32+5    4.625  4.5
 *     Q5_K      4    1    32    256    40+5    5.625  5.5
 *     Q6_K      4    2    16    256    48+5    6.625  6.5625
 *
 * Rows past N and columns past K are zero (codes and scales). */

enum {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_Q4_0,
    WEIGHT_Q4_1,
    WEIGHT_Q5_0,
    WEIGHT_Q5_1,
    WEIGHT_Q8_0,
    WEIGHT_IQ4_NL,
    WEIGHT_IQ4_XS,
    WEIGHT_Q2_K,
    WEIGHT_Q3_K,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    N_WEIGHT_FORMATS
};

/* Rows of a panel, bytes of a line, columns of a block. */
enum { WEIGHT_ROWS = 16, WEIGHT_LINE = 64, WEIGHT_BLOCK = 32 };

/* The table above for code that is compiled once per format: indexed with a constant, all of it folds. */
typedef struct weight_layout {
    short low, high;     /* bits of a code; 0: a float format */
    short group, chunk;  /* columns of a scale, of a chunk */
    short bias;          /* taken off a code: the weight is scale * (code - bias) + minimum */
    char minima;         /* there are minima */
    char nibbles;        /* scale and minimum share a byte */
    char is_signed;      /* scale bytes are signed */
    char table;          /* a code is a place in weight_table; bias is 0 then */
} weight_layout;

static const weight_layout weight_layouts[N_WEIGHT_FORMATS] = {
    [WEIGHT_Q4_0] = {4, 0, 32, 64, .bias = 8},
    [WEIGHT_Q4_1] = {4, 0, 32, 64, .minima = 1},
    [WEIGHT_Q5_0] = {4, 1, 32, 64, .bias = 16},
    [WEIGHT_Q5_1] = {4, 1, 32, 64, .minima = 1},
    [WEIGHT_Q8_0] = {8, 0, 32, 64},
    [WEIGHT_IQ4_NL] = {4, 0, 32, 64, .table = 1},
    [WEIGHT_IQ4_XS] = {4, 0, 32, 256, .table = 1, .is_signed = 1},
    [WEIGHT_Q2_K] = {2, 0, 16, 256, .minima = 1, .nibbles = 1},
    [WEIGHT_Q3_K] = {2, 1, 16, 256, .bias = 4, .is_signed = 1},
    [WEIGHT_Q4_K] = {4, 0, 32, 256, .minima = 1},
    [WEIGHT_Q5_K] = {4, 1, 32, 256, .minima = 1},
    [WEIGHT_Q6_K] = {4, 2, 16, 256, .bias = 32, .is_signed = 1},
};

/* Bytes of the code lines of a block, and of the scale lines of a chunk. */
static inline int weight_code_bytes(weight_layout f) { return (f.low + f.high) * WEIGHT_LINE; }
static inline int weight_scale_bytes(weight_layout f) {
    if (f.chunk == 64) return (1 + f.minima) * WEIGHT_LINE;
    return f.chunk / f.group * WEIGHT_ROWS * (1 + (f.minima && !f.nibbles)) + WEIGHT_LINE;
}
static inline int weight_chunk_bytes(weight_layout f) {
    return f.chunk / WEIGHT_BLOCK * weight_code_bytes(f) + weight_scale_bytes(f);
}

/* The 16 values of IQ4_NL and IQ4_XS. */
extern const int8_t weight_table[16];

typedef struct weight_format {
    const char *name;
    int ggml_type;      /* number in a GGUF file */
    int block;          /* elements that share a scale in the file; 1 for floats */
    size_t block_bytes; /* of the file */
    int chunk;          /* columns of a chunk of a panel */
    size_t chunk_bytes; /* of 16 rows */
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
