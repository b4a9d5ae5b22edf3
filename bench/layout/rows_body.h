/* rows_body.h - scores and values over pieces of rows, in the words of one instruction set.
 *
 * The file that includes it defines, besides UNROLL, WORD and prefetch_line:
 *
 *     lanes, LANES            a register of floats, and how many; lanes_zero, lanes_load, lanes_store
 *     lanes_join(x, y, bit)   lanes whose number has the bit come from y, the others from x, each summed with the lane
 *                             whose number differs in that bit alone
 *     raw, raw_load(p)        2 * LANES elements of a token
 *     SHARE                   tokens whose sums share a register from the start: 1, or 2 with raw_join(&x, &y), which
 *                             gathers words of two tokens: in x at their places, in y two places from there
 *     ROWS, PV_LINES          rows, and registers of a token's values, that are computed at once at most
 *
 * and for one kind of product:
 *
 *     NAME(f)                 f with the name of the kind
 *     line, line_of(raw)      elements as they are multiplied
 *     LINE_Q                  bytes of a row's query that meet a line
 *     line_dot(x, q, sum)     lane by lane sum + x * q; query_load(p)
 *     two, two_of(raw, raw)   elements of two tokens as they meet their weights
 *     weights, weights_make   the weights of a piece's rows as they are spread; weight, weight_load(w, row, i) of
 *                             tokens 2 i and 2 i + 1
 *     two_add(x, w, o)        o[0], o[1] + x * w: sums of the dims at even and at odd places */

/* Scores of four tokens, still spread over LANES / 4 lanes each. The query is read once for the four. */
WORD void NAME(qk_four)(const int rows, const uint8_t *k, size_t dim, const uint8_t *q, size_t q_stride,
                        const uint8_t *ahead, lanes *out) {
    lanes sum[ROWS][4];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int t = 0; t < 4 / SHARE; t++) sum[r][t] = lanes_zero();
    }
    for (size_t d = 0; d < dim; d += 2 * LANES) {
        raw x[4];
        line of[4];
        UNROLL for (int t = 0; t < 4; t++) x[t] = raw_load(k + ((size_t)t * dim + d) * 2);
        if (SHARE == 2) {
            raw_join(&x[0], &x[2]);
            raw_join(&x[1], &x[3]);
        }
        UNROLL for (int t = 0; t < 4; t++) of[t] = line_of(x[t]);
        UNROLL for (int b = 0; b < 16 * LANES; b += 64) prefetch_line(ahead + b);
        UNROLL for (int r = 0; r < rows; r++) {
            UNROLL for (int h = 0; h < SHARE; h++) {
                const line f = query_load(q + (size_t)r * q_stride + h * (LINE_Q / SHARE));
                UNROLL for (int t = 0; t < 4 / SHARE; t++) sum[r][t] = line_dot(of[2 * h + t], f, sum[r][t]);
            }
        }
        q += LINE_Q;
        ahead += 16 * LANES;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        out[r] = lanes_join(sum[r][0], sum[r][1], 1);
        if (SHARE == 1) out[r] = lanes_join(out[r], lanes_join(sum[r][2], sum[r][3], 1), 2);
    }
}

/* The spread sums are joined pair by pair until a lane is a token. */
WORD void NAME(qk_rows)(const int rows, const uint8_t *k, size_t dim, const uint8_t *q, size_t q_stride, float *s,
                        const uint8_t *ahead) {
    for (size_t t = 0; t < TILE; t += LANES) {
        lanes four[LANES / 4][ROWS];
        UNROLL for (size_t i = 0; i < LANES / 4; i++) {
            const size_t from = (t + 4 * i) * dim * 2;
            NAME(qk_four)(rows, k + from, dim, q, q_stride, ahead + from, four[i]);
            if (i % 2 == 0) continue;
            UNROLL for (int r = 0; r < rows; r++) four[i - 1][r] = lanes_join(four[i - 1][r], four[i][r], 4);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            if (LANES == 16) four[0][r] = lanes_join(four[0][r], four[LANES / 4 - 2][r], 8);
            lanes_store(s + r * TILE + t, four[0][r]);
        }
    }
}

/* o[r][d ..] of a pair of pieces: a weight is spread once for all the dims at hand. */
WORD void NAME(pv_lines)(const int rows, const uint8_t *const *v, size_t dim, size_t d, const weights *w, float *o,
                         const uint8_t *const *next) {
    lanes sum[ROWS][PV_LINES][2];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < 2 * PV_LINES; c++) {
            sum[r][c / 2][c % 2] = lanes_load(o + (size_t)r * dim + d + (size_t)c * LANES);
        }
    }
    UNROLL for (int n = 0; n < 2; n++) {
        const uint8_t *from = v[n] + d * 2, *ahead = next[n] + d * 2 * TILE;
        for (int i = 0; i < TILE / 2; i++) {
            two x[PV_LINES];
            UNROLL for (int c = 0; c < PV_LINES; c++) {
                x[c] = two_of(raw_load(from + c * 4 * LANES), raw_load(from + c * 4 * LANES + dim * 2));
            }
            UNROLL for (int b = 0; b < PV_LINES * 8 * LANES; b += 64) prefetch_line(ahead + b);
            UNROLL for (int r = 0; r < rows; r++) {
                const weight f = weight_load(w + n, r, i);
                UNROLL for (int c = 0; c < PV_LINES; c++) two_add(x[c], f, sum[r][c]);
            }
            from += dim * 4;
            ahead += PV_LINES * 8 * LANES;
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < 2 * PV_LINES; c++) {
            lanes_store(o + (size_t)r * dim + d + (size_t)c * LANES, sum[r][c / 2][c % 2]);
        }
    }
}

WORD void NAME(pv_rows)(const int rows, const uint8_t *const *v, size_t dim, const float *p, float *o,
                        const uint8_t *const *next) {
    weights w[2];
    weights_make(rows, p, w);
    weights_make(rows, p + ATTN_ROWS * TILE, w + 1);
    for (size_t d = 0; d < dim; d += PV_LINES * 2 * LANES) NAME(pv_lines)(rows, v, dim, d, w, o, next);
}

/* A function per number of rows: seeing all of them at once, GCC runs out of registers. */
#define QK_FN(n)                                                                                              \
    static void NAME(qk_##n)(const uint8_t *k, size_t dim, const uint8_t *q, size_t q_stride, float *s,      \
                             const uint8_t *ahead) {                                                          \
        NAME(qk_rows)(n, k, dim, q, q_stride, s, ahead);                                                      \
    }
QK_FN(1)
QK_FN(2)
QK_FN(3)
QK_FN(4)

static void NAME(qk)(const attn_qk_args *a) {
    static void (*const qk_of[])(const uint8_t *, size_t, const uint8_t *, size_t, float *, const uint8_t *) = {
        NULL, NAME(qk_1), NAME(qk_2), NAME(qk_3), NAME(qk_4)
    };
    const size_t dim = (size_t)a->dim, stride = dim / (2 * LANES) * LINE_Q;
    for (int i = 0; i < 2 * a->n_pairs; i++) {
        const uint8_t *k = a->k_tile[i], *q = (const uint8_t *)a->q, *next = a->ahead.tile[i];
        float *s = a->s + i * (ATTN_ROWS * TILE);
        for (int left = a->n_rows; left > 0; left -= ROWS, q += ROWS * stride, s += ROWS * TILE, next = k) {
            qk_of[left < ROWS ? left : ROWS](k, dim, q, stride, s, next);
        }
    }
}

static void NAME(pv)(const attn_pv_args *a) {
    const size_t dim = (size_t)a->dim;
    for (int i = 0; i < 2 * a->n_pairs; i += 2) {
        const uint8_t *v[2] = {a->v_tile[i], a->v_tile[i + 1]}, *ahead[2] = {a->ahead.tile[i], a->ahead.tile[i + 1]};
        const uint8_t *const *next = ahead;
        const float *p = a->p + i * (ATTN_ROWS * TILE);
        float *o = a->o;
        for (int left = a->n_rows; left > 0; left -= ROWS, p += ROWS * TILE, o += ROWS * dim, next = v) {
            switch (left) {
            case 1: NAME(pv_rows)(1, v, dim, p, o, next); break;
            case 2: NAME(pv_rows)(2, v, dim, p, o, next); break;
            case 3: NAME(pv_rows)(3, v, dim, p, o, next); break;
            default: NAME(pv_rows)(4, v, dim, p, o, next);
            }
        }
    }
}

/* Both kinds sum the dims at even places of a line first. */
static void NAME(get_o)(const float *o, int dim, float *out) {
    for (int d = 0; d < dim; d++) {
        const int i = d % (2 * LANES);
        out[d] = o[d - i + i % 2 * LANES + i / 2];
    }
}

#undef QK_FN
#undef NAME
#undef line
#undef line_of
#undef LINE_Q
#undef line_dot
#undef query_load
#undef two
#undef two_of
#undef two_add
#undef weight
#undef weight_load
#undef weights
#undef weights_make
