/* seq.h - sequences: a length and a table of blocks, under a handle that is never used twice. */
#ifndef KVT_SEQ_H
#define KVT_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"
#include "kvtile.h"
#include "layer.h"

typedef struct seq {
    uint64_t generation; /* of the handle; grows when the slot is used again */
    uint64_t step;       /* number of the step that last named it */
    int32_t *table;      /* [seq_blocks] block of tokens i * block_tokens .. */
    int length;          /* committed tokens */
    int n_blocks;        /* entries of table in use */
    int free_next;       /* the free slot behind this one */
    bool alive;
} seq;

typedef struct seqs {
    int n_slots, n_alive, free_first;
    seq *slot;       /* [n_slots] */
    int32_t *tables; /* [n_slots][seq_blocks] */
} seqs;

void seqs_carve(seqs *s, carve *a, int n_slots, int seq_blocks);
void seqs_open(seqs *s, int seq_blocks);

/* The sequence of a handle; NULL: none, or no longer. */
seq *seq_of(const kvt_cache *c, kvt_seq handle);

/* Blocks that n_tokens tokens fill, the last one perhaps in part. */
int seq_blocks_of(const kvt_cache *c, int n_tokens);

/* One block more at the end of the table. False: none is free. */
bool seq_grow(kvt_cache *c, seq *s);
/* Give one name of a block back. */
void seq_drop(kvt_cache *c, int block);
/* Give blocks back from the end until n are left. */
void seq_shrink(kvt_cache *c, seq *s, int n);
/* Keep n_tokens tokens, and the blocks that the kind of cache says. */
void seq_cut(kvt_cache *c, seq *s, int n_tokens);

#endif
