/* ggml_k.c - weights in blocks of 256 as GGUF has them: eight blocks of 32, groups of 16 or 32 with scales in bits.
 *
 *     Q2_K     16 groups | 64 low | d | m                             d * s * q - m * n
 *     Q3_K     32 high | 64 low | 12 groups | d                       d * (s - 32) * (q - 4)
 *     Q4_K     d | m | 12 groups | 128 low                            d * s * q - m * n
 *     Q5_K     d | m | 12 groups | 32 high | 128 low                  d * s * q - m * n
 *     Q6_K     128 low | 64 high | 16 groups | d                      d * s * (q - 32)
 *     IQ4_XS   d | u16 groups | 4 groups | 128 low                    d * (s - 32) * table[q]
 *
 * d and m are f16. Low and high bits of codes are runs of 32 bytes, byte i for column i of as many blocks as a byte has
 * room for: block b's w bits from bit b * w % 8 on, in run b * w / 8. Of IQ4_XS, they are as in IQ4_NL. */
#include "image.h"

/* w bits of block b, as the runs have them, to its plane. */
INLINE void open_run(weight_layout f, int w, const uint8_t *runs, int b, uint32_t *plane) {
    uint32_t words[STEPS];
    UNROLL for (int i = 0; i < STEPS; i++) words[i] = bits_out(w, b, u32_at(runs + b * w / 8 * BLOCK + 4 * i));
    plane_put(f, w, words, plane);
}

/* swapped: in each half of the blocks, the middle two change places where low bits are concerned. */
INLINE void open_runs(weight_layout f, const uint8_t *low, int swapped, const uint8_t *high, block_image *image) {
    UNROLL for (int b = 0; b < K_BLOCK / BLOCK; b++) {
        uint32_t *code = image->code + b * (f.low + f.high);
        open_run(f, f.low, low, swapped ? (b & 4) | (b & 1) << 1 | (b >> 1 & 1) : b, code);
        if (f.high) open_run(f, f.high, high, b, code + f.low);
    }
}

/* Of groups g and g + 8, four bits of their scales share a byte; of g, g + 4, g + 8 and g + 12 two more bits do. */
INLINE void scales_q3(const uint8_t *p, uint8_t *scale) {
    for (int g = 0; g < 16; g++)
        scale[g] = (uint8_t)(((p[g % 8] >> g / 8 * 4 & 15) | (p[8 + g % 4] >> g / 4 * 2 & 3) << 4) - 32);
}

/* Groups 0 .. 3: six bits of a byte. Groups 4 .. 7: four bits of the last bytes, two more above those six. */
INLINE void scales_q4(const uint8_t *p, uint8_t *scale, uint8_t *minimum) {
    for (int g = 0; g < 4; g++) {
        scale[g] = p[g] & 63;
        minimum[g] = p[g + 4] & 63;
        scale[g + 4] = (uint8_t)((p[g + 8] & 15) | p[g] >> 6 << 4);
        minimum[g + 4] = (uint8_t)(p[g + 8] >> 4 | p[g + 4] >> 6 << 4);
    }
}

INLINE void scales_iq4(uint32_t high, const uint8_t *low, uint8_t *scale) {
    for (int g = 0; g < 8; g++)
        scale[g] = (uint8_t)(((low[g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4) - 32);
}

INLINE void halves(const uint8_t *d, const uint8_t *m, block_image *image) {
    image->d = u16_at(d);
    image->m = m ? u16_at(m) : 0;
}

INLINE void open_q2_k(const uint8_t *block, block_image *image) {
    memcpy(image->scale, block, 16);
    open_runs(weight_layouts[WEIGHT_Q2_K], block + 16, 0, NULL, image);
    halves(block + 80, block + 82, image);
}

INLINE void open_q3_k(const uint8_t *block, block_image *image) {
    open_runs(weight_layouts[WEIGHT_Q3_K], block + 32, 0, block, image);
    scales_q3(block + 96, image->scale);
    halves(block + 108, NULL, image);
}

INLINE void open_q4_k(const uint8_t *block, block_image *image) {
    halves(block, block + 2, image);
    scales_q4(block + 4, image->scale, image->minimum);
    open_runs(weight_layouts[WEIGHT_Q4_K], block + 16, 0, NULL, image);
}

INLINE void open_q5_k(const uint8_t *block, block_image *image) {
    halves(block, block + 2, image);
    scales_q4(block + 4, image->scale, image->minimum);
    open_runs(weight_layouts[WEIGHT_Q5_K], block + 48, 0, block + 16, image);
}

INLINE void open_q6_k(const uint8_t *block, block_image *image) {
    open_runs(weight_layouts[WEIGHT_Q6_K], block, 1, block + 128, image);
    memcpy(image->scale, block + 192, 16);
    halves(block + 208, NULL, image);
}

INLINE void open_iq4_xs(const uint8_t *block, block_image *image) {
    halves(block, NULL, image);
    scales_iq4(u16_at(block + 2), block + 4, image->scale);
    memcpy(image->code, block + 8, 128);
}

BLOCK_FORMAT(q2_k, WEIGHT_Q2_K, "Q2_K", 10, K_BLOCK, 84, 16 + 5)
BLOCK_FORMAT(q3_k, WEIGHT_Q3_K, "Q3_K", 11, K_BLOCK, 110, 24 + 5)
BLOCK_FORMAT(q4_k, WEIGHT_Q4_K, "Q4_K", 12, K_BLOCK, 144, 32 + 5)
BLOCK_FORMAT(q5_k, WEIGHT_Q5_K, "Q5_K", 13, K_BLOCK, 176, 40 + 5)
BLOCK_FORMAT(q6_k, WEIGHT_Q6_K, "Q6_K", 14, K_BLOCK, 210, 48 + 5)
BLOCK_FORMAT(iq4_xs, WEIGHT_IQ4_XS, "IQ4_XS", 23, K_BLOCK, 136, 32 + 3)
