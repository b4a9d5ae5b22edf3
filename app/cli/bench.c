/* bench.c - kvtile bench: the table of measurements, and what they share. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} benches[] = {
    { "reuse", "one prompt without a cache, with a contiguous and with a paged one: positions, seconds, bytes",
      bench_reuse },
    { "memory", "a trace of requests: the share of reserved memory that holds tokens", bench_memory },
    { "decode", "time per token behind a given number of tokens", bench_decode },
    { "prefill", "tokens per second of reading a prompt", bench_prefill },
    { "attend", "attention alone, per layer: GB/s and GFLOP/s", bench_attend },
};
enum { N_BENCHES = sizeof benches / sizeof benches[0] };

int cmd_bench(int argc, char **argv) {
    bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    for (int i = 0; i < N_BENCHES && argc > 1; i++)
        if (strcmp(argv[1], benches[i].name) == 0) return benches[i].run(argc - 1, argv + 1);
    if (argc > 1 && !help) return cli_usage("bench", "there is no measurement \"%s\"", argv[1]);
    FILE *to = help ? stdout : stderr;
    fprintf(to, "usage: kvtile bench MEASUREMENT [OPTIONS]\n\n");
    for (int i = 0; i < N_BENCHES; i++) fprintf(to, "  %-10s %s\n", benches[i].name, benches[i].about);
    fprintf(to, "\nkvtile bench MEASUREMENT --help lists its options.\n");
    return help ? cli_flush() : CLI_USAGE;
}

/* --------------------------------------------------------------------------------------------- bandwidth */

enum { READ_SLICE = 2 << 20, READ_SLICES = 256, READ_PASSES = 7, READ_AHEAD = 512 }; /* 512 MB; ahead: 4 KiB in words */

typedef struct read_work {
    uint64_t *words;
    uint64_t seen[READ_SLICES]; /* what was read ends here, or the compiler would not read it */
} read_work;

static void write_slice(void *ctx, int item, int worker) {
    read_work *work = ctx;
    (void)worker;
    memset((char *)work->words + (size_t)item * READ_SLICE, item + 1, READ_SLICE);
}

static void read_slice(void *ctx, int item, int worker) {
    read_work *work = ctx;
    const uint64_t *w = work->words + (size_t)item * (READ_SLICE / sizeof *w);
    uint64_t x[8] = { 0 };
    (void)worker;
    for (size_t i = 0; i < READ_SLICE / sizeof *w; i += 8) {
        __builtin_prefetch(w + i + READ_AHEAD);
        for (int j = 0; j < 8; j++) x[j] ^= w[i + (size_t)j];
    }
    for (int j = 1; j < 8; j++) x[0] ^= x[j];
    work->seen[item] = x[0];
}

double bench_bandwidth(kvt_workers *team) {
    static read_work work;
    size_t bytes = (size_t)READ_SLICE * READ_SLICES;
    double best = 0;
    work.words = mem_take(NULL, bytes + READ_SLICE); /* the last slice prefetches behind itself */
    if (!work.words) return 0;
    kvt_workers_run(team, READ_SLICES, write_slice, &work);
    for (int i = 0; i < READ_PASSES; i++) {
        uint64_t start = sys_now_ns();
        kvt_workers_run(team, READ_SLICES, read_slice, &work);
        double rate = (double)bytes * 1e9 / (double)(sys_now_ns() - start);
        if (rate > best) best = rate;
    }
    mem_give(NULL, work.words, bytes + READ_SLICE);
    return best;
}

/* ----------------------------------------------------------------------------------------------- numbers */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

double bench_ms_since(uint64_t start_ns) {
    return (double)(sys_now_ns() - start_ns) / 1e6;
}

json_t *bench_json(const char *command, const kvt_workers *team, double bandwidth, json_t *rows) {
    return json_pack("{s:s, s:s, s:i, s:f, s:o}", "command", command, "cpu", kvt_cpu(), "threads",
                     kvt_workers_count(team), "bandwidth_read", bandwidth, "rows", rows);
}

/* ------------------------------------------------------------------------------------------- a filled cache */

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    if (level == KVT_LOG_ERROR) cli_fail("%s", message);
}

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
    b->q = synthetic(q * (size_t)c->dim_k, 1);
    b->k = synthetic(kv * (size_t)c->dim_k, 2);
    b->v = synthetic(kv * (size_t)c->dim_v, 3);
    b->out = malloc(q * (size_t)c->dim_v * sizeof *b->out);
    return b->q && b->k && b->v && b->out;
}

int bench_cache_open(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                     int tokens_max, int batch_max) {
    engine_options e = common_engine_options(c);
    kvt_options opt = kvt_options_default();
    kvt_bytes_info info;
    *b = (bench_cache){ .config = *config, .batch_max = batch_max };
    kvt_layer *layers = calloc((size_t)config->n_layers, sizeof *layers);
    if (!layers || !rows_take(b)) {
        free(layers);
        return cli_fail("no memory for %d rows", batch_max);
    }
    model_layers(config, layers);
    opt.kind = e.kind;
    opt.layers = layers;
    opt.n_layers = config->n_layers;
    opt.k_format = e.k_format;
    opt.v_format = e.v_format;
    opt.block_tokens = e.block_tokens;
    opt.sequences_max = 1;
    opt.tokens_max = tokens_max;
    opt.batch_tokens_max = batch_max;
    opt.math = e.math;
    opt.workers = team;
    opt.log = hear;
    kvt_status status = kvt_open(&b->cache, &opt);
    if (status == KVT_OK) status = kvt_bytes(&opt, &info);
    if (status == KVT_OK) status = kvt_seq_new(b->cache, &b->seq);
    if (status == KVT_OK) b->bytes_per_token = info.bytes_per_token;
    free(layers);
    return status == KVT_OK ? CLI_DONE : CLI_FAILED;
}

void bench_cache_close(bench_cache *b) {
    kvt_close(b->cache);
    free(b->q);
    free(b->k);
    free(b->v);
    free(b->out);
}

static kvt_status append_step(bench_cache *b, int n_rows) {
    kvt_batch batch = { 1, &b->seq, &n_rows };
    kvt_status status = kvt_reserve(b->cache, &batch);
    for (int i = 0; i < b->config.n_layers && status == KVT_OK; i++)
        status = kvt_append(b->cache, i, &batch, b->k, b->v);
    return status == KVT_OK ? kvt_commit(b->cache, &batch, NULL) : status;
}

int bench_cache_fill(bench_cache *b, int n_tokens) {
    int length = kvt_seq_length(b->cache, b->seq);
    kvt_status status = length > n_tokens ? kvt_seq_truncate(b->cache, b->seq, n_tokens) : KVT_OK;
    while (length < n_tokens && status == KVT_OK) {
        int n = n_tokens - length < b->batch_max ? n_tokens - length : b->batch_max;
        status = append_step(b, n);
        length += n;
    }
    return status == KVT_OK ? CLI_DONE : cli_fail("filling the cache: %s", kvt_status_text(status));
}

double bench_attend_ms(bench_cache *b, int n_rows) {
    kvt_batch batch = { 1, &b->seq, &n_rows };
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_reserve(b->cache, &batch);
    for (int i = 0; i < b->config.n_layers && status == KVT_OK; i++)
        status = kvt_attend(b->cache, i, &batch, b->q, b->k, b->v, b->out);
    double ms = bench_ms_since(start);
    kvt_abort(b->cache, &batch);
    if (status == KVT_OK) return ms;
    cli_fail("attention: %s", kvt_status_text(status));
    return -1;
}
