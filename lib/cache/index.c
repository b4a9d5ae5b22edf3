/* index.c - see index.h: a hash table with chains, and the ghosts in order of age. Nothing is allocated in use. */
#include "index.h"

#include <assert.h>

static_assert(sizeof(index_entry) == 64, "a line of a processor's cache");

/* Entries a bucket, on average: at most one. */
static int buckets_of(int n_entries) {
    int n = 1;
    while (n < n_entries) n *= 2;
    return n;
}

void index_carve(index_table *t, carve *a, int n_entries) {
    t->n_entries = n_entries;
    t->n_buckets = buckets_of(n_entries);
    t->entry = carve_take(a, (size_t)n_entries, sizeof *t->entry);
    t->bucket = carve_take(a, (size_t)t->n_buckets, sizeof *t->bucket);
}

void index_open(index_table *t) {
    for (int i = 0; i < t->n_buckets; i++) t->bucket[i] = INDEX_NONE;
    t->n_used = t->n_ghosts = 0;
    t->free = t->oldest = t->newest = INDEX_NONE;
}

static int32_t *bucket_of(const index_table *t, uint64_t key) {
    uint64_t h = key * 0x9E3779B97F4A7C15u;
    return &t->bucket[(h ^ h >> 32) & (uint64_t)(t->n_buckets - 1)];
}

int index_find(const index_table *t, uint64_t key) {
    int at = *bucket_of(t, key);
    while (at != INDEX_NONE && t->entry[at].key != key) at = t->entry[at].chain;
    return at;
}

static void unchain(index_table *t, int entry) {
    int32_t *at = bucket_of(t, t->entry[entry].key);
    while (*at != entry) at = &t->entry[*at].chain;
    *at = t->entry[entry].chain;
}

static int entry_take(index_table *t) {
    int entry = t->free;
    if (entry != INDEX_NONE) {
        t->free = t->entry[entry].chain;
        return entry;
    }
    if (t->n_used < t->n_entries) return t->n_used++;
    entry = t->oldest;
    assert(entry != INDEX_NONE);
    index_revive(t, entry);
    unchain(t, entry);
    return entry;
}

int index_add(index_table *t, uint64_t key) {
    int entry = entry_take(t);
    int32_t *bucket = bucket_of(t, key);
    t->entry[entry] = (index_entry){
        .key = key,
        .chain = *bucket,
        .block = INDEX_NONE,
        .place = { INDEX_NONE, INDEX_NONE },
    };
    *bucket = entry;
    index_bury(t, entry);
    return entry;
}

void index_remove(index_table *t, int entry) {
    unchain(t, entry);
    t->entry[entry].chain = t->free;
    t->free = entry;
}

void index_bury(index_table *t, int entry) {
    index_entry *e = &t->entry[entry];
    e->older = t->newest;
    e->newer = INDEX_NONE;
    if (t->newest == INDEX_NONE) t->oldest = entry;
    else t->entry[t->newest].newer = entry;
    t->newest = entry;
    t->n_ghosts++;
}

void index_revive(index_table *t, int entry) {
    index_entry *e = &t->entry[entry];
    if (e->older == INDEX_NONE) t->oldest = e->newer;
    else t->entry[e->older].newer = e->newer;
    if (e->newer == INDEX_NONE) t->newest = e->older;
    else t->entry[e->newer].older = e->older;
    e->parent = INDEX_NONE;
    e->n_children = 0;
    t->n_ghosts--;
}

/* ------------------------------------------------------------------------------------------------ for checks */

static bool is_used(const index_table *t, int entry) {
    return entry >= 0 && entry < t->n_used;
}

/* Entries of a chain, -1: it does not end, or leads nowhere. *n_ghosts of them are added up. */
static int chain_length(const index_table *t, int at, int *n_ghosts) {
    int n = 0;
    for (; at != INDEX_NONE; at = t->entry[at].chain) {
        if (!is_used(t, at) || n++ == t->n_used) return -1;
        *n_ghosts += t->entry[at].block == INDEX_NONE;
    }
    return n;
}

/* Is the list of ghosts the same from both ends, and as long as it is said to be? */
static bool ghosts_sound(const index_table *t) {
    int n = 0, older = INDEX_NONE;
    for (int at = t->oldest; at != INDEX_NONE; older = at, at = t->entry[at].newer, n++)
        if (!is_used(t, at) || t->entry[at].block != INDEX_NONE || t->entry[at].older != older) return false;
    return older == t->newest && n == t->n_ghosts;
}

bool index_sound(const index_table *t) {
    int n_ghosts = 0, n_known = 0, no_ghosts = 0;
    for (int i = 0; i < t->n_buckets; i++) {
        int n = chain_length(t, t->bucket[i], &n_ghosts);
        if (n < 0) return false;
        n_known += n;
    }
    int n_free = chain_length(t, t->free, &no_ghosts);
    return n_free >= 0 && n_known == t->n_used - n_free && n_ghosts == t->n_ghosts && ghosts_sound(t);
}
