/* codes_body.h - scores and values over sealed blocks in codes, in the vector words of one instruction set.
 *
 * Included once by each of its files, behind words_int_*.h (a word is the part of a line that one register holds) and
 * the words of its own:
 *
 *     code                   a step of a word as it is multiplied; code8_key, code8_value: of signed bytes
 *     table                  a register of levels; table_of(level, n, keys): level[i % n] in 16 places
 *     code_key, code_value   of bytes 0 .. 15 that are places in a table
 *     dots                   sums of one row; dots_start: of a query, dots_zero; dots_end: the sums, in 32 bits
 *     key_factor, value_factor, and dots_key, dots_value: four elements of a row, and a step's products with them added
 *     ROWS, COLUMNS_MOST     rows and words that are computed at once at most
 *     QK_COLUMNS(rows), PV_COLUMNS(rows), PV_ROWS, PV_TILES    words at once; of values: rows, and tiles that stay in
 *                                                              the first-level cache for all rows
 *
 * Sums are exact, so their order is free. */
#include "base/unroll.h"
#include "format/format.h"

/* Steps come in runs of four: of keys 16 dims of a tile, of values its 16 tokens. Run i of a tile, i being the group of
 * 16 dims in both. */
typedef struct run {
    const uint8_t *line, *third; /* of the first step; of the plane of third bits */
    size_t stride;               /* between lines */
    int third_at;                /* bit of the first step in its plane */
} run;

WORD run run_of(const int bits, const int keys, const uint8_t *tile, size_t groups, size_t i) {
    const size_t low = bits == 3 ? 2 : (size_t)bits;
    return (run){.line = tile + (keys ? i * low / 2 : i) * 64,
                 .third = tile + (groups + i / 2) * 64,
                 .stride = keys ? 64 : groups * 64,
                 .third_at = (int)(i % 2 * 4)};
}

/* Step j of a run as bytes: numbers, or places in a table; of 2 bits a place is of two codes,
 * see tables. */
WORD mi run_bytes(const int bits, run x, const int j) {
    if (bits == 8) return mi_load(x.line + (size_t)j * x.stride);
    if (bits == 4) return mi_bits(mi_load(x.line + (size_t)(j / 2) * x.stride), j % 2 * 4, 4);
    if (bits == 2) return mi_bits(mi_load(x.line), j / 2 * 4, 4);
    mi third = mi_shift_right(mi_load(x.third), x.third_at);
    return mi_or_bits(mi_bits(mi_load(x.line), j * 2, 2), third, j, 1, 2);
}

/* Two codes of 2 bits are a place in two tables, one for each. */
typedef struct tables {
    table even, odd;
} tables;

WORD tables tables_of(const int format, const int bits, const int keys) {
    tables t = {0};
    if (bits == 8) return t;
    int8_t even[16], odd[16];
    const int8_t *level = kv_format_of(format)->level;
    for (int i = 0; i < 16; i++) {
        even[i] = level[i % (1 << bits)];
        odd[i] = level[(bits == 2 ? i / 4 : i) % (1 << bits)];
    }
    t.even = table_of(even, keys);
    if (bits == 2) t.odd = table_of(odd, keys);
    return t;
}

WORD code key_code(const int bits, tables t, run x, const int j) {
    if (bits == 8) return code8_key(run_bytes(bits, x, j));
    return code_key(bits == 2 && j % 2 ? t.odd : t.even, run_bytes(bits, x, j));
}
WORD code value_code(const int bits, tables t, run x, const int j) {
    if (bits == 8) return code8_value(run_bytes(bits, x, j));
    return code_value(bits == 2 && j % 2 ? t.odd : t.even, run_bytes(bits, x, j));
}

/* Bytes j * share .. (j + 1) * share of what lies ahead, if a line begins there. */
WORD void prefetch_share(const uint8_t *ahead, const int share, const int j) {
    UNROLL for (int at = (j * share + 63) / 64 * 64; at < (j + 1) * share; at += 64) prefetch_line(ahead + at);
}

/* Rows to take at a time so that blocks of at most `most` rows are about equal: 9 rows are 5 and 4, not 8 and 1. */
static int rows_per_block(int n_rows, int most) {
    int n_blocks = (n_rows + most - 1) / most;
    return (n_rows + n_blocks - 1) / n_blocks;
}

/* ---------------------------------------------------------------------------------------------------- scores */

/* Words `word` .. + columns - 1 of the call's tiles for `rows` rows, the first being `row` of the call. */
WORD void qk_block(const int bits, const int rows, const int columns, const code_qk_args *a, tables t, int row,
                   int word, size_t ahead_bytes) {
    const size_t groups = (size_t)a->dim / TILE, run_bytes_all = 32 * bits;
    const uint8_t *q = a->q->q + (a->row + row) * 8, *tile[COLUMNS_MOST], *next[COLUMNS_MOST];
    dots sum[ROWS][COLUMNS_MOST];
    code w[COLUMNS_MOST];
    UNROLL for (int c = 0; c < columns; c++) {
        tile[c] = (const uint8_t *)a->k_tile[(word + c) / WORDS] + (word + c) % WORDS * (LANES * 4);
        next[c] = a->ahead.tile[(word + c) / WORDS];
        UNROLL for (int r = 0; r < rows; r++) sum[r][c] = dots_start(a->q->sum[a->row + row + r]);
    }
    for (size_t i = 0; i < groups; i++, q += 4 * ATTN_ROWS * 8) {
        const int soon = i * run_bytes_all < ahead_bytes;
        UNROLL for (int j = 0; j < 4; j++) {
            UNROLL for (int c = 0; c < columns; c++) {
                w[c] = key_code(bits, t, run_of(bits, 1, tile[c], groups, i), j);
                if (c % WORDS == 0)
                    prefetch_share(soon ? next[c] + i * run_bytes_all : tile[c], 8 * bits, j);
            }
            UNROLL for (int r = 0; r < rows; r++) {
                const key_factor f = key_factor_of(q + (j * ATTN_ROWS + r) * 8);
                UNROLL for (int c = 0; c < columns; c++) sum[r][c] = dots_key(sum[r][c], w[c], f);
            }
        }
    }
    UNROLL for (int c = 0; c < columns; c++) {
        const int at = (word + c) / WORDS, part = (word + c) % WORDS * LANES;
        const mf scale = mf_load_bf16(a->k_scale[at] + part);
        float *s = a->s + at * (ATTN_ROWS * TILE) + row * TILE + part;
        UNROLL for (int r = 0; r < rows; r++) {
            const mf by = mf_mul(mf_set1(a->q->scale[a->row + row + r]), scale);
            mf_store(s + r * TILE, mf_fma(mf_from_i(dots_end(sum[r][c])), by, mf_set1(a->centre[at][row + r])));
        }
    }
}

typedef void (*qk_rows_fn)(const code_qk_args *a, const tables *t, int row, int word, int n, size_t ahead_bytes);

/* n words, at most COLUMNS_MOST. */
WORD void qk_rows(const int bits, const int rows, const code_qk_args *a, tables t, int row, int word, int n,
                  size_t ahead_bytes) {
    const int columns = QK_COLUMNS(rows);
    for (; n >= columns; n -= columns, word += columns) qk_block(bits, rows, columns, a, t, row, word, ahead_bytes);
    for (; n > 0; n -= WORDS, word += WORDS) qk_block(bits, rows, WORDS, a, t, row, word, ahead_bytes);
}

/* Rows row .. end - 1. Tiles stay in the first-level cache for all of them. */
WORD void qk_tiles(const code_qk_args *a, const tables *t, const qk_rows_fn *of, int row, int end) {
    const int most = rows_per_block(end - row, ROWS), n_words = a->n_tiles * WORDS;
    for (int word = 0, n; word < n_words; word += n) {
        n = n_words - word < COLUMNS_MOST ? n_words - word : COLUMNS_MOST;
        size_t ahead_bytes = a->ahead.bytes;
        for (int r = row, rows; r < end; r += rows, ahead_bytes = 0) {
            rows = end - r < most ? end - r : most;
            of[rows - 1](a, t, r, word, n, ahead_bytes);
        }
    }
}

/* Group by group of every head. */
WORD void qk_heads(const code_qk_args *a, const tables *t, const qk_rows_fn *of) {
    code_qk_args part = *a;
    for (int tile = 0; tile < a->n_tiles; tile += a->group) {
        part.n_tiles = a->n_tiles - tile < a->group ? a->n_tiles - tile : a->group;
        part.centre = a->centre + tile;
        part.s = a->s + tile * (ATTN_ROWS * TILE);
        for (int h = 0; h < a->n_heads; h++, part.ahead.tile += part.n_tiles) {
            part.k_tile = a->k_tile + h * SEGMENT_TILES + tile;
            part.k_scale = a->k_scale + h * SEGMENT_TILES + tile;
            qk_tiles(&part, t, of, h * a->n_rows, (h + 1) * a->n_rows);
        }
    }
}

typedef struct pv_block_args {
    const uint8_t *const *tile, *const *next;
    int n_tiles;
    size_t groups, next_bytes;
    const uint8_t *p; /* of the first row */
    int32_t *sum;     /* [rows][16 * groups] */
} pv_block_args;

/* Words `word` .. + columns - 1 of the dims of n_tiles tiles for `rows` rows. */
WORD void pv_block(const int bits, const int rows, const int columns, const pv_block_args *a, tables t, size_t word) {
    const int share = columns * LANES * bits / 2; /* of a tile's bytes, per step */
    const size_t groups = a->groups, dim = groups * TILE, from = word * LANES * 2 * bits;
    const uint8_t *p = a->p;
    dots sum[ROWS][COLUMNS_MOST];
    code w[COLUMNS_MOST];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) sum[r][c] = dots_zero();
    }
    for (int tile = 0; tile < a->n_tiles; tile++, p += ATTN_ROWS * 32) {
        const uint8_t *ahead = from < a->next_bytes ? a->next[tile] + from : a->tile[tile];
        UNROLL for (int j = 0; j < 4; j++) {
            UNROLL for (int c = 0; c < columns; c++) {
                const uint8_t *lines = a->tile[tile] + (word + c) % WORDS * (LANES * 4);
                w[c] = value_code(bits, t, run_of(bits, 0, lines, groups, (word + c) / WORDS), j);
            }
            prefetch_share(ahead, share, j);
            UNROLL for (int r = 0; r < rows; r++) {
                const value_factor f = value_factor_of(p + r * 32 + j * 8);
                UNROLL for (int c = 0; c < columns; c++) sum[r][c] = dots_value(sum[r][c], w[c], f);
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        int32_t *to = a->sum + (size_t)r * dim + word * LANES;
        UNROLL for (int c = 0; c < columns; c++) {
            mi_store(to + c * LANES, mi_add(mi_load(to + c * LANES), dots_end(sum[r][c])));
        }
    }
}

typedef void (*pv_rows_fn)(const pv_block_args *a, const tables *t);

WORD void pv_rows(const int bits, const int rows, const pv_block_args *a, tables t) {
    const size_t columns = PV_COLUMNS(rows), n = a->groups * WORDS;
    size_t word = 0;
    for (; word + columns <= n; word += columns) pv_block(bits, rows, (int)columns, a, t, word);
    for (; word < n; word++) pv_block(bits, rows, 1, a, t, word);
}

/* o = fma((float)sum, scale, o) of n elements. */
static void sums_add(const int32_t *sum, float scale, float *o, int n) {
    for (int i = 0; i < n; i += LANES) {
        mf_store(o + i, mf_fma(mf_from_i(mi_load(sum + i)), mf_set1(scale), mf_load(o + i)));
    }
}

/* Sums of n tiles, `tile` of head h on, for all rows of the head. */
WORD void pv_tiles(const code_pv_args *a, const tables *t, const pv_rows_fn *of, int h, int tile, int n,
                   const void *const *next, int32_t *sum) {
    const size_t dim = (size_t)a->dim;
    const int most = rows_per_block(a->n_rows, PV_ROWS), row = h * a->n_rows;
    pv_block_args block = {.tile = (const uint8_t *const *)a->v_tile + h * SEGMENT_TILES + tile,
                           .next = (const uint8_t *const *)next,
                           .n_tiles = n,
                           .groups = dim / TILE,
                           .next_bytes = a->ahead.bytes};
    for (int r = 0, rows; r < a->n_rows; r += rows, block.next_bytes = 0) {
        rows = a->n_rows - r < most ? a->n_rows - r : most;
        block.p = a->p->p + (tile * ATTN_ROWS + a->row + row + r) * 32;
        block.sum = sum + (size_t)(row + r) * dim;
        of[rows - 1](&block, t);
    }
}

/* Group by group of every head. */
WORD void pv_heads(const code_pv_args *a, const tables *t, const pv_rows_fn *of) {
    _Alignas(64) int32_t sum[ATTN_ROWS * ATTN_DIM_MAX];
    const size_t dim = (size_t)a->dim;
    const int n_rows = a->n_heads * a->n_rows, group = a->group < PV_TILES ? a->group : PV_TILES;
    const void *const *next = a->ahead.tile;
    memset(sum, 0, (size_t)n_rows * dim * sizeof *sum);
    for (int tile = 0; tile < a->n_tiles; tile += group) {
        const int n = a->n_tiles - tile < group ? a->n_tiles - tile : group;
        for (int h = 0; h < a->n_heads; h++, next += n) pv_tiles(a, t, of, h, tile, n, next, sum);
    }
    for (int r = 0; r < n_rows; r++) {
        sums_add(sum + (size_t)r * dim, a->p->scale[a->row + r], a->o + (size_t)r * dim, a->dim);
    }
}

/* ------------------------------------------------------------------------------------- a function per case */

#define QK_FN(bits, rows)                                                                                          \
    static void qk_##bits##_##rows(const code_qk_args *a, const tables *t, int row, int word, int n, size_t ahead) { \
        qk_rows(bits, rows, a, *t, row, word, n, ahead);                                                            \
    }
#define PV_FN(bits, rows)                                                                                          \
    static void pv_##bits##_##rows(const pv_block_args *a, const tables *t) { pv_rows(bits, rows, a, *t); }

#define CODES_BITS(bits)                                              \
    QK_EACH(QK_FN, bits)                                              \
    PV_EACH(PV_FN, bits)                                              \
    static const qk_rows_fn qk_of_##bits[] = {QK_EACH(QK_NAME, bits)}; \
    static const pv_rows_fn pv_of_##bits[] = {PV_EACH(PV_NAME, bits)};
#define CODES_FUNCTIONS(NAME, FORMAT, BITS)              \
    static void qk_##NAME(const code_qk_args *a) {       \
        const tables t = tables_of(FORMAT, BITS, 1);     \
        qk_heads(a, &t, qk_of_##BITS);                   \
    }                                                    \
    static void pv_##NAME(const code_pv_args *a) {       \
        const tables t = tables_of(FORMAT, BITS, 0);     \
        pv_heads(a, &t, pv_of_##BITS);                   \
    }
#define CODES_ROW(NAME, FORMAT, BITS) k->code_qk[FORMAT] = qk_##NAME, k->code_pv[FORMAT] = pv_##NAME;
#define QK_NAME(bits, rows) qk_##bits##_##rows,
#define PV_NAME(bits, rows) pv_##bits##_##rows,
#define EACH4(X, bits) X(bits, 1) X(bits, 2) X(bits, 3) X(bits, 4)
#define EACH6(X, bits) EACH4(X, bits) X(bits, 5) X(bits, 6)
#define EACH8(X, bits) EACH6(X, bits) X(bits, 7) X(bits, 8)

CODES_BITS(8)
CODES_BITS(4)
CODES_BITS(3)
CODES_BITS(2)
KV_CODES_EACH(CODES_FUNCTIONS)

static void codes_fill(kernels *k) {
    KV_CODES_EACH(CODES_ROW)
}
