/* seal.h - what sealing does once per token or dimension, in scalar arithmetic, on every instruction set: scales,
 * means, and what becomes of numbers that are not finite (docs/numeric-contract.md, section 8). */
#ifndef KVT_SEAL_H
#define KVT_SEAL_H

#include <math.h>
#include <stdint.h>

#include "base/bits.h"
#include "kernel.h"
#include "scalar.h"

#define SEAL_SCALE_MIN 0x1p-100f
#define SEAL_INFINITE 0x7f800000u /* bits of sizes from here on are infinite or NaN */
#define SEAL_NONE 0x7fc0          /* scale of a token with an element that is not finite */

enum {
    SEAL_BITS_MOST = 4,                      /* of a code that is a place among levels */
    SEAL_LEVELS = 1 << SEAL_BITS_MOST >> 1, /* sizes of level that a format has at most */
    SEAL_TRIES = 3,                          /* scales that a token is tried with */
    SEAL_BF16_MOST = 0x7f7f0000,
    SEAL_F32_MOST = 0x7f7fffff,
    SEAL_E4M3_MOST = 448,
    SEAL_E5M2_MOST = 57344
};

/* Levels of a token's largest element to try: where it lies in the distribution of the token's elements differs from
 * token to token. Levels above 127 are cut to that one. By bits of a code. */
static const float seal_try[SEAL_BITS_MOST + 1][SEAL_TRIES] = {
    [2] = {127 / 0.4f, 127 / 0.5f, 127 / 0.6f},
    [3] = {127 / 0.7f, 127 / 0.8f, 127 / 0.9f},
    [4] = {127 / 0.8f, 127 / 0.9f, 127},
};

/* Sizes of the levels of an int format, ascending, and the thresholds halfway between them, above the last infinity. */
typedef struct seal_levels {
    float level[SEAL_LEVELS], threshold[SEAL_LEVELS];
} seal_levels;

static inline seal_levels seal_levels_of(const kv_format *f) {
    seal_levels l;
    int half = 1 << f->bits >> 1;
    for (int i = 0; i < SEAL_LEVELS; i++) l.level[i] = i < half ? f->level[half + i] : 0;
    for (int i = 0; i < SEAL_LEVELS; i++) {
        l.threshold[i] = i + 1 < half ? (l.level[i] + l.level[i + 1]) * 0.5f : INFINITY;
    }
    return l;
}

static inline int seal_is_finite(float x) {
    return (bits_of_f32(x) & SEAL_INFINITE) != SEAL_INFINITE;
}

/* A place among a format's levels: of a number's size and sign. The halves are mirrored. */
static inline uint8_t seal_code(int bits, unsigned size, int negative) {
    unsigned half = 1u << bits >> 1;
    return (uint8_t)(negative ? half - 1 - size : half + size);
}

/* A difference of finite numbers that overflowed becomes the largest number. */
static inline float seal_within(float x, float most) {
    return x > most ? most : x < -most ? -most : x;
}

/* Mean of dimension d of the block's keys, to the nearest bf16. Not inline: an array of its own beside vector words is
 * more than GCC 12 aligns under its sanitizers. */
uint16_t seal_mean(const seal_args *a, int d);

/* The power of two that brings a size to 2 .. 4, exactly, and its inverse, the one that brings it back; 0 for sizes
 * below SEAL_SCALE_MIN. */
static inline float seal_unit(float most) {
    return most < SEAL_SCALE_MIN ? 0 : bits_to_f32((255u << 23) - (bits_of_f32(most) & SEAL_INFINITE));
}
static inline float seal_unit_back(float most) {
    return most < SEAL_SCALE_MIN ? 0 : bits_to_f32((bits_of_f32(most) & SEAL_INFINITE) - (1u << 23));
}

/* Scale of a token by its largest size, so that no code is beyond `most`. */
static inline float seal_scale_up(float size, float most) {
    float scale = size / most;
    if (!(scale >= SEAL_SCALE_MIN)) return SEAL_SCALE_MIN;
    return bits_to_f32((bits_of_f32(scale) + 0xffff) & 0xffff0000u);
}

/* Nearest bf16. */
static inline float seal_scale_near(float scale) {
    return scale >= SEAL_SCALE_MIN ? scalar_narrow(scale) : SEAL_SCALE_MIN;
}

/* A path's functions and rows of its table, each made from its `seal(format, bits, keys, args)`. */
#define SEAL_EACH(X) KV_FLOAT8_EACH(X) KV_CODES_EACH(X)
#define SEAL_FUNCTIONS(NAME, FORMAT, BITS)                                      \
    static void seal_k_##NAME(const seal_args *a) { seal(FORMAT, BITS, 1, a); } \
    static void seal_v_##NAME(const seal_args *a) { seal(FORMAT, BITS, 0, a); }
#define SEAL_ROW(NAME, FORMAT, BITS) k->seal_k[FORMAT] = seal_k_##NAME, k->seal_v[FORMAT] = seal_v_##NAME;
#define SEAL_FITS(NAME, FORMAT, BITS) \
    _Static_assert((BITS) == 8 || (BITS) <= SEAL_BITS_MOST, #NAME " has more levels than sealing looks for");

KV_CODES_EACH(SEAL_FITS)

#endif
