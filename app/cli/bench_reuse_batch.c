/* bench_reuse_batch.c - the second table of kvtile bench reuse: prompts that begin alike answered as one batch, where
 * what they have in common is computed once, and where it is computed for each. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "bench.h"

typedef struct batch_row {
    bool share;
    double seconds;
    uint64_t positions;
    size_t bytes_used;
    answer *answers; /* [n_prompts] */
} batch_row;

/* Number i goes on as no other one does. Encoded texts of other lengths would, too, but not at a given token. */
static int32_t *prompts_of(const model *m, const bench_batch *b, prompt *out) {
    int n = b->prefix + b->own, n_vocab = model_config_of(m)->n_vocab;
    int32_t *common = bench_prompt(m, n), *all = malloc((size_t)b->n_prompts * (size_t)n * sizeof *all);
    for (int i = 0; common && all && i < b->n_prompts; i++) {
        int32_t *tokens = all + (size_t)i * (size_t)n;
        memcpy(tokens, common, (size_t)n * sizeof *tokens);
        for (int t = b->prefix; t < n; t++) tokens[t] = (tokens[t] + 1 + i) % n_vocab;
        out[i] = (prompt){ tokens, n };
    }
    free(common);
    return common ? all : (free(all), NULL);
}

static int measure(const bench_batch *b, const loaded *l, const common_options *c, const prompt *prompts,
                   batch_row *row) {
    error_text err;
    engine *e;
    engine_options opt = common_engine_options(c);
    opt.sequences_max = b->n_prompts;
    opt.context = opt.rope_context = b->prefix + b->own + b->answer;
    opt.share = row->share;
    if (engine_open(&e, l->model, l->team, &opt, &err) != KVT_OK) return cli_fail("%s", err.text);
    generate_options g = {
        .prompts = prompts,
        .n_prompts = b->n_prompts,
        .n_samples = 1,
        .tokens_max = b->answer,
        .sampling = sample_options_default(),
        .stop = &cli_stop,
    };
    uint64_t start = sys_now_ns();
    kvt_status status = generate(e, &g, row->answers, &err);
    row->seconds = bench_ms_since(start) / 1e3;
    row->positions = engine_counted(e).positions_computed;
    row->bytes_used = engine_fullest(e).bytes_used;
    engine_close(e);
    if (status != KVT_OK) return cli_fail("%s: %s", l->path, err.text);
    return cli_stop ? CLI_INTERRUPTED : CLI_DONE;
}

static bool same_answers(const bench_batch *b, const batch_row *x, const batch_row *y) {
    for (int i = 0; i < b->n_prompts; i++) {
        const answer *a = &x->answers[i], *o = &y->answers[i];
        if (a->n_tokens != o->n_tokens) return false;
        if (memcmp(a->tokens, o->tokens, (size_t)a->n_tokens * sizeof a->tokens[0]) != 0) return false;
    }
    return true;
}

static void tell(const bench_batch *b, const batch_row *r, const batch_row *apart, bool json, json_t *rows) {
    bool same = same_answers(b, r, apart);
    const char *name = r->share ? "shared" : "apart";
    double rate = b->n_prompts / r->seconds, faster = apart->seconds / r->seconds;
    if (json)
        json_array_append_new(
            rows, json_pack("{s:s, s:i, s:i, s:i, s:I, s:f, s:I, s:f, s:f, s:b}", "batch", name, "prompts",
                            b->n_prompts, "prefix", b->prefix, "own", b->own, "positions_computed",
                            (json_int_t)r->positions, "seconds", r->seconds, "bytes_used", (json_int_t)r->bytes_used,
                            "prompts_per_s", rate, "speedup", faster, "same_answer", same));
    else
        printf("%-11s %10s %10.2f %10s %10.2f %20.1f x  %s\n", name, show_count(r->positions).text, r->seconds,
               show_bytes((double)r->bytes_used).text, rate, faster, same ? "same" : "DIFFERENT");
}

int bench_reuse_batch(const bench_batch *b, const loaded *l, const common_options *c, json_t *rows) {
    batch_row result[2] = { { .share = false }, { .share = true } };
    prompt *prompts = calloc((size_t)b->n_prompts, sizeof *prompts);
    int32_t *tokens = prompts ? prompts_of(l->model, b, prompts) : NULL;
    int status = tokens ? CLI_DONE : cli_fail("no memory for %d prompts", b->n_prompts);
    for (int i = 0; i < 2 && status == CLI_DONE; i++) {
        result[i].answers = calloc((size_t)b->n_prompts, sizeof *result[i].answers);
        status = result[i].answers ? measure(b, l, c, prompts, &result[i]) : cli_fail("no memory for answers");
    }
    if (status == CLI_DONE && !c->json)
        printf("\n%d prompts with %d tokens in common and %d of their own, one batch, answers of %d\n"
               "%-11s %10s %10s %10s %10s %22s  answers\n",
               b->n_prompts, b->prefix, b->own, b->answer, "prefix", "positions", "seconds", "used", "prompts/s",
               "faster");
    for (int i = 0; i < 2 && status == CLI_DONE; i++) tell(b, &result[i], &result[0], c->json, rows);
    for (int i = 0; i < 2; i++) {
        if (result[i].answers) answers_free(result[i].answers, b->n_prompts);
        free(result[i].answers);
    }
    free(tokens);
    free(prompts);
    return status;
}
