/* prefix.c - see prefix.h. Leaves to room.c what becomes of a block that is known no more, to match.c what a sequence
 * takes of what is known, to spill.c what tiers have. */
#include "prefix.h"

#include <assert.h>
#include <string.h>

#include "cache.h"

enum {
    GHOSTS_EACH = 16, /* blocks remembered after they left, for each block */
    PARTS_MAX = 48    /* continuations that are compared token by token */
};

void prefix_carve(prefix *p, carve *a, const kvt_options *opt, const layout *l) {
    p->on = opt->kind == KVT_PAGED && !opt->forget;
    p->block_tokens = l->block_tokens;
    if (!p->on) return;
    size_t n = (size_t)l->n_blocks;
    int64_t n_entries = (int64_t)l->n_blocks * (1 + GHOSTS_EACH);
    index_carve(&p->index, a, n_entries < INT32_MAX / 2 ? (int)n_entries : INT32_MAX / 2);
    evict_carve(&p->evict, a, l->n_blocks);
    p->entry_of = carve_take(a, n, sizeof *p->entry_of);
    p->key = carve_take(a, n, sizeof *p->key);
    p->state = carve_take(a, n, sizeof *p->state);
    p->depth = carve_take(a, n, sizeof *p->depth);
    p->parent = carve_take(a, n, sizeof *p->parent);
    p->child = carve_take(a, n + 1, sizeof *p->child);
    p->elder = carve_take(a, n, sizeof *p->elder);
    p->younger = carve_take(a, n, sizeof *p->younger);
    p->path = carve_take(a, (size_t)l->seq_blocks, sizeof *p->path);
}

void prefix_open(kvt_cache *c, const kvt_options *opt, int key_bits) {
    prefix *p = &c->prefix;
    if (!p->on) return;
    key_open();
    p->key_bits = key_bits ? key_bits : 8 * KEY_BYTES;
    if (opt->secret) memcpy(p->secret, opt->secret, sizeof p->secret);
    p->root = key_root(opt, &c->layout, p->secret);
    index_open(&p->index);
    evict_open(&p->evict, &p->index);
    for (int i = 0; i < c->pool.n_blocks; i++) p->entry_of[i] = INDEX_NONE;
    for (int i = 0; i <= c->pool.n_blocks; i++) p->child[i] = POOL_NONE;
}

/* ------------------------------------------------------------------------------------------------ looking */

static int32_t *child_of(const kvt_cache *c, int parent) {
    return &c->prefix.child[parent == POOL_NONE ? c->pool.n_blocks : parent];
}

static int entry_of(const kvt_cache *c, int block) {
    return block == POOL_NONE ? INDEX_NONE : c->prefix.entry_of[block];
}

static uint64_t address_of(const prefix *p, const block_key *key) {
    block_key cut = key_cut(key, p->key_bits);
    return key_number(&cut);
}

block_key prefix_key(const kvt_cache *c, int parent, const int32_t *tokens) {
    const prefix *p = &c->prefix;
    return key_next(p->secret, parent == POOL_NONE ? &p->root : &p->key[parent], tokens, p->block_tokens);
}

/* Tokens and parent are compared, so a key that two blocks should share costs a miss and no more. */
int prefix_find(const kvt_cache *c, int parent, const block_key *key, const int32_t *tokens) {
    const prefix *p = &c->prefix;
    int entry = index_find(&p->index, address_of(p, key));
    if (entry == INDEX_NONE || p->index.entry[entry].block == INDEX_NONE) return POOL_NONE;
    int block = p->index.entry[entry].block;
    size_t bytes = (size_t)p->block_tokens * sizeof *tokens;
    bool same = p->parent[block] == parent && memcmp(pool_tokens(&c->pool, block), tokens, bytes) == 0;
    return same ? block : POOL_NONE;
}

int prefix_entry(const kvt_cache *c, const block_key *key) {
    return index_find(&c->prefix.index, address_of(&c->prefix, key));
}

bool prefix_was_here(const kvt_cache *c, const block_key *key) {
    int entry = prefix_entry(c, key);
    return entry != INDEX_NONE && c->prefix.index.entry[entry].block == INDEX_NONE;
}

static int same_tokens(const int32_t *a, const int32_t *b, int n) {
    int i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

int prefix_find_part(const kvt_cache *c, int parent, const int32_t *tokens, int n, int *n_same) {
    const prefix *p = &c->prefix;
    int best = POOL_NONE, n_looked = 0;
    *n_same = 0;
    if (n > p->block_tokens) n = p->block_tokens;
    for (int b = *child_of(c, parent); b != POOL_NONE && n_looked < PARTS_MAX; b = p->elder[b], n_looked++) {
        int same = p->state[b] & PREFIX_COMING ? 0 : same_tokens(pool_tokens(&c->pool, b), tokens, n);
        if (same <= *n_same) continue;
        *n_same = same;
        best = b;
    }
    return best;
}

/* --------------------------------------------------------------------------------------- coming and going */

static void link_child(kvt_cache *c, int block, int parent) {
    prefix *p = &c->prefix;
    p->parent[block] = parent;
    int32_t *first = child_of(c, parent);
    p->elder[block] = *first;
    p->younger[block] = POOL_NONE;
    if (*first != POOL_NONE) p->younger[*first] = block;
    *first = block;
}

static void unlink_child(kvt_cache *c, int block) {
    prefix *p = &c->prefix;
    int elder = p->elder[block], younger = p->younger[block];
    if (younger == POOL_NONE) *child_of(c, p->parent[block]) = elder;
    else p->elder[younger] = elder;
    if (elder != POOL_NONE) p->younger[elder] = younger;
}

bool prefix_add(kvt_cache *c, int block, int parent, const block_key *key, uint8_t state) {
    prefix *p = &c->prefix;
    uint64_t address = address_of(p, key);
    int entry = index_find(&p->index, address);
    if (entry == INDEX_NONE) entry = index_add(&p->index, address);
    else if (p->index.entry[entry].block != INDEX_NONE) return false;
    evict_adopt(&p->evict, entry, entry_of(c, parent), block);
    p->entry_of[block] = entry;
    p->key[block] = *key;
    p->depth[block] = parent == POOL_NONE ? 0 : p->depth[parent] + 1;
    p->state[block] = state;
    p->n_coming += (state & PREFIX_COMING) != 0;
    link_child(c, block, parent);
    return true;
}

/* The block is known no more; its entry is gone, or a ghost. */
static void lose(kvt_cache *c, int block) {
    prefix *p = &c->prefix;
    assert(p->child[block] == POOL_NONE);
    unlink_child(c, block);
    p->n_coming -= (p->state[block] & PREFIX_COMING) != 0;
    p->entry_of[block] = INDEX_NONE;
    p->state[block] = 0;
}

void prefix_arrive(kvt_cache *c, int block) {
    c->prefix.state[block] &= (uint8_t)~PREFIX_COMING;
    c->prefix.n_coming--;
}

/* The newest of what goes on from it, of that again, and so on. */
static int last_behind(const prefix *p, int block) {
    while (p->child[block] != POOL_NONE) block = p->child[block];
    return block;
}

int prefix_forget_last(kvt_cache *c, int block) {
    int last = last_behind(&c->prefix, block);
    while (prefix_is_pinned(&c->prefix, last)) prefix_unpin(c, last);
    evict_forget(&c->prefix.evict, c->prefix.entry_of[last]);
    lose(c, last);
    return last;
}

void prefix_read(kvt_cache *c, int block, const evict_reader *reader) {
    prefix *p = &c->prefix;
    evict_hold(&p->evict, p->entry_of[block], p->depth[block], false, reader);
}

void prefix_release(kvt_cache *c, int block) {
    evict_release(&c->prefix.evict, c->prefix.entry_of[block]);
}

/* ------------------------------------------------------------------------------------------------ leaving */

static int evicted(kvt_cache *c, int block) {
    prefix *p = &c->prefix;
    p->counts.evicted++;
    p->counts.unwritten += !(p->state[block] & PREFIX_WRITTEN);
    lose(c, block);
    return block;
}

int prefix_leave(kvt_cache *c) {
    int32_t block;
    if (!c->prefix.on || evict_next(&c->prefix.evict, &block) == INDEX_NONE) return POOL_NONE;
    return evicted(c, block);
}

/* The first block that nobody uses and that is worth least; there are no more of them than hot slots. */
static int least_beginning(const kvt_cache *c) {
    const prefix *p = &c->prefix;
    int least = INDEX_NONE;
    for (int b = *child_of(c, POOL_NONE); b != POOL_NONE; b = p->elder[b]) {
        if (pool_in_use(&c->pool, b) || prefix_is_pinned(p, b)) continue;
        least = least == INDEX_NONE ? p->entry_of[b] : evict_lesser(&p->evict, least, p->entry_of[b]);
    }
    return least == INDEX_NONE ? POOL_NONE : p->index.entry[least].block;
}

int prefix_leave_hot(kvt_cache *c) {
    prefix *p = &c->prefix;
    int32_t block;
    int first = p->on ? least_beginning(c) : POOL_NONE;
    if (first == POOL_NONE) return POOL_NONE;
    if (!evict_this(&p->evict, p->entry_of[last_behind(p, first)], &block)) return prefix_leave(c);
    return evicted(c, block);
}

int prefix_leave_expired(kvt_cache *c) {
    int32_t block;
    if (evict_expired(&c->prefix.evict, cache_now(c), &block) == INDEX_NONE) return POOL_NONE;
    lose(c, block);
    c->prefix.counts.expired++;
    return block;
}

/* --------------------------------------------------------------------------------------------------- pins */

static bool is_hot(const kvt_cache *c, int block) {
    return c->layout.sealing && c->hot.of[block] != HOT_NONE;
}

void prefix_pin(kvt_cache *c, int block) {
    prefix *p = &c->prefix;
    if (!prefix_is_pinned(p, block)) {
        p->n_pinned++;
        p->n_pinned_hot += is_hot(c, block);
    }
    evict_pin(&p->evict, p->entry_of[block]);
    p->state[block] |= PREFIX_PROVEN;
}

void prefix_unpin(kvt_cache *c, int block) {
    prefix *p = &c->prefix;
    evict_unpin(&p->evict, p->entry_of[block]);
    if (prefix_is_pinned(p, block)) return;
    p->n_pinned--;
    p->n_pinned_hot -= is_hot(c, block);
}
