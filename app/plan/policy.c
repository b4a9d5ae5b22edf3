/* policy.c - the table of policies, and the cache's own: kvt_index, which is the real pool, index and eviction. */
#include "policy.h"

#include <stdlib.h>

const policy *const policies[] = { &policy_default,   &policy_lru,     &policy_s3fifo,
                                   &policy_frequency, &policy_optimum, NULL };

const char *policy_name(int i) {
    enum { N = sizeof policies / sizeof policies[0] - 1 };
    return i >= 0 && i < N ? policies[i]->name : i == N ? "all" : NULL;
}

static kvt_status replay_requests(kvt_index *x, const trace *t, int block_tokens, uint64_t *keys, policy_counts *out) {
    for (size_t i = 0; i < t->n_requests; i++) {
        const trace_request *r = &t->request[i];
        kvt_index_result one;
        for (int j = 0; j < r->n_blocks; j++) keys[j] = (uint64_t)t->block[r->first + (size_t)j];
        kvt_status status = kvt_index_request(x, keys, r->n_blocks, trace_full_blocks(r, block_tokens), &one);
        if (status != KVT_OK) return status;
        out->n_hit += (uint64_t)one.n_hit;
        out->n_cold += (uint64_t)one.n_cold;
        out->n_evicted += (uint64_t)one.n_evicted;
        out->n_left += (uint64_t)one.n_left;
    }
    return KVT_OK;
}

static kvt_status replay(const trace *t, int capacity, int block_tokens, policy_counts *out) {
    kvt_index *x;
    int longest = t->blocks_longest > 0 ? t->blocks_longest : 1;
    /* More room than there are blocks is never used. */
    int blocks_max = capacity < t->n_distinct ? capacity : t->n_distinct > 0 ? t->n_distinct : 1;
    *out = (policy_counts){ 0 };
    kvt_status status = kvt_index_open(&x, &(kvt_index_options){ blocks_max, longest, -1 });
    if (status != KVT_OK) return status;
    uint64_t *keys = malloc((size_t)longest * sizeof *keys);
    status = keys ? replay_requests(x, t, block_tokens, keys, out) : KVT_E_MEMORY;
    free(keys);
    kvt_index_close(x);
    return status;
}

const policy policy_default = {
    .name = "default",
    .about = "the cache's own: recency, uses, and what the request was like; children leave before parents",
    .replay = replay,
};
