/* attn.c - one segment of attention: steps of scores, softmax and values, on any table of kernels.
 *
 * Owns the walk over steps, heads and tiles, which rows see what, and what is prefetched when. Leaves arithmetic to the
 * kernels, and segments, sequences and merging to the caller. */
#include <math.h>
#include <string.h>

#include "base/ints.h"
#include "kernel.h"
#include "scalar.h"

/* Tokens of the segment, from its first on, that any row sees. */
static int tokens_seen(const attn_segment *seg) {
    int last = seg->position[0];
    for (int r = 1; r < seg->n_rows; r++) {
        if (seg->position[r] > last) last = seg->position[r];
    }
    int n = int_least(last - seg->first + 1, seg->n_tokens);
    return n < 0 ? 0 : n;
}

static int pairs_of(int n_tokens) { return (n_tokens + 2 * TILE - 1) / (2 * TILE); }

/* ------------------------------------------------------------------------------------ the order of reading
 *
 * Keys of a step, values of that step, keys of the next one. In a block the keys of all heads lie behind each other,
 * and so do their values; where several heads are read, it is pair of tiles by pair of tiles, heads inside, so that
 * memory is read in stretches that are as long as can be. */

/* Pairs of tiles that a call of a kernel takes. */
static int pairs_per_call(const attn_segment *seg, int n_pairs) { return seg->n_heads == 1 ? n_pairs : 1; }

/* Add the pairs first .. first + n - 1 of all heads. Kernels take keys in pairs, too: where the last pair has no second
 * tile it is the first again, whose scores nobody will see. */
static const void **pairs_add(const attn_segment *seg, const void *const *tile, int first, int n, int n_tiles,
                              const void **to) {
    for (int t = 2 * first; t < 2 * (first + n); t += 2) {
        for (int h = 0; h < seg->n_heads; h++) {
            const void *const *head = tile + h * SEGMENT_TILES;
            *to++ = head[t];
            *to++ = head[int_least(t + 1, n_tiles - 1)];
        }
    }
    return to;
}

/* List the tiles of the first n_tokens tokens in the order of reading; behind the end, the last again. */
static void stream_make(const attn_segment *seg, int n_tokens, const void **stream) {
    const int n_k = (n_tokens + TILE - 1) / TILE, n_v = 2 * pairs_of(n_tokens);
    for (int at = 0; at < n_tokens; at += ATTN_STEP) {
        const int first = at / (2 * TILE), n = pairs_of(int_least(n_tokens - at, ATTN_STEP));
        stream = pairs_add(seg, seg->k_tile, first, n, n_k, stream);
        stream = pairs_add(seg, seg->v_tile, first, n, n_v, stream);
    }
    for (int i = 0; i < ATTN_AHEAD; i++) stream[i] = stream[-1];
}

/* Bytes that every tile of the segment has. */
static size_t tile_bytes_least(const attn_segment *seg) {
    size_t k = (size_t)seg->dim_k * TILE * element_format_of(seg->k_format)->bytes;
    size_t v = (size_t)seg->dim_v * TILE * element_format_of(seg->v_format)->bytes;
    return k < v ? k : v;
}

/* --------------------------------------------------------------------------------------------------- a step */

/* With fewer rows than this memory is the limit, and kernels that take longer for a line leave prefetching more room:
 * 20 GB/s against 16 on one core with 3 rows. */
enum { PAIRS_ROWS = 5 };

static int scores_pairs(const kernels *k, const attn_segment *seg) {
    return seg->narrow_q && k->attn_qk_pairs && seg->n_rows >= PAIRS_ROWS;
}
static int weighs_pairs(const kernels *k, const attn_segment *seg) {
    return seg->narrow && k->attn_pv_pairs && seg->n_rows >= PAIRS_ROWS;
}

/* Query rows as the kernels of scores read them: a step of both chains of every row, then the next step. */
static void queries_spread(const kernels *k, const attn_segment *seg, attn_scratch *scratch) {
    const int pairs = scores_pairs(k, seg);
    for (int r = 0; r < seg->n_heads * seg->n_rows; r++) {
        const float *q = seg->q + (size_t)r * (size_t)seg->dim_k;
        for (int i = 0; !pairs && i < seg->dim_k / 2; i++) memcpy(scratch->q[i][r], q + 2 * i, 2 * sizeof *q);
        for (int i = 0; pairs && i < seg->dim_k / 4; i++, q += 4) {
            const uint32_t both[2] = {attn_pair(q[0], q[2]), attn_pair(q[1], q[3])};
            memcpy(scratch->q[i][r], both, sizeof both);
        }
    }
}

static const void *const *step_scores(const kernels *k, const attn_segment *seg, attn_scratch *scratch,
                                      const void *const *stream, int n_pairs) {
    const attn_qk_fn qk = scores_pairs(k, seg) ? k->attn_qk_pairs : k->attn_qk[seg->k_format];
    const int n = pairs_per_call(seg, n_pairs);
    for (int pair = 0; pair < n_pairs; pair += n) {
        for (int h = 0; h < seg->n_heads; h++, stream += 2 * n) {
            qk(&(attn_qk_args){.k_tile = stream,
                               .n_pairs = n,
                               .dim = seg->dim_k,
                               .n_rows = seg->n_rows,
                               .q = scratch->q[0][h * seg->n_rows],
                               .s = scratch->s[2 * pair] + h * seg->n_rows * TILE,
                               .ahead = {stream + ATTN_AHEAD, scratch->ahead_bytes}});
        }
    }
    return stream;
}

/* Scores to weights, row by row. A row that sees nothing of the step weighs everything with 0 and keeps its state. */
static void step_softmax(const kernels *k, const attn_segment *seg, attn_scratch *scratch, int at, int n, float *m,
                         float *o) {
    const attn_softmax_fn softmax = weighs_pairs(k, seg) ? k->attn_softmax_pairs : k->attn_softmax;
    for (int r = 0; r < seg->n_heads * seg->n_rows; r++) {
        attn_row row = {.s = &scratch->s[0][r * TILE],
                        .n_pairs = pairs_of(n),
                        .narrow = seg->narrow,
                        .c = seg->c,
                        .m = m + r,
                        .l = scratch->l[r],
                        .o = o + (size_t)r * (size_t)seg->dim_v,
                        .dim = seg->dim_v};
        row.n_visible = int_least(seg->position[r % seg->n_rows] - (seg->first + at) + 1, n);
        if (row.n_visible > 0) {
            softmax(&row);
        } else {
            for (int t = 0; t < 2 * row.n_pairs; t++) memset(&scratch->s[t][r * TILE], 0, TILE * sizeof(float));
        }
    }
}

static const void *const *step_values(const kernels *k, const attn_segment *seg, const attn_scratch *scratch,
                                      const void *const *stream, int n_pairs, float *o) {
    const attn_pv_fn pv = weighs_pairs(k, seg) ? k->attn_pv_pairs : k->attn_pv[seg->v_format];
    const int n = pairs_per_call(seg, n_pairs);
    for (int pair = 0; pair < n_pairs; pair += n) {
        for (int h = 0; h < seg->n_heads; h++, stream += 2 * n) {
            pv(&(attn_pv_args){.v_tile = stream,
                               .n_pairs = n,
                               .dim = seg->dim_v,
                               .n_rows = seg->n_rows,
                               .p = scratch->s[2 * pair] + h * seg->n_rows * TILE,
                               .o = o + (size_t)(h * seg->n_rows) * (size_t)seg->dim_v,
                               .ahead = {stream + ATTN_AHEAD, scratch->ahead_bytes}});
        }
    }
    return stream;
}

void attn_segment_run(const kernels *k, const attn_segment *seg, attn_scratch *scratch, float *m, float *l, float *o) {
    const int n_rows = seg->n_heads * seg->n_rows, n_tokens = tokens_seen(seg);
    const size_t n_o = (size_t)n_rows * (size_t)seg->dim_v;
    const void *const *stream = scratch->stream;
    for (int r = 0; r < n_rows; r++) m[r] = -INFINITY;
    memset(scratch->l, 0, sizeof scratch->l);
    memset(o, 0, n_o * sizeof *o);
    if (n_tokens > 0) {
        stream_make(seg, n_tokens, scratch->stream);
        queries_spread(k, seg, scratch);
        scratch->ahead_bytes = tile_bytes_least(seg);
    }
    for (int at = 0; at < n_tokens; at += ATTN_STEP) {
        const int n = int_least(n_tokens - at, ATTN_STEP);
        stream = step_scores(k, seg, scratch, stream, pairs_of(n));
        step_softmax(k, seg, scratch, at, n, m, o);
        stream = step_values(k, seg, scratch, stream, pairs_of(n), o);
    }
    for (int r = 0; r < n_rows; r++) l[r] = scalar_tree16(scratch->l[r]);
    /* No negative zeros: whether one arises depends on which pairs were visited. */
    for (size_t i = 0; i < n_o; i++) o[i] = o[i] + 0.f;
}
