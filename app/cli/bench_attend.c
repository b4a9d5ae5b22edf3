/* bench_attend.c - kvtile bench attend: attention alone, all layers in turn as a step does, told per layer. */
#include "bench.h"

typedef struct attend_options {
    common_options common;
    const char *depths, *heads; /* heads: NULL, the model's */
    int rows, dim;              /* dim: 0, the model's */
} attend_options;

static const option option_table[] = {
    OPTION_MODEL(attend_options),
    { "--depths", "TOKENS,...", OPTION_LIST, offsetof(attend_options, depths), "tokens before the new ones", 0,
      1 << 20 },
    { "--rows", "ROWS", OPTION_INT, offsetof(attend_options, rows), "new tokens of a prefill step", 2, 4096 },
    { "--dim", "N", OPTION_INT, offsetof(attend_options, dim), "elements of a head (default: the model's)", 1, 512 },
    { "--heads", "Q,KV", OPTION_LIST, offsetof(attend_options, heads),
      "query heads, key/value heads (default: the model's)", 1, 256 },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(attend_options),
    OPTION_MACHINE(attend_options),
    OPTION_JSON(attend_options),
};

static const command_example examples[] = {
    { "bench attend --depths 8192 --kv f16", "One depth, with another format of keys and values." },
    { "bench attend --heads 32,8 --dim 128", "In the geometry of a larger model, of which no file is needed." },
};

static void attend_defaults(void *options) {
    *(attend_options *)options =
        (attend_options){ .common = common_options_default(), .depths = "1024,8192", .rows = 512 };
}

/* The model's heads, but for what the options say. */
static int geometry_read(const attend_options *o, model_config *c) {
    int heads[OPTION_LIST_MAX];
    if (o->dim) c->dim_k = c->dim_v = o->dim;
    if (!o->heads) return CLI_DONE;
    if (option_list(o->heads, heads) != 2 || heads[0] % heads[1] != 0)
        return cli_usage("bench attend", "--heads wants two numbers, the first a multiple of the second, not \"%s\"",
                         o->heads);
    c->n_heads_q = heads[0];
    c->n_heads_kv = heads[1];
    return CLI_DONE;
}

typedef struct attend_row {
    int depth, rows;
    double us, gb_per_s, gflop_per_s, share;
} attend_row;

static int measure(bench_cache *b, int depth, int rows, double bandwidth, attend_row *out) {
    double ms[BENCH_REPEATS];
    int n = rows == 1 ? BENCH_REPEATS : 5, status = bench_cache_fill(b, depth);
    for (int i = -1; i < n && status == CLI_DONE; i++) {
        double t = bench_attend_ms(b, rows); /* the first one warms up */
        if (t < 0) status = CLI_FAILED;
        if (i >= 0) ms[i] = t;
    }
    if (status != CLI_DONE) return status;
    int layers = b->config.n_layers;
    double s = bench_median(ms, n) / 1e3 / layers;
    double bytes = (double)b->bytes_per_token / layers * (depth + rows);
    double flop = bench_attend_flop(&b->config, depth, rows);
    *out = (attend_row){ depth, rows, s * 1e6, bytes / s / 1e9, flop / s / 1e9, 0 };
    if (bandwidth > 0) out->share = bytes / s / bandwidth;
    return CLI_DONE;
}

static void header_tell(const model_config *c, int n_threads, double bandwidth) {
    printf("%s, %d threads, read bandwidth %.1f GB/s; %d query and %d key/value heads of %d\n"
           "%-8s %8s %6s %14s %9s %10s %9s %11s\n",
           kvt_cpu(), n_threads, bandwidth / 1e9, c->n_heads_q, c->n_heads_kv, c->dim_k, "phase", "depth", "rows",
           "us per layer", "GB/s", "of read", "GFLOP/s", "per thread");
}

static void tell(const attend_row *r, int n_threads, const model_config *c, json_t *rows, bool json) {
    const char *kind = r->rows == 1 ? "decode" : "prefill";
    if (json)
        json_array_append_new(
            rows, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f}", "phase", kind, "depth", r->depth,
                            "rows", r->rows, "n_heads", c->n_heads_q, "n_heads_kv", c->n_heads_kv, "dim", c->dim_k,
                            "us_per_layer", r->us, "gb_per_s", r->gb_per_s, "gflop_per_s", r->gflop_per_s,
                            "bandwidth_share", r->share));
    else
        printf("%-8s %8d %6d %14.1f %9.2f %8.1f %% %9.1f %11.1f\n", kind, r->depth, r->rows, r->us, r->gb_per_s,
               100 * r->share, r->gflop_per_s, r->gflop_per_s / n_threads);
}

static int run(const attend_options *o, bench_cache *b, kvt_workers *team, const model_config *config) {
    int depth[OPTION_LIST_MAX], n = option_list(o->depths, depth), most = 0;
    for (int i = 0; i < n; i++)
        if (depth[i] > most) most = depth[i];
    int n_threads = kvt_workers_count(team);
    double bandwidth = bench_bandwidth(team);
    int status = bench_cache_open(b, config, team, &o->common, most + o->rows, o->rows > 512 ? o->rows : 512);
    if (status != CLI_DONE) return status;
    json_t *rows = json_array();
    if (!o->common.json) header_tell(config, n_threads, bandwidth);
    for (int i = 0; i < 2 * n && status == CLI_DONE; i++) {
        attend_row r;
        status = measure(b, depth[i % n], i < n ? 1 : o->rows, bandwidth, &r);
        if (status == CLI_DONE) tell(&r, n_threads, config, rows, o->common.json);
    }
    if (status == CLI_DONE && o->common.json) return json_print(bench_json("bench attend", team, bandwidth, rows));
    json_decref(rows);
    return status == CLI_DONE ? cli_flush() : status;
}

static int attend_command(const void *options) {
    const attend_options *o = options;
    int status;
    model_config config;
    model_info info;
    error_text err;
    kvt_workers *team;
    bench_cache b = { 0 };
    const char *path = model_path(o->common.model);
    if (!path) return CLI_FAILED;
    if (model_describe(path, &config, &info, &err) != KVT_OK) return cli_fail("%s", err.text);
    status = geometry_read(o, &config);
    if (status == CLI_DONE) status = team_open(&team, o->common.threads);
    if (status != CLI_DONE) return status;
    status = run(o, &b, team, &config);
    bench_cache_close(&b);
    kvt_workers_close(team);
    return status;
}

const command command_bench_attend = {
    .name = "bench attend",
    .summary = "attention alone, per layer: GB/s and GFLOP/s",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "Attention alone over synthetic keys and values in a model's geometry: decode (one row) and prefill. "
             "Times are medians per layer call; the layers are visited in turn, so that keys come from memory.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(attend_options),
    .defaults = attend_defaults,
    .run = attend_command,
};
