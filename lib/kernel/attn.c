/* attn.c - one segment of attention: steps of scores, softmax and values, on any table of kernels.
 *
 * Owns the walk over steps, heads and tiles, which rows see what, and what is prefetched when. Leaves arithmetic to the
 * kernels, tiles of sealed blocks to attn_sealed.c, and segments, sequences and merging to the caller. */
#include <math.h>
#include <string.h>

#include "attn_walk.h"
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
 * Keys of a step, values of that step, keys of the next one. Of keys those of a step that lie in codes come last, of
 * values first. In a block the keys of all heads lie behind each other, and so do their values; where several heads are
 * read, it is pair of tiles by pair of tiles, heads inside, so that memory is read in stretches that are as long as can
 * be. */

/* Pairs of tiles of a step with one that does not lie in codes: those in front of the codes and those behind. */
typedef struct runs {
    span run[2];
} runs;

static runs runs_of(const side *s, span step) {
    const span pairs = {step.first / 2, (step.end + 1) / 2}, codes = span_cut(step, s->codes);
    if (!span_length(codes)) return (runs){{pairs, {0, 0}}};
    const span front = {pairs.first, (codes.first + 1) / 2};
    const int behind = codes.end / 2 > front.end ? codes.end / 2 : front.end;
    return (runs){{front, {behind, codes.end == step.end ? behind : pairs.end}}};
}

/* Pairs of tiles that a call of a kernel takes, of a run of n. */
static int pairs_per_call(const walk *w, const side *s, int n) {
    if (w->seg->n_heads > 1) return 1;
    return span_length(s->float8) ? int_least(n, sealed_pairs_most(s)) : n;
}

/* Add the pairs of a run, of all heads. Where the last pair has no second tile it is the first again, whose tokens
 * nobody will see; for a tile in codes stands the other tile of keys, whose scores are of no use, or values of 0. */
static const void **pairs_add(const walk *w, const side *s, span run, const void **to) {
    for (int t = 2 * run.first; t < 2 * run.end; t += 2) {
        for (int h = 0; h < w->seg->n_heads; h++) {
            const void *const *head = s->tile + h * SEGMENT_TILES;
            const int next = int_least(t + 1, w->n_tiles - 1);
            const void *zero = w->seg->zero_tile;
            /* A weight of 0 still meets the values that stand in: the last tile's may be infinite. */
            const int lone = !s->keys && zero && next == t && !span_has(s->float8, t);
            *to++ = span_has(s->codes, t) ? s->keys ? head[next] : zero : head[t];
            *to++ = lone ? zero : span_has(s->codes, next) ? s->keys ? head[t] : zero : head[next];
        }
    }
    return to;
}

static const void **hot_add(const walk *w, const side *s, span step, const void **to) {
    const runs hot = runs_of(s, step);
    return pairs_add(w, s, hot.run[1], pairs_add(w, s, hot.run[0], to));
}

/* Tiles in codes of some heads. */
static const void **heads_add(const walk *w, const side *s, span heads, span tiles, const void **to) {
    const int group = sealed_group(w, s, tiles);
    for (int from = tiles.first; from < tiles.end; from += group) {
        for (int h = heads.first; h < heads.end; h++) {
            for (int t = from; t < int_least(from + group, tiles.end); t++) *to++ = s->tile[h * SEGMENT_TILES + t];
        }
    }
    return to;
}

static const void **codes_add(const walk *w, const side *s, span step, const void **to) {
    const span tiles = span_cut(step, s->codes);
    const int n_heads = sealed_heads(w, s);
    for (int h = 0; h < w->seg->n_heads; h += n_heads) to = heads_add(w, s, (span){h, h + n_heads}, tiles, to);
    return to;
}

/* Tiles of the step that begins with this tile. */
static span step_of(const walk *w, int tile) { return (span){tile, int_least(tile + STEP_TILES, w->n_tiles)}; }

/* List the tiles that are seen in the order of reading; behind the end, the last again. */
static void stream_make(const walk *w) {
    const void **to = w->scratch->stream;
    for (int t = 0; t < w->n_tiles; t += STEP_TILES) {
        const span step = step_of(w, t);
        to = codes_add(w, &w->keys, step, hot_add(w, &w->keys, step, to));
        to = hot_add(w, &w->values, step, codes_add(w, &w->values, step, to));
    }
    for (int i = 0; i < w->ahead; i++) to[i] = to[-1];
}

/* --------------------------------------------------------------------------------------------------- a step */

/* With fewer rows than this memory is the limit, and kernels that take longer for a line leave prefetching more room:
 * 20 GB/s against 16 on one core with 3 rows. */
enum { PAIRS_ROWS = 5 };

static int scores_pairs(const walk *w) {
    return w->seg->narrow_q && w->k->attn_qk_pairs && w->seg->n_rows >= PAIRS_ROWS;
}
static int weighs_pairs(const walk *w) {
    return w->seg->narrow && w->k->attn_pv_pairs && w->seg->n_rows >= PAIRS_ROWS;
}

/* Query rows as the kernels of scores read them: a step of both chains of every row, then the next step. */
static void queries_spread(const walk *w) {
    const attn_segment *seg = w->seg;
    attn_scratch *scratch = w->scratch;
    const int pairs = scores_pairs(w);
    for (int r = 0; r < seg->n_heads * seg->n_rows; r++) {
        const float *q = seg->q + (size_t)r * (size_t)seg->dim_k;
        for (int i = 0; !pairs && i < seg->dim_k / 2; i++) memcpy(scratch->q[i][r], q + 2 * i, 2 * sizeof *q);
        for (int i = 0; pairs && i < seg->dim_k / 4; i++, q += 4) {
            const uint32_t both[2] = {attn_pair(q[0], q[2]), attn_pair(q[1], q[3])};
            memcpy(scratch->q[i][r], both, sizeof both);
        }
    }
}

/* The next n pairs of tiles, pair `first` of the segment on. */
static const void *const *pairs_next(const walk *w, const side *s, int first, int n) {
    return span_length(s->float8) ? sealed_widened(w, s, 2 * first, 2 * n) : w->stream;
}

static void run_scores(walk *w, span run, span step) {
    const attn_segment *seg = w->seg;
    const attn_qk_fn qk = scores_pairs(w) ? w->k->attn_qk_pairs : w->k->attn_qk[w->keys.hot];
    for (int pair = run.first, n; pair < run.end; pair += n) {
        n = pairs_per_call(w, &w->keys, run.end - pair);
        for (int h = 0; h < seg->n_heads; h++, w->stream += 2 * n) {
            qk(&(attn_qk_args){.k_tile = pairs_next(w, &w->keys, pair, n),
                               .n_pairs = n,
                               .dim = seg->dim_k,
                               .n_rows = seg->n_rows,
                               .q = w->scratch->q[0][h * seg->n_rows],
                               .s = w->scratch->s[2 * pair - step.first] + h * seg->n_rows * TILE,
                               .ahead = {w->stream + w->ahead, w->ahead_bytes}});
        }
    }
}

static void run_values(walk *w, span run, span step) {
    const attn_segment *seg = w->seg;
    const attn_pv_fn pv = weighs_pairs(w) ? w->k->attn_pv_pairs : w->k->attn_pv[w->values.hot];
    for (int pair = run.first, n; pair < run.end; pair += n) {
        n = pairs_per_call(w, &w->values, run.end - pair);
        for (int h = 0; h < seg->n_heads; h++, w->stream += 2 * n) {
            pv(&(attn_pv_args){.v_tile = pairs_next(w, &w->values, pair, n),
                               .n_pairs = n,
                               .dim = seg->dim_v,
                               .n_rows = seg->n_rows,
                               .p = w->scratch->s[2 * pair - step.first] + h * seg->n_rows * TILE,
                               .o = w->o + (size_t)(h * seg->n_rows) * (size_t)seg->dim_v,
                               .ahead = {w->stream + w->ahead, w->ahead_bytes}});
        }
    }
}

static void step_scores(walk *w, span step) {
    const runs hot = runs_of(&w->keys, step);
    run_scores(w, hot.run[0], step);
    run_scores(w, hot.run[1], step);
    sealed_scores(w, step);
}

static void step_values(walk *w, span step) {
    const runs hot = runs_of(&w->values, step);
    sealed_values(w, step);
    run_values(w, hot.run[0], step);
    run_values(w, hot.run[1], step);
}

/* Scales of one head's tiles of the step, if some of them are float8. */
static const uint16_t *const *step_scales(const side *s, int head, span step) {
    return span_length(span_cut(step, s->float8)) ? s->scale + head * SEGMENT_TILES + step.first : NULL;
}

/* Scores to weights, row by row. A row that sees nothing of the step weighs everything with 0 and keeps its state. */
static void step_softmax(const walk *w, span step, int n) {
    const attn_segment *seg = w->seg;
    const attn_softmax_fn softmax = weighs_pairs(w) ? w->k->attn_softmax_pairs : w->k->attn_softmax;
    for (int r = 0; r < seg->n_heads * seg->n_rows; r++) {
        attn_row row = {.s = &w->scratch->s[0][r * TILE],
                        .n_pairs = pairs_of(n),
                        .narrow = seg->narrow,
                        .c = seg->c,
                        .m = w->m + r,
                        .l = w->scratch->l[r],
                        .o = w->o + (size_t)r * (size_t)seg->dim_v,
                        .dim = seg->dim_v,
                        .k_scale = step_scales(&w->keys, r / seg->n_rows, step),
                        .v_scale = step_scales(&w->values, r / seg->n_rows, step)};
        row.n_visible = int_least(seg->position[r % seg->n_rows] - (seg->first + step.first * TILE) + 1, n);
        if (row.n_visible > 0) {
            softmax(&row);
        } else {
            for (int t = 0; t < 2 * row.n_pairs; t++) memset(&w->scratch->s[t][r * TILE], 0, TILE * sizeof(float));
        }
    }
}

/* ------------------------------------------------------------------------------------------------ a segment */

static side side_of(const walk *w, int keys) {
    const attn_segment *seg = w->seg;
    const int number = keys ? seg->k_format : seg->v_format, dim = keys ? seg->dim_k : seg->dim_v;
    const kv_format *f = kv_format_of(number);
    const span sealed = {seg->sealed_from / TILE, int_least(seg->sealed_to / TILE, w->n_tiles)}, none = {0, 0};
    const int hot = keys ? f->hot_k : f->hot_v;
    const size_t hot_bytes = (size_t)dim * TILE * element_format_of(hot)->bytes;
    return (side){.format = f,
                  .tile = keys ? seg->k_tile : seg->v_tile,
                  .scale = keys ? w->scratch->k_scale : w->scratch->v_scale,
                  .keys = keys,
                  .number = number,
                  .hot = hot,
                  .dim = (size_t)dim,
                  .tile_bytes = span_length(sealed) ? kv_tile_bytes(f, dim) : hot_bytes,
                  .codes = f->kind == KV_CODES && span_length(sealed) ? sealed : none,
                  .float8 = f->kind == KV_FLOAT8 && span_length(sealed) ? sealed : none};
}

/* Tiles of about as many bytes as ATTN_AHEAD of bf16. */
static int tiles_ahead(const walk *w) {
    const size_t bf16 = (w->keys.dim + w->values.dim) * TILE * sizeof(uint16_t);
    const size_t bytes = w->keys.tile_bytes + w->values.tile_bytes, n = ATTN_AHEAD * bf16 / bytes;
    return n < ATTN_AHEAD ? ATTN_AHEAD : n > ATTN_AHEAD_MAX ? ATTN_AHEAD_MAX : (int)n;
}

static void walk_begin(walk *w, int n_tokens) {
    w->n_tiles = int_ceil_div(n_tokens, TILE);
    w->keys = side_of(w, 1);
    w->values = side_of(w, 0);
    w->ahead = tiles_ahead(w);
    w->ahead_bytes = size_least(w->keys.tile_bytes, w->values.tile_bytes);
    w->stream = w->scratch->stream;
    stream_make(w);
    if (span_length(w->keys.codes) < w->n_tiles) queries_spread(w);
    sealed_begin(w);
    sealed_prefetch(w, &w->keys, step_of(w, 0));
}

void attn_segment_run(const kernels *k, const attn_segment *seg, attn_scratch *scratch, float *m, float *l, float *o) {
    const int n_rows = seg->n_heads * seg->n_rows, n_tokens = tokens_seen(seg);
    const size_t n_o = (size_t)n_rows * (size_t)seg->dim_v;
    walk w = {.k = k, .seg = seg, .scratch = scratch, .m = m, .o = o};
    for (int r = 0; r < n_rows; r++) m[r] = -INFINITY;
    memset(scratch->l, 0, sizeof scratch->l);
    memset(o, 0, n_o * sizeof *o);
    if (n_tokens > 0) walk_begin(&w, n_tokens);
    for (int at = 0; at < n_tokens; at += ATTN_STEP) {
        const span step = step_of(&w, at / TILE);
        sealed_prefetch(&w, &w.values, step);
        step_scores(&w, step);
        sealed_prefetch(&w, &w.keys, step_of(&w, step.first + STEP_TILES));
        step_softmax(&w, step, int_least(n_tokens - at, ATTN_STEP));
        step_values(&w, step);
    }
    for (int r = 0; r < n_rows; r++) l[r] = scalar_tree16(scratch->l[r]);
    /* No negative zeros: whether one arises depends on which pairs were visited. */
    for (size_t i = 0; i < n_o; i += TILE) {
        for (size_t j = i; j < i + TILE; j++) o[j] = o[j] + 0.f;
    }
}
