/* report.c - what a run did: a short table for people, the same and more as JSON. */
#include <string.h>

#include "cli.h"
#include "block_store.h"

/* The numbers both forms tell. */
typedef struct figures {
    engine_options opt;
    engine_counters count;
    kvt_stats cache; /* at its fullest */
    kvt_stats last;  /* and at the end */
    kvt_tier_usage store;
    size_t bytes_hot; /* kept for tokens in 16 or 32 bits beside codes */
    int n_answers;
    uint64_t prompt_tokens, completion_tokens;
    uint64_t positions_without; /* what these answers cost where nothing is kept */
    double ttft_ms, tpot_ms, prefill_per_s, decode_per_s;
} figures;

static double per_second(uint64_t n, uint64_t ns) {
    return ns > 0 ? (double)n * 1e9 / (double)ns : 0;
}

/* Both on the clock of the answers: a token of one answer, and the tokens of all of them together, can be told from
 * each other. Milliseconds per token after the first, of the longest answer: */
static double tpot_of(const run_report *r, int n_answers) {
    const answer *longest = &r->answers[0];
    for (int i = 1; i < n_answers; i++)
        if (r->answers[i].n_tokens > longest->n_tokens) longest = &r->answers[i];
    if (longest->n_tokens < 2) return 0;
    return (double)(longest->last_ns - longest->first_ns) / 1e6 / (longest->n_tokens - 1);
}

/* Tokens after the first of each answer, from the earliest first token to the last one of all. */
static double decode_rate_of(const run_report *r, int n_answers) {
    uint64_t begin = UINT64_MAX, end = 0, later = 0;
    for (int i = 0; i < n_answers; i++) {
        const answer *a = &r->answers[i];
        if (a->n_tokens == 0) continue;
        later += (uint64_t)a->n_tokens - 1;
        if (a->first_ns < begin) begin = a->first_ns;
        if (a->last_ns > end) end = a->last_ns;
    }
    return later > 0 ? per_second(later, end - begin) : 0;
}

static figures figures_of(const run_report *r) {
    figures f = { .opt = *engine_options_of(r->engine), .count = engine_counted(r->engine) };
    kvt_bytes_info info = { 0 };
    f.cache = engine_fullest(r->engine);
    if (r->store->tier) kvt_tier_usage_get(r->store->tier, &f.store);
    f.last = engine_stats(r->engine);
    if (engine_bytes(r->loaded->model, &f.opt, &info) == KVT_OK) f.bytes_hot = info.bytes_hot;
    f.n_answers = r->n_prompts * r->n_samples;
    for (int i = 0; i < r->n_prompts; i++) f.prompt_tokens += (uint64_t)r->prompts[i].n_tokens;
    for (int i = 0; i < f.n_answers; i++) {
        uint64_t n = (uint64_t)r->answers[i].n_tokens, p = (uint64_t)r->prompts[i / r->n_samples].n_tokens;
        f.completion_tokens += n;
        if (n == 0) continue;
        f.positions_without += n * p + n * (n - 1) / 2;
    }
    f.ttft_ms = (double)r->answers[0].first_ns / 1e6;
    f.tpot_ms = tpot_of(r, f.n_answers);
    f.prefill_per_s = per_second(f.count.prefill_positions, f.count.prefill_ns);
    f.decode_per_s = decode_rate_of(r, f.n_answers);
    return f;
}

/* Tokens of the prompts that were not computed; those of paused sequences were, the first time. */
static uint64_t cached_of(const figures *f) {
    return f->count.tokens_found + f->count.tokens_fetched - f->count.tokens_resumed;
}

/* ------------------------------------------------------------------------------------------------- the table */

static void cache_lines(const figures *f) {
    const kvt_stats *c = &f->cache;
    const char *k = kvt_format_name(f->opt.k_format), *v = kvt_format_name(f->opt.v_format);
    fprintf(stderr, "  cache    %s, keys %s, values %s: %s bytes per token, %.4g bits per element",
            kvt_cache_kind_name(f->opt.kind), k, v, show_count(c->bytes_per_token).text, c->bits_per_element);
    if (f->opt.kind == KVT_NONE) {
        fprintf(stderr, "; nothing is kept\n");
        return;
    }
    fprintf(stderr, "\n           %s of %s reserved hold tokens: %.1f %%", show_bytes((double)c->bytes_used).text,
            show_bytes((double)c->bytes_reserved).text,
            c->bytes_reserved ? 100.0 * (double)c->bytes_used / (double)c->bytes_reserved : 0.0);
    if (f->opt.kind == KVT_PAGED)
        fprintf(stderr, ", in %s of %d", show_counted(c->blocks_used, "block").text, f->opt.block_tokens);
    fprintf(stderr, "\n");
    if (c->blocks_shared > 0)
        fprintf(stderr, "           %s shared: %s kept once that count %s\n",
                show_counted(c->blocks_shared, "block").text, show_counted(c->tokens_stored, "token").text,
                show_count(c->tokens_held).text);
}

static void saved_line(const figures *f) {
    uint64_t done = f->count.positions_computed;
    fprintf(stderr, "  saved    %s computed", show_counted(done, "position").text);
    if (f->opt.kind == KVT_NONE) fprintf(stderr, ", all of them again for each token\n");
    else if (done > 0)
        fprintf(stderr, "; without a cache %s, %.1f times as many\n", show_count(f->positions_without).text,
                (double)f->positions_without / (double)done);
    else fprintf(stderr, "\n");
    if (f->count.n_paused > 0)
        fprintf(stderr, "           the cache was full: sequences gave their blocks back %s\n",
                show_counted(f->count.n_paused, "time").text);
}

/* Where the beginnings of prompts were found, if they were, and what of this run the next one finds. */
static void found_lines(const figures *f, const block_store *s) {
    uint64_t found = cached_of(f), fetched = f->count.tokens_fetched < found ? f->count.tokens_fetched : found;
    if (found > 0 || s->tier)
        fprintf(stderr, "  found    %s of %s: %s in memory, %s in the store\n", show_count(found).text,
                show_counted(f->prompt_tokens, "prompt token").text, show_count(found - fetched).text,
                show_count(fetched).text);
    if (s->tier)
        fprintf(stderr, "  store    %s in %s, %s read, %s written\n", show_bytes((double)f->store.bytes).text,
                s->folder, show_counted(f->last.n_gets, "block").text, show_counted(f->last.n_puts, "block").text);
}

static uint64_t whole_of(double x) {
    return (uint64_t)(x + 0.5);
}

/* One token has no token behind it to be timed. */
static void answer_line(const figures *f, finish_reason first) {
    fprintf(stderr, "  answer   %s", show_counted(f->completion_tokens, "token").text);
    if (f->tpot_ms > 0)
        fprintf(stderr, ", %.1f tokens/s, %s%.2f ms%s", f->decode_per_s,
                f->n_answers > 1 ? "in each answer one in " : "", f->tpot_ms, f->n_answers > 1 ? "" : " each");
    fprintf(stderr, " (%s)\n", finish_name(first));
}

void report_table(const run_report *r) {
    figures f = figures_of(r);
    fprintf(stderr, "\n  prompt   %s, %s tokens/s; first token after %s ms\n",
            show_counted(f.prompt_tokens, "token").text, show_count(whole_of(f.prefill_per_s)).text,
            show_count(whole_of(f.ttft_ms)).text);
    answer_line(&f, r->answers[0].finish);
    found_lines(&f, r->store);
    cache_lines(&f);
    saved_line(&f);
}

/* ------------------------------------------------------------------------------------------------- JSON */

static json_t *json_tokens(const answer *a) {
    json_t *list = json_array();
    for (int i = 0; i < a->n_tokens; i++) json_array_append_new(list, json_integer(a->tokens[i]));
    return list;
}

/* A token in words: its bytes may be part of a character, so they come as numbers too. */
static json_t *json_logprob(const tokenizer *t, const token_logprob *p) {
    size_t n = 0;
    const char *at = tokenizer_bytes(t, p->id, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(bytes, json_integer((unsigned char)at[i]));
    /* JSON has no infinity; nothing possible is as unlikely. */
    double logprob = p->logprob > -9999 ? p->logprob : -9999;
    return json_pack("{s:i, s:o, s:o, s:f}", "token", p->id, "text", json_bytes(at, n), "bytes", bytes, "logprob",
                     logprob);
}

static json_t *json_logprobs(const tokenizer *t, const answer *a) {
    json_t *list = json_array();
    for (int i = 0; i < a->n_tokens; i++) {
        const token_logprob *row = a->logprobs + (size_t)i * (size_t)(1 + a->n_top);
        json_t *o = json_logprob(t, row), *top = json_array();
        for (int j = 1; j <= a->n_top; j++) json_array_append_new(top, json_logprob(t, &row[j]));
        json_object_set_new(o, "top", top);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *json_samples(const run_report *r, int n_answers) {
    json_t *list = json_array();
    for (int i = 0; i < n_answers; i++) {
        const answer *a = &r->answers[i];
        json_t *o = json_pack("{s:o, s:o, s:s}", "text", json_bytes(a->text.at, a->text.n), "tokens", json_tokens(a),
                              "finish_reason", finish_name(a->finish));
        if (a->logprobs) json_object_set_new(o, "logprobs", json_logprobs(model_tokenizer(r->loaded->model), a));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *json_cache(const figures *f) {
    const kvt_stats *c = &f->cache;
    return json_pack("{s:s, s:s, s:s, s:f, s:I, s:i, s:I, s:I, s:I, s:I, s:I}",
                     "kind", kvt_cache_kind_name(f->opt.kind), "k_format", kvt_format_name(f->opt.k_format),
                     "v_format", kvt_format_name(f->opt.v_format),
                     "bits_per_element", c->bits_per_element, "bytes_hot", (json_int_t)f->bytes_hot, "block_tokens",
                     f->opt.block_tokens, "bytes_per_token", (json_int_t)c->bytes_per_token,
                     "bytes_used", (json_int_t)c->bytes_used, "bytes_reserved", (json_int_t)c->bytes_reserved,
                     "blocks_used", (json_int_t)c->blocks_used, "blocks_shared", (json_int_t)c->blocks_shared);
}

static json_t *json_store(const figures *f, const block_store *s) {
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "folder", json_bytes(s->folder, strlen(s->folder)), "bytes",
                     (json_int_t)f->store.bytes, "found", (json_int_t)f->count.tokens_fetched, "fetched",
                     (json_int_t)f->last.n_gets, "written", (json_int_t)f->last.n_puts);
}

static const char *math_name(kvt_math math) {
    return math == KVT_MATH_FAST ? "fast" : math == KVT_MATH_ACCURATE ? "accurate" : "exact";
}

int report_json(const run_report *r) {
    figures f = figures_of(r);
    const answer *a = &r->answers[0];
    json_t *o = json_pack(
        "{s:o, s:s, s:s, s:f, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:I}", "model",
        json_bytes(r->loaded->path, strlen(r->loaded->path)), "arch", model_config_of(r->loaded->model)->arch, "math",
        math_name(f.opt.math), "load_ms", r->loaded->load_ms, "text",
        json_bytes(a->text.at, a->text.n), "tokens", json_tokens(a), "samples", json_samples(r, f.n_answers),
        "finish_reason", finish_name(a->finish), "prompt_tokens", (json_int_t)f.prompt_tokens, "cached_tokens",
        (json_int_t)cached_of(&f),
        "completion_tokens", (json_int_t)f.completion_tokens, "positions_computed",
        (json_int_t)f.count.positions_computed);
    json_t *speed = json_pack("{s:f, s:f, s:f, s:f, s:i, s:s, s:o}", "ttft_ms", f.ttft_ms, "tpot_ms", f.tpot_ms,
                              "prefill_tokens_per_s", f.prefill_per_s, "decode_tokens_per_s", f.decode_per_s, "threads",
                              kvt_workers_count(r->loaded->team), "cpu", kvt_cpu(), "cache", json_cache(&f));
    if (o && speed) json_object_update(o, speed);
    json_decref(speed);
    if (o && r->store->tier) json_object_set_new(o, "store", json_store(&f, r->store));
    return json_print(o);
}
