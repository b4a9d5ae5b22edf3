/* pool.c - owns the free list and the reference counts: take, share and give are O(1) and allocate nothing. Leaves the
 * bytes of a block to store.c and who names it to seq.c. */
#include "pool.h"

#include <assert.h>

void pool_carve(pool *p, carve *a, int n_blocks, int block_tokens) {
    size_t n = (size_t)n_blocks;
    p->n_blocks = n_blocks;
    p->block_tokens = block_tokens;
    p->next = carve_take(a, n, sizeof *p->next);
    p->refs = carve_take(a, n, sizeof *p->refs);
    p->written = carve_take(a, n, sizeof *p->written);
    p->mark[0] = carve_take(a, n, sizeof *p->mark[0]);
    p->mark[1] = carve_take(a, n, sizeof *p->mark[1]);
    p->tokens = carve_take(a, n * (size_t)block_tokens, sizeof *p->tokens);
}

void pool_open(pool *p) {
    for (int i = 0; i < p->n_blocks; i++) p->next[i] = i + 1 < p->n_blocks ? i + 1 : POOL_NONE;
    p->free_first = 0;
    p->n_free = p->n_blocks;
}

int pool_take(pool *p) {
    int block = p->free_first;
    if (block == POOL_NONE) return POOL_NONE;
    assert(p->refs[block] == 0);
    p->free_first = p->next[block];
    p->n_free--;
    p->refs[block] = 1;
    p->counts.taken++;
    int used = p->n_blocks - p->n_free;
    if (used > p->counts.used_most) p->counts.used_most = used;
    return block;
}

void pool_share(pool *p, int block) {
    assert(p->refs[block] > 0);
    if (p->refs[block]++ == 1) p->n_shared++;
}

bool pool_give(pool *p, int block) {
    assert(p->refs[block] > 0);
    if (--p->refs[block] == 1) p->n_shared--;
    if (p->refs[block] > 0) return false;
    p->next[block] = p->free_first;
    p->free_first = block;
    p->n_free++;
    p->counts.given++;
    return true;
}
