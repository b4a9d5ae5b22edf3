/* sums.h - what simulations of sharing have counted, all caches together. */
#ifndef TESTS_SUMS_H
#define TESTS_SUMS_H

#include <stdint.h>

#include "kvtile.h"

typedef struct sums {
    uint64_t asked, found, fetched, resumed, finished, full, evicted, expired, merged, puts, gets, failed;
    uint64_t missed[KVT_N_MISSES];
} sums;

/* The numbers of a cache that ends; `finished` is the simulation's own. */
void sums_take(sums *to, const kvt_stats *from);
void sums_add(sums *to, const sums *from);
/* A line. hash: of the run. */
void sums_print(long n_ops, const sums *s, uint64_t hash);

#endif
