/* bench_modes.c - kvtile bench modes: what each precision costs and what it loses, on a text.
 *
 * Every mode reads the same tokens through a cache of its own; at every position its logits are compared with those of
 * float32. Then each is timed alone. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"
#include "prompts.h"
#include "score.h"

enum { N_MODES = 3, EXACT = 2, TOKENS_DEFAULT = 2048, DECODE_STEPS = 15 };

static const char *const mode_names[N_MODES] = { "fast", "accurate", "exact" }; /* in the order of --math */

typedef struct modes_options {
    common_options common;
    const char *file;
} modes_options;

typedef struct mode {
    score_reader reader;
    score_row *scores; /* [n_tokens] against float32 */
    double prefill_ms, decode_ms;
} mode;

typedef struct modes {
    loaded loaded;
    const model_config *config;
    prompt_list text;
    const int32_t *tokens; /* [n_tokens] of the text, and one behind them where it has more */
    int n_tokens, n_known; /* n_known: positions whose next token is in the text */
    int chunk;
    int32_t *next; /* [chunk] */
    mode mode[N_MODES];
} modes;

static const option option_table[] = {
    OPTION_MODEL(modes_options),
    { "-f", "FILE", OPTION_FILE, offsetof(modes_options, file), "the text that is read, from its beginning" },
    { "--ctx", "TOKENS", OPTION_INT, offsetof(modes_options, common.ctx),
      "how many tokens of it (default: 2048, or what the model was trained on)", 2, 1 << 20 },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(modes_options),
    OPTION_HEAD("Machine"),
    OPTION_THREADS(modes_options),
    OPTION_CHUNK(modes_options),
    OPTION_JSON(modes_options),
};

static const command_example examples[] = {
    { "bench modes -f book.txt --ctx 1024", "The first 1,024 tokens of a text, in each mode." },
};

static void modes_defaults(void *options) {
    *(modes_options *)options = (modes_options){ .common = common_options_default() };
}

/* -------------------------------------------------------------------------------------------- open and close */

static int text_open(modes *m, const modes_options *o) {
    prompt_options from = { .file = o->file };
    int status = prompts_encode(&m->text, &from, m->loaded.model), context = model_context(m->config);
    if (status != CLI_DONE) return status;
    int wanted = o->common.ctx ? o->common.ctx : context < TOKENS_DEFAULT ? context : TOKENS_DEFAULT;
    int n = m->text.prompt[0].n_tokens;
    if (wanted > context)
        return cli_fail("--ctx %d: the model was trained on %d positions, and beyond them all modes are lost", wanted,
                        context);
    if (n < 2) return cli_fail("%s: a text of one token, which predicts nothing", o->file);
    m->tokens = m->text.prompt[0].tokens;
    m->n_tokens = n < wanted ? n : wanted;
    m->n_known = n > m->n_tokens ? m->n_tokens : m->n_tokens - 1;
    m->chunk = o->common.chunk < m->n_tokens ? o->common.chunk : m->n_tokens;
    m->next = malloc((size_t)m->chunk * sizeof *m->next);
    return m->next ? CLI_DONE : cli_fail("no memory for %d tokens", m->chunk);
}

static int mode_open(mode *one, const modes *m, const modes_options *o, int math) {
    common_options c = o->common;
    c.math = math;
    engine_options e = common_engine_options(&c);
    score_setup setup = { e.math, e.k_format, e.v_format, e.block_tokens, e.hot_tokens, m->n_tokens, m->chunk };
    one->scores = calloc((size_t)m->n_tokens, sizeof *one->scores);
    if (!one->scores) return cli_fail("no memory for %d scores", m->n_tokens);
    return score_open(&one->reader, &m->loaded, &setup);
}

static int modes_open(modes *m, const modes_options *o) {
    int status = loaded_open(&m->loaded, &o->common);
    if (status != CLI_DONE) return status;
    m->config = model_config_of(m->loaded.model);
    status = text_open(m, o);
    for (int i = 0; i < N_MODES && status == CLI_DONE; i++) status = mode_open(&m->mode[i], m, o, i);
    return status;
}

static void modes_close(modes *m) {
    for (int i = 0; i < N_MODES; i++) {
        score_close(&m->mode[i].reader);
        free(m->mode[i].scores);
    }
    prompts_free(&m->text);
    free(m->next);
    loaded_close(&m->loaded);
}

/* -------------------------------------------------------------------------------------------------- scores */

/* A chunk of the text in one mode; exact has been through it. */
static int chunk_read(modes *m, int i, int at, int n) {
    mode *one = &m->mode[i];
    int status = score_read(&one->reader, m->tokens + at, n);
    if (status == CLI_DONE) score_rows(&one->reader, &m->mode[EXACT].reader, m->next, n, one->scores + at);
    return status;
}

/* The whole text in all modes, chunk by chunk. */
static int compare(modes *m) {
    progress bar = progress_of("reading in three modes");
    int status = CLI_DONE;
    for (int at = 0; at < m->n_tokens && status == CLI_DONE; at += m->chunk) {
        int left = m->n_tokens - at, n = left < m->chunk ? left : m->chunk;
        for (int i = 0; i < n; i++) m->next[i] = at + i < m->n_known ? m->tokens[at + i + 1] : -1;
        for (int i = N_MODES - 1; i >= 0 && status == CLI_DONE; i--) status = chunk_read(m, i, at, n);
        if (cli_stop) status = CLI_INTERRUPTED;
        progress_show(&bar, at + n, m->n_tokens);
    }
    progress_clear(&bar);
    return status;
}

/* --------------------------------------------------------------------------------------------------- times */

/* The text as a prompt, which wants the last logits alone; then the last token again and again. */
static int measure(const modes *m, mode *one) {
    double ms[DECODE_STEPS];
    int status = score_seek(&one->reader, 0), last = m->n_tokens - 1;
    uint64_t start = sys_now_ns();
    for (int at = 0; at < m->n_tokens && status == CLI_DONE; at += m->chunk) {
        int left = m->n_tokens - at, n = left < m->chunk ? left : m->chunk;
        status = score_read_last(&one->reader, m->tokens + at, n);
    }
    one->prefill_ms = bench_ms_since(start);
    for (int i = 0; i < DECODE_STEPS && status == CLI_DONE; i++) {
        status = score_seek(&one->reader, last);
        start = sys_now_ns();
        if (status == CLI_DONE) status = score_read_last(&one->reader, m->tokens + last, 1);
        ms[i] = bench_ms_since(start);
    }
    if (status == CLI_DONE) one->decode_ms = bench_median(ms, DECODE_STEPS);
    return cli_stop ? CLI_INTERRUPTED : status;
}

/* ------------------------------------------------------------------------------------------------- telling */

typedef struct modes_row {
    double perplexity, mean, rare; /* rare: one position in a thousand diverges more */
    double same_top;
    double prefill_rate, decode_rate; /* tokens a second */
} modes_row;

static int ascending(const void *a, const void *b) {
    double x = ((const score_row *)a)->kl, y = ((const score_row *)b)->kl;
    return (x > y) - (x < y);
}

static modes_row row_of(const modes *m, mode *one) {
    double loss = 0, sum = 0;
    int n = m->n_tokens, n_same = 0;
    for (int i = 0; i < n; i++) {
        loss += one->scores[i].nll;
        sum += one->scores[i].kl;
        n_same += one->scores[i].top_agrees;
    }
    qsort(one->scores, (size_t)n, sizeof *one->scores, ascending);
    return (modes_row){
        .perplexity = kvt_exp(loss / m->n_known),
        .mean = sum / n,
        .rare = one->scores[n - 1 - n / 1000].kl,
        .same_top = (double)n_same / n,
        .prefill_rate = 1e3 * n / one->prefill_ms,
        .decode_rate = 1e3 / one->decode_ms,
    };
}

static int tell_json(const modes *m, const modes_row *r) {
    json_t *rows = json_array();
    for (int i = 0; i < N_MODES; i++, r++)
        json_array_append_new(
            rows, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f}", "math", mode_names[i], "tokens", m->n_tokens,
                            "ppl", r->perplexity, "kl_mean", r->mean, "kl_p999", r->rare, "top1_agree", r->same_top,
                            "prefill_tokens_per_s", r->prefill_rate, "decode_tokens_per_s",
                            r->decode_rate));
    return json_print(bench_json("bench modes", m->loaded.team, bench_bandwidth(m->loaded.team), rows));
}

static int tell_table(const modes *m, const char *file, const modes_row *r) {
    const model_info *info = model_info_of(m->loaded.model);
    printf("%s: %s\n%s tokens of %s, %s, %d threads\n", info->name, info->types,
           show_count((uint64_t)m->n_tokens).text, file, kvt_cpu(), kvt_workers_count(m->loaded.team));
    printf("%-9s %10s %12s %12s %10s %15s %15s\n", "mode", "perplexity", "KL mean", "KL 99.9 %", "same top",
           "prefill tok/s", "decode tok/s");
    for (int i = 0; i < N_MODES; i++, r++)
        printf("%-9s %10.4f %12.2e %12.2e %8.2f %% %15.1f %15.1f\n", mode_names[i], r->perplexity, r->mean, r->rare,
               100 * r->same_top, r->prefill_rate, r->decode_rate);
    return cli_flush();
}

static int tell(modes *m, const modes_options *o) {
    modes_row rows[N_MODES];
    for (int i = 0; i < N_MODES; i++) {
        rows[i] = row_of(m, &m->mode[i]);
        if (!(rows[i].perplexity > 0) || !(rows[i].mean < 1e9))
            return cli_fail("the logits in %s are not numbers", mode_names[i]);
    }
    return o->common.json ? tell_json(m, rows) : tell_table(m, o->file, rows);
}

static int modes_command(const void *options) {
    const modes_options *o = options;
    modes m = { 0 };
    if (!o->file) return cli_usage("bench modes", "-f FILE: a text is needed");
    cli_catch_interrupt();
    int status = modes_open(&m, o);
    if (status == CLI_DONE) status = compare(&m);
    for (int i = 0; i < N_MODES && status == CLI_DONE; i++) status = measure(&m, &m.mode[i]);
    if (status == CLI_DONE) status = tell(&m, o);
    modes_close(&m);
    return status;
}

const command command_bench_modes = {
    .name = "bench modes",
    .summary = "what each precision costs and loses, on a text",
    .usage = "[-m MODEL] -f FILE [OPTIONS]",
    .about = "Read a text in each of the modes of --math and compare them with exact, position by position: how far "
             "the distribution of the next token is from that of float32 (the Kullback-Leibler divergence in nats, "
             "mean and what one position in a thousand exceeds), how often the likeliest token is the same, how well "
             "the text is predicted, and the rates of reading it and of one token more behind it.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(modes_options),
    .defaults = modes_defaults,
    .run = modes_command,
};
