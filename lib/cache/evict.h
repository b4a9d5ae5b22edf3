/* evict.h - which idle block leaves when room is needed. A block's children leave before it, so that what stays is
 * always the beginning of prefixes.
 *
 * The rule, found by replaying traces of serving (docs/eviction.md): the block with the lowest score leaves,
 *
 *     score = request that read it last + g * (uses / 2 - log2(1 + new) / 4 - log2(1 + depth) / 20 - late - open)
 *
 * g     the typical gap between two reads of one block, learned while running: everything else is in its units
 * uses  requests that read the block, up to ten, counted on over its absence: what came back once comes back again
 * new   blocks that its last request read for the first time: long new texts are rarely read again, a short addition to
 *       something known is a conversation going on
 * depth of the block in its prefix
 * late  log2 of how long what the request knows of the prefix had not been read, over 2 g, where that is above 0
 * open  a block that was not full when it was read, the end of a prompt: it is read again only by the very same prompt
 *
 * One request costs O(log blocks) for each of its blocks. */
#ifndef KVT_EVICT_H
#define KVT_EVICT_H

#include "index.h"

typedef struct evict {
    index_table *index;
    int32_t *heap; /* [n_blocks] entries that may leave: idle and without children; the lowest score on top */
    int n_heap;
    uint32_t now;    /* requests so far */
    double bonus;    /* of the blocks of this request, in typical gaps */
    double gap_ln;   /* natural logarithm of g, in requests */
    uint32_t n_gaps; /* it was learned from, up to a limit */
} evict;

void evict_carve(evict *v, carve *a, int n_blocks);
void evict_open(evict *v, index_table *index);

/* A request begins: ages are counted in requests.
 * n_new: blocks of it that are not known. gap: requests since the last one of its known blocks was read; 0: it knows
 * none, or only the first. */
void evict_begin(evict *v, int n_new, uint32_t gap);
/* It holds a block of the cache, which has `depth` blocks before it in its prefix: it cannot leave until evict_release.
 * open: the block is not full. */
void evict_hold(evict *v, int entry, int depth, bool open);
/* Nobody reads it any more. */
void evict_release(evict *v, int entry);

/* The entry whose block leaves: its block's number is taken off it, and it is a ghost from here on. INDEX_NONE: none
 * may leave. */
int evict_next(evict *v, int32_t *block);

#endif
