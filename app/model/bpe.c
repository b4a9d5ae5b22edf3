/* bpe.c - see bpe.h. */
#include "bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

#define BPE_NO_RULE UINT32_MAX
#define NOBODY UINT32_MAX

static const char MERGES[] = "tokenizer.ggml.merges";

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

/* "left right", each in the file's spelling; no spelling contains a blank. */
static bool rule_of(const spellings *s, file_text line, bpe_rule *rule, char *joined) {
    const char *blank = memchr(line.at, ' ', line.n);
    if (!blank) return false;
    size_t n_left = (size_t)(blank - line.at), n_right = line.n - n_left - 1;
    memcpy(joined, line.at, n_left);
    memcpy(joined + n_left, blank + 1, n_right);
    rule->left = spellings_find(s, line.at, n_left);
    rule->right = spellings_find(s, blank + 1, n_right);
    rule->joined = spellings_find(s, joined, n_left + n_right);
    return n_left && n_right && rule->left >= 0 && rule->right >= 0 && rule->joined >= 0;
}

static kvt_status read_rules(bpe *b, const model_file *f, const spellings *s, file_array list, char *joined,
                             error_text *err) {
    for (uint32_t r = 0; r < b->n_rules; r++) {
        file_text line = file_take_string(&list);
        if (!rule_of(s, line, &b->rule[r], joined))
            return file_fail(f, err, KVT_E_CORRUPT,
                             "entry %" PRIu32 " of %s, \"%.*s\", is not two tokens that make a third", r, MERGES,
                             FILE_SHOW(line));
        b->slot[slot_of(b, b->rule[r].left, b->rule[r].right)] = r; /* of two for one pair the last counts */
    }
    return KVT_OK;
}

kvt_status bpe_open(bpe *b, const model_file *f, const spellings *s, error_text *err) {
    file_array list;
    TRY(file_array_of(f, MERGES, FILE_STRING, &list, err));
    if (list.n > INT32_MAX / 4) return file_fail(f, err, KVT_E_CORRUPT, "%s has %zu entries", MERGES, list.n);
    for (int byte = 0; byte < 256; byte++) b->byte_id[byte] = spellings_byte(s, (unsigned char)byte);
    b->n_rules = (uint32_t)list.n;
    for (b->n_slots = 2; b->n_slots < 2 * list.n;) b->n_slots *= 2;
    b->rule = calloc(list.n + 1, sizeof *b->rule);
    b->slot = malloc(b->n_slots * sizeof *b->slot);
    char *joined = malloc(list.bytes + 1); /* no entry is longer than all of them */
    kvt_status st = KVT_E_MEMORY;
    if (b->rule && b->slot && joined) {
        memset(b->slot, 0xFF, b->n_slots * sizeof *b->slot);
        st = read_rules(b, f, s, list, joined, err);
    } else file_fail(f, err, st, "no memory for %zu merges", list.n);
    free(joined);
    return st;
}

void bpe_close(bpe *b) {
    free(b->rule);
    free(b->slot);
    *b = (bpe){0};
}

/* ------------------------------------------------------------------------------------------- merging */

/* A token so far, in a list of neighbours by index; one that was joined to its left neighbour has id -1. */
typedef struct bpe_symbol {
    int32_t id;
    uint32_t left, right;
} bpe_symbol;

/* Rules that may apply wait in a heap of (rule, index of the left symbol): the lowest rule first, the leftmost place of
 * those. An entry is not taken back when one of its two symbols changes; it is seen to be stale when its turn comes. */
static uint64_t entry_of(uint32_t rule, uint32_t left) {
    return (uint64_t)rule << 32 | left;
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
static kvt_status scratch_fit(bpe_scratch *s, size_t n) {
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

static uint32_t set_symbols(const bpe *b, bpe_symbol *symbol, const char *piece, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t id = b->byte_id[(unsigned char)piece[i]];
        if (id < 0) continue;
        symbol[count] = (bpe_symbol){id, count - 1, count + 1}; /* 0 - 1 is NOBODY */
        count++;
    }
    if (count) symbol[count - 1].right = NOBODY;
    return count;
}

static void offer(const bpe *b, bpe_scratch *s, uint32_t left) {
    const bpe_symbol *l = &s->symbol[left];
    uint32_t rule = b->slot[slot_of(b, l->id, s->symbol[l->right].id)];
    if (rule != BPE_NO_RULE) heap_push(s, entry_of(rule, left));
}

static void apply(const bpe *b, bpe_scratch *s, uint64_t entry) {
    const bpe_rule *rule = &b->rule[entry >> 32];
    uint32_t at = (uint32_t)entry;
    bpe_symbol *l = &s->symbol[at];
    if (l->id != rule->left || l->right == NOBODY || s->symbol[l->right].id != rule->right) return; /* stale */
    bpe_symbol *r = &s->symbol[l->right];
    l->id = rule->joined;
    l->right = r->right;
    r->id = -1;
    if (l->right != NOBODY) {
        s->symbol[l->right].left = at;
        offer(b, s, at);
    }
    if (l->left != NOBODY) offer(b, s, l->left);
}

kvt_status bpe_encode(const bpe *b, bpe_scratch *s, const char *piece, size_t n, token_list *out) {
    TRY(scratch_fit(s, n));
    uint32_t count = set_symbols(b, s->symbol, piece, n);
    s->n_heap = 0;
    for (uint32_t i = 0; i + 1 < count; i++) offer(b, s, i);
    while (s->n_heap) apply(b, s, heap_pop(s));
    for (uint32_t i = 0; count && i != NOBODY; i = s->symbol[i].right) TRY(token_list_add(out, s->symbol[i].id));
    return KVT_OK;
}
