/* trie.c - see trie.h. */
#include "trie.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

kvt_status trie_open(trie *t) {
    enum { ROOM = 1024 };
    *t = (trie){.n_nodes = 1, .room = ROOM, .n_slots = 2 * ROOM};
    t->id = malloc(ROOM * sizeof *t->id);
    t->slot = calloc(t->n_slots, sizeof *t->slot);
    if (!t->id || !t->slot) return KVT_E_MEMORY;
    t->id[0] = -1;
    return KVT_OK;
}

void trie_close(trie *t) {
    free(t->id);
    free(t->slot);
    *t = (trie){0};
}

/* Twice the room, and every child in its new slot. */
static kvt_status grow(trie *t) {
    size_t bytes;
    if (t->room > UINT32_MAX / 2 || !mem_mul(t->n_slots, 2 * sizeof *t->slot, &bytes)) return KVT_E_MEMORY;
    int32_t *id = realloc(t->id, 2 * (size_t)t->room * sizeof *id);
    if (!id) return KVT_E_MEMORY;
    t->id = id;
    trie wide = {.n_slots = 2 * t->n_slots, .slot = calloc(2 * t->n_slots, sizeof *t->slot)};
    if (!wide.slot) return KVT_E_MEMORY;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slot[i].child) *trie_slot_of(&wide, t->slot[i].parent, t->slot[i].byte) = t->slot[i];
    free(t->slot);
    t->slot = wide.slot;
    t->n_slots = wide.n_slots;
    t->room *= 2;
    return KVT_OK;
}

kvt_status trie_add(trie *t, const char *bytes, size_t n, int32_t id) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        uint32_t child = trie_child(t, node, byte);
        if (!child) {
            if (t->n_nodes == t->room) TRY(grow(t));
            child = t->n_nodes++;
            t->id[child] = -1;
            *trie_slot_of(t, node, byte) = (trie_slot){.parent = node, .child = child, .byte = byte};
        }
        node = child;
    }
    t->id[node] = id;
    return KVT_OK;
}
