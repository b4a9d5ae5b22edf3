/* kv.c - the table of formats of keys and values, and where a sealed record keeps what. Leaves the choice of codes to
 * kernel/ (seal), hot tiles to float.c. */
#include <string.h>

#include "format.h"

enum { TOKENS = 16, LINE = 64 };

/* Lloyd-Max levels of a normal distribution (Max 1960), the largest as 127. */
static const int8_t level_4[16] = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};
static const int8_t level_3[8] = {-127, -79, -45, -14, 14, 45, 79, 127};
static const int8_t level_2[4] = {-127, -38, 38, 127};

static const kv_format formats[N_KV_FORMATS] = {
    [ELEMENT_BF16] = {"bf16", KV_PLAIN, 16, ELEMENT_BF16, ELEMENT_BF16, NULL},
    [ELEMENT_F16] = {"f16", KV_PLAIN, 16, ELEMENT_F16, ELEMENT_F16, NULL},
    [ELEMENT_F32] = {"f32", KV_PLAIN, 32, ELEMENT_F32, ELEMENT_F32, NULL},
    [KV_E4M3] = {"e4m3", KV_FLOAT8, 8, ELEMENT_BF16, ELEMENT_BF16, NULL},
    [KV_E5M2] = {"e5m2", KV_FLOAT8, 8, ELEMENT_BF16, ELEMENT_BF16, NULL},
    [KV_INT8] = {"int8", KV_CODES, 8, ELEMENT_F32, ELEMENT_BF16, NULL},
    [KV_INT4] = {"int4", KV_CODES, 4, ELEMENT_F32, ELEMENT_BF16, level_4},
    [KV_INT3] = {"int3", KV_CODES, 3, ELEMENT_F32, ELEMENT_BF16, level_3},
    [KV_INT2] = {"int2", KV_CODES, 2, ELEMENT_F32, ELEMENT_BF16, level_2},
};

const kv_format *kv_format_of(int format) {
    return format >= 0 && format < N_KV_FORMATS ? &formats[format] : NULL;
}

int kv_format_find(const char *name) {
    for (int i = 0; i < N_KV_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) return i;
    return -1;
}

static size_t lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

/* A plane of `bits` bits of a tile: whole lines. */
static size_t plane_bytes(int bits, int pad) {
    return lines((size_t)pad * TOKENS * (size_t)bits / 8);
}

size_t kv_tile_bytes(const kv_format *f, int pad) {
    return f->bits == 3 ? plane_bytes(2, pad) + plane_bytes(1, pad) : plane_bytes(f->bits, pad);
}

size_t kv_scales_at(const kv_format *f, int pad, int n_tiles) {
    return (size_t)n_tiles * kv_tile_bytes(f, pad);
}

size_t kv_centroid_at(const kv_format *f, int pad, int n_tiles) {
    size_t scales = f->kind == KV_PLAIN ? 0 : lines((size_t)n_tiles * TOKENS * sizeof(uint16_t));
    return kv_scales_at(f, pad, n_tiles) + scales;
}

size_t kv_record_bytes(const kv_format *f, int pad, int n_tiles, int keys) {
    size_t centroid = f->kind == KV_CODES && keys ? lines((size_t)pad * sizeof(uint16_t)) : 0;
    return kv_centroid_at(f, pad, n_tiles) + centroid;
}

/* ------------------------------------------------------------------------------------------- one element */

/* Step, and byte in its line, of an element: kernel.h has the picture. */
typedef struct place {
    size_t step, quad, group, byte;
} place;

static place place_of(int keys, int pad, int token, int dim) {
    size_t t = (size_t)token, d = (size_t)dim;
    if (keys) return (place){.step = d / 4, .byte = t * 4 + d % 4};
    return (place){.quad = t / 4, .group = d / 16, .byte = d % 16 * 4 + t % 4,
                   .step = t / 4 * ((size_t)pad / 16) + d / 16};
}

/* n bits from bit `at` on of a byte of a line. */
static unsigned bits_of(const uint8_t *tile, size_t line, size_t byte, size_t at, int n) {
    return tile[line * LINE + byte] >> at & ((1u << n) - 1);
}

static unsigned code_of(const kv_format *f, const uint8_t *tile, int pad, int keys, place p) {
    size_t groups = (size_t)pad / 16;
    if (f->bits == 8) return tile[p.step * LINE + p.byte];
    if (f->bits == 4)
        return keys ? bits_of(tile, p.step / 2, p.byte, p.step % 2 * 4, 4)
                    : bits_of(tile, p.quad / 2 * groups + p.group, p.byte, p.quad % 2 * 4, 4);
    unsigned low = keys ? bits_of(tile, p.step / 4, p.byte, p.step % 4 * 2, 2)
                        : bits_of(tile, p.group, p.byte, p.quad * 2, 2);
    if (f->bits == 2) return low;
    const uint8_t *third = tile + plane_bytes(2, pad);
    return low | (keys ? bits_of(third, p.step / 8, p.byte, p.step % 8, 1)
                       : bits_of(third, p.group / 2, p.byte, p.group % 2 * 4 + p.quad, 1)) << 2;
}

static float float8_number(const kv_format *f, unsigned code) {
    unsigned sign = (code & 0x80) << 8, size = code & 0x7f;
    int e5m2 = f == &formats[KV_E5M2];
    if (size < (e5m2 ? 4u : 8u)) return bf16_to_f32((uint16_t)sign);
    return bf16_to_f32((uint16_t)(sign | (e5m2 ? (size << 5) + (112u << 7) : (size << 4) + (120u << 7))));
}

float kv_number(const kv_format *f, const uint8_t *record, int pad, int keys, int token, int dim) {
    const uint8_t *tile = record + (size_t)(token / TOKENS) * kv_tile_bytes(f, pad);
    unsigned code = code_of(f, tile, pad, keys, place_of(keys, pad, token % TOKENS, dim));
    if (f->kind == KV_FLOAT8) return float8_number(f, code);
    return f->level ? f->level[code] : (int8_t)code;
}
