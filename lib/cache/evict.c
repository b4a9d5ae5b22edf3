/* evict.c - see evict.h: what may leave, by priority and score, and by time. */
#include "evict.h"

#include <assert.h>

#include "kernel/kernel.h"

enum { GAPS_MAX = 200 }; /* the newest so many weigh most in what is typical */
static const double GAP_START_LN = 3; /* 20 requests, until the first gap is seen */

/* ---------------------------------------------------------------------------------------- what may leave */

static bool leaves_before(const index_entry *a, const index_entry *b) {
    if (a->priority != b->priority) return a->priority < b->priority;
    return a->score < b->score || (a->score == b->score && a->key < b->key);
}

static bool is_over_before(const index_entry *a, const index_entry *b) {
    return a->expires_ns < b->expires_ns || (a->expires_ns == b->expires_ns && a->key < b->key);
}

void evict_carve(evict *v, carve *a, int n_blocks) {
    heap_carve(&v->idle, a, n_blocks);
    heap_carve(&v->timed, a, n_blocks);
}

void evict_open(evict *v, index_table *index) {
    v->index = index;
    heap_open(&v->idle, index, 0, leaves_before);
    heap_open(&v->timed, index, 1, is_over_before);
    v->now = v->n_gaps = 0;
    v->gap_ln = GAP_START_LN;
}

static bool may_leave(const index_entry *e) {
    return e->block != INDEX_NONE && !e->held && e->n_pins == 0 && e->n_children == 0;
}

static bool has_time(const index_entry *e) {
    return e->expires_ns != 0 && e->expires_ns != INDEX_NEVER;
}

static void withdraw(evict *v, int entry) {
    if (v->index->entry[entry].place[v->idle.place] == INDEX_NONE) return;
    heap_remove(&v->idle, entry);
    heap_remove(&v->timed, entry);
}

/* It may have come to be one that may leave. */
static void offer(evict *v, int entry) {
    const index_entry *e = &v->index->entry[entry];
    if (!may_leave(e) || e->place[v->idle.place] != INDEX_NONE) return;
    heap_add(&v->idle, entry);
    if (has_time(e)) heap_add(&v->timed, entry);
}

bool evict_sound(const evict *v) {
    if (!index_sound(v->index)) return false;
    int n_idle = 0, n_timed = 0;
    for (int i = 0; i < v->index->n_used; i++) {
        const index_entry *e = &v->index->entry[i];
        bool idle = e->place[v->idle.place] != INDEX_NONE, timed = e->place[v->timed.place] != INDEX_NONE;
        if (idle != may_leave(e) || timed != (idle && has_time(e))) return false;
        n_idle += idle;
        n_timed += timed;
    }
    return n_idle == v->idle.n && n_timed == v->timed.n && heap_sound(&v->idle) && heap_sound(&v->timed);
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

evict_reader evict_begin(evict *v, int n_new, uint64_t gap) {
    double late = gap > 0 ? log2_of((double)gap) - v->gap_ln * 1.4426950408889634 - 1 : 0;
    v->now++;
    return (evict_reader){ .bonus = -0.25 * log2_of(1.0 + n_new) - (late > 0 ? late : 0) };
}

/* --------------------------------------------------------------------------------------- coming and going */

void evict_adopt(evict *v, int entry, int parent, int32_t block) {
    index_entry *e = &v->index->entry[entry];
    assert(e->block == INDEX_NONE && block != INDEX_NONE);
    index_revive(v->index, entry);
    e->block = block;
    e->parent = parent;
    e->held = true;
    e->priority = INT8_MIN;
    e->expires_ns = 0;
    if (parent == INDEX_NONE) return;
    assert(v->index->entry[parent].block != INDEX_NONE);
    withdraw(v, parent);
    v->index->entry[parent].n_children++;
}

static void raise_time(index_entry *e, uint64_t expires_ns) {
    uint64_t time = expires_ns ? expires_ns : INDEX_NEVER;
    if (time > e->expires_ns) e->expires_ns = time;
}

void evict_hold(evict *v, int entry, int depth, bool open, const evict_reader *r) {
    enum { OPEN = 50 };
    index_entry *e = &v->index->entry[entry];
    assert(e->block != INDEX_NONE && r->priority >= -EVICT_PRIORITY && r->priority <= EVICT_PRIORITY);
    withdraw(v, entry);
    /* The first blocks of prefixes are what all requests share: their gaps say nothing about a text's return. */
    if (e->n_uses > 0 && depth > 0 && e->last < v->now) learn_gap(v, math_log((double)(v->now - e->last)));
    if (e->n_uses < INDEX_USES) e->n_uses++;
    e->last = v->now;
    e->held = true;
    double bonus = r->bonus + 0.5 * e->n_uses - 0.05 * log2_of(1.0 + depth) - (open ? OPEN : 0);
    e->score = (double)v->now + math_exp(v->gap_ln) * bonus;
    if (r->priority > e->priority) e->priority = (int8_t)r->priority;
    raise_time(e, r->expires_ns);
}

void evict_release(evict *v, int entry) {
    v->index->entry[entry].held = false;
    offer(v, entry);
}

void evict_extend(evict *v, int entry, uint64_t expires_ns) {
    heap_remove(&v->timed, entry);
    index_entry *e = &v->index->entry[entry];
    raise_time(e, expires_ns);
    if (e->place[v->idle.place] != INDEX_NONE && has_time(e)) heap_add(&v->timed, entry);
}

void evict_pin(evict *v, int entry) {
    assert(v->index->entry[entry].block != INDEX_NONE);
    withdraw(v, entry);
    v->index->entry[entry].n_pins++;
}

void evict_unpin(evict *v, int entry) {
    assert(v->index->entry[entry].n_pins > 0);
    v->index->entry[entry].n_pins--;
    offer(v, entry);
}

/* The block of an entry is taken off it and off its parent. */
static int32_t detach(evict *v, int entry) {
    index_entry *e = &v->index->entry[entry];
    assert(e->block != INDEX_NONE && e->n_children == 0 && e->n_pins == 0);
    withdraw(v, entry);
    int32_t block = e->block, parent = e->parent;
    e->block = INDEX_NONE;
    e->held = false;
    if (parent != INDEX_NONE) {
        assert(v->index->entry[parent].n_children > 0);
        v->index->entry[parent].n_children--;
        offer(v, parent);
    }
    return block;
}

static int leave(evict *v, int entry, int32_t *block) {
    *block = detach(v, entry);
    index_bury(v->index, entry);
    return entry;
}

bool evict_this(evict *v, int entry, int32_t *block) {
    if (v->index->entry[entry].place[v->idle.place] == INDEX_NONE) return false;
    leave(v, entry, block);
    return true;
}

int evict_lesser(const evict *v, int a, int b) {
    return v->idle.before(&v->index->entry[a], &v->index->entry[b]) ? a : b;
}

int evict_next(evict *v, int32_t *block) {
    return v->idle.n > 0 ? leave(v, v->idle.at[0], block) : INDEX_NONE;
}

int evict_expired(evict *v, uint64_t now_ns, int32_t *block) {
    if (v->timed.n == 0 || v->index->entry[v->timed.at[0]].expires_ns > now_ns) return INDEX_NONE;
    return leave(v, v->timed.at[0], block);
}

void evict_forget(evict *v, int entry) {
    detach(v, entry);
    index_remove(v->index, entry);
}
