/* request.c - the prefix index without bytes: a request against entries, pool and eviction (kvt_index of kvtile.h). */
#include "base/fp.h"
#include "base/log.h"
#include "evict.h"
#include "kvtile.h"
#include "pool.h"

struct kvt_index {
    int blocks_max, chain_max;
    size_t bytes;
    index_table table;
    evict evict;
    pool pool;
    int32_t *held; /* [chain_max] entries of the request */
};

enum { GHOSTS_EACH = 16, BLOCKS_MAX = 1 << 26, CHAIN_MAX = 1 << 20, GHOSTS_MAX = 1 << 28 };

static void carve_all(kvt_index *x, carve *a, const kvt_index_options *opt, int n_ghosts) {
    int n_blocks = opt->blocks_max + opt->chain_max;
    carve_take(a, 1, sizeof *x);
    pool_carve(&x->pool, a, n_blocks, 0);
    index_carve(&x->table, a, n_blocks + n_ghosts);
    evict_carve(&x->evict, a, n_blocks);
    x->held = carve_take(a, (size_t)opt->chain_max, sizeof *x->held);
}

static bool options_good(const kvt_index_options *opt) {
    return opt->blocks_max >= 1 && opt->blocks_max <= BLOCKS_MAX && opt->chain_max >= 1 &&
           opt->chain_max <= CHAIN_MAX && opt->ghosts_max >= -1 && opt->ghosts_max <= GHOSTS_MAX;
}

kvt_status kvt_index_open(kvt_index **out, const kvt_index_options *opt) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (!opt || !options_good(opt)) return KVT_E_ARGUMENT;
    int64_t n_ghosts = opt->ghosts_max < 0 ? (int64_t)opt->blocks_max * GHOSTS_EACH : opt->ghosts_max;
    if (n_ghosts > GHOSTS_MAX) n_ghosts = GHOSTS_MAX;
    kvt_index unplaced;
    carve size = {0};
    carve_all(&unplaced, &size, opt, (int)n_ghosts);
    kvt_index *x = mem_take(NULL, size.used);
    if (!x) return KVT_E_MEMORY;
    carve_all(x, &(carve){.base = (char *)x}, opt, (int)n_ghosts);
    x->bytes = size.used;
    x->blocks_max = opt->blocks_max;
    x->chain_max = opt->chain_max;
    pool_open(&x->pool);
    index_open(&x->table);
    evict_open(&x->evict, &x->table);
    *out = x;
    return KVT_OK;
}

void kvt_index_close(kvt_index *index) {
    if (index) mem_give(NULL, index, index->bytes);
}

/* ---------------------------------------------------------------------------------------------- a request */

/* What of the prefix is there, what is known, and when that was read last. */
typedef struct known {
    int n_hit, n_known;
    uint64_t gap;
} known;

static known known_of(const kvt_index *x, const uint64_t *keys, int n_blocks) {
    known k = {0};
    int last = INDEX_NONE;
    for (; k.n_known < n_blocks; k.n_known++) {
        int entry = index_find(&x->table, keys[k.n_known]);
        if (entry == INDEX_NONE) break;
        if (k.n_hit == k.n_known && x->table.entry[entry].block != INDEX_NONE) k.n_hit++;
        last = entry;
    }
    if (k.n_known > 1) k.gap = x->evict.now + 1 - x->table.entry[last].last;
    return k;
}

/* The entry of a key, with a block of the pool, which has room for a whole request beside what stays. */
static int entry_with_block(kvt_index *x, uint64_t key, int parent) {
    int entry = index_find(&x->table, key);
    if (entry == INDEX_NONE) entry = index_add(&x->table, key);
    if (x->table.entry[entry].block == INDEX_NONE) evict_adopt(&x->evict, entry, parent, pool_take(&x->pool));
    return entry;
}

/* What is too much leaves. */
static int shrink(kvt_index *x) {
    int n = 0;
    for (int32_t block; x->pool.n_blocks - x->pool.n_free > x->blocks_max; n++) {
        if (evict_next(&x->evict, &block) == INDEX_NONE) break;
        pool_give(&x->pool, block);
    }
    return n;
}

kvt_status kvt_index_request(kvt_index *x, const uint64_t *keys, int n_blocks, int n_full, kvt_index_result *out) {
    if (!x || !out || n_blocks < 0 || (n_blocks > 0 && !keys)) return KVT_E_ARGUMENT;
    if (n_blocks > x->chain_max) return KVT_E_LIMIT;
    uint64_t callers = fp_enter();
    known k = known_of(x, keys, n_blocks);
    evict_reader reader = evict_begin(&x->evict, n_blocks - k.n_known, k.gap);
    for (int i = 0; i < n_blocks; i++) {
        x->held[i] = entry_with_block(x, keys[i], i > 0 ? x->held[i - 1] : INDEX_NONE);
        evict_hold(&x->evict, x->held[i], i, i >= n_full, &reader);
    }
    for (int i = n_blocks - 1; i >= 0; i--) evict_release(&x->evict, x->held[i]);
    *out = (kvt_index_result){.n_hit = k.n_hit, .n_cold = n_blocks - k.n_known, .n_evicted = k.n_known - k.n_hit};
    out->n_left = shrink(x);
    fp_leave(callers);
    return KVT_OK;
}
