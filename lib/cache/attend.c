/* attend.c - owns the calls kvt_append and kvt_attend: how a layer's attention is cut into pieces, and one piece.
 * Leaves a segment's arithmetic to kernel/.
 *
 * A piece is a range of query rows over one key/value head. It walks the segments of the sequence with all its rows, so
 * that a segment is read from memory once, and merges their results in order. A piece that would keep one thread
 * busy while the others have run out of work is cut at its segments; their results are merged in the same order by the
 * same function. So the cutting, like the number of threads, moves no bit. */
#include "attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
    a->split = carve_take(c, 2 * n_threads, sizeof *a->split);
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

/* ------------------------------------------------------------------------------------ a piece, row by row */

/* Offset of query head `head of the group` of a piece's row i in q (dim_k) or out (dim_v). */
static size_t row_offset(const attend_job *job, const attend_item *item, int i, int dim) {
    const layer_shape *l = job->layer;
    int row = item->row + i, token = job->c->step.entry[item->entry].row + row / l->group;
    int head = item->head * l->group + row % l->group;
    return ((size_t)token * (size_t)l->n_heads_q + (size_t)head) * (size_t)dim;
}

static void rows_gather(const attend_job *job, const attend_item *item, attend_worker *w) {
    const layer_shape *l = job->layer;
    const kvt_cache *c = job->c;
    size_t dim = (size_t)l->dim_k, pad = (size_t)l->pad_k;
    for (int i = 0; i < item->n_rows; i++) {
        float *q = w->q + (size_t)i * pad;
        memcpy(q, job->q + row_offset(job, item, i, l->dim_k), dim * sizeof *q);
        memset(q + dim, 0, (pad - dim) * sizeof *q);
        w->position[i] = c->step.entry[item->entry].length + (item->row + i) / l->group;
    }
    if (c->math == KVT_MATH_FAST && c->k_element == ELEMENT_BF16)
        c->kernels->narrow(w->q, (size_t)item->n_rows * pad);
}

static void row_finish(const attend_job *job, const attend_item *item, attend_worker *w, int i, float L, float *O) {
    const layer_shape *l = job->layer;
    float *out = job->out + row_offset(job, item, i, l->dim_v);
    float *padded = l->dim_v == l->pad_v ? out : w->o;
    job->c->kernels->attn_finish(l->pad_v, L, O, padded);
    if (padded != out) memcpy(out, padded, (size_t)l->dim_v * sizeof *out);
}

/* ------------------------------------------------------------------------------------ a piece, by segments */

/* Where the segment's tiles lie, for tokens first .. first + n_tokens - 1. */
static void segment_tiles(const attend_job *job, const attend_item *item, int first, int n_tokens, attend_worker *w) {
    const kvt_cache *c = job->c;
    const layer_shape *l = job->layer;
    const int32_t *table = c->step.entry[item->entry].seq->table;
    int per_block = c->layout.block_tiles, n = (n_tokens + TILE - 1) / TILE;
    for (int i = 0; i < n; i++) {
        int at = first / TILE + i, block = table[at / per_block];
        size_t tile = (size_t)(at % per_block);
        w->k_tile[i] = store_keys(c, l, block, item->head) + tile * l->k_tile_bytes;
        w->v_tile[i] = store_values(c, l, block, item->head) + tile * l->v_tile_bytes;
    }
    if (n % 2) w->v_tile[n] = c->attend.zero_tile;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Rows row .. row + n_rows - 1 of the piece over the segment whose tiles are in w. */
static void rows_together(const attend_job *job, attend_worker *w, int first, int row, int n_rows, float *m, float *l,
                          float *o) {
    const kvt_cache *c = job->c;
    const layer_shape *shape = job->layer;
    int seen = w->position[row + n_rows - 1] + 1 - first;
    attn_segment segment = {
        .k_tile = w->k_tile,
        .v_tile = w->v_tile,
        .n_tokens = least(seen, ATTN_SEGMENT),
        .first = first,
        .k_format = c->k_element,
        .v_format = c->v_element,
        .dim_k = shape->pad_k,
        .dim_v = shape->pad_v,
        .n_rows = n_rows,
        .position = w->position + row,
        .q = w->q + (size_t)row * (size_t)shape->pad_k,
        .c = shape->c,
        .narrow = c->math == KVT_MATH_FAST && c->v_element == ELEMENT_BF16,
    };
    attn_segment_run(c->kernels, &segment, &w->scratch, m, l, o);
}

/* Take the values behind token n - 1 of the segment out of its last tile, and all tiles behind that. */
static void tile_cut(const attend_job *job, attend_worker *w, int n) {
    static const float zero[ATTN_DIM_MAX];
    const layer_shape *l = job->layer;
    int last = (n - 1) / TILE;
    memcpy(w->cut_tile, w->v_tile[last], l->v_tile_bytes);
    for (int slot = n - last * TILE; slot < TILE; slot++)
        job->c->v_format->put_v(w->cut_tile, slot, zero, l->dim_v, l->pad_v);
    w->v_tile[last] = w->cut_tile;
    if (last % 2 == 0) w->v_tile[last + 1] = job->c->attend.zero_tile;
}

/* The same token by token, each without the values behind it: their weight is 0, but 0 times infinity is NaN. */
static void rows_apart(const attend_job *job, attend_worker *w, int first, int row, int n_rows, float *m, float *l,
                       float *o) {
    const void *v_tile[SEGMENT_TILES];
    memcpy(v_tile, w->v_tile, sizeof v_tile);
    for (int i = 0, n; i < n_rows; i += n) {
        int position = w->position[row + i], seen = position + 1 - first;
        for (n = 1; i + n < n_rows && w->position[row + i + n] == position;) n++;
        if (seen > 0 && seen < ATTN_SEGMENT) tile_cut(job, w, seen);
        rows_together(job, w, first, row + i, n, m + i, l + i, o + (size_t)i * (size_t)job->layer->pad_v);
        memcpy(w->v_tile, v_tile, sizeof v_tile);
    }
}

/* Where all values are finite, both ways give the same bits. */
static void segment_rows(const attend_job *job, attend_worker *w, int first, int row, int n_rows, float *m, float *l,
                         float *o) {
    if (job->apart) rows_apart(job, w, first, row, n_rows, m, l, o);
    else rows_together(job, w, first, row, n_rows, m, l, o);
}

static void rows_merge(const attend_job *job, attend_worker *w, int row, int n_rows) {
    int dim = job->layer->pad_v;
    for (int i = 0; i < n_rows; i++) {
        float *O = w->O + (size_t)(row + i) * (size_t)dim;
        job->c->kernels->attn_merge(dim, &w->M[row + i], &w->L[row + i], O, w->m[i], w->l[i],
                                    w->o + (size_t)i * (size_t)dim);
    }
}

static void rows_start(const attend_job *job, attend_worker *w, int n_rows) {
    for (int i = 0; i < n_rows; i++) {
        w->M[i] = -INFINITY;
        w->L[i] = 0;
    }
    memset(w->O, 0, (size_t)n_rows * (size_t)job->layer->pad_v * sizeof *w->O);
}

/* All segments: segments outside, groups of rows inside. */
static void item_whole(const attend_job *job, const attend_item *item, attend_worker *w) {
    int n_tokens = w->position[item->n_rows - 1] + 1;
    rows_start(job, w, item->n_rows);
    for (int first = 0; first < n_tokens; first += ATTN_SEGMENT) {
        segment_tiles(job, item, first, least(n_tokens - first, ATTN_SEGMENT), w);
        for (int row = 0; row < item->n_rows; row += ATTN_ROWS) {
            int n = least(item->n_rows - row, ATTN_ROWS);
            if (w->position[row + n - 1] < first) continue;
            segment_rows(job, w, first, row, n, w->m, w->l, w->o);
            rows_merge(job, w, row, n);
        }
    }
    for (int i = 0; i < item->n_rows; i++)
        row_finish(job, item, w, i, w->L[i], w->O + (size_t)i * (size_t)job->layer->pad_v);
}

/* ---------------------------------------------------------------------------------------- a piece, cut up */

static size_t partial_floats(const layer_shape *l, int n_rows) {
    return 2 * ATTN_ROWS + (size_t)n_rows * (size_t)l->pad_v;
}

static void split_merge(const attend_job *job, const attend_item *item, attend_worker *w, const attend_split *split) {
    int dim = job->layer->pad_v;
    rows_start(job, w, item->n_rows);
    for (int s = 0; s < split->n_segments; s++) {
        const float *part = split->partial + (size_t)s * partial_floats(job->layer, item->n_rows);
        const float *m = part, *l = part + ATTN_ROWS, *o = part + 2 * ATTN_ROWS;
        for (int i = 0; i < item->n_rows; i++) {
            size_t at = (size_t)i * (size_t)dim;
            job->c->kernels->attn_merge(dim, &w->M[i], &w->L[i], w->O + at, m[i], l[i], o + at);
        }
    }
    for (int i = 0; i < item->n_rows; i++) row_finish(job, item, w, i, w->L[i], w->O + (size_t)i * (size_t)dim);
}

static void item_segment(const attend_job *job, const attend_item *item, attend_worker *w) {
    attend_split *split = &job->c->attend.split[item->split];
    int n_tokens = w->position[item->n_rows - 1] + 1, first = item->segment * ATTN_SEGMENT;
    float *part = split->partial + (size_t)item->segment * partial_floats(job->layer, item->n_rows);
    segment_tiles(job, item, first, least(n_tokens - first, ATTN_SEGMENT), w);
    segment_rows(job, w, first, 0, item->n_rows, part, part + ATTN_ROWS, part + 2 * ATTN_ROWS);
    if (atomic_fetch_sub_explicit(&split->n_left, 1, memory_order_acq_rel) == 1) split_merge(job, item, w, split);
}

static void item_run(void *ctx, int n, int worker) {
    const attend_job *job = ctx;
    const attend_item *item = &job->c->attend.item[n];
    attend_worker *w = &job->c->attend.worker[worker];
    rows_gather(job, item, w);
    if (item->segment == ATTEND_ALL) item_whole(job, item, w);
    else item_segment(job, item, w);
}

/* --------------------------------------------------------------------------------------------- the plan */

/* Pieces of a layer if each takes up to rows_most rows, and what they cost: groups of rows times tokens. */
typedef struct attend_total {
    int n_items;
    int64_t cost;
} attend_total;

static int64_t item_cost(const step_entry *e, const layer_shape *l, int row, int n_rows) {
    int groups = (n_rows + ATTN_ROWS - 1) / ATTN_ROWS;
    return (int64_t)groups * (e->length + (row + n_rows - 1) / l->group + 1);
}

static attend_total total_of(const step *s, const layer_shape *l, int rows_most) {
    attend_total total = {0};
    for (int i = 0; i < s->n_entries; i++) {
        const step_entry *e = &s->entry[i];
        int n_rows = e->n_new * l->group;
        total.n_items += (n_rows + rows_most - 1) / rows_most * l->n_heads_kv;
        total.cost += item_cost(e, l, 0, n_rows) * l->n_heads_kv;
    }
    return total;
}

/* As many rows per piece as leave every thread a few pieces. */
static int rows_per_item(const kvt_cache *c, const layer_shape *l) {
    int rows = c->layout.item_rows;
    if (c->layout.n_threads == 1) return rows;
    while (rows > ATTN_ROWS && total_of(&c->step, l, rows).n_items < 4 * c->layout.n_threads)
        rows = (rows / 2 + ATTN_ROWS - 1) / ATTN_ROWS * ATTN_ROWS;
    return rows;
}

static void item_add(kvt_cache *c, attend_item item) {
    assert((size_t)c->attend.n_items < c->layout.n_items);
    c->attend.item[c->attend.n_items++] = item;
}

/* Cut a piece at its segments if the buffer of results has room. */
static bool item_split(kvt_cache *c, const layer_shape *l, attend_item item) {
    attend *a = &c->attend;
    const step_entry *e = &c->step.entry[item.entry];
    int n_tokens = e->length + (item.row + item.n_rows - 1) / l->group + 1;
    int n_segments = (n_tokens + ATTN_SEGMENT - 1) / ATTN_SEGMENT;
    size_t need = (size_t)n_segments * partial_floats(l, item.n_rows);
    if (n_segments == 1 || item.n_rows > ATTN_ROWS || a->n_splits == 2 * c->layout.n_threads ||
        need > c->layout.partial_floats - a->partial_used)
        return false;
    attend_split *split = &a->split[a->n_splits];
    atomic_store_explicit(&split->n_left, n_segments, memory_order_relaxed);
    split->n_segments = n_segments;
    split->partial = a->partial + a->partial_used;
    a->partial_used += need;
    item.split = a->n_splits++;
    for (item.segment = 0; item.segment < n_segments; item.segment++) item_add(c, item);
    return true;
}

/* Pieces of one sequence. Later rows see more, so they come first. */
static void plan_entry(kvt_cache *c, const layer_shape *l, int entry, int rows_most, int64_t cost_most) {
    const step_entry *e = &c->step.entry[entry];
    int n_rows = e->n_new * l->group;
    for (int head = 0; head < l->n_heads_kv; head++)
        for (int row = (n_rows - 1) / rows_most * rows_most; row >= 0; row -= rows_most) {
            attend_item item = {entry, head, row, least(n_rows - row, rows_most), ATTEND_ALL, 0};
            if (item_cost(e, l, row, item.n_rows) > cost_most && item_split(c, l, item)) continue;
            item_add(c, item);
        }
}

/* A piece that is more than half a thread's share of the layer is cut. There are fewer than 2 * n_threads of them. */
static void plan(kvt_cache *c, const layer_shape *l) {
    int rows_most = rows_per_item(c, l);
    int64_t cost_most = total_of(&c->step, l, rows_most).cost / (2 * c->layout.n_threads);
    c->attend.n_items = c->attend.n_splits = 0;
    c->attend.partial_used = 0;
    for (int i = 0; i < c->step.n_entries; i++) plan_entry(c, l, c->step.by_cost[i], rows_most, cost_most);
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
    encode_layer(c, layer, k, v);
    return KVT_OK;
}

/* Keys and values are there, or k and v bring them. */
static kvt_status attend_check(const kvt_cache *c, int layer, const kvt_batch *batch, const attend_job *job,
                               const float *k, const float *v) {
    TRY(append_check(c, layer, batch, "kvt_attend"));
    if (!job->q || !job->out || !k != !v)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_attend: q or out is NULL, or only one of k and v");
    if (!k && !c->step.stored[layer])
        return log_fail(&c->log, KVT_E_STATE, "kvt_attend: layer %d has no keys and values yet", layer);
    return KVT_OK;
}

static kvt_status attend_layer(kvt_cache *c, int layer, const kvt_batch *batch, attend_job job, const float *k,
                               const float *v) {
    TRY(attend_check(c, layer, batch, &job, k, v));
    job.layer = &c->layers[layer];
    if (k) encode_layer(c, layer, k, v);
    job.apart = c->step.stored[layer] == STORED_INFINITE;
    plan(c, job.layer);
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
