/* perplexity.c - kvtile perplexity: how well a model foresees a text, and what a format of the cache changes in that.
 *
 * The text is read in windows of --ctx tokens, each beginning --stride tokens behind the one before. A window counts
 * the tokens that no window before it counted, so each token of the text but the first is foreseen once, from up to a
 * whole window before it. Where the model wants a start token every window begins with it. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>

#include "prompts.h"
#include "score.h"

enum { SCORE_ROWS = 128 }; /* tokens of a step */

typedef struct perplexity_options {
    common_options common;
    const char *file;
    int stride, chunks;
    bool kl;
} perplexity_options;

/* Sums over the tokens that were counted. */
typedef struct tally {
    double nll, nll_squared;
    int64_t n, n_agree;
    float *kl; /* [n] while there is room: all of them are sorted for the percentile */
    size_t room;
} tally;

typedef struct perplexity {
    const perplexity_options *opt;
    loaded loaded;
    token_list text;
    int ctx, stride;
    bool bos;
    score_reader reader, exact; /* exact: the same with keys and values in float32, for --kl */
    tally tally;
} perplexity;

/* -------------------------------------------------------------------------------------------------- the tally */

static bool tally_add(tally *t, const score_row *row, bool kl) {
    t->nll += row->nll;
    t->nll_squared += row->nll * row->nll;
    if (kl && (size_t)t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 4096;
        float *grown = realloc(t->kl, room * sizeof *grown);
        if (!grown) return false;
        t->kl = grown;
        t->room = room;
    }
    if (kl) {
        t->kl[t->n] = (float)row->kl;
        t->n_agree += row->top_agrees;
    }
    t->n++;
    return true;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

typedef struct result {
    double ppl, error; /* error: one standard error of the mean, in perplexity */
    double kl_mean, kl_p999, agree;
} result;

static double mean_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

static result result_of(tally *t, bool kl) {
    double n = (double)t->n, mean = t->nll / n, variance = t->nll_squared / n - mean * mean;
    result r = { .ppl = kvt_exp(mean) };
    r.error = r.ppl * sqrt(variance > 0 ? variance / n : 0);
    if (!kl) return r;
    qsort(t->kl, (size_t)t->n, sizeof *t->kl, by_size);
    r.kl_mean = mean_of(t->kl, t->n);
    r.kl_p999 = (double)t->kl[t->n - 1 - t->n / 1000];
    r.agree = (double)t->n_agree / n;
    return r;
}

/* ------------------------------------------------------------------------------------------------- the windows */

/* Tokens of the text that a window holds: its context, less the start token. */
static size_t span_of(const perplexity *p) {
    return (size_t)(p->ctx - p->bos);
}

/* Text token i of a window that begins at `first`; the start token is number -1. */
static int32_t token_at(const perplexity *p, size_t first, int i) {
    return p->bos && i == 0 ? tokenizer_about(model_tokenizer(p->loaded.model))->bos
                            : p->text.id[first + (size_t)(i - p->bos)];
}

/* Rows at .. at + n - 1 of a window: those whose next token lies at counted_from or behind count. */
static int rows_count(perplexity *p, size_t first, int at, int n, int n_window, size_t counted_from) {
    int32_t next[SCORE_ROWS];
    score_row rows[SCORE_ROWS];
    for (int i = 0; i < n; i++) {
        int following = at + i + 1;
        size_t place = first + (size_t)(following - p->bos);
        next[i] = following < n_window && place >= counted_from ? token_at(p, first, following) : -1;
    }
    score_rows(&p->reader, p->opt->kl ? &p->exact : NULL, next, n, rows);
    for (int i = 0; i < n; i++) {
        if (next[i] < 0) continue;
        if (!isfinite(rows[i].nll) || !isfinite(rows[i].kl))
            return cli_fail("the logits of token %zu are not numbers (a damaged model file)",
                            first + (size_t)(at + i + 1 - p->bos));
        if (!tally_add(&p->tally, &rows[i], p->opt->kl)) return cli_fail("no memory for the divergences");
    }
    return CLI_DONE;
}

static int window_read(perplexity *p, size_t first, size_t counted_from, progress *bar) {
    size_t left = p->text.n - first, span = span_of(p) < left ? span_of(p) : left;
    int n_window = (int)span + p->bos, status = score_seek(&p->reader, 0);
    if (status == CLI_DONE && p->opt->kl) status = score_seek(&p->exact, 0);
    for (int at = 0; at < n_window && status == CLI_DONE && !cli_stop; at += SCORE_ROWS) {
        int32_t tokens[SCORE_ROWS];
        int n = n_window - at < SCORE_ROWS ? n_window - at : SCORE_ROWS;
        for (int i = 0; i < n; i++) tokens[i] = token_at(p, first, at + i);
        status = score_read(&p->reader, tokens, n);
        if (status == CLI_DONE && p->opt->kl) status = score_read(&p->exact, tokens, n);
        if (status == CLI_DONE) status = rows_count(p, first, at, n, n_window, counted_from);
        progress_show(bar, (int64_t)(first + (size_t)at), (int64_t)p->text.n);
    }
    return cli_stop ? CLI_INTERRUPTED : status;
}

static int windows_read(perplexity *p) {
    progress bar = progress_of("reading the text");
    size_t counted_from = p->bos ? 0 : 1;
    int status = CLI_DONE;
    for (int window = 0; status == CLI_DONE; window++) {
        size_t first = (size_t)window * (size_t)p->stride;
        if (p->opt->chunks > 0 && window == p->opt->chunks) break;
        if (first >= p->text.n || counted_from >= p->text.n) break;
        status = window_read(p, first, counted_from > first + !p->bos ? counted_from : first + !p->bos, &bar);
        counted_from = first + span_of(p);
    }
    progress_clear(&bar);
    if (status == CLI_DONE && p->tally.n == 0) return cli_fail("%s: has no token to foresee", p->opt->file);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the results */

static int tell(const perplexity *p, const score_setup *s, const result *r) {
    const char *k = kvt_format_name(s->k_format), *v = kvt_format_name(s->v_format);
    double bits = p->reader.cost.bits;
    if (p->opt->common.json) {
        json_t *o = json_pack("{s:f, s:f, s:I, s:i, s:i, s:s, s:s, s:f, s:s}", "ppl", r->ppl, "ppl_error", r->error,
                              "tokens", (json_int_t)p->tally.n, "ctx", p->ctx, "stride", p->stride, "k_format", k,
                              "v_format", v, "bits_per_element", bits, "cpu", kvt_cpu());
        json_t *kl = json_pack("{s:f, s:f, s:f}", "kl_mean", r->kl_mean, "kl_p999", r->kl_p999, "top1_agree", r->agree);
        if (o && kl && p->opt->kl) json_object_update(o, kl);
        json_decref(kl);
        return json_print(o);
    }
    printf("perplexity %.4f +- %.4f over %s, windows of %s; keys %s, values %s, %.2f bits per element\n", r->ppl,
           r->error, show_counted((uint64_t)p->tally.n, "token").text, show_count((uint64_t)p->ctx).text, k, v, bits);
    if (p->opt->kl)
        printf("against float32 keys and values: KL divergence %.3g on average, %.3g at the 99.9th percentile; the "
               "likeliest token is the same in %.2f %%\n", r->kl_mean, r->kl_p999, 100 * r->agree);
    return cli_flush();
}

/* ------------------------------------------------------------------------------------------------ the command */

static int text_encode(perplexity *p) {
    byte_list text = { 0 };
    const tokenizer *t = model_tokenizer(p->loaded.model);
    int status = prompts_read_file(p->opt->file, &text);
    if (status == CLI_DONE && tokenizer_encode(t, text.at, text.n, false, &p->text) != KVT_OK)
        status = cli_fail("%s: cannot be made tokens", p->opt->file);
    byte_list_free(&text);
    p->bos = tokenizer_about(t)->add_bos;
    return status;
}

static int sizes_pick(perplexity *p) {
    enum { CTX = 2048 };
    int most = model_context(model_config_of(p->loaded.model));
    p->ctx = p->opt->common.ctx ? p->opt->common.ctx : most < CTX ? most : CTX;
    p->stride = p->opt->stride ? p->opt->stride : p->ctx - p->bos;
    if (p->ctx < 2 + p->bos) return cli_usage("perplexity", "--ctx %d is no window that foresees a token", p->ctx);
    if (p->stride > p->ctx - p->bos)
        return cli_usage("perplexity", "--stride %d leaves out tokens between windows of %d", p->stride, p->ctx);
    return CLI_DONE;
}

static int perplexity_run(perplexity *p) {
    int status = loaded_open(&p->loaded, &p->opt->common);
    if (status == CLI_DONE) status = text_encode(p);
    if (status == CLI_DONE) status = sizes_pick(p);
    if (status != CLI_DONE) return status;
    engine_options e = common_engine_options(&p->opt->common);
    score_setup setup = { e.math, e.k_format, e.v_format, e.block_tokens, e.hot_tokens, p->ctx, SCORE_ROWS },
                exact = setup;
    exact.k_format = exact.v_format = KVT_F32;
    status = score_open(&p->reader, &p->loaded, &setup);
    if (status == CLI_DONE && p->opt->kl) status = score_open(&p->exact, &p->loaded, &exact);
    cli_catch_interrupt();
    if (status == CLI_DONE) status = windows_read(p);
    if (status != CLI_DONE) return status;
    result r = result_of(&p->tally, p->opt->kl);
    return tell(p, &setup, &r);
}

static int perplexity_command(const void *options) {
    perplexity p = { .opt = options };
    if (!p.opt->file) return cli_usage("perplexity", "a text is wanted: -f FILE");
    int status = perplexity_run(&p);
    score_close(&p.reader);
    score_close(&p.exact);
    token_list_free(&p.text);
    free(p.tally.kl);
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
