/* store.c - owns the addresses inside the store: one region per layer, in it the blocks in order, in each the keys of
 * its heads and then their values.
 * Leaves the layout inside a tile to format/. */
#include "store.h"

#include <string.h>

#include "base/thread.h"
#include "cache.h"

static char *block_at(const kvt_cache *c, const layer_shape *l, int block) {
    return c->store + l->region + (size_t)block * l->block_bytes;
}

char *store_keys(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return block_at(c, l, block) + (size_t)head * l->k_head_bytes;
}

char *store_values(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return block_at(c, l, block) + l->v_offset + (size_t)head * l->v_head_bytes;
}

/* The values, and where keys are padded those too. */
void store_clear(const kvt_cache *c, const layer_shape *l, int block) {
    size_t from = l->pad_k == l->dim_k ? l->v_offset : 0;
    memset(block_at(c, l, block) + from, 0, l->block_bytes - from);
}

typedef struct copy_job {
    const kvt_cache *c;
    store_copies copies;
} copy_job;

static void copy_layer(void *ctx, int item, int worker) {
    const copy_job *job = ctx;
    const layer_shape *l = &job->c->layers[item];
    (void)worker;
    for (int i = 0; i < job->copies.n; i++)
        memcpy(block_at(job->c, l, job->copies.to[i]), block_at(job->c, l, job->copies.from[i]), l->block_bytes);
}

void store_copy(kvt_cache *c, store_copies copies) {
    if (copies.n == 0) return;
    thread_run(c->workers, c->n_layers, copy_layer, &(copy_job){c, copies});
    for (int i = 0; i < copies.n; i++) {
        size_t bytes = (size_t)c->pool.block_tokens * sizeof(int32_t);
        memcpy(pool_tokens(&c->pool, copies.to[i]), pool_tokens(&c->pool, copies.from[i]), bytes);
        c->pool.written[copies.to[i]] = c->pool.written[copies.from[i]];
    }
}

void store_poison(kvt_cache *c, int block) {
    for (int i = 0; i < c->n_layers; i++) memset(block_at(c, &c->layers[i], block), 0xFF, c->layers[i].block_bytes);
}

void store_get(const kvt_cache *c, int layer, int block, int slot, int head, float *k, float *v) {
    const layer_shape *l = &c->layers[layer];
    size_t tile = (size_t)slot / TILE;
    c->k_format->get_k(store_keys(c, l, block, head) + tile * l->k_tile_bytes, slot % TILE, k, l->dim_k);
    c->v_format->get_v(store_values(c, l, block, head) + tile * l->v_tile_bytes, slot % TILE, v, l->dim_v, l->pad_v);
}
