/* numbers.c - see numbers.h: a hash table, half full at most. */
#include "numbers.h"

#include <stdlib.h>
#include <string.h>

/* Where the key is, or the empty slot where it belongs. */
static uint32_t slot_of(const numbers *t, int64_t key) {
    uint64_t h = (uint64_t)key * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(h ^ h >> 32) & (t->n_slots - 1);
    while (t->slot[at] >= 0 && t->key[at] != key) at = (at + 1) & (t->n_slots - 1);
    return at;
}

static int grow(numbers *t) {
    numbers grown = { .n_slots = t->n_slots ? 2 * t->n_slots : 1024, .n = t->n };
    if (t->n_slots >= 1u << 30) return 0;
    grown.key = malloc(grown.n_slots * sizeof *grown.key);
    grown.slot = malloc(grown.n_slots * sizeof *grown.slot);
    if (!grown.key || !grown.slot) {
        numbers_free(&grown);
        return 0;
    }
    memset(grown.slot, 0xFF, grown.n_slots * sizeof *grown.slot);
    for (uint32_t i = 0; i < t->n_slots; i++) {
        if (t->slot[i] < 0) continue;
        uint32_t at = slot_of(&grown, t->key[i]);
        grown.key[at] = t->key[i];
        grown.slot[at] = t->slot[i];
    }
    numbers_free(t);
    *t = grown;
    return 1;
}

int32_t numbers_of(numbers *t, int64_t key) {
    if ((uint32_t)t->n >= t->n_slots / 2 && !grow(t)) return -1;
    uint32_t at = slot_of(t, key);
    if (t->slot[at] < 0) {
        t->key[at] = key;
        t->slot[at] = t->n++;
    }
    return t->slot[at];
}

void numbers_free(numbers *t) {
    free(t->key);
    free(t->slot);
    *t = (numbers){ 0 };
}
