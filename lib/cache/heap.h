/* heap.h - entries of the index in an order: the first of them is found at once, any can be taken out. A heap keeps an
 * entry's place in the entry, so each heap of an index has a place of its own there. */
#ifndef KVT_HEAP_H
#define KVT_HEAP_H

#include "index.h"

/* Does a stand before b? Of two different entries exactly one stands before the other. What decides it must not change
 * while the entry is in the heap. */
typedef bool (*heap_order)(const index_entry *a, const index_entry *b);

typedef struct heap {
    index_entry *entry; /* of the index */
    heap_order before;
    int place;          /* which of index_entry.place is this heap's */
    int n;
    int32_t *at;        /* [entries that may be in it at once] numbers of entries, the first one at 0 */
} heap;

void heap_carve(heap *h, carve *a, int n_most);
void heap_open(heap *h, index_table *index, int place, heap_order before); /* empty */

void heap_add(heap *h, int entry);    /* it is not in */
void heap_remove(heap *h, int entry); /* it need not be in */

/* Is every entry where it says, and none before the one above it? O(n), for checks. */
bool heap_sound(const heap *h);

#endif
