/* attn.c - one segment of attention: steps of scores, softmax and values, on any table of kernels.
 *
 * Owns the walk over steps and tiles, which rows see what, and what is prefetched when. Leaves arithmetic to the
 * kernels, and segments, sequences and merging to the caller. */
#include <math.h>
#include <string.h>

#include "kernel.h"
#include "scalar.h"

/* Tiles are read in one order: keys of a step, values of that step, keys of the next one. Prefetching runs this many
 * tiles ahead: half as many do not hide the memory's latency, twice as many are more than can be under way at once. */
enum { AHEAD = 4, STREAM_TILES = 2 * SEGMENT_TILES + AHEAD };

/* Tokens of the segment, from its first on, that any row sees. */
static int tokens_seen(const attn_segment *seg) {
    int last = seg->position[0];
    for (int r = 1; r < seg->n_rows; r++) {
        if (seg->position[r] > last) last = seg->position[r];
    }
    int n = last - seg->first + 1;
    return n < 0 ? 0 : n < seg->n_tokens ? n : seg->n_tokens;
}

static int pairs_of(int n_tokens) { return (n_tokens + 2 * TILE - 1) / (2 * TILE); }

/* List the tiles of the first n_tokens tokens in the order of reading; behind the end, the last again. Kernels take
 * keys in pairs, too: where the last pair has no second tile it is the first again, whose scores nobody will see. */
static void stream_make(const attn_segment *seg, int n_tokens, const void **stream) {
    const int n_k = (n_tokens + TILE - 1) / TILE;
    int n = 0;
    for (int at = 0; at < n_tokens; at += ATTN_STEP) {
        const int first = at / TILE, n_step = 2 * pairs_of(n_tokens - at < ATTN_STEP ? n_tokens - at : ATTN_STEP);
        for (int i = 0; i < n_step; i++) stream[n++] = seg->k_tile[first + i < n_k ? first + i : n_k - 1];
        for (int i = 0; i < n_step; i++) stream[n++] = seg->v_tile[first + i];
    }
    for (int i = 0; i < AHEAD; i++) stream[n + i] = stream[n - 1];
}

/* Bytes that every tile of the segment has. */
static size_t tile_bytes_least(const attn_segment *seg) {
    size_t k = (size_t)seg->dim_k * TILE * element_format_of(seg->k_format)->bytes;
    size_t v = (size_t)seg->dim_v * TILE * element_format_of(seg->v_format)->bytes;
    return k < v ? k : v;
}

/* Query rows as the kernels of scores read them: a pair of elements of every row, then the next pair. */
static void queries_pair(const attn_segment *seg, attn_scratch *scratch) {
    for (int r = 0; r < seg->n_rows; r++) {
        const float *q = seg->q + (size_t)r * (size_t)seg->dim_k;
        for (int i = 0; i < seg->dim_k / 2; i++) memcpy(scratch->q[i][r], q + 2 * i, 2 * sizeof *q);
    }
}

/* Scores to weights, row by row. A row that sees nothing of the step weighs everything with 0 and keeps its state. */
static void step_softmax(const kernels *k, const attn_segment *seg, attn_scratch *scratch, int at, int n, float *m,
                         float *o) {
    for (int r = 0; r < seg->n_rows; r++) {
        attn_row row = {.s = &scratch->s[0][r * TILE],
                        .n_pairs = pairs_of(n),
                        .narrow = seg->narrow,
                        .c = seg->c,
                        .m = m + r,
                        .l = scratch->l[r],
                        .o = o + (size_t)r * (size_t)seg->dim_v,
                        .dim = seg->dim_v};
        int visible = seg->position[r] - (seg->first + at) + 1;
        row.n_visible = visible < n ? visible : n;
        if (row.n_visible > 0) {
            k->attn_softmax(&row);
        } else {
            for (int t = 0; t < 2 * row.n_pairs; t++) memset(&scratch->s[t][r * TILE], 0, TILE * sizeof(float));
        }
    }
}

/* n tokens from token `at` of the segment on; stream: this step's keys, then its values, then what follows. */
static void step_run(const kernels *k, const attn_segment *seg, attn_scratch *scratch, const void *const *stream,
                     int at, int n, float *m, float *o) {
    const size_t bytes = tile_bytes_least(seg);
    const int n_pairs = pairs_of(n);
    k->attn_qk[seg->k_format](&(attn_qk_args){.k_tile = stream,
                                              .n_pairs = n_pairs,
                                              .dim = seg->dim_k,
                                              .n_rows = seg->n_rows,
                                              .q = scratch->q[0][0],
                                              .s = scratch->s[0],
                                              .ahead = {stream + AHEAD, bytes}});
    step_softmax(k, seg, scratch, at, n, m, o);
    k->attn_pv[seg->v_format](&(attn_pv_args){.v_tile = stream + 2 * n_pairs,
                                              .n_pairs = n_pairs,
                                              .dim = seg->dim_v,
                                              .n_rows = seg->n_rows,
                                              .p = scratch->s[0],
                                              .o = o,
                                              .ahead = {stream + 2 * n_pairs + AHEAD, bytes}});
}

void attn_segment_run(const kernels *k, const attn_segment *seg, attn_scratch *scratch, float *m, float *l, float *o) {
    const size_t n_o = (size_t)seg->n_rows * (size_t)seg->dim_v;
    const int n_tokens = tokens_seen(seg);
    const void *stream[STREAM_TILES];
    for (int r = 0; r < seg->n_rows; r++) m[r] = -INFINITY;
    memset(scratch->l, 0, sizeof scratch->l);
    memset(o, 0, n_o * sizeof *o);
    if (n_tokens > 0) {
        stream_make(seg, n_tokens, stream);
        queries_pair(seg, scratch);
    }
    for (int at = 0; at < n_tokens; at += ATTN_STEP) {
        int n = n_tokens - at < ATTN_STEP ? n_tokens - at : ATTN_STEP;
        step_run(k, seg, scratch, stream + 2 * (at / TILE), at, n, m, o);
    }
    for (int r = 0; r < seg->n_rows; r++) l[r] = scalar_tree16(scratch->l[r]);
    /* No negative zeros: whether one arises depends on which pairs were visited. */
    for (size_t i = 0; i < n_o; i++) o[i] = o[i] + 0.f;
}
