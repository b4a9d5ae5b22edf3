/* matmul_avx2.c - matrix products in AVX2: matmul_body.h in its words. */
#include "kernel.h"

#include "words_int_avx2.h"

/* What sixteen registers have room for. */
enum {
    INT_ROWS = 4,      /* rows of activations by one word */
    INT_TWO_ROWS = 2,  /* up to so many, both words of a panel */
    F32_ROWS = 6,      /* rows of activations by one panel */
    WIDE_K = 128,      /* columns widened once for all rows: 8 KiB, a quarter of the first-level cache */
    AHEAD_ROWS = 4,    /* up to so many rows, memory is the limit: prefetch ... */
    AHEAD_BYTES = 4096 /* ... so far ahead */
};

#include "matmul_body.h"

#define INT(BITS, NAME, FORMAT)                                                                                       \
    INT_TILE(BITS, NAME, FORMAT, 0, 1) INT_TILE(BITS, NAME, FORMAT, 0, 2)                                             \
    INT_TILE(BITS, NAME, FORMAT, 0, 3) INT_TILE(BITS, NAME, FORMAT, 0, 4)                                             \
    INT_TILE(BITS, NAME, FORMAT, 1, 1) INT_TILE(BITS, NAME, FORMAT, 1, 2)                                             \
    static void int##BITS##_##NAME(const mm_panels *w, const act_rows *act, int n_rows, float *y,                     \
                                   size_t y_stride) {                                                                 \
        static const int_tile_fn one[] = {int##BITS##_##NAME##_0_1, int##BITS##_##NAME##_0_2,                         \
                                          int##BITS##_##NAME##_0_3, int##BITS##_##NAME##_0_4};                        \
        static const int_tile_fn two[] = {int##BITS##_##NAME##_1_1, int##BITS##_##NAME##_1_2};                        \
        int_panels(one, two, w, act, n_rows, y, y_stride);                                                            \
    }

#define F32(NAME, FORMAT)                                                                                             \
    F32_TILE(NAME, FORMAT, 1) F32_TILE(NAME, FORMAT, 2) F32_TILE(NAME, FORMAT, 3) F32_TILE(NAME, FORMAT, 4)           \
    F32_TILE(NAME, FORMAT, 5) F32_TILE(NAME, FORMAT, 6)                                                               \
    static const f32_tile_fn tiles_##NAME[] = {f32_##NAME##_1, f32_##NAME##_2, f32_##NAME##_3,                        \
                                               f32_##NAME##_4, f32_##NAME##_5, f32_##NAME##_6};                       \
    static void f32_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,                 \
                           size_t y_stride) {                                                                         \
        f32_panels(FORMAT, tiles_##NAME, tiles_f32, w, x, x_stride, n_rows, y, y_stride);                             \
    }

#include "matmul_formats.h"

void matmul_avx2(kernels *k) { matmul_fill(k); }
