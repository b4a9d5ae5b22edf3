/* bpe.h - byte-pair encoding of one piece of text: bytes, merged pair by pair in the order of the file's list. */
#ifndef BPE_H
#define BPE_H

#include "tokenizer.h"
#include "vocab.h"

/* Rule number r joins two neighbours into one; of all that apply the lowest number goes first. */
typedef struct bpe_rule {
    int32_t left, right, joined;
} bpe_rule;

typedef struct bpe {
    bpe_rule *rule; /* [n_rules] */
    uint32_t n_rules;
    uint32_t *slot; /* [n_slots]: pair to rule, by hash; UINT32_MAX: empty */
    size_t n_slots;
    int32_t byte_id[256]; /* -1: the vocabulary lacks this byte */
} bpe;

/* b is zeroed before and fit for bpe_close after a failure. */
kvt_status bpe_open(bpe *b, const model_file *f, const spellings *s, error_text *err);
void bpe_close(bpe *b);

/* Memory of one encoding, reused from piece to piece; {0} is empty. */
typedef struct bpe_scratch {
    struct bpe_symbol *symbol; /* [room] */
    size_t room;
    uint64_t *heap; /* [2 * room] */
    size_t n_heap;
} bpe_scratch;

void bpe_scratch_free(bpe_scratch *s);

/* Append the ids of a piece of n bytes, n below 2^32. Takes n log n time. KVT_E_MEMORY: out has only some of them. */
kvt_status bpe_encode(const bpe *b, bpe_scratch *s, const char *piece, size_t n, token_list *out);

#endif
