/* check_pairs.c - two claims that fast attention over bf16 rests on: narrowing by cutting rounds to nearest even, and
 * vdpbf16ps makes two steps of a chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fp.h"
#include "kernel/kernel.h"
#include "random.h"

/* Cutting a weight's head off, as the vector paths narrow, is rounding to nearest even: all floats of some binades. */
static void test_narrow_by_cutting(void **state) {
    static const int exponents[] = {-126, -125, -1, 0, 8, 100};
    int bad = 0;
    (void)state;
    for (int i = 0; i < (int)(sizeof exponents / sizeof *exponents); i++) {
        for (uint32_t mantissa = 0; mantissa < 1u << 23; mantissa++) {
            uint32_t bits = (uint32_t)(exponents[i] + 127) << 23 | mantissa, got;
            uint32_t want = bits + 0x7fff + (bits >> 16 & 1);
            float x, cut, rest;
            memcpy(&x, &bits, sizeof x);
            cut = x * 65537.f;
            rest = cut - x;
            cut = cut - rest;
            memcpy(&got, &cut, sizeof got);
            bad += got != (want & 0xffff0000u);
        }
    }
    assert_int_equal(bad, 0);
}

/* A bf16 value of any exponent, or one whose products lie around the smallest normal number. */
static uint32_t random_bf16(uint64_t *seed, bool small) {
    uint32_t exponent = small ? 60 + random_below(seed, 8) : random_below(seed, 256);
    return ((uint32_t)random_bits(seed) & 0x807f) | exponent << 7;
}

/* bf16 operands of every size, infinities, NaN and denormals among them: the instruction that takes two steps of a
 * chain at once rounds as two multiply-adds do. */
static void test_pairs_of_any_size(void **state) {
    enum { DIM = 32 };
    const kernels *pairs = kernels_of("avx512bf16"), *scalar = kernels_of("scalar");
    _Alignas(64) static uint16_t tile[2 * TILE * DIM];
    _Alignas(64) static float q[DIM / 2][ATTN_ROWS][2], s[2][2][ATTN_ROWS * TILE];
    _Alignas(64) static uint32_t q_pairs[DIM / 4][ATTN_ROWS][2];
    const void *tiles[2] = {tile, tile + TILE * DIM};
    uint64_t seed = 11;
    int bad = 0;
    (void)state;
    if (!pairs) skip();
    uint64_t mode = fp_enter();
    for (int round = 0; round < 4000; round++) {
        for (int i = 0; i < 2 * TILE * DIM; i++) tile[i] = (uint16_t)random_bf16(&seed, round % 2);
        for (int i = 0; i < DIM * ATTN_ROWS; i++) {
            uint32_t bits = random_bf16(&seed, round % 2) << 16;
            memcpy(&q[i / (2 * ATTN_ROWS)][i / 2 % ATTN_ROWS][i % 2], &bits, sizeof bits);
        }
        for (int i = 0; i < DIM / 4; i++)
            for (int r = 0; r < ATTN_ROWS; r++)
                for (int odd = 0; odd < 2; odd++)
                    q_pairs[i][r][odd] = attn_pair(q[2 * i][r][odd], q[2 * i + 1][r][odd]);
        attn_qk_args a = {.k_tile = tiles, .n_pairs = 1, .dim = DIM, .n_rows = 8, .q = q[0][0], .s = s[0][0]};
        a.ahead = (attn_ahead){tiles, 0};
        scalar->attn_qk[ELEMENT_BF16](&a);
        a.q = (const float *)q_pairs[0][0];
        a.s = s[1][0];
        pairs->attn_qk_pairs(&a);
        for (int t = 0; t < 2; t++)
            for (int i = 0; i < 8 * TILE; i++) {
                float x = s[0][t][i], y = s[1][t][i];
                bad += !(x != x && y != y) && memcmp(&x, &y, sizeof x) != 0;
            }
    }
    fp_leave(mode);
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_narrow_by_cutting),
        cmocka_unit_test(test_pairs_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
