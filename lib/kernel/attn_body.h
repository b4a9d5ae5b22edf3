/* attn_body.h - scores and values for one element format, in the vector words of one instruction set.
 *
 * Included once per format by attn_avx2.c and attn_avx512.c. They define, once:
 *
 *     lanes, LANES           a register of floats, and how many: half a line's or a whole line's
 *     ROWS                   rows of one register each that fit, with two chains per row
 *     PAIRS                  pairs of elements that a loop takes at a time
 *
 * and per format:
 *
 *     NAME(f)                f with the format's name
 *     BYTES                  of an element
 *     LOAD(line, odd, x, y)  what the even and the odd chains take from a line; where a line holds one element per lane,
 *                            those of the odd chain lie `odd` bytes behind it
 *     SPREAD(f, x, y)        the factors f[0] and f[1] to multiply that with
 *     FOLD(x, y)             the sums even + odd, lane by lane
 *
 * A chain's order is the contract's; which chains run side by side is free, and all that differs between the paths. */

/* Bytes of 16 lanes of one pair of elements: a step of both chains in a tile of keys. */
#define PAIR_BYTES (TILE * 2 * BYTES)

/* s[r][t] of one tile for a fixed number of rows. */
WORD void NAME(qk_rows)(const int rows, const uint8_t *k, size_t dim, const float *q, float *s, const uint8_t *next,
                        size_t next_bytes) {
    for (size_t lane = 0; lane < TILE; lane += LANES) {
        lanes sum[ROWS], even[ROWS], odd[ROWS];
        UNROLL for (int r = 0; r < rows; r++) sum[r] = lanes_zero();
        for (size_t d = 0; d < dim; d += 32) {
            const size_t from = d / 2 * PAIR_BYTES, n_pairs = dim - d < 32 ? 8 : 16;
            const uint8_t *line = k + from + lane * 4;
            const uint8_t *ahead = lane == 0 && from < next_bytes ? next + from : line;
            const float *f = q + d * ATTN_ROWS;
            UNROLL for (int r = 0; r < rows; r++) even[r] = odd[r] = lanes_zero();
            for (size_t i = 0; i < n_pairs; i += PAIRS) {
                UNROLL for (int j = 0; j < PAIRS; j++) {
                    lanes x, y, fx, fy;
                    LOAD(line, 64, x, y);
                    UNROLL for (int b = 0; b < PAIR_BYTES; b += 64) prefetch_line(ahead + b);
                    UNROLL for (int r = 0; r < rows; r++) {
                        SPREAD(f + (j * ATTN_ROWS + r) * 2, fx, fy);
                        even[r] = lanes_fma(x, fx, even[r]);
                        odd[r] = lanes_fma(y, fy, odd[r]);
                    }
                    line += PAIR_BYTES;
                    ahead += PAIR_BYTES;
                }
                f += PAIRS * ATTN_ROWS * 2;
            }
            UNROLL for (int r = 0; r < rows; r++) sum[r] = lanes_add(sum[r], FOLD(even[r], odd[r]));
        }
        UNROLL for (int r = 0; r < rows; r++) lanes_store(s + r * TILE + lane, sum[r]);
    }
}

/* o[r][d ..] of one pair of tiles for a fixed number of rows and columns. */
WORD void NAME(pv_block)(const int rows, const int columns, const uint8_t *const *v, size_t dim, size_t d, const float *p,
                         float *o, const uint8_t *const *next, size_t next_bytes) {
    lanes even[ROWS][2], odd[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) even[r][c] = odd[r][c] = lanes_zero();
    }
    UNROLL for (int tile = 0; tile < 2; tile++) {
        const size_t from = d * TILE * BYTES; /* of the columns before; prefetching takes the tile as one stretch */
        const uint8_t *line = v[tile] + d * 4;
        const uint8_t *ahead = from < next_bytes ? next[tile] + from : line;
        const float *f = p + tile * (ATTN_ROWS * TILE);
        for (int i = 0; i < TILE / 2; i += PAIRS) {
            UNROLL for (int j = 0; j < PAIRS; j++) {
                lanes x[2], y[2], fx, fy;
                UNROLL for (int c = 0; c < columns; c++) LOAD(line + c * LANES * 4, dim * 4, x[c], y[c]);
                UNROLL for (int b = 0; b < columns * LANES * 2 * BYTES; b += 64) prefetch_line(ahead + b);
                UNROLL for (int r = 0; r < rows; r++) {
                    SPREAD(f + r * TILE + 2 * j, fx, fy);
                    UNROLL for (int c = 0; c < columns; c++) {
                        even[r][c] = lanes_fma(x[c], fx, even[r][c]);
                        odd[r][c] = lanes_fma(y[c], fy, odd[r][c]);
                    }
                }
                line += dim * 2 * BYTES;
                ahead += columns * LANES * 2 * BYTES;
            }
            f += 2 * PAIRS;
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) {
            float *sum = o + (size_t)r * dim + d + c * LANES;
            lanes_store(sum, lanes_add(lanes_load(sum), FOLD(even[r][c], odd[r][c])));
        }
    }
}

WORD void NAME(pv_rows)(const int rows, const uint8_t *const *v, size_t dim, const float *p, float *o,
                        const uint8_t *const *next, size_t next_bytes) {
    size_t d = 0;
    /* Few rows leave registers for a second column, and need its chains to keep the multipliers busy. */
    for (; rows <= ROWS / 2 && d + 2 * LANES <= dim; d += 2 * LANES) {
        NAME(pv_block)(rows, 2, v, dim, d, p, o, next, next_bytes);
    }
    for (; d < dim; d += LANES) NAME(pv_block)(rows, 1, v, dim, d, p, o, next, next_bytes);
}

/* One function per number of rows. */
#define QK_FN(n)                                                                                              \
    static void NAME(qk_##n)(const uint8_t *k, size_t dim, const float *q, float *s, const uint8_t *next, size_t bytes) { \
        NAME(qk_rows)(n, k, dim, q, s, next, bytes);                                                               \
    }
#define PV_FN(n)                                                                                              \
    static void NAME(pv_##n)(const uint8_t *const *v, size_t dim, const float *p, float *o,                        \
                             const uint8_t *const *next, size_t bytes) {                                           \
        NAME(pv_rows)(n, v, dim, p, o, next, bytes);                                                               \
    }
QK_FN(1)
QK_FN(2)
QK_FN(3)
QK_FN(4)
PV_FN(1)
PV_FN(2)
PV_FN(3)
PV_FN(4)
#if ROWS == 8
QK_FN(5)
QK_FN(6)
QK_FN(7)
QK_FN(8)
PV_FN(5)
PV_FN(6)
PV_FN(7)
PV_FN(8)
#endif

static void NAME(qk)(const attn_qk_args *a) {
    static void (*const qk_of[])(const uint8_t *, size_t, const float *, float *, const uint8_t *, size_t) = {
        NULL,       NAME(qk_1), NAME(qk_2), NAME(qk_3), NAME(qk_4),
#if ROWS == 8
        NAME(qk_5), NAME(qk_6), NAME(qk_7), NAME(qk_8)
#endif
    };
    const int most = rows_per_block(a->n_rows, ROWS);
    for (int tile = 0; tile < a->n_tiles; tile++) {
        const uint8_t *k = a->k_tile[tile], *next = a->ahead.tile[tile];
        float *s = a->s + tile * (ATTN_ROWS * TILE);
        for (int r = 0, rows; r < a->n_rows; r += rows, next = k) {
            rows = a->n_rows - r < most ? a->n_rows - r : most;
            qk_of[rows](k, (size_t)a->dim, a->q + r * 2, s + r * TILE, next, a->ahead.bytes);
        }
    }
}

static void NAME(pv)(const attn_pv_args *a) {
    static void (*const pv_of[])(const uint8_t *const *, size_t, const float *, float *, const uint8_t *const *, size_t) = {
        NULL,       NAME(pv_1), NAME(pv_2), NAME(pv_3), NAME(pv_4),
#if ROWS == 8
        NAME(pv_5), NAME(pv_6), NAME(pv_7), NAME(pv_8)
#endif
    };
    const int most = rows_per_block(a->n_rows, ROWS);
    for (int pair = 0; pair < a->n_pairs; pair++) {
        const uint8_t *v[2] = {a->v_tile[2 * pair], a->v_tile[2 * pair + 1]};
        const uint8_t *ahead[2] = {a->ahead.tile[2 * pair], a->ahead.tile[2 * pair + 1]};
        const uint8_t *const *next = ahead;
        const float *p = a->p + pair * (2 * ATTN_ROWS * TILE);
        for (int r = 0, rows; r < a->n_rows; r += rows, next = v) {
            rows = a->n_rows - r < most ? a->n_rows - r : most;
            pv_of[rows](v, (size_t)a->dim, p + r * TILE, a->o + (size_t)r * (size_t)a->dim, next, a->ahead.bytes);
        }
    }
}

#undef QK_FN
#undef PV_FN
#undef PAIR_BYTES
#undef NAME
#undef BYTES
#undef LOAD
#undef SPREAD
#undef FOLD
