/* seal_scalar.c - sealing blocks and rotating vectors, in plain loops: the definition (docs/numeric-contract.md,
 * section 8).
 *
 * Owns the choice of codes and scales and the order of every sum. Every other path gives the same bits. */
#include <math.h>
#include <string.h>

#include "kernel.h"
#include "seal.h"

uint16_t seal_mean(const seal_args *a, int d) {
    float sum[TILE] = {0}, part = 1 / (float)(a->n_tiles * TILE);
    for (int i = 0; i < a->n_tiles; i++) {
        const float *x = (const float *)a->tile[i] + d * TILE;
        for (int t = 0; t < TILE; t++) sum[t] = sum[t] + (seal_is_finite(x[t]) ? x[t] : 0) * part;
    }
    return f32_to_bf16(seal_within(scalar_tree16(sum), bits_to_f32(SEAL_BF16_MOST)));
}

/* Four chains by index, from 0: sum of x[i] * y[i]. */
static float dot4(const float *x, const float *y, int n) {
    float c[4] = {0};
    for (int i = 0; i < n; i++) c[i % 4] = scalar_fma(x[i], y[i], c[i % 4]);
    return (c[0] + c[1]) + (c[2] + c[3]);
}

static float largest(const float *x, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* Nearest even integer of |x| below 2^22. */
static int nearest(float x) {
    const float big = 0x1.8p23f;
    return (int)((x + big) - big);
}

/* Codes of 8 bits; returns the scale. */
static float encode_whole(const float *x, int n, uint8_t *code) {
    float scale = seal_scale_up(largest(x, n), 127), inverse = 1 / scale;
    for (int i = 0; i < n; i++) code[i] = (uint8_t)nearest(x[i] * inverse);
    return scale;
}

/* Sizes of u[n] among a format's levels where 1 is `unit` of level; their levels in y. */
static void sizes_of(const seal_levels *l, const float *u, int n, float unit, uint8_t *size, float *y) {
    for (int i = 0; i < n; i++) {
        float z = fabsf(u[i]) * unit;
        size[i] = 0;
        for (int j = 0; j < SEAL_LEVELS; j++) size[i] += z >= l->threshold[j];
        y[i] = l->level[size[i]];
    }
}

/* Places in a format's levels by the scale of least squared error among those that are tried; returns that scale. */
static float encode_levels(const kv_format *f, const float *x, int n, uint8_t *code) {
    const seal_levels l = seal_levels_of(f);
    float u[ATTN_DIM_MAX], size_u[ATTN_DIM_MAX], y[ATTN_DIM_MAX], most = largest(x, n), unit = seal_unit(most);
    float best = -1, best_scale = 0, best_unit = 0, inverse = 1 / (most * unit);
    for (int i = 0; i < n; i++) u[i] = x[i] * unit, size_u[i] = fabsf(u[i]);
    for (int j = 0; j < SEAL_TRIES; j++) {
        float by = seal_try[f->bits][j] * inverse;
        sizes_of(&l, u, n, by, code, y);
        float uy = dot4(size_u, y, n), yy = dot4(y, y, n), scale = uy / yy, gain = uy * scale;
        if (gain > best) best = gain, best_scale = scale, best_unit = by;
    }
    sizes_of(&l, u, n, best_unit, code, y);
    for (int i = 0; i < n; i++) code[i] = seal_code(f->bits, code[i], signbit(u[i]));
    return seal_scale_near(seal_unit_back(most) * best_scale);
}

/* Float8 of `fraction` bits behind the point; the other bits but the sign are the exponent, whose bias is `bias`. */
static float encode_float8(float most, unsigned fraction, unsigned bias, const float *x, int n, uint8_t *code) {
    float scale = seal_scale_up(largest(x, n), most), inverse = 1 / scale;
    const unsigned cut = 23 - fraction, least = (128 - bias) << 23; /* 2^(1 - bias) */
    for (int i = 0; i < n; i++) {
        uint32_t bits = bits_of_f32(x[i] * inverse), size = bits & 0x7fffffff, number = 0;
        uint32_t half = (1u << (cut - 1)) - 1 + (size >> cut & 1);
        if (size >= least) number = ((size + half) >> cut) - ((127 - bias) << fraction);
        else if (size > least - (1u << 23)) number = 1u << fraction;
        code[i] = (uint8_t)(bits >> 24 & 0x80) | (uint8_t)number;
    }
    return scale;
}

static float encode(int format, int bits, const float *x, int n, uint8_t *code) {
    switch (format) {
    case KV_E4M3: return encode_float8(SEAL_E4M3_MOST, 3, 7, x, n, code);
    case KV_E5M2: return encode_float8(SEAL_E5M2_MOST, 2, 15, x, n, code);
    default: return bits == 8 ? encode_whole(x, n, code) : encode_levels(kv_format_of(format), x, n, code);
    }
}

/* x[dim] = one token, of keys in codes less the centroid. 0: an element is not finite, and x is zero. */
static int token_of(const kv_format *f, int keys, const seal_args *a, int token, const uint16_t *centroid, float *x) {
    const void *tile = a->tile[token / TILE];
    if (keys) element_format_of(f->hot_k)->get_k(tile, token % TILE, x, a->dim);
    else element_format_of(f->hot_v)->get_v(tile, token % TILE, x, a->dim, a->dim);
    for (int d = 0; d < a->dim; d++) {
        if (!seal_is_finite(x[d])) {
            memset(x, 0, (size_t)a->dim * sizeof *x);
            return 0;
        }
        if (centroid) x[d] = seal_within(x[d] - bf16_to_f32(centroid[d]), bits_to_f32(SEAL_F32_MOST));
    }
    return 1;
}

static void seal(int format, int bits, int keys, const seal_args *a) {
    const kv_format *f = kv_format_of(format);
    uint16_t *scale = (uint16_t *)(a->record + kv_scales_at(f, a->dim, a->n_tiles)), *centroid = NULL;
    float x[ATTN_DIM_MAX];
    uint8_t code[ATTN_DIM_MAX];
    memset(a->record, 0, kv_record_bytes(f, a->dim, a->n_tiles, keys));
    if (keys && f->kind == KV_CODES) {
        centroid = (uint16_t *)(a->record + kv_centroid_at(f, a->dim, a->n_tiles));
        for (int d = 0; d < a->dim; d++) centroid[d] = seal_mean(a, d);
    }
    for (int t = 0; t < a->n_tiles * TILE; t++) {
        int finite = token_of(f, keys, a, t, centroid, x);
        float s = encode(format, bits, x, a->dim, code);
        scale[t] = finite ? f32_to_bf16(s) : SEAL_NONE;
        for (int d = 0; d < a->dim; d++) kv_put_code(f, a->record, a->dim, keys, t, d, code[d]);
    }
}

static void rotate(float *x, int dim) {
    int run = dim & -dim;
    for (int h = 1; h < run; h *= 2)
        for (int i = 0; i < dim; i++) {
            if (i & h) continue;
            float a = x[i], b = x[i + h];
            x[i] = a + b;
            x[i + h] = a - b;
        }
}

SEAL_EACH(SEAL_FUNCTIONS)

void seal_scalar(kernels *k) {
    SEAL_EACH(SEAL_ROW)
    k->rotate = rotate;
}
