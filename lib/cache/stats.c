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
        if (!s->alive || s->away) continue;
        int rest = s->length % size, n = seq_blocks_of(c, s->length);
        empty.whole += (size_t)(s->n_blocks - n) * (size_t)size; /* of a step, or of a contiguous sequence */
        if (rest == 0) continue;
        int32_t tail = s->table[n - 1];
        n_ends[tail]++;
        if (filled[tail] < rest) filled[tail] = rest;
    }
    for (int i = 0; i < c->seqs.n_slots; i++) {
        const seq *s = &c->seqs.slot[i];
        if (!s->alive || s->away || s->length % size == 0) continue;
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

/* Hot slots of first blocks that nobody uses. */
static int idle_slots(const kvt_cache *c) {
    int n = 0;
    for (int b = 0; c->layout.sealing && c->pool.n_idle > 0 && b < c->pool.n_blocks; b++)
        n += !pool_in_use(&c->pool, b) && c->hot.of[b] != HOT_NONE;
    return n;
}

static size_t tokens_held(const kvt_cache *c) {
    size_t n = 0;
    for (int i = 0; i < c->seqs.n_slots; i++)
        if (c->seqs.slot[i].alive && !c->seqs.slot[i].away) n += (size_t)c->seqs.slot[i].length;
    return n;
}

static void stats_prefix(const kvt_cache *c, kvt_stats *out) {
    const prefix_counts *n = &c->prefix.counts;
    out->tokens_found = n->found;
    out->tokens_fetched = n->fetched;
    out->tokens_resumed = n->resumed;
    out->tokens_asked = n->found + n->fetched;
    for (int i = 0; i < KVT_N_MISSES; i++) {
        out->tokens_missed[i] = n->missed[i];
        out->tokens_asked += n->missed[i];
    }
    out->blocks_evicted = n->evicted;
    out->blocks_expired = n->expired;
    out->blocks_merged = n->merged;
}

static void stats_moves(const kvt_cache *c, kvt_stats *out) {
    const spill_counts *n = &c->spill.counts;
    out->n_puts = n->n_puts;
    out->n_gets = n->n_gets;
    out->bytes_put = n->bytes_put;
    out->bytes_got = n->bytes_got;
    out->n_puts_failed = n->n_puts_failed;
    out->n_gets_failed = n->n_gets_failed;
    out->n_puts_skipped = n->n_puts_skipped + (c->spill.n_tiers ? c->prefix.counts.unwritten : 0);
    out->moves_open = (size_t)move_n_open(c);
}

kvt_status kvt_stats_get(const kvt_cache *c, kvt_stats *out) {
    if (!c || !out) return KVT_E_ARGUMENT;
    const pool *p = &c->pool;
    emptiness empty = empty_slots(c);
    int n_slots = c->hot.n_slots - c->hot.n_free - idle_slots(c); /* in use */
    size_t n_used = (size_t)pool_n_used(p);
    size_t n_coming = (size_t)c->prefix.n_coming;
    size_t stored = (n_used - n_coming) * (size_t)p->block_tokens - empty.whole - empty.open;
    *out = (kvt_stats){
        .bytes_per_token = c->layout.bytes_per_token,
        .bits_per_element = c->layout.bits_per_element,
        .bytes_reserved = n_used * c->layout.bytes_per_block + (size_t)n_slots * c->layout.hot_block_bytes,
        .bytes_used = stored * c->layout.bytes_per_token + hot_bytes_used(c, n_slots, empty),
        .blocks_total = (size_t)p->n_blocks,
        .blocks_used = n_used,
        .blocks_free = (size_t)(p->n_free + p->n_idle),
        .blocks_idle = (size_t)p->n_idle,
        .blocks_pinned = (size_t)c->prefix.n_pinned,
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
    stats_prefix(c, out);
    stats_moves(c, out);
    return KVT_OK;
}
