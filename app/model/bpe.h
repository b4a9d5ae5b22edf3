/* bpe.h - byte-pair encoding: symbols in a row, merged pair by pair in the order of rules. Where the rules come from,
 * and what a symbol is to begin with, is the business of those who use it (bytelevel.c, spm.c). */
#ifndef BPE_H
#define BPE_H

#include "tokenizer.h"

/* Two neighbours become one. Of all rules that apply the one of lowest rank goes first, of those the leftmost. */
typedef struct bpe_rule {
    int32_t left, right, joined;
    uint32_t rank;
} bpe_rule;

typedef struct bpe {
    bpe_rule *rule; /* [n_rules] */
    uint32_t n_rules;
    uint32_t *slot; /* [n_slots]: pair to rule, by hash; UINT32_MAX: empty */
    size_t n_slots;
} bpe;

/* Room for so many rules, fewer than 2^30. b is zeroed before and fit for bpe_close after a failure. */
kvt_status bpe_open(bpe *b, size_t n_rules);
void bpe_close(bpe *b);
/* Of two for one pair the last counts. */
void bpe_add(bpe *b, bpe_rule rule);

/* A token so far, in a list of neighbours by index. A symbol of a negative id is never merged. */
typedef struct bpe_symbol {
    int32_t id;
    uint32_t left, right;
    uint32_t rule; /* for this symbol and its right neighbour */
} bpe_symbol;
#define BPE_END UINT32_MAX /* no neighbour */

/* Memory of one encoding, reused from piece to piece; {0} is empty. */
typedef struct bpe_scratch {
    bpe_symbol *symbol; /* [room] */
    size_t room;
    uint32_t n;     /* symbols put */
    uint64_t *heap; /* [2 * room] */
    size_t n_heap;
} bpe_scratch;

void bpe_scratch_free(bpe_scratch *s);

/* Begin a piece of at most n symbols, n below 2^31; put them; merge: symbols 0, symbol[0].right, ... up to BPE_END are
 * what is left. Takes n log n time. KVT_E_MEMORY. */
kvt_status bpe_begin(bpe_scratch *s, size_t n);
static inline void bpe_put(bpe_scratch *s, int32_t id) { s->symbol[s->n++].id = id; }
void bpe_merge(const bpe *b, bpe_scratch *s);

#endif
