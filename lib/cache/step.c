/* step.c - owns the protocol of a step: reserve, commit, abort. The only place where sequences grow and where a shared
 * block is copied. Leaves keys, values and attention to attend.c and encode.c.
 *
 * kvt_reserve takes blocks entry by entry and takes everything back when one cannot be had; only then are bytes
 * copied. The tables already hold the step's blocks while it is open, the lengths change with kvt_commit. */
#include "step.h"

#include <assert.h>
#include <string.h>

#include "cache.h"

void step_carve(step *s, carve *a, const layout *l, int n_layers, int batch_tokens_max) {
    size_t n = (size_t)l->n_entries;
    s->entry = carve_take(a, n, sizeof *s->entry);
    s->by_length = carve_take(a, n, sizeof *s->by_length);
    s->by_cost = carve_take(a, n, sizeof *s->by_cost);
    s->by_prefix = carve_take(a, n, sizeof *s->by_prefix);
    s->place = carve_take(a, n, sizeof *s->place);
    s->prefix = carve_take(a, n, sizeof *s->prefix);
    s->from = carve_take(a, n, sizeof *s->from);
    s->to = carve_take(a, n, sizeof *s->to);
    s->write = carve_take(a, (size_t)batch_tokens_max, sizeof *s->write); /* each gets at least one row */
    s->stored = carve_take(a, (size_t)n_layers, sizeof *s->stored);
}

/* ------------------------------------------------------------------------------------------- the batch */

static kvt_status entry_read(kvt_cache *c, const kvt_batch *batch, int i) {
    int n_new = batch->n_new[i];
    seq *s = seq_of(c, batch->seqs[i]);
    if (!s)
        return log_fail(&c->log, KVT_E_SEQUENCE, "kvt_reserve: seqs[%d]: no sequence has the handle %#llx", i,
                        (unsigned long long)batch->seqs[i]);
    if (s->away) return log_fail(&c->log, KVT_E_STATE, "kvt_reserve: seqs[%d] was swapped out", i);
    if (s->step == c->step.number)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_reserve: seqs[%d] is in the batch twice", i);
    if (n_new < 1) return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_reserve: n_new[%d] is %d", i, n_new);
    if (n_new > c->tokens_max - s->length)
        return log_fail(&c->log, KVT_E_LIMIT, "kvt_reserve: seqs[%d] has %d tokens, %d more pass tokens_max, %d", i,
                        s->length, n_new, c->tokens_max);
    if (n_new > c->batch_tokens_max - c->step.n_rows)
        return log_fail(&c->log, KVT_E_LIMIT, "kvt_reserve: the batch has more rows than batch_tokens_max, %d",
                        c->batch_tokens_max);
    /* Rows and sequences are different and counted, so a batch that is too long has failed before this. */
    assert(i < c->layout.n_entries);
    s->step = c->step.number;
    c->step.entry[i] = (step_entry){batch->seqs[i], s, s->length, n_new, c->step.n_rows, s->n_blocks, POOL_NONE};
    c->step.n_rows += n_new;
    return KVT_OK;
}

static kvt_status batch_read(kvt_cache *c, const kvt_batch *batch) {
    if (!batch || batch->n_seqs < 1 || !batch->seqs || !batch->n_new)
        return log_fail(&c->log, KVT_E_ARGUMENT, "kvt_reserve: the batch is empty");
    c->step.number++;
    c->step.n_entries = batch->n_seqs;
    c->step.n_rows = 0;
    for (int i = 0; i < batch->n_seqs; i++) TRY(entry_read(c, batch, i));
    return KVT_OK;
}

kvt_status step_check(const kvt_cache *c, const kvt_batch *batch, const char *call) {
    const step *s = &c->step;
    if (!s->open) return log_fail(&c->log, KVT_E_STATE, "%s: no step is open, kvt_reserve comes first", call);
    bool same = batch && batch->seqs && batch->n_new && batch->n_seqs == s->n_entries;
    for (int i = 0; same && i < s->n_entries; i++)
        same = batch->seqs[i] == s->entry[i].handle && batch->n_new[i] == s->entry[i].n_new;
    return same ? KVT_OK : log_fail(&c->log, KVT_E_ARGUMENT, "%s: not the batch that was reserved", call);
}

/* --------------------------------------------------------------------------------------------- the order */

/* Below 0: entry a comes behind entry b; above 0: before it. */
typedef int64_t (*order_fn)(const step *s, int a, int b);

/* Restore a tree with the last in order on top, where `at` may be out of place. */
static void sift(const step *s, order_fn order, int32_t *tree, int at, int n) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && order(s, tree[child + 1], tree[child]) < 0) child++;
        if (order(s, tree[at], tree[child]) <= 0) return;
        int32_t up = tree[child];
        tree[child] = tree[at];
        tree[at] = up;
    }
}

/* Heap sort: the C library's qsort may allocate. */
static void sort(const step *s, order_fn order, int32_t *out) {
    int n = s->n_entries;
    for (int i = 0; i < n; i++) out[i] = i;
    for (int i = n / 2; i-- > 0;) sift(s, order, out, i, n);
    for (int last = n - 1; last > 0; last--) {
        int32_t top = out[0];
        out[0] = out[last];
        out[last] = top;
        sift(s, order, out, 0, last);
    }
}

static int64_t by_length(const step *s, int a, int b) {
    return (int64_t)s->entry[a].length - s->entry[b].length;
}

/* New tokens times tokens, of which a piece of attention takes so many at most. */
static int64_t cost_of(const step_entry *e) {
    int rows = e->n_new < LAYER_ROWS_MAX ? e->n_new : LAYER_ROWS_MAX;
    return (int64_t)rows * (e->length + e->n_new);
}

static int64_t by_cost(const step *s, int a, int b) {
    return cost_of(&s->entry[a]) - cost_of(&s->entry[b]);
}

/* Blocks from the first on that both tables name; of what the entries have committed. */
static int blocks_shared(const step_entry *a, const step_entry *b) {
    int n = a->n_blocks < b->n_blocks ? a->n_blocks : b->n_blocks, i = 0;
    while (i < n && a->seq->table[i] == b->seq->table[i]) i++;
    return i;
}

/* As words in a dictionary, blocks being the letters. */
static int64_t by_prefix(const step *s, int a, int b) {
    const step_entry *x = &s->entry[a], *y = &s->entry[b];
    int i = blocks_shared(x, y);
    if (i == x->n_blocks || i == y->n_blocks) return (int64_t)x->n_blocks - y->n_blocks;
    return (int64_t)x->seq->table[i] - y->seq->table[i];
}

static void sort_by_prefix(const kvt_cache *c, step *s) {
    sort(s, by_prefix, s->by_prefix);
    for (int i = 0; i < s->n_entries; i++) {
        s->place[s->by_prefix[i]] = i;
        s->prefix[i] = 0;
        if (i == 0) continue;
        const step_entry *a = &s->entry[s->by_prefix[i - 1]], *b = &s->entry[s->by_prefix[i]];
        int n_tokens = blocks_shared(a, b) * c->layout.block_tokens;
        int shorter = a->length < b->length ? a->length : b->length;
        s->prefix[i] = n_tokens < shorter ? n_tokens : shorter;
    }
}

/* ------------------------------------------------------------------------------------- blocks of a step */

/* The block that the sequence's next token goes into, where it has tokens already. */
static int32_t *tail_of(const kvt_cache *c, const step_entry *e) {
    return &e->seq->table[e->length / c->layout.block_tokens];
}

/* Somebody else reads the last block, or may come to. */
static bool tail_is_shared(const kvt_cache *c, const step_entry *e) {
    if (e->length % c->layout.block_tokens == 0) return false;
    int tail = *tail_of(c, e);
    return pool_holders(&c->pool, tail) > 1 || prefix_knows(&c->prefix, tail);
}

/* Where blocks are short, a last one that only this sequence holds is not copied for those who may come. */
static void tail_own(kvt_cache *c, const step_entry *e) {
    int tail = *tail_of(c, e);
    if (pool_holders(&c->pool, tail) > 1 || prefix_goes_on(&c->prefix, tail)) return;
    if (prefix_is_pinned(&c->prefix, tail)) return;
    block_forget(c, tail);
}

static bool entry_grow(kvt_cache *c, step_entry *e, bool short_of_blocks) {
    int n = seq_blocks_of(c, e->length + e->n_new);
    int32_t *tail = tail_of(c, e);
    if (short_of_blocks && tail_is_shared(c, e)) tail_own(c, e);
    if (tail_is_shared(c, e)) {
        int copy = pool_take(&c->pool);
        if (copy == POOL_NONE) return false;
        e->tail = *tail;
        *tail = copy;
        block_drop(c, e->tail);
    }
    while (e->seq->n_blocks < n)
        if (!seq_grow(c, e->seq)) return false;
    return true;
}

static void entry_undo(kvt_cache *c, const step_entry *e) {
    seq_shrink(c, e->seq, e->n_blocks);
    if (e->tail == POOL_NONE) return;
    block_drop(c, *tail_of(c, e));
    *tail_of(c, e) = e->tail;
    pool_share(&c->pool, e->tail);
    if (prefix_knows(&c->prefix, e->tail)) prefix_read(c, e->tail, &e->seq->search.reader);
}

/* Entries at place first and behind, in the reverse order of their growth, so that the free list too is as it was. */
static void entries_undo(kvt_cache *c, int first) {
    for (int i = first; i < c->step.n_entries; i++) entry_undo(c, &c->step.entry[c->step.by_length[i]]);
}

/* Blocks, and hot slots, that an entry takes at most. */
static void entry_needs(const kvt_cache *c, const step_entry *e, int *n_blocks, int *n_slots) {
    int size = c->layout.block_tokens, end = e->length + e->n_new, copies = tail_is_shared(c, e);
    int first = e->n_blocks, last = seq_blocks_of(c, end);
    *n_blocks += last - first + copies;
    if (!c->layout.sealing) return;
    *n_slots += copies + (end % size != 0 && last > first);
    for (int i = first; i < last && i < c->layout.n_first; i++) *n_slots += 1;
}

/* What nobody uses leaves for the step. False: that may not be enough. */
static bool make_room(kvt_cache *c) {
    int n_blocks = 0, n_slots = 0;
    for (int i = 0; i < c->step.n_entries; i++) entry_needs(c, &c->step.entry[i], &n_blocks, &n_slots);
    return room_make(c, n_blocks, n_slots);
}

/* The shortest first: the last of those that share a block writes into it, and so the longest, behind the tokens of all
 * others. Should the step be aborted, they find them there. */
static bool entries_grow(kvt_cache *c) {
    bool short_of_blocks = !make_room(c);
    pool_counts counts = c->pool.counts;
    for (int i = c->step.n_entries; i-- > 0;) {
        if (entry_grow(c, &c->step.entry[c->step.by_length[i]], short_of_blocks)) continue;
        entries_undo(c, i);
        c->pool.counts = counts;
        return false;
    }
    return true;
}

static void tails_copy(kvt_cache *c) {
    step *s = &c->step;
    int n = 0;
    for (int i = 0; i < s->n_entries; i++) {
        if (s->entry[i].tail == POOL_NONE) continue;
        s->from[n] = s->entry[i].tail;
        s->to[n++] = *tail_of(c, &s->entry[i]);
    }
    store_copy(c, (store_copies){s->from, s->to, n});
    c->pool.counts.copied += (uint64_t)n;
}

static void entry_writes(kvt_cache *c, const step_entry *e) {
    int size = c->layout.block_tokens;
    for (int done = 0, n; done < e->n_new; done += n) {
        int at = e->length + done, slot = at % size, block = e->seq->table[at / size];
        n = e->n_new - done < size - slot ? e->n_new - done : size - slot;
        int n_stale = slot ? c->pool.written[block] - (slot + n) : 0;
        bool seals = c->layout.sealing && slot + n == size && at / size >= c->layout.n_first;
        c->step.write[c->step.n_writes++] =
            (step_write){block, slot, n, e->row + done, n_stale > 0 ? n_stale : 0, seals};
    }
}

/* A place for each block that the step begins: a slot if it stays hot behind the step. */
static void hot_places_take(kvt_cache *c) {
    for (int i = 0; c->layout.sealing && i < c->step.n_writes; i++) {
        const step_write *w = &c->step.write[i];
        if (w->slot > 0) continue; /* the open block has had one since it was begun */
        if (w->seals) hot_stage(c, w->block);
        else hot_take(c, w->block);
    }
}

/* Those that the step has begun, or those that it has sealed, lose their places. */
static void hot_places_give(kvt_cache *c, bool begun) {
    for (int i = 0; c->layout.sealing && i < c->step.n_writes; i++) {
        const step_write *w = &c->step.write[i];
        if (begun ? w->slot == 0 : w->seals) hot_give(c, w->block);
    }
    hot_unstage(c);
}

/* ------------------------------------------------------------------------------------ the public calls */

static kvt_status reserve(kvt_cache *c, const kvt_batch *batch) {
    step *s = &c->step;
    if (s->open) return log_fail(&c->log, KVT_E_STATE, "kvt_reserve: a step is open, commit or abort it first");
    spill_drain(c);
    TRY(batch_read(c, batch));
    for (int i = 0; i < s->n_entries; i++) match_go_on(c, s->entry[i].seq);
    s->start_ns = c->spill.n_tiers ? cache_now(c) : 0;
    sort(s, by_length, s->by_length);
    if (!entries_grow(c)) {
        c->counts.n_full++;
        return KVT_FULL;
    }
    tails_copy(c);
    s->n_writes = 0;
    for (int i = 0; i < s->n_entries; i++) entry_writes(c, &s->entry[i]);
    hot_places_take(c);
    sort(s, by_cost, s->by_cost);
    sort_by_prefix(c, s);
    memset(s->stored, 0, (size_t)c->n_layers);
    s->n_stored = 0;
    s->stored_last = -1;
    s->open = true;
    return KVT_OK;
}

static kvt_status layers_check(const kvt_cache *c) {
    if (c->step.n_stored == c->n_layers) return KVT_OK;
    int missing = 0;
    while (c->step.stored[missing]) missing++;
    return log_fail(&c->log, KVT_E_STATE, "kvt_commit: layer %d has no keys and values yet", missing);
}

static kvt_status commit(kvt_cache *c, const kvt_batch *batch, const int32_t *tokens) {
    step *s = &c->step;
    TRY(step_check(c, batch, "kvt_commit"));
    TRY(layers_check(c));
    for (int i = 0; i < s->n_writes; i++) {
        const step_write *w = &s->write[i];
        int32_t *ids = pool_tokens(&c->pool, w->block) + w->slot;
        for (int t = 0; t < w->n; t++) ids[t] = tokens ? tokens[w->row + t] : -1;
        c->pool.written[w->block] = w->slot + w->n;
    }
    hot_places_give(c, false);
    for (int i = 0; i < s->n_entries; i++) {
        seq *of = s->entry[i].seq;
        int first = of->length / c->layout.block_tokens;
        of->length += s->entry[i].n_new;
        if (c->kind == KVT_NONE) seq_cut(c, of, 0);
        else match_commit(c, of, first, of->length / c->layout.block_tokens);
    }
    if (s->start_ns) spill_learn(c, s->n_rows, cache_now(c) - s->start_ns);
    c->counts.n_commits++;
    c->counts.tokens_committed += (uint64_t)s->n_rows;
    s->open = false;
    return KVT_OK;
}

static kvt_status step_abort(kvt_cache *c, const kvt_batch *batch) {
    step *s = &c->step;
    TRY(step_check(c, batch, "kvt_abort"));
    for (int i = 0; i < s->n_writes; i++) {
        const step_write *w = &s->write[i];
        int32_t *written = &c->pool.written[w->block];
        if (*written < w->slot + w->n) *written = w->slot + w->n;
    }
    hot_places_give(c, true);
    entries_undo(c, 0);
    c->counts.n_aborts++;
    s->open = false;
    return KVT_OK;
}

kvt_status kvt_reserve(kvt_cache *c, const kvt_batch *batch) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = reserve(c, batch);
    step_leave(b);
    return status;
}

kvt_status kvt_commit(kvt_cache *c, const kvt_batch *batch, const int32_t *tokens) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = commit(c, batch, tokens);
    step_leave(b);
    return status;
}

kvt_status kvt_abort(kvt_cache *c, const kvt_batch *batch) {
    if (!c) return KVT_E_ARGUMENT;
    step_bracket b = step_enter();
    kvt_status status = step_abort(c, batch);
    step_leave(b);
    return status;
}
