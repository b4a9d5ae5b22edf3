/* hot.h - where a sealing cache keeps blocks that are not sealed: slots, and staging places for the open step. A place
 * goes with the number of its block, so tables, sharing and forks know nothing of it. */
#ifndef KVT_HOT_H
#define KVT_HOT_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"
#include "kvtile.h"
#include "layer.h"

enum { HOT_NONE = -1 };

typedef struct hot_pool {
    int n_slots, n_stages;
    int n_free, free_first;
    int n_staged;  /* staging places taken in this step */
    int32_t *next; /* [n_slots] the free slot behind this one; HOT_NONE ends the list */
    int32_t *of;   /* [n_blocks] place of a block: a slot, or n_slots + a staging place; HOT_NONE: none */
    int32_t *mark; /* [n_slots + n_stages] for walks; 0 in between */
    char *store;   /* a region of slots per layer, then the staging places */
} hot_pool;

void hot_carve(hot_pool *h, carve *a, const layout *l);
void hot_open(hot_pool *h, const layout *l);

/* A slot for a block that has no place; there are always enough. */
void hot_take(kvt_cache *c, int block);
/* A staging place instead: of each layer it holds the tiles only until the next layer is stored. */
void hot_stage(kvt_cache *c, int block);
/* Give the block's place back, if it has one. */
void hot_give(kvt_cache *c, int block);
/* No staging place is taken any more. */
void hot_unstage(kvt_cache *c);

/* Is the block at `index` of a sequence of `length` committed tokens a hot one: one of the first, or open? */
bool hot_is_due(const kvt_cache *c, int index, int length);

/* First hot key tile and first hot value tile of one head of a block; of a cache that does not seal, of any block. */
char *hot_keys(const kvt_cache *c, const layer_shape *l, int block, int head);
char *hot_values(const kvt_cache *c, const layer_shape *l, int block, int head);

/* Make the block one that values may be written into token by token: a weight of 0 still multiplies what lies in the
 * slots that no token fills, and so does the 0 of a padded query in padded keys. */
void hot_clear(const kvt_cache *c, const layer_shape *l, int block);

/* Copy the hot tiles of one block onto another, in one layer; both have a place. */
void hot_copy(const kvt_cache *c, const layer_shape *l, int from, int to);

#endif
