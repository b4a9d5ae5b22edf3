/* test_format.c - the element formats: conversions against exact references, tiles against their pictures. */
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

/* Halfway between every two neighbours, and the floats on either side of that. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_widens_exactly_and_comes_back),
        cmocka_unit_test(test_bf16_widens_exactly_and_comes_back),
        cmocka_unit_test(test_narrowing_is_nearest_even),
        cmocka_unit_test(test_ties_go_to_even),
        cmocka_unit_test(test_the_least_infinity_is_known),
        cmocka_unit_test(test_tiles_lie_as_drawn),
        cmocka_unit_test(test_element_formats_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
