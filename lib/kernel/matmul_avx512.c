/* matmul_avx512.c - matrix products in AVX-512 with VNNI: matmul_body.h in its words. */
#include "kernel.h"

#include "words_int_avx512.h"

/* One word by eight rows keeps the multipliers busy: more rows or words were not faster on a Zen 4 server. */
enum {
    INT_ROWS = 8,      /* rows of activations by one word */
    INT_TWO_ROWS = 0,  /* up to so many, two words: never */
    F32_ROWS = 8,      /* rows of activations by one panel */
    WIDE_K = 0,        /* columns widened once for all rows: each tile for itself is as fast */
    AHEAD_ROWS = 4,    /* up to so many rows, memory is the limit: prefetch ... */
    AHEAD_BYTES = 4096 /* ... so far ahead */
};

#include "matmul_body.h"

#define INT(BITS, NAME, FORMAT)                                                                                       \
    INT_TILE(BITS, NAME, FORMAT, 0, 1) INT_TILE(BITS, NAME, FORMAT, 0, 2)                                             \
    INT_TILE(BITS, NAME, FORMAT, 0, 3) INT_TILE(BITS, NAME, FORMAT, 0, 4)                                             \
    INT_TILE(BITS, NAME, FORMAT, 0, 5) INT_TILE(BITS, NAME, FORMAT, 0, 6)                                             \
    INT_TILE(BITS, NAME, FORMAT, 0, 7) INT_TILE(BITS, NAME, FORMAT, 0, 8)                                             \
    static void int##BITS##_##NAME(const mm_panels *w, const act_rows *act, int n_rows, float *y,                     \
                                   size_t y_stride) {                                                                 \
        static const int_tile_fn one[] = {int##BITS##_##NAME##_0_1, int##BITS##_##NAME##_0_2,                         \
                                          int##BITS##_##NAME##_0_3, int##BITS##_##NAME##_0_4,                         \
                                          int##BITS##_##NAME##_0_5, int##BITS##_##NAME##_0_6,                         \
                                          int##BITS##_##NAME##_0_7, int##BITS##_##NAME##_0_8};                        \
        int_panels(one, one, w, act, n_rows, y, y_stride);                                                            \
    }

#define F32(NAME, FORMAT)                                                                                             \
    F32_TILE(NAME, FORMAT, 1) F32_TILE(NAME, FORMAT, 2) F32_TILE(NAME, FORMAT, 3) F32_TILE(NAME, FORMAT, 4)           \
    F32_TILE(NAME, FORMAT, 5) F32_TILE(NAME, FORMAT, 6) F32_TILE(NAME, FORMAT, 7) F32_TILE(NAME, FORMAT, 8)           \
    static const f32_tile_fn tiles_##NAME[] = {f32_##NAME##_1, f32_##NAME##_2, f32_##NAME##_3, f32_##NAME##_4,        \
                                               f32_##NAME##_5, f32_##NAME##_6, f32_##NAME##_7, f32_##NAME##_8};       \
    static void f32_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,                 \
                           size_t y_stride) {                                                                         \
        f32_panels(FORMAT, tiles_##NAME, tiles_f32, w, x, x_stride, n_rows, y, y_stride);                             \
    }

#include "matmul_formats.h"

void matmul_avx512(kernels *k) { matmul_fill(k); }
