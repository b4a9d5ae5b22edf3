/* cache.c - owns open and close, the sizes of the tables, and kvt_bytes. The memory is three pieces, four where blocks
 * are sealed: the store of keys and values, the hot ones, the tables (this structure first), the scratch of a step. */
#include "cache.h"

#include <string.h>

#include "base/fp.h"
#include "base/sys.h"

#if defined(KVT_POISON)
enum { POISON = 1 };
#else
enum { POISON = 0 };
#endif

kvt_options kvt_options_default(void) {
    return (kvt_options){
        .kind = KVT_PAGED,
        .k_format = KVT_BF16,
        .v_format = KVT_BF16,
        .block_tokens = 32,
        .hot_tokens = 1,
        .sequences_max = 16,
        .tokens_max = 4096,
        .batch_tokens_max = 512,
        .math = KVT_MATH_FAST,
        .moves_max = 64,
    };
}

/* -------------------------------------------------------------------------------------------- sizes */

static size_t balance_of(const kvt_layer *l) {
    return l->k_balance ? (size_t)l->n_heads_kv * (size_t)l->dim_k : 0;
}

static size_t balances_of(const kvt_options *opt) {
    size_t n = 0;
    for (int i = 0; i < opt->n_layers; i++) n += balance_of(&opt->layers[i]);
    return n;
}

/* Lay the records of a cache out in `a`; in the second pass `at` is the structure that the first cut yields. */
static void carve_tables(kvt_cache *at, carve *a, const kvt_options *opt, const layout *l) {
    carve_take(a, 1, sizeof *at);
    at->layers = carve_take(a, (size_t)opt->n_layers, sizeof *at->layers);
    at->balances = carve_take(a, balances_of(opt), sizeof *at->balances);
    pool_carve(&at->pool, a, l->n_blocks, l->block_tokens);
    hot_carve(&at->hot, a, l);
    seqs_carve(&at->seqs, a, opt->sequences_max, l->seq_blocks);
    step_carve(&at->step, a, l, opt->n_layers, opt->batch_tokens_max);
    prefix_carve(&at->prefix, a, opt, l);
    move_carve(&at->mover, a, opt, l);
    swap_carve(&at->swap, a, opt);
}

static kvt_status sizes_of(const kvt_options *opt, bool seal, const log_sink *log, layout *l, kvt_bytes_info *out) {
    kvt_cache unplaced;
    carve tables = {0}, scratch = {0};
    *out = (kvt_bytes_info){0};
    kvt_status status = layout_of(opt, seal, log, l);
    out->bytes_per_token = l->bytes_per_token;
    out->bytes_per_block = l->bytes_per_block;
    out->n_blocks = (size_t)l->n_blocks;
    if (status != KVT_OK) return status;
    carve_tables(&unplaced, &tables, opt, l);
    attend_carve(&unplaced.attend, &scratch, l);
    out->bits_per_element = l->bits_per_element;
    out->bytes_cache = l->bytes_cache;
    out->bytes_hot = l->bytes_hot;
    out->bytes_tables = tables.used;
    out->bytes_scratch = scratch.used;
    if (mem_add(tables.used, scratch.used, &out->bytes_total) &&
        mem_add(out->bytes_total, l->bytes_cache, &out->bytes_total) &&
        mem_add(out->bytes_total, l->bytes_hot, &out->bytes_total))
        return KVT_OK;
    return log_fail(log, KVT_E_LIMIT, "%d blocks, %d sequences and %d rows need more memory than has an address",
                    l->n_blocks, opt->sequences_max, opt->batch_tokens_max);
}

kvt_status kvt_bytes(const kvt_options *opt, kvt_bytes_info *out) {
    layout l;
    if (!opt || !out) return KVT_E_ARGUMENT;
    uint64_t fp = fp_enter();
    kvt_status status = sizes_of(opt, false, &(log_sink){opt->log, opt->log_ctx}, &l, out);
    fp_leave(fp);
    return status;
}

/* ---------------------------------------------------------------------------------------------- open */

static void *memory_take(const mem_source *source, const log_sink *log, const char *what, size_t n) {
    void *p = mem_take(source, n);
    if (!p) log_fail(log, KVT_E_MEMORY, "%zu bytes of memory for %s cannot be had", n, what);
    return p;
}

/* The tables, with the cache at their start. */
static kvt_cache *tables_take(const kvt_options *opt, const layout *l, const kvt_bytes_info *bytes) {
    mem_source source = {opt->alloc, opt->release, opt->alloc_ctx};
    log_sink log = {opt->log, opt->log_ctx};
    char *base = memory_take(&source, &log, "tables", bytes->bytes_tables);
    if (!base) return NULL;
    kvt_cache *c = (kvt_cache *)base;
    carve_tables(c, &(carve){.base = base}, opt, l);
    c->log = log;
    c->clock = opt->clock;
    c->clock_ctx = opt->clock_ctx;
    c->source = source;
    c->layout = *l;
    c->tables_bytes = bytes->bytes_tables;
    c->scratch_bytes = bytes->bytes_scratch;
    return c;
}

static void describe_layers(kvt_cache *c, const kvt_options *opt) {
    size_t region = 0, hot_region = 0; /* whole lines: every tile and record is a multiple of 64 bytes */
    float *balance = c->balances;
    for (int i = 0; i < opt->n_layers; i++) {
        layer_shape *l = &c->layers[i];
        size_t n_balance = balance_of(&opt->layers[i]);
        *l = layer_shape_of(opt, i);
        l->kept.region = region;
        l->hot.region = hot_region;
        region += l->kept.bytes * (size_t)c->layout.n_blocks;
        hot_region += l->hot.bytes * (size_t)c->layout.n_slots;
        if (n_balance == 0) continue;
        l->k_balance = memcpy(balance, opt->layers[i].k_balance, n_balance * sizeof *balance);
        balance += n_balance;
    }
}

static void describe(kvt_cache *c, const kvt_options *opt, const cache_check *check) {
    c->kind = opt->kind;
    c->math = opt->math;
    c->n_layers = opt->n_layers;
    c->tokens_max = opt->tokens_max;
    c->batch_tokens_max = opt->batch_tokens_max;
    c->k_number = (int)opt->k_format;
    c->v_number = (int)opt->v_format;
    c->k_format = kv_format_of(c->k_number);
    c->v_format = kv_format_of(c->v_number);
    c->k_hot = element_format_of(c->k_format->hot_k);
    c->v_hot = element_format_of(c->v_format->hot_v);
    c->kernels = check && check->kernels ? check->kernels : kernels_get();
    c->poison = check ? check->poison : POISON;
    c->read_apart = opt->read_apart != 0;
    describe_layers(c, opt);
    pool_open(&c->pool);
    hot_open(&c->hot, &c->layout);
    seqs_open(&c->seqs, c->layout.seq_blocks);
    prefix_open(c, opt, check ? check->key_bits : 0);
}

static kvt_status memory_open(kvt_cache *c) {
    c->store = memory_take(&c->source, &c->log, "keys and values", c->layout.bytes_cache);
    if (!c->store) return KVT_E_MEMORY;
    size_t hot = c->layout.bytes_hot;
    if (hot > 0) c->hot.store = memory_take(&c->source, &c->log, "hot keys and values", hot);
    if (hot > 0 && !c->hot.store) return KVT_E_MEMORY;
    c->scratch = memory_take(&c->source, &c->log, "scratch", c->scratch_bytes);
    if (!c->scratch) return KVT_E_MEMORY;
    attend_carve(&c->attend, &(carve){.base = c->scratch}, &c->layout);
    return KVT_OK;
}

static kvt_status workers_open(kvt_cache *c, const kvt_options *opt) {
    c->workers = opt->workers;
    if (c->workers) return KVT_OK;
    kvt_status status = kvt_workers_open(&c->workers_own, c->layout.n_threads);
    c->workers = c->workers_own;
    if (status == KVT_OK) return KVT_OK;
    return log_fail(&c->log, status, "%d threads cannot be had", c->layout.n_threads);
}

static kvt_status open_sized(kvt_cache **out, const kvt_options *opt, const cache_check *check) {
    log_sink log = {opt->log, opt->log_ctx};
    kvt_bytes_info bytes;
    layout l;
    TRY(sizes_of(opt, check && check->seal, &log, &l, &bytes));
    /* Untouched pages cost nothing, so the system would agree to more than there is, and end the program later. */
    if (bytes.bytes_total > sys_memory_total())
        return log_fail(&log, KVT_E_MEMORY, "the cache needs %zu bytes, this machine has %zu", bytes.bytes_total,
                        sys_memory_total());
    kvt_cache *c = *out = tables_take(opt, &l, &bytes);
    if (!c) return KVT_E_MEMORY;
    describe(c, opt, check);
    TRY(memory_open(c));
    TRY(workers_open(c, opt));
    TRY(move_open(c, check && check->moves_inline));
    spill_open(c, opt);
    swap_open(c);
    return KVT_OK;
}

kvt_status cache_open(kvt_cache **out, const kvt_options *opt, const cache_check *check) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (!opt) return KVT_E_ARGUMENT;
    uint64_t fp = fp_enter();
    kvt_status status = open_sized(out, opt, check);
    fp_leave(fp);
    if (status != KVT_OK) {
        kvt_close(*out);
        *out = NULL;
    }
    return status;
}

kvt_status kvt_open(kvt_cache **out, const kvt_options *opt) {
    return cache_open(out, opt, NULL);
}

void kvt_close(kvt_cache *c) {
    if (!c) return;
    spill_close(c);
    move_close(c);
    kvt_workers_close(c->workers_own);
    mem_source source = c->source; /* the cache itself lies in the tables */
    mem_give(&source, c->scratch, c->scratch_bytes);
    mem_give(&source, c->hot.store, c->layout.bytes_hot);
    mem_give(&source, c->store, c->layout.bytes_cache);
    mem_give(&source, c, c->tables_bytes);
}
