/* attn_body.h - scores and values for one element format, in the vector words of one instruction set.
 *
 * Included once per format by attn_formats.h. The file of the instruction set defines, once:
 *
 *     lanes, LANES           a register of floats, and how many: half a line's or a whole line's
 *     ROWS                   rows that are computed at once at most, two chains each
 *     STEPS                  steps of both chains that a loop takes at a time
 *     PV_ROWS                rows that are computed at once at most where values are summed
 *     PV_PAIRS               pairs of tiles of values that stay in the first-level cache for all rows
 *     PV_COLUMNS(rows)       registers of dimensions side by side where values are summed, up to COLUMNS_MOST
 *
 * and per format:
 *
 *     NAME(f)                f with the format's name
 *     BYTES                  of an element
 *     STEP                   elements that a step of both chains takes, half of them each
 *     LOAD(line, odd, x, y)  what the even and the odd chains take from a line; where it needs a second line, that lies
 *                            `odd` bytes behind the first
 *     ADD(f, x, y, e, o)     one step of both chains: x by the factor f[0] to e, y by f[1] to o
 *     FOLD(x, y)             the sums even + odd, lane by lane
 *
 * A chain's order is the contract's; which chains run side by side is free, and all that differs between the paths. */

/* Of a step of both chains in a tile of keys. */
#define STEP_BYTES (TILE * STEP * BYTES)

/* Scores of a fixed number of rows and columns, a column being LANES tokens, from token t of a pair of tiles on. */
WORD void NAME(qk_block)(const int rows, const int columns, const uint8_t *const *k, size_t dim, const float *q,
                         size_t t, float *s, const uint8_t *const *next, size_t next_bytes) {
    lanes sum[ROWS][2], even[ROWS][2], odd[ROWS][2], x[2], y[2];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) sum[r][c] = lanes_zero();
    }
    for (size_t d = 0; d < dim; d += 32) {
        const size_t from = d / STEP * STEP_BYTES, n_steps = (dim - d < 32 ? 16 : 32) / STEP;
        const uint8_t *line[2], *ahead[2];
        UNROLL for (int c = 0; c < columns; c++) {
            const size_t token = t + (size_t)c * LANES, tile = token / TILE, lane = token % TILE;
            line[c] = k[tile] + from + lane * 4;
            ahead[c] = lane == 0 && from < next_bytes ? next[tile] + from : line[c];
        }
        const float *f = q + d / STEP * (ATTN_ROWS * 2);
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < columns; c++) even[r][c] = odd[r][c] = lanes_zero();
        }
        for (size_t i = 0; i < n_steps; i += STEPS) {
            UNROLL for (int j = 0; j < STEPS; j++) {
                UNROLL for (int c = 0; c < columns; c++) {
                    LOAD(line[c], 64, x[c], y[c]);
                    UNROLL for (int b = 0; b < STEP_BYTES; b += 64) prefetch_line(ahead[c] + b);
                    line[c] += STEP_BYTES;
                    ahead[c] += STEP_BYTES;
                }
                UNROLL for (int r = 0; r < rows; r++) {
                    UNROLL for (int c = 0; c < columns; c++) {
                        ADD(f + (j * ATTN_ROWS + r) * 2, x[c], y[c], even[r][c], odd[r][c]);
                    }
                }
            }
            f += STEPS * ATTN_ROWS * 2;
        }
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < columns; c++) sum[r][c] = lanes_add(sum[r][c], FOLD(even[r][c], odd[r][c]));
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) {
            const size_t token = t + (size_t)c * LANES;
            lanes_store(s + token / TILE * (ATTN_ROWS * TILE) + (size_t)r * TILE + token % TILE, sum[r][c]);
        }
    }
}

/* Columns at once: two chains of one or two rows would leave the multipliers waiting. */
#define QK_COLUMNS(rows) ((rows) <= 2 ? 2 : 1)

WORD void NAME(qk_rows)(const int rows, const uint8_t *const *k, int n_pairs, size_t dim, const float *q, float *s,
                        const uint8_t *const *next, size_t next_bytes) {
    const int columns = QK_COLUMNS(rows);
    (void)n_pairs; /* one */
    for (size_t t = 0; t < 2 * TILE; t += (size_t)columns * LANES) {
        NAME(qk_block)(rows, columns, k, dim, q, t, s, next, next_bytes);
    }
}

/* o[r][d ..] of pairs of tiles for a fixed number of rows and columns. The sums stay in registers from pair to pair. */
WORD void NAME(pv_block)(const int rows, const int columns, const uint8_t *const *v, int n_pairs, size_t dim, size_t d,
                         const float *p, float *o, const uint8_t *const *next, size_t next_bytes) {
    lanes sum[ROWS][COLUMNS_MOST], even[ROWS][COLUMNS_MOST], odd[ROWS][COLUMNS_MOST];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) sum[r][c] = lanes_load(o + (size_t)r * dim + d + c * LANES);
    }
    for (; n_pairs > 0; n_pairs--, v += 2, next += 2, p += 2 * ATTN_ROWS * TILE) {
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < columns; c++) even[r][c] = odd[r][c] = lanes_zero();
        }
        UNROLL for (int tile = 0; tile < 2; tile++) {
            const size_t from = d * TILE * BYTES; /* of the columns before; prefetching takes the tile as one stretch */
            const uint8_t *line = v[tile] + d * 4;
            const uint8_t *ahead = from < next_bytes ? next[tile] + from : line;
            const float *f = p + tile * (ATTN_ROWS * TILE);
            for (int i = 0; i < TILE / STEP; i += STEPS) {
                UNROLL for (int j = 0; j < STEPS; j++) {
                    UNROLL for (int c = 0; c < columns; c++) {
                        const int part = LANES * STEP * BYTES;
                        lanes x, y;
                        UNROLL for (int b = 0; b < part; b += 64) prefetch_line(ahead + c * part + b);
                        LOAD(line + c * LANES * 4, dim * 4, x, y);
                        UNROLL for (int r = 0; r < rows; r++) {
                            ADD(f + r * TILE + 2 * j, x, y, even[r][c], odd[r][c]);
                        }
                    }
                    line += dim * STEP * BYTES;
                    ahead += columns * LANES * STEP * BYTES;
                }
                f += 2 * STEPS;
            }
        }
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int c = 0; c < columns; c++) {
                sum[r][c] = lanes_add(sum[r][c], FOLD(even[r][c], odd[r][c]));
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < columns; c++) lanes_store(o + (size_t)r * dim + d + c * LANES, sum[r][c]);
    }
}

/* Few rows take many columns: memory is read in long stretches, as its prefetchers like it. */
WORD void NAME(pv_rows)(const int rows, const uint8_t *const *v, int n_pairs, size_t dim, const float *p, float *o,
                        const uint8_t *const *next, size_t next_bytes) {
    const size_t columns = PV_COLUMNS(rows);
    size_t d = 0;
    for (; d + columns * LANES <= dim; d += columns * LANES) {
        NAME(pv_block)(rows, (int)columns, v, n_pairs, dim, d, p, o, next, next_bytes);
    }
    for (; d < dim; d += LANES) NAME(pv_block)(rows, 1, v, n_pairs, dim, d, p, o, next, next_bytes);
}

/* One function per number of rows. */
#define ROWS_FN(f, n)                                                                                        \
    static void NAME(f##_##n)(const uint8_t *const *tile, int n_pairs, size_t dim, const float *factor,      \
                              float *sum, const uint8_t *const *next, size_t next_bytes) {                   \
        NAME(f##_rows)(n, tile, n_pairs, dim, factor, sum, next, next_bytes);                                \
    }
ROWS_FN(qk, 1)
ROWS_FN(qk, 2)
ROWS_FN(qk, 3)
ROWS_FN(qk, 4)
ROWS_FN(pv, 1)
ROWS_FN(pv, 2)
#if PV_ROWS >= 4
ROWS_FN(pv, 3)
ROWS_FN(pv, 4)
#endif
#if ROWS == 8
ROWS_FN(qk, 5)
ROWS_FN(qk, 6)
ROWS_FN(qk, 7)
ROWS_FN(qk, 8)
ROWS_FN(pv, 5)
ROWS_FN(pv, 6)
ROWS_FN(pv, 7)
ROWS_FN(pv, 8)
#endif

static void NAME(qk)(const attn_qk_args *a) {
    static const attn_rows_fn qk_of[] = {
        NULL,       NAME(qk_1), NAME(qk_2), NAME(qk_3), NAME(qk_4),
#if ROWS == 8
        NAME(qk_5), NAME(qk_6), NAME(qk_7), NAME(qk_8)
#endif
    };
    const int most = rows_per_block(a->n_rows, ROWS);
    for (int tile = 0; tile < 2 * a->n_pairs; tile += 2) {
        const uint8_t *k[2] = {a->k_tile[tile], a->k_tile[tile + 1]};
        const uint8_t *ahead[2] = {a->ahead.tile[tile], a->ahead.tile[tile + 1]};
        const uint8_t *const *next = ahead;
        float *s = a->s + tile * (ATTN_ROWS * TILE);
        for (int r = 0, rows; r < a->n_rows; r += rows, next = k) {
            rows = a->n_rows - r < most ? a->n_rows - r : most;
            qk_of[rows](k, 1, (size_t)a->dim, a->q + r * 2, s + r * TILE, next, a->ahead.bytes);
        }
    }
}

static void NAME(pv)(const attn_pv_args *a) {
    static const attn_rows_fn pv_of[] = {
        NULL,       NAME(pv_1), NAME(pv_2),
#if PV_ROWS >= 4
        NAME(pv_3), NAME(pv_4),
#endif
#if ROWS == 8
        NAME(pv_5), NAME(pv_6), NAME(pv_7), NAME(pv_8)
#endif
    };
    const int most = rows_per_block(a->n_rows, PV_ROWS);
    for (int pair = 0, n; pair < a->n_pairs; pair += n) {
        n = a->n_pairs - pair < PV_PAIRS ? a->n_pairs - pair : PV_PAIRS;
        const uint8_t *const *v = (const uint8_t *const *)a->v_tile + 2 * pair;
        const uint8_t *const *next = (const uint8_t *const *)a->ahead.tile + 2 * pair;
        const float *p = a->p + 2 * pair * (ATTN_ROWS * TILE);
        for (int r = 0, rows; r < a->n_rows; r += rows, next = v) {
            rows = a->n_rows - r < most ? a->n_rows - r : most;
            pv_of[rows](v, n, (size_t)a->dim, p + r * TILE, a->o + (size_t)r * (size_t)a->dim, next, a->ahead.bytes);
        }
    }
}

#undef ROWS_FN
#undef QK_COLUMNS
#undef STEP_BYTES
#undef NAME
#undef BYTES
#undef LOAD
#undef ADD
#undef STEP
#undef FOLD
