/* evict.c - see evict.h: a heap of what may leave, by score. */
#include "evict.h"

#include <assert.h>

#include "kernel/kernel.h"

enum { GAPS_MAX = 200 }; /* the newest so many weigh most in what is typical */
static const double GAP_START_LN = 3; /* 20 requests, until the first gap is seen */

void evict_carve(evict *v, carve *a, int n_blocks) {
    v->heap = carve_take(a, (size_t)n_blocks, sizeof *v->heap);
}

void evict_open(evict *v, index_table *index) {
    v->index = index;
    v->n_heap = 0;
    v->now = v->n_gaps = 0;
    v->gap_ln = GAP_START_LN;
}

/* ------------------------------------------------------------------------------------------------- the heap */

static bool leaves_before(const evict *v, int a, int b) {
    const index_entry *x = &v->index->entry[a], *y = &v->index->entry[b];
    return x->score < y->score || (x->score == y->score && x->key < y->key);
}

static void heap_put(evict *v, int at, int entry) {
    v->heap[at] = entry;
    v->index->entry[entry].heap_at = at;
}

static void heap_rise(evict *v, int at, int entry) {
    for (; at > 0 && leaves_before(v, entry, v->heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap_put(v, at, v->heap[(at - 1) / 2]);
    heap_put(v, at, entry);
}

static void heap_sink(evict *v, int at, int entry) {
    for (int child; (child = 2 * at + 1) < v->n_heap; at = child) {
        if (child + 1 < v->n_heap && leaves_before(v, v->heap[child + 1], v->heap[child])) child++;
        if (!leaves_before(v, v->heap[child], entry)) break;
        heap_put(v, at, v->heap[child]);
    }
    heap_put(v, at, entry);
}

static void heap_remove(evict *v, int entry) {
    int at = v->index->entry[entry].heap_at, last = v->heap[--v->n_heap];
    v->index->entry[entry].heap_at = INDEX_NONE;
    if (last == entry) return;
    if (at > 0 && leaves_before(v, last, v->heap[(at - 1) / 2])) heap_rise(v, at, last);
    else heap_sink(v, at, last);
}

/* What is idle and has no children may leave. */
static void offer(evict *v, int entry) {
    const index_entry *e = &v->index->entry[entry];
    if (e->heap_at == INDEX_NONE && e->block != INDEX_NONE && !e->held && e->n_children == 0)
        heap_rise(v, v->n_heap++, entry);
}

/* ----------------------------------------------------------------------------------------------- the score */

/* The median of gaps by steps towards each (Robbins and Monro 1951), on the scale of the logarithm. */
static void learn_gap(evict *v, double gap_ln) {
    if (v->n_gaps < GAPS_MAX) v->n_gaps++;
    double step = 0.9 / v->n_gaps;
    v->gap_ln += gap_ln > v->gap_ln ? step : -step;
}

static double log2_of(double x) {
    return math_log(x) * 1.4426950408889634;
}

void evict_begin(evict *v, int n_new, uint32_t gap) {
    double late = gap > 0 ? log2_of(gap) - v->gap_ln * 1.4426950408889634 - 1 : 0;
    v->now++;
    v->bonus = -0.25 * log2_of(1.0 + n_new) - (late > 0 ? late : 0);
}

void evict_hold(evict *v, int entry, int depth, bool open) {
    enum { OPEN = 50 };
    index_entry *e = &v->index->entry[entry];
    if (e->heap_at != INDEX_NONE) heap_remove(v, entry);
    /* The first blocks of prefixes are what all requests share: their gaps say nothing about a text's return. */
    if (e->n_uses > 0 && depth > 0 && e->last < v->now) learn_gap(v, math_log(v->now - e->last));
    if (e->n_uses < INDEX_USES) e->n_uses++;
    e->last = v->now;
    e->held = true;
    double bonus = v->bonus + 0.5 * e->n_uses - 0.05 * log2_of(1.0 + depth) - (open ? OPEN : 0);
    e->score = v->now + math_exp(v->gap_ln) * bonus;
}

void evict_release(evict *v, int entry) {
    v->index->entry[entry].held = false;
    offer(v, entry);
}

int evict_next(evict *v, int32_t *block) {
    if (v->n_heap == 0) return INDEX_NONE;
    int entry = v->heap[0];
    index_entry *e = &v->index->entry[entry];
    heap_remove(v, entry);
    *block = e->block;
    e->block = INDEX_NONE;
    if (e->parent != INDEX_NONE) {
        index_entry *parent = &v->index->entry[e->parent];
        assert(parent->n_children > 0);
        parent->n_children--;
        offer(v, e->parent);
    }
    e->parent = INDEX_NONE;
    index_bury(v->index, entry);
    return entry;
}
