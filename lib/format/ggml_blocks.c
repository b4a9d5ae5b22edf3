/* ggml_blocks.c - weights in blocks of 32 as GGUF has them.
 *
 *     Q8_0     d f16 | 32 int8                       d * q
 *     Q4_0     d f16 | 16 bytes                      d * (q - 8)
 *     Q4_1     d f16 | m f16 | 16 bytes              d * q + m
 *     Q5_0     d f16 | u32 high | 16 bytes           d * (q - 16)
 *     Q5_1     d f16 | m f16 | u32 high | 16 bytes   d * q + m
 *     IQ4_NL   d f16 | 16 bytes                      d * table[q]
 *
 * Byte i of 16 holds element i in its low nibble and element i + 16 in its high one, as a panel's lines do. Bit i of
 * `high` is the fifth of element i. */
#include "image.h"

const int8_t weight_table[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/* n_halves f16 and then n_dwords of codes, which lie as in an image. */
INLINE void open_plain(int n_halves, int n_dwords, const uint8_t *block, block_image *image) {
    image->d = u16_at(block);
    image->m = n_halves == 2 ? u16_at(block + 2) : 0;
    UNROLL for (int i = 0; i < n_dwords; i++) image->code[i] = u32_at(block + 2 * n_halves + 4 * i);
}

/* Four bits, to bit 0 of four bytes. */
INLINE uint32_t spread(uint32_t bits) { return (bits & 15) * 0x00204081 & bits_mask(1); }

INLINE void open_fifth(weight_layout f, int n_halves, const uint8_t *block, block_image *image) {
    uint32_t high = u32_at(block + 2 * n_halves), plane = 0;
    open_plain(n_halves, 0, block, image);
    memcpy(image->code, block + 2 * n_halves + 4, 16);
    UNROLL for (int j = 0; j < STEPS; j++) plane |= bits_in(1, j, spread(high >> 4 * step_word(f, j)));
    image->code[4] = plane;
}

INLINE void open_q8_0(const uint8_t *block, block_image *image) { open_plain(1, 8, block, image); }
INLINE void open_q4_0(const uint8_t *block, block_image *image) { open_plain(1, 4, block, image); }
INLINE void open_q4_1(const uint8_t *block, block_image *image) { open_plain(2, 4, block, image); }
INLINE void open_iq4_nl(const uint8_t *block, block_image *image) { open_plain(1, 4, block, image); }
INLINE void open_q5_0(const uint8_t *block, block_image *image) {
    open_fifth(weight_layouts[WEIGHT_Q5_0], 1, block, image);
}
INLINE void open_q5_1(const uint8_t *block, block_image *image) {
    open_fifth(weight_layouts[WEIGHT_Q5_1], 2, block, image);
}

BLOCK_FORMAT(q8_0, WEIGHT_Q8_0, "Q8_0", 8, BLOCK, 34, 16 + 1)
BLOCK_FORMAT(q4_0, WEIGHT_Q4_0, "Q4_0", 2, BLOCK, 18, 8 + 1)
BLOCK_FORMAT(q4_1, WEIGHT_Q4_1, "Q4_1", 3, BLOCK, 20, 8 + 2)
BLOCK_FORMAT(q5_0, WEIGHT_Q5_0, "Q5_0", 6, BLOCK, 22, 10 + 1)
BLOCK_FORMAT(q5_1, WEIGHT_Q5_1, "Q5_1", 7, BLOCK, 24, 10 + 2)
BLOCK_FORMAT(iq4_nl, WEIGHT_IQ4_NL, "IQ4_NL", 20, BLOCK, 18, 8 + 1)
