/* pool.c - owns the free list and the reference counts: take, share and give are O(1) and allocate nothing. Leaves the
 * bytes of a block to store.c, who names it to seq.c, and which idle ones stay to prefix.c. */
#include "pool.h"

#include <assert.h>

void pool_carve(pool *p, carve *a, int n_blocks, int block_tokens) {
    size_t n = (size_t)n_blocks;
    p->n_blocks = n_blocks;
    p->block_tokens = block_tokens;
    p->next = carve_take(a, n, sizeof *p->next);
    p->refs = carve_take(a, n, sizeof *p->refs);
    p->leases = carve_take(a, n, sizeof *p->leases);
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

/* A block comes into use that was free or idle. */
static void begin_use(pool *p) {
    p->counts.taken++;
    if (pool_n_used(p) > p->counts.used_most) p->counts.used_most = pool_n_used(p);
}

static void wake(pool *p, int block) {
    if (pool_in_use(p, block)) return;
    p->n_idle--;
    begin_use(p);
}

static bool rest(pool *p, int block) {
    if (pool_in_use(p, block)) return false;
    p->n_idle++;
    p->counts.given++;
    return true;
}

int pool_take(pool *p) {
    int block = p->free_first;
    if (block == POOL_NONE) return POOL_NONE;
    assert(!pool_in_use(p, block));
    p->free_first = p->next[block];
    p->n_free--;
    p->refs[block] = 1;
    begin_use(p);
    return block;
}

void pool_share(pool *p, int block) {
    wake(p, block);
    if (p->refs[block]++ == 1) p->n_shared++;
}

bool pool_leave(pool *p, int block) {
    assert(p->refs[block] > 0);
    if (--p->refs[block] == 1) p->n_shared--;
    return rest(p, block);
}

void pool_lease(pool *p, int block) {
    wake(p, block);
    p->leases[block]++;
}

bool pool_unlease(pool *p, int block) {
    assert(p->leases[block] > 0);
    p->leases[block]--;
    return rest(p, block);
}

void pool_vacate(pool *p, int block) {
    assert(!pool_in_use(p, block));
    p->n_idle--;
    p->next[block] = p->free_first;
    p->free_first = block;
    p->n_free++;
}

bool pool_give(pool *p, int block) {
    if (!pool_leave(p, block)) return false;
    pool_vacate(p, block);
    return true;
}
