/* hot.c - owns the free list of hot slots, the staging places, and the addresses of hot tiles. Leaves to step.c and
 * seq.c when a block gets and loses its place, to store.c what is sealed. */
#include "hot.h"

#include <assert.h>
#include <string.h>

#include "cache.h"

void hot_carve(hot_pool *h, carve *a, const layout *l) {
    size_t n_slots = (size_t)l->n_slots, n_stages = (size_t)l->n_stages;
    h->next = carve_take(a, n_slots, sizeof *h->next);
    h->mark = carve_take(a, n_slots + n_stages, sizeof *h->mark);
    h->of = carve_take(a, l->sealing ? (size_t)l->n_blocks : 0, sizeof *h->of);
}

void hot_open(hot_pool *h, const layout *l) {
    h->n_slots = h->n_free = l->n_slots;
    h->n_stages = l->n_stages;
    for (int i = 0; i < l->n_slots; i++) h->next[i] = i + 1 < l->n_slots ? i + 1 : HOT_NONE;
    for (int i = 0; l->sealing && i < l->n_blocks; i++) h->of[i] = HOT_NONE;
}

/* ------------------------------------------------------------------------------------------- addresses */

static char *block_at(const kvt_cache *c, const layer_shape *l, int block) {
    if (!c->layout.sealing) return store_block(c, l, block);
    const hot_pool *h = &c->hot;
    int place = h->of[block];
    assert(place != HOT_NONE);
    if (place < h->n_slots) return h->store + l->hot.region + (size_t)place * l->hot.bytes;
    return h->store + (size_t)h->n_slots * c->layout.hot_block_bytes + (size_t)(place - h->n_slots) * l->hot.bytes;
}

char *hot_keys(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return block_at(c, l, block) + (size_t)head * l->hot.k_head_bytes;
}

char *hot_values(const kvt_cache *c, const layer_shape *l, int block, int head) {
    return block_at(c, l, block) + l->hot.v_offset + (size_t)head * l->hot.v_head_bytes;
}

/* The values, and where keys are padded those too. */
void hot_clear(const kvt_cache *c, const layer_shape *l, int block) {
    size_t from = l->pad_k == l->dim_k ? l->hot.v_offset : 0;
    memset(block_at(c, l, block) + from, 0, l->hot.bytes - from);
}

void hot_copy(const kvt_cache *c, const layer_shape *l, int from, int to) {
    memcpy(block_at(c, l, to), block_at(c, l, from), l->hot.bytes);
}

/* ---------------------------------------------------------------------------------------------- places */

void hot_take(kvt_cache *c, int block) {
    hot_pool *h = &c->hot;
    int slot = h->free_first;
    assert(h->n_free > 0 && h->of[block] == HOT_NONE);
    h->free_first = h->next[slot];
    h->n_free--;
    h->of[block] = slot;
}

void hot_stage(kvt_cache *c, int block) {
    hot_pool *h = &c->hot;
    assert(h->n_staged < h->n_stages && h->of[block] == HOT_NONE);
    h->of[block] = h->n_slots + h->n_staged++;
}

void hot_give(kvt_cache *c, int block) {
    hot_pool *h = &c->hot;
    if (!c->layout.sealing || h->of[block] == HOT_NONE) return;
    int place = h->of[block];
    if (place < h->n_slots) {
        for (int i = 0; c->poison && i < c->n_layers; i++)
            memset(block_at(c, &c->layers[i], block), 0xFF, c->layers[i].hot.bytes);
        h->next[place] = h->free_first;
        h->free_first = place;
        h->n_free++;
    }
    h->of[block] = HOT_NONE;
}

void hot_unstage(kvt_cache *c) {
    c->hot.n_staged = 0;
}

bool hot_is_due(const kvt_cache *c, int index, int length) {
    int size = c->layout.block_tokens, n = length / size;
    if (!c->layout.sealing) return false;
    bool open = index == n && length % size != 0;
    return open || (index < c->layout.n_first && index < n);
}
