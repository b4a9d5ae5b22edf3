/* cache.h - the door of the cache room. The world uses kvtile.h; what is here beyond it is for the room itself and for
 * checks that look inside. */
#ifndef KVT_CACHE_H
#define KVT_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "attend.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "format/format.h"
#include "hot.h"
#include "kernel/kernel.h"
#include "kvtile_ops.h"
#include "layer.h"
#include "match.h"
#include "move.h"
#include "pool.h"
#include "prefix.h"
#include "room.h"
#include "seq.h"
#include "spill.h"
#include "step.h"
#include "store.h"
#include "swap.h"

typedef struct cache_counts {
    uint64_t n_commits, n_aborts, n_full, tokens_committed;
} cache_counts;

struct kvt_cache {
    /* what it is */
    kvt_cache_kind kind;
    kvt_math math;
    int n_layers, tokens_max, batch_tokens_max;
    layer_shape *layers; /* [n_layers] */
    float *balances;     /* of all layers that have some, one behind the other */
    int k_number, v_number; /* of the formats */
    const kv_format *k_format, *v_format;
    const element_format *k_hot, *v_hot; /* of tiles that are not sealed */
    layout layout;
    const kernels *kernels;
    bool poison;     /* freed blocks are filled with NaN */
    bool read_apart; /* shared blocks once for each sequence */

    /* what it stands on */
    log_sink log;
    kvt_clock_fn clock; /* NULL: the system's */
    void *clock_ctx;
    mem_source source;
    kvt_workers *workers, *workers_own; /* own: made by kvt_open, or NULL */
    size_t tables_bytes, scratch_bytes; /* this structure lies at the start of the tables */
    char *scratch;
    char *store; /* keys and values: a region per layer. Those that are hot lie in hot.store */

    /* what it knows */
    pool pool;
    hot_pool hot;
    seqs seqs;
    step step;
    attend attend;
    cache_counts counts;
    prefix prefix;
    mover mover;
    spill spill;
    swap swap;
};

/* kvt_open with the kernels of one path, poisoned blocks, and blocks that are sealed though they are not encoded: their
 * records are copies of hot tiles; moves without threads; blocks looked up by fewer bits of their
 * keys. For checks. NULL: as kvt_open. */
typedef struct cache_check {
    const kernels *kernels; /* NULL: kernels_get() */
    bool poison, seal, moves_inline;
    int key_bits; /* 0: all */
} cache_check;
static inline uint64_t cache_now(const kvt_cache *c) {
    return c->clock ? c->clock(c->clock_ctx) : sys_now_ns();
}
/* When so many nanoseconds from now on are over; 0: never, as none are, or more than the clock has left. */
static inline uint64_t cache_end_of(const kvt_cache *c, uint64_t ns) {
    uint64_t now = ns ? cache_now(c) : 0;
    return ns < INDEX_NEVER - now ? ns + now : 0;
}

kvt_status cache_open(kvt_cache **out, const kvt_options *opt, const cache_check *check);

#endif
