/* attn_sealed.c - the sealed tiles of a step: where their scales and centroids lie, scores and values of tiles in
 * codes, and float8 tiles widened to bf16 for the kernels that read those.
 *
 * Leaves arithmetic to the kernels, and the order of a step to attn.c.
 *
 * Codes are read a few tiles of each head in turn, so that memory is read in long stretches: a sum of values over a
 * step is one exact integer in any order. */
#include "attn_walk.h"

static const uint16_t ones[TILE] = {[0 ... TILE - 1] = 0x3f80};

/* ---------------------------------------------------------------------------------------------- records */

/* Blocks that tiles lie in. */
static span blocks_of(const walk *w, span tiles) {
    const int n = w->seg->block_tiles;
    return span_length(tiles) ? (span){tiles.first / n, int_ceil_div(tiles.end, n)} : (span){0, 0};
}

static const uint8_t *record_of(const walk *w, const side *s, int head, int block) {
    return s->tile[head * SEGMENT_TILES + block * w->seg->block_tiles];
}

static span sealed_of(const side *s) { return span_length(s->codes) ? s->codes : s->float8; }

static void scales_find(const walk *w, const side *s) {
    const int n = w->seg->block_tiles;
    const size_t at = kv_scales_at(s->format, (int)s->dim, n);
    const span blocks = blocks_of(w, sealed_of(s));
    for (int h = 0; h < w->seg->n_heads; h++) {
        const uint16_t **scale = s->scale + h * SEGMENT_TILES;
        for (int t = 0; span_length(s->float8) && t < SEGMENT_TILES; t++) scale[t] = ones;
        for (int b = blocks.first; b < blocks.end; b++) {
            const uint16_t *of_block = (const void *)(record_of(w, s, h, b) + at);
            for (int i = 0; i < n; i++) scale[b * n + i] = of_block + i * TILE;
        }
    }
}

static void centres_find(const walk *w) {
    const span tiles = w->keys.codes;
    for (int h = 0; h < w->seg->n_heads; h++) {
        for (int t = tiles.first; t < tiles.end; t++) {
            const float *centre = w->scratch->centre[t / w->seg->block_tiles];
            w->scratch->centre_of[h][t] = centre + h * w->seg->n_rows;
        }
    }
}

void sealed_begin(walk *w) {
    const int dim = (int)w->keys.dim;
    if (span_length(sealed_of(&w->keys))) scales_find(w, &w->keys);
    if (span_length(sealed_of(&w->values))) scales_find(w, &w->values);
    if (!span_length(w->keys.codes)) return;
    centres_find(w);
    for (int r = 0; r < w->seg->n_heads * w->seg->n_rows; r++) {
        w->k->code_query(w->seg->q + (size_t)r * w->keys.dim, dim, r, &w->scratch->code_q);
    }
}

/* Into the second-level cache: the first has too few places for so many lines under way at once. */
void sealed_prefetch(const walk *w, const side *s, span tiles) {
    const int n = w->seg->block_tiles, dim = (int)s->dim;
    const span blocks = blocks_of(w, span_cut(tiles, sealed_of(s)));
    if (!span_length(blocks)) return;
    const size_t from = kv_scales_at(s->format, dim, n), to = kv_record_bytes(s->format, dim, n, s->keys);
    for (int h = 0; h < w->seg->n_heads; h++) {
        for (int b = blocks.first; b < blocks.end; b++) {
            const uint8_t *record = record_of(w, s, h, b);
            for (size_t i = from; i < to; i += 64) __builtin_prefetch(record + i, 0, 2);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ codes */

/* What centroids of the blocks of these tiles add to scores of one head. */
static void centres_make(const walk *w, int head, span tiles) {
    const uint16_t *centroid[STEP_TILES];
    const span blocks = blocks_of(w, tiles);
    const size_t at = kv_centroid_at(w->keys.format, (int)w->keys.dim, w->seg->block_tiles);
    const int row = head * w->seg->n_rows;
    for (int b = blocks.first; b < blocks.end; b++) {
        centroid[b - blocks.first] = (const void *)(record_of(w, &w->keys, head, b) + at);
    }
    w->k->code_centre(centroid, span_length(blocks), (int)w->keys.dim, w->seg->q + (size_t)row * w->keys.dim,
                      w->seg->n_rows, w->scratch->centre[blocks.first] + row);
}

/* Tiles of more than a kilobyte are long stretches of their own. */
int sealed_heads(const walk *w, const side *s) { return s->tile_bytes > 1024 ? 1 : w->seg->n_heads; }

/* Two tiles of a kilobyte, four of less: fewer cost calls, and more make the stretches of memory short. */
int sealed_group(const walk *w, const side *s, span tiles) {
    if (sealed_heads(w, s) == 1) return span_length(tiles);
    return int_most(w->seg->block_tiles, s->tile_bytes < 1024 ? 4 : 2);
}

void sealed_scores(walk *w, span step) {
    const side *s = &w->keys;
    const span tiles = span_cut(step, s->codes);
    const int n = span_length(tiles), n_heads = sealed_heads(w, s);
    for (int h = 0; n && h < w->seg->n_heads; h += n_heads, w->stream += n_heads * n) {
        const int at = h * SEGMENT_TILES + tiles.first, row = h * w->seg->n_rows;
        for (int i = h; i < h + n_heads; i++) centres_make(w, i, tiles);
        w->k->code_qk[s->number](&(code_qk_args){.k_tile = s->tile + at,
                                                 .k_scale = s->scale + at,
                                                 .centre = w->scratch->centre_of[h] + tiles.first,
                                                 .n_heads = n_heads,
                                                 .n_tiles = n,
                                                 .group = sealed_group(w, s, tiles),
                                                 .dim = (int)s->dim,
                                                 .row = row,
                                                 .n_rows = w->seg->n_rows,
                                                 .q = &w->scratch->code_q,
                                                 .s = w->scratch->s[tiles.first - step.first] + row * TILE,
                                                 .ahead = {w->stream + w->ahead, s->tile_bytes}});
    }
}

/* Weights of one head's rows as integers. */
static void weights_make(const walk *w, int head, span step, span tiles) {
    const uint16_t *const *scale = w->values.scale + head * SEGMENT_TILES + tiles.first;
    for (int r = head * w->seg->n_rows; r < (head + 1) * w->seg->n_rows; r++) {
        const float *p = w->scratch->s[tiles.first - step.first] + r * TILE;
        w->k->code_weigh(p, scale, span_length(tiles), r, &w->scratch->code_p);
    }
}

void sealed_values(walk *w, span step) {
    const side *s = &w->values;
    const span tiles = span_cut(step, s->codes);
    const int n = span_length(tiles), n_heads = sealed_heads(w, s);
    for (int h = 0; n && h < w->seg->n_heads; h += n_heads, w->stream += n_heads * n) {
        const int row = h * w->seg->n_rows;
        for (int i = h; i < h + n_heads; i++) weights_make(w, i, step, tiles);
        w->k->code_pv[s->number](&(code_pv_args){.v_tile = s->tile + h * SEGMENT_TILES + tiles.first,
                                                 .n_heads = n_heads,
                                                 .n_tiles = n,
                                                 .group = sealed_group(w, s, tiles),
                                                 .dim = (int)s->dim,
                                                 .row = row,
                                                 .n_rows = w->seg->n_rows,
                                                 .p = &w->scratch->code_p,
                                                 .o = w->o + (size_t)row * s->dim,
                                                 .ahead = {w->stream + w->ahead, s->tile_bytes}});
    }
}

/* ----------------------------------------------------------------------------------------------- float8 */

int sealed_pairs_most(const side *s) {
    const size_t pair_bytes = 2 * TILE * s->dim * sizeof(uint16_t);
    return pair_bytes > ATTN_WIDENED_BYTES / 2 ? 1 : (int)(ATTN_WIDENED_BYTES / 2 / pair_bytes);
}

const void *const *sealed_widened(const walk *w, const side *s, int first, int n) {
    const float8_widen_fn widen = (s->keys ? w->k->widen_k : w->k->widen_v)[s->number];
    uint8_t *to = w->scratch->widened;
    for (int i = 0; i < n; i++, to += TILE * s->dim * sizeof(uint16_t)) {
        const int is_sealed = span_has(s->float8, int_least(first + i, w->n_tiles - 1));
        if (is_sealed) widen(w->stream[i], (int)s->dim, to);
        w->scratch->widened_tile[i] = is_sealed ? to : w->stream[i];
    }
    return w->scratch->widened_tile;
}
