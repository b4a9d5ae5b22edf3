/* seq.h - sequences: a length and a table of blocks, under a handle that is never used twice. */
#ifndef KVT_SEQ_H
#define KVT_SEQ_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"
#include "evict.h"
#include "kvtile.h"
#include "layer.h"

/* What a sequence has looked for among the blocks that are known. */
typedef struct seq_search {
    bool reading; /* reader is set */
    evict_reader reader;
    uint64_t ttl_ns;
    int n_coming; /* entries of the table behind n_blocks: blocks on their way from a tier */
    int n_wanted; /* tokens of the last kvt_match; of them, */
    int n_asked;  /* those that are counted, as found or as missed; */
    kvt_miss missed; /* and why, those missed */
    int end;         /* this block is not fetched again, */
    kvt_miss end_why;
    int bad;         /* a tier's record of this block was bad: those behind it are not trusted, and written anew */
} seq_search;

typedef struct seq {
    uint64_t generation; /* of the handle; grows when the slot is used again */
    uint64_t step;       /* number of the step that last named it */
    int32_t *table;      /* [seq_blocks] block of tokens i * block_tokens .. */
    int length;          /* committed tokens */
    int n_blocks;        /* entries of table in use */
    int free_next;       /* the free slot behind this one */
    bool alive;
    int away; /* 1 + the tier that it was swapped out to; 0: it is here */
    seq_search search;
} seq;

typedef struct seqs {
    int n_slots, n_alive, free_first;
    seq *slot;       /* [n_slots] */
    int32_t *tables; /* [n_slots][seq_blocks] */
} seqs;

void seqs_carve(seqs *s, carve *a, int n_slots, int seq_blocks);
void seqs_open(seqs *s, int seq_blocks);

kvt_seq seq_handle(const kvt_cache *c, const seq *s);
/* The sequence of a handle; NULL: none, or no longer. */
seq *seq_of(const kvt_cache *c, kvt_seq handle);

/* Find a sequence for a call that may not come during a step, nor while it is swapped out. */
kvt_status seq_idle(const kvt_cache *c, kvt_seq handle, const char *call, seq **out);

/* Blocks that n_tokens tokens fill, the last one perhaps in part. */
int seq_blocks_of(const kvt_cache *c, int n_tokens);

/* One block more at the end of the table. False: none is free. */
bool seq_grow(kvt_cache *c, seq *s);
/* Give blocks back from the end until n are left. */
void seq_shrink(kvt_cache *c, seq *s, int n);
/* Of blocks that nobody else has found yet: they are not what a prefix should be found by. */
void seq_forget(kvt_cache *c, const seq *s, int first);
/* Give all blocks back, as ones that others may begin with. */
void seq_rest(kvt_cache *c, seq *s);
/* Keep n_tokens tokens, and the blocks that the kind of cache says. */
void seq_cut(kvt_cache *c, seq *s, int n_tokens);

#endif
