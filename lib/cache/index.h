/* index.h - what is known of prefixes: an entry for each block by its key, which is kept for a while after the block is
 * gone. Which blocks are idle, and which of them leaves first, is evict.h's. */
#ifndef KVT_INDEX_H
#define KVT_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"

enum { INDEX_NONE = -1 };

enum { INDEX_HEAPS = 2 };      /* evict.h's: each has its place in an entry */
#define INDEX_NEVER UINT64_MAX /* a time that does not come */

/* A block that is in the cache, or was, or may come to be (a ghost). A block in the cache has its parent there too.
 * It fills a line of a processor's cache. */
typedef struct index_entry {
    uint64_t key;        /* of the block and all before it */
    uint64_t last;       /* request that read it last */
    double score;        /* evict.c */
    uint64_t expires_ns; /* when its time is over; INDEX_NEVER; 0: nobody has read it since it came into the cache */
    int32_t chain;       /* the next entry of the same bucket, or of those that are free */
    int32_t block;       /* INDEX_NONE: a ghost */
    union {
        struct {
            int32_t parent;     /* of a block in the cache: the entry before it; INDEX_NONE: the first of its prefix */
            int32_t n_children; /* blocks in the cache whose parent this one is */
        };
        struct {
            int32_t older, newer; /* of a ghost: neighbours in the order of leaving */
        };
    };
    int32_t place[INDEX_HEAPS]; /* among the blocks that may leave; INDEX_NONE: it may not */
    uint32_t n_pins;
    uint8_t n_uses;  /* requests that read it, up to INDEX_USES */
    int8_t priority; /* the highest of those who read it since it came into the cache; INT8_MIN: nobody did */
    bool held;       /* somebody reads it now */
} index_entry;

enum { INDEX_USES = 10 }; /* more say nothing that ten do not: what is read so often stays */

typedef struct index_table {
    index_entry *entry; /* [n_entries] */
    int32_t *bucket;    /* [n_buckets] the first entry of each; n_buckets is a power of two */
    int n_entries, n_used, n_buckets;
    int32_t free;           /* the first of entries that were in use and are no more */
    int32_t oldest, newest; /* ghosts */
    int n_ghosts;
} index_table;

void index_carve(index_table *t, carve *a, int n_entries);
void index_open(index_table *t); /* empty */

int index_find(const index_table *t, uint64_t key); /* INDEX_NONE: not known */
/* An entry for a key that has none, the newest ghost: the oldest one is forgotten for it where all entries are in use.
 * At least one entry has to be unused or a ghost. */
int index_add(index_table *t, uint64_t key);
/* Forget an entry that is no ghost. */
void index_remove(index_table *t, int entry);
/* Into the list of ghosts, as the newest, without a block and children; and out of it. */
void index_bury(index_table *t, int entry);
void index_revive(index_table *t, int entry);

/* Is every entry that is in use found through its bucket, and every ghost in the list? O(entries), for checks. */
bool index_sound(const index_table *t);

#endif
