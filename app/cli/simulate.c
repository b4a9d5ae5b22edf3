/* simulate.c - kvtile simulate: a recorded stream of requests against caches that are too small for it. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "known.h"

/* --------------------------------------------------------------------------------------------- what to replay */

static int policies_pick(simulation *s) {
    const char *name = s->opt->policy;
    bool all = strcmp(name, "all") == 0;
    for (int i = 0; policies[i]; i++)
        if (all || strcmp(policies[i]->name, name) == 0) s->policy[s->n_policies++] = policies[i];
    if (s->n_policies > 0) return CLI_DONE;
    return option_words_refuse("simulate", "there is no policy", name, policy_name);
}

static int capacities_pick(simulation *s) {
    const simulate_options *o = s->opt;
    if (o->blocks) s->n_capacities = option_list(o->blocks, s->capacity);
    else if (o->memory) {
        double blocks = (double)o->memory / ((double)s->bytes_per_token * s->block_tokens);
        if (blocks < 1)
            return cli_fail("--memory: %s hold no block of %d tokens, which has %s",
                            show_bytes((double)o->memory).text, s->block_tokens,
                            show_bytes((double)s->bytes_per_token * s->block_tokens).text);
        s->capacity[0] = blocks < 1 << 26 ? (int)blocks : 1 << 26;
        s->n_capacities = 1;
    } else s->n_capacities = sweep_capacities(&s->trace, s->capacity);
    return CLI_DONE;
}

static int shape_find(const simulate_options *o, shape *out) {
    error_text err;
    if (o->name) return known_shape(out, "simulate", o->name);
    const char *path = model_path(o->common.model);
    if (!path) return CLI_FAILED;
    return shape_of_file(out, path, &err) == KVT_OK ? CLI_DONE : cli_fail("%s", err.text);
}

/* What a token of the model takes, in the formats that were asked for. */
static int model_read(simulation *s) {
    const simulate_options *o = s->opt;
    engine_options e = common_engine_options(&o->common);
    capacity_options one = { .k_format = e.k_format, .v_format = e.v_format, .block_tokens = e.block_tokens };
    capacity_bytes bytes;
    shape of;
    if (!o->common.model && !o->name && !o->memory) return CLI_DONE; /* nobody asks */
    int status = shape_find(o, &of);
    if (status != CLI_DONE) return status;
    if (capacity_bytes_of(&of, &one, 1, 1, &bytes) != KVT_OK || bytes.per_token == 0)
        return cli_fail("%s: what a token takes cannot be counted", of.name);
    s->bytes_per_token = bytes.per_token;
    return CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------- the replay */

static int replay_all(simulation *s) {
    progress p = progress_of("replaying the trace");
    int n = s->n_policies * s->n_capacities;
    for (int i = 0; i < n && !cli_stop; i++) {
        simulate_row *r = &s->row[i];
        *r = (simulate_row){ .policy = s->policy[i / s->n_capacities], .capacity = s->capacity[i % s->n_capacities] };
        kvt_status status = r->policy->replay(&s->trace, r->capacity, s->block_tokens, &r->counts);
        if (status != KVT_OK)
            return cli_fail("%s at %d blocks: %s", r->policy->name, r->capacity, kvt_status_text(status));
        r->hit_rate = (double)r->counts.n_hit / (double)s->trace.n_blocks;
        progress_show(&p, i + 1, n);
    }
    progress_clear(&p);
    return cli_stop ? CLI_INTERRUPTED : CLI_DONE;
}

static void knee_find(simulation *s) {
    double rate[SWEEP_MAX];
    for (int i = 0; i < s->n_capacities; i++) rate[i] = s->row[i].hit_rate;
    s->knee = sweep_knee(s->capacity, rate, s->n_capacities);
}

/* ------------------------------------------------------------------------------------------------ the results */

static double tokens_saved(const simulation *s, const simulate_row *r) {
    return (double)r->counts.n_hit * s->block_tokens;
}

static void row_print(const simulation *s, const simulate_row *r) {
    const policy_counts *c = &r->counts;
    printf("%-10s %10s %8.2f %% %10s %10s %10s %10s", r->policy->name, show_count((uint64_t)r->capacity).text,
           100 * r->hit_rate, show_count(c->n_hit).text, show_count(c->n_cold).text, show_count(c->n_evicted).text,
           show_count(c->n_left).text);
    if (s->bytes_per_token)
        printf(" %10s", show_bytes(tokens_saved(s, r) * (double)s->bytes_per_token).text);
    if (s->opt->prefill_per_s > 0) printf(" %10.0f", tokens_saved(s, r) / s->opt->prefill_per_s);
    putchar('\n');
}

static int table_print(const simulation *s) {
    const trace *t = &s->trace;
    printf("%s requests, %s blocks of %d tokens read, %s of them different: a cache without bound hits %.2f %%\n\n",
           show_count(t->n_requests).text, show_count(t->n_blocks).text, s->block_tokens,
           show_count((uint64_t)t->n_distinct).text, 100 * (1 - (double)t->n_distinct / (double)t->n_blocks));
    printf("%-10s %10s %10s %10s %10s %10s %10s%s%s\n", "policy", "capacity", "hit rate", "hit", "cold", "evicted",
           "left", s->bytes_per_token ? "      saved" : "", s->opt->prefill_per_s > 0 ? "  s of work" : "");
    for (int i = 0; i < s->n_policies * s->n_capacities; i++) row_print(s, &s->row[i]);
    if (s->knee >= 0)
        printf("\nThe knee is at %s blocks (%s): more capacity brings less from there on.\n",
               show_count((uint64_t)s->capacity[s->knee]).text, s->policy[0]->name);
    return cli_flush();
}

static json_t *row_json(const simulation *s, const simulate_row *r) {
    const policy_counts *c = &r->counts;
    json_t *o = json_pack("{s:s, s:i, s:I, s:I, s:I, s:f, s:I, s:I, s:I}", "policy", r->policy->name, "capacity_blocks",
                          r->capacity, "requests", (json_int_t)s->trace.n_requests, "blocks_read",
                          (json_int_t)s->trace.n_blocks, "blocks_hit", (json_int_t)c->n_hit, "hit_rate", r->hit_rate,
                          "misses_cold", (json_int_t)c->n_cold, "misses_evicted", (json_int_t)c->n_evicted, "evictions",
                          (json_int_t)c->n_left);
    if (o && s->bytes_per_token)
        json_object_set_new(o, "bytes_saved", json_real(tokens_saved(s, r) * (double)s->bytes_per_token));
    if (o && s->opt->prefill_per_s > 0)
        json_object_set_new(o, "prefill_s_saved", json_real(tokens_saved(s, r) / s->opt->prefill_per_s));
    return o;
}

/* The first row's fields stand in the object itself; all rows in a list. */
static int json_all(const simulation *s) {
    json_t *o = row_json(s, &s->row[0]), *rows = json_array();
    if (o) {
        json_object_set_new(o, "blocks_distinct", json_integer(s->trace.n_distinct));
        json_object_set_new(o, "block_tokens", json_integer(s->block_tokens));
        if (s->knee >= 0) json_object_set_new(o, "knee_blocks", json_integer(s->capacity[s->knee]));
    }
    for (int i = 0; i < s->n_policies * s->n_capacities; i++) json_array_append_new(rows, row_json(s, &s->row[i]));
    if (o) json_object_set_new(o, "rows", rows);
    return json_print(o);
}

static int simulate_prefixes(simulation *s) {
    int status = capacities_pick(s);
    if (status == CLI_DONE) status = replay_all(s);
    if (status != CLI_DONE) return status;
    knee_find(s);
    status = s->opt->common.json ? json_all(s) : table_print(s);
    return status == CLI_DONE && s->opt->plot ? simulate_plot_hits(s) : status;
}

/* ------------------------------------------------------------------------------------------------- the command */

enum { BLOCK_TOKENS = 512 };

static const option option_table[] = {
    { "--blocks", "N[,N...]", OPTION_LIST, offsetof(simulate_options, blocks),
      "capacities in blocks (default: 1, 2, 5, 10, ... up to all)", 1, 1 << 26 },
    { "--memory", "BYTES", OPTION_BYTES, offsetof(simulate_options, memory),
      "the capacity that this holds, of the model's blocks" },
    { "--policy", "NAME", OPTION_TEXT, offsetof(simulate_options, policy),
      "which policy: default, lru, s3-fifo, frequency, optimum; all: side by side", .word_at = policy_name },
    { "--block-tokens", "N", OPTION_INT, offsetof(simulate_options, block_tokens),
      "tokens of a block (default: what the trace says, else 512)", 1, 1 << 20 },
    { "--prefill-rate", "TOKENS/S", OPTION_REAL, offsetof(simulate_options, prefill_per_s),
      "how fast prompts are read: tells what hits save", 0.001, 1e12 },
    { "--token-time", "MS", OPTION_REAL, offsetof(simulate_options, token_ms),
      "of a trace without block ids: time from one answered token to the next", 0, 1e9 },
    { "--plot", "FILE", OPTION_FILE, offsetof(simulate_options, plot), "a picture, .svg or .png", .files = "svg png" },
    OPTION_HEAD("Model"),
    { "-m", "MODEL", OPTION_FILE, offsetof(simulate_options, common.model),
      "a .gguf file, for bytes (default: with --memory the one that `make model` fetches)", .files = "gguf" },
    { "--name", "NAME", OPTION_TEXT, offsetof(simulate_options, name),
      "instead of a file a known model, such as llama-3-8b", .word_at = shape_name },
    OPTION_FORMATS(simulate_options),
    { "--ctx", "TOKENS", OPTION_INT, offsetof(simulate_options, common.ctx),
      "of a trace without block ids: what a contiguous cache reserves (default: the longest request)", 1, 1 << 30 },
    OPTION_JSON(simulate_options),
};

static const option operand = { "TRACE", NULL, OPTION_FILE, offsetof(simulate_options, trace), "the recorded requests",
                                .files = "jsonl csv gz" };

static const command_example examples[] = {
    { "simulate trace.jsonl --policy all --plot hits.svg", "Hit rate against capacity, policy by policy." },
    { "simulate trace.jsonl --blocks 5000", "The cache's own policy with room for 5,000 blocks." },
    { "simulate lengths.csv --plot memory.png", "Memory over time of contiguous, buddy and paged reservation." },
};

static void simulate_defaults(void *options) {
    *(simulate_options *)options =
        (simulate_options){ .common = common_options_default(), .policy = "default", .token_ms = 30 };
}

static int simulate(simulation *s) {
    error_text err;
    const simulate_options *o = s->opt;
    int status = policies_pick(s);
    if (status != CLI_DONE) return status;
    if (trace_read(&s->trace, o->trace, &err) != KVT_OK) return cli_fail("%s", err.text);
    s->block_tokens = o->block_tokens ? o->block_tokens : s->trace.block_tokens ? s->trace.block_tokens : BLOCK_TOKENS;
    status = model_read(s);
    if (status != CLI_DONE) return status;
    cli_catch_interrupt();
    return s->trace.n_blocks > 0 ? simulate_prefixes(s) : simulate_lengths(s);
}

static int simulate_command(const void *options) {
    const simulate_options *o = options;
    if (!o->trace) return cli_usage("simulate", "a trace is wanted");
    if (o->name && o->common.model) return cli_usage("simulate", "one of -m and --name, not both");
    if (o->memory && o->blocks) return cli_usage("simulate", "one of --blocks and --memory, not both");
    simulation *s = calloc(1, sizeof *s);
    if (!s) return cli_fail("no memory for a simulation");
    s->opt = o;
    int status = simulate(s);
    trace_free(&s->trace);
    free(s);
    return status;
}

const command command_simulate = {
    .name = "simulate",
    .summary = "replay a trace of requests against a cache size and a policy",
    .usage = "TRACE [OPTIONS]",
    .about = "Replay recorded requests through the cache's own index and eviction, without keys and values: which "
             "share of their blocks a cache of some size would have had, by policy, up to the optimum that knows the "
             "future.",
    .more = "A trace is JSON lines with hash_ids, a chain of prefix block ids, and where recorded timestamp (ms), "
            "input_length, output_length and block_size; or CSV with TIMESTAMP,ContextTokens,GeneratedTokens. Either "
            "may be compressed (.gz). A block counts as hit only if all blocks before it in its request were hit. Of a "
            "trace with lengths alone memory over time is shown, for contiguous, buddy and paged reservation.\n\n"
            "The columns count blocks. `hit`: read, and there. `cold`: read for the first time; the default policy "
            "counts here also what left so long ago that it has forgotten it, the others forget nothing. `evicted`: "
            "read again, but it had to leave since, or a block before it had. `left`: how often a block had to leave. "
            "`saved`, of a model: the bytes of keys and values that hits did not have to compute. `s of work`, with "
            "--prefill-rate: the seconds that computing them would have taken.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(simulate_options),
    .defaults = simulate_defaults,
    .run = simulate_command,
};
