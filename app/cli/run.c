/* run.c - kvtile run: prompts in, answers out, token by token, and at the end what the cache did. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "prompts.h"
#include "tensorfile.h"

typedef struct run_options {
    common_options common;
    prompt_options prompt;
    sample_options sampling;
    int tokens_max, n_samples;
    const char *logits;
} run_options;

/* What the callbacks of one run share. */
typedef struct run_state {
    const run_options *opt;
    loaded loaded;
    prompt_list prompts;
    engine *engine;
    int n_answers;
    answer *answers;             /* [n_answers] */
    byte_list *texts;            /* [n_answers] */
    tokenizer_decoder *decoders; /* [n_answers] */
    size_t printed;              /* bytes of the only answer that are on stdout */
    row_file *logits;            /* NULL: not asked for */
    progress progress;
    int failed; /* CLI_FAILED once something could not be written */
} run_state;

/* ------------------------------------------------------------------------------------------------- options */

static const option option_table[] = {
    OPTION_MODEL(run_options),
    OPTION_HEAD("Prompt"),
    { "-p", "TEXT", OPTION_TEXT, offsetof(run_options, prompt.text), "the prompt" },
    { "-f", "FILE", OPTION_FILE, offsetof(run_options, prompt.file), "the prompt is a file's content" },
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
    OPTION_CACHE_ALL(run_options),
    { "--ctx", "TOKENS", OPTION_INT, offsetof(run_options, common.ctx),
      "longest prompt and answer together (default: the model's)", 1, 16777216,
      .more = "A longer prompt is refused; an answer stops there." },
    OPTION_MACHINE(run_options),
    OPTION_CHUNK(run_options),
    OPTION_JSON(run_options),
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
    { "run -f LICENSE -n 4 --cache none", "What life without a cache is like." },
};

static void run_defaults(void *options) {
    *(run_options *)options = (run_options){
        .common = common_options_default(),
        .sampling = sample_options_default(),
        .tokens_max = 128,
        .n_samples = 1,
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
    if (o->logits && (o->n_samples > 1 || p->lines)) return cli_usage("run", "--logits is for a single answer");
    return OPTIONS_GO;
}

/* ------------------------------------------------------------------------------------------------ callbacks */

/* Text of a single answer goes out as it comes; of several it waits, so that they do not mix. */
static void print_new(run_state *r) {
    const byte_list *text = &r->texts[0];
    if (r->opt->common.json || r->n_answers > 1 || r->printed == text->n) return;
    fwrite(text->at + r->printed, 1, text->n - r->printed, stdout);
    r->printed = text->n;
    if (fflush(stdout) == 0) return;
    if (errno != EPIPE) r->failed = cli_fail("stdout: %s", strerror(errno));
    cli_stop = 1;
}

static void on_token(void *ctx, int index, int32_t token) {
    run_state *r = ctx;
    if (tokenizer_push(&r->decoders[index], token, &r->texts[index]) != KVT_OK) {
        r->failed = cli_fail("no memory for the text");
        cli_stop = 1;
    }
    progress_clear(&r->progress);
    print_new(r);
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
    error_text err;
    engine_options e = engine_wanted(r);
    int trained = model_context(model_config_of(r->loaded.model)), limit = r->opt->common.ctx ? e.context : trained;
    for (int i = 0; i < r->prompts.n; i++)
        if (r->prompts.prompt[i].n_tokens > limit)
            return cli_fail("the prompt has %d tokens, the context holds %d (--ctx)", r->prompts.prompt[i].n_tokens,
                            limit);
    if (engine_open(&r->engine, r->loaded.model, r->loaded.team, &e, &err) != KVT_OK)
        return cli_fail("%s%s", e.cache_bytes ? "--cache-size: " : "", err.text);
    if (e.context > trained)
        cli_warn("--ctx %d is more than the %d tokens that the model was trained on", e.context, trained);
    return CLI_DONE;
}

static int answers_prepare(run_state *r) {
    size_t n = (size_t)r->n_answers;
    r->answers = calloc(n, sizeof *r->answers);
    r->texts = calloc(n, sizeof *r->texts);
    r->decoders = calloc(n, sizeof *r->decoders);
    if (!r->answers || !r->texts || !r->decoders) return cli_fail("no memory for %d answers", r->n_answers);
    for (int i = 0; i < r->n_answers; i++)
        r->decoders[i] = tokenizer_decoder_of(model_tokenizer(r->loaded.model), false);
    if (!r->opt->logits) return CLI_DONE;
    r->logits = row_file_open(r->opt->logits, (size_t)model_config_of(r->loaded.model)->n_vocab);
    return r->logits ? CLI_DONE : CLI_FAILED;
}

static int answers_print(run_state *r) {
    if (r->opt->common.json) return CLI_DONE;
    print_new(r);
    for (int i = 0; i < r->n_answers && r->n_answers > 1; i++) {
        printf("[%d] ", i + 1);
        fwrite(r->texts[i].at, 1, r->texts[i].n, stdout);
        putchar('\n');
    }
    if (r->n_answers == 1) putchar('\n');
    return cli_flush();
}

static int report(run_state *r) {
    run_report rep = {
        .loaded = &r->loaded,
        .engine = r->engine,
        .prompts = r->prompts.prompt,
        .n_prompts = r->prompts.n,
        .n_samples = r->opt->n_samples,
        .answers = r->answers,
        .texts = r->texts,
    };
    if (r->opt->common.json) return report_json(&rep);
    report_table(&rep);
    return CLI_DONE;
}

static int answer_all(run_state *r) {
    error_text err;
    generate_options g = {
        .prompts = r->prompts.prompt,
        .n_prompts = r->prompts.n,
        .n_samples = r->opt->n_samples,
        .tokens_max = r->opt->tokens_max,
        .sampling = r->opt->sampling,
        .on_logits = r->logits ? on_logits : NULL,
        .on_token = on_token,
        .on_progress = on_progress,
        .ctx = r,
        .stop = &cli_stop,
    };
    cli_catch_interrupt();
    r->progress = progress_of("reading the prompt");
    kvt_status status = generate(r->engine, &g, r->answers, &err);
    progress_clear(&r->progress);
    if (status != KVT_OK) return cli_fail("%s: %s", r->loaded.path, err.text);
    for (int i = 0; i < r->n_answers; i++)
        if (tokenizer_flush(&r->decoders[i], &r->texts[i]) != KVT_OK) return cli_fail("no memory for the text");
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
    status = run(&r);

    row_file_drop(r.logits);
    if (r.answers) answers_free(r.answers, r.n_answers);
    for (int i = 0; r.texts && i < r.n_answers; i++) byte_list_free(&r.texts[i]);
    free(r.answers);
    free(r.texts);
    free(r.decoders);
    engine_close(r.engine);
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
            "answer, samples with text, tokens and finish_reason of each, finish_reason, prompt_tokens, cached_tokens, "
            "completion_tokens, positions_computed, ttft_ms, tpot_ms, prefill_tokens_per_s, decode_tokens_per_s, "
            "threads, cpu, and cache.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(run_options),
    .defaults = run_defaults,
    .run = run_command,
};
