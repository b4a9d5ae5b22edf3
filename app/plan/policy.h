/* policy.h - rules of which blocks stay in a cache that is too small, each replayed over a trace.
 *
 * All see a request as the cache does: its blocks are read in order and are all there afterwards, then what is too much
 * leaves. A block counts as hit only if all before it in its request were hit. */
#ifndef POLICY_H
#define POLICY_H

#include "trace.h"

typedef struct policy_counts {
    uint64_t n_hit, n_cold, n_evicted; /* blocks read: there; never read before; had to leave since */
    uint64_t n_left;                   /* times a block left */
} policy_counts;

typedef struct policy {
    const char *name, *about;
    bool foresees; /* it knows the rest of the trace: a bound, not a rule that a cache could follow */
    /* block_tokens: of a full block. KVT_E_MEMORY. */
    kvt_status (*replay)(const trace *t, int capacity, int block_tokens, policy_counts *out);
} policy;

extern const policy policy_default, policy_lru, policy_s3fifo, policy_frequency, policy_optimum;

/* Ends at NULL: the cache's own first, the bound last. */
extern const policy *const policies[];
/* Their names one by one, and "all"; NULL behind that. */
const char *policy_name(int i);

#endif
