/* matmul_f32.h - matrix products with float32 activations, in the words of the file that includes it (words_int_*.h).
 *
 * Lanes are rows of a panel and each output is one chain over the columns. Accumulators are named variables, made by
 * macros, as in matmul_int.h.
 */
#include "matmul_panel.h"

/* Scales of both groups of a block; the same twice where there is one. */
typedef struct block_scales {
    scales group[2];
} block_scales;

INLINE block_scales block_scales_of(int format, block_at b) {
    scales head = head_of(format, b), first = scales_of(format, b, 0, head);
    return (block_scales){{first, n_groups(format) == 2 ? scales_of(format, b, 1, head) : first}};
}

/* Column 16 * half + 4 * j + i of the block whose codes are given, widened; half and i (0 .. 3) are constants, j is
 * 0 .. 3, for floats up to 7. */
INLINE mf widen(int format, const uint8_t *codes, int half, int j, int i, block_scales block) {
    if (format == WEIGHT_F32) return mf_load(codes + (16 * half + 4 * j + i) * LINE);
    if (format == WEIGHT_F16 || format == WEIGHT_BF16) {
        mi x = mi_load(codes + (8 * half + 2 * j + i / 2) * LINE);
        if (format == WEIGHT_F16) return i % 2 ? mf_f16_second(x) : mf_f16_first(x);
        return i % 2 ? mf_bf16_second(x) : mf_bf16_first(x);
    }
    const weight_layout f = weight_layouts[format];
    const scales s = block.group[half];
    mf q;
    if (f.low == 4 && f.high == 0 && !f.table) q = mf_nibble(mi_load(codes + j * LINE), 8 * i + 4 * half, f.bias);
    else {
        mi x = step_bytes(format, codes, f.low == 8 ? 4 * half + j : 2 * j + half);
        q = mf_byte(f.table ? mi_of_table(x) : f.bias ? mi_less(x, f.bias) : x, i);
    }
    return f.minima ? mf_fma(s.d, q, s.m) : mf_mul(s.d, q);
}

/* One panel by n_rows rows of activations, n_k columns; sums go on from those in y where go_on says so.
 * One panel and no prefetching: two streams at once, or hints beside the processor's own, were measured slower. */
INLINE void f32_tile(int format, int n_rows, const uint8_t *panel, int n_k, const float *x, size_t xs, int go_on,
                     float *y, size_t ys) {
    const int two = WORDS == 2;
    const word_at wa = {panel, 0}, wb = {panel, two};
#define START(r)                                              \
    mf a##r = mf_zero(), b##r = mf_zero();                    \
    if (r < n_rows && go_on) {                                \
        a##r = mf_load(y + r * ys);                           \
        if (two) b##r = mf_load(y + r * ys + LANES);          \
    }
    EACH8(START)
#define FMA(r)                                \
    if (r < n_rows) {                         \
        mf xr = mf_set1(at[r * xs]);          \
        a##r = mf_fma(w, xr, a##r);           \
        if (two) b##r = mf_fma(v, xr, b##r);  \
    }
#define COLUMN(half, j, i)                                                                                \
    {                                                                                                     \
        const float *at = x + 16 * (half) + 4 * (j) + (i);                                                \
        mf w = widen(format, ca, half, j, i, sa), v = two ? widen(format, cb, half, j, i, sb) : w;        \
        EACH8(FMA)                                                                                        \
    }
#define COLUMNS(half, n)               \
    for (int j = 0; j < (n); j++) {    \
        COLUMN(half, j, 0)             \
        COLUMN(half, j, 1)             \
        COLUMN(half, j, 2)             \
        COLUMN(half, j, 3)             \
    }
    for (int k = 0; k < n_k; k += BLOCK, x += BLOCK) {
        const int n = n_k - k;
        const block_at a = block_of(format, wa, (unsigned)(k / BLOCK)), b = block_of(format, wb, (unsigned)(k / BLOCK));
        const uint8_t *ca = codes_of(format, a), *cb = codes_of(format, b);
        block_scales sa = block_scales_of(format, a), sb = block_scales_of(format, b);
        if (n >= BLOCK) {
            COLUMNS(0, 4)
            COLUMNS(1, 4)
        } else if (is_float(format)) {
            COLUMNS(0, n / 4)
            if (n % 4 > 0) COLUMN(0, n / 4, 0)
            if (n % 4 > 1) COLUMN(0, n / 4, 1)
            if (n % 4 > 2) COLUMN(0, n / 4, 2)
        }
    }
#define STORE(r)                                      \
    if (r < n_rows) {                                 \
        mf_store(y + r * ys, a##r);                   \
        if (two) mf_store(y + r * ys + LANES, b##r);  \
    }
    EACH8(STORE)
#undef START
#undef FMA
#undef COLUMN
#undef COLUMNS
#undef STORE
}

typedef void (*f32_tile_fn)(const uint8_t *panel, int n_k, const float *x, size_t xs, int go_on, float *y, size_t ys);

/* All rows by one panel, as many at a time as there are registers for, in groups of one size: 9 rows take longer in 8
 * and 1 than in 5 and 4. */
static void f32_panel(const f32_tile_fn *tile, const uint8_t *panel, int n_k, const float *x, size_t xs, int n_rows,
                      int go_on, float *y, size_t ys) {
    for (int r = 0, n; r < n_rows; r += n) {
        int n_parts = (n_rows - r + F32_ROWS - 1) / F32_ROWS;
        n = (n_rows - r + n_parts - 1) / n_parts;
        tile[n - 1](panel, n_k, x + (size_t)r * xs, xs, go_on, y + (size_t)r * ys, ys);
    }
}

/* Blocks of a panel to a panel of float32, columns past the end of the matrix included. */
INLINE void widen_panel(int format, const uint8_t *panel, int block, int n_blocks, float *out) {
    const word_at wa = {panel, 0}, wb = {panel, WORDS - 1};
    block_at a = block_of(format, wa, (unsigned)block), b = block_of(format, wb, (unsigned)block);
    for (int n = 0; n < n_blocks; n++, out += BLOCK * TILE) {
        const uint8_t *ca = codes_of(format, a), *cb = codes_of(format, b);
        block_scales sa = block_scales_of(format, a), sb = block_scales_of(format, b);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    float *to = out + (16 * half + 4 * j + i) * TILE;
                    mf_store(to, widen(format, ca, half, j, i, sa));
                    if (WORDS == 2) mf_store(to + LANES, widen(format, cb, half, j, i, sb));
                }
        a = block_next(format, a), b = block_next(format, b);
    }
}

/* Up to own_rows rows, a format's own tiles do it; where there are more (or it has none), WIDE_K columns at a time are
 * widened once for all, into the first-level cache, as a panel of float32. Sums wait in y in between: a float that was
 * stored is the float that was summed. */
INLINE void f32_panels(int format, const f32_tile_fn *own, int own_rows, const f32_tile_fn *tile_f32,
                       const mm_panels *w, const float *x, size_t xs, int n_rows, float *y, size_t ys) {
    _Alignas(LINE) float wide[WIDE_K * TILE];
    for (int p = 0; p < w->n_panels; p++, y += TILE) {
        const uint8_t *panel = w->data + (size_t)p * w->panel_bytes;
        if (n_rows <= own_rows) {
            f32_panel(own, panel, w->n_k, x, xs, n_rows, 0, y, ys);
            continue;
        }
        for (int k = 0; k < w->n_k; k += WIDE_K) {
            int n = w->n_k - k < WIDE_K ? w->n_k - k : WIDE_K;
            widen_panel(format, panel, k / BLOCK, (n + BLOCK - 1) / BLOCK, wide);
            f32_panel(tile_f32, (const uint8_t *)wide, n, x + k, xs, n_rows, k > 0, y, ys);
        }
    }
}

/* --------------------------------------------------------------------------------- one function for each case
 *
 * The including file defines F32_TILES(NAME, FORMAT), its tiles and the table tiles_NAME of them. A tile for every
 * count of rows in every format would be much code for little: formats of blocks of 256 and the like have none. */

#define F32_TILE(NAME, FORMAT, ROWS)                                                                               \
    static __attribute__((noinline)) void NAME##_##ROWS(const uint8_t *panel, int n_k, const float *x, size_t xs,  \
                                                        int go_on, float *y, size_t ys) {                          \
        f32_tile(FORMAT, ROWS, panel, n_k, x, xs, go_on, y, ys);                                                   \
    }
#define F32(NAME, FORMAT, OWN, OWN_ROWS)                                                                           \
    static void f32_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y,              \
                           size_t y_stride) {                                                                      \
        f32_panels(FORMAT, OWN, OWN_ROWS, tiles_f32, w, x, x_stride, n_rows, y, y_stride);                         \
    }
#define F32_OWN(NAME, FORMAT)                                                                                      \
    F32_TILES(NAME, FORMAT)                                                                                        \
    F32(NAME, FORMAT, tiles_##NAME, FORMAT == WEIGHT_F32 ? INT_MAX : OWN_ROWS)
#define F32_WIDENED(NAME, FORMAT) F32(NAME, FORMAT, NULL, 0)
