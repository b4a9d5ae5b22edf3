/* stats.c - owns what an onlooker sees: the counters of kvt_stats_get. The proof of the records is check.c. */
#include "cache.h"

/* Slots without a token, of the blocks in use. */
typedef struct emptiness {
    size_t whole; /* in blocks that have none */
    size_t open;  /* behind the last token of a block */
} emptiness;

/* Slots behind each sequence's last token; in a shared block only if every table that names it ends there, and then
 * those behind the longest. */
static emptiness empty_slots(const kvt_cache *c) {
    const pool *p = &c->pool;
    int size = p->block_tokens;
    int32_t *n_ends = p->mark[0], *filled = p->mark[1];
    emptiness empty = {0};
    for (int i = 0; i < c->seqs.n_slots; i++) {
        const seq *s = &c->seqs.slot[i];
        if (!s->alive) continue;
        int rest = s->length % size, n = seq_blocks_of(c, s->length);
        empty.whole += (size_t)(s->n_blocks - n) * (size_t)size; /* of a step, or of a contiguous sequence */
        if (rest == 0) continue;
        int32_t tail = s->table[n - 1];
        n_ends[tail]++;
        if (filled[tail] < rest) filled[tail] = rest;
    }
    for (int i = 0; i < c->seqs.n_slots; i++) {
        const seq *s = &c->seqs.slot[i];
        if (!s->alive || s->length % size == 0) continue;
        int32_t tail = s->table[s->length / size];
        if (n_ends[tail] == p->refs[tail]) empty.open += (size_t)(size - filled[tail]);
        n_ends[tail] = filled[tail] = 0; /* counted; and clean for the next walk */
    }
    return empty;
}

/* Bytes of hot slots that hold a token: all but those behind an open block's last one, and those of blocks that the
 * open step has begun. */
static size_t hot_bytes_used(const kvt_cache *c, int n_slots, emptiness empty) {
    int n = n_slots;
    for (int i = 0; c->step.open && c->layout.sealing && i < c->step.n_writes; i++)
        n -= c->step.write[i].slot == 0 && !c->step.write[i].seals;
    return ((size_t)n * (size_t)c->layout.block_tokens - empty.open) *
           (c->layout.hot_block_bytes / (size_t)c->layout.block_tokens);
}

static size_t tokens_held(const kvt_cache *c) {
    size_t n = 0;
    for (int i = 0; i < c->seqs.n_slots; i++)
        if (c->seqs.slot[i].alive) n += (size_t)c->seqs.slot[i].length;
    return n;
}

kvt_status kvt_stats_get(const kvt_cache *c, kvt_stats *out) {
    if (!c || !out) return KVT_E_ARGUMENT;
    const pool *p = &c->pool;
    emptiness empty = empty_slots(c);
    int n_slots = c->hot.n_slots - c->hot.n_free; /* in use */
    size_t n_used = (size_t)(p->n_blocks - p->n_free);
    size_t stored = n_used * (size_t)p->block_tokens - empty.whole - empty.open;
    *out = (kvt_stats){
        .bytes_per_token = c->layout.bytes_per_token,
        .bits_per_element = c->layout.bits_per_element,
        .bytes_reserved = n_used * c->layout.bytes_per_block + (size_t)n_slots * c->layout.hot_block_bytes,
        .bytes_used = stored * c->layout.bytes_per_token + hot_bytes_used(c, n_slots, empty),
        .blocks_total = (size_t)p->n_blocks,
        .blocks_used = n_used,
        .blocks_free = (size_t)p->n_free,
        .blocks_shared = (size_t)p->n_shared,
        .blocks_used_most = (size_t)p->counts.used_most,
        .tokens_held = tokens_held(c),
        .tokens_stored = stored,
        .n_sequences = (size_t)c->seqs.n_alive,
        .blocks_taken = p->counts.taken,
        .blocks_given = p->counts.given,
        .blocks_copied = p->counts.copied,
        .n_commits = c->counts.n_commits,
        .n_aborts = c->counts.n_aborts,
        .n_full = c->counts.n_full,
        .tokens_committed = c->counts.tokens_committed,
    };
    return KVT_OK;
}
