/* room.c - see room.h. Which idle block leaves is evict.c's. */
#include "room.h"

#include "cache.h"

void block_free(kvt_cache *c, int block) {
    hot_give(c, block);
    if (c->poison) store_poison(c, block);
    pool_vacate(&c->pool, block);
}

void block_drop(kvt_cache *c, int block) {
    if (pool_leave(&c->pool, block)) prefix_rest(c, block);
}

void block_unlease(kvt_cache *c, int block) {
    if (pool_unlease(&c->pool, block)) prefix_rest(c, block);
}

static bool is_enough(const kvt_cache *c, int n_blocks, int n_slots) {
    return c->pool.n_free >= n_blocks && c->hot.n_free >= n_slots;
}

bool room_make(kvt_cache *c, int n_blocks, int n_slots) {
    while (!is_enough(c, n_blocks, n_slots))
        if (!prefix_evict(c) && !spill_take_back(c)) return false;
    return true;
}
