/* bench_formats.c - kvtile bench formats: what each format of keys and values takes, costs and loses, side by side. */
#include "bench_formats.h"

#include <string.h>

#include "windows.h"

/* -------------------------------------------------------------------------------------------------- one format */

typedef struct formats_row {
    format_pair pair;
    format_cost cost;
    bench_token token;
    double prefill_ms;
    windows_result text; /* n 0: there is none */
} formats_row;

common_options formats_common(const formats_options *o, format_pair pair) {
    common_options c = o->common;
    c.k = (int)pair.k;
    c.v = (int)pair.v;
    return c;
}

static int speed(const formats_work *w, const common_options *c, formats_row *out) {
    const formats_options *o = w->opt;
    forward f;
    int most = o->depth + 1 > o->tokens ? o->depth + 1 : o->tokens;
    int status = forward_open(&f, w->loaded, c, most, 0);
    if (status == CLI_DONE) status = forward_decode(&f, o->depth, o->steps, &out->token);
    if (status == CLI_DONE && !cli_stop) status = forward_prefill(&f, o->tokens, 1, &out->prefill_ms);
    forward_close(&f);
    return status;
}

static int quality(const formats_work *w, const common_options *c, const window_text *text, formats_row *out) {
    char what[64];
    engine_options e = common_engine_options(c);
    int most = model_context(model_config_of(w->loaded->model));
    windows how = { .chunks = w->opt->chunks, .kl = true, .what = what };
    how.ctx = c->ctx ? c->ctx : most < WINDOW_CTX ? most : WINDOW_CTX;
    how.stride = how.ctx - text->bos;
    score_setup setup = { e.math, e.k_format, e.v_format, e.block_tokens, e.hot_tokens, how.ctx, WINDOW_ROWS };
    snprintf(what, sizeof what, "reading the text in %s", out->pair.name);
    return windows_read(w->loaded, text, &how, &setup, &out->text);
}

static int row_measure(const formats_work *w, format_pair pair, const window_text *text, formats_row *out) {
    const model_config *config = model_config_of(w->loaded->model);
    common_options c = formats_common(w->opt, pair);
    *out = (formats_row){ .pair = pair };
    int status = speed(w, &c, out);
    if (status == CLI_DONE && text && !cli_stop) status = quality(w, &c, text, out);
    kvt_layer layer = { .n_heads_q = config->n_heads_q, .n_heads_kv = config->n_heads_kv, .dim_k = config->dim_k,
                        .dim_v = config->dim_v };
    format_cost_of(&layer, 1, pair, 16 << c.block, &out->cost);
    out->cost.bytes_per_token *= (size_t)config->n_layers;
    return cli_stop ? CLI_INTERRUPTED : status;
}

/* -------------------------------------------------------------------------------------------------- telling */

static double read_rate(const formats_row *r) {
    return r->token.attend.ms > 0 ? r->token.attend.bytes / r->token.attend.ms * 1e3 : 0;
}

static void head_tell(const formats_work *w, const window_text *text) {
    const formats_options *o = w->opt;
    printf("%s, %d threads, read bandwidth %.1f GB/s; a token behind %s, a prompt of %s",
           kvt_cpu(), kvt_workers_count(w->loaded->team), w->bandwidth / 1e9, show_count((uint64_t)o->depth).text,
           show_count((uint64_t)o->tokens).text);
    if (text) printf("; %s against float32", o->file);
    printf("\n%-6s %6s %9s %9s %9s %7s %8s %9s", "format", "bits", "B/token", "ms/token", "attention", "GB/s",
           "of read", "prefill/s");
    if (text) printf(" %10s %9s %9s %9s", "perplexity", "KL mean", "KL 99.9 %", "same top");
    printf("  kernels\n");
    fflush(stdout);
}

static void row_tell(const formats_work *w, const formats_row *r) {
    double rate = read_rate(r);
    const char *k = kvt_format_path(r->pair.k), *v = kvt_format_path(r->pair.v);
    printf("%-6s %6.2f %9s %9.2f %9.2f %7.2f %6.1f %% %9.1f", r->pair.name, r->cost.bits,
           show_count(r->cost.bytes_per_token).text, r->token.step.ms, r->token.attend.ms, rate / 1e9,
           w->bandwidth > 0 ? 100 * rate / w->bandwidth : 0, 1e3 * w->opt->tokens / r->prefill_ms);
    if (r->text.n > 0)
        printf(" %10.4f %9.2e %9.2e %7.2f %%", r->text.ppl, r->text.kl_mean, r->text.kl_p999, 100 * r->text.agree);
    printf("  %s%s%s\n", k, k == v ? "" : ", ", k == v ? "" : v);
    fflush(stdout);
}

static json_t *row_json(const formats_work *w, const formats_row *r) {
    double rate = read_rate(r);
    json_t *o = json_pack(
        "{s:s, s:s, s:s, s:f, s:I, s:i, s:f, s:f, s:f, s:f, s:i, s:f, s:s, s:s}", "format", r->pair.name, "k_format",
        kvt_format_name(r->pair.k), "v_format", kvt_format_name(r->pair.v), "bits_per_element", r->cost.bits,
        "bytes_per_token", (json_int_t)r->cost.bytes_per_token, "depth", r->token.depth, "ms_per_token",
        r->token.step.ms, "attend_ms", r->token.attend.ms, "attend_gb_per_s", rate / 1e9, "bandwidth_share",
        w->bandwidth > 0 ? rate / w->bandwidth : 0, "prefill_tokens", w->opt->tokens, "prefill_tokens_per_s",
        1e3 * w->opt->tokens / r->prefill_ms, "k_path", kvt_format_path(r->pair.k), "v_path",
        kvt_format_path(r->pair.v));
    if (!o || r->text.n == 0) return o;
    json_object_set_new(o, "tokens", json_integer(r->text.n));
    json_object_set_new(o, "ppl", json_real(r->text.ppl));
    json_object_set_new(o, "kl_mean", json_real(r->text.kl_mean));
    json_object_set_new(o, "kl_p999", json_real(r->text.kl_p999));
    json_object_set_new(o, "top1_agree", json_real(r->text.agree));
    return o;
}

static int rows_measure(const formats_work *w, const window_text *text) {
    json_t *rows = json_array();
    bool json = w->opt->common.json;
    int status = CLI_DONE;
    progress bar = progress_of("measuring formats");
    if (!json) head_tell(w, text);
    for (int i = 0; i < w->n_pairs && status == CLI_DONE; i++) {
        formats_row r;
        progress_show(&bar, i, w->n_pairs);
        status = row_measure(w, w->pair[i], text, &r);
        progress_clear(&bar);
        if (status == CLI_DONE && json) json_array_append_new(rows, row_json(w, &r));
        else if (status == CLI_DONE) row_tell(w, &r);
    }
    if (status == CLI_DONE && json) return json_print(bench_json("bench formats", w->loaded->team, w->bandwidth, rows));
    json_decref(rows);
    return status == CLI_DONE ? cli_flush() : status;
}

/* ------------------------------------------------------------------------------------------------ the command */

static const option option_table[] = {
    OPTION_MODEL(formats_options),
    { "--formats", "FORMAT,...", OPTION_TEXT, offsetof(formats_options, formats),
      "formats of keys and values, parted by commas (default: all)", .word_at = format_pair_word },
    { "--depth", "TOKENS", OPTION_INT, offsetof(formats_options, depth), "tokens before the one that is timed", 0,
      1 << 20 },
    { "--tokens", "TOKENS", OPTION_INT, offsetof(formats_options, tokens), "length of the prompt that is timed", 1,
      1 << 20 },
    { "--steps", "N", OPTION_INT, offsetof(formats_options, steps), "steps, of which the median is told", 1,
      BENCH_REPEATS },
    { "-f", "FILE", OPTION_FILE, offsetof(formats_options, file),
      "a text, to tell what formats lose on it; with --needle to hide keys in" },
    { "--ctx", "TOKENS", OPTION_INT, offsetof(formats_options, common.ctx),
      "tokens of a window of the text (default: 2048, or the model's context)", 3, 16777216 },
    { "--chunks", "N", OPTION_INT, offsetof(formats_options, chunks), "only the first N windows; 0: all", 0, 1 << 30 },
    OPTION_HEAD("Finding a key"),
    { "--needle", NULL, OPTION_FLAG, offsetof(formats_options, needle),
      "instead: hide a key in a long text, and count how often the model finds it",
      .more = "The sentence with the key stands at --depths places of a text of each of the --lengths, and the model "
              "is asked for it at the end. What lies before a key is computed once for all prompts that begin with it, "
              "but each prompt still costs what lies behind its key: 20 depths of 8,192 tokens are 90,000 positions in "
              "each format." },
    { "--lengths", "TOKENS,...", OPTION_LIST, offsetof(formats_options, lengths), "of prompt and answer together", 64,
      1 << 20 },
    { "--depths", "N", OPTION_INT, offsetof(formats_options, depths), "places in the text, the first at its beginning",
      1, NEEDLE_DEPTHS_MAX },
    { "--seed", "S", OPTION_SEED, offsetof(formats_options, seed), "of the keys and the text around them" },
    OPTION_HEAD("Cache"),
    OPTION_BLOCKS(formats_options),
    OPTION_MACHINE(formats_options),
    OPTION_CHUNK(formats_options),
    OPTION_JSON(formats_options),
};

static const command_example examples[] = {
    { "bench formats --depth 8192", "Every format, behind 8,192 tokens." },
    { "bench formats --formats bf16,k8v8,k4v4 -f book.txt", "Three of them, and what they lose on a text." },
    { "bench formats --needle --formats bf16,k4v4 --lengths 2048 --depths 10", "Ten keys in each of two formats." },
};

static void formats_defaults(void *options) {
    *(formats_options *)options = (formats_options){
        .common = common_options_default(),
        .depth = 4096,
        .tokens = 512,
        .steps = 9,
        .chunks = 1,
        .lengths = "512,1024,2048,4096,8192",
        .depths = 20,
        .seed = 1,
    };
}

static int pair_add(formats_work *w, const char *name) {
    int i = option_word_find(format_pair_word, name);
    if (i < 0) return option_words_refuse("bench formats", "--formats does not know", name, format_pair_word);
    if (w->n_pairs == FORMATS_MAX) return cli_usage("bench formats", "--formats has more than %d", FORMATS_MAX);
    w->pair[w->n_pairs++] = format_pair_at(i);
    return CLI_DONE;
}

static int pairs_pick(formats_work *w) {
    int status = CLI_DONE;
    const char *at = w->opt->formats;
    for (int i = 0; !at && (i = format_row_next(i)) >= 0 && w->n_pairs < FORMATS_MAX; i++)
        w->pair[w->n_pairs++] = format_pair_at(i);
    while (at && status == CLI_DONE) {
        char name[32];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), at);
        status = pair_add(w, name);
        at = at[n] ? at + n + 1 : NULL;
    }
    return status;
}

static int run(formats_work *w, const loaded *l) {
    window_text text = { 0 };
    w->loaded = l;
    w->bandwidth = bench_bandwidth(l->team);
    cli_catch_interrupt();
    if (w->opt->needle) return needle_bench(w);
    int status = w->opt->file ? window_text_read(&text, w->opt->file, l->model) : CLI_DONE;
    if (status == CLI_DONE) status = rows_measure(w, w->opt->file ? &text : NULL);
    window_text_free(&text);
    return status;
}

static int formats_command(const void *options) {
    formats_work w = { .opt = options };
    loaded l;
    int status = pairs_pick(&w);
    if (status != CLI_DONE) return status;
    status = loaded_open(&l, &w.opt->common);
    if (status == CLI_DONE) status = run(&w, &l);
    loaded_close(&l);
    return status;
}

const command command_bench_formats = {
    .name = "bench formats",
    .summary = "what each format of keys and values takes, costs and loses",
    .usage = "[-m MODEL] [-f FILE] [--needle] [OPTIONS]",
    .about = "Each format of keys and values: bits of an element with everything counted, bytes of a token, the time "
             "of one more token, the rate at which attention reads the cache for it, tokens per second of a prompt, "
             "and which kernels did it. With a text also what the format changes: perplexity, the Kullback-Leibler "
             "divergence from a cache in float32 (mean, and what one position in a thousand exceeds), and how often "
             "the likeliest token is the same.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(formats_options),
    .defaults = formats_defaults,
    .run = formats_command,
};
