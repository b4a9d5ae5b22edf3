/* index.h - what is known of prefixes: an entry for each block by its key, which is kept for a while after the block is
 * gone. Which blocks are idle, and which of them leaves first, is evict.h's. */
#ifndef KVT_INDEX_H
#define KVT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"

enum { INDEX_NONE = -1 };

/* A block that is in the cache, or was (a ghost). A block in the cache has its parent there too. */
typedef struct index_entry {
    uint64_t key;         /* of the block and all before it */
    int32_t chain;        /* the next entry of the same bucket */
    int32_t block;        /* INDEX_NONE: a ghost */
    int32_t parent;       /* of a block in the cache: the entry before it; INDEX_NONE: the first of its prefix */
    int32_t n_children;   /* blocks in the cache whose parent this one is */
    int32_t heap_at;      /* place among the blocks that may leave; INDEX_NONE: it may not */
    int32_t older, newer; /* of a ghost: neighbours in the order of leaving */
    uint32_t last;        /* request that read it last */
    uint16_t n_uses;      /* requests that read it, up to INDEX_USES */
    bool held;            /* somebody reads it now */
    double score;         /* evict.c */
} index_entry;

enum { INDEX_USES = 10 }; /* more say nothing that ten do not: what is read so often stays */

typedef struct index_table {
    index_entry *entry; /* [n_entries] */
    int32_t *bucket;    /* [n_buckets] the first entry of each; n_buckets is a power of two */
    int n_entries, n_used, n_buckets;
    int32_t oldest, newest; /* ghosts */
    int n_ghosts;
} index_table;

void index_carve(index_table *t, carve *a, int n_entries);
void index_open(index_table *t); /* empty */

int index_find(const index_table *t, uint64_t key); /* INDEX_NONE: not known */
/* An entry for a key that has none, a ghost that stands in no list: the oldest ghost is forgotten for it where all
 * entries are in use. At least one entry has to be unused or a ghost. */
int index_add(index_table *t, uint64_t key);
/* Into the list of ghosts, as the newest; and out of it. */
void index_bury(index_table *t, int entry);
void index_revive(index_table *t, int entry);

#endif
