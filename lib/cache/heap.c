/* heap.c - see heap.h: a binary heap (Williams 1964). */
#include "heap.h"

#include <assert.h>

void heap_carve(heap *h, carve *a, int n_most) {
    h->at = carve_take(a, (size_t)n_most, sizeof *h->at);
}

void heap_open(heap *h, index_table *index, int place, heap_order before) {
    h->entry = index->entry;
    h->before = before;
    h->place = place;
    h->n = 0;
}

static bool stands_before(const heap *h, int a, int b) {
    return h->before(&h->entry[a], &h->entry[b]);
}

static void put(heap *h, int at, int entry) {
    h->at[at] = entry;
    h->entry[entry].place[h->place] = at;
}

static void rise(heap *h, int at, int entry) {
    for (; at > 0 && stands_before(h, entry, h->at[(at - 1) / 2]); at = (at - 1) / 2) put(h, at, h->at[(at - 1) / 2]);
    put(h, at, entry);
}

static void sink(heap *h, int at, int entry) {
    for (int child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && stands_before(h, h->at[child + 1], h->at[child])) child++;
        if (!stands_before(h, h->at[child], entry)) break;
        put(h, at, h->at[child]);
    }
    put(h, at, entry);
}

void heap_add(heap *h, int entry) {
    assert(h->entry[entry].place[h->place] == INDEX_NONE);
    rise(h, h->n++, entry);
}

void heap_remove(heap *h, int entry) {
    int at = h->entry[entry].place[h->place];
    if (at == INDEX_NONE) return;
    int last = h->at[--h->n];
    h->entry[entry].place[h->place] = INDEX_NONE;
    if (last == entry) return;
    if (at > 0 && stands_before(h, last, h->at[(at - 1) / 2])) rise(h, at, last);
    else sink(h, at, last);
}

bool heap_sound(const heap *h) {
    for (int at = 0; at < h->n; at++) {
        if (h->entry[h->at[at]].place[h->place] != at) return false;
        if (at > 0 && stands_before(h, h->at[at], h->at[(at - 1) / 2])) return false;
    }
    return true;
}
