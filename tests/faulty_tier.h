/* faulty_tier.h - a tier in memory that misbehaves on a schedule: every put, get and drop draws from one sequence of
 * random numbers, every has from another, so the same calls in the same order meet the same faults. */
#ifndef TESTS_FAULTY_TIER_H
#define TESTS_FAULTY_TIER_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtile.h"

/* How probable each is, 0 .. 1, at each call. */
typedef struct faults {
    double fail;   /* put and get: KVT_E_IO, and nothing is done */
    double stall;  /* put, get and drop: it takes stall_ns more */
    double tear;   /* put: KVT_OK, but only a part of the record is kept, or zeros behind a part, or a bit is wrong */
    double lie;    /* has: the contrary. get: KVT_OK, with another record's bytes, or with noise where there is none */
    double forget; /* put, get and drop: some record is gone before */
} faults;

typedef struct faulty_options {
    uint64_t seed;
    uint64_t bytes_max; /* of records; 0: no limit. The least recently used leave */
    faults faults;
    uint64_t stall_ns;
    uint64_t *clock; /* NULL: a stall sleeps. If not, it is added to this, and nobody waits */
} faulty_options;

typedef struct faulty_counts {
    uint64_t puts, gets, has, drops;              /* calls */
    uint64_t fails, stalls, tears, lies, forgets; /* faults */
    uint64_t evicted;                             /* records that left for others */
} faulty_counts;

typedef struct faulty_tier faulty_tier;

/* kvt_tier_close frees both. */
kvt_tier *faulty_tier_new(faulty_tier **out, const faulty_options *opt);
/* From now on. The sequences of random numbers go on. */
void faulty_set(faulty_tier *f, faults from_now);
faulty_counts faulty_counts_of(faulty_tier *f);

/* The bytes of a record, n of them, which stay there until the next call that changes it; NULL: it is not there. A test
 * may change them while no cache works on the tier. */
uint8_t *faulty_record(faulty_tier *f, const kvt_tier_key *key, uint64_t *n);

/* Close a gate in front of put, get and drop, and open it. */
void faulty_shut(faulty_tier *f);
void faulty_let_in(faulty_tier *f);
/* Until a call waits at the gate. */
void faulty_wait_for_one(faulty_tier *f);

#endif
