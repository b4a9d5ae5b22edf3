/* store.c - owns the addresses inside the store: one region per layer, in it the blocks in order, in each the keys of
 * its heads and then their values. Leaves hot tiles of a cache that seals to hot.c, the layout inside a tile or
 * record to format/. */
#include "store.h"

#include <string.h>

#include "base/thread.h"
#include "cache.h"

char *store_block(const kvt_cache *c, const layer_shape *l, int block) {
    return c->store + l->kept.region + (size_t)block * l->kept.bytes;
}

char *store_keys(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return store_block(c, l, block) + (size_t)head * l->kept.k_head_bytes;
}

char *store_values(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return store_block(c, l, block) + l->kept.v_offset + (size_t)head * l->kept.v_head_bytes;
}

/* Not sealed yet. */
static bool is_hot(const kvt_cache *c, int block) {
    return c->layout.sealing && c->hot.of[block] != HOT_NONE;
}

typedef struct copy_job {
    const kvt_cache *c;
    store_copies copies;
} copy_job;

static void copy_layer(void *ctx, int item, int worker) {
    const copy_job *job = ctx;
    const layer_shape *l = &job->c->layers[item];
    (void)worker;
    for (int i = 0; i < job->copies.n; i++) {
        int from = job->copies.from[i], to = job->copies.to[i];
        if (is_hot(job->c, from)) hot_copy(job->c, l, from, to);
        else memcpy(store_block(job->c, l, to), store_block(job->c, l, from), l->kept.bytes);
    }
}

void store_copy(kvt_cache *c, store_copies copies) {
    if (copies.n == 0) return;
    for (int i = 0; i < copies.n; i++)
        if (is_hot(c, copies.from[i])) hot_take(c, copies.to[i]);
    thread_run(c->workers, c->n_layers, copy_layer, &(copy_job){c, copies});
    for (int i = 0; i < copies.n; i++) {
        size_t bytes = (size_t)c->pool.block_tokens * sizeof(int32_t);
        memcpy(pool_tokens(&c->pool, copies.to[i]), pool_tokens(&c->pool, copies.from[i]), bytes);
        c->pool.written[copies.to[i]] = c->pool.written[copies.from[i]];
    }
}

void store_poison(kvt_cache *c, int block) {
    for (int i = 0; i < c->n_layers; i++) memset(store_block(c, &c->layers[i], block), 0xFF, c->layers[i].kept.bytes);
}

void store_get(const kvt_cache *c, int layer, int block, int slot, int head, float *k, float *v) {
    const layer_shape *l = &c->layers[layer];
    const char *keys = is_hot(c, block) ? hot_keys(c, l, block, head) : store_keys(c, l, block, head);
    const char *values = is_hot(c, block) ? hot_values(c, l, block, head) : store_values(c, l, block, head);
    size_t tile = (size_t)slot / TILE;
    c->k_hot->get_k(keys + tile * l->hot.k_tile_bytes, slot % TILE, k, l->dim_k);
    c->v_hot->get_v(values + tile * l->hot.v_tile_bytes, slot % TILE, v, l->dim_v, l->pad_v);
}
