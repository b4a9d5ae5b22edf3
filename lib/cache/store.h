/* store.h - the bytes of keys and values by block: where a block's lie, and what is done to whole blocks. */
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

/* A block of a layer. In it the record (of a cache that does not seal the first tile) of one head's keys and values. */
char *store_block(const kvt_cache *c, const layer_shape *l, int block);
char *store_keys(const kvt_cache *c, const layer_shape *l, int block, int head);
char *store_values(const kvt_cache *c, const layer_shape *l, int block, int head);

/* Copy whole blocks, ids included, on the cache's workers. The copy of a hot block is hot. */
void store_copy(kvt_cache *c, store_copies copies);

/* Fill a freed block with NaN, so that whoever still reads it is found out. */
void store_poison(kvt_cache *c, int block);

/* Key [dim_k] and value [dim_v] of one slot, widened. For checks, of formats that are not encoded. */
void store_get(const kvt_cache *c, int layer, int block, int slot, int head, float *k, float *v);

#endif
