/* attend.c - owns the calls kvt_append and kvt_attend: one piece of a layer's attention, and what becomes of its
 * results. Leaves how a layer is cut into pieces to plan.c, a segment's arithmetic to kernel/.
 *
 * A piece walks segments with all its rows, so that a segment is read from memory once. Its results are merged in the
 * order of the segments: by the piece itself if it has all of them, else by whoever finishes the last one. Both use the
 * same function, so the cutting, like the number of threads, moves no bit. */
#include "attend.h"

#include <math.h>
#include <string.h>

#include "base/ints.h"
#include "base/thread.h"
#include "cache.h"

typedef struct attend_job {
    kvt_cache *c;
    const layer_shape *layer;
    const float *q; /* [n_rows][n_heads_q][dim_k] */
    float *out;     /* [n_rows][n_heads_q][dim_v] */
    bool apart;     /* a value of this step is infinite or NaN */
} attend_job;

void attend_carve(attend *a, carve *c, const layout *l) {
    size_t n_threads = (size_t)l->n_threads, rows = (size_t)l->item_rows;
    size_t pad_k = (size_t)l->pad_k, pad_v = (size_t)l->pad_v;
    a->worker = carve_take(c, n_threads, sizeof *a->worker);
    a->item = carve_take(c, l->n_items, sizeof *a->item);
    a->split = carve_take(c, l->n_splits, sizeof *a->split);
    a->split_of = carve_take(c, (size_t)l->n_entries, sizeof *a->split_of);
    a->shared = carve_take(c, (size_t)l->n_entries, sizeof *a->shared);
    a->partial = carve_take(c, l->partial_floats, sizeof *a->partial);
    a->zero_tile = carve_take(c, pad_v * TILE, sizeof(float));
    for (size_t i = 0; i < n_threads; i++) {
        attend_worker unplaced, *w = a->worker ? &a->worker[i] : &unplaced;
        w->q = carve_take(c, rows * pad_k, sizeof *w->q);
        w->O = carve_take(c, rows * pad_v, sizeof *w->O);
        w->o = carve_take(c, ATTN_ROWS * pad_v, sizeof *w->o);
        w->cut_tile = carve_take(c, pad_v * TILE, sizeof(float));
    }
}

/* ------------------------------------------------------------------------------------ rows of a piece */

static const step_entry *entry_of(const attend_job *job, int entry) {
    return &job->c->step.entry[entry];
}

static attend_row row_of(const attend_job *job, int entry, int head, int row) {
    const layer_shape *l = job->layer;
    size_t token = (size_t)(entry_of(job, entry)->row + row / l->group);
    return (attend_row){entry, head, row, token * (size_t)l->n_heads_q + (size_t)(head * l->group + row % l->group)};
}

/* A query as it meets keys: where they were divided by factors and rotated, it is multiplied and rotated. */
static void query_put(const attend_job *job, const float *x, int head, float *q) {
    const layer_shape *l = job->layer;
    size_t dim = (size_t)l->dim_k, pad = (size_t)l->pad_k;
    memcpy(q, x, dim * sizeof *q);
    memset(q + dim, 0, (pad - dim) * sizeof *q);
    if (l->k_turn == 0) return;
    const float *balance = l->k_balance ? l->k_balance + (size_t)head * dim : NULL;
    for (size_t i = 0; balance && i < dim; i++) q[i] *= balance[i];
    job->c->kernels->rotate(q, l->pad_k);
}

/* The rows of one entry and head. */
static void rows_add(const attend_job *job, attend_worker *w, int entry, int head, int row, int n_rows) {
    const layer_shape *l = job->layer;
    for (int i = row; i < row + n_rows; i++, w->n_rows++) {
        attend_row r = row_of(job, entry, head, i);
        query_put(job, job->q + r.at * (size_t)l->dim_k, head, w->q + (size_t)w->n_rows * (size_t)l->pad_k);
        w->row[w->n_rows] = r;
        w->position[w->n_rows] = entry_of(job, entry)->length + i / l->group;
    }
}

/* In `fast` what meets bf16 tiles is rounded to bf16 too; codes are more exact than that. */
static bool narrows(const kvt_cache *c, const kv_format *f, int element) {
    return c->math == KVT_MATH_FAST && f->kind != KV_CODES && element == ELEMENT_BF16;
}

static void rows_gather(const attend_job *job, const attend_item *item, attend_worker *w) {
    const kvt_cache *c = job->c;
    w->n_rows = 0;
    for (int i = item->place; i < item->place + item->n_entries; i++) {
        int entry = c->step.by_prefix[i];
        int n = item->n_entries == 1 ? item->n_rows : entry_of(job, entry)->n_new * job->layer->group;
        for (int head = item->head; head < item->head + item->n_heads; head++)
            rows_add(job, w, entry, head, item->row, n);
    }
    if (narrows(c, c->k_format, c->k_format->hot_k))
        c->kernels->narrow(w->q, (size_t)w->n_rows * (size_t)job->layer->pad_k);
}

static void row_finish(const attend_job *job, attend_worker *w, attend_row row, float L, const float *O) {
    const layer_shape *l = job->layer;
    float *out = job->out + row.at * (size_t)l->dim_v;
    float *padded = l->dim_v == l->pad_v ? out : w->o;
    job->c->kernels->attn_finish(l->pad_v, L, O, padded);
    if (l->v_turn != 0) job->c->kernels->rotate(padded, l->pad_v);
    if (padded != out) memcpy(out, padded, (size_t)l->dim_v * sizeof *out);
}

/* ------------------------------------------------------------------------------------ a segment of a piece */

/* A token as one of the segment's. */
static int in_segment(int token, int first) {
    return token < first ? 0 : int_least(token - first, ATTN_SEGMENT);
}

/* The tokens of a segment that a row reads sealed: all that are neither in the first blocks of its sequence nor in its
 * own one. */
static int sealed_from(const kvt_cache *c, int first) {
    return in_segment(c->layout.n_first * c->layout.block_tokens, first);
}

static int sealed_to(const kvt_cache *c, int first, int position) {
    int from = sealed_from(c, first), own = in_segment(position - position % c->layout.block_tokens, first);
    return c->layout.sealing && own > from ? own : from;
}

/* A block of the segment, from its tile i on, for one head of a piece. */
static void block_tiles(const attend_job *job, int block, int head, bool sealed, const void **k_tile,
                        const void **v_tile) {
    const kvt_cache *c = job->c;
    const layer_shape *l = job->layer;
    const block_shape *shape = sealed ? &l->kept : &l->hot;
    const char *k = sealed ? store_keys(c, l, block, head) : hot_keys(c, l, block, head);
    const char *v = sealed ? store_values(c, l, block, head) : hot_values(c, l, block, head);
    for (int i = 0; i < c->layout.block_tiles; i++) {
        k_tile[i] = k + (size_t)i * shape->k_tile_bytes;
        v_tile[i] = v + (size_t)i * shape->v_tile_bytes;
    }
}

/* Where the segment's tiles lie, for rows whose sealed range ends at `end`. */
static void segment_tiles(const attend_job *job, const attend_item *item, int end, attend_worker *w) {
    const kvt_cache *c = job->c;
    const int32_t *table = entry_of(job, c->step.by_prefix[item->place])->seq->table;
    int size = c->layout.block_tokens, from = sealed_from(c, w->first);
    for (int h = 0; h < item->n_heads; h++) {
        const void **k_tile = w->k_tile + h * SEGMENT_TILES, **v_tile = w->v_tile + h * SEGMENT_TILES;
        for (int at = 0; at < w->n_tokens; at += size)
            block_tiles(job, table[(w->first + at) / size], item->head + h, at >= from && at < end, k_tile + at / TILE,
                        v_tile + at / TILE);
        int n = w->n_tokens > 0 ? (w->n_tokens + TILE - 1) / TILE : 0;
        if (n % 2) v_tile[n] = c->attend.zero_tile;
    }
    w->tiles_end = end;
}

/* n_rows gathered rows, from `row` on, of each of n_heads heads over the segment whose tiles are in w. */
static void rows_together(const attend_job *job, attend_worker *w, int row, int n_rows, int n_heads, float *m,
                          float *l, float *o) {
    const kvt_cache *c = job->c;
    const layer_shape *shape = job->layer;
    int last = w->position[row];
    for (int i = 1; i < n_rows; i++)
        if (w->position[row + i] > last) last = w->position[row + i];
    attn_segment segment = {
        .k_tile = w->k_tile,
        .v_tile = w->v_tile,
        .sealed_from = sealed_from(c, w->first),
        .sealed_to = w->tiles_end,
        .block_tiles = c->layout.block_tiles,
        .zero_tile = c->attend.zero_tile,
        .n_tokens = int_least(last + 1 - w->first, ATTN_SEGMENT),
        .first = w->first,
        .k_format = c->k_number,
        .v_format = c->v_number,
        .dim_k = shape->pad_k,
        .dim_v = shape->pad_v,
        .n_heads = n_heads,
        .n_rows = n_rows,
        .position = w->position + row,
        .q = w->q + (size_t)row * (size_t)shape->pad_k,
        .c = shape->c,
        .narrow_q = narrows(c, c->k_format, c->k_format->hot_k),
        .narrow = narrows(c, c->v_format, c->v_format->hot_v),
    };
    attn_segment_run(c->kernels, &segment, &w->scratch, m, l, o);
}

/* Take the values behind token n - 1 of the segment out of its last tile, and all tiles behind that. */
static void tile_cut(const attend_job *job, attend_worker *w, int n) {
    static const float zero[ATTN_DIM_MAX];
    const layer_shape *l = job->layer;
    int last = (n - 1) / TILE;
    memcpy(w->cut_tile, w->v_tile[last], l->hot.v_tile_bytes);
    for (int slot = n - last * TILE; slot < TILE; slot++)
        job->c->v_hot->put_v(w->cut_tile, slot, zero, l->dim_v, l->pad_v);
    w->v_tile[last] = w->cut_tile;
    if (last % 2 == 0) w->v_tile[last + 1] = job->c->attend.zero_tile;
}

/* The same token by token, each without the values behind it: their weight is 0, but 0 times infinity is NaN. */
static void rows_apart(const attend_job *job, attend_worker *w, int row, int n_rows, float *m, float *l, float *o) {
    const void *v_tile[SEGMENT_TILES];
    memcpy(v_tile, w->v_tile, sizeof v_tile);
    for (int i = 0, n; i < n_rows; i += n) {
        int position = w->position[row + i], seen = position + 1 - w->first;
        for (n = 1; i + n < n_rows && w->position[row + i + n] == position;) n++;
        if (seen > 0 && seen < ATTN_SEGMENT) tile_cut(job, w, seen);
        rows_together(job, w, row + i, n, 1, m + i, l + i, o + (size_t)i * (size_t)job->layer->pad_v);
        memcpy(w->v_tile, v_tile, sizeof v_tile);
    }
}

static void segment_begin(attend_worker *w, int first, int last) {
    w->first = first;
    w->n_tokens = int_least(last + 1 - first, ATTN_SEGMENT);
    w->tiles_end = -1;
}

/* Rows from `row` on that one call takes: they have one sealed range. (Several heads of an entry have the same rows,
 * and those are in one block.) */
static int rows_alike(const attend_job *job, const attend_worker *w, int row) {
    int n = 1, end = sealed_to(job->c, w->first, w->position[row]);
    while (n < ATTN_ROWS && row + n < w->n_rows && sealed_to(job->c, w->first, w->position[row + n]) == end) n++;
    return n;
}

/* n rows from `row` on into w->m, w->l and w->o. Where all values are finite, both ways give the same bits. */
static void segment_rows(const attend_job *job, const attend_item *item, attend_worker *w, int row, int n) {
    int end = sealed_to(job->c, w->first, w->position[row]);
    if (end != w->tiles_end) segment_tiles(job, item, end, w);
    if (job->apart) rows_apart(job, w, row, n, w->m, w->l, w->o);
    else rows_together(job, w, row, n / item->n_heads, item->n_heads, w->m, w->l, w->o);
}

/* ---------------------------------------------------------------------------------------- all segments */

static void rows_start(const attend_job *job, attend_worker *w, int n_rows) {
    for (int i = 0; i < n_rows; i++) {
        w->M[i] = -INFINITY;
        w->L[i] = 0;
    }
    memset(w->O, 0, (size_t)n_rows * (size_t)job->layer->pad_v * sizeof *w->O);
}

static void row_merge(const attend_job *job, attend_worker *w, int row, float m, float l, const float *o) {
    int dim = job->layer->pad_v;
    job->c->kernels->attn_merge(dim, &w->M[row], &w->L[row], w->O + (size_t)row * (size_t)dim, m, l, o);
}

/* Segments outside, groups of rows inside. The last row of a piece of one entry sees the most. */
static void item_whole(const attend_job *job, const attend_item *item, attend_worker *w) {
    size_t dim = (size_t)job->layer->pad_v;
    int last = w->position[w->n_rows - 1];
    rows_start(job, w, w->n_rows);
    for (int first = 0; first <= last; first += ATTN_SEGMENT) {
        segment_begin(w, first, last);
        for (int row = 0, n; row < w->n_rows; row += n) {
            n = rows_alike(job, w, row);
            if (w->position[row + n - 1] < first) continue;
            segment_rows(job, item, w, row, n);
            for (int i = 0; i < n; i++) row_merge(job, w, row + i, w->m[i], w->l[i], w->o + (size_t)i * dim);
        }
    }
    for (int i = 0; i < w->n_rows; i++) row_finish(job, w, w->row[i], w->L[i], w->O + (size_t)i * dim);
}

/* --------------------------------------------------------------------------------------------- one segment */

static attend_split *split_of(const attend_job *job, int entry, int head) {
    const attend *a = &job->c->attend;
    return &a->split[a->split_of[entry] + head];
}

/* Results of a segment of a split: m, and behind it l and o. */
static float *partial_of(const attend_job *job, const attend_split *s, int segment) {
    return s->partial + (size_t)segment * partial_floats(job->layer, s->n_rows);
}

static void split_merge(const attend_job *job, attend_worker *w, int entry, int head) {
    const attend_split *s = split_of(job, entry, head);
    size_t dim = (size_t)job->layer->pad_v;
    rows_start(job, w, s->n_rows);
    for (int segment = 0; segment < s->n_segments; segment++) {
        const float *m = partial_of(job, s, segment), *l = m + s->n_rows, *o = l + s->n_rows;
        for (int i = 0; i < s->n_rows; i++) row_merge(job, w, i, m[i], l[i], o + (size_t)i * dim);
    }
    for (int i = 0; i < s->n_rows; i++)
        row_finish(job, w, row_of(job, entry, head, i), w->L[i], w->O + (size_t)i * dim);
}

/* Keep the results of n rows from `row` on. */
static void segment_keep(const attend_job *job, const attend_item *item, const attend_worker *w, int row, int n) {
    size_t dim = (size_t)job->layer->pad_v;
    for (int i = 0; i < n; i++) {
        const attend_row *r = &w->row[row + i];
        const attend_split *s = split_of(job, r->entry, r->head);
        float *m = partial_of(job, s, item->segment), *l = m + s->n_rows, *o = l + s->n_rows;
        m[r->row] = w->m[i];
        l[r->row] = w->l[i];
        memcpy(o + (size_t)r->row * dim, w->o + (size_t)i * dim, dim * sizeof *o);
    }
}

static void item_segment(const attend_job *job, const attend_item *item, attend_worker *w) {
    int last = 0;
    for (int i = 0; i < w->n_rows; i++)
        if (w->position[i] > last) last = w->position[i];
    segment_begin(w, item->segment * ATTN_SEGMENT, last);
    for (int row = 0, n; row < w->n_rows; row += n) {
        n = rows_alike(job, w, row);
        segment_rows(job, item, w, row, n);
        segment_keep(job, item, w, row, n);
    }
    for (int i = item->place; i < item->place + item->n_entries; i++)
        for (int head = item->head; head < item->head + item->n_heads; head++) {
            int entry = job->c->step.by_prefix[i];
            if (atomic_fetch_sub_explicit(&split_of(job, entry, head)->n_left, 1, memory_order_acq_rel) == 1)
                split_merge(job, w, entry, head);
        }
}

static void item_run(void *ctx, int n, int worker) {
    const attend_job *job = ctx;
    const attend_item *item = &job->c->attend.item[n];
    attend_worker *w = &job->c->attend.worker[worker];
    rows_gather(job, item, w);
    if (item->segment == ATTEND_ALL) item_whole(job, item, w);
    else item_segment(job, item, w);
}

/* ------------------------------------------------------------------------------------ the public calls */

static kvt_status append_check(const kvt_cache *c, int layer, const kvt_batch *batch, const char *call) {
    TRY(step_check(c, batch, call));
    if (layer >= 0 && layer < c->n_layers) return KVT_OK;
    return log_fail(&c->log, KVT_E_ARGUMENT, "%s: layer is %d, allowed are 0 to %d", call, layer, c->n_layers - 1);
}

static kvt_status append(kvt_cache *c, int layer, const kvt_batch *batch, const float *k, const float *v) {
    TRY(append_check(c, layer, batch, "kvt_append"));
    if (!k || !v) return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_append: k or v is NULL");
    return encode_layer(c, layer, k, v, "kvt_append");
}

/* Keys and values are there, or k and v bring them. */
static kvt_status attend_check(const kvt_cache *c, int layer, const kvt_batch *batch, const attend_job *job,
                               const float *k, const float *v) {
    TRY(append_check(c, layer, batch, "kvt_attend"));
    if (!job->q || !job->out || !k != !v)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_attend: q or out is NULL, or only one of k and v");
    if (!k && !c->step.stored[layer])
        return log_fail(&c->log, KVT_E_STATE, "kvt_attend: layer %d has no keys and values yet", layer);
    if (!k && c->layout.sealing && layer != c->step.stored_last)
        return log_fail(&c->log, KVT_E_STATE, "kvt_attend: layer %d has to be stored again: layer %d came behind it, "
                        "and blocks are sealed", layer, c->step.stored_last);
    return KVT_OK;
}

static kvt_status attend_layer(kvt_cache *c, int layer, const kvt_batch *batch, attend_job job, const float *k,
                               const float *v) {
    TRY(attend_check(c, layer, batch, &job, k, v));
    job.layer = &c->layers[layer];
    if (k) TRY(encode_layer(c, layer, k, v, "kvt_attend"));
    job.apart = c->step.stored[layer] == STORED_INFINITE;
    plan_layer(c, job.layer, job.apart);
    thread_run(c->workers, c->attend.n_items, item_run, &job);
    return KVT_OK;
}

kvt_status kvt_append(kvt_cache *c, int layer, const kvt_batch *batch, const float *k, const float *v) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = append(c, layer, batch, k, v);
    step_leave(b);
    return status;
}

kvt_status kvt_attend(kvt_cache *c, int layer, const kvt_batch *batch, const float *q, const float *k, const float *v,
                      float *out) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = attend_layer(c, layer, batch, (attend_job){.c = c, .q = q, .out = out}, k, v);
    step_leave(b);
    return status;
}
