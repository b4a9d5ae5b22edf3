/* problem.c - see problem.h. */
#include "problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"

const char *const kind_name[N_KINDS] = {"fast", "exact", "accurate"};

/* Scales of 1, minima of 0. Those of six bits less 32 are 33 in their bytes. */
#define UNIT(BYTES) BYTES, sizeof BYTES - 1
#define UNIT_BYTES UNIT("\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1")
#define UNIT_Q3 UNIT("\x11\x11\x11\x11\x11\x11\x11\x11\xaa\xaa\xaa\xaa")
#define UNIT_Q4 UNIT("\1\1\1\1\0\0\0\0\1\1\1\1")
#define UNIT_IQ4 UNIT("\xaa\xaa\x11\x11\x11\x11")

static const block_shape shapes[N_WEIGHT_FORMATS] = {
    [WEIGHT_Q4_0] = {0, -1, 2},
    [WEIGHT_Q4_1] = {0, 2, 4},
    [WEIGHT_Q5_0] = {0, -1, 2},
    [WEIGHT_Q5_1] = {0, 2, 4},
    [WEIGHT_Q8_0] = {0, -1, 2},
    [WEIGHT_IQ4_NL] = {0, -1, 2},
    [WEIGHT_IQ4_XS] = {0, -1, 8, 2, UNIT_IQ4},
    [WEIGHT_Q2_K] = {80, 82, 16, 0, UNIT_BYTES},
    [WEIGHT_Q3_K] = {108, -1, 0, 96, UNIT_Q3},
    [WEIGHT_Q4_K] = {0, 2, 16, 4, UNIT_Q4},
    [WEIGHT_Q5_K] = {0, 2, 16, 4, UNIT_Q4},
    [WEIGHT_Q6_K] = {208, -1, 0, 192, UNIT_BYTES},
};

const block_shape *block_shape_of(int format) {
    return weight_format_of(format)->block > 1 ? &shapes[format] : NULL;
}

int has_kind(int format, int kind) {
    return kind == FLOAT || block_shape_of(format);
}

/* ------------------------------------------------------------------------------------------ random numbers */

static uint64_t seed;

void rng_start(void) {
    seed = 20240229;
}
uint32_t rng(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}
float rng_float(float size) {
    return size * ((float)(rng() & 0xffffff) / 8388608.f - 1);
}

/* ------------------------------------------------------------------------------------------------- codes */

static const int code_bytes[N_KINDS] = {[INT8] = 1, [INT16] = 2};

/* Codes of 16 bits lie as 0, 2, 1, 3 in each four. */
static size_t place_of(int i) {
    return (size_t)(i - i % 4 + (const int[]){0, 2, 1, 3}[i % 4]); /* k is a multiple of 4 */
}

int act_at(const problem *p, int kind, int i) {
    if (kind == INT8) return (int8_t)p->codes[INT8].q[i];
    int16_t q;
    memcpy(&q, p->codes[INT16].q + 2 * place_of(i), sizeof q);
    return q;
}

void act_put(problem *p, int kind, int i, int code) {
    int16_t q = (int16_t)code;
    if (kind == INT8) p->codes[INT8].q[i] = (uint8_t)code;
    else memcpy(p->codes[INT16].q + 2 * place_of(i), &q, sizeof q);
}

static codes codes_make(int m, int k, int bytes) {
    size_t numbers = (size_t)(m * (k / WEIGHT_BLOCK) + 1) * 4; /* one more, as there may be no block at all */
    codes c = {guard_alloc((size_t)(m * k * bytes), (size_t)bytes), (float *)guard_alloc(numbers, 4) + 1,
               (float *)guard_alloc(numbers, 4) + 1, (int32_t *)guard_alloc(numbers, 4) + 1,
               (int32_t *)guard_alloc(numbers, 4) + 1};
    return c;
}

static void codes_free(codes *c) {
    guard_free(c->q);
    guard_free(c->s - 1);
    guard_free(c->fs - 1);
    guard_free(c->sum - 1);
    guard_free(c->half - 1);
}

void problem_quantise(problem *p) {
    if (!block_shape_of(p->format)) return;
    const kernels *scalar = kernels_of("scalar");
    const codes *c8 = &p->codes[INT8], *c16 = &p->codes[INT16];
    for (size_t r = 0; r < (size_t)p->m; r++) {
        size_t b = r * (size_t)p->n_blocks, k = r * (size_t)p->k;
        scalar->quantise8(p->x + k, p->k, c8->q + k, c8->s + b, c8->fs + b, c8->sum + b, c8->half + b);
        scalar->quantise16(p->x + k, p->k, c16->q + 2 * k, c16->s + b, c16->fs + b, c16->sum + b, c16->half + b);
    }
}

/* --------------------------------------------------------------------------------------------- the problem */

static void put16(uint8_t *p, uint16_t h) {
    memcpy(p, &h, sizeof h);
}

/* Any codes and scales of groups; scales and minima of usual size, those of groups of up to 64 in mind. */
static void fill_file(problem *p) {
    const weight_format *f = weight_format_of(p->format);
    const block_shape *shape = block_shape_of(p->format);
    const float size = shape && shape->unit ? 1.f / 32 : 1;
    for (size_t at = 0; at < (size_t)p->n * p->row_bytes; at += f->block_bytes) {
        uint8_t *b = p->file + at;
        float w = rng_float(0.1f);
        if (p->format == WEIGHT_F32) memcpy(b, &w, sizeof w);
        if (p->format == WEIGHT_F16) put16(b, f32_to_f16(w));
        if (p->format == WEIGHT_BF16) put16(b, f32_to_bf16(w));
        if (!shape) continue;
        for (size_t i = 0; i < f->block_bytes; i++) b[i] = (uint8_t)rng();
        put16(b + shape->d, f32_to_f16(rng_float(0.02f * size)));
        if (shape->m >= 0) put16(b + shape->m, f32_to_f16(w * size));
    }
}

void problem_pack(problem *p) {
    const weight_format *f = weight_format_of(p->format);
    for (int i = 0; i < p->n_panels; i++)
        f->pack(p->file + (size_t)i * TILE * p->row_bytes, p->row_bytes,
                p->n - i * TILE < TILE ? p->n - i * TILE : TILE, (size_t)p->k, p->panels + (size_t)i * p->panel_bytes);
}

problem problem_make(int format, int n, int k, int m) {
    const weight_format *f = weight_format_of(format);
    problem p = {.format = format, .n = n, .k = k, .m = m, .n_panels = (n + TILE - 1) / TILE};
    p.n_blocks = k / WEIGHT_BLOCK;
    p.row_bytes = weight_row_bytes(f, (size_t)k);
    p.panel_bytes = weight_panel_bytes(f, (size_t)k);
    p.file = malloc((size_t)n * p.row_bytes);
    if (!p.file) abort();
    p.panels = guard_alloc((size_t)p.n_panels * p.panel_bytes, 64);
    p.x = guard_alloc((size_t)(m * k) * sizeof *p.x, 4);
    p.codes[INT8] = codes_make(m, k, 1);
    p.codes[INT16] = codes_make(m, k, 2);
    for (int i = 0; i < m * k; i++) p.x[i] = rng_float(i % 97 ? 1.f : 20.f);
    fill_file(&p);
    problem_pack(&p);
    problem_quantise(&p);
    return p;
}

void problem_free(problem *p) {
    free(p->file);
    guard_free(p->panels);
    guard_free(p->x);
    codes_free(&p->codes[INT8]);
    codes_free(&p->codes[INT16]);
}

float *problem_run(const problem *p, const char *path, int kind, int m) {
    const kernels *k = kernels_of(path);
    size_t stride = (size_t)p->n_panels * TILE;
    float *y = guard_alloc((size_t)m * stride * sizeof *y, 4);
    mm_panels w = {p->panels, p->panel_bytes, p->n_panels, p->k};
    memset(y, 0xff, (size_t)m * stride * sizeof *y);
    const codes *c = &p->codes[kind];
    act_rows act = {c->q, c->s, c->fs, c->sum, c->half, (size_t)(p->k * code_bytes[kind]), (size_t)p->n_blocks};
    if (kind == INT8) k->mm_int8[p->format](&w, &act, m, y, stride);
    else if (kind == INT16) k->mm_int16[p->format](&w, &act, m, y, stride);
    else k->mm_f32[p->format](&w, p->x, (size_t)p->k, m, y, stride);
    return y;
}

size_t n_different(const float *a, const float *b, size_t n) {
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) bad += memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]));
    return bad;
}
