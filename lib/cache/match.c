/* match.c - see match.h; owns kvt_match, kvt_pin and what they count. Leaves to prefix.c what is known, to spill.c what
 * tiers have. */
#include "match.h"

#include <limits.h>
#include <string.h>

#include "cache.h"

enum { PRIORITY_MAX = 100 };

/* One call. */
typedef struct look {
    kvt_cache *c;
    seq *s;
    const int32_t *tokens; /* [n] */
    int n;
    const kvt_match_options *opt;
    kvt_match_result *out;
    int n_path;        /* keys of the prefix that are made: prefix.path */
    bool part_fetched; /* the block that take_part finds came from a tier */
    kvt_miss tier_why; /* why a tier that has the next block was not asked */
} look;

static int size_of(const kvt_cache *c) {
    return c->layout.block_tokens;
}

/* The block before number i of a sequence, coming ones included. */
static int before(const seq *s, int i) {
    return i > 0 ? s->table[i - 1] : POOL_NONE;
}

/* ------------------------------------------------------------------------------------------------- counting */

/* Tokens that were counted as missed and are neither found nor computed yet. */
static int outstanding(const seq *s) {
    return s->search.n_asked > s->length ? s->search.n_asked - s->length : 0;
}

/* n tokens more, from s->length on, are found. */
static void count_found(look *l, int n, bool fetched) {
    prefix_counts *counts = &l->c->prefix.counts;
    int again = outstanding(l->s);
    counts->missed[l->s->search.missed] -= (uint64_t)(n < again ? n : again);
    *(fetched ? &counts->fetched : &counts->found) += (uint64_t)n;
    if (l->opt->resumed) counts->resumed += (uint64_t)n;
    l->out->n_found += n;
    if (fetched) l->out->n_fetched += n;
    l->s->length += n;
}

/* All from s->length to n is missed for one reason. */
static void count_missed(kvt_cache *c, seq *s, int n, kvt_miss reason) {
    uint64_t *missed = c->prefix.counts.missed;
    missed[s->search.missed] -= (uint64_t)outstanding(s);
    missed[reason] += (uint64_t)(n - s->length);
    s->search.missed = reason;
    s->search.n_asked = n;
}

/* --------------------------------------------------------------------------------------------------- keys */

/* Key of the block at index i, which is at most the number of those that are made. */
static const block_key *path_key(look *l, int i) {
    prefix *p = &l->c->prefix;
    for (; l->n_path <= i; l->n_path++) {
        const block_key *parent = l->n_path ? &p->path[l->n_path - 1] : &p->root;
        p->path[l->n_path] = key_next(p->secret, parent, l->tokens + (size_t)l->n_path * (size_t)size_of(l->c),
                                      size_of(l->c));
    }
    return &p->path[i];
}

/* Keys of what the sequence has are with its blocks. */
static void path_open(look *l) {
    prefix *p = &l->c->prefix;
    int n = l->s->n_blocks + l->s->search.n_coming;
    for (l->n_path = 0; l->n_path < n && prefix_knows(p, l->s->table[l->n_path]); l->n_path++)
        p->path[l->n_path] = p->key[l->s->table[l->n_path]];
}

/* ---------------------------------------------------------------------------------------------- the request */

/* The sequence as a reader: how much of the prompt is known, and since when, says how likely it comes back. */
static void begin_reading(look *l) {
    kvt_cache *c = l->c;
    prefix *p = &c->prefix;
    seq_search *search = &l->s->search;
    if (!search->reading) {
        int n_full = l->n / size_of(c), n_all = seq_blocks_of(c, l->n), n_known = 0, last = INDEX_NONE;
        for (; n_known < n_full; n_known++) {
            int entry = prefix_entry(c, path_key(l, n_known));
            if (entry == INDEX_NONE) break;
            last = entry;
        }
        uint64_t gap = n_known > 1 ? p->evict.now + 1 - p->index.entry[last].last : 0;
        search->reader = evict_begin(&p->evict, n_all - n_known, gap);
        search->reading = true;
    }
    search->reader.priority = l->opt->priority;
    search->ttl_ns = l->opt->ttl_ns;
    search->reader.expires_ns = cache_end_of(c, search->ttl_ns);
}

/* ------------------------------------------------------------------------------------------- taking blocks */

static bool is_coming(const kvt_cache *c, int block) {
    return c->prefix.state[block] & PREFIX_COMING;
}

/* One more known block at the end of the sequence, or behind those that it waits for. */
static void take(look *l, int block) {
    kvt_cache *c = l->c;
    seq *s = l->s;
    pool_share(&c->pool, block);
    c->prefix.state[block] |= PREFIX_PROVEN;
    prefix_read(c, block, &s->search.reader);
    s->table[s->n_blocks + s->search.n_coming] = block;
    if (s->search.n_coming > 0 || is_coming(c, block)) {
        s->search.n_coming++;
        return;
    }
    s->n_blocks++;
    count_found(l, size_of(c), false);
}

/* Blocks that may be taken whole: the last token has to be computed. */
static int whole_blocks(const look *l) {
    return (l->n - 1) / size_of(l->c);
}

/* A block in codes cannot be gone on with: it is taken whole or not at all. */
static bool in_part(const look *l, int i) {
    return !l->c->layout.sealing || i < l->c->layout.n_first;
}

/* What an earlier call waits for is waited for as far as this one asks for the same. */
static void wait_for_wanted(look *l) {
    const seq *s = l->s;
    size_t size = (size_t)size_of(l->c), bytes = size * sizeof *l->tokens;
    int n = 0;
    for (; n < s->search.n_coming; n++) {
        int i = s->n_blocks + n;
        if ((size_t)(i + 1) * size > (size_t)l->n) break;
        if (memcmp(pool_tokens(&l->c->pool, s->table[i]), l->tokens + (size_t)i * size, bytes) != 0) break;
    }
    match_abandon(l->c, l->s, n);
}

/* Those that were waited for and have come. One that is the end of the prompt is not taken whole: take_part finds it
 * among what is known. */
static void take_arrived(look *l) {
    seq *s = l->s;
    while (s->search.n_coming > 0 && !is_coming(l->c, s->table[s->n_blocks])) {
        s->search.n_coming--;
        if (s->n_blocks == whole_blocks(l)) {
            l->part_fetched = true;
            block_drop(l->c, s->table[s->n_blocks]);
            continue;
        }
        s->n_blocks++;
        count_found(l, size_of(l->c), true);
    }
}

/* A block for bytes from a tier, known as coming from here on; false: no room, or no move is free. */
static bool fetch(look *l, int i, int tier) {
    kvt_cache *c = l->c;
    seq *s = l->s;
    bool hot = c->layout.sealing && i < c->layout.n_first;
    if (!room_make(c, 1, hot)) return false;
    if (i != s->n_blocks + s->search.n_coming) return false; /* one before it has failed meanwhile */
    int block = pool_take(&c->pool);
    size_t n = (size_t)size_of(c);
    memcpy(pool_tokens(&c->pool, block), l->tokens + (size_t)i * n, n * sizeof *l->tokens);
    c->pool.written[block] = size_of(c);
    if (hot) hot_take(c, block);
    bool known = prefix_add(c, block, before(s, i), path_key(l, i), PREFIX_COMING);
    if (known) prefix_read(c, block, &s->search.reader);
    if (known && spill_get(c, block, tier)) {
        s->table[s->n_blocks + s->search.n_coming++] = block;
        return true;
    }
    if (known) block_forget(c, block);
    block_drop(c, block);
    return false;
}

/* Whole blocks: those that are here, then those that a tier has; of these also the last one of a prompt that fills it,
 * which is taken in part. */
static void take_blocks(look *l) {
    kvt_cache *c = l->c;
    seq *s = l->s;
    int most = whole_blocks(l), ends = l->n % size_of(c) == 0 && in_part(l, most);
    for (int i = s->n_blocks + s->search.n_coming; i < most + ends; i++) {
        const block_key *key = path_key(l, i);
        int block = prefix_find(c, before(s, i), key, l->tokens + (size_t)i * (size_t)size_of(c));
        if (block != POOL_NONE && i == most && !is_coming(c, block)) return;
        if (block != POOL_NONE) {
            take(l, block);
            continue;
        }
        if (l->opt->memory_only || i == s->search.end) return;
        int tier = spill_find(c, key, &l->tier_why);
        if (tier == MOVE_NONE || !fetch(l, i, tier)) return;
    }
}

/* The beginning of a block that goes on with other tokens, or that is not wanted to its end. What is in codes cannot be
 * taken in part. The block is shared as it is: whoever writes into it gets a copy. */
static void take_part(look *l) {
    kvt_cache *c = l->c;
    seq *s = l->s;
    int i = s->n_blocks, rest = l->n - 1 - s->length, n_same;
    if (rest < 1 || !in_part(l, i)) return;
    int block = prefix_find_part(c, before(s, i), l->tokens + s->length, rest, &n_same);
    if (block == POOL_NONE) return;
    pool_share(&c->pool, block);
    c->prefix.state[block] |= PREFIX_PROVEN;
    prefix_read(c, block, &s->search.reader);
    s->table[s->n_blocks++] = block;
    count_found(l, n_same, l->part_fetched);
    l->out->n_partial = n_same;
}

/* ------------------------------------------------------------------------------------------------- reasons */

/* Is the first block in a tier, under what another cache would look for? */
static kvt_miss other_of(const look *l) {
    const kvt_cache *c = l->c;
    kvt_miss reason = KVT_MISS_NONE;
    for (int i = 0; i < c->spill.n_others && !l->opt->memory_only; i++) {
        const spill_other *o = &c->spill.other[i];
        if (o->block_tokens > l->n) continue;
        block_key key = key_next(c->prefix.secret, &o->root, l->tokens, o->block_tokens);
        if (!spill_has(c, &o->root, &key)) continue;
        if (o->same_model) return KVT_MISS_OTHER_FORMAT;
        reason = KVT_MISS_OTHER_MODEL;
    }
    return reason;
}

static kvt_miss reason_of(look *l) {
    const kvt_cache *c = l->c;
    const seq *s = l->s;
    int i = s->length / size_of(c), part = s->length % size_of(c);
    if (s->length == l->n - 1) return KVT_MISS_NONE;
    if (l->n - 1 - i * size_of(c) < size_of(c)) return KVT_MISS_SHORT;
    if (i == s->search.end) return s->search.end_why;
    if (l->tier_why != KVT_MISS_NONE) return l->tier_why;
    if (i > 0 && !prefix_knows(&c->prefix, before(s, i))) return KVT_MISS_COLD; /* its own tokens are not known */
    if (prefix_was_here(c, path_key(l, i))) return KVT_MISS_EVICTED;
    kvt_miss other = i == 0 ? other_of(l) : KVT_MISS_NONE;
    if (other != KVT_MISS_NONE) return other;
    return part > 0 || (i > 0 && prefix_goes_on(&c->prefix, before(s, i))) ? KVT_MISS_DIFFERS : KVT_MISS_COLD;
}

/* ------------------------------------------------------------------------------------------------ the call */

/* The tokens that the sequence has are the beginning of those asked for, and not all of them. */
static bool begins_so(const kvt_cache *c, const seq *s, const int32_t *tokens, int n) {
    size_t size = (size_t)size_of(c), length = (size_t)s->length;
    if (s->length >= n) return false;
    for (size_t at = 0; at < length; at += size) {
        size_t part = length - at < size ? length - at : size;
        if (memcmp(pool_tokens(&c->pool, s->table[at / size]), tokens + at, part * sizeof *tokens) != 0) return false;
    }
    return true;
}

static void look_for(look *l) {
    kvt_cache *c = l->c;
    seq *s = l->s;
    spill_drain(c);
    room_expire(c);
    wait_for_wanted(l);
    path_open(l);
    begin_reading(l);
    take_arrived(l);
    bool known = s->n_blocks == 0 || prefix_knows(&c->prefix, before(s, s->n_blocks));
    if (!known || s->length % size_of(c) != 0) return;
    take_blocks(l);
    if (s->search.n_coming == 0) take_part(l);
}

static void match(look *l) {
    seq *s = l->s;
    bool on = l->c->prefix.on;
    if (on) look_for(l);
    s->search.n_wanted = l->n;
    l->out->n_tokens = s->length;
    l->out->n_coming = s->search.n_coming * size_of(l->c);
    if (s->search.n_coming > 0) return;
    l->out->reason = on ? reason_of(l) : KVT_MISS_DISABLED;
    count_missed(l->c, s, l->n, l->out->reason);
}

static kvt_status match_checked(kvt_cache *c, kvt_seq handle, const int32_t *tokens, int n,
                                const kvt_match_options *opt, kvt_match_result *out) {
    seq *s;
    TRY(seq_idle(c, handle, "kvt_match", &s));
    if (n < 1 || n > c->tokens_max)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_match: n_tokens is %d, allowed are 1 .. %d", n, c->tokens_max);
    if (opt->priority < -PRIORITY_MAX || opt->priority > PRIORITY_MAX)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_match: priority is %d, allowed are %d .. %d", opt->priority,
                        -PRIORITY_MAX, PRIORITY_MAX);
    if (!begins_so(c, s, tokens, n))
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_match: the %d tokens that the sequence has do not begin the %d "
                        "asked for", s->length, n);
    match(&(look){.c = c, .s = s, .tokens = tokens, .n = n, .opt = opt, .out = out});
    return KVT_OK;
}

kvt_status kvt_match(kvt_cache *c, kvt_seq handle, const int32_t *tokens, int n, const kvt_match_options *opt,
                     kvt_match_result *out) {
    static const kvt_match_options plain;
    if (!c || !tokens || !out) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    *out = (kvt_match_result){0};
    kvt_status status = match_checked(c, handle, tokens, n, opt ? opt : &plain, out);
    step_leave(b);
    return status;
}

/* ---------------------------------------------------------------------------------------------- afterwards */

/* The same block is here already: one of the two is enough. */
static void merge(kvt_cache *c, seq *s, int i, int block) {
    int own = s->table[i];
    pool_share(&c->pool, block);
    c->prefix.state[block] |= PREFIX_PROVEN;
    s->table[i] = block;
    block_drop(c, own);
    c->prefix.counts.merged++;
}

/* False: it cannot be found, and so nothing behind it. */
static bool commit_block(kvt_cache *c, seq *s, int i) {
    int block = s->table[i], parent = before(s, i);
    const int32_t *tokens = pool_tokens(&c->pool, block);
    if (parent != POOL_NONE && !prefix_knows(&c->prefix, parent)) return false;
    for (int t = 0; t < size_of(c); t++)
        if (tokens[t] < 0) return false; /* the caller has not said what it was */
    block_key key = prefix_key(c, parent, tokens);
    int same = prefix_find(c, parent, &key, tokens);
    if (same != POOL_NONE && is_coming(c, same)) return false;
    if (same != POOL_NONE) merge(c, s, i, same);
    else if (!prefix_add(c, block, parent, &key, 0)) return false;
    prefix_read(c, s->table[i], &s->search.reader);
    if (same == POOL_NONE && i >= s->search.bad) spill_put_anew(c, block);
    else if (same == POOL_NONE && c->spill.write == KVT_WRITE_THROUGH) spill_put(c, block);
    return true;
}

void match_commit(kvt_cache *c, seq *s, int first, int last) {
    if (!c->prefix.on || first == last) return;
    if (!s->search.reading) {
        s->search.reader = evict_begin(&c->prefix.evict, last - first, 0);
        s->search.reading = true;
    }
    for (int i = first; i < last; i++)
        if (!commit_block(c, s, i)) return;
}

void match_abandon(kvt_cache *c, seq *s, int n) {
    while (s->search.n_coming > n) {
        int block = s->table[s->n_blocks + --s->search.n_coming];
        block_drop(c, block);
        if (c->pool.refs[block] == 0 && is_coming(c, block)) spill_give_up(c, block);
    }
}

void match_go_on(kvt_cache *c, seq *s) {
    if (s->search.n_coming == 0) return;
    count_missed(c, s, s->search.n_wanted, KVT_MISS_TIER_SLOW);
    match_abandon(c, s, 0);
}

static void stop_waiting(kvt_cache *c, seq *s, int block, kvt_miss reason) {
    for (int n = 0; n < s->search.n_coming; n++) {
        if (s->table[s->n_blocks + n] != block) continue;
        s->search.end = s->n_blocks + n;
        s->search.end_why = reason;
        if (reason == KVT_MISS_TIER_BAD && s->search.bad > s->search.end) s->search.bad = s->search.end;
        match_abandon(c, s, n);
        return;
    }
}

void match_failed(kvt_cache *c, int block, kvt_miss reason) {
    for (int i = 0; i < c->seqs.n_slots; i++)
        if (c->seqs.slot[i].alive) stop_waiting(c, &c->seqs.slot[i], block, reason);
    if (prefix_knows(&c->prefix, block)) block_forget(c, block);
}
