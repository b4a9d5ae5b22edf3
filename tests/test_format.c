/* test_format.c - the formats: conversions against exact references, tiles and panels against their pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "format/format.h"
#include "guard.h"
#include "random.h"

/* ------------------------------------------------------------------------------------ what is right, in doubles */

/* The value of f16 bits without a sign; infinity counts as the power of two that would stand there. */
static double f16_value(uint32_t h) {
    int exponent = (int)(h >> 10), fraction = (int)(h & 0x3ff);
    return exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
}

static double bf16_value(uint32_t h) {
    int exponent = (int)(h >> 7), fraction = (int)(h & 0x7f);
    return exponent == 0 ? 0 : ldexp(128 + fraction, exponent - 134);
}

/* Nearest even among the values with bits 0 .. top, by bisection: every step is exact. */
static uint16_t nearest(double (*value)(uint32_t), uint32_t top, float f) {
    uint32_t bits = bits_of_f32(f), sign = bits >> 16 & 0x8000;
    double x = fabs((double)f);
    if ((bits & 0x7fffffff) < 0x00800000) return (uint16_t)sign;
    if (x >= value(top)) return (uint16_t)(sign | top);
    uint32_t low = 0, high = top;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (value(middle) <= x) low = middle;
        else high = middle;
    }
    double below = x - value(low), above = value(high) - x;
    uint32_t h = below < above || (below == above && low % 2 == 0) ? low : high;
    return (uint16_t)(sign | h);
}

static int is_nan16(uint16_t h, uint16_t infinity) {
    return (h & 0x7fff) > infinity;
}

/* ------------------------------------------------------------------------------------------- one number */

static void test_f16_widens_exactly_and_comes_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        if (is_nan16((uint16_t)h, 0x7c00)) {
            assert_true(f != f);
            assert_true(is_nan16(f32_to_f16(f), 0x7c00));
            continue;
        }
        double want = (h & 0x7fff) == 0x7c00 ? (double)INFINITY : f16_value(h & 0x7fff);
        if (h & 0x8000) want = -want;
        if ((double)f != want || !signbit(f) != !signbit(want))
            fail_msg("%04x widens to %a, not %a", h, (double)f, want);
        if (f32_to_f16(f) != h) fail_msg("%04x comes back as %04x", h, f32_to_f16(f));
    }
}

static void test_bf16_widens_exactly_and_comes_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = bf16_to_f32((uint16_t)h);
        assert_int_equal(bits_of_f32(f), h << 16);
        uint32_t want = (h & 0x7f80) == 0 ? h & 0x8000 : is_nan16((uint16_t)h, 0x7f80) ? h | 0x40 : h;
        if (f32_to_bf16(f) != want) fail_msg("%04x comes back as %04x", h, f32_to_bf16(f));
    }
}

static void narrow_both(uint32_t bits) {
    float f = bits_to_f32(bits);
    uint16_t h = f32_to_f16(f), b = f32_to_bf16(f);
    if (f != f) {
        if (!is_nan16(h, 0x7c00) || !(h & 0x200)) fail_msg("NaN %08x gives f16 %04x", bits, h);
        if (!is_nan16(b, 0x7f80) || !(b & 0x40)) fail_msg("NaN %08x gives bf16 %04x", bits, b);
        return;
    }
    uint16_t want_h = nearest(f16_value, 0x7c00, f), want_b = nearest(bf16_value, 0x7f80, f);
    if (h != want_h) fail_msg("%08x gives f16 %04x, nearest even is %04x", bits, h, want_h);
    if (b != want_b) fail_msg("%08x gives bf16 %04x, nearest even is %04x", bits, b, want_b);
}

static void test_narrowing_is_nearest_even(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < 1000000; i++) narrow_both((uint32_t)random_bits(&seed));
    /* f16 reaches over a seventh of all exponents; there the rest. */
    for (int i = 0; i < 1000000; i++) {
        uint32_t r = (uint32_t)random_bits(&seed);
        narrow_both((r & 0x807fffff) | (100 + random_below(&seed, 46)) << 23);
    }
    for (uint32_t bits = 0; bits < 0x800000; bits += 4099) narrow_both(bits); /* denormals */
    const uint32_t edges[] = {0x7f800000, 0x7f800001, 0x7fffffff, 0x7fc00000, 0x7f7fffff, 0x477fefff, 0x477ff000};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        narrow_both(edges[i]);
        narrow_both(edges[i] | 0x80000000);
    }
}

/* Halfway between every two neighbours, and the floats on either side of that. */
static void test_the_least_infinity_is_known(void **state) {
    (void)state;
    for (int i = 0; i < N_ELEMENT_FORMATS; i++) {
        const element_format *f = element_format_of(i);
        float in[2] = {bits_to_f32(f->infinite - 1), bits_to_f32(f->infinite)}, tile[2 * 16], out[2];
        f->put_k(tile, 3, in, 2);
        f->get_k(tile, 3, out, 2);
        assert_true(isfinite(out[0]) && isinf(out[1]));
    }
}

static void test_ties_go_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        uint32_t tie = bits_of_f32((float)((f16_value(h) + f16_value(h + 1)) / 2));
        for (uint32_t d = 0; d < 3; d++) narrow_both(tie + d - 1);
    }
    for (uint32_t h = 0x80; h < 0x7f80; h++)
        for (uint32_t d = 0; d < 3; d++) narrow_both((h << 16 | 0x8000) + d - 1);
}

/* ------------------------------------------------------------------------------------------------- tiles */

enum { DIM = 23, DIM_PAD = 32, TILE_BYTES = 16 * DIM_PAD * 4 };

/* Element `at` of a tile, widened, by the size alone. */
static float element(int format, const void *tile, size_t at) {
    const uint16_t *half = tile;
    const float *whole = tile;
    return format == ELEMENT_F32 ? whole[at] : format == ELEMENT_F16 ? f16_to_f32(half[at]) : bf16_to_f32(half[at]);
}

/* kernel.h's pictures: line and place in the line. */
static size_t k_place(size_t w, size_t slot, size_t d) {
    size_t line = d / w;
    return line * 16 * w + slot * w + d % w;
}
static size_t v_place(size_t w, size_t slot, size_t d) {
    size_t line = slot / w * (DIM_PAD / 16) + d / 16;
    return line * 16 * w + d % 16 * w + slot % w;
}

static void test_tiles_lie_as_drawn(void **state) {
    (void)state;
    for (int format = 0; format < N_ELEMENT_FORMATS; format++) {
        const element_format *f = element_format_of(format);
        size_t w = 4 / f->bytes, n_elements = 16 * DIM_PAD;
        void *k = guard_alloc(n_elements * f->bytes, 64), *v = guard_alloc(n_elements * f->bytes, 64);
        float x[DIM], back[DIM];
        for (int slot = 15; slot >= 0; slot--) { /* small whole numbers are the same in every format */
            for (int d = 0; d < DIM; d++) x[d] = (float)(slot * 8 - d);
            f->put_k(k, slot, x, DIM);
            f->put_v(v, slot, x, DIM, DIM_PAD);
        }
        for (int slot = 0; slot < 16; slot++) {
            f->get_k(k, slot, x, DIM);
            f->get_v(v, slot, back, DIM, DIM_PAD);
            for (int d = 0; d < DIM_PAD; d++) {
                float want = d < DIM ? (float)(slot * 8 - d) : 0; /* padding stays as it was */
                assert_true(element(format, k, k_place(w, (size_t)slot, (size_t)d)) == want);
                assert_true(element(format, v, v_place(w, (size_t)slot, (size_t)d)) == want);
                if (d < DIM) assert_true(x[d] == want && back[d] == want);
            }
        }
        guard_free(k);
        guard_free(v);
    }
}

static void test_element_formats_by_name(void **state) {
    (void)state;
    assert_int_equal(element_format_find("bf16"), ELEMENT_BF16);
    assert_int_equal(element_format_find("f16"), ELEMENT_F16);
    assert_int_equal(element_format_find("f32"), ELEMENT_F32);
    assert_int_equal(element_format_find("f64"), -1);
    assert_null(element_format_of(-1));
    assert_null(element_format_of(N_ELEMENT_FORMATS));
}

/* -------------------------------------------------------------------------------------- blocks of the file */

static void put16(uint8_t *p, uint16_t h) {
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* Random row of a format: any codes, finite scales of either sign, denormals among them. */
static void random_row(const weight_format *f, size_t n_k, uint64_t *seed, uint8_t *row) {
    size_t n = weight_row_bytes(f, n_k);
    for (size_t i = 0; i < n; i++) row[i] = (uint8_t)random_bits(seed);
    for (size_t b = 0; f->block > 1 && b < n / f->block_bytes; b++) {
        put16(row + b * f->block_bytes, (uint16_t)(random_bits(seed) & 0xbbff));
        if (f->block_bytes == 20) put16(row + b * f->block_bytes + 2, (uint16_t)(random_bits(seed) & 0xbbff));
    }
    if (f->block > 1) return;
    for (size_t k = 0; k < n_k; k++) { /* floats: no NaN, whose bits need not survive */
        uint8_t *top = row + (k + 1) * f->block_bytes - 1;
        *top &= 0xbf;
    }
}

/* Element k of a row, from the format's definition. */
static float element_of_row(int format, const uint8_t *row, size_t k) {
    const weight_format *f = weight_format_of(format);
    const uint8_t *b = row + k / (size_t)f->block * f->block_bytes;
    size_t i = k % 32;
    uint16_t h = (uint16_t)(b[0] | b[1] << 8);
    float d = f16_to_f32(h);
    switch (format) {
    case WEIGHT_F16: return d;
    case WEIGHT_BF16: return bf16_to_f32(h);
    case WEIGHT_Q8_0: return d * (float)(int8_t)b[2 + i];
    case WEIGHT_Q4_0: return d * (float)((i < 16 ? b[2 + i] & 15 : b[2 + i - 16] >> 4) - 8);
    case WEIGHT_Q4_1: {
        float m = f16_to_f32((uint16_t)(b[2] | b[3] << 8));
        return fmaf(d, (float)(i < 16 ? b[4 + i] & 15 : b[4 + i - 16] >> 4), m);
    }
    default: return bits_to_f32(h | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
    }
}

static void test_rows_widen_by_their_definition(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++) {
        const weight_format *f = weight_format_of(format);
        for (int round = 0; round < 200; round++) {
            size_t n_k = f->block > 1 ? 32 * (1 + random_below(&seed, 9)) : 1 + random_below(&seed, 99);
            uint8_t *row = guard_alloc(weight_row_bytes(f, n_k), 1);
            float *out = guard_alloc(n_k * sizeof *out, 4);
            random_row(f, n_k, &seed, row);
            f->widen(row, n_k, out);
            for (size_t k = 0; k < n_k; k++) {
                float want = element_of_row(format, row, k);
                if (memcmp(&want, out + k, 4))
                    fail_msg("%s element %zu: %a, not %a", f->name, k, (double)out[k], (double)want);
            }
            guard_free(row);
            guard_free(out);
        }
    }
}

static void test_row_and_panel_sizes(void **state) {
    (void)state;
    const weight_format *q4_1 = weight_format_of(WEIGHT_Q4_1), *f16 = weight_format_of(WEIGHT_F16);
    assert_int_equal(weight_row_bytes(q4_1, 576), 360);
    assert_int_equal(weight_row_bytes(q4_1, 570), 0);
    assert_int_equal(weight_row_bytes(f16, 3), 6);
    assert_int_equal(weight_row_bytes(f16, SIZE_MAX), 0);
    assert_int_equal(weight_panel_bytes(q4_1, 576), 9 * 640);
    assert_int_equal(weight_panel_bytes(q4_1, 544), 9 * 640);
    assert_int_equal(weight_panel_bytes(f16, 65), 2 * 2048);
    assert_int_equal(weight_panel_bytes(f16, SIZE_MAX), SIZE_MAX);
    assert_int_equal(weight_format_find(8), WEIGHT_Q8_0);
    assert_int_equal(weight_format_find(30), WEIGHT_BF16);
    assert_int_equal(weight_format_find(12), -1);
    assert_null(weight_format_of(N_WEIGHT_FORMATS));
}

/* ------------------------------------------------------------------------------------------------ panels */

typedef struct matrix {
    const weight_format *f;
    size_t n_k, row_bytes;
    int n_rows;
    uint8_t *rows, *panel;
} matrix;

static matrix matrix_make(int format, int n_rows, size_t n_k, uint64_t *seed) {
    const weight_format *f = weight_format_of(format);
    matrix m = {f, n_k, weight_row_bytes(f, n_k), n_rows, NULL, NULL};
    m.rows = guard_alloc(m.row_bytes * (size_t)n_rows, 1);
    m.panel = guard_alloc(weight_panel_bytes(f, n_k), 64);
    memset(m.panel, 0xee, weight_panel_bytes(f, n_k));
    for (int r = 0; r < n_rows; r++) random_row(f, n_k, seed, m.rows + (size_t)r * m.row_bytes);
    f->pack(m.rows, m.row_bytes, n_rows, n_k, m.panel);
    return m;
}

static void matrix_free(matrix *m) {
    guard_free(m->rows);
    guard_free(m->panel);
}

static void check_panel_rows(const matrix *m) {
    float *want = guard_alloc(m->n_k * sizeof *want, 4), *got = guard_alloc(m->n_k * sizeof *got, 4);
    for (int r = 0; r < m->n_rows; r++) {
        m->f->widen(m->rows + (size_t)r * m->row_bytes, m->n_k, want);
        m->f->panel_row(m->panel, r, m->n_k, got);
        if (memcmp(want, got, m->n_k * sizeof *want))
            fail_msg("%s row %d of %d, k %zu", m->f->name, r, m->n_rows, m->n_k);
    }
    guard_free(want);
    guard_free(got);
}

static void test_a_row_comes_back_from_its_panel(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++)
        for (int n_rows = 1; n_rows <= 16; n_rows += n_rows == 1 ? 4 : 11)
            for (size_t n_k = 1; n_k < 330; n_k += n_k < 70 ? 1 : 37) {
                size_t k = weight_format_of(format)->block > 1 ? n_k * 32 : n_k;
                matrix m = matrix_make(format, n_rows, k, &seed);
                check_panel_rows(&m);
                matrix_free(&m);
            }
}

/* format.h's picture, byte by byte: code or element (row, k) of a panel as the file has it, and the scales. */
static const uint8_t *code_place(const matrix *m, size_t row, size_t k) {
    const uint8_t *chunk = m->panel + k / 64 * m->f->chunk_bytes;
    size_t in_chunk = k % 64, block = in_chunk / 32, i = k % 32;
    if (m->f->block == 1) {
        size_t w = 4 / m->f->block_bytes;
        return chunk + in_chunk / w * 64 + (row * w + in_chunk % w) * m->f->block_bytes;
    }
    if (m->f->block_bytes == 34) return chunk + in_chunk / 4 * 64 + row * 4 + in_chunk % 4;
    size_t line = 4 * block + i % 16 / 4;
    return chunk + line * 64 + row * 4 + i % 4;
}

static void test_panels_lie_as_drawn(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++) {
        matrix m = matrix_make(format, 16, 160, &seed);
        size_t head = m.f->block == 1 ? 0 : m.f->block_bytes == 20 ? 4 : 2, n_scales = m.f->chunk_bytes;
        for (size_t r = 0; r < 16; r++)
            for (size_t k = 0; k < 160; k++) {
                const uint8_t *block = m.rows + r * m.row_bytes + k / (size_t)m.f->block * m.f->block_bytes;
                size_t i = m.f->block == 1 ? 0 : m.f->block_bytes == 34 ? k % 32 : k % 16;
                assert_memory_equal(code_place(&m, r, k), block + head + i, m.f->block == 1 ? m.f->block_bytes : 1);
                if (head == 0) continue;
                const uint8_t *scales = m.panel + k / 64 * n_scales + (m.f->block_bytes == 34 ? 16 : 8) * 64;
                size_t place = (k % 64 / 32 * 16 + r) * 2;
                assert_memory_equal(scales + place, block, 2);
                if (head == 4) assert_memory_equal(scales + 64 + place, block + 2, 2);
            }
        matrix_free(&m);
    }
}

/* Rows and columns that are not there are zeros, whatever the memory held: as in a panel of zeros with them put in. */
static void check_rest(int format, size_t n_rows, size_t n_k, uint64_t *seed) {
    matrix part = matrix_make(format, (int)n_rows, n_k, seed), full = matrix_make(format, 16, 128, seed);
    size_t n = weight_panel_bytes(part.f, n_k);
    assert_int_equal(n, weight_panel_bytes(full.f, 128));
    memset(full.rows, 0, full.row_bytes * 16);
    for (size_t r = 0; r < n_rows; r++)
        memcpy(full.rows + r * full.row_bytes, part.rows + r * part.row_bytes, part.row_bytes);
    full.f->pack(full.rows, full.row_bytes, 16, 128, full.panel);
    assert_memory_equal(part.panel, full.panel, n);
    matrix_free(&part);
    matrix_free(&full);
}

static void test_the_rest_of_a_panel_is_zero(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++) {
        check_rest(format, 5, 96, &seed);
        check_rest(format, 16, 96, &seed);
        check_rest(format, 5, 128, &seed);
        if (weight_format_of(format)->block == 1) check_rest(format, 16, 65, &seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_widens_exactly_and_comes_back),
        cmocka_unit_test(test_bf16_widens_exactly_and_comes_back),
        cmocka_unit_test(test_narrowing_is_nearest_even),
        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_the_least_infinity_is_known),
        cmocka_unit_test(test_tiles_lie_as_drawn),
        cmocka_unit_test(test_element_formats_by_name),
        cmocka_unit_test(test_rows_widen_by_their_definition),
        cmocka_unit_test(test_row_and_panel_sizes),
        cmocka_unit_test(test_a_row_comes_back_from_its_panel),
        cmocka_unit_test(test_panels_lie_as_drawn),
        cmocka_unit_test(test_the_rest_of_a_panel_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
