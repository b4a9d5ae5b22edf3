/* bench_cache.c - a cache in a model's geometry, filled with synthetic keys and values, and attention over it. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    if (level == KVT_LOG_ERROR) cli_fail("%s", message);
}

/* -------------------------------------------------------------------------------------------- open and close */

/* Numbers between -1 and 1, so that softmax has something to weigh. */
static float *synthetic(size_t n, uint64_t seed) {
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; x && i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
    }
    return x;
}

static bool rows_take(bench_cache *b) {
    const model_config *c = &b->config;
    size_t rows = (size_t)b->batch_max, q = rows * (size_t)c->n_heads_q, kv = rows * (size_t)c->n_heads_kv;
    size_t dim_k = (size_t)c->dim_k, dim_v = (size_t)c->dim_v;
    if ((q + kv) * (dim_k + dim_v) > sys_memory_total() / sizeof(float)) return false;
    b->q = synthetic(q * dim_k, 1);
    b->k = synthetic(kv * dim_k, 2);
    b->v = synthetic(kv * dim_v, 3);
    b->out = malloc(q * dim_v * sizeof *b->out);
    return b->q && b->k && b->v && b->out;
}

/* Synthetic keys and values are of no model. */
static const uint8_t nobodys[32] = "kvtile bench: synthetic rows";

static kvt_options options_of(const model_config *config, const common_options *c, const bench_room *room) {
    engine_options e = common_engine_options(c);
    kvt_options opt = kvt_options_default();
    opt.kind = e.kind;
    opt.n_layers = config->n_layers;
    opt.k_format = e.k_format;
    opt.v_format = e.v_format;
    opt.block_tokens = e.block_tokens;
    opt.hot_tokens = e.hot_tokens;
    opt.sequences_max = room->sequences_max;
    opt.tokens_max = room->tokens_max;
    opt.batch_tokens_max = room->batch_max;
    opt.math = e.math;
    opt.read_apart = room->read_apart;
    opt.tiers = room->tiers;
    opt.n_tiers = room->n_tiers;
    opt.identity = nobodys;
    opt.log = hear;
    return opt;
}

int bench_cache_open_room(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                          const bench_room *room) {
    kvt_options opt = options_of(config, c, room);
    kvt_bytes_info info;
    *b = (bench_cache){ .config = *config, .batch_max = room->batch_max };
    kvt_layer *layers = calloc((size_t)config->n_layers, sizeof *layers);
    if (!layers) return cli_fail("no memory for %d layers", config->n_layers);
    model_layers(config, layers);
    opt.layers = layers;
    opt.workers = team;
    kvt_status status = kvt_open(&b->cache, &opt);
    if (status == KVT_OK) status = kvt_bytes(&opt, &info);
    if (status == KVT_OK) status = kvt_seq_new(b->cache, &b->seq);
    free(layers);
    if (status != KVT_OK) return CLI_FAILED;
    b->bytes_per_token = info.bytes_per_token;
    return rows_take(b) ? CLI_DONE : cli_fail("no memory for %d rows", room->batch_max);
}

int bench_cache_open(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                     int tokens_max, int batch_max) {
    return bench_cache_open_room(b, config, team, c, &(bench_room){ 1, tokens_max, batch_max, false, NULL, 0 });
}

void bench_cache_close(bench_cache *b) {
    kvt_close(b->cache);
    free(b->q);
    free(b->k);
    free(b->v);
    free(b->out);
}

/* ------------------------------------------------------------------------------------------------ the tokens */

kvt_status bench_seq_append(bench_cache *b, kvt_seq seq, int n_rows, const int32_t *ids) {
    kvt_batch batch = { 1, &seq, &n_rows };
    kvt_status status = kvt_reserve(b->cache, &batch);
    for (int i = 0; i < b->config.n_layers && status == KVT_OK; i++)
        status = kvt_append(b->cache, i, &batch, b->k, b->v);
    return status == KVT_OK ? kvt_commit(b->cache, &batch, ids) : status;
}

int bench_seq_fill(bench_cache *b, kvt_seq seq, int n_tokens) {
    int length = kvt_seq_length(b->cache, seq);
    kvt_status status = length > n_tokens ? kvt_seq_truncate(b->cache, seq, n_tokens) : KVT_OK;
    length = kvt_seq_length(b->cache, seq); /* less than n_tokens where that is inside a sealed block */
    while (length < n_tokens && status == KVT_OK) {
        int n = n_tokens - length < b->batch_max ? n_tokens - length : b->batch_max;
        status = bench_seq_append(b, seq, n, NULL);
        length += n;
    }
    return status == KVT_OK ? CLI_DONE : cli_fail("filling the cache: %s", kvt_status_text(status));
}

int bench_cache_fill(bench_cache *b, int n_tokens) {
    return bench_seq_fill(b, b->seq, n_tokens);
}

/* Rows that see depth + 1 .. depth + n_rows tokens. */
double bench_attend_flop(const model_config *c, int depth, int n_rows) {
    double seen = (double)n_rows * depth + (double)n_rows * (n_rows + 1) / 2;
    return 2 * seen * c->n_heads_q * (c->dim_k + c->dim_v);
}

double bench_batch_attend_ms(bench_cache *b, const kvt_batch *batch) {
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_reserve(b->cache, batch);
    for (int i = 0; i < b->config.n_layers && status == KVT_OK; i++)
        status = kvt_attend(b->cache, i, batch, b->q, b->k, b->v, b->out);
    double ms = bench_ms_since(start);
    kvt_abort(b->cache, batch);
    if (status == KVT_OK) return ms;
    cli_fail("attention: %s", kvt_status_text(status));
    return -1;
}

double bench_attend_ms(bench_cache *b, int n_rows) {
    return bench_batch_attend_ms(b, &(kvt_batch){ 1, &b->seq, &n_rows });
}
