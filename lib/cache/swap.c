/* swap.c - owns kvt_seq_swap_out and kvt_seq_swap_in. Blocks that are known have the records that prefixes are found
 * by; the others, and the open one, have private ones. A list of the keys of all stands for the sequence. It reads and
 * writes the tier itself, without a mover: the caller wants it done. */
#include "swap.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cache.h"

enum { LIST = -1 }; /* the index under which the list of keys has its own */

void swap_carve(swap *w, carve *a, const kvt_options *opt) {
    size_t n = opt->n_tiers > 0 ? (size_t)opt->n_layers + 1 : 0;
    w->pieces = carve_take(a, n, sizeof *w->pieces);
}

/* No two caches have the same; it need not be secret. Where moves run inline a run is to be the same every time. */
void swap_open(kvt_cache *c) {
    uint64_t own[2] = {sys_now_ns(), (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)c};
    if (c->spill.n_tiers == 0 || c->mover.inline_) return;
    if (getrandom(c->swap.nonce, sizeof c->swap.nonce, GRND_NONBLOCK) == sizeof c->swap.nonce) return;
    memcpy(c->swap.nonce, own, sizeof c->swap.nonce);
}

/* ----------------------------------------------------------------------------------------------- records */

static block_key private_key(const kvt_cache *c, const seq *s, int index) {
    return key_private(c->prefix.secret, c->swap.nonce, seq_handle(c, s), index);
}

static record private_record(const kvt_cache *c, const block_key *key, int index) {
    record r = {.kind = RECORD_PRIVATE, .index = (uint32_t)index};
    memcpy(r.space, c->prefix.root.byte, sizeof r.space);
    memcpy(r.key, key->byte, sizeof r.key);
    return r;
}

static int tokens_in(const kvt_cache *c, const seq *s, int i) {
    int size = c->layout.block_tokens, rest = s->length - i * size;
    return rest < size ? rest : size;
}

/* Of a block of the sequence that is here. */
static record record_of(const kvt_cache *c, const seq *s, int i, const block_key *key) {
    int block = s->table[i];
    if (prefix_knows(&c->prefix, block)) return spill_record(c, block);
    record r = private_record(c, key, i);
    r.n_tokens = (uint32_t)tokens_in(c, s, i);
    memcpy(r.tokens, pool_tokens(&c->pool, block), r.n_tokens * sizeof r.tokens[0]);
    return r;
}

/* pieces[1 ..] are the payload. */
static kvt_status put(kvt_cache *c, kvt_tier *tier, record *r, const block_key *key, int n_pieces) {
    uint8_t header[RECORD_HEADER];
    kvt_piece *pieces = c->swap.pieces;
    kvt_tier_key address = spill_key(c, key);
    r->payload_bytes = 0;
    for (int i = 1; i < n_pieces; i++) r->payload_bytes += pieces[i].n;
    record_write(r, record_hash(pieces + 1, n_pieces - 1), header);
    pieces[0] = (kvt_piece){header, sizeof header};
    return tier->ops.put(tier->ctx, &address, pieces, n_pieces);
}

/* Whatever a record says of itself besides what is expected, its checksums are right. */
static kvt_status get(kvt_cache *c, kvt_tier *tier, const block_key *key, int n_pieces, record *out) {
    uint8_t header[RECORD_HEADER];
    uint64_t hash, bytes = 0;
    kvt_piece *pieces = c->swap.pieces;
    kvt_tier_key address = spill_key(c, key);
    pieces[0] = (kvt_piece){header, sizeof header};
    for (int i = 1; i < n_pieces; i++) bytes += pieces[i].n;
    TRY(tier->ops.get(tier->ctx, &address, pieces, n_pieces));
    TRY(record_read(header, out, &hash));
    bool same = memcmp(out->key, key->byte, sizeof out->key) == 0 && out->payload_bytes == bytes &&
                memcmp(out->space, c->prefix.root.byte, sizeof out->space) == 0;
    return same && record_hash(pieces + 1, n_pieces - 1) == hash ? KVT_OK : KVT_E_CORRUPT;
}

static bool is_private(const kvt_cache *c, const seq *s, int i) {
    block_key own = private_key(c, s, i);
    return key_is(&own, &c->prefix.path[i]);
}

void swap_drop(kvt_cache *c, const seq *s, int tier, int n_blocks) {
    kvt_tier *t = c->spill.tier[tier];
    for (int i = LIST; i < n_blocks; i++) {
        block_key key = private_key(c, s, i);
        kvt_tier_key address = spill_key(c, &key);
        if (t->ops.has(t->ctx, &address)) t->ops.drop(t->ctx, &address);
    }
}

/* --------------------------------------------------------------------------------------------------- out */

static kvt_status put_block(kvt_cache *c, const seq *s, int i, kvt_tier *tier) {
    int block = s->table[i];
    const block_key *key = &c->prefix.path[i];
    kvt_tier_key address = spill_key(c, key);
    bool known = prefix_knows(&c->prefix, block), hot = c->layout.sealing && c->hot.of[block] != HOT_NONE;
    if (known && tier->ops.has(tier->ctx, &address)) return KVT_OK;
    record r = record_of(c, s, i, key);
    move_pieces(c, block, hot, c->swap.pieces + 1);
    return put(c, tier, &r, key, c->n_layers + 1);
}

/* A tier that is too small has let the first ones go for the last. */
static bool has_all(const kvt_cache *c, const seq *s, kvt_tier *tier) {
    for (int i = 0; i < s->n_blocks; i++) {
        kvt_tier_key address = spill_key(c, &c->prefix.path[i]);
        if (!tier->ops.has(tier->ctx, &address)) return false;
    }
    return true;
}

static kvt_status put_all(kvt_cache *c, const seq *s, kvt_tier *tier) {
    block_key *keys = c->prefix.path, list = private_key(c, s, LIST);
    for (int i = 0; i < s->n_blocks; i++) {
        bool known = prefix_knows(&c->prefix, s->table[i]);
        keys[i] = known ? c->prefix.key[s->table[i]] : private_key(c, s, i);
    }
    for (int i = 0; i < s->n_blocks; i++) TRY(put_block(c, s, i, tier));
    record r = private_record(c, &list, LIST);
    c->swap.pieces[1] = (kvt_piece){keys, (size_t)s->n_blocks * sizeof *keys};
    TRY(put(c, tier, &r, &list, 2));
    return has_all(c, s, tier) ? KVT_OK : KVT_FULL;
}

static kvt_status swap_out(kvt_cache *c, kvt_seq handle, int tier) {
    seq *s;
    TRY(seq_idle(c, handle, "kvt_seq_swap_out", &s));
    if (tier < 0 || tier >= c->spill.n_tiers)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_seq_swap_out: tier is %d, there are %d", tier, c->spill.n_tiers);
    match_abandon(c, s, 0);
    if (c->mover.n_drops > 0) kvt_flush(c); /* or they reach what is written here */
    kvt_status status = put_all(c, s, c->spill.tier[tier]);
    if (status != KVT_OK) {
        swap_drop(c, s, tier, s->n_blocks);
        return log_fail(&c->log, KVT_E_IO, "kvt_seq_swap_out: the tier has not taken it: %s", kvt_status_text(status));
    }
    s->away = 1 + tier;
    seq_rest(c, s);
    return KVT_OK;
}

kvt_status kvt_seq_swap_out(kvt_cache *c, kvt_seq handle, int tier) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = swap_out(c, handle, tier);
    step_leave(b);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- in */

/* A block that has not left memory; the key is compared in full. */
static int resident(const kvt_cache *c, const block_key *key) {
    int entry = prefix_entry(c, key);
    int block = entry == INDEX_NONE ? POOL_NONE : c->prefix.index.entry[entry].block;
    if (block == POOL_NONE || c->prefix.state[block] & PREFIX_COMING) return POOL_NONE;
    return key_is(&c->prefix.key[block], key) ? block : POOL_NONE;
}

/* Hold what is here; how many blocks, and hot ones among them, have to be read. */
static int hold_residents(kvt_cache *c, seq *s, int n, int *n_hot) {
    int n_missing = 0;
    *n_hot = 0;
    for (int i = 0; i < n; i++) {
        int block = s->table[i] = resident(c, &c->prefix.path[i]);
        if (block != POOL_NONE) {
            pool_share(&c->pool, block);
            prefix_read(c, block, &s->search.reader);
            continue;
        }
        n_missing++;
        *n_hot += hot_is_due(c, i, s->length);
    }
    return n_missing;
}

static void release(kvt_cache *c, seq *s, int first, int n) {
    for (int i = n; i-- > first;)
        if (s->table[i] != POOL_NONE) block_drop(c, s->table[i]);
}

/* Is what came the block with these tokens? A key says so of one that is known, which is full, though the sequence may
 * have the first of its tokens only. */
static bool is_expected(const kvt_cache *c, const seq *s, int i, const record *r) {
    const prefix *p = &c->prefix;
    bool own = is_private(c, s, i);
    int n_tokens = own ? tokens_in(c, s, i) : c->layout.block_tokens;
    if ((int)r->n_tokens != n_tokens || (int)r->index != i) return false;
    if (own) return r->kind == RECORD_PRIVATE;
    block_key key = key_next(p->secret, i ? &p->path[i - 1] : &p->root, r->tokens, (int)r->n_tokens);
    return r->kind == RECORD_BLOCK && key_is(&key, &p->path[i]);
}

static kvt_status get_block(kvt_cache *c, seq *s, int i, kvt_tier *tier) {
    record r;
    bool hot = hot_is_due(c, i, s->length);
    int block = s->table[i] = pool_take(&c->pool);
    if (hot) hot_take(c, block);
    move_pieces(c, block, hot, c->swap.pieces + 1);
    TRY(get(c, tier, &c->prefix.path[i], c->n_layers + 1, &r));
    if (!is_expected(c, s, i, &r)) return KVT_E_CORRUPT;
    memcpy(pool_tokens(&c->pool, block), r.tokens, r.n_tokens * sizeof r.tokens[0]);
    c->pool.written[block] = c->layout.block_tokens; /* what lies behind its tokens came with it */
    int parent = i ? s->table[i - 1] : POOL_NONE;
    if (is_private(c, s, i) || (i && !prefix_knows(&c->prefix, parent))) return KVT_OK;
    if (prefix_add(c, block, parent, &c->prefix.path[i], PREFIX_PROVEN)) prefix_read(c, block, &s->search.reader);
    return KVT_OK;
}

/* A record that is not there, or not what it should be, is lost. One that cannot be read now may be read later. */
static bool is_lost(kvt_status status) {
    return status != KVT_OK && status != KVT_E_IO && status != KVT_E_MEMORY;
}

/* The sequence has n blocks of those it had. */
static kvt_status end_before(kvt_cache *c, seq *s, int n) {
    s->n_blocks = n;
    s->length = n * c->layout.block_tokens;
    return KVT_MISS;
}

/* Blocks of the sequence from the first that is missing on. */
static kvt_status get_blocks(kvt_cache *c, seq *s, int n, kvt_tier *tier) {
    for (int i = 0; i < n; i++) {
        kvt_status status = s->table[i] == POOL_NONE ? get_block(c, s, i, tier) : KVT_OK;
        if (status == KVT_OK) continue;
        release(c, s, is_lost(status) ? i : 0, n);
        return is_lost(status) ? end_before(c, s, i) : KVT_E_IO;
    }
    s->n_blocks = n;
    return KVT_OK;
}

static kvt_status get_all(kvt_cache *c, seq *s) {
    int n = seq_blocks_of(c, s->length), n_hot;
    kvt_tier *tier = c->spill.tier[s->away - 1];
    block_key list = private_key(c, s, LIST);
    record r;
    c->swap.pieces[1] = (kvt_piece){c->prefix.path, (size_t)n * sizeof *c->prefix.path};
    kvt_status status = get(c, tier, &list, 2, &r);
    if (is_lost(status)) return end_before(c, s, 0);
    if (status != KVT_OK) return KVT_E_IO;
    int n_missing = hold_residents(c, s, n, &n_hot);
    if (room_make(c, n_missing, n_hot)) return get_blocks(c, s, n, tier);
    release(c, s, 0, n);
    c->counts.n_full++;
    return KVT_FULL;
}

static kvt_status swap_in(kvt_cache *c, kvt_seq handle) {
    if (c->step.open)
        return log_fail(&c->log, KVT_E_STATE, "kvt_seq_swap_in: a step is open, commit or abort it first");
    seq *s = seq_of(c, handle);
    if (!s)
        return log_fail(&c->log, KVT_E_SEQUENCE, "kvt_seq_swap_in: no sequence has the handle %#llx",
                        (unsigned long long)handle);
    if (!s->away) return log_fail(&c->log, KVT_E_STATE, "kvt_seq_swap_in: the sequence was not swapped out");
    int tier = s->away - 1, n_blocks = seq_blocks_of(c, s->length);
    spill_drain(c);
    kvt_status status = get_all(c, s);
    if (status == KVT_E_IO) return log_fail(&c->log, status, "kvt_seq_swap_in: the tier could not be read");
    if (status == KVT_FULL) return status;
    s->away = 0;
    swap_drop(c, s, tier, n_blocks);
    if (s->search.n_asked > s->length) s->search.n_asked = s->length;
    return status;
}

kvt_status kvt_seq_swap_in(kvt_cache *c, kvt_seq handle) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = swap_in(c, handle);
    step_leave(b);
    return status;
}
