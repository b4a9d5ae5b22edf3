/* attn_soft.h - softmax of a step in the 16-lane words of one instruction set.
 *
 * Included once by each of its files, after their words and STORE_WEIGHTS(s, w), which puts 16 weights where scores
 * were. */
#include <math.h>

#include "scalar.h"

/* Scores or values of pairs of tiles for some number of rows, see attn_body.h; `next`: tiles to prefetch. */
typedef void (*attn_rows_fn)(const uint8_t *const *tile, int n_pairs, size_t dim, const float *factor, float *sum,
                             const uint8_t *const *next, size_t next_bytes);

/* Rows to take at a time so that blocks of at most `most` rows are about equal: 9 rows are 5 and 4, not 8 and 1. */
static int rows_per_block(int n_rows, int most) {
    int n_blocks = (n_rows + most - 1) / most;
    return (n_rows + n_blocks - 1) / n_blocks;
}

/* The largest visible score, NaN left aside: where the first operand is NaN, vf_max gives the second. */
static float softmax_top(const attn_row *row) {
    const float *s = row->s;
    vf top = vf_set1(-INFINITY);
    int left = row->n_visible;
    for (; left >= TILE; left -= TILE, s += ATTN_ROWS * TILE) top = vf_max(vf_load(s), top);
    if (left > 0) top = vf_max(vf_first(vf_load(s), top, left), top);
    return vf_max_all(top);
}

/* Take `top` as the new reference: what was summed so far is measured against it from now on. */
static void softmax_raise(const attn_row *row, float top) {
    const vf scale = vf_set1(*row->m == -INFINITY ? 0 : scalar_exp2(*row->m - top));
    vf_store(row->l, vf_mul(vf_load(row->l), scale));
    for (int d = 0; d < row->dim; d += TILE) vf_store(row->o + d, vf_mul(vf_load(row->o + d), scale));
    *row->m = top;
}

/* Weights of one tile, 0 from `left` tokens on. */
WORD vf softmax_weights(const float *s, vf c, vf m, int left) {
    vf p = vf_exp2(vf_fma(vf_load(s), c, m));
    return left >= TILE ? p : vf_first(p, vf_zero(), left > 0 ? left : 0);
}

/* How weights are rounded: not at all, as those of scores of common size, as any. */
enum { NARROW_NOT, NARROW_WEIGHT, NARROW_ANY };

WORD vf softmax_narrow(vf p, const int how) {
    return how == NARROW_NOT ? p : how == NARROW_WEIGHT ? vf_narrow_weight(p) : vf_narrow(p);
}

/* v_scale: the row's, or a constant NULL. */
WORD void softmax_pairs(const attn_row *row, const int how, const uint16_t *const *v_scale) { /* pairs of tiles */
    const vf c = vf_set1(row->c), m = vf_set1(-*row->m);
    vf l = vf_load(row->l);
    float *s = row->s;
    for (int pair = 0; pair < row->n_pairs; pair++, s += 2 * ATTN_ROWS * TILE) {
        const int left = row->n_visible - pair * 2 * TILE;
        vf a = softmax_weights(s, c, m, left), b = softmax_weights(s + ATTN_ROWS * TILE, c, m, left - TILE);
        l = vf_add(l, vf_add(a, b));
        if (v_scale) {
            a = vf_mul(a, vf_widen_bf16(v_scale[2 * pair]));
            b = vf_mul(b, vf_widen_bf16(v_scale[2 * pair + 1]));
        }
        STORE_WEIGHTS(s, softmax_narrow(a, how));
        STORE_WEIGHTS(s + ATTN_ROWS * TILE, softmax_narrow(b, how));
    }
    vf_store(row->l, l);
}

/* Of weights that are not scaled: exponents are at most 8, and as much more as the largest score was rounded: little,
 * unless it is enormous. */
static int softmax_how(const attn_row *row) {
    if (!row->narrow) return NARROW_NOT;
    return *row->m > -0x1p30f && *row->m < 0x1p30f ? NARROW_WEIGHT : NARROW_ANY;
}

static void softmax_scale(const attn_row *row) {
    float *s = row->s;
    for (int t = 0; t < 2 * row->n_pairs; t++, s += ATTN_ROWS * TILE) {
        vf_store(s, vf_mul(vf_load(s), vf_widen_bf16(row->k_scale[t])));
    }
}

/* The maximum, before the weights. */
static void softmax_begin(const attn_row *row) {
    if (row->k_scale) softmax_scale(row);
    float top = softmax_top(row) * row->c;
    if (!(top <= *row->m + 8)) softmax_raise(row, top);
}
