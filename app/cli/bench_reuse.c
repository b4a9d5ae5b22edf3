/* bench_reuse.c - kvtile bench reuse: what keeping keys and values is worth, on one prompt and in one process. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

typedef struct reuse_options {
    common_options common;
    int prompt_tokens, answer_tokens;
    bench_batch batch;
} reuse_options;

typedef struct reuse_row {
    kvt_cache_kind kind;
    uint64_t positions;
    double seconds;
    size_t bytes_used, bytes_reserved;
    answer answer;
} reuse_row;

static const option option_table[] = {
    OPTION_MODEL(reuse_options),
    { "--tokens", "TOKENS", OPTION_INT, offsetof(reuse_options, prompt_tokens), "length of the prompt", 1, 1 << 20 },
    { "-n", "TOKENS", OPTION_INT, offsetof(reuse_options, answer_tokens), "tokens of the answer", 1, 1 << 20 },
    { "--prompts", "N", OPTION_INT, offsetof(reuse_options, batch.n_prompts),
      "prompts that begin alike, answered as one batch", 0, 256,
      .more = "0 leaves them out." },
    { "--prefix", "TOKENS", OPTION_INT, offsetof(reuse_options, batch.prefix), "what those have in common", 1,
      1 << 20 },
    { "--own", "TOKENS", OPTION_INT, offsetof(reuse_options, batch.own), "what each has behind that", 1, 1 << 20 },
    OPTION_HEAD("Cache"),
    { "--ctx", "TOKENS", OPTION_INT, offsetof(reuse_options, common.ctx),
      "what a contiguous cache reserves (default: the model's context)", 1, 1 << 24 },
    OPTION_FORMATS(reuse_options),
    OPTION_MACHINE(reuse_options),
    OPTION_CHUNK(reuse_options),
    OPTION_JSON(reuse_options),
};

static const command_example examples[] = {
    { "bench reuse --tokens 1024 -n 16", "A longer prompt, where keeping its keys and values is worth more." },
};

static void reuse_defaults(void *options) {
    *(reuse_options *)options =
        (reuse_options){ .common = common_options_default(), .prompt_tokens = 256, .answer_tokens = 32,
                         .batch = { .n_prompts = 8, .prefix = 512, .own = 32 } };
}

static int measure(const reuse_options *o, const loaded *l, kvt_cache_kind kind, const prompt *p, reuse_row *out) {
    error_text err;
    engine *e;
    engine_options opt = common_engine_options(&o->common);
    opt.kind = kind;
    opt.context = opt.rope_context = o->common.ctx ? o->common.ctx : model_context(model_config_of(l->model));
    if (kind == KVT_NONE) opt.context = p->n_tokens + o->answer_tokens;
    if (engine_open(&e, l->model, l->team, &opt, &err) != KVT_OK) return cli_fail("%s", err.text);
    generate_options g = {
        .prompts = p,
        .n_prompts = 1,
        .n_samples = 1,
        .tokens_max = o->answer_tokens,
        .sampling = sample_options_default(),
        .stop = &cli_stop,
    };
    uint64_t start = sys_now_ns();
    kvt_status status = generate(e, &g, &out->answer, &err);
    out->kind = kind;
    out->seconds = bench_ms_since(start) / 1e3;
    out->positions = engine_counted(e).positions_computed;
    out->bytes_used = engine_fullest(e).bytes_used;
    out->bytes_reserved = engine_fullest(e).bytes_reserved;
    engine_close(e);
    return status == KVT_OK ? CLI_DONE : cli_fail("%s: %s", l->path, err.text);
}

static bool same_answer(const answer *a, const answer *b) {
    return a->n_tokens == b->n_tokens && memcmp(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof a->tokens[0]) == 0;
}

static void tell(const reuse_row *r, const reuse_row *none, bool json, json_t *rows) {
    double fewer = (double)none->positions / (double)r->positions, faster = none->seconds / r->seconds;
    bool same = same_answer(&r->answer, &none->answer);
    if (json)
        json_array_append_new(
            rows, json_pack("{s:s, s:I, s:f, s:I, s:I, s:f, s:f, s:b}", "cache", kvt_cache_kind_name(r->kind),
                            "positions_computed", (json_int_t)r->positions, "seconds", r->seconds, "bytes_used",
                            (json_int_t)r->bytes_used, "bytes_reserved", (json_int_t)r->bytes_reserved,
                            "positions_ratio", fewer, "speedup", faster, "same_answer", same));
    else
        printf("%-11s %10s %10.2f %10s %10s %9.1f x %8.1f x  %s\n", kvt_cache_kind_name(r->kind),
               show_count(r->positions).text, r->seconds, show_bytes((double)r->bytes_used).text,
               show_bytes((double)r->bytes_reserved).text, fewer, faster, same ? "same" : "DIFFERENT");
}

static int run(const reuse_options *o, const loaded *l, const prompt *p, reuse_row result[3]) {
    static const kvt_cache_kind kinds[] = { KVT_NONE, KVT_CONTIGUOUS, KVT_PAGED };
    int context = o->common.ctx ? o->common.ctx : model_context(model_config_of(l->model));
    if (p->n_tokens + o->answer_tokens > context)
        return cli_fail("%d tokens and an answer of %d are more than the context of %d", p->n_tokens, o->answer_tokens,
                        context);
    double bandwidth = bench_bandwidth(l->team);
    cli_catch_interrupt();
    for (int i = 0; i < 3; i++) {
        int status = measure(o, l, kinds[i], p, &result[i]);
        if (status != CLI_DONE) return status;
        if (cli_stop) return CLI_INTERRUPTED;
    }
    json_t *rows = json_array();
    if (!o->common.json)
        printf("%s, %d threads, read bandwidth %.1f GB/s; prompt of %d tokens, answer of %d\n"
               "%-11s %10s %10s %10s %10s %11s %10s  answer\n",
               kvt_cpu(), kvt_workers_count(l->team), bandwidth / 1e9, p->n_tokens, result[0].answer.n_tokens, "cache",
               "positions", "seconds", "used", "reserved", "fewer", "faster");
    for (int i = 0; i < 3; i++) tell(&result[i], &result[0], o->common.json, rows);
    bench_batch batch = o->batch;
    batch.answer = o->answer_tokens;
    int status = batch.n_prompts > 0 ? bench_reuse_batch(&batch, l, &o->common, rows) : CLI_DONE;
    if (status != CLI_DONE) return json_decref(rows), status;
    if (o->common.json) return json_print(bench_json("bench reuse", l->team, bandwidth, rows));
    json_decref(rows);
    return cli_flush();
}

static int reuse_command(const void *options) {
    const reuse_options *o = options;
    loaded l;
    reuse_row result[3] = { 0 };
    int32_t *ids = NULL;
    int status = loaded_open(&l, &o->common);
    if (status == CLI_DONE) {
        ids = bench_prompt(l.model, o->prompt_tokens);
        prompt p = { ids, o->prompt_tokens };
        status = ids ? run(o, &l, &p, result) : cli_fail("no memory for %d tokens", o->prompt_tokens);
    }
    for (int i = 0; i < 3; i++) answers_free(&result[i].answer, 1);
    free(ids);
    loaded_close(&l);
    return status;
}

const command command_bench_reuse = {
    .name = "bench reuse",
    .summary = "a prompt without a cache, with a contiguous and a paged one; prompts that begin alike",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "One prompt and its greedy answer without a cache, with a contiguous and with a paged one. Then several "
             "prompts that begin alike, as one batch: what they have in common is computed once, and for each of them.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(reuse_options),
    .defaults = reuse_defaults,
    .run = reuse_command,
};
