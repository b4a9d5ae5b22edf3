/* trie.h - byte strings as a tree: walked byte by byte, a node says which token ends there. Children are found by
 * hash. */
#ifndef TRIE_H
#define TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "kvtile.h"

typedef struct trie_slot {
    uint32_t parent, child; /* child 0: empty, for nothing has the root as a child */
    uint8_t byte;
} trie_slot;

typedef struct trie {
    int32_t *id; /* [n_nodes] -1: no token ends here; node 0 is the root */
    uint32_t n_nodes, room;
    trie_slot *slot; /* [n_slots], at most half of them used */
    size_t n_slots;
} trie;

kvt_status trie_open(trie *t); /* fit for trie_close after a failure */
void trie_close(trie *t);
/* Of two that are alike the last counts. KVT_E_MEMORY, also for more than 2^31 nodes. */
kvt_status trie_add(trie *t, const char *bytes, size_t n, int32_t id);

/* The slot of a node's child by a byte, or the empty one where it belongs. */
static inline trie_slot *trie_slot_of(const trie *t, uint32_t parent, uint8_t byte) {
    uint64_t h = ((uint64_t)parent << 8 | byte) * 0x9E3779B97F4A7C15;
    size_t i = (size_t)(h >> 32) & (t->n_slots - 1);
    while (t->slot[i].child && (t->slot[i].parent != parent || t->slot[i].byte != byte)) i = (i + 1) & (t->n_slots - 1);
    return &t->slot[i];
}

/* 0: there is none. */
static inline uint32_t trie_child(const trie *t, uint32_t parent, uint8_t byte) {
    return trie_slot_of(t, parent, byte)->child;
}

#endif
