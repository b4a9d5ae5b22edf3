/* image.h - a block of quantised weights between the file and a panel.
 *
 * A format says one thing of its own: how a block of the file is opened into an image (ggml_blocks.c, ggml_k.c).
 * Packing, the way back and widening follow from images and the format's row of weight_layouts, whose pictures are in
 * format.h. */
#ifndef KVT_IMAGE_H
#define KVT_IMAGE_H

#include "ggml.h"

#include <string.h>

#include "base/unroll.h"

#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = WEIGHT_BLOCK, K_BLOCK = 256, STEPS = 8 };

/* What one row of 32 or 256 columns puts into a chunk. */
typedef struct block_image {
    uint32_t code[K_BLOCK / BLOCK * 6]; /* [blocks of 32][low bits, then high bits]: its dword of each line of codes */
    uint8_t scale[16], minimum[16];     /* [groups], of chunks of 256 */
    uint16_t d, m;
} block_image;

/* Of f's block_bytes bytes. Writes all of the image that f's layout has, and m = 0 where there are no minima. */
typedef void (*image_open_fn)(const uint8_t *block, block_image *image);

INLINE uint32_t u32_at(const uint8_t *p) {
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* ------------------------------------------------------------------------------------------- planes of bits
 *
 * A dword is four codes, a byte each. w bits of 8/w dwords lie in one: those of dword j from bit j * w % 8 on, in word
 * j * w / 8. Lines of a panel are such words, and so are the runs of 32 bytes in formats of 256. */

INLINE uint32_t bits_mask(int w) { return 0x01010101u * ((1u << w) - 1); }
INLINE uint32_t bits_out(int w, int j, uint32_t word) { return word >> j * w % 8 & bits_mask(w); }
INLINE uint32_t bits_in(int w, int j, uint32_t codes) { return (codes & bits_mask(w)) << j * w % 8; }

/* Of the four columns that are step j of a block, which dword of the block's eight they are. */
INLINE int step_word(weight_layout f, int j) { return f.low == 8 ? j : j / 2 + 4 * (j % 2); }

/* The bits_mask(w) bits of a block's dwords, to one of its planes. */
INLINE void plane_put(weight_layout f, int w, const uint32_t words[STEPS], uint32_t *plane) {
    UNROLL for (int i = 0; i < w; i++) plane[i] = 0;
    UNROLL for (int j = 0; j < STEPS; j++) plane[j * w / 8] |= bits_in(w, j, words[step_word(f, j)]);
}

INLINE void planes_get(weight_layout f, const uint32_t *code, uint32_t words[STEPS]) {
    UNROLL for (int j = 0; j < STEPS; j++) {
        uint32_t step = bits_out(f.low, j, code[j * f.low / 8]);
        if (f.high) step |= bits_out(f.high, j, code[f.low + j * f.high / 8]) << f.low;
        words[step_word(f, j)] = step;
    }
}

/* ---------------------------------------------------------------------------------------- image and panel */

INLINE int image_columns(weight_layout f) { return f.chunk == K_BLOCK ? K_BLOCK : BLOCK; }
INLINE int image_dwords(weight_layout f) { return image_columns(f) / BLOCK * (f.low + f.high); }
INLINE int image_groups(weight_layout f) { return f.chunk == K_BLOCK ? K_BLOCK / f.group : 0; }
INLINE int image_minima(weight_layout f) { return f.minima && !f.nibbles ? image_groups(f) : 0; }

/* Where the image of columns k and on has its place. */
typedef struct image_place {
    uint8_t *codes, *groups, *halves; /* lines of codes, bytes of groups, f16 scales */
    int to_minima;                    /* bytes from a row's scale to its minimum */
} image_place;

INLINE image_place place_of(weight_layout f, const uint8_t *panel, size_t k) {
    size_t b = k % (size_t)f.chunk / BLOCK, code_bytes = (size_t)weight_code_bytes(f);
    uint8_t *chunk = (uint8_t *)panel + k / (size_t)f.chunk * (size_t)weight_chunk_bytes(f);
    uint8_t *scales = chunk + (size_t)(f.chunk / BLOCK) * code_bytes;
    uint8_t *halves = scales + (image_groups(f) + image_minima(f)) * ROWS + b * LINE / 2;
    return (image_place){chunk + b * code_bytes, scales, halves, f.chunk == K_BLOCK ? LINE / 2 : LINE};
}

INLINE void image_put(weight_layout f, const block_image *image, image_place at, int row) {
    UNROLL for (int i = 0; i < image_dwords(f); i++) memcpy(at.codes + i * LINE + 4 * row, &image->code[i], 4);
    UNROLL for (int g = 0; g < image_groups(f); g++) at.groups[g * ROWS + row] = image->scale[g];
    UNROLL for (int g = 0; g < image_minima(f); g++)
        at.groups[(image_groups(f) + g) * ROWS + row] = image->minimum[g];
    memcpy(at.halves + 2 * row, &image->d, 2);
    if (f.minima || f.chunk == K_BLOCK) memcpy(at.halves + at.to_minima + 2 * row, &image->m, 2);
}

INLINE void image_get(weight_layout f, block_image *image, image_place at, int row) {
    for (int i = 0; i < image_dwords(f); i++) memcpy(&image->code[i], at.codes + i * LINE + 4 * row, 4);
    for (int g = 0; g < image_groups(f); g++) image->scale[g] = at.groups[g * ROWS + row];
    for (int g = 0; g < image_minima(f); g++) image->minimum[g] = at.groups[(image_groups(f) + g) * ROWS + row];
    memcpy(&image->d, at.halves + 2 * row, 2);
    if (f.minima) memcpy(&image->m, at.halves + at.to_minima + 2 * row, 2);
}

/* ----------------------------------------------------------------------------------------------- widening */

/* Products of the scales are exact: 11 bits times at most 8. So are those with a code: 5 more at most where there are 6
 * or 7 before, and 7 of Q8_0 and of the table with 5. What a minimum adds is rounded, once. */
INLINE float image_scale(weight_layout f, const block_image *image, int group) {
    float d = f16_to_f32(image->d);
    if (f.chunk != K_BLOCK) return d;
    uint8_t byte = image->scale[group];
    return d * (float)(f.is_signed ? (int8_t)byte : f.nibbles ? byte & 15 : byte);
}

INLINE float image_minimum(weight_layout f, const block_image *image, int group) {
    float m = f16_to_f32(image->m);
    if (f.chunk != K_BLOCK) return m;
    return -(m * (float)(f.nibbles ? image->scale[group] >> 4 : image->minimum[group]));
}

INLINE int code_value(weight_layout f, uint8_t code) {
    return f.table ? weight_table[code] : f.low == 8 ? (int8_t)code : code - f.bias;
}

INLINE void image_widen(weight_layout f, const block_image *image, float *out) {
    for (int b = 0; b < image_columns(f) / BLOCK; b++) {
        uint8_t codes[BLOCK];
        uint32_t words[STEPS];
        planes_get(f, image->code + b * (f.low + f.high), words);
        memcpy(codes, words, sizeof codes);
        for (int i = 0; i < BLOCK; i++, out++) {
            int group = (b * BLOCK + i) / f.group;
            *out = image_scale(f, image, group) * (float)code_value(f, codes[i]);
            if (f.minima) *out += image_minimum(f, image, group);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ rows of blocks */

INLINE void blocks_widen(weight_layout f, size_t block_bytes, image_open_fn open, const void *row, size_t n,
                         float *out) {
    const uint8_t *block = row;
    for (size_t k = 0; k < n; k += (size_t)image_columns(f), block += block_bytes) {
        block_image image;
        open(block, &image);
        image_widen(f, &image, out + k);
    }
}

INLINE void blocks_pack(weight_layout f, size_t block_bytes, image_open_fn open, const uint8_t *rows, size_t row_bytes,
                        int n_rows, size_t n_k, uint8_t *panel) {
    size_t chunk = (size_t)f.chunk, n_chunks = (n_k + chunk - 1) / chunk;
    if (n_rows < ROWS || n_k % chunk) memset(panel, 0, n_chunks * (size_t)weight_chunk_bytes(f));
    for (size_t k = 0; k < n_k; k += (size_t)image_columns(f), rows += block_bytes) {
        image_place at = place_of(f, panel, k);
        for (int r = 0; r < n_rows; r++) {
            block_image image;
            open(rows + (size_t)r * row_bytes, &image);
            image_put(f, &image, at, r);
        }
    }
}

INLINE void blocks_row(weight_layout f, const uint8_t *panel, int lane, size_t n_k, float *out) {
    for (size_t k = 0; k < n_k; k += (size_t)image_columns(f)) {
        block_image image;
        image_get(f, &image, place_of(f, panel, k), lane);
        image_widen(f, &image, out + k);
    }
}

/* A format's row of the table in ggml.c, from its open_NAME; LINES are those of a chunk. */
#define BLOCK_FORMAT(NAME, FORMAT, TEXT, GGML_TYPE, COLUMNS, BYTES, LINES)                                        \
    static void widen_##NAME(const void *row, size_t n, float *out) {                                             \
        blocks_widen(weight_layouts[FORMAT], BYTES, open_##NAME, row, n, out);                                    \
    }                                                                                                             \
    static void pack_##NAME(const uint8_t *rows, size_t row_bytes, int n_rows, size_t n_k, uint8_t *panel) {      \
        blocks_pack(weight_layouts[FORMAT], BYTES, open_##NAME, rows, row_bytes, n_rows, n_k, panel);             \
    }                                                                                                             \
    static void panel_row_##NAME(const uint8_t *panel, int lane, size_t n_k, float *out) {                        \
        blocks_row(weight_layouts[FORMAT], panel, lane, n_k, out);                                                \
    }                                                                                                             \
    const weight_format weight_##NAME = {                                                                         \
        TEXT, GGML_TYPE, COLUMNS, BYTES, (COLUMNS) == BLOCK ? 2 * BLOCK : (COLUMNS), (LINES) * LINE,              \
        widen_##NAME, pack_##NAME, panel_row_##NAME,                                                              \
    };

#endif
