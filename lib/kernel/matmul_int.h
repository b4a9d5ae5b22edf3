/* matmul_int.h - matrix products with activations as codes of BITS bits, which the including file defines before, in
 * its words (words_int_*.h).
 *
 * Lanes are rows of a panel, so a sum never crosses lanes and each output is one chain in the contract's order. What
 * varies is how many words (of panels) and how many rows of activations run side by side. Accumulators are named
 * variables, made by macros: compilers keep arrays of them in memory. Functions on a format are inlined with
 * constants; the tables at the end hold one function for each.
 */
#include "matmul_panel.h"

INLINE code step_code(int format, const uint8_t *codes, int j) {
    const weight_layout f = weight_layouts[format];
    if (BITS == 16 && f.low == 4 && f.high == 0 && !f.table) {
        mi x = mi_load(codes + j / 2 * LINE);
        return j % 2 ? wide4_high(x) : wide4_low(x);
    }
    mi x = step_bytes(format, codes, j);
    if (BITS == 8) return f.table ? code8_of_table(x) : is_signed_code(format) ? code8(x) : code_unsigned(x);
    return is_signed_code(format) ? wide8(f.table ? mi_of_table(x) : x) : wide_unsigned(x);
}

/* Of group g of a block: there are one or two. */
INLINE int32_t group_sum(int format, int g, const int32_t *sum, const int32_t *half) {
    return n_groups(format) == 1 ? *sum : g == 0 ? *half : *sum - *half;
}
INLINE float group_fs(int format, const float *s, const float *fs, int32_t sum) {
    return n_groups(format) == 1 ? *fs : *s * (float)sum;
}

/* What the bias takes off the dot over group g, in every lane. With a sum as it lies in memory vector
 * arithmetic is faster, with the difference of two the other kind. */
INLINE mi dot_bias(int format, int g, const int32_t *sum, const int32_t *half) {
    const int bias = BITS == 8 && is_signed_code(format) ? CODE8_BIAS : weight_layouts[format].bias;
    if (bias == 0) return mi_zero();
    if (n_groups(format) == 1) return mi_minus_times(mi_set4(sum), bias);
    return mi_set1(-bias * group_sum(format, g, sum, half));
}

INLINE dot dot_start(int format, mi bias) {
    if (BITS == 16) return dot16_start(bias);
    return is_signed_code(format) ? dot8_start(bias) : dot_unsigned_start(bias);
}
/* q: four activations; n: of the n_steps of the dot, which one this is. */
INLINE dot dot_add(int format, dot d, code w, const uint8_t *q, int n, int n_steps) {
    const weight_layout f = weight_layouts[format];
    if (BITS == 16) return dot16_add(d, w, mi_set4(q), mi_set4(q + 4));
    if (is_signed_code(format)) return dot8_add(d, w, mi_set4(q));
    return dot_unsigned_add(d, w, mi_set4(q), f.low + f.high, n, n_steps);
}
INLINE mi dot_end(int format, dot d, mi bias) {
    return BITS == 16 || is_signed_code(format) ? dot_sum(d) : dot_unsigned_end(d, bias);
}

/* A block's n_lines lines of codes are prefetched one by one, spread over its steps; j: the steps done. */
INLINE void prefetch_codes(const uint8_t *codes, int n_lines, int j) {
    const int line = (j * n_lines + STEPS - 1) / STEPS;
    if (line < n_lines && line * STEPS / n_lines == j) prefetch_line(codes + line * LINE + AHEAD_BYTES);
}
/* And one of its chunk's lines of scales, as long as there are any. */
INLINE void prefetch_scales(int format, block_at b) {
    if (b.place < scale_bytes(format) / LINE)
        prefetch_line(scale_lines_of(format, b) + b.place * LINE + AHEAD_BYTES);
}

/* Words of two rows of outputs at most (a and b) by n_rows rows of activations, all columns. */
INLINE void int_tile(int format, int two, int n_rows, word_at wa, word_at wb, int n_blocks, const act_rows *act,
                     float *y, size_t y_stride) {
    const size_t qs = act->q_stride, bs = act->block_stride;
    const int groups = n_groups(format), n_steps = STEPS / groups, minima = weight_layouts[format].minima;
    const uint8_t *q = act->q;
    const float *s = act->s, *fs = act->fs;
    const int32_t *sum = act->sum, *half = act->half;
#define START(r) mf a##r = mf_zero(), b##r = mf_zero();
    EACH8(START)
    block_at a = block_of(format, wa, 0), b = block_of(format, wb, 0);
    scales ha = {mf_zero(), mf_zero()}, hb = ha;
    for (int i = 0; i < n_blocks; i++, q += BLOCK * BITS / 8, s++, fs++, sum++, half++) {
        const uint8_t *ca = codes_of(format, a), *cb = codes_of(format, b);
        if (a.place == 0) ha = head_of(format, a), hb = head_of(format, b);
#pragma GCC unroll 2
        for (int g = 0; g < groups; g++) {
#define BIAS(r) dot_bias(format, g, sum + r * bs, half + r * bs)
#define DOT(r) dot d##r = dot_start(format, r < n_rows ? BIAS(r) : mi_zero()), e##r = d##r;
            EACH8(DOT)
#pragma GCC unroll 8
            for (int n = 0; n < n_steps; n++) {
                const int j = n * groups + g; /* of two groups the first has the even steps */
                code w = step_code(format, ca, j), v = step_code(format, cb, j);
                if (n_rows <= AHEAD_ROWS)
                    prefetch_codes(ca, code_bytes(format) / LINE, g * n_steps + n);
#define ADD(r)                                                              \
    if (r < n_rows) {                                                       \
        const uint8_t *x = q + r * qs + step_k(format, j) * BITS / 8;       \
        d##r = dot_add(format, d##r, w, x, n, n_steps);                     \
        if (two) e##r = dot_add(format, e##r, v, x, n, n_steps);            \
    }
                EACH8(ADD)
            }
            const scales sa = scales_of(format, a, g, ha), sb = scales_of(format, b, g, hb);
#define SCALE(r)                                                                                       \
    if (r < n_rows) {                                                                                  \
        const int32_t n = group_sum(format, g, sum + r * bs, half + r * bs);                           \
        mf xs = mf_set1(s[r * bs]), xf = mf_set1(group_fs(format, s + r * bs, fs + r * bs, n));        \
        a##r = mf_fma(mf_from_i(dot_end(format, d##r, BIAS(r))), mf_mul(sa.d, xs), a##r);              \
        if (minima) a##r = mf_fma(sa.m, xf, a##r);                                                     \
        if (two) b##r = mf_fma(mf_from_i(dot_end(format, e##r, BIAS(r))), mf_mul(sb.d, xs), b##r);     \
        if (two && minima) b##r = mf_fma(sb.m, xf, b##r);                                              \
    }
            EACH8(SCALE)
        }
        if (n_rows <= AHEAD_ROWS) prefetch_scales(format, a);
        a = block_next(format, a), b = block_next(format, b);
    }
#define STORE(r)                                              \
    if (r < n_rows) {                                         \
        mf_store(y + r * y_stride, a##r);                     \
        if (two) mf_store(y + r * y_stride + LANES, b##r);    \
    }
    EACH8(STORE)
#undef START
#undef BIAS
#undef DOT
#undef ADD
#undef SCALE
#undef STORE
}

typedef void (*int_tile_fn)(word_at wa, word_at wb, int n_blocks, const act_rows *act, float *y, size_t y_stride);

/* Panel by panel, so that it stays in the first-level cache while the activations come from the second.
 * one, two: the tiles of one and of two words, for 1, 2, ... rows. */
INLINE void int_panels(const int_tile_fn *one, const int_tile_fn *two, const mm_panels *w, const act_rows *act,
                       int n_rows, float *y, size_t y_stride) {
    /* Words of a panel are an even number where two go together. */
    const int step = INT_TWO_ROWS > 0 && n_rows <= INT_TWO_ROWS ? 2 : 1, n_words = w->n_panels * WORDS;
    const int_tile_fn *tile = step == 2 ? two : one;
    for (int i = 0; i < n_words; i += step) {
        word_at wa = word_of(w, i), wb = word_of(w, i + step - 1);
        for (int r = 0, n; r < n_rows; r += n) {
            n = n_rows - r < INT_ROWS ? n_rows - r : INT_ROWS;
            size_t sr = (size_t)r * act->block_stride;
            act_rows at = *act;
            at.q = (const uint8_t *)act->q + (size_t)r * act->q_stride;
            at.s += sr, at.fs += sr, at.sum += sr, at.half += sr;
            tile[n - 1](wa, wb, w->n_k / BLOCK, &at, y + (size_t)r * y_stride + i * LANES, y_stride);
        }
    }
}

/* --------------------------------------------------------------------------------- one function for each case
 *
 * The including file defines INT_TILES(NAME, FORMAT), its tiles and the tables one_NAME and two_NAME of them. */

#define INT_TILE(NAME, FORMAT, TWO, ROWS)                                                                        \
    static __attribute__((noinline)) void NAME##_##TWO##_##ROWS(word_at wa, word_at wb, int n_blocks,            \
                                                                const act_rows *act, float *y, size_t y_stride) {  \
        int_tile(FORMAT, TWO, ROWS, wa, wb, n_blocks, act, y, y_stride);                                         \
    }
#define INT(NAME, FORMAT)                                                                                        \
    INT_TILES(NAME, FORMAT)                                                                                      \
    static void int_##NAME(const mm_panels *w, const act_rows *act, int n_rows, float *y, size_t y_stride) {     \
        int_panels(one_##NAME, two_##NAME, w, act, n_rows, y, y_stride);                                         \
    }
