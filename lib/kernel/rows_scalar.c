/* rows_scalar.c - norm, addition, activation, rotation, narrowing and activations as codes: the definition in code of
 * the numeric contract, sections 4 and 5. */
#include "kernel.h"

#include "base/bits.h"
#include "rows.h"
#include "scalar.h"

static void norm(const float *x, const float *weight, float eps, int n, float *y) {
    float a[TILE] = {0};
    for (int i = 0; i < n; i++) a[i % TILE] = scalar_fma(x[i], x[i], a[i % TILE]);
    float r = rows_norm_factor(scalar_tree16(a), n, eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * r * weight[i];
}

static void add(float *x, const float *y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] + y[i];
}

static void add_scaled(float *x, const float *y, float s, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = scalar_fma(s, y[i], x[i]);
}

static void scale(float *x, float s, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = x[i] * s;
}

static void silu_mul(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float e = scalar_exp2(gate[i] * -1.44269504f);
        gate[i] = gate[i] / (1 + e) * up[i];
    }
}

static void rope(float *x, const float *turns, int dim, int halves) {
    int step = halves ? 1 : 2, apart = halves ? dim / 2 : 1;
    for (int i = 0; i < dim / 2; i++) {
        float *a = x + i * step, *b = a + apart;
        float c = turns[2 * i], s = turns[2 * i + 1], a0 = *a;
        *a = scalar_fma(a0, c, -(*b * s));
        *b = scalar_fma(*b, c, a0 * s);
    }
}

static void narrow(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = scalar_narrow(x[i]);
}

/* Codes of a block, the largest of them `code`; returns its scale. */
static float block_codes(const float *x, float code, int32_t q[ROWS_BLOCK]) {
    uint32_t most = 0; /* as integers, sizes of floats are in the order of their values, infinity and NaN on top */
    for (int i = 0; i < ROWS_BLOCK; i++) {
        uint32_t size = bits_of_f32(x[i]) & 0x7fffffff;
        if (size > most) most = size;
    }
    float scale, inverse;
    if (!rows_scale(most, code, &scale, &inverse)) {
        memset(q, 0, ROWS_BLOCK * sizeof *q);
        return scale;
    }
    for (int i = 0; i < ROWS_BLOCK; i++) q[i] = rows_integer(x[i] * inverse);
    return scale;
}

/* Of half a block. */
static int32_t codes_sum(const int32_t *q) {
    int32_t sum = 0;
    for (int i = 0; i < ROWS_BLOCK / 2; i++) sum += q[i];
    return sum;
}

static void quantise8(const float *x, int n, void *q, float *s, float *fs, int32_t *sum, int32_t *half) {
    int32_t codes[ROWS_BLOCK];
    for (int b = 0; b < n / ROWS_BLOCK; b++) {
        int8_t *to = (int8_t *)q + b * ROWS_BLOCK;
        s[b] = block_codes(x + b * ROWS_BLOCK, ROWS_CODE8, codes);
        for (int i = 0; i < ROWS_BLOCK; i++) to[i] = (int8_t)codes[i];
        half[b] = codes_sum(codes);
        sum[b] = half[b] + codes_sum(codes + ROWS_BLOCK / 2);
        fs[b] = s[b] * (float)sum[b];
    }
}

static void quantise16(const float *x, int n, void *q, float *s, float *fs, int32_t *sum, int32_t *half) {
    int32_t codes[ROWS_BLOCK];
    for (int b = 0; b < n / ROWS_BLOCK; b++) {
        int16_t *to = (int16_t *)q + b * ROWS_BLOCK;
        s[b] = block_codes(x + b * ROWS_BLOCK, ROWS_CODE16, codes);
        for (int i = 0; i < ROWS_BLOCK; i++) to[act16_place(i)] = (int16_t)codes[i];
        half[b] = codes_sum(codes);
        sum[b] = half[b] + codes_sum(codes + ROWS_BLOCK / 2);
        fs[b] = s[b] * (float)sum[b];
    }
}

void rows_scalar(kernels *k) {
    k->norm = norm;
    k->add = add;
    k->add_scaled = add_scaled;
    k->scale = scale;
    k->silu_mul = silu_mul;
    k->rope = rope;
    k->narrow = narrow;
    k->quantise8 = quantise8;
    k->quantise16 = quantise16;
}
