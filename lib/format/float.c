/* float.c - the element formats of keys and values: conversions of one number, and where it lies in a tile.
 *
 * Conversions are integer code, so that they do not depend on the floating-point mode. */
#include "format/format.h"

#include <string.h>

#include "base/bits.h"

enum { TOKENS = 16 }; /* of a tile */

#define F32_SIGN 0x80000000u
#define F32_INF 0x7f800000u
#define F32_NORMAL 0x00800000u /* the least */

/* What rounds to infinity: halfway from the largest number of the format to the next power of two, and all above. */
#define BF16_INFINITE 0x7f7f8000u
#define F16_INFINITE 0x477ff000u /* 65520 */

/* ------------------------------------------------------------------------------- single conversions */

float bf16_to_f32(uint16_t h) {
    return bits_to_f32((uint32_t)h << 16);
}

uint16_t f32_to_bf16(float f) {
    uint32_t u = bits_of_f32(f), size = u & ~F32_SIGN;
    if (size > F32_INF) return (uint16_t)(u >> 16 | 0x40);
    if (size < F32_NORMAL) return (uint16_t)((u & F32_SIGN) >> 16);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 31) return bits_to_f32(sign | F32_INF | fraction << 13);
    if (exponent == 0) {
        if (fraction == 0) return bits_to_f32(sign);
        /* Denormal: move the leading one to where a normal number hides it. */
        uint32_t shift = (uint32_t)__builtin_clz(fraction) - 21;
        fraction = fraction << shift & 0x3ff;
        return bits_to_f32(sign | (113 - shift) << 23 | fraction << 13);
    }
    return bits_to_f32(sign | (exponent + 112) << 23 | fraction << 13);
}

/* An f32 below 2^-14 in units of 2^-24, the last place of an f16 denormal; nearest even. 1024 is the least normal. */
static uint32_t f16_denormal(uint32_t size) {
    uint32_t exponent = size >> 23;
    if (exponent < 102) return 0; /* below half a unit */
    uint32_t significand = (size & 0x7fffff) | 0x800000, shift = 126 - exponent;
    uint32_t whole = significand >> shift, rest = significand & ((1u << shift) - 1), half = 1u << (shift - 1);
    return whole + (rest > half || (rest == half && (whole & 1)));
}

uint16_t f32_to_f16(float f) {
    uint32_t u = bits_of_f32(f), size = u & ~F32_SIGN, h;
    if (size > F32_INF) h = 0x7e00 | (size >> 13 & 0x3ff);
    else if (size >= F16_INFINITE) h = 0x7c00;
    else if (size < 0x38800000) h = f16_denormal(size);
    else h = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    return (uint16_t)(u >> 16 & 0x8000) | (uint16_t)h;
}

static float f32_as_it_is(float f) {
    return f;
}

/* ------------------------------------------------------------------------------------------- tiles */

/* Where dimension d of the token in `slot` lies, in elements; w share a lane of a line (kernel.h has the picture). */
static inline size_t k_at(size_t w, size_t slot, size_t d) {
    return (d / w * TOKENS + slot) * w + d % w;
}

static inline size_t v_at(size_t w, size_t slot, size_t d, size_t dim_pad) {
    return (slot / w * dim_pad + d) * w + slot % w;
}

#define ELEMENT(NAME, TYPE, NARROW, WIDEN)                                                        \
    enum { W_##NAME = 4 / sizeof(TYPE) };                                                         \
    static void put_k_##NAME(void *tile, int slot, const float *x, int dim) {                     \
        TYPE *t = tile;                                                                           \
        for (int d = 0; d < dim; d++) t[k_at(W_##NAME, (size_t)slot, (size_t)d)] = NARROW(x[d]);  \
    }                                                                                             \
    static void put_v_##NAME(void *tile, int slot, const float *x, int dim, int dim_pad) {        \
        TYPE *t = tile;                                                                           \
        for (int d = 0; d < dim; d++)                                                             \
            t[v_at(W_##NAME, (size_t)slot, (size_t)d, (size_t)dim_pad)] = NARROW(x[d]);           \
    }                                                                                             \
    static void get_k_##NAME(const void *tile, int slot, float *x, int dim) {                     \
        const TYPE *t = tile;                                                                     \
        for (int d = 0; d < dim; d++) x[d] = WIDEN(t[k_at(W_##NAME, (size_t)slot, (size_t)d)]);   \
    }                                                                                             \
    static void get_v_##NAME(const void *tile, int slot, float *x, int dim, int dim_pad) {        \
        const TYPE *t = tile;                                                                     \
        for (int d = 0; d < dim; d++)                                                             \
            x[d] = WIDEN(t[v_at(W_##NAME, (size_t)slot, (size_t)d, (size_t)dim_pad)]);            \
    }

ELEMENT(bf16, uint16_t, f32_to_bf16, bf16_to_f32)
ELEMENT(f16, uint16_t, f32_to_f16, f16_to_f32)
ELEMENT(f32, float, f32_as_it_is, f32_as_it_is)

#define ROW(NAME, TYPE, INFINITE) \
    {#NAME, sizeof(TYPE), INFINITE, put_k_##NAME, put_v_##NAME, get_k_##NAME, get_v_##NAME}

static const element_format formats[N_ELEMENT_FORMATS] = {
    [ELEMENT_BF16] = ROW(bf16, uint16_t, BF16_INFINITE),
    [ELEMENT_F16] = ROW(f16, uint16_t, F16_INFINITE),
    [ELEMENT_F32] = ROW(f32, float, F32_INF),
};

const element_format *element_format_of(int format) {
    return format >= 0 && format < N_ELEMENT_FORMATS ? &formats[format] : NULL;
}

int element_format_find(const char *name) {
    for (int i = 0; i < N_ELEMENT_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return i;
    return -1;
}
