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

/* ---------------------------------------------------------------------------------------------- fast mode */

#define EACH8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

/* Step j (0 .. 7) of a block: four columns, from column step_k on. Both nibbles of a line follow each other. */
INLINE int step_k(int format, int j) { return format == WEIGHT_Q8_0 ? 4 * j : j / 2 * 4 + j % 2 * 16; }
INLINE code step_code(int format, const uint8_t *codes, int j) {
    if (format == WEIGHT_Q8_0) return code8(mi_load(codes + j * LINE));
    mi x = mi_load(codes + j / 2 * LINE);
    return j % 2 ? code4_high(x) : code4_low(x);
}
INLINE mi dot_start(int format, int sum) {
    return format == WEIGHT_Q8_0 ? dot8_start(sum) : dot4_start(code_bias(format), sum);
}
INLINE mi dot_add(int format, mi d, code w, mi x) {
    return format == WEIGHT_Q8_0 ? dot8_add(d, w, x) : dot4_add(d, w, x);
}
INLINE mi dot_end(int format, mi d, int sum) {
    return format == WEIGHT_Q8_0 ? d : dot4_end(d, code_bias(format), sum);
}

/* Words of two rows of outputs at most (a and b) by n_rows rows of activations, all columns. */
INLINE void int8_tile(int format, int two, int n_rows, word_at wa, word_at wb, int n_blocks, const act_rows *act,
                      float *y, size_t y_stride) {
    const size_t qs = act->q_stride, bs = act->block_stride;
    const int8_t *q = act->q;
    const float *s = act->s, *fs = act->fs;
    const int32_t *sum = act->sum;
#define START(r) mf a##r = mf_zero(), b##r = mf_zero();
    EACH8(START)
    for (int i = 0; i < n_blocks; i++, q += BLOCK, s++, fs++, sum++) {
        const uint8_t *ca = codes_of(format, wa, i), *cb = codes_of(format, wb, i);
        const uint8_t *sa = scales_of(format, wa, i), *sb = scales_of(format, wb, i);
#define DOT(r) mi d##r = dot_start(format, r < n_rows ? sum[r * bs] : 0), e##r = d##r;
        EACH8(DOT)
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            code w = step_code(format, ca, j), v = step_code(format, cb, j);
            if (n_rows <= AHEAD_ROWS && j % (LINE * 8 / code_bytes(format)) == 0) {
                prefetch_line(ca + j * (code_bytes(format) / 8) + AHEAD_BYTES);
                if (two && WORDS == 1) prefetch_line(cb + j * (code_bytes(format) / 8) + AHEAD_BYTES);
            }
#define ADD(r)                                                  \
    if (r < n_rows) {                                           \
        mi x = mi_set4(q + r * qs + step_k(format, j));         \
        d##r = dot_add(format, d##r, w, x);                     \
        if (two) e##r = dot_add(format, e##r, v, x);            \
    }
            EACH8(ADD)
        }
        mf wd = mf_load_f16(sa), vd = mf_load_f16(sb), wm = wd, vm = vd;
        if (has_min(format)) wm = mf_load_f16(sa + LINE), vm = mf_load_f16(sb + LINE);
#define SCALE(r)                                                                                      \
    if (r < n_rows) {                                                                                 \
        mf xs = mf_set1(s[r * bs]), xf = mf_set1(fs[r * bs]);                                         \
        a##r = mf_fma(mf_from_i(dot_end(format, d##r, sum[r * bs])), mf_mul(wd, xs), a##r);           \
        if (has_min(format)) a##r = mf_fma(wm, xf, a##r);                                             \
        if (two) b##r = mf_fma(mf_from_i(dot_end(format, e##r, sum[r * bs])), mf_mul(vd, xs), b##r);  \
        if (two && has_min(format)) b##r = mf_fma(vm, xf, b##r);                                      \
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

typedef void (*int8_tile_fn)(word_at wa, word_at wb, int n_blocks, const act_rows *act, float *y, size_t y_stride);

/* Panel by panel, so that it stays in the first-level cache while the activations come from the second.
 * one, two: the tiles of one and of two words, for 1, 2, ... rows. */
INLINE void int8_panels(const int8_tile_fn *one, const int8_tile_fn *two, const mm_panels *w, const act_rows *act,
                        int n_rows, float *y, size_t y_stride) {
    int n_blocks = w->n_k / BLOCK, n_words = w->n_panels * WORDS;
    for (int i = 0, step; i < n_words; i += step) {
        step = n_words - i >= 2 && n_rows <= INT8_TWO_ROWS ? 2 : 1;
        word_at wa = word_of(w, i), wb = word_of(w, i + step - 1);
        for (int r = 0, n; r < n_rows; r += n) {
            n = n_rows - r < INT8_ROWS ? n_rows - r : INT8_ROWS;
            size_t qr = (size_t)r * act->q_stride, sr = (size_t)r * act->block_stride;
            act_rows at = {act->q + qr, act->s + sr, act->fs + sr, act->sum + sr, act->q_stride, act->block_stride};
            (step == 2 ? two : one)[n - 1](wa, wb, n_blocks, &at, y + (size_t)r * y_stride + i * LANES, y_stride);
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

/* Column 4 * j + i (j 0 .. 7, i 0 .. 3) of the block whose codes are given, widened. */
INLINE mf widen(int format, const uint8_t *codes, int j, int i, scales s) {
    if (format == WEIGHT_F32) return mf_load(codes + (4 * j + i) * LINE);
    if (format == WEIGHT_F16 || format == WEIGHT_BF16) {
        mi x = mi_load(codes + (2 * j + i / 2) * LINE);
        if (format == WEIGHT_F16) return i % 2 ? mf_f16_second(x) : mf_f16_first(x);
        return i % 2 ? mf_bf16_second(x) : mf_bf16_first(x);
    }
    if (format == WEIGHT_Q8_0) return mf_mul(s.d, mf_byte(mi_load(codes + j * LINE), i));
    mf q = mf_nibble(mi_load(codes + j % 4 * LINE), 8 * i + j / 4 * 4, code_bias(format));
    return has_min(format) ? mf_fma(s.d, q, s.m) : mf_mul(s.d, q);
}

/* Four words (0 .. 3) by up to four rows of activations: their sixteen chains hide the latency of a fused
 * multiplication. */
#define GRID(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define GRID4(X) GRID(X, 0) GRID(X, 1) GRID(X, 2) GRID(X, 3)

/* Few rows: weights go from memory to the sums and are not kept. */
INLINE void direct_tile(int format, int n_rows, const word_at w[4], int n_k, const float *x, size_t xs, float *const y[4],
                        size_t y_stride) {
#define START(p, r) mf a##p##r = mf_zero();
    GRID4(START)
#define FMA(p, r) \
    if (r < n_rows) a##p##r = mf_fma(weight, x##r, a##p##r);
#define WORD_COLUMN(p, j, i)                          \
    {                                                 \
        mf weight = widen(format, c##p, j, i, s##p);  \
        GRID(FMA, p)                                  \
    }
#define COLUMN(j, i)                                                                                                \
    {                                                                                                               \
        const float *at = x + 4 * (j) + (i);                                                                        \
        mf x0 = mf_set1(at[0]), x1 = n_rows > 1 ? mf_set1(at[xs]) : x0;                                             \
        mf x2 = n_rows > 2 ? mf_set1(at[2 * xs]) : x0, x3 = n_rows > 3 ? mf_set1(at[3 * xs]) : x0;                  \
        WORD_COLUMN(0, j, i) WORD_COLUMN(1, j, i) WORD_COLUMN(2, j, i) WORD_COLUMN(3, j, i)                         \
    }
    for (int k = 0; k < n_k; k += BLOCK, x += BLOCK) {
        int b = k / BLOCK, n = n_k - k < BLOCK ? n_k - k : BLOCK, n4 = is_float(format) ? n / 4 : 8;
        const uint8_t *c0 = codes_of(format, w[0], b), *c1 = codes_of(format, w[1], b);
        const uint8_t *c2 = codes_of(format, w[2], b), *c3 = codes_of(format, w[3], b);
        scales s0 = scales_load(format, w[0], b), s1 = scales_load(format, w[1], b);
        scales s2 = scales_load(format, w[2], b), s3 = scales_load(format, w[3], b);
#pragma GCC unroll 8
        for (int j = 0; j < n4; j++) {
            COLUMN(j, 0) COLUMN(j, 1) COLUMN(j, 2) COLUMN(j, 3)
        }
        if (is_float(format) && n % 4 > 0) COLUMN(n4, 0)
        if (is_float(format) && n % 4 > 1) COLUMN(n4, 1)
        if (is_float(format) && n % 4 > 2) COLUMN(n4, 2)
    }
#define STORE(p, r) \
    if (r < n_rows) mf_store(y[p] + r * y_stride, a##p##r);
    GRID4(STORE)
#undef START
#undef FMA
#undef WORD_COLUMN
#undef COLUMN
#undef STORE
}

INLINE void direct_panels(int format, int n_rows, const mm_panels *w, const float *x, size_t x_stride, float *y,
                          size_t y_stride) {
    int n_words = w->n_panels * WORDS;
    for (int i = 0; i < n_words; i += 4) {
        word_at at[4];
        float *out[4];
        for (int p = 0; p < 4; p++) { /* where there are less than four, the last is computed more than once */
            int word = i + p < n_words ? i + p : n_words - 1;
            at[p] = word_of(w, word);
            out[p] = y + word * LANES;
        }
        direct_tile(format, n_rows, at, w->n_k, x, x_stride, out, y_stride);
    }
}

/* Many rows: F32_K columns of a few panels are widened once, into the first-level cache, and meet all rows there. Sums
 * wait in y in between: a float that was stored is the float that was summed. */
enum {
    F32_K = 64,
    F32_PAIRS = 2 * WORDS,    /* pairs of words that are widened together: four panels, 16 KiB */
    F32_X = F32_K + LINE / 4, /* floats between copied rows of activations: they must not meet in one set of the cache */
};

#define EACH12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

/* A pair of widened words, w [n][2][LANES] (two = 0: only the first is there), by n_rows rows x [n_rows][F32_X]. */
INLINE void f32_tile(int two, int n_rows, const float *w, const float *x, int n, int first, float *y, size_t y_stride) {
#define START(r)                                                   \
    mf a##r = mf_zero(), b##r = mf_zero();                         \
    if (r < n_rows && !first) {                                    \
        a##r = mf_load(y + r * y_stride);                          \
        if (two) b##r = mf_load(y + r * y_stride + LANES);         \
    }
    EACH12(START)
    for (int k = 0; k < n; k++, w += 2 * LANES, x++) {
        mf wa = mf_load(w), wb = two ? mf_load(w + LANES) : wa;
#define FMA(r)                                       \
    if (r < n_rows) {                                \
        mf xr = mf_set1(x[r * F32_X]);               \
        a##r = mf_fma(wa, xr, a##r);                 \
        if (two) b##r = mf_fma(wb, xr, b##r);        \
    }
        EACH12(FMA)
    }
#define STORE(r)                                            \
    if (r < n_rows) {                                       \
        mf_store(y + r * y_stride, a##r);                   \
        if (two) mf_store(y + r * y_stride + LANES, b##r);  \
    }
    EACH12(STORE)
#undef START
#undef FMA
#undef STORE
}

typedef void (*f32_tile_fn)(const float *w, const float *x, int n, int first, float *y, size_t y_stride);

/* Columns k .. k + n - 1 of a pair of words; up to three more at the end of a row that is not a multiple of four long. */
INLINE void widen_pair(int format, word_at wa, word_at wb, int k, int n, float *out) {
    for (int b = k / BLOCK; b * BLOCK < k + n; b++) {
        const uint8_t *ca = codes_of(format, wa, b), *cb = codes_of(format, wb, b);
        scales sa = scales_load(format, wa, b), sb = scales_load(format, wb, b);
        int n4 = is_float(format) && k + n - b * BLOCK < BLOCK ? (k + n - b * BLOCK + 3) / 4 : 8;
#pragma GCC unroll 8
        for (int j = 0; j < n4; j++) {
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++, out += 2 * LANES) {
                mf_store(out, widen(format, ca, j, i, sa));
                mf_store(out + LANES, widen(format, cb, j, i, sb));
            }
        }
    }
}

INLINE void copy_rows(const float *x, size_t x_stride, int n_rows, int n, float *out) {
    for (int r = 0; r < n_rows; r++, x += x_stride, out += F32_X) {
        int k = 0;
        for (; k + LANES <= n; k += LANES) mf_store(out + k, mf_load(x + k));
        for (; k < n; k++) out[k] = x[k];
    }
}

/* All rows by the columns k .. k + n - 1 of n_words words, which lie widened in `wide`. */
static void f32_rows(const f32_tile_fn one[F32_ROWS], const f32_tile_fn two[F32_ROWS], const float *wide, int n_words,
                     int k, int n, const float *x, size_t x_stride, int n_rows, float *y, size_t y_stride) {
    _Alignas(64) float copy[F32_ROWS * F32_X];
    for (int r = 0, n_now; r < n_rows; r += n_now) {
        int n_left = n_rows - r, n_groups = (n_left + F32_ROWS - 1) / F32_ROWS;
        n_now = (n_left + n_groups - 1) / n_groups; /* 13 are 7 and 6: twelve and one take longer */
        copy_rows(x + (size_t)r * x_stride + k, x_stride, n_now, n, copy);
        for (int i = 0; i < n_words; i += 2)
            (i + 1 < n_words ? two : one)[n_now - 1](wide + i * F32_K * LANES, copy, n, k == 0,
                                                     y + (size_t)r * y_stride + i * LANES, y_stride);
    }
}

INLINE void f32_panels(int format, const f32_tile_fn *one, const f32_tile_fn *two, const mm_panels *w, const float *x,
                       size_t x_stride, int n_rows, float *y, size_t y_stride) {
    _Alignas(64) float wide[F32_PAIRS * F32_K * 2 * LANES];
    int n_all = w->n_panels * WORDS;
    for (int at = 0; at < n_all; at += 2 * F32_PAIRS) {
        int n_words = n_all - at < 2 * F32_PAIRS ? n_all - at : 2 * F32_PAIRS;
        for (int k = 0; k < w->n_k; k += F32_K) {
            int n = w->n_k - k < F32_K ? w->n_k - k : F32_K;
            for (int i = 0; i < n_words; i += 2) {
                int last = i + 1 < n_words ? i + 1 : i;
                widen_pair(format, word_of(w, at + i), word_of(w, at + last), k, n, wide + i * F32_K * LANES);
            }
            f32_rows(one, two, wide, n_words, k, n, x, x_stride, n_rows, y + at * LANES, y_stride);
        }
    }
}

/* --------------------------------------------------------------------------------- one function for each case */

#define INT8_TILE(NAME, FORMAT, TWO, ROWS)                                                                         \
    static __attribute__((noinline)) void int8_##NAME##_##TWO##_##ROWS(                                            \
        word_at wa, word_at wb, int n_blocks, const act_rows *act, float *y, size_t y_stride) {                    \
        int8_tile(FORMAT, TWO, ROWS, wa, wb, n_blocks, act, y, y_stride);                                          \
    }
#define F32_TILE(TWO, ROWS)                                                                                        \
    static __attribute__((noinline)) void f32_##TWO##_##ROWS(const float *w, const float *x, int n, int first,     \
                                                             float *y, size_t y_stride) {                          \
        f32_tile(TWO, ROWS, w, x, n, first, y, y_stride);                                                          \
    }
#define DIRECT(NAME, FORMAT, ROWS)                                                                                 \
    static __attribute__((noinline)) void direct_##NAME##_##ROWS(const mm_panels *w, const float *x,               \
                                                                 size_t x_stride, float *y, size_t y_stride) {     \
        direct_panels(FORMAT, ROWS, w, x, x_stride, y, y_stride);                                                  \
    }
