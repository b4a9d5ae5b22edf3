/* swap.h - a sequence in a tier: its blocks, and a list of them. */
#ifndef KVT_SWAP_H
#define KVT_SWAP_H

#include "carve.h"
#include "kvtile.h"
#include "layer.h"
#include "seq.h"

typedef struct swap {
    uint8_t nonce[16];  /* of the cache: its private records are nobody else's */
    kvt_piece *pieces;  /* [n_layers + 1] of a record */
} swap;

void swap_carve(swap *w, carve *a, const kvt_options *opt);
void swap_open(kvt_cache *c);
/* The sequence ends where it is: its own records, of n_blocks blocks, leave the tier that it was swapped out to. */
void swap_drop(kvt_cache *c, const seq *s, int tier, int n_blocks);

#endif
