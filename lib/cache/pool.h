/* pool.h - numbered blocks: which are free, how many tables name each of the others, what their slots hold. */
#ifndef KVT_POOL_H
#define KVT_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"

enum { POOL_NONE = -1 };

typedef struct pool_counts {
    uint64_t taken, given, copied; /* so far */
    int used_most;
} pool_counts;

typedef struct pool {
    int n_blocks, block_tokens;
    int n_free, n_shared;
    int free_first;
    int32_t *next;    /* [n_blocks] the free block behind this one; POOL_NONE ends the list */
    int32_t *refs;    /* [n_blocks] tables that name the block; 0: it is free */
    int32_t *written; /* [n_blocks] slots from here on hold zero values in every layer */
    int32_t *tokens;  /* [n_blocks][block_tokens] ids */
    int32_t *mark[2]; /* [n_blocks] each, for walks over all blocks; 0 in between */
    pool_counts counts;
} pool;

void pool_carve(pool *p, carve *a, int n_blocks, int block_tokens);
void pool_open(pool *p); /* all blocks free, lowest first */

/* A free block, named once; POOL_NONE: there is none. The last one given is the first one taken. */
int pool_take(pool *p);
/* One name more for a block that has one. */
void pool_share(pool *p, int block);
/* One name less. True: it was the last one, the block is free. */
bool pool_give(pool *p, int block);

/* The ids of a block's slots. */
static inline int32_t *pool_tokens(const pool *p, int block) {
    return p->tokens + (size_t)block * (size_t)p->block_tokens;
}

#endif
