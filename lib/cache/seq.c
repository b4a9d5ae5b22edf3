/* seq.c - owns sequences outside a step: new, fork, truncate, free, and their tables. Leaves growing them to step.c.
 *
 * The kinds of cache differ here in one number, layout.seq_blocks_least: a contiguous sequence holds all its blocks
 * from birth to end. Since blocks are then taken, the first one first, and given, the first one last, by whole
 * sequences only, those of a sequence always lie side by side. */
#include "seq.h"

#include <limits.h>
#include <string.h>

#include "cache.h"

enum { SLOT_BITS = 16, SLOT_NONE = -1 };

#define AWAY "%s: the sequence was swapped out, kvt_seq_swap_in comes first"

void seqs_carve(seqs *s, carve *a, int n_slots, int seq_blocks) {
    size_t n_entries = (size_t)n_slots * (size_t)seq_blocks;
    s->n_slots = n_slots;
    s->slot = carve_take(a, (size_t)n_slots, sizeof *s->slot);
    s->tables = carve_take(a, n_entries, sizeof *s->tables);
}

void seqs_open(seqs *s, int seq_blocks) {
    for (int i = 0; i < s->n_slots; i++) {
        s->slot[i].table = s->tables + (size_t)i * (size_t)seq_blocks;
        s->slot[i].free_next = i + 1 < s->n_slots ? i + 1 : SLOT_NONE;
    }
    s->free_first = 0;
}

kvt_seq seq_handle(const kvt_cache *c, const seq *s) {
    return (kvt_seq)s->generation << SLOT_BITS | (kvt_seq)(s - c->seqs.slot);
}

seq *seq_of(const kvt_cache *c, kvt_seq handle) {
    size_t slot = handle & ((1u << SLOT_BITS) - 1);
    if (slot >= (size_t)c->seqs.n_slots) return NULL;
    seq *s = &c->seqs.slot[slot];
    return s->alive && s->generation == handle >> SLOT_BITS ? s : NULL;
}

int seq_blocks_of(const kvt_cache *c, int n_tokens) {
    return (n_tokens + c->layout.block_tokens - 1) / c->layout.block_tokens;
}

bool seq_grow(kvt_cache *c, seq *s) {
    int block = pool_take(&c->pool);
    if (block == POOL_NONE) return false;
    s->table[s->n_blocks++] = block;
    return true;
}

void seq_shrink(kvt_cache *c, seq *s, int n) {
    while (s->n_blocks > n) block_drop(c, s->table[--s->n_blocks]);
}

void seq_cut(kvt_cache *c, seq *s, int n_tokens) {
    int n = seq_blocks_of(c, n_tokens), least = c->layout.seq_blocks_least;
    int n_held = seq_blocks_of(c, s->length);
    seq_shrink(c, s, n > least ? n : least);
    for (int i = n; i < s->n_blocks && i < n_held; i++) hot_give(c, s->table[i]); /* held, but empty now */
    s->length = n_tokens;
}

/* A slot with the blocks that the kind of cache gives at birth; NULL: full. */
static seq *seq_take(kvt_cache *c) {
    int slot = c->seqs.free_first, least = c->layout.seq_blocks_least;
    if (slot == SLOT_NONE || c->pool.n_free < least) {
        c->counts.n_full++;
        return NULL;
    }
    seq *s = &c->seqs.slot[slot];
    c->seqs.free_first = s->free_next;
    c->seqs.n_alive++;
    s->alive = true;
    s->generation++;
    s->length = 0;
    s->away = 0;
    s->search = (seq_search){.end = INT_MAX, .bad = INT_MAX};
    while (s->n_blocks < least) seq_grow(c, s);
    return s;
}

/* Its blocks have been read until now, and are what others may begin with. */
static void seq_prove(kvt_cache *c, const seq *s) {
    prefix *p = &c->prefix;
    uint64_t expires = cache_end_of(c, s->search.ttl_ns);
    for (int i = 0; i < s->n_blocks; i++) {
        if (!prefix_knows(p, s->table[i])) return;
        p->state[s->table[i]] |= PREFIX_PROVEN;
        if (s->search.ttl_ns) evict_extend(&p->evict, p->entry_of[s->table[i]], expires);
    }
}

void seq_rest(kvt_cache *c, seq *s) {
    seq_prove(c, s);
    seq_shrink(c, s, 0);
}

static void seq_give(kvt_cache *c, seq *s) {
    if (s->away) swap_drop(c, s, s->away - 1, seq_blocks_of(c, s->length));
    match_abandon(c, s, 0);
    seq_rest(c, s);
    s->alive = false;
    s->free_next = c->seqs.free_first;
    c->seqs.free_first = (int)(s - c->seqs.slot);
    c->seqs.n_alive--;
}

/* Give `to`, which is new, the tokens of `from`: by naming its blocks, or by filling the blocks that `to` has. */
static void seq_share(kvt_cache *c, const seq *from, seq *to) {
    int n = seq_blocks_of(c, from->length);
    to->length = from->length;
    to->search = from->search;
    to->search.n_coming = 0;
    to->search.n_asked = from->length; /* what is missed further on is counted, once */
    if (to->n_blocks) {
        store_copy(c, (store_copies){from->table, to->table, n});
        return;
    }
    for (int i = 0; i < n; i++) pool_share(&c->pool, from->table[i]);
    memcpy(to->table, from->table, (size_t)n * sizeof *to->table);
    to->n_blocks = n;
}

kvt_status seq_idle(const kvt_cache *c, kvt_seq handle, const char *call, seq **out) {
    if (c->step.open) return log_fail(&c->log, KVT_E_STATE, "%s: a step is open, commit or abort it first", call);
    *out = seq_of(c, handle);
    if (*out && (*out)->away) return log_fail(&c->log, KVT_E_STATE, AWAY, call);
    if (*out) return KVT_OK;
    return log_fail(&c->log, KVT_E_SEQUENCE, "%s: no sequence has the handle %#llx", call, (unsigned long long)handle);
}

kvt_status kvt_seq_new(kvt_cache *c, kvt_seq *out) {
    if (!c || !out) return KVT_E_ARGUMENT;
    seq *s = seq_take(c);
    if (!s) return KVT_FULL;
    *out = seq_handle(c, s);
    return KVT_OK;
}

kvt_status kvt_seq_fork(kvt_cache *c, kvt_seq handle, kvt_seq *out) {
    if (!c || !out) return KVT_E_ARGUMENT;
    seq *from, *to;
    TRY(seq_idle(c, handle, "kvt_seq_fork", &from));
    to = seq_take(c);
    if (!to) return KVT_FULL;
    seq_share(c, from, to);
    *out = seq_handle(c, to);
    return KVT_OK;
}

/* Tokens that are left where n_tokens are to be kept: of a block that is sealed and does not stay whole, none. */
static int tokens_left(const kvt_cache *c, const seq *s, int n_tokens) {
    int size = c->layout.block_tokens, index = n_tokens / size;
    bool sealed = c->layout.sealing && index < s->length / size && index >= c->layout.n_first;
    return sealed ? index * size : n_tokens;
}

/* From the last one on: what goes on from a block is forgotten before it. */
void seq_forget(kvt_cache *c, const seq *s, int first) {
    for (int i = s->n_blocks; i-- > first;) {
        int block = s->table[i];
        if (!prefix_knows(&c->prefix, block) || c->pool.refs[block] > 1) continue;
        if (c->prefix.state[block] & PREFIX_PROVEN) continue;
        spill_drop(c, block);
        block_forget(c, block);
    }
}

kvt_status kvt_seq_truncate(kvt_cache *c, kvt_seq handle, int n_tokens) {
    if (!c) return KVT_E_ARGUMENT;
    seq *s;
    TRY(seq_idle(c, handle, "kvt_seq_truncate", &s));
    if (n_tokens < 0 || n_tokens > s->length)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_seq_truncate: n_tokens is %d, the sequence has %d", n_tokens,
                        s->length);
    match_abandon(c, s, 0);
    int n_left = tokens_left(c, s, n_tokens);
    if (n_left < s->length) seq_forget(c, s, n_left / c->layout.block_tokens);
    seq_cut(c, s, n_left);
    if (s->search.n_asked > n_left) s->search.n_asked = n_left;
    if (n_left / c->layout.block_tokens <= s->search.end) s->search.end = s->search.bad = INT_MAX;
    return KVT_OK;
}

kvt_status kvt_seq_free(kvt_cache *c, kvt_seq handle) {
    if (!c) return KVT_E_ARGUMENT;
    if (handle == KVT_SEQ_NONE) return KVT_OK;
    if (c->step.open) return log_fail(&c->log, KVT_E_STATE, "kvt_seq_free: a step is open, commit or abort it first");
    seq *s = seq_of(c, handle);
    if (!s)
        return log_fail(&c->log, KVT_E_SEQUENCE, "kvt_seq_free: no sequence has the handle %#llx",
                        (unsigned long long)handle);
    seq_give(c, s);
    return KVT_OK;
}

int kvt_seq_length(const kvt_cache *c, kvt_seq handle) {
    const seq *s = c ? seq_of(c, handle) : NULL;
    return s ? s->length : c ? KVT_E_SEQUENCE : KVT_E_ARGUMENT;
}

kvt_status kvt_seq_tokens(const kvt_cache *c, kvt_seq handle, int first, int n, int32_t *out) {
    if (!c || (!out && n > 0)) return KVT_E_ARGUMENT;
    const seq *s = seq_of(c, handle);
    if (!s)
        return log_fail(&c->log, KVT_E_SEQUENCE, "kvt_seq_tokens: no sequence has the handle %#llx",
                        (unsigned long long)handle);
    if (s->away) return log_fail(&c->log, KVT_E_STATE, AWAY, "kvt_seq_tokens");
    if (first < 0 || n < 0 || first > s->length || n > s->length - first)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_seq_tokens: %d tokens from %d, the sequence has %d", n, first,
                        s->length);
    for (int i = 0; i < n; i++) {
        int at = first + i, size = c->layout.block_tokens;
        out[i] = pool_tokens(&c->pool, s->table[at / size])[at % size];
    }
    return KVT_OK;
}
