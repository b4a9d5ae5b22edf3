/* matmul_body.h - matrix products in the vector words of the file that includes it (words_int_*.h).
 *
 * Lanes are rows of a panel, so a sum never crosses lanes and each output is one chain in the contract's order. What
 * varies is how many words (of panels) and how many rows of activations run side by side. Accumulators are named
 * variables, made by macros: compilers keep arrays of them in memory. Functions on a format are inlined with
 * constants; the tables at the end hold one function for each.
 */

#define INLINE static inline __attribute__((always_inline))

enum { LINE = 64, CHUNK = 64, BLOCK = 32 }; /* bytes of a line; columns of a chunk and of a block */

INLINE int is_float(int format) { return format <= WEIGHT_BF16; }
INLINE int has_min(int format) { return format == WEIGHT_Q4_1; }
INLINE int code_bias(int format) { return format == WEIGHT_Q4_0 ? 8 : 0; }
/* Of a block of 32 columns, without its scales. */
INLINE int code_bytes(int format) {
    return format == WEIGHT_F32 ? 2048 : is_float(format) ? 1024 : format == WEIGHT_Q8_0 ? 512 : 256;
}
INLINE size_t chunk_bytes(int format) {
    return (size_t)(2 * code_bytes(format) + (is_float(format) ? 0 : LINE) + has_min(format) * LINE);
}

/* Word i of a range of panels: words of one panel lie side by side in its lines. */
typedef struct word_at {
    const uint8_t *panel;
    int part; /* which of the words of a line, 0 .. WORDS - 1 */
} word_at;

INLINE word_at word_of(const mm_panels *w, int i) {
    return (word_at){w->data + (size_t)(i / WORDS) * w->panel_bytes, i % WORDS};
}

/* Codes of a block; its scales, and its minima a line behind. */
INLINE const uint8_t *codes_of(int format, word_at w, int b) {
    return w.panel + (size_t)(b >> 1) * chunk_bytes(format) + (b & 1) * code_bytes(format) + w.part * 4 * LANES;
}
INLINE const uint8_t *scales_of(int format, word_at w, int b) {
    return w.panel + (size_t)(b >> 1) * chunk_bytes(format) + 2 * code_bytes(format) + (b & 1) * (LINE / 2) +
           w.part * 2 * LANES;
}

/* ------------------------------------------------------------------------------------ activations as codes
 *
 * bits: of an activation, 8 or 16. */

#define EACH8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Step j (0 .. 7) of a block: four columns, from column step_k on. Both nibbles of a line follow each other. */
INLINE int step_k(int format, int j) { return format == WEIGHT_Q8_0 ? 4 * j : j / 2 * 4 + j % 2 * 16; }
INLINE code step_code(int format, int bits, const uint8_t *codes, int j) {
    mi x = mi_load(codes + (format == WEIGHT_Q8_0 ? j : j / 2) * LINE);
    if (format == WEIGHT_Q8_0) return bits == 8 ? code8(x) : wide8(x);
    if (bits == 8) return j % 2 ? code4_high(x) : code4_low(x);
    return j % 2 ? wide4_high(x) : wide4_low(x);
}
INLINE mi dot_start(int format, int bits, int sum) {
    if (bits == 16) return dot16_start(code_bias(format), sum);
    return format == WEIGHT_Q8_0 ? dot8_start(sum) : dot4_start(code_bias(format), sum);
}
/* q: four activations. */
INLINE mi dot_add(int format, int bits, mi d, code w, const uint8_t *q) {
    if (bits == 16) return dot16_add(d, w, mi_set4(q), mi_set4(q + 4));
    return format == WEIGHT_Q8_0 ? dot8_add(d, w, mi_set4(q)) : dot4_add(d, w, mi_set4(q));
}
INLINE mi dot_end(int format, int bits, mi d, int sum) {
    return bits == 16 || format == WEIGHT_Q8_0 ? d : dot4_end(d, code_bias(format), sum);
}

/* Words of two rows of outputs at most (a and b) by n_rows rows of activations, all columns. */
INLINE void int_tile(int format, int bits, int two, int n_rows, word_at wa, word_at wb, int n_blocks,
                     const act_rows *act, float *y, size_t y_stride) {
    const size_t qs = act->q_stride, bs = act->block_stride;
    const uint8_t *q = act->q;
    const float *s = act->s, *fs = act->fs;
    const int32_t *sum = act->sum;
#define START(r) mf a##r = mf_zero(), b##r = mf_zero();
    EACH8(START)
    for (int i = 0; i < n_blocks; i++, q += BLOCK * bits / 8, s++, fs++, sum++) {
        const uint8_t *ca = codes_of(format, wa, i), *cb = codes_of(format, wb, i);
        const uint8_t *sa = scales_of(format, wa, i), *sb = scales_of(format, wb, i);
#define DOT(r) mi d##r = dot_start(format, bits, r < n_rows ? sum[r * bs] : 0), e##r = d##r;
        EACH8(DOT)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            code w = step_code(format, bits, ca, j), v = step_code(format, bits, cb, j);
            if (n_rows <= AHEAD_ROWS && j % (LINE * 8 / code_bytes(format)) == 0) {
                prefetch_line(ca + j * (code_bytes(format) / 8) + AHEAD_BYTES);
                if (two && WORDS == 1) prefetch_line(cb + j * (code_bytes(format) / 8) + AHEAD_BYTES);
            }
#define ADD(r)                                                              \
    if (r < n_rows) {                                                       \
        const uint8_t *x = q + r * qs + step_k(format, j) * bits / 8;       \
        d##r = dot_add(format, bits, d##r, w, x);                           \
        if (two) e##r = dot_add(format, bits, e##r, v, x);                  \
    }
            EACH8(ADD)
        }
        if (n_rows <= AHEAD_ROWS && i % 2 == 0) {
            prefetch_line(sa + AHEAD_BYTES);
            if (has_min(format)) prefetch_line(sa + LINE + AHEAD_BYTES);
        }
        mf wd = mf_load_f16(sa), vd = mf_load_f16(sb), wm = wd, vm = vd;
        if (has_min(format)) wm = mf_load_f16(sa + LINE), vm = mf_load_f16(sb + LINE);
#define SCALE(r)                                                                                            \
    if (r < n_rows) {                                                                                       \
        mf xs = mf_set1(s[r * bs]), xf = mf_set1(fs[r * bs]);                                               \
        a##r = mf_fma(mf_from_i(dot_end(format, bits, d##r, sum[r * bs])), mf_mul(wd, xs), a##r);           \
        if (has_min(format)) a##r = mf_fma(wm, xf, a##r);                                                   \
        if (two) b##r = mf_fma(mf_from_i(dot_end(format, bits, e##r, sum[r * bs])), mf_mul(vd, xs), b##r);  \
        if (two && has_min(format)) b##r = mf_fma(vm, xf, b##r);                                            \
    }
        EACH8(SCALE)
    }
#define STORE(r)                                              \
    if (r < n_rows) {                                         \
        mf_store(y + r * y_stride, a##r);                     \
        if (two) mf_store(y + r * y_stride + LANES, b##r);    \
    }
    EACH8(STORE)
#undef START
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
            at.s += sr, at.fs += sr, at.sum += sr;
            tile[n - 1](wa, wb, w->n_k / BLOCK, &at, y + (size_t)r * y_stride + i * LANES, y_stride);
        }
    }
}

/* -------------------------------------------------------------------------------------- float activations */

typedef struct scales {
    mf d, m;
} scales;

INLINE scales scales_load(int format, word_at w, int b) {
    scales s = {mf_zero(), mf_zero()};
    if (is_float(format)) return s;
    const uint8_t *p = scales_of(format, w, b);
    s.d = mf_load_f16(p);
    if (has_min(format)) s.m = mf_load_f16(p + LINE);
    return s;
}

/* Column 16 * half + 4 * j + i of the block whose codes are given, widened; half and i (0 .. 3) are constants, j is
 * 0 .. 3, for floats up to 7. */
INLINE mf widen(int format, const uint8_t *codes, int half, int j, int i, scales s) {
    if (format == WEIGHT_F32) return mf_load(codes + (16 * half + 4 * j + i) * LINE);
    if (format == WEIGHT_F16 || format == WEIGHT_BF16) {
        mi x = mi_load(codes + (8 * half + 2 * j + i / 2) * LINE);
        if (format == WEIGHT_F16) return i % 2 ? mf_f16_second(x) : mf_f16_first(x);
        return i % 2 ? mf_bf16_second(x) : mf_bf16_first(x);
    }
    if (format == WEIGHT_Q8_0) return mf_mul(s.d, mf_byte(mi_load(codes + (4 * half + j) * LINE), i));
    mf q = mf_nibble(mi_load(codes + j * LINE), 8 * i + 4 * half, code_bias(format));
    return has_min(format) ? mf_fma(s.d, q, s.m) : mf_mul(s.d, q);
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
        int b = k / BLOCK, n = n_k - k;
        const uint8_t *ca = codes_of(format, wa, b), *cb = codes_of(format, wb, b);
        scales sa = scales_load(format, wa, b), sb = scales_load(format, wb, b);
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
        int n_groups = (n_rows - r + F32_ROWS - 1) / F32_ROWS;
        n = (n_rows - r + n_groups - 1) / n_groups;
        tile[n - 1](panel, n_k, x + (size_t)r * xs, xs, go_on, y + (size_t)r * ys, ys);
    }
}

/* Blocks of a panel to a panel of float32, columns past the end of the matrix included. */
INLINE void widen_panel(int format, const uint8_t *panel, int block, int n_blocks, float *out) {
    const word_at wa = {panel, 0}, wb = {panel, WORDS - 1};
    for (int b = block; b < block + n_blocks; b++, out += BLOCK * TILE) {
        const uint8_t *ca = codes_of(format, wa, b), *cb = codes_of(format, wb, b);
        scales sa = scales_load(format, wa, b), sb = scales_load(format, wb, b);
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++)
            for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++) {
                    float *to = out + (16 * half + 4 * j + i) * TILE;
                    mf_store(to, widen(format, ca, half, j, i, sa));
                    if (WORDS == 2) mf_store(to + LANES, widen(format, cb, half, j, i, sb));
                }
    }
}

/* Where there are more rows than one tile takes, WIDE_K columns are widened once for all, into the first-level cache,
 * as a panel of float32 (WIDE_K 0: each tile widens for itself). Sums wait in y in between: a float that was stored is
 * the float that was summed. */
INLINE void f32_panels(int format, const f32_tile_fn *tile, const f32_tile_fn *tile_f32, const mm_panels *w,
                       const float *x, size_t xs, int n_rows, float *y, size_t ys) {
    _Alignas(LINE) float wide[WIDE_K > 0 ? WIDE_K * TILE : 1];
    for (int p = 0; p < w->n_panels; p++, y += TILE) {
        const uint8_t *panel = w->data + (size_t)p * w->panel_bytes;
        if (WIDE_K == 0 || n_rows <= F32_ROWS || format == WEIGHT_F32) {
            f32_panel(tile, panel, w->n_k, x, xs, n_rows, 0, y, ys);
            continue;
        }
        for (int k = 0; WIDE_K > 0 && k < w->n_k; k += WIDE_K) {
            int n = w->n_k - k < WIDE_K ? w->n_k - k : WIDE_K;
            widen_panel(format, panel, k / BLOCK, (n + BLOCK - 1) / BLOCK, wide);
            f32_panel(tile_f32, (const uint8_t *)wide, n, x + k, xs, n_rows, k > 0, y, ys);
        }
    }
}

/* --------------------------------------------------------------------------------- one function for each case */

#define INT_TILE(BITS, NAME, FORMAT, TWO, ROWS)                                                                    \
    static __attribute__((noinline)) void int##BITS##_##NAME##_##TWO##_##ROWS(                                     \
        word_at wa, word_at wb, int n_blocks, const act_rows *act, float *y, size_t y_stride) {                    \
        int_tile(FORMAT, BITS, TWO, ROWS, wa, wb, n_blocks, act, y, y_stride);                                     \
    }
#define F32_TILE(NAME, FORMAT, ROWS)                                                                               \
    static __attribute__((noinline)) void f32_##NAME##_##ROWS(const uint8_t *panel, int n_k, const float *x,       \
                                                              size_t xs, int go_on, float *y, size_t ys) {         \
        f32_tile(FORMAT, ROWS, panel, n_k, x, xs, go_on, y, ys);                                                   \
    }
