/* bench_modes.c - kvtile bench modes: what each precision costs and what it loses, on a text.
 *
 * Every mode reads the same tokens through a cache of its own; at every position its logits are compared with those of
 * float32. Then each is timed alone. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"
#include "prompts.h"

enum { N_MODES = 3, EXACT = 2, TOKENS_DEFAULT = 2048, DECODE_STEPS = 15 };

static const char *const mode_names[N_MODES] = { "fast", "accurate", "exact" }; /* in the order of --math */

typedef struct modes_options {
    common_options common;
    const char *file;
} modes_options;

/* What a mode makes of one position. */
typedef struct score {
    double divergence; /* Kullback-Leibler, from float32's distribution to this one, in nats */
    double loss;       /* -ln of the probability of the token that does come next */
    bool same_top;     /* the likeliest token is float32's */
} score;

typedef struct mode {
    bench_cache cache;
    model_state *state;
    float *logits; /* [chunk][n_vocab] */
    score *scores; /* [n_tokens] */
    double prefill_ms, decode_ms;
} mode;

typedef struct modes {
    loaded loaded;
    const model_config *config;
    prompt_list text;
    const int32_t *tokens; /* [n_tokens] of the text, and one behind them where it has more */
    int n_tokens, n_known; /* n_known: positions whose next token is in the text */
    int chunk, at;         /* at: the position of the chunk's first row */
    int *rows;             /* [chunk] 0, 1, 2, ... */
    mode mode[N_MODES];
} modes;

static const option option_table[] = {
    OPTION_MODEL(modes_options),
    { "-f", "FILE", OPTION_FILE, offsetof(modes_options, file), "the text that is read, from its beginning" },
    { "--ctx", "TOKENS", OPTION_INT, offsetof(modes_options, common.ctx),
      "how many tokens of it (default: 2048, or what the model was trained on)", 2, 1 << 20 },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(modes_options),
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
    m->rows = calloc((size_t)m->chunk, sizeof *m->rows);
    for (int i = 0; m->rows && i < m->chunk; i++) m->rows[i] = i;
    return m->rows ? CLI_DONE : cli_fail("no memory for %d rows", m->chunk);
}

static int mode_open(mode *one, const modes *m, const modes_options *o, int math) {
    common_options c = o->common;
    c.math = math;
    int status = bench_cache_open(&one->cache, m->config, m->loaded.team, &c, m->n_tokens + 1, m->chunk);
    if (status != CLI_DONE) return status;
    one->logits = malloc((size_t)m->chunk * (size_t)m->config->n_vocab * sizeof *one->logits);
    one->scores = calloc((size_t)m->n_tokens, sizeof *one->scores);
    if (one->logits && one->scores &&
        model_state_new(&one->state, m->loaded.model, m->chunk, m->n_tokens, common_math(&c), m->loaded.team) ==
            KVT_OK)
        return CLI_DONE;
    return cli_fail("no memory for logits of %d rows in three modes", m->chunk);
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
        bench_cache_close(&m->mode[i].cache);
        model_state_free(m->mode[i].state);
        free(m->mode[i].logits);
        free(m->mode[i].scores);
    }
    prompts_free(&m->text);
    free(m->rows);
    loaded_close(&m->loaded);
}

/* --------------------------------------------------------------------------------------------------- steps */

/* n tokens of the text from `at` on, with logits of the rows from `first` on. */
static int step(const modes *m, mode *one, int at, int n, int first) {
    model_step s = { .batch = { 1, &one->cache.seq, &n }, .tokens = m->tokens + at, .logits = one->logits };
    s.wanted = m->rows + first;
    s.n_wanted = n - first;
    kvt_status status = kvt_reserve(one->cache.cache, &s.batch);
    if (status == KVT_OK) status = model_forward(one->state, one->cache.cache, &s);
    if (status == KVT_OK) status = kvt_commit(one->cache.cache, &s.batch, s.tokens);
    if (status == KVT_OK) return CLI_DONE;
    kvt_abort(one->cache.cache, &s.batch);
    return cli_fail("a step failed: %s", kvt_status_text(status));
}

/* -------------------------------------------------------------------------------------------------- scores */

/* ln of the sum of e^x; *top is the place of the largest. */
static double log_sum(const float *x, int n, int *top) {
    double sum = 0;
    *top = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[*top]) *top = i;
    for (int i = 0; i < n; i++) sum += kvt_exp((double)x[i] - x[*top]);
    return x[*top] + kvt_log(sum);
}

static double divergence(const float *p, double p_sum, const float *q, double q_sum, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double ln_p = p[i] - p_sum;
        sum += kvt_exp(ln_p) * (ln_p - (q[i] - q_sum));
    }
    return sum;
}

/* One row of the chunk, all modes. */
static void score_row(void *ctx, int row, int worker) {
    modes *m = ctx;
    int n_vocab = m->config->n_vocab, top[N_MODES], at = m->at + row;
    size_t first = (size_t)row * (size_t)n_vocab;
    const float *exact = m->mode[EXACT].logits + first;
    double sum[N_MODES];
    (void)worker;
    for (int i = N_MODES - 1; i >= 0; i--) {
        const float *x = m->mode[i].logits + first;
        score *s = &m->mode[i].scores[at];
        sum[i] = log_sum(x, n_vocab, &top[i]);
        s->divergence = i == EXACT ? 0 : divergence(exact, sum[EXACT], x, sum[i], n_vocab);
        s->same_top = top[i] == top[EXACT];
        s->loss = at < m->n_known ? sum[i] - x[m->tokens[at + 1]] : 0;
    }
}

/* The whole text in all modes, chunk by chunk. */
static int compare(modes *m) {
    progress bar = progress_of("reading in three modes");
    int status = CLI_DONE;
    for (m->at = 0; m->at < m->n_tokens && status == CLI_DONE; m->at += m->chunk) {
        int left = m->n_tokens - m->at, n = left < m->chunk ? left : m->chunk;
        for (int i = 0; i < N_MODES && status == CLI_DONE; i++) status = step(m, &m->mode[i], m->at, n, 0);
        if (status == CLI_DONE) kvt_workers_run(m->loaded.team, n, score_row, m);
        if (cli_stop) status = CLI_INTERRUPTED;
        progress_show(&bar, m->at + n, m->n_tokens);
    }
    progress_clear(&bar);
    return status;
}

/* --------------------------------------------------------------------------------------------------- times */

/* The text as a prompt, which wants the last logits alone; then the last token again and again. */
static int measure(const modes *m, mode *one) {
    double ms[DECODE_STEPS];
    int status = bench_cache_fill(&one->cache, 0), last = m->n_tokens - 1;
    uint64_t start = sys_now_ns();
    for (int at = 0; at < m->n_tokens && status == CLI_DONE; at += m->chunk) {
        int left = m->n_tokens - at, n = left < m->chunk ? left : m->chunk;
        status = step(m, one, at, n, n - 1);
    }
    one->prefill_ms = bench_ms_since(start);
    for (int i = 0; i < DECODE_STEPS && status == CLI_DONE; i++) {
        status = bench_cache_fill(&one->cache, last);
        start = sys_now_ns();
        if (status == CLI_DONE) status = step(m, one, last, 1, 0);
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
    double x = ((const score *)a)->divergence, y = ((const score *)b)->divergence;
    return (x > y) - (x < y);
}

static modes_row row_of(const modes *m, mode *one) {
    double loss = 0, sum = 0;
    int n = m->n_tokens, n_same = 0;
    for (int i = 0; i < n; i++) {
        loss += one->scores[i].loss;
        sum += one->scores[i].divergence;
        n_same += one->scores[i].same_top;
    }
    qsort(one->scores, (size_t)n, sizeof *one->scores, ascending);
    return (modes_row){
        .perplexity = kvt_exp(loss / m->n_known),
        .mean = sum / n,
        .rare = one->scores[n - 1 - n / 1000].divergence,
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
                            "perplexity", r->perplexity, "divergence_mean", r->mean, "divergence_p999", r->rare,
                            "same_top", r->same_top, "prefill_tokens_per_s", r->prefill_rate, "decode_tokens_per_s",
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
