/* rows.h - what the row kernels of every instruction set do once per row or block, in scalar arithmetic. */
#ifndef KVT_ROWS_H
#define KVT_ROWS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bits.h"

enum { ROWS_BLOCK = 32 }; /* activations that share a scale */

/* 1 / sqrt(sum / n + eps). sqrtf is the instruction: the build promises that nobody reads errno. */
static inline float rows_norm_factor(float sum, int n, float eps) {
    return 1 / sqrtf(sum / (float)n + eps);
}

/* The nearest even integer, of sizes up to 2^22. The last place of 1.5 * 2^23 is 1, so that adding it rounds. */
static inline int32_t rows_integer(float x) {
    return (int32_t)bits_of_f32(x + 12582912.f) - 0x4b400000;
}

enum { ROWS_CODE8 = 127, ROWS_CODE16 = 32767 }; /* the code of a block's largest activation */

/* Scale of a block whose largest size has these bits, and the inverse that makes codes up to `code`. false: all codes
 * are 0. A size of 1e-30 or more keeps both normal numbers. */
static inline bool rows_scale(uint32_t most, float code, float *scale, float *inverse) {
    float size = bits_to_f32(most);
    if (most >= 0x7f800000) {
        *scale = bits_to_f32(0x7fc00000);
        return false;
    }
    if (size < 1e-30f) {
        *scale = 0;
        return false;
    }
    *scale = size / code;
    *inverse = code / size;
    return true;
}

#endif
