/* bench_attend.c - kvtile bench attend: attention alone, all layers in turn as a step does, told per layer. */
#include "bench.h"

typedef struct attend_options {
    common_options common;
    const char *depths;
    int rows;
} attend_options;

static int options_read(attend_options *o, int argc, char **argv) {
    common_options *c = &o->common;
    const option rows[] = {
        OPTION_MODEL(*c),
        { "--depths", "TOKENS,...", OPTION_LIST, &o->depths, "tokens before the new ones (default: 1024,8192)", 0,
          1 << 20 },
        { "--rows", "ROWS", OPTION_INT, &o->rows, "new tokens of a prefill step (default: 512)", 2, 4096 },
        OPTION_KV(*c),
        OPTION_K(*c),
        OPTION_V(*c),
        OPTION_BLOCK(*c),
        OPTION_MATH(*c),
        OPTION_THREADS(*c),
        OPTION_JSON(*c),
    };
    const option_set set = {
        .command = "bench attend",
        .usage = "[-m MODEL] [OPTIONS]",
        .about = "Attention alone over synthetic keys and values in a model's geometry: decode (one row) and prefill.\n"
                 "Times are medians per layer call; the layers are visited in turn, so that keys come from memory.",
        .options = rows,
        .n_options = sizeof rows / sizeof rows[0],
    };
    return options_parse(&set, argc, argv);
}

typedef struct attend_row {
    int depth, rows;
    double us, gb_per_s, gflop_per_s, share;
} attend_row;

/* Multiplications and additions of one layer: rows that see depth + 1 .. depth + rows tokens. */
static double flop_of(const model_config *c, int depth, int rows) {
    double seen = (double)rows * depth + (double)rows * (rows + 1) / 2;
    return 2 * seen * c->n_heads_q * (c->dim_k + c->dim_v);
}

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
    *out = (attend_row){ depth, rows, s * 1e6, bytes / s / 1e9, flop_of(&b->config, depth, rows) / s / 1e9, 0 };
    if (bandwidth > 0) out->share = bytes / s / bandwidth;
    return CLI_DONE;
}

static void tell(const attend_row *r, bool json, json_t *rows) {
    const char *kind = r->rows == 1 ? "decode" : "prefill";
    if (json)
        json_array_append_new(rows, json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f}", "phase", kind, "depth", r->depth,
                                              "rows", r->rows, "us_per_layer", r->us, "gb_per_s", r->gb_per_s,
                                              "gflop_per_s", r->gflop_per_s, "bandwidth_share", r->share));
    else
        printf("%-8s %8d %6d %14.1f %9.2f %9.1f %8.1f %%\n", kind, r->depth, r->rows, r->us, r->gb_per_s,
               r->gflop_per_s, 100 * r->share);
}

static int run(const attend_options *o, bench_cache *b, kvt_workers *team, const model_config *config) {
    int depth[OPTION_LIST_MAX], n = option_list(o->depths, depth), most = 0;
    for (int i = 0; i < n; i++)
        if (depth[i] > most) most = depth[i];
    double bandwidth = bench_bandwidth(team);
    int status = bench_cache_open(b, config, team, &o->common, most + o->rows, o->rows > 512 ? o->rows : 512);
    json_t *rows = json_array();
    if (!o->common.json)
        printf("%s, %d threads, read bandwidth %.1f GB/s\n%-8s %8s %6s %14s %9s %9s %10s\n", kvt_cpu(),
               kvt_workers_count(team), bandwidth / 1e9, "phase", "depth", "rows", "us per layer", "GB/s", "GFLOP/s",
               "of read");
    for (int i = 0; i < 2 * n && status == CLI_DONE; i++) {
        attend_row r;
        status = measure(b, depth[i % n], i < n ? 1 : o->rows, bandwidth, &r);
        if (status == CLI_DONE) tell(&r, o->common.json, rows);
    }
    if (status == CLI_DONE && o->common.json) return json_print(bench_json("bench attend", team, bandwidth, rows));
    json_decref(rows);
    return status == CLI_DONE ? cli_flush() : status;
}

int bench_attend(int argc, char **argv) {
    attend_options o = { .common = common_options_default(), .depths = "1024,8192", .rows = 512 };
    int status = options_read(&o, argc, argv);
    if (status != OPTIONS_GO) return status;
    model_config config;
    model_info info;
    error_text err;
    kvt_workers *team;
    bench_cache b = { 0 };
    const char *path = model_path(o.common.model);
    if (!path) return CLI_FAILED;
    if (model_describe(path, &config, &info, &err) != KVT_OK) return cli_fail("%s", err.text);
    if (kvt_workers_open(&team, o.common.threads) != KVT_OK)
        return cli_fail("%d threads cannot be had", o.common.threads);
    status = run(&o, &b, team, &config);
    bench_cache_close(&b);
    kvt_workers_close(team);
    return status;
}
