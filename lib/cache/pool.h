/* pool.h - numbered blocks: which are free, how many tables name each of the others, what their slots hold.
 *
 * A block is free, in use (tables name it, or moves read or write it), or idle: neither, and not made free. */
#ifndef KVT_POOL_H
#define KVT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"

enum { POOL_NONE = -1 };

typedef struct pool_counts {
    uint64_t taken, given, copied; /* so far; taken: into use, also from idle */
    int used_most;
} pool_counts;

typedef struct pool {
    int n_blocks, block_tokens;
    int n_free, n_idle, n_shared;
    int free_first;
    int32_t *next;    /* [n_blocks] the free block behind this one; POOL_NONE ends the list */
    int32_t *refs;    /* [n_blocks] tables that name the block */
    int32_t *leases;  /* [n_blocks] moves that read or write it */
    int32_t *written; /* [n_blocks] slots from here on hold zero values in every layer */
    int32_t *tokens;  /* [n_blocks][block_tokens] ids */
    int32_t *mark[2]; /* [n_blocks] each, for walks over all blocks; 0 in between */
    pool_counts counts;
} pool;

void pool_carve(pool *p, carve *a, int n_blocks, int block_tokens);
void pool_open(pool *p); /* all blocks free, lowest first */

/* A free block, named once; POOL_NONE: there is none. The last one made free is the first one taken. */
int pool_take(pool *p);
/* One name more for a block that is not free. */
void pool_share(pool *p, int block);
/* One name less. True: the block is idle now. */
bool pool_leave(pool *p, int block);
/* A move begins to read or write a block that is not free, and ends. True: the block is idle now. */
void pool_lease(pool *p, int block);
bool pool_unlease(pool *p, int block);
/* An idle block becomes free. */
void pool_vacate(pool *p, int block);
/* One name less; an idle block becomes free at once, which true says. */
bool pool_give(pool *p, int block);

static inline int pool_holders(const pool *p, int block) {
    return p->refs[block] + p->leases[block];
}
static inline bool pool_in_use(const pool *p, int block) {
    return pool_holders(p, block) > 0;
}
static inline int pool_n_used(const pool *p) {
    return p->n_blocks - p->n_free - p->n_idle;
}

/* The ids of a block's slots. */
static inline int32_t *pool_tokens(const pool *p, int block) {
    return p->tokens + (size_t)block * (size_t)p->block_tokens;
}

#endif
