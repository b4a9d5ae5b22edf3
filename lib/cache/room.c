/* room.c - see room.h. Leaves to pool.c who uses a block, to prefix.c which one leaves, to spill.c what is written. */
#include "room.h"

#include "cache.h"

/* An idle block that is known no more. */
static void block_free(kvt_cache *c, int block) {
    hot_give(c, block);
    if (c->poison) store_poison(c, block);
    pool_vacate(&c->pool, block);
}

/* Nobody uses the block any more, unless it is to be written first. */
static void rest(kvt_cache *c, int block) {
    if (!prefix_knows(&c->prefix, block)) {
        block_free(c, block);
        return;
    }
    if (!(c->prefix.state[block] & (PREFIX_WRITTEN | PREFIX_LAST))) {
        c->prefix.state[block] |= PREFIX_LAST;
        spill_put(c, block);
    }
    if (!pool_in_use(&c->pool, block)) prefix_release(c, block);
}

void block_drop(kvt_cache *c, int block) {
    if (pool_leave(&c->pool, block)) rest(c, block);
}

void block_unlease(kvt_cache *c, int block) {
    if (pool_unlease(&c->pool, block)) rest(c, block);
}

void block_forget(kvt_cache *c, int block) {
    int last;
    do {
        last = prefix_forget_last(c, block);
        if (!pool_in_use(&c->pool, last)) block_free(c, last);
    } while (last != block);
}

/* False: there was none. */
static bool leave(kvt_cache *c, int block) {
    if (block == POOL_NONE) return false;
    block_free(c, block);
    return true;
}

static bool make_slots(kvt_cache *c, int n) {
    while (c->hot.n_free < n)
        if (!leave(c, prefix_leave_hot(c)) && !spill_take_back(c)) return false;
    return true;
}

static bool make_blocks(kvt_cache *c, int n) {
    while (c->pool.n_free < n)
        if (!leave(c, prefix_leave(c)) && !spill_take_back(c)) return false;
    return true;
}

/* What time is over for leaves before anything else. */
bool room_make(kvt_cache *c, int n_blocks, int n_slots) {
    if (c->pool.n_free < n_blocks || c->hot.n_free < n_slots) room_expire(c);
    bool slots = make_slots(c, n_slots), blocks = make_blocks(c, n_blocks);
    return slots && blocks;
}

void room_expire(kvt_cache *c) {
    while (c->prefix.on && leave(c, prefix_leave_expired(c))) {}
}
