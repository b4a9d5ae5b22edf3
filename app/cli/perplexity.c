/* perplexity.c - kvtile perplexity: how well a model foresees a text, and what a format of the cache changes. */
#include "cli.h"

#include "windows.h"

typedef struct perplexity_options {
    common_options common;
    const char *file;
    int stride, chunks;
    bool kl;
} perplexity_options;

typedef struct perplexity {
    const perplexity_options *opt;
    loaded loaded;
    window_text text;
    windows how;
} perplexity;

static int tell(const perplexity *p, const score_setup *s, const windows_result *r) {
    const char *k = kvt_format_name(s->k_format), *v = kvt_format_name(s->v_format);
    double bits = r->cost.bits;
    if (p->opt->common.json) {
        json_t *o = json_pack("{s:f, s:f, s:I, s:i, s:i, s:s, s:s, s:f, s:s}", "ppl", r->ppl, "ppl_error", r->error,
                              "tokens", (json_int_t)r->n, "ctx", p->how.ctx, "stride", p->how.stride, "k_format", k,
                              "v_format", v, "bits_per_element", bits, "cpu", kvt_cpu());
        json_t *kl = json_pack("{s:f, s:f, s:f}", "kl_mean", r->kl_mean, "kl_p999", r->kl_p999, "top1_agree", r->agree);
        if (o && kl && p->opt->kl) json_object_update(o, kl);
        json_decref(kl);
        return json_print(o);
    }
    printf("perplexity %.4f +- %.4f over %s, windows of %s; keys %s, values %s, %.2f bits per element\n", r->ppl,
           r->error, show_counted((uint64_t)r->n, "token").text, show_count((uint64_t)p->how.ctx).text, k, v, bits);
    if (p->opt->kl)
        printf("against float32 keys and values: KL divergence %.3g on average, %.3g at the 99.9th percentile; the "
               "likeliest token is the same in %.2f %%\n", r->kl_mean, r->kl_p999, 100 * r->agree);
    return cli_flush();
}

/* ------------------------------------------------------------------------------------------------ the command */

static int sizes_pick(perplexity *p) {
    const perplexity_options *o = p->opt;
    int most = model_context(model_config_of(p->loaded.model)), bos = p->text.bos;
    windows *w = &p->how;
    *w = (windows){ .chunks = o->chunks, .kl = o->kl, .what = "reading the text" };
    w->ctx = o->common.ctx ? o->common.ctx : most < WINDOW_CTX ? most : WINDOW_CTX;
    w->stride = o->stride ? o->stride : w->ctx - bos;
    if (w->ctx < 2 + bos) return cli_usage("perplexity", "--ctx %d is no window that foresees a token", w->ctx);
    if (w->stride > w->ctx - bos)
        return cli_usage("perplexity", "--stride %d leaves out tokens between windows of %d", w->stride, w->ctx);
    return CLI_DONE;
}

static int perplexity_run(perplexity *p) {
    int status = loaded_open(&p->loaded, &p->opt->common);
    if (status == CLI_DONE) status = window_text_read(&p->text, p->opt->file, p->loaded.model);
    if (status == CLI_DONE) status = sizes_pick(p);
    if (status != CLI_DONE) return status;
    engine_options e = common_engine_options(&p->opt->common);
    score_setup setup = { e.math, e.k_format, e.v_format, e.block_tokens, e.hot_tokens, p->how.ctx, WINDOW_ROWS };
    windows_result r;
    cli_catch_interrupt();
    status = windows_read(&p->loaded, &p->text, &p->how, &setup, &r);
    return status == CLI_DONE ? tell(p, &setup, &r) : status;
}

static int perplexity_command(const void *options) {
    perplexity p = { .opt = options };
    if (!p.opt->file) return cli_usage("perplexity", "a text is wanted: -f FILE");
    int status = perplexity_run(&p);
    window_text_free(&p.text);
    loaded_close(&p.loaded);
    return status;
}

static void perplexity_defaults(void *options) {
    *(perplexity_options *)options = (perplexity_options){ .common = common_options_default() };
}

static const option option_table[] = {
    OPTION_MODEL(perplexity_options),
    { "-f", "FILE", OPTION_FILE, offsetof(perplexity_options, file), "the text; -: what stdin has" },
    { "--ctx", "TOKENS", OPTION_INT, offsetof(perplexity_options, common.ctx),
      "tokens of a window (default: 2048, or the model's context)", 2, 16777216 },
    { "--stride", "TOKENS", OPTION_INT, offsetof(perplexity_options, stride),
      "from the beginning of a window to that of the next (default: a window)", 1, 16777216 },
    { "--chunks", "N", OPTION_INT, offsetof(perplexity_options, chunks), "only the first N windows (default: all)", 1,
      1 << 30 },
    { "--kl", NULL, OPTION_FLAG, offsetof(perplexity_options, kl),
      "compare with the same model over a cache in float32" },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(perplexity_options),
    OPTION_MACHINE(perplexity_options),
    OPTION_JSON(perplexity_options),
};

static const command_example examples[] = {
    { "perplexity -f book.txt", "How well the default model foresees a book." },
    { "perplexity -f book.txt --kv f16 --kl --chunks 4", "What 16-bit keys and values change, on four windows." },
};

const command command_perplexity = {
    .name = "perplexity",
    .summary = "quality of a cache format on a text",
    .usage = "[-m MODEL] -f FILE [OPTIONS]",
    .about = "How well the model foresees a text, and with --kl what the format of the cache changes in its "
             "probabilities.",
    .more = "The text is read in windows of --ctx tokens. Each token but the first is foreseen once; with a --stride "
            "below --ctx from more text before it. The error is one standard error of the mean.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(perplexity_options),
    .defaults = perplexity_defaults,
    .run = perplexity_command,
};
