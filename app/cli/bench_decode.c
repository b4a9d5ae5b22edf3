/* bench_decode.c - kvtile bench decode and bench prefill: whole forward passes of the model. */
#include "bench.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
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

/* A model, a cache of its layers and what a step needs. */
typedef struct forward {
    loaded loaded;
    bench_cache cache;
    model_state *state;
    int32_t *tokens; /* [chunk] */
    float *logits;   /* [n_vocab] */
    double bandwidth;
    int list[OPTION_LIST_MAX], n_list;
} forward;

static int forward_open(forward *f, const forward_options *o, int slack) {
    int most = 0, chunk = o->common.chunk, rows = chunk;
    f->n_list = option_list(o->list, f->list);
    for (int i = 0; i < f->n_list; i++)
        if (f->list[i] > most) most = f->list[i];
    if (o->plot && most < 2 * ROOF_ROWS) most = 2 * ROOF_ROWS;
    if (o->plot && rows < ROOF_ROWS) rows = ROOF_ROWS;
    int status = loaded_open(&f->loaded, &o->common);
    if (status != CLI_DONE) return status;
    const model_config *c = model_config_of(f->loaded.model);
    f->bandwidth = bench_bandwidth(f->loaded.team);
    status = bench_cache_open(&f->cache, c, f->loaded.team, &o->common, most + slack, rows);
    if (status != CLI_DONE) return status;
    f->tokens = malloc((size_t)chunk * sizeof *f->tokens);
    f->logits = malloc((size_t)c->n_vocab * sizeof *f->logits);
    bool taken = f->tokens && f->logits;
    if (!taken || model_state_new(&f->state, f->loaded.model, chunk, most + slack, common_math(&o->common),
                                  f->loaded.team) != KVT_OK)
        return cli_fail("no memory for steps of %d tokens", chunk);
    for (int i = 0; i < chunk; i++) f->tokens[i] = (int32_t)((i * 7919 + 17) % c->n_vocab);
    return CLI_DONE;
}

static void forward_close(forward *f) {
    model_state_free(f->state);
    bench_cache_close(&f->cache);
    loaded_close(&f->loaded);
    free(f->tokens);
    free(f->logits);
}

/* n_rows new tokens with logits of the last one; milliseconds, below 0: it failed. */
static double step_ms(forward *f, int n_rows) {
    int last = n_rows - 1;
    model_step step = { .batch = { 1, &f->cache.seq, &n_rows }, .tokens = f->tokens, .wanted = &last, .n_wanted = 1 };
    step.logits = f->logits;
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_reserve(f->cache.cache, &step.batch);
    if (status == KVT_OK) status = model_forward(f->state, f->cache.cache, &step);
    if (status == KVT_OK) status = kvt_commit(f->cache.cache, &step.batch, f->tokens);
    if (status == KVT_OK) return bench_ms_since(start);
    kvt_abort(f->cache.cache, &step.batch);
    cli_fail("a step failed: %s", kvt_status_text(status));
    return -1;
}

/* --------------------------------------------------------------------------------------------------- decode */

static int decode_measure(forward *f, int depth, int steps, bench_token *out) {
    double ms[BENCH_REPEATS], attend[BENCH_REPEATS];
    int status = bench_cache_fill(&f->cache, depth);
    /* The first step warms up; each is dropped again, so that all are at the same depth. */
    for (int i = -1; i < steps && status == CLI_DONE; i++) {
        double whole = step_ms(f, 1);
        if (whole >= 0) status = bench_cache_fill(&f->cache, depth);
        double alone = whole >= 0 && status == CLI_DONE ? bench_attend_ms(&f->cache, 1) : -1;
        if (alone < 0) return CLI_FAILED;
        if (i < 0) continue;
        ms[i] = whole;
        attend[i] = alone;
    }
    if (status != CLI_DONE) return status;
    model_products products = model_products_of(f->loaded.model);
    const model_config *c = &f->cache.config;
    *out = (bench_token){ .depth = depth };
    out->attend.flop = bench_attend_flop(c, depth, 1) * c->n_layers;
    out->attend.bytes = (double)f->cache.bytes_per_token * (depth + 1);
    out->attend.ms = bench_median(attend, steps);
    out->step.flop = out->attend.flop + 2 * (double)products.n_weights;
    out->step.bytes = out->attend.bytes + (double)products.packed_bytes;
    out->step.ms = bench_median(ms, steps);
    return CLI_DONE;
}

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
static int prefill_attend(forward *f, bench_work *out) {
    const model_config *c = &f->cache.config;
    int status = bench_cache_fill(&f->cache, ROOF_ROWS);
    for (int i = 0; i < ROOF_REPEATS && status == CLI_DONE; i++) {
        double ms = bench_attend_ms(&f->cache, ROOF_ROWS);
        if (ms < 0) return CLI_FAILED;
        if (i == 0 || ms < out->ms) out->ms = ms;
    }
    out->flop = bench_attend_flop(c, ROOF_ROWS, ROOF_ROWS) * c->n_layers;
    out->bytes = (double)f->cache.bytes_per_token * 2 * ROOF_ROWS;
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

static int decode_plot(forward *f, const forward_options *o, bench_roofline *r) {
    char machine[160];
    byte_list title = { 0 };
    engine_options e = common_engine_options(&o->common);
    snprintf(machine, sizeof machine, "%s, %d threads, keys %s, values %s; numbers at points: tokens in the cache",
             kvt_cpu(), kvt_workers_count(f->loaded.team), kvt_format_name(e.k_format), kvt_format_name(e.v_format));
    r->bandwidth = f->bandwidth;
    r->prefill_rows = ROOF_ROWS;
    int status = prefill_attend(f, &r->prefill);
    if (status == CLI_DONE && !title_of(&f->loaded, &title)) status = cli_fail("no memory for the picture's title");
    r->model = title.at;
    r->machine = machine;
    if (status == CLI_DONE) status = bench_roofline_draw(r, o->plot);
    byte_list_free(&title);
    return status;
}

static int decode_run(forward *f, const forward_options *o, json_t *rows) {
    bench_roofline roofline = { 0 };
    bool json = o->common.json;
    if (!json)
        printf("%s, %d threads, read bandwidth %.1f GB/s\n%8s %10s %10s %11s %12s %8s %10s\n", kvt_cpu(),
               kvt_workers_count(f->loaded.team), f->bandwidth / 1e9, "depth", "ms/token", "tokens/s", "attention",
               "reads", "GB/s", "of read");
    for (int i = 0; i < f->n_list; i++) {
        bench_token *t = &roofline.tokens[roofline.n_tokens++];
        if (decode_measure(f, f->list[i], o->steps, t) != CLI_DONE) return CLI_FAILED;
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
    forward f = { 0 };
    json_t *rows = json_array();
    int status = forward_open(&f, o, 1);
    if (status == CLI_DONE) status = decode_run(&f, o, rows);
    json_decref(rows);
    forward_close(&f);
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

static int prefill_measure(forward *f, int n_tokens, const forward_options *o, double *median) {
    double ms[BENCH_REPEATS];
    for (int i = -1; i < o->steps; i++) { /* the first one warms up */
        double sum = 0;
        if (bench_cache_fill(&f->cache, 0) != CLI_DONE) return CLI_FAILED;
        for (int done = 0; done < n_tokens; done += o->common.chunk) {
            double t = step_ms(f, n_tokens - done < o->common.chunk ? n_tokens - done : o->common.chunk);
            if (t < 0) return CLI_FAILED;
            sum += t;
        }
        if (i >= 0) ms[i] = sum;
    }
    *median = bench_median(ms, o->steps);
    return CLI_DONE;
}

static int prefill_command(const void *options) {
    const forward_options *o = options;
    forward f = { 0 };
    json_t *rows = json_array();
    int status = forward_open(&f, o, 0);
    if (status == CLI_DONE && !o->common.json)
        printf("%s, %d threads, chunks of %d, read bandwidth %.1f GB/s\n%8s %10s %10s\n", kvt_cpu(),
               kvt_workers_count(f.loaded.team), o->common.chunk, f.bandwidth / 1e9, "tokens", "ms", "tokens/s");
    for (int i = 0; i < f.n_list && status == CLI_DONE; i++) {
        double ms;
        int n = f.list[i];
        status = prefill_measure(&f, n, o, &ms);
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
    forward_close(&f);
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
