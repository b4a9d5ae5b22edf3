/* encode.c - owns the way of new keys and values into the hot tiles of a layer, and of a block that is full into its
 * records. A block is written by one thread, which also clears it for its first token and seals it after its last.
 * Leaves the layout of a tile to format/, how a record is made to kernel/. */
#include <string.h>

#include "attend.h"
#include "base/bits.h"
#include "base/thread.h"
#include "cache.h"

enum { BLOCK_TILES_MAX = 4 };

typedef struct encode_job {
    const kvt_cache *c;
    const layer_shape *layer;
    const float *k; /* [n_rows][n_heads_kv][dim_k] */
    const float *v; /* [n_rows][n_heads_kv][dim_v] */
    bool look;      /* for values that are kept as infinity or NaN */
    atomic_bool infinite_keys, infinite; /* one was found; infinite: of values */
} encode_job;

static const float *key_of(const encode_job *job, int row, int head) {
    const layer_shape *l = job->layer;
    return job->k + ((size_t)row * (size_t)l->n_heads_kv + (size_t)head) * (size_t)l->dim_k;
}

static const float *value_of(const encode_job *job, int row, int head) {
    const layer_shape *l = job->layer;
    return job->v + ((size_t)row * (size_t)l->n_heads_kv + (size_t)head) * (size_t)l->dim_v;
}

/* Is one of n numbers kept as infinity or NaN? */
static bool has_infinite(const element_format *f, const float *x, int n) {
    uint32_t carry = 0, rest = 0x80000000u - f->infinite; /* sizes from f->infinite on carry into the top bit */
    for (int i = 0; i < n; i++) carry |= (bits_of_f32(x[i]) & 0x7fffffff) + rest;
    return carry >> 31;
}

/* ----------------------------------------------------------------------------------------------- turning */

/* Factors of a head's keys; NULL: keys stay as they are. */
static const float *balance_of(const layer_shape *l, int head) {
    return l->k_turn != 0 && l->k_balance ? l->k_balance + (size_t)head * (size_t)l->dim_k : NULL;
}

/* A key divided by its head's factors. to has room for one; it is k itself where there are no factors. */
static const float *key_balanced(const layer_shape *l, const float *k, int head, float *to) {
    const float *balance = balance_of(l, head);
    for (int i = 0; balance && i < l->dim_k; i++) to[i] = k[i] / balance[i];
    return balance ? to : k;
}

/* Numeric contract, section 8: x[dim] times `turn`, filled up with zeros and rotated. */
static const float *turned(const kernels *k, const float *x, int dim, int pad, float turn, float *to) {
    for (int i = 0; i < dim; i++) to[i] = x[i] * turn;
    memset(to + dim, 0, (size_t)(pad - dim) * sizeof *to);
    k->rotate(to, pad);
    return to;
}

/* ------------------------------------------------------------------------------------------------- tiles */

static void encode_keys(const encode_job *job, const step_write *w, int head) {
    const layer_shape *l = job->layer;
    char *tiles = hot_keys(job->c, l, w->block, head);
    for (int i = 0; i < w->n; i++) {
        float room[ATTN_DIM_MAX];
        int slot = w->slot + i;
        const float *k = key_balanced(l, key_of(job, w->row + i, head), head, room);
        bool turns = l->k_turn != 0;
        if (turns) k = turned(job->c->kernels, k, l->dim_k, l->pad_k, l->k_turn, room);
        job->c->k_hot->put_k(tiles + (size_t)(slot / TILE) * l->hot.k_tile_bytes, slot % TILE, k,
                             turns ? l->pad_k : l->dim_k);
    }
}

/* Stale values become zero: what a forgotten token left may be infinite, and 0 times that is NaN. (Stale keys harm
 * nobody, the score of a token that is not visible is never looked at.) */
static void encode_values(encode_job *job, const step_write *w, int head) {
    static const float zero[ATTN_DIM_MAX];
    const layer_shape *l = job->layer;
    char *tiles = hot_values(job->c, l, w->block, head);
    for (int i = 0; i < w->n + w->n_stale; i++) {
        float room[ATTN_DIM_MAX];
        int slot = w->slot + i;
        bool turns = i < w->n && l->v_turn != 0;
        const float *v = i < w->n ? value_of(job, w->row + i, head) : zero;
        if (job->look && has_infinite(job->c->v_hot, v, l->dim_v))
            atomic_store_explicit(&job->infinite, true, memory_order_relaxed);
        if (turns) v = turned(job->c->kernels, v, l->dim_v, l->pad_v, l->v_turn, room);
        job->c->v_hot->put_v(tiles + (size_t)(slot / TILE) * l->hot.v_tile_bytes, slot % TILE, v,
                             turns ? l->pad_v : l->dim_v, l->pad_v);
    }
}

/* Hot tiles of a head to its record; where that is not encoded they are the record. */
static void head_seal(const encode_job *job, seal_fn seal, const char *tiles, size_t tile_bytes, int pad,
                      char *sealed) {
    const int n_tiles = job->c->layout.block_tiles;
    const void *tile[BLOCK_TILES_MAX];
    if (!seal) {
        memcpy(sealed, tiles, (size_t)n_tiles * tile_bytes);
        return;
    }
    for (int i = 0; i < n_tiles; i++) tile[i] = tiles + (size_t)i * tile_bytes;
    seal(&(seal_args){.tile = tile, .n_tiles = n_tiles, .dim = pad, .record = (uint8_t *)sealed});
}

static void encode_write(void *ctx, int item, int worker) {
    encode_job *job = ctx;
    const kvt_cache *c = job->c;
    const layer_shape *l = job->layer;
    const step_write *w = &c->step.write[item];
    (void)worker;
    if (w->slot == 0) hot_clear(c, l, w->block);
    for (int head = 0; head < l->n_heads_kv; head++) {
        encode_keys(job, w, head);
        encode_values(job, w, head);
        if (!w->seals) continue;
        head_seal(job, c->kernels->seal_k[c->k_number], hot_keys(c, l, w->block, head), l->hot.k_tile_bytes, l->pad_k,
                  store_keys(c, l, w->block, head));
        head_seal(job, c->kernels->seal_v[c->v_number], hot_values(c, l, w->block, head), l->hot.v_tile_bytes, l->pad_v,
                  store_values(c, l, w->block, head));
    }
}

/* ------------------------------------------------------------------------------------------------- looking */

static void check_write(void *ctx, int item, int worker) {
    encode_job *job = ctx;
    const layer_shape *l = job->layer;
    const step_write *w = &job->c->step.write[item];
    bool keys = false, values = false;
    (void)worker;
    for (int i = 0; i < w->n; i++)
        for (int head = 0; head < l->n_heads_kv; head++) {
            float room[ATTN_DIM_MAX];
            const float *k = key_balanced(l, key_of(job, w->row + i, head), head, room);
            keys = keys || has_infinite(job->c->k_hot, k, l->dim_k);
            values = values || has_infinite(job->c->v_hot, value_of(job, w->row + i, head), l->dim_v);
        }
    if (keys) atomic_store_explicit(&job->infinite_keys, true, memory_order_relaxed);
    if (values) atomic_store_explicit(&job->infinite, true, memory_order_relaxed);
}

/* One infinity would spoil the codes of a whole block, also for those who do not see it. */
static kvt_status encode_check(kvt_cache *c, int layer, encode_job *job, const char *call) {
    thread_run(c->workers, c->step.n_writes, check_write, job);
    bool keys = atomic_load_explicit(&job->infinite_keys, memory_order_relaxed);
    if (!keys && !atomic_load_explicit(&job->infinite, memory_order_relaxed)) return KVT_OK;
    const char *what = keys ? "key" : "value";
    return log_fail(&c->log, KVT_E_ARGUMENT, "%s: layer %d: a %s is infinite or NaN, or becomes it as %s", call, layer,
                    what, kvt_format_name((kvt_format)(keys ? c->k_format->hot_k : c->v_format->hot_v)));
}

kvt_status encode_layer(kvt_cache *c, int layer, const float *k, const float *v, const char *call) {
    step *s = &c->step;
    encode_job job = {.c = c, .layer = &c->layers[layer], .k = k, .v = v};
    if (c->layout.sealing) TRY(encode_check(c, layer, &job, call));
    job.look = !c->layout.sealing && s->n_rows > s->n_entries;
    thread_run(c->workers, s->n_writes, encode_write, &job);
    if (!s->stored[layer]) s->n_stored++;
    s->stored[layer] = atomic_load_explicit(&job.infinite, memory_order_relaxed) ? STORED_INFINITE : STORED;
    s->stored_last = layer;
    return KVT_OK;
}
