/* tiles_avx512.h - how many rows and words of matrix products run side by side in AVX-512, and a format's tiles and
 * tables of them for matmul_int.h and matmul_f32.h.
 * One word by eight rows keeps the multipliers busy: more rows or words were not faster on a Zen 4 server. */
#ifndef KVT_TILES_AVX512_H
#define KVT_TILES_AVX512_H

#include <limits.h>

enum {
    INT_ROWS = 8,       /* rows of activations by one word */
    INT_TWO_ROWS = 0,   /* up to so many, two words: never */
    F32_ROWS = 8,       /* rows of activations by one panel */
    OWN_ROWS = INT_MAX, /* up to so many, a format's own tiles widen: each for itself is as fast as once for all */
    WIDE_K = 128,       /* columns widened once for all rows: 8 KiB, a quarter of the first-level cache */
    AHEAD_ROWS = 4,     /* up to so many rows, memory is the limit: prefetch ... */
    AHEAD_BYTES = 4096  /* ... so far ahead */
};

#define INT_TILES(NAME, FORMAT)                                                                                    \
    INT_TILE(NAME, FORMAT, 0, 1) INT_TILE(NAME, FORMAT, 0, 2) INT_TILE(NAME, FORMAT, 0, 3)                         \
    INT_TILE(NAME, FORMAT, 0, 4) INT_TILE(NAME, FORMAT, 0, 5) INT_TILE(NAME, FORMAT, 0, 6)                         \
    INT_TILE(NAME, FORMAT, 0, 7) INT_TILE(NAME, FORMAT, 0, 8)                                                      \
    static const int_tile_fn one_##NAME[] = {NAME##_0_1, NAME##_0_2, NAME##_0_3, NAME##_0_4,                       \
                                             NAME##_0_5, NAME##_0_6, NAME##_0_7, NAME##_0_8};                      \
    static const int_tile_fn *const two_##NAME = one_##NAME;

#define F32_TILES(NAME, FORMAT)                                                                                    \
    F32_TILE(NAME, FORMAT, 1) F32_TILE(NAME, FORMAT, 2) F32_TILE(NAME, FORMAT, 3) F32_TILE(NAME, FORMAT, 4)        \
    F32_TILE(NAME, FORMAT, 5) F32_TILE(NAME, FORMAT, 6) F32_TILE(NAME, FORMAT, 7) F32_TILE(NAME, FORMAT, 8)        \
    static const f32_tile_fn tiles_##NAME[] = {NAME##_1, NAME##_2, NAME##_3, NAME##_4,                             \
                                               NAME##_5, NAME##_6, NAME##_7, NAME##_8};

#endif
