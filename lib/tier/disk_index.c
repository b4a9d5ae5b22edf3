/* disk_index.c - which records a folder has, as far as this process knows: by key in a table with chains, by age in a
 * binary heap. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "disk.h"

enum { FIRST = 64 };
#define NONE UINT32_MAX

static uint32_t bucket_of(const disk_index *index, const kvt_tier_key *key) {
    return (uint32_t)XXH3_64bits(key, sizeof *key) & (index->n_max - 1);
}

static bool same(const kvt_tier_key *a, const kvt_tier_key *b) { return memcmp(a, b, sizeof *a) == 0; }

static uint32_t find(const disk_index *index, const kvt_tier_key *key) {
    if (index->n == 0) return NONE;
    uint32_t e = index->buckets[bucket_of(index, key)];
    while (e != NONE && !same(&index->entries[e].what.key, key)) e = index->entries[e].next;
    return e;
}

static uint64_t used_at(const disk_index *index, uint32_t place) {
    return index->entries[index->heap[place]].what.used_ns;
}

static void set(disk_index *index, uint32_t place, uint32_t e) {
    index->heap[place] = e;
    index->entries[e].place = place;
}

static void rise(disk_index *index, uint32_t place) {
    uint32_t e = index->heap[place];
    uint64_t used = index->entries[e].what.used_ns;
    while (place > 0 && used_at(index, (place - 1) / 2) > used) {
        set(index, place, index->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    set(index, place, e);
}

static void sink(disk_index *index, uint32_t place) {
    uint32_t e = index->heap[place];
    uint64_t used = index->entries[e].what.used_ns;
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= index->n) break;
        if (child + 1 < index->n && used_at(index, child + 1) < used_at(index, child)) child++;
        if (used_at(index, child) >= used) break;
        set(index, place, index->heap[child]);
        place = child;
    }
    set(index, place, e);
}

static void link_in(disk_index *index, uint32_t e) {
    uint32_t b = bucket_of(index, &index->entries[e].what.key);
    index->entries[e].next = index->buckets[b];
    index->buckets[b] = e;
}

/* Called when every entry is in use, so the new ones are the free ones. */
static bool grow(disk_index *index) {
    if (index->n_max > UINT32_MAX / 4) return false;
    uint32_t n_max = index->n_max ? 2 * index->n_max : FIRST;
    disk_entry *entries = realloc(index->entries, n_max * sizeof *entries);
    if (entries) index->entries = entries;
    uint32_t *buckets = realloc(index->buckets, n_max * sizeof *buckets);
    if (buckets) index->buckets = buckets;
    uint32_t *heap = realloc(index->heap, n_max * sizeof *heap);
    if (heap) index->heap = heap;
    if (!entries || !buckets || !heap) return false;
    index->n_max = n_max;
    memset(buckets, 0xff, n_max * sizeof *buckets);
    for (uint32_t e = 0; e < index->n; e++) link_in(index, e);
    for (uint32_t e = index->n; e < n_max; e++) entries[e].next = e + 1 < n_max ? e + 1 : NONE;
    index->free = index->n;
    return true;
}

bool disk_index_put(disk_index *index, const kvt_tier_entry *what) {
    uint32_t e = find(index, &what->key);
    if (e == NONE) {
        if (index->n == index->n_max && !grow(index)) return false;
        e = index->free;
        index->free = index->entries[e].next;
        index->entries[e].what = *what;
        link_in(index, e);
        set(index, index->n++, e);
    }
    index->entries[e].what = *what;
    rise(index, index->entries[e].place);
    sink(index, index->entries[e].place);
    return true;
}

const kvt_tier_entry *disk_index_find(const disk_index *index, const kvt_tier_key *key) {
    uint32_t e = find(index, key);
    return e == NONE ? NULL : &index->entries[e].what;
}

const kvt_tier_entry *disk_index_oldest(const disk_index *index) {
    return index->n ? &index->entries[index->heap[0]].what : NULL;
}

void disk_index_remove(disk_index *index, const kvt_tier_key *key) {
    uint32_t e = find(index, key);
    if (e == NONE) return;
    uint32_t *link = &index->buckets[bucket_of(index, key)];
    while (*link != e) link = &index->entries[*link].next;
    *link = index->entries[e].next;
    uint32_t place = index->entries[e].place;
    index->n--;
    if (place < index->n) {
        set(index, place, index->heap[index->n]);
        rise(index, place);
        sink(index, place);
    }
    index->entries[e].next = index->free;
    index->free = e;
}

void disk_index_free(disk_index *index) {
    free(index->entries);
    free(index->buckets);
    free(index->heap);
    *index = (disk_index){0};
}
