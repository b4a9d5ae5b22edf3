/* matmul_panel.h - blocks of a panel of packed weights in the vector words of the file that includes it
 * (words_int_*.h): where codes and scales lie, and what they are as words. format.h has the layout; `format` is a
 * constant wherever these are inlined, so that a row of weight_layouts folds away. */
#ifndef KVT_MATMUL_PANEL_H
#define KVT_MATMUL_PANEL_H

#define INLINE static inline __attribute__((always_inline))

enum { LINE = WEIGHT_LINE, BLOCK = WEIGHT_BLOCK, STEPS = 8 }; /* bytes; columns; fours of columns of a block */

#define EACH8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

INLINE int is_float(int format) { return weight_layouts[format].low == 0; }
/* Groups of a block that have a scale each. */
INLINE int n_groups(int format) { return is_float(format) ? 1 : BLOCK / weight_layouts[format].group; }

/* Word i of a range of panels: words of one panel lie side by side in its lines. */
typedef struct word_at {
    const uint8_t *panel;
    int part; /* which of the words of a line, 0 .. WORDS - 1 */
} word_at;

INLINE word_at word_of(const mm_panels *w, int i) {
    return (word_at){w->data + (size_t)(i / WORDS) * w->panel_bytes, i % WORDS};
}

/* Where a block of columns lies: its chunk, from this word on, and its place in there. Floats are chunks of a block. */
typedef struct block_at {
    const uint8_t *chunk;
    int place, part;
} block_at;

INLINE int n_places(int format) { return is_float(format) ? 1 : weight_layouts[format].chunk / BLOCK; }
INLINE int code_bytes(int format) {
    if (is_float(format)) return (format == WEIGHT_F32 ? 4 : 2) * BLOCK * TILE;
    return weight_code_bytes(weight_layouts[format]);
}
INLINE int scale_bytes(int format) { return is_float(format) ? 0 : weight_scale_bytes(weight_layouts[format]); }

/* Block b of a word, and the one behind a block. */
INLINE block_at block_of(int format, word_at w, unsigned b) {
    const unsigned n = (unsigned)n_places(format);
    const size_t chunk_bytes = (size_t)((int)n * code_bytes(format) + scale_bytes(format));
    return (block_at){w.panel + b / n * chunk_bytes, (int)(b % n), w.part};
}
INLINE block_at block_next(int format, block_at b) {
    if (++b.place < n_places(format)) return b;
    b.chunk += n_places(format) * code_bytes(format) + scale_bytes(format);
    b.place = 0;
    return b;
}

/* This word of the block's code lines; the lines of scales of its chunk. */
INLINE const uint8_t *codes_of(int format, block_at b) {
    return b.chunk + b.place * code_bytes(format) + b.part * 4 * LANES;
}
INLINE const uint8_t *scale_lines_of(int format, block_at b) { return b.chunk + n_places(format) * code_bytes(format); }

/* What a code is multiplied by, and what is added, of each row. */
typedef struct scales {
    mf d, m;
} scales;

/* What all blocks of a chunk of 256 have in common, the minima's with the other sign; zeros for the others. */
INLINE scales head_of(int format, block_at b) {
    scales s = {mf_zero(), mf_zero()};
    if (n_places(format) < 8) return s;
    const uint8_t *head = scale_lines_of(format, b) + scale_bytes(format) - LINE + b.part * 2 * LANES;
    s.d = mf_load_f16(head);
    if (weight_layouts[format].minima) s.m = mf_negative(mf_load_f16(head + LINE / 2));
    return s;
}

/* Of group g (0, 1) of a block; head: of its chunk. In one of 256 both are products of a byte and a half, and exact. */
INLINE scales scales_of(int format, block_at b, int g, scales head) {
    scales s = {mf_zero(), mf_zero()};
    if (is_float(format)) return s;
    const weight_layout f = weight_layouts[format];
    const uint8_t *p = scale_lines_of(format, b);
    if (f.chunk == 64) {
        p += b.place * (LINE / 2) + b.part * 2 * LANES;
        s.d = mf_load_f16(p);
        if (f.minima) s.m = mf_load_f16(p + LINE);
        return s;
    }
    p += (b.place * n_groups(format) + g) * TILE + b.part * LANES;
    mi d = f.is_signed ? mi_load_i8(p) : mi_load_u8(p), m = d;
    if (f.nibbles) d = mi_low4(d), m = mi_high4(m);
    else if (f.minima) m = mi_load_u8(p + f.chunk / f.group * TILE);
    s.d = mf_mul(head.d, mf_from_i(d));
    if (f.minima) s.m = mf_mul(head.m, mf_from_i(m));
    return s;
}

/* Step j (0 .. 7) of a block is four columns, from column step_k on; codes in planes have the steps of the first half
 * of the block at even places. */
INLINE int step_k(int format, int j) { return weight_layouts[format].low == 8 ? 4 * j : j / 2 * 4 + j % 2 * 16; }
/* Codes below 0: whole bytes, or from weight_table. */
INLINE int is_signed_code(int format) { return weight_layouts[format].low == 8 || weight_layouts[format].table; }

/* The codes of step j as bytes; places in weight_table where there is one. */
INLINE mi step_bytes(int format, const uint8_t *codes, int j) {
    const int low = weight_layouts[format].low, high = weight_layouts[format].high;
    if (low == 8) return mi_load(codes + j * LINE);
    mi x = mi_bits(mi_load(codes + j * low / 8 * LINE), j * low % 8, low);
    if (high == 0) return x;
    return mi_or_bits(x, mi_load(codes + (low + j * high / 8) * LINE), j * high % 8, high, low);
}

#endif
