/* plan.c - owns how a layer's attention is cut into pieces, so that every thread has its share, long stretches of
 * memory are read at a time, and what several sequences share is read once. Leaves the work on a piece to attend.c.
 *
 * An entry's rows of a head are one piece if that is no more than a thread's share. Else, or where the entry shares a
 * segment with others, it is cut at its segments, if the buffer of results has room. Pieces of few rows take several
 * heads. No cut moves a bit. */
#include <assert.h>

#include "base/ints.h"
#include "attend.h"
#include "cache.h"

typedef struct planner {
    kvt_cache *c;
    const layer_shape *l;
    bool apart;
    int rows_most;     /* of a piece of one entry */
    int64_t n_ranges;  /* of so many rows of a head, all entries together */
    int64_t cost_most; /* of a piece that is not cut */
    int n_cut;         /* pieces that n_items_cut has been used for */
    int entry_last;    /* the last one that is cut, in the order of cost */
} planner;

static int rows_of(const layer_shape *l, const step_entry *e) {
    return e->n_new * l->group;
}

static int segments_of(const step_entry *e) {
    return int_ceil_div(e->length + e->n_new, ATTN_SEGMENT);
}

/* ------------------------------------------------------------------------------------------- sizes of pieces */

/* What rows of a head cost: groups of rows times tokens. */
static int64_t cost_of(const layer_shape *l, const step_entry *e, int row, int n_rows) {
    return (int64_t)int_ceil_div(n_rows, ATTN_ROWS) * (e->length + (row + n_rows - 1) / l->group + 1);
}

static int64_t total_cost(const planner *p) {
    const step *s = &p->c->step;
    int64_t cost = 0;
    for (int i = 0; i < s->n_entries; i++)
        cost += cost_of(p->l, &s->entry[i], 0, rows_of(p->l, &s->entry[i])) * p->l->n_heads_kv;
    return cost;
}

/* Ranges of up to rows_most rows of one head. */
static int64_t total_ranges(const planner *p, int rows_most) {
    const step *s = &p->c->step;
    int64_t n = 0;
    for (int i = 0; i < s->n_entries; i++) n += int_ceil_div(rows_of(p->l, &s->entry[i]), rows_most);
    return n;
}

/* As many rows as leave every thread a few pieces. */
static int rows_per_piece(const planner *p) {
    int rows = p->c->layout.item_rows, n_threads = p->c->layout.n_threads;
    if (n_threads == 1) return rows;
    while (rows > ATTN_ROWS && total_ranges(p, rows) * p->l->n_heads_kv < 4 * n_threads)
        rows = (rows / 2 + ATTN_ROWS - 1) / ATTN_ROWS * ATTN_ROWS;
    return rows;
}

/* Do all rows of the entry lie in one block? If not, they see different ones sealed, and go in several calls. */
static bool is_of_one_block(const planner *p, const step_entry *e) {
    int size = p->c->layout.block_tokens;
    return e->length / size == (e->length + e->n_new - 1) / size;
}

/* Heads that a piece can take, with all rows of the entry each. */
static int heads_possible(const planner *p, const step_entry *e) {
    int n_rows = rows_of(p->l, e);
    if (p->apart || n_rows > ATTN_ROWS || (p->c->layout.sealing && !is_of_one_block(p, e))) return 1;
    return int_least(p->l->n_heads_kv, ATTN_ROWS / n_rows);
}

/* Fewer where threads would have too few pieces. */
static int heads_per_piece(const planner *p, const step_entry *e) {
    int heads = heads_possible(p, e), n_threads = p->c->layout.n_threads;
    while (n_threads > 1 && heads > 1 && p->n_ranges * int_ceil_div(p->l->n_heads_kv, heads) < 4 * n_threads)
        heads = (heads + 1) / 2;
    return heads;
}

static void piece_add(planner *p, attend_item item) {
    attend *a = &p->c->attend;
    assert((size_t)a->n_items < p->c->layout.n_items);
    a->item[a->n_items++] = item;
}

/* --------------------------------------------------------------------------------------------- what is cut */

/* Could the entry's rows join those of others? */
static bool may_share(const planner *p, const step_entry *e) {
    return !p->apart && !p->c->read_apart && rows_of(p->l, e) <= ATTN_ROWS;
}

/* Whole segments that two neighbours by prefix share. */
static int segments_shared(const planner *p, int place) {
    const step *s = &p->c->step;
    if (place <= 0 || place >= s->n_entries) return 0;
    bool may = may_share(p, &s->entry[s->by_prefix[place]]) && may_share(p, &s->entry[s->by_prefix[place - 1]]);
    return may ? s->prefix[place] / ATTN_SEGMENT : 0;
}

static bool is_costly(const planner *p, const step_entry *e) {
    int n_rows = rows_of(p->l, e);
    return p->c->layout.n_threads > 1 && n_rows <= p->c->layout.item_rows && segments_of(e) > 1 &&
           cost_of(p->l, e, 0, int_least(n_rows, p->rows_most)) * heads_per_piece(p, e) > p->cost_most;
}

/* Make the entry's splits, if there is room. */
static void entry_cut(planner *p, int entry) {
    attend *a = &p->c->attend;
    const layout *room = &p->c->layout;
    const step_entry *e = &p->c->step.entry[entry];
    int n_rows = rows_of(p->l, e), n_segments = segments_of(e), n_heads = p->l->n_heads_kv;
    int n_pieces = n_segments * int_ceil_div(n_rows, p->rows_most);
    size_t need = (size_t)n_segments * partial_floats(p->l, n_rows);
    if ((size_t)(a->n_splits + n_heads) > room->n_splits ||
        (int64_t)n_pieces * n_heads > (int64_t)room->n_items_cut - p->n_cut ||
        need * (size_t)n_heads > room->partial_floats - a->partial_used)
        return;
    a->split_of[entry] = a->n_splits;
    for (int head = 0; head < n_heads; head++, a->partial_used += need) {
        attend_split *s = &a->split[a->n_splits++];
        atomic_store_explicit(&s->n_left, n_pieces, memory_order_relaxed);
        s->n_rows = n_rows;
        s->n_segments = n_segments;
        s->partial = a->partial + a->partial_used;
    }
    p->n_cut += n_pieces * n_heads;
}

/* Those that share come first, in the order they stand in, so that what finds room stands together. */
static void entries_cut(planner *p) {
    const step *s = &p->c->step;
    attend *a = &p->c->attend;
    for (int i = 0; i < s->n_entries; i++) {
        bool shares = segments_shared(p, i) > 0 || segments_shared(p, i + 1) > 0;
        a->split_of[s->by_prefix[i]] = ATTEND_WHOLE;
        if (shares) entry_cut(p, s->by_prefix[i]);
    }
    for (int i = 0; i < s->n_entries; i++) {
        int entry = s->by_cost[i];
        if (a->split_of[entry] < 0 && is_costly(p, &s->entry[entry])) entry_cut(p, entry);
        if (a->split_of[entry] >= 0) p->entry_last = entry;
    }
    for (int i = 0; i < s->n_entries; i++) {
        bool cut = i > 0 && a->split_of[s->by_prefix[i]] >= 0 && a->split_of[s->by_prefix[i - 1]] >= 0;
        a->shared[i] = cut ? segments_shared(p, i) : 0;
    }
}

/* ------------------------------------------------------------------------------------------------- pieces */

/* Rows of a piece over a segment that several entries share: all, unless threads would have too little to do. */
static int rows_per_shared_piece(const planner *p) {
    const step *s = &p->c->step;
    int rows = p->c->layout.item_rows, n_threads = p->c->layout.n_threads;
    int64_t n_segments = 0, n_rows = 0;
    for (int i = 0; i < s->n_entries; i++) {
        if (p->c->attend.shared[i] > n_segments) n_segments = p->c->attend.shared[i];
        if (p->c->attend.shared[i] > 0) n_rows += rows_of(p->l, &s->entry[s->by_prefix[i]]);
    }
    while (n_threads > 1 && rows > ATTN_ROWS && n_segments * p->l->n_heads_kv * (n_rows / rows + 1) < 3 * n_threads)
        rows = (rows / 2 + ATTN_ROWS - 1) / ATTN_ROWS * ATTN_ROWS;
    return rows;
}

/* Entries from `place` up to `end` that together have no more rows than a piece may. At least one. */
static int entries_that_fit(const planner *p, int place, int end, int rows_most) {
    const step *s = &p->c->step;
    int n = 0, rows = 0;
    for (; place + n < end; n++) {
        rows += rows_of(p->l, &s->entry[s->by_prefix[place + n]]);
        if (n > 0 && rows > rows_most) break;
    }
    return n;
}

/* One segment of the entries place .. end - 1, which share it. */
static void pieces_shared(planner *p, int place, int end, int segment, int rows_most) {
    for (int n; place < end; place += n) {
        n = entries_that_fit(p, place, end, rows_most);
        int n_rows = rows_of(p->l, &p->c->step.entry[p->c->step.by_prefix[place]]);
        for (int head = 0; head < p->l->n_heads_kv; head++)
            piece_add(p, (attend_item){.place = place, .n_entries = n, .head = head, .n_heads = 1, .n_rows = n_rows,
                                       .segment = segment});
    }
}

/* Runs of entries that share a segment, segment by segment. */
static void plan_shared(planner *p) {
    const int32_t *shared = p->c->attend.shared;
    int n = p->c->step.n_entries, rows_most = rows_per_shared_piece(p);
    bool more = true;
    for (int segment = 0; more; segment++) {
        more = false;
        for (int i = 1, end; i < n; i = end + 1) {
            for (end = i; end < n && shared[end] > segment;) end++;
            if (end > i) pieces_shared(p, i - 1, end, segment, rows_most);
            more = more || end > i;
        }
    }
}

/* Segments of an entry that it has for itself. The last pieces of the last entry that is cut are small, so that
 * threads end together. */
static void plan_cut(planner *p, int entry) {
    const step_entry *e = &p->c->step.entry[entry];
    const int32_t *shared = p->c->attend.shared;
    int place = p->c->step.place[entry], n_rows = rows_of(p->l, e), n = segments_of(e);
    int first = shared[place], n_threads = p->c->layout.n_threads;
    if (place + 1 < p->c->step.n_entries && shared[place + 1] > first) first = shared[place + 1];
    int n_small = entry == p->entry_last && n_threads > 1 ? n_threads + (n - first) % n_threads : 0;
    for (int segment = first; segment < n; segment++) {
        int heads = n - segment <= n_small ? 1 : heads_possible(p, e);
        for (int head = 0; head < p->l->n_heads_kv; head += heads)
            for (int row = 0; row < n_rows; row += p->rows_most)
                piece_add(p, (attend_item){.place = place, .n_entries = 1, .head = head,
                                           .n_heads = int_least(heads, p->l->n_heads_kv - head), .row = row,
                                           .n_rows = int_least(n_rows - row, p->rows_most), .segment = segment});
    }
}

/* Later rows see more, so they come first. */
static void plan_whole(planner *p, int entry) {
    const step_entry *e = &p->c->step.entry[entry];
    int place = p->c->step.place[entry], n_rows = rows_of(p->l, e), heads = heads_per_piece(p, e);
    for (int head = 0; head < p->l->n_heads_kv; head += heads)
        for (int row = (n_rows - 1) / p->rows_most * p->rows_most; row >= 0; row -= p->rows_most)
            piece_add(p, (attend_item){.place = place, .n_entries = 1, .head = head,
                                       .n_heads = int_least(heads, p->l->n_heads_kv - head), .row = row,
                                       .n_rows = int_least(n_rows - row, p->rows_most), .segment = ATTEND_ALL});
}

void plan_layer(kvt_cache *c, const layer_shape *l, bool apart) {
    planner p = {.c = c, .l = l, .apart = apart, .entry_last = -1};
    c->attend.n_items = c->attend.n_splits = 0;
    c->attend.partial_used = 0;
    p.rows_most = rows_per_piece(&p);
    p.n_ranges = total_ranges(&p, p.rows_most);
    p.cost_most = total_cost(&p) / (2 * c->layout.n_threads);
    entries_cut(&p);
    plan_shared(&p);
    for (int i = 0; i < c->step.n_entries; i++) {
        int entry = c->step.by_cost[i];
        if (c->attend.split_of[entry] >= 0) plan_cut(&p, entry);
        else plan_whole(&p, entry);
    }
}
