/* check.c - owns kvt_check, the proof that the records of a cache agree with each other. It trusts none of them: an
 * index is looked at before it is used, and a contradiction is reported, not fatal. */
#include <string.h>

#include "cache.h"

/* What the walks have found. */
typedef struct tally {
    const kvt_cache *c;
    int32_t *named; /* [n_blocks] times a table names the block; -1: it is in the free list */
    int32_t *place; /* [n_blocks] index it has in those tables, + 1 */
} tally;

#define CORRUPT(c, ...) log_fail(&(c)->log, KVT_E_CORRUPT, __VA_ARGS__)

static kvt_status check_free_blocks(const tally *t) {
    const pool *p = &t->c->pool;
    int n = 0;
    for (int b = p->free_first; b != POOL_NONE; b = p->next[b], n++) {
        if (b < 0 || b >= p->n_blocks) return CORRUPT(t->c, "the free list names block %d of %d", b, p->n_blocks);
        if (t->named[b]) return CORRUPT(t->c, "block %d is in the free list twice", b);
        if (p->refs[b]) return CORRUPT(t->c, "block %d is in the free list and in %d tables", b, p->refs[b]);
        if (p->leases[b]) return CORRUPT(t->c, "block %d is in the free list and in %d moves", b, p->leases[b]);
        if (prefix_knows(&t->c->prefix, b)) return CORRUPT(t->c, "block %d is in the free list and can be found", b);
        t->named[b] = -1;
    }
    return n == p->n_free ? KVT_OK : CORRUPT(t->c, "the free list has %d blocks, counted are %d", n, p->n_free);
}

/* Tokens of a sequence, the rows of the open step included. */
static int tokens_due(const kvt_cache *c, const seq *s) {
    int n_tokens = s->length;
    for (int i = 0; c->step.open && s->step == c->step.number && i < c->step.n_entries; i++)
        if (c->step.entry[i].seq == s) n_tokens += c->step.entry[i].n_new;
    return n_tokens;
}

/* Blocks that a sequence must hold. */
static int blocks_due(const kvt_cache *c, const seq *s) {
    if (s->away) return 0;
    int n = seq_blocks_of(c, tokens_due(c, s)), least = c->layout.seq_blocks_least;
    return n > least ? n : least;
}

/* Has the block at `index`, and only if it is hot or of the open step, a place? */
static bool place_is_right(const kvt_cache *c, const seq *s, int n_tokens, int index) {
    bool of_step = n_tokens > s->length && index >= s->length / c->layout.block_tokens &&
                   index < seq_blocks_of(c, n_tokens);
    bool coming = index >= s->n_blocks && index < c->layout.n_first;
    return (c->hot.of[s->table[index]] != HOT_NONE) == (of_step || coming || hot_is_due(c, index, s->length));
}

static kvt_status check_table(const tally *t, const seq *s) {
    const pool *p = &t->c->pool;
    int slot = (int)(s - t->c->seqs.slot), n_tokens = tokens_due(t->c, s);
    for (int i = 0; i < s->n_blocks + s->search.n_coming; i++) {
        int b = s->table[i];
        if (b < 0 || b >= p->n_blocks) return CORRUPT(t->c, "sequence %d names block %d of %d", slot, b, p->n_blocks);
        if (t->named[b] < 0) return CORRUPT(t->c, "sequence %d names block %d, which is free", slot, b);
        if (t->named[b] && t->place[b] != i + 1)
            return CORRUPT(t->c, "block %d is number %d of one sequence and %d of another", b, t->place[b] - 1, i);
        if (t->c->layout.seq_blocks_least && b != s->table[0] + i)
            return CORRUPT(t->c, "sequence %d is not contiguous: block %d is number %d", slot, b, i);
        if (t->c->layout.sealing && !place_is_right(t->c, s, n_tokens, i))
            return CORRUPT(t->c, "block %d, number %d of sequence %d, has hot place %d", b, i, slot, t->c->hot.of[b]);
        t->named[b]++;
        t->place[b] = i + 1;
    }
    return KVT_OK;
}

static kvt_status check_seqs(const tally *t) {
    const kvt_cache *c = t->c;
    int n_alive = 0, n_free = 0;
    for (int i = 0; i < c->seqs.n_slots; i++) {
        const seq *s = &c->seqs.slot[i];
        n_alive += s->alive;
        if (s->length < 0 || s->length > c->tokens_max)
            return CORRUPT(c, "sequence %d has %d tokens of %d", i, s->length, c->tokens_max);
        int due = s->alive ? blocks_due(c, s) : 0;
        if (s->n_blocks != due) return CORRUPT(c, "sequence %d holds %d blocks, due are %d", i, s->n_blocks, due);
        TRY(check_table(t, s));
    }
    for (int i = c->seqs.free_first; i >= 0 && i < c->seqs.n_slots && n_free <= c->seqs.n_slots; n_free++) {
        if (c->seqs.slot[i].alive) return CORRUPT(c, "sequence %d is alive and in the free list", i);
        i = c->seqs.slot[i].free_next;
    }
    if (n_alive != c->seqs.n_alive || n_alive + n_free != c->seqs.n_slots)
        return CORRUPT(c, "%d sequences are alive and %d free of %d, counted are %d alive", n_alive, n_free,
                       c->seqs.n_slots, c->seqs.n_alive);
    return KVT_OK;
}

/* A block that no table names: a mover is at it, or it can be found. */
static kvt_status check_idle(const tally *t, int b) {
    const kvt_cache *c = t->c;
    bool known = prefix_knows(&c->prefix, b), first = known && c->prefix.depth[b] < c->layout.n_first;
    if (c->pool.leases[b] > 0) return KVT_OK;
    if (!known) return CORRUPT(c, "block %d is neither free nor in a table, and cannot be found", b);
    if (c->layout.sealing && first != (c->hot.of[b] != HOT_NONE))
        return CORRUPT(c, "block %d is idle, number %d, and has hot place %d", b, c->prefix.depth[b], c->hot.of[b]);
    return KVT_OK;
}

static kvt_status check_refs(const tally *t) {
    const pool *p = &t->c->pool;
    int n_shared = 0, n_idle = 0, n_leases = 0;
    for (int b = 0; b < p->n_blocks; b++) {
        int named = t->named[b] < 0 ? 0 : t->named[b];
        if (t->named[b] == 0) TRY(check_idle(t, b));
        n_idle += t->named[b] == 0 && p->leases[b] == 0;
        n_leases += p->leases[b];
        if (p->leases[b] < 0) return CORRUPT(t->c, "block %d is in %d moves", b, p->leases[b]);
        if (p->refs[b] != named) return CORRUPT(t->c, "block %d is in %d tables, counted are %d", b, named, p->refs[b]);
        if (named && (p->written[b] < 0 || p->written[b] > p->block_tokens))
            return CORRUPT(t->c, "block %d has %d slots written of %d", b, p->written[b], p->block_tokens);
        n_shared += named > 1;
    }
    if (n_idle != p->n_idle) return CORRUPT(t->c, "%d blocks are idle, counted are %d", n_idle, p->n_idle);
    if (n_leases > move_n_open(t->c))
        return CORRUPT(t->c, "%d moves hold blocks, open are %d", n_leases, move_n_open(t->c));
    if (n_shared != p->n_shared) return CORRUPT(t->c, "%d blocks are shared, counted are %d", n_shared, p->n_shared);
    uint64_t n_used = (uint64_t)pool_n_used(p);
    if (p->counts.taken - p->counts.given != n_used)
        return CORRUPT(t->c, "%llu blocks are in use, taken less given are %llu", (unsigned long long)n_used,
                       (unsigned long long)(p->counts.taken - p->counts.given));
    return KVT_OK;
}

/* Every slot is free or one block's; a staging place is one block's at most. taken: [n_slots + n_stages], zeros. */
static kvt_status check_places(const kvt_cache *c, int32_t *taken) {
    const hot_pool *h = &c->hot;
    int n_free = 0, n_used = 0;
    for (int i = h->n_free ? h->free_first : HOT_NONE; i != HOT_NONE; i = h->next[i], n_free++) {
        if (i < 0 || i >= h->n_slots) return CORRUPT(c, "the list of hot slots names slot %d of %d", i, h->n_slots);
        if (taken[i]++) return CORRUPT(c, "hot slot %d is in the free list twice", i);
    }
    for (int b = 0; b < c->pool.n_blocks; b++) {
        int place = h->of[b];
        if (place == HOT_NONE) continue;
        if (place < 0 || place >= h->n_slots + h->n_staged)
            return CORRUPT(c, "block %d has hot place %d of %d", b, place, h->n_slots + h->n_staged);
        if (!pool_in_use(&c->pool, b) && !prefix_knows(&c->prefix, b))
            return CORRUPT(c, "block %d is free and has hot place %d", b, place);
        if (taken[place]++) return CORRUPT(c, "hot place %d of block %d is another's, too, or free", place, b);
        n_used += place < h->n_slots;
    }
    if (n_free != h->n_free || n_free + n_used != h->n_slots)
        return CORRUPT(c, "%d hot slots are free and %d used of %d, counted are %d free", n_free, n_used, h->n_slots,
                       h->n_free);
    return KVT_OK;
}

/* ----------------------------------------------------------------------------------- what can be found */

static kvt_status check_known(const kvt_cache *c, int b) {
    const prefix *p = &c->prefix;
    int entry = p->entry_of[b], parent = p->parent[b];
    if (entry < 0 || entry >= p->index.n_entries || p->index.entry[entry].block != b)
        return CORRUPT(c, "block %d has entry %d, which has another block", b, entry);
    if (parent != POOL_NONE && (parent < 0 || parent >= c->pool.n_blocks || !prefix_knows(p, parent)))
        return CORRUPT(c, "block %d goes on from block %d, which is not known", b, parent);
    if (p->depth[b] != (parent == POOL_NONE ? 0 : p->depth[parent] + 1))
        return CORRUPT(c, "block %d is number %d, and goes on from block %d", b, p->depth[b], parent);
    block_key key = prefix_key(c, parent, pool_tokens(&c->pool, b));
    if (!key_is(&key, &p->key[b])) return CORRUPT(c, "block %d has another key than its tokens", b);
    if (prefix_find(c, parent, &key, pool_tokens(&c->pool, b)) != b) return CORRUPT(c, "block %d is not found", b);
    if (p->index.entry[entry].held != pool_in_use(&c->pool, b))
        return CORRUPT(c, "block %d is used by %d, its entry says otherwise", b, pool_holders(&c->pool, b));
    return KVT_OK;
}

/* Every known block is one of its parent's children, once. */
static kvt_status check_children(const kvt_cache *c, int n_known) {
    const prefix *p = &c->prefix;
    int n = 0;
    for (int parent = 0; parent <= c->pool.n_blocks; parent++)
        for (int b = p->child[parent], younger = POOL_NONE; b != POOL_NONE && n <= n_known; b = p->elder[b], n++) {
            int of = parent == c->pool.n_blocks ? POOL_NONE : parent;
            if (!prefix_knows(p, b) || p->parent[b] != of || p->younger[b] != younger)
                return CORRUPT(c, "block %d is listed as what goes on from block %d", b, of);
            younger = b;
        }
    return n == n_known ? KVT_OK : CORRUPT(c, "%d blocks go on from others, known are %d", n, n_known);
}

static kvt_status check_prefix(const kvt_cache *c) {
    const prefix *p = &c->prefix;
    int n_known = 0, n_coming = 0, n_pinned = 0;
    for (int b = 0; b < c->pool.n_blocks; b++) {
        if (!prefix_knows(p, b)) continue;
        TRY(check_known(c, b));
        n_known++;
        n_coming += (p->state[b] & PREFIX_COMING) != 0;
        n_pinned += prefix_is_pinned(p, b);
    }
    if (n_coming != p->n_coming) return CORRUPT(c, "%d blocks are coming, counted are %d", n_coming, p->n_coming);
    if (n_pinned != p->n_pinned) return CORRUPT(c, "%d blocks are pinned, counted are %d", n_pinned, p->n_pinned);
    if (!evict_sound(&p->evict)) return CORRUPT(c, "the blocks that may leave are not in their order");
    return check_children(c, n_known);
}

static kvt_status check(const tally *t) {
    TRY(check_free_blocks(t));
    TRY(check_seqs(t));
    TRY(check_refs(t));
    if (t->c->prefix.on) TRY(check_prefix(t->c));
    return t->c->layout.sealing ? check_places(t->c, t->c->hot.mark) : KVT_OK;
}

kvt_status kvt_check(const kvt_cache *c) {
    if (!c) return KVT_E_ARGUMENT;
    tally t = {c, c->pool.mark[0], c->pool.mark[1]};
    size_t bytes = (size_t)c->pool.n_blocks * sizeof(int32_t);
    kvt_status status = check(&t);
    memset(t.named, 0, bytes);
    memset(t.place, 0, bytes);
    memset(c->hot.mark, 0, (size_t)(c->hot.n_slots + c->hot.n_stages) * sizeof *c->hot.mark);
    return status;
}
