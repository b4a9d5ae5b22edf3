/* store.h - the bytes of keys and values: where a tile lies, and what is done to whole blocks of them. */
#ifndef KVT_STORE_H
#define KVT_STORE_H

#include <stdint.h>

#include "kvtile.h"
#include "layer.h"

/* Blocks from[i] are copied onto blocks to[i], in every layer. */
typedef struct store_copies {
    const int32_t *from, *to;
    int n;
} store_copies;

/* First key tile and first value tile of one head of a block. */
char *store_keys(const kvt_cache *c, const layer_shape *l, int block, int head);
char *store_values(const kvt_cache *c, const layer_shape *l, int block, int head);

/* Make the block one that values may be written into token by token: a weight of 0 still multiplies what lies in the
 * slots that no token fills, and so does the 0 of a padded query in padded keys. */
void store_clear(const kvt_cache *c, const layer_shape *l, int block);

/* Copy whole blocks, ids included, on the cache's workers. */
void store_copy(kvt_cache *c, store_copies copies);

/* Fill a freed block with NaN, so that whoever still reads it is found out. */
void store_poison(kvt_cache *c, int block);

/* Widened key [dim_k] and value [dim_v] of one slot. For checks. */
void store_get(const kvt_cache *c, int layer, int block, int slot, int head, float *k, float *v);

#endif
