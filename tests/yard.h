/* yard.h - for tests of movers: a small cache over two tiers that can misbehave, blocks whose bytes a seed spells, and
 * jobs whose record a number spells. */
#ifndef TESTS_YARD_H
#define TESTS_YARD_H

#include "faulty_tier.h"
#include "toy.h"

enum { N_TIERS = 2, MS = 1000000 };

typedef struct yard {
    kvt_cache *c;
    kvt_tier *tier[N_TIERS];
    faulty_tier *faulty[N_TIERS];
    uint64_t clock; /* of the cache; where there are no threads a stall moves it, else it sleeps */
} yard;

/* The toy's options with tiers. */
kvt_options with_tiers(kvt_options opt, kvt_tier *const *tiers, int n_tiers);

/* Without a prefix index, so that the cache moves nothing itself. The second tier has the next seed. */
yard *yard_open(kvt_options opt, faulty_options faulty, bool moves_inline);
/* Over tiers without faults. */
yard *yard_of(bool moves_inline);
void yard_close(yard *y);

/* The bytes of a block's payload, as a seed spells them. */
void block_fill(const kvt_cache *c, int block, bool hot, uint64_t seed);
bool block_holds(const kvt_cache *c, int block, bool hot, uint64_t seed);
/* One of the pool, filled. */
int block_new(kvt_cache *c, bool hot, uint64_t seed);

/* Key and job of the record of that number, which is its tag too. */
kvt_tier_key yard_key(uint32_t number);
move_job yard_job(move_kind kind, int tier, int block, uint32_t number);

void yard_add(yard *y, move_kind kind, int tier, int block, uint32_t number);
/* The next result, which is of that number; waits for it. */
move_result yard_taken(yard *y, uint32_t number);
void assert_copied(yard *y, uint32_t number);
void assert_cancelled(yard *y, uint32_t number);
void assert_done(yard *y, uint32_t number, kvt_status status);
void assert_nothing_open(yard *y);

/* The whole way, where nothing else is open. */
void yard_put(yard *y, int tier, int block, uint32_t number);
kvt_status yard_get(yard *y, int tier, int block, uint32_t number);

#endif
