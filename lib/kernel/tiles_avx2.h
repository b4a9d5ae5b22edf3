/* tiles_avx2.h - how many rows and words of matrix products run side by side in AVX2, which is what sixteen registers
 * have room for, and a format's tiles and tables of them for matmul_int.h and matmul_f32.h. */
#ifndef KVT_TILES_AVX2_H
#define KVT_TILES_AVX2_H

#include <limits.h>

enum {
    INT_ROWS = 4,        /* rows of activations by one word */
    INT_TWO_ROWS = 2,    /* up to so many rows, both words of a panel */
    F32_ROWS = 6,        /* rows of activations by one panel */
    OWN_ROWS = F32_ROWS, /* up to so many, a format's own tiles widen */
    WIDE_K = 128,        /* columns widened once for all rows: 8 KiB, a quarter of the first-level cache */
    AHEAD_ROWS = 4,      /* up to so many rows, memory is the limit: prefetch ... */
    AHEAD_BYTES = 4096   /* ... so far ahead */
};

#define INT_TILES(NAME, FORMAT)                                                                                    \
    INT_TILE(NAME, FORMAT, 0, 1) INT_TILE(NAME, FORMAT, 0, 2) INT_TILE(NAME, FORMAT, 0, 3)                         \
    INT_TILE(NAME, FORMAT, 0, 4) INT_TILE(NAME, FORMAT, 1, 1) INT_TILE(NAME, FORMAT, 1, 2)                         \
    static const int_tile_fn one_##NAME[] = {NAME##_0_1, NAME##_0_2, NAME##_0_3, NAME##_0_4};                      \
    static const int_tile_fn two_##NAME[] = {NAME##_1_1, NAME##_1_2};

#define F32_TILES(NAME, FORMAT)                                                                                    \
    F32_TILE(NAME, FORMAT, 1) F32_TILE(NAME, FORMAT, 2) F32_TILE(NAME, FORMAT, 3) F32_TILE(NAME, FORMAT, 4)        \
    F32_TILE(NAME, FORMAT, 5) F32_TILE(NAME, FORMAT, 6)                                                            \
    static const f32_tile_fn tiles_##NAME[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4, NAME##_5, NAME##_6};

#endif
