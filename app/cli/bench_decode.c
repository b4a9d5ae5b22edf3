/* bench_decode.c - kvtile bench decode and bench prefill: whole forward passes of the model. */
#include "bench.h"

#include <limits.h>
#include <string.h>

#include "base/text.h"
#include "plot/plot.h"

/* What is measured for the picture's arithmetic roof. */
enum { ROOF_ROWS = 512, ROOF_REPEATS = 5 };

typedef struct forward_options {
    common_options common;
    const char *list; /* depths, or prompt lengths */
    const char *plot; /* a picture's file; NULL: none */
    int steps;
} forward_options;

static const option decode_options[] = {
    OPTION_MODEL(forward_options),
    { "--depths", "TOKENS,...", OPTION_LIST, offsetof(forward_options, list), "tokens already in the cache", 0,
      1 << 20 },
    { "--steps", "N", OPTION_INT, offsetof(forward_options, steps), "steps, of which the median is told", 1,
      BENCH_REPEATS },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(forward_options),
    OPTION_MACHINE(forward_options),
    OPTION_CHUNK(forward_options),
    OPTION_JSON(forward_options),
    { "--plot", "FILE.svg|FILE.png", OPTION_FILE, offsetof(forward_options, plot),
      "draw a roofline: the steps below what memory and arithmetic allow",
      .more = "Arithmetic per second against arithmetic per byte, for attention of one token and for whole steps, "
              "below the read bandwidth and the arithmetic of prefill attention that were measured in the same run.",
      .files = "svg png" },
};

static const command_example decode_examples[] = {
    { "bench decode --depths 0,4096 --plot roofline.svg", "Two depths, and a picture of what bounds them." },
};

static void decode_defaults(void *options) {
    *(forward_options *)options =
        (forward_options){ .common = common_options_default(), .list = "0,1024,8192,32768", .steps = 15 };
}

static const option prefill_options[] = {
    OPTION_MODEL(forward_options),
    { "--tokens", "TOKENS,...", OPTION_LIST, offsetof(forward_options, list), "lengths of the prompt", 1, 1 << 20 },
    { "--steps", "N", OPTION_INT, offsetof(forward_options, steps), "repetitions, of which the median is told", 1,
      BENCH_REPEATS },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(forward_options),
    OPTION_MACHINE(forward_options),
    OPTION_CHUNK(forward_options),
    OPTION_JSON(forward_options),
};

static const command_example prefill_examples[] = {
    { "bench prefill --tokens 2048 --math exact", "One length, with float32 activations." },
};

static void prefill_defaults(void *options) {
    *(forward_options *)options =
        (forward_options){ .common = common_options_default(), .list = "512,4096", .steps = 3 };
}

/* A model, passes over a cache, and where to measure. */
typedef struct measuring {
    loaded loaded;
    forward forward;
    double bandwidth;
    int list[OPTION_LIST_MAX], n_list;
} measuring;

static int measuring_open(measuring *m, const forward_options *o, int slack) {
    int most = 0;
    m->n_list = option_list(o->list, m->list);
    for (int i = 0; i < m->n_list; i++)
        if (m->list[i] > most) most = m->list[i];
    if (o->plot && most < 2 * ROOF_ROWS) most = 2 * ROOF_ROWS;
    int status = loaded_open(&m->loaded, &o->common);
    if (status != CLI_DONE) return status;
    m->bandwidth = bench_bandwidth(m->loaded.team);
    return forward_open(&m->forward, &m->loaded, &o->common, most + slack, o->plot ? ROOF_ROWS : 0);
}

static void measuring_close(measuring *m) {
    forward_close(&m->forward);
    loaded_close(&m->loaded);
}

/* --------------------------------------------------------------------------------------------------- decode */

static void decode_tell(const bench_token *t, double bandwidth, bool json, json_t *rows) {
    double ms = t->step.ms, rate = t->attend.bytes / t->attend.ms * 1e3;
    double share = bandwidth > 0 ? rate / bandwidth : 0;
    if (json)
        json_array_append_new(rows,
                              json_pack("{s:i, s:f, s:f, s:I, s:f, s:f}", "depth", t->depth, "ms_per_token", ms,
                                        "tokens_per_s", 1e3 / ms, "attend_bytes", (json_int_t)t->attend.bytes,
                                        "attend_gb_per_s", rate / 1e9, "bandwidth_share", share));
    else
        printf("%8d %10.2f %10.1f %11.2f %12s %8.2f %8.1f %%\n", t->depth, ms, 1e3 / ms, t->attend.ms,
               show_bytes(t->attend.bytes).text, rate / 1e9, 100 * share);
}

/* The best that attention of many tokens over a short context reaches: the arithmetic roof of the picture. */
static int prefill_attend(bench_cache *b, bench_work *out) {
    const model_config *c = &b->config;
    int status = bench_cache_fill(b, ROOF_ROWS);
    for (int i = 0; i < ROOF_REPEATS && status == CLI_DONE; i++) {
        double ms = bench_attend_ms(b, ROOF_ROWS);
        if (ms < 0) return CLI_FAILED;
        if (i == 0 || ms < out->ms) out->ms = ms;
    }
    out->flop = bench_attend_flop(c, ROOF_ROWS, ROOF_ROWS) * c->n_layers;
    out->bytes = (double)b->bytes_per_token * 2 * ROOF_ROWS;
    return status;
}

/* The model's own name, or its file's, as a 0-terminated UTF-8 line. */
static bool title_of(const loaded *l, byte_list *out) {
    char line[PATH_MAX + 32];
    const char *name = model_info_of(l->model)->name, *slash = strrchr(l->path, '/');
    if (!name[0]) name = slash ? slash + 1 : l->path;
    snprintf(line, sizeof line, "Roofline of decoding: %s", name);
    text_one_line(line);
    return utf8_repair(line, strlen(line) + 1, out) == KVT_OK;
}

static int decode_plot(measuring *f, const forward_options *o, bench_roofline *r) {
    char machine[160];
    byte_list title = { 0 };
    engine_options e = common_engine_options(&o->common);
    snprintf(machine, sizeof machine, "%s, %d threads, keys %s, values %s; numbers at points: tokens in the cache",
             kvt_cpu(), kvt_workers_count(f->loaded.team), kvt_format_name(e.k_format), kvt_format_name(e.v_format));
    r->bandwidth = f->bandwidth;
    r->prefill_rows = ROOF_ROWS;
    int status = prefill_attend(&f->forward.cache, &r->prefill);
    if (status == CLI_DONE && !title_of(&f->loaded, &title)) status = cli_fail("no memory for the picture's title");
    r->model = title.at;
    r->machine = machine;
    if (status == CLI_DONE) status = bench_roofline_draw(r, o->plot);
    byte_list_free(&title);
    return status;
}

static int decode_run(measuring *f, const forward_options *o, json_t *rows) {
    bench_roofline roofline = { 0 };
    bool json = o->common.json;
    if (!json)
        printf("%s, %d threads, read bandwidth %.1f GB/s\n%8s %10s %10s %11s %12s %8s %10s\n", kvt_cpu(),
               kvt_workers_count(f->loaded.team), f->bandwidth / 1e9, "depth", "ms/token", "tokens/s", "attention",
               "reads", "GB/s", "of read");
    for (int i = 0; i < f->n_list; i++) {
        bench_token *t = &roofline.tokens[roofline.n_tokens++];
        if (forward_decode(&f->forward, f->list[i], o->steps, t) != CLI_DONE) return CLI_FAILED;
        decode_tell(t, f->bandwidth, json, rows);
    }
    int status = json ? json_print(bench_json("bench decode", f->loaded.team, f->bandwidth, json_incref(rows)))
                      : cli_flush();
    return status == CLI_DONE && o->plot ? decode_plot(f, o, &roofline) : status;
}

static int decode_command(const void *options) {
    const forward_options *o = options;
    if (o->plot && !plot_named(o->plot))
        return cli_usage("bench decode", "--plot wants a name that ends in .svg or .png, not \"%s\"", o->plot);
    measuring f = { 0 };
    json_t *rows = json_array();
    int status = measuring_open(&f, o, 1);
    if (status == CLI_DONE) status = decode_run(&f, o, rows);
    json_decref(rows);
    measuring_close(&f);
    return status;
}

const command command_bench_decode = {
    .name = "bench decode",
    .summary = "time per token behind a given number of tokens",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "Time of one more token behind a given number of them (synthetic keys and values).",
    COMMAND_OPTIONS(decode_options),
    COMMAND_EXAMPLES(decode_examples),
    .options_bytes = sizeof(forward_options),
    .defaults = decode_defaults,
    .run = decode_command,
};

/* -------------------------------------------------------------------------------------------------- prefill */

static int prefill_command(const void *options) {
    const forward_options *o = options;
    measuring f = { 0 };
    json_t *rows = json_array();
    int status = measuring_open(&f, o, 0);
    if (status == CLI_DONE && !o->common.json)
        printf("%s, %d threads, chunks of %d, read bandwidth %.1f GB/s\n%8s %10s %10s\n", kvt_cpu(),
               kvt_workers_count(f.loaded.team), o->common.chunk, f.bandwidth / 1e9, "tokens", "ms", "tokens/s");
    for (int i = 0; i < f.n_list && status == CLI_DONE; i++) {
        double ms;
        int n = f.list[i];
        status = forward_prefill(&f.forward, n, o->steps, &ms);
        if (status != CLI_DONE) break;
        if (o->common.json)
            json_array_append_new(rows,
                                  json_pack("{s:i, s:f, s:f}", "tokens", n, "ms", ms, "tokens_per_s", n * 1e3 / ms));
        else printf("%8d %10.1f %10.1f\n", n, ms, n * 1e3 / ms);
    }
    if (status == CLI_DONE && o->common.json)
        status = json_print(bench_json("bench prefill", f.loaded.team, f.bandwidth, json_incref(rows)));
    else if (status == CLI_DONE) status = cli_flush();
    json_decref(rows);
    measuring_close(&f);
    return status;
}

const command command_bench_prefill = {
    .name = "bench prefill",
    .summary = "tokens per second of reading a prompt",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "Tokens per second of a prompt, computed in chunks.",
    COMMAND_OPTIONS(prefill_options),
    COMMAND_EXAMPLES(prefill_examples),
    .options_bytes = sizeof(forward_options),
    .defaults = prefill_defaults,
    .run = prefill_command,
};
