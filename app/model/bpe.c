/* bpe.c - see bpe.h. */
#include "bpe.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

#define BPE_NO_RULE UINT32_MAX

/* -------------------------------------------------------------------------------------- pair to rule */

static size_t hash(int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15;
    return (size_t)(h ^ h >> 32);
}

/* The slot of this pair's rule, or the empty one where it belongs; half full at most, there is always one. */
static size_t slot_of(const bpe *b, int32_t left, int32_t right) {
    size_t i = hash(left, right) & (b->n_slots - 1);
    for (;; i = (i + 1) & (b->n_slots - 1)) {
        uint32_t r = b->slot[i];
        if (r == BPE_NO_RULE || (b->rule[r].left == left && b->rule[r].right == right)) return i;
    }
}

kvt_status bpe_open(bpe *b, size_t n_rules) {
    for (b->n_slots = 2; b->n_slots < 2 * n_rules;) b->n_slots *= 2;
    b->rule = calloc(n_rules + 1, sizeof *b->rule);
    b->slot = malloc(b->n_slots * sizeof *b->slot);
    if (!b->rule || !b->slot) return KVT_E_MEMORY;
    memset(b->slot, 0xFF, b->n_slots * sizeof *b->slot);
    return KVT_OK;
}

void bpe_add(bpe *b, bpe_rule rule) {
    b->rule[b->n_rules] = rule;
    b->slot[slot_of(b, rule.left, rule.right)] = b->n_rules++;
}

void bpe_close(bpe *b) {
    free(b->rule);
    free(b->slot);
    *b = (bpe){0};
}

/* ------------------------------------------------------------------------------------------- merging */

/* Rules that may apply wait in a heap of (rank, index of the left symbol): the lowest rank first, the leftmost place of
 * those. An entry is not taken back when one of its two symbols changes; it is seen to be stale when its turn comes. */
static uint64_t entry_of(uint32_t rank, uint32_t left) {
    return (uint64_t)rank << 32 | left;
}

static void heap_push(bpe_scratch *s, uint64_t entry) {
    size_t i = s->n_heap++;
    for (; i > 0 && s->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = entry;
}

static uint64_t heap_pop(bpe_scratch *s) {
    uint64_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child]) child++;
        if (s->heap[child] >= last) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* At most n - 1 entries to begin with, and each of at most n - 1 joins takes one out and puts two in. */
kvt_status bpe_begin(bpe_scratch *s, size_t n) {
    s->n = 0;
    if (n <= s->room) return KVT_OK;
    size_t room = n < 64 ? 64 : n, bytes;
    if (!mem_mul(room, 2 * sizeof *s->heap + sizeof *s->symbol, &bytes)) return KVT_E_MEMORY;
    bpe_scratch_free(s);
    s->symbol = malloc(room * sizeof *s->symbol);
    s->heap = malloc(2 * room * sizeof *s->heap);
    if (!s->symbol || !s->heap) {
        bpe_scratch_free(s);
        return KVT_E_MEMORY;
    }
    s->room = room;
    return KVT_OK;
}

void bpe_scratch_free(bpe_scratch *s) {
    free(s->symbol);
    free(s->heap);
    *s = (bpe_scratch){0};
}

/* The rule for a symbol and its right neighbour, which has changed, goes to the heap. */
static void offer(const bpe *b, bpe_scratch *s, uint32_t left) {
    bpe_symbol *l = &s->symbol[left];
    l->rule = l->right == BPE_END ? BPE_NO_RULE : b->slot[slot_of(b, l->id, s->symbol[l->right].id)];
    if (l->rule != BPE_NO_RULE) heap_push(s, entry_of(b->rule[l->rule].rank, left));
}

static void apply(const bpe *b, bpe_scratch *s, uint64_t entry) {
    uint32_t at = (uint32_t)entry;
    bpe_symbol *l = &s->symbol[at];
    if (l->rule == BPE_NO_RULE || b->rule[l->rule].rank != entry >> 32) return; /* stale */
    bpe_symbol *r = &s->symbol[l->right];
    l->id = b->rule[l->rule].joined;
    l->right = r->right;
    r->rule = BPE_NO_RULE;
    if (l->right != BPE_END) s->symbol[l->right].left = at;
    offer(b, s, at);
    if (l->left != BPE_END) offer(b, s, l->left);
}

void bpe_merge(const bpe *b, bpe_scratch *s) {
    s->n_heap = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->symbol[i].left = i - 1; /* 0 - 1 is BPE_END */
        s->symbol[i].right = i + 1 < s->n ? i + 1 : BPE_END;
    }
    for (uint32_t i = 0; i < s->n; i++) offer(b, s, i);
    while (s->n_heap) apply(b, s, heap_pop(s));
}
