/* finds.h - for tests of what a cache finds: the toy's sequences that come and go and are asked for, and the toy over
 * one tier that can misbehave. Each fails the test if a call fails. */
#ifndef TESTS_FINDS_H
#define TESTS_FINDS_H

#include "faulty_tier.h"
#include "toy.h"

/* The toy's with an identity; n_blocks 0: as many as all sequences take. */
kvt_options finds_options(int n_sequences, int n_blocks);

kvt_seq seq_new(kvt_cache *c);
kvt_stats stats_of(const kvt_cache *c);

/* n tokens from `first` on, as toy_add gives them; up to 512, until the next call. */
int32_t *from(int32_t first, int n);
/* A sequence of n tokens that comes and goes. */
void leave_behind(kvt_cache *c, int32_t first, int n);

kvt_match_result match(kvt_cache *c, kvt_seq s, int32_t first, int n);
/* The same, until nothing is coming. */
kvt_match_result match_all(kvt_cache *c, kvt_seq s, int32_t first, int n);
/* What a new sequence finds of n tokens from `first` on. */
int found(kvt_cache *c, int32_t first, int n);

/* A tier and a cache over it, of three sequences. */
typedef struct tiered {
    kvt_tier *tier;
    faulty_tier *faulty;
    kvt_options opt;
    kvt_cache *c;
} tiered;

tiered tiered_of(int n_blocks, kvt_write write);
void tiered_open(tiered *y); /* a cache, after kvt_close of the last one a new one */
void tiered_close(tiered *y);

#endif
