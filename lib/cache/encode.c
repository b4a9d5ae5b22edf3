/* encode.c - owns the way of new keys and values into the tiles of a layer. A block is written by one thread, which
 * also clears it for its first token. Leaves the layout of a tile to format/. */
#include "attend.h"
#include "base/bits.h"
#include "base/thread.h"
#include "cache.h"

typedef struct encode_job {
    const kvt_cache *c;
    const layer_shape *layer;
    const float *k; /* [n_rows][n_heads_kv][dim_k] */
    const float *v; /* [n_rows][n_heads_kv][dim_v] */
    bool look;            /* for values that are kept as infinity or NaN */
    atomic_bool infinite; /* one was found */
} encode_job;

static void encode_keys(const encode_job *job, const step_write *w, int head) {
    const layer_shape *l = job->layer;
    char *tiles = store_keys(job->c, l, w->block, head);
    for (int i = 0; i < w->n; i++) {
        int slot = w->slot + i;
        size_t row = (size_t)(w->row + i) * (size_t)l->n_heads_kv + (size_t)head;
        const float *k = job->k + row * (size_t)l->dim_k;
        job->c->k_format->put_k(tiles + (size_t)(slot / TILE) * l->k_tile_bytes, slot % TILE, k, l->dim_k);
    }
}

/* Is one of n values kept as infinity or NaN? */
static bool has_infinite(const element_format *f, const float *x, int n) {
    uint32_t carry = 0, rest = 0x80000000u - f->infinite; /* sizes from f->infinite on carry into the top bit */
    for (int i = 0; i < n; i++) carry |= (bits_of_f32(x[i]) & 0x7fffffff) + rest;
    return carry >> 31;
}

/* Stale values become zero: what a forgotten token left may be infinite, and 0 times that is NaN. (Stale keys harm
 * nobody, the score of a token that is not visible is never looked at.) */
static void encode_values(encode_job *job, const step_write *w, int head) {
    static const float zero[ATTN_DIM_MAX];
    const layer_shape *l = job->layer;
    char *tiles = store_values(job->c, l, w->block, head);
    for (int i = 0; i < w->n + w->n_stale; i++) {
        int slot = w->slot + i;
        size_t row = (size_t)(w->row + i) * (size_t)l->n_heads_kv + (size_t)head;
        const float *v = i < w->n ? job->v + row * (size_t)l->dim_v : zero;
        if (job->look && has_infinite(job->c->v_format, v, l->dim_v))
            atomic_store_explicit(&job->infinite, true, memory_order_relaxed);
        job->c->v_format->put_v(tiles + (size_t)(slot / TILE) * l->v_tile_bytes, slot % TILE, v, l->dim_v, l->pad_v);
    }
}

static void encode_write(void *ctx, int item, int worker) {
    encode_job *job = ctx;
    const step_write *w = &job->c->step.write[item];
    (void)worker;
    if (w->slot == 0) store_clear(job->c, job->layer, w->block);
    for (int head = 0; head < job->layer->n_heads_kv; head++) {
        encode_keys(job, w, head);
        encode_values(job, w, head);
    }
}

void encode_layer(kvt_cache *c, int layer, const float *k, const float *v) {
    step *s = &c->step;
    encode_job job = {.c = c, .layer = &c->layers[layer], .k = k, .v = v, .look = s->n_rows > s->n_entries};
    thread_run(c->workers, s->n_writes, encode_write, &job);
    if (!s->stored[layer]) s->n_stored++;
    s->stored[layer] = atomic_load_explicit(&job.infinite, memory_order_relaxed) ? STORED_INFINITE : STORED;
}
