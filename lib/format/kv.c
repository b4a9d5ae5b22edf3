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
    if (f->kind == KV_PLAIN) return plane_bytes(f->bits, pad);
    size_t bytes = 0;
    for (int n = 8; n > 0; n /= 2) bytes += f->bits & n ? plane_bytes(n, pad) : 0;
    return bytes;
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

enum { PLANES_MAX = 3 };

/* n bits from bit `at` of a byte of a tile on, and the bit of the code that the first one is. */
typedef struct place {
    size_t byte;
    int at, n, from;
} place;

/* Where an element's code lies, plane by plane; how many there are. format.h has the picture. */
static int places_of(const kv_format *f, int pad, int keys, int token, int dim, place to[PLANES_MAX]) {
    const size_t t = (size_t)token, quad = t / 4, d = (size_t)dim, group = d / TOKENS, groups = (size_t)pad / TOKENS;
    const size_t byte = keys ? t * 4 + d % 4 : d % TOKENS * 4 + t % 4;
    size_t plane = 0;
    int n_places = 0, from = 0;
    for (int n = 8; n > 0; n /= 2) {
        if (!(f->bits & n)) continue;
        const size_t steps = 8 / (size_t)n; /* of a line: of values quads of a group, of 1 bit those of two groups */
        size_t step = keys ? d / 4 : steps == 8 ? d / TOKENS * 4 + quad : quad;
        size_t line = keys || steps == 8 ? step / steps : step / steps * groups + group;
        to[n_places++] = (place){plane + line * LINE + byte, (int)(step % steps) * n, n, from};
        plane += plane_bytes(n, pad);
        from += n;
    }
    return n_places;
}

/* A tile of a record. */
static size_t tile_at(const kv_format *f, int pad, int token) {
    return (size_t)(token / TOKENS) * kv_tile_bytes(f, pad);
}

static unsigned code_of(const kv_format *f, const uint8_t *record, int pad, int keys, int token, int dim) {
    const uint8_t *tile = record + tile_at(f, pad, token);
    unsigned code = 0;
    place p[PLANES_MAX];
    int n = places_of(f, pad, keys, token % TOKENS, dim, p);
    for (int i = 0; i < n; i++) code |= (tile[p[i].byte] >> p[i].at & ((1u << p[i].n) - 1)) << p[i].from;
    return code;
}

void kv_put_code(const kv_format *f, uint8_t *record, int pad, int keys, int token, int dim, unsigned code) {
    uint8_t *tile = record + tile_at(f, pad, token);
    place p[PLANES_MAX];
    int n = places_of(f, pad, keys, token % TOKENS, dim, p);
    for (int i = 0; i < n; i++) tile[p[i].byte] |= (uint8_t)((code >> p[i].from & ((1u << p[i].n) - 1)) << p[i].at);
}

static float float8_number(const kv_format *f, unsigned code) {
    unsigned sign = (code & 0x80) << 8, size = code & 0x7f;
    int e5m2 = f == &formats[KV_E5M2];
    if (size < (e5m2 ? 4u : 8u)) return bf16_to_f32((uint16_t)sign);
    return bf16_to_f32((uint16_t)(sign | (e5m2 ? (size << 5) + (112u << 7) : (size << 4) + (120u << 7))));
}

float kv_number(const kv_format *f, const uint8_t *record, int pad, int keys, int token, int dim) {
    unsigned code = code_of(f, record, pad, keys, token, dim);
    if (f->kind == KV_FLOAT8) return float8_number(f, code);
    return f->level ? f->level[code] : (int8_t)code;
}
