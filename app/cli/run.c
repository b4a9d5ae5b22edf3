/* run.c - kvtile run: prompts in, answers out, token by token, and at the end what the cache did. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "prompts.h"
#include "block_store.h"
#include "tensorfile.h"

typedef struct run_options {
    common_options common;
    block_store_options store;
    prompt_options prompt;
    sample_options sampling;
    sampling_texts texts;
    int tokens_max, n_samples;
    int logprobs; /* -1: not asked for */
    const char *logits;
} run_options;

/* What the callbacks of one run share. */
typedef struct run_state {
    const run_options *opt;
    loaded loaded;
    block_store store;
    prompt_list prompts;
    engine *engine;
    int n_answers;
    answer *answers;  /* [n_answers] */
    row_file *logits; /* NULL: not asked for */
    progress progress;
    int failed; /* CLI_FAILED once something could not be written */
    bias_list biases;
} run_state;

/* ------------------------------------------------------------------------------------------------- options */

static const option option_table[] = {
    OPTION_MODEL(run_options),
    OPTION_HEAD("Prompt"),
    { "-p", "TEXT", OPTION_TEXT, offsetof(run_options, prompt.text), "the prompt" },
    { "-f", "FILE", OPTION_FILE, offsetof(run_options, prompt.file),
      "the prompt is a file's content; -: what stdin has" },
    { "--prompts", "FILE", OPTION_FILE, offsetof(run_options, prompt.lines),
      "one prompt per line, answered together as one batch" },
    { "--chat", NULL, OPTION_FLAG, offsetof(run_options, prompt.chat),
      "the prompt is a user's message; the model's chat template is used",
      .more = "Special tokens that the user types stay text." },
    { "--system", "TEXT", OPTION_TEXT, offsetof(run_options, prompt.system), "with --chat: the system message" },
    OPTION_HEAD("Answer"),
    { "-n", "TOKENS", OPTION_INT, offsetof(run_options, tokens_max), "most tokens of an answer", 1, 16777216 },
    { "--samples", "N", OPTION_INT, offsetof(run_options, n_samples),
      "answers to each prompt, which is computed once", 1, 1024 },
    OPTION_SAMPLING(run_options),
    OPTION_SAMPLING_TEXTS(run_options),
    OPTION_CACHE_ALL(run_options),
    OPTION_STORE(run_options),
    { "--ctx", "TOKENS", OPTION_INT, offsetof(run_options, common.ctx),
      "longest prompt and answer together (default: the model's)", 1, 16777216,
      .more = "A longer prompt is refused; an answer stops there." },
    OPTION_MACHINE(run_options),
    OPTION_CHUNK(run_options),
    OPTION_JSON(run_options),
    { "--logprobs", "K", OPTION_INT, offsetof(run_options, logprobs),
      "with --json: each token's log-probability, and the K likeliest with theirs", 0, LOGPROBS_TOP_MAX,
      .more = "They are the model's own, before penalties, temperature and the other rules." },
    { "--logits", "FILE", OPTION_FILE, offsetof(run_options, logits),
      "write float32 [tokens][vocabulary], the row behind each token",
      .more = "The first row is the one behind the prompt's last token. The numbers are little-endian, so that two "
              "runs can be compared byte by byte." },
};

static const option operand = { "-", NULL, OPTION_TEXT, offsetof(run_options, prompt.operand),
                                "the prompt is what stdin has" };

static const command_example examples[] = {
    { "run -p \"The capital of France is\" -n 20", "Continue a text with the likeliest tokens." },
    { "run --chat -p \"Name three uses of a cache.\" --samples 4 --temp 0.8",
      "Four answers to one message. The prompt is computed once, its blocks are shared." },
    { "run -m model.gguf --prompts questions.txt --chat --json",
      "A file of questions, answered as one batch, as JSON." },
    { "run -f report.txt --store ~/.cache/kvtile/store", "Read a text once: the next process finds it there." },
    { "run -f LICENSE -n 4 --cache none", "What life without a cache is like." },
};

static void run_defaults(void *options) {
    *(run_options *)options = (run_options){
        .common = common_options_default(),
        .sampling = sample_options_default(),
        .tokens_max = 128,
        .n_samples = 1,
        .logprobs = -1,
    };
}

/* What the rows cannot say. */
static int options_check(const run_options *o) {
    const prompt_options *p = &o->prompt;
    if (p->operand && strcmp(p->operand, "-") != 0)
        return cli_usage("run", "\"%s\" is no option (a prompt is given with -p)", p->operand);
    int n_sources = !!p->text + !!p->file + !!p->lines + !!p->operand;
    if (n_sources != 1)
        return cli_usage("run",
                         n_sources ? "one of -p, -f, - and --prompts, not several" : "a prompt is wanted: -p, -f or -");
    if (p->system && !p->chat) return cli_usage("run", "--system goes with --chat");
    if (o->logprobs >= 0 && !o->common.json) return cli_usage("run", "--logprobs goes with --json");
    if (o->logits && (o->n_samples > 1 || p->lines)) return cli_usage("run", "--logits is for a single answer");
    return block_store_options_check("run", &o->store, &o->common);
}

/* ------------------------------------------------------------------------------------------------ callbacks */

static void on_token(void *ctx, int index, int32_t token) {
    run_state *r = ctx;
    (void)index, (void)token;
    progress_clear(&r->progress);
}

/* Text of a single answer goes out as it comes; of several it waits, so that they do not mix. */
static void on_text(void *ctx, int index, const char *bytes, size_t n) {
    run_state *r = ctx;
    (void)index;
    if (r->opt->common.json || r->n_answers > 1) return;
    fwrite(bytes, 1, n, stdout);
    if (fflush(stdout) == 0) return;
    if (errno != EPIPE) r->failed = cli_fail("stdout: %s", strerror(errno));
    cli_stop = 1;
}

static void on_logits(void *ctx, int index, const float *logits) {
    run_state *r = ctx;
    (void)index;
    if (row_file_add(r->logits, logits)) return;
    r->failed = CLI_FAILED;
    cli_stop = 1;
}

static void on_progress(void *ctx, int64_t done, int64_t total) {
    run_state *r = ctx;
    progress_show(&r->progress, done, total);
}

/* -------------------------------------------------------------------------------------------------- the run */

/* The longest sequence this run can come to. */
static int tokens_needed(const run_state *r) {
    int64_t longest = 0;
    for (int i = 0; i < r->prompts.n; i++)
        if (r->prompts.prompt[i].n_tokens > longest) longest = r->prompts.prompt[i].n_tokens;
    longest += r->opt->tokens_max;
    int64_t context = model_context(model_config_of(r->loaded.model));
    return (int)(longest < context ? longest : context);
}

/* Would the cache take more than half of the memory? */
static bool too_large(const engine_options *e, const model *m) {
    kvt_bytes_info need;
    kvt_status status = engine_bytes(m, e, &need);
    return status == KVT_E_LIMIT || need.bytes_total > sys_memory_total() / 2;
}

/* Without --ctx the context is the model's, or what this run needs: where nothing is kept, a step's scratch grows with
 * the context; and a model trained on a million tokens must not ask for a million tokens' memory. */
static engine_options engine_wanted(const run_state *r) {
    engine_options e = common_engine_options(&r->opt->common);
    e.sequences_max = r->n_answers;
    e.context = r->opt->common.ctx;
    if (e.context > 0) return e;
    e.context = e.rope_context = model_context(model_config_of(r->loaded.model));
    if (e.kind == KVT_NONE || too_large(&e, r->loaded.model)) e.context = tokens_needed(r);
    return e;
}

static int engine_prepare(run_state *r) {
    engine_options e = engine_wanted(r);
    int trained = model_context(model_config_of(r->loaded.model)), limit = r->opt->common.ctx ? e.context : trained;
    for (int i = 0; i < r->prompts.n; i++)
        if (r->prompts.prompt[i].n_tokens > limit)
            return cli_fail("the prompt has %d tokens, the context holds %d (--ctx)", r->prompts.prompt[i].n_tokens,
                            limit);
    if (block_store_open(&r->store, &r->opt->store) != CLI_DONE) return CLI_FAILED;
    block_store_give(&r->store, &e);
    if (loaded_engine(&r->engine, &r->loaded, &e) != CLI_DONE) return CLI_FAILED;
    if (e.context > trained)
        cli_warn("--ctx %d is more than the %d tokens that the model was trained on", e.context, trained);
    block_store_warn_small(&r->store, r->engine);
    if (r->opt->n_samples > 1 && r->opt->sampling.temp == 0)
        cli_warn("all %d samples will be the same: without --temp the likeliest token is taken each time",
                 r->opt->n_samples);
    return CLI_DONE;
}

static int answers_prepare(run_state *r) {
    r->answers = calloc((size_t)r->n_answers, sizeof *r->answers);
    if (!r->answers) return cli_fail("no memory for %d answers", r->n_answers);
    if (!r->opt->logits) return CLI_DONE;
    r->logits = row_file_open(r->opt->logits, (size_t)model_config_of(r->loaded.model)->n_vocab);
    return r->logits ? CLI_DONE : CLI_FAILED;
}

static int answers_print(run_state *r) {
    if (r->opt->common.json) return CLI_DONE;
    for (int i = 0; i < r->n_answers && r->n_answers > 1; i++) {
        printf("[%d] ", i + 1);
        fwrite(r->answers[i].text.at, 1, r->answers[i].text.n, stdout);
        putchar('\n');
    }
    if (r->n_answers == 1) putchar('\n');
    return cli_flush();
}

static int report(run_state *r) {
    engine_flush(r->engine); /* what is told of a store is all of it */
    run_report rep = {
        .loaded = &r->loaded,
        .engine = r->engine,
        .prompts = r->prompts.prompt,
        .n_prompts = r->prompts.n,
        .n_samples = r->opt->n_samples,
        .answers = r->answers,
        .store = &r->store,
    };
    if (r->opt->common.json) return report_json(&rep);
    report_table(&rep);
    return CLI_DONE;
}

/* The stop texts asked for, and where no end token ends an answer of this chat, the text that does. */
static int stops_gather(const run_state *r, const char *out[STOP_TEXTS_MAX]) {
    const option_texts *asked = &r->opt->texts.stop;
    const char *end = r->opt->prompt.chat ? chat_stop(model_chat(r->loaded.model, NULL)) : NULL;
    int n = 0;
    for (; n < asked->n; n++) out[n] = asked->text[n];
    if (end && n < STOP_TEXTS_MAX) out[n++] = end;
    return n;
}

static int answer_all(run_state *r) {
    error_text err;
    const char *stops[STOP_TEXTS_MAX];
    generate_options g = {
        .prompts = r->prompts.prompt,
        .n_prompts = r->prompts.n,
        .n_samples = r->opt->n_samples,
        .tokens_max = r->opt->tokens_max,
        .sampling = r->opt->sampling,
        .stop_texts = stops,
        .n_stop_texts = stops_gather(r, stops),
        .goes_on = !r->opt->prompt.chat,
        .logprobs = r->opt->logprobs >= 0,
        .n_top = r->opt->logprobs > 0 ? r->opt->logprobs : 0,
        .on_logits = r->logits ? on_logits : NULL,
        .on_token = on_token,
        .on_text = on_text,
        .on_progress = on_progress,
        .ctx = r,
        .stop = &cli_stop,
    };
    g.sampling.bias = r->biases.at;
    g.sampling.n_bias = r->biases.n;
    cli_catch_interrupt();
    r->progress = progress_of("reading the prompt");
    kvt_status status = generate(r->engine, &g, r->answers, &err);
    progress_clear(&r->progress);
    if (status != KVT_OK) return cli_fail("%s: %s", r->loaded.path, err.text);
    bool reader_gone = ferror(stdout);
    if (!reader_gone && !r->failed) r->failed = answers_print(r);
    if (!reader_gone && !r->failed) r->failed = report(r);
    if (r->logits && !row_file_keep(r->logits)) r->failed = CLI_FAILED;
    if (r->failed) return r->failed;
    return cli_stop && !reader_gone ? CLI_INTERRUPTED : CLI_DONE;
}

static int run(run_state *r) {
    int status = loaded_open(&r->loaded, &r->opt->common);
    if (status == CLI_DONE) status = prompts_encode(&r->prompts, &r->opt->prompt, r->loaded.model);
    if (status != CLI_DONE) return status;
    if ((int64_t)r->prompts.n * r->opt->n_samples > 65535)
        return cli_fail("%d prompts with %d samples each are more than 65535 answers", r->prompts.n, r->opt->n_samples);
    r->n_answers = r->prompts.n * r->opt->n_samples;
    status = engine_prepare(r);
    if (status == CLI_DONE) status = answers_prepare(r);
    return status == CLI_DONE ? answer_all(r) : status;
}

static int run_command(const void *options) {
    const run_options *opt = options;
    int status = options_check(opt);
    if (status != OPTIONS_GO) return status;
    run_state r = { .opt = opt };
    status = sampling_texts_read("run", &opt->texts, &r.biases);
    if (status != OPTIONS_GO) return status;
    status = run(&r);

    row_file_drop(r.logits);
    if (r.answers) answers_free(r.answers, r.n_answers);
    free(r.answers);
    engine_close(r.engine);
    block_store_close(&r.store);
    prompts_free(&r.prompts);
    loaded_close(&r.loaded);
    return status;
}

const command command_run = {
    .name = "run",
    .summary = "generate from a prompt",
    .usage = "[-m MODEL] (-p TEXT | -f FILE | - | --prompts FILE) [OPTIONS]",
    .about = "Generate from a prompt. The text goes to stdout as it comes, what the cache did and saved to stderr.",
    .more = "Several answers are written when all are there, each behind its number.\n\n"
            "With --json there is one object instead of text: model, arch, math, load_ms, text and tokens of the first "
            "answer, samples with text, tokens and finish_reason (stop, length or interrupted) of each, "
            "finish_reason, prompt_tokens, cached_tokens, completion_tokens, positions_computed, ttft_ms, tpot_ms, "
            "prefill_tokens_per_s, decode_tokens_per_s, threads, cpu, and cache. With --logprobs each of the samples "
            "has logprobs, a list with token, text, bytes, logprob and top of each token. cached_tokens are those of "
            "the prompts that were not computed, because another prompt had them, or the store. With --store there "
            "is store, with folder, bytes (what its files take), found (tokens of the prompts that came from it), "
            "fetched and written (blocks).\n\n"
            "Times are those of the clock on the wall, with everything that a token waits for. ttft_ms is from the "
            "beginning to the first token of the first answer. tpot_ms is what a token behind the first takes, in the "
            "longest answer. decode_tokens_per_s counts the tokens behind the first of all answers, from when the "
            "earliest answer has its first token until the last one ends: 1000 / tpot_ms of a single answer, as many "
            "times that of answers that begin and end together. prefill_tokens_per_s alone leaves out what is not "
            "computing: tokens of prompts by the time of the steps that read them.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(run_options),
    .defaults = run_defaults,
    .run = run_command,
};
