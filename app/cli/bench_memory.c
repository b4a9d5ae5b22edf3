/* bench_memory.c - kvtile bench memory: a trace of requests goes through the pool, and we look how full it is.
 *
 * No model is computed: the cache has one small layer, but its blocks, tables and counters are the real ones. Requests
 * come in the order of the trace, a fixed number of them alive at once; each brings its prompt in one step and then
 * grows by a token per step. The share of reserved bytes that hold a token is averaged over the steps. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"
#include "plan/plan.h"

/* A step holds at most 2^20 tokens: one request whole, and a token of each of the others. */
enum { ALIVE_MAX = 4096, LENGTH_MAX = (1 << 19) - ALIVE_MAX };

/* The requests that are replayed. */
typedef struct requests {
    trace trace;
    int n;       /* the first so many of the trace */
    int longest; /* tokens of the longest of them */
} requests;

typedef struct memory_options {
    common_options common;
    const char *file;
    int alive, n_requests;
} memory_options;

/* ------------------------------------------------------------------------------------------------ the trace */

static bool is_length(int64_t n) {
    return n >= 1 && n <= LENGTH_MAX;
}

static int requests_read(requests *r, const char *path, int most) {
    error_text err;
    if (trace_read(&r->trace, path, &err) != KVT_OK) return cli_fail("%s", err.text);
    r->n = r->trace.n_requests < (size_t)most ? (int)r->trace.n_requests : most;
    for (int i = 0; i < r->n; i++) {
        const trace_request *q = &r->trace.request[i];
        if (!is_length(q->n_input) || !is_length(q->n_output))
            return cli_fail("%s: request %d has no lengths from 1 to %d", path, i + 1, LENGTH_MAX);
        int n_tokens = (int)(q->n_input + q->n_output);
        if (n_tokens > r->longest) r->longest = n_tokens;
    }
    return CLI_DONE;
}

/* -------------------------------------------------------------------------------------------------- replay */

typedef struct replay {
    const requests *requests;
    kvt_cache *cache;
    int alive_max, n_alive, next; /* next: of the requests */
    kvt_seq *seq;                 /* [alive_max] */
    int *n_new, *left;            /* [alive_max] tokens of this step; tokens still to come */
    float *zeros;                 /* [batch][16] */
    double share_sum, held_sum, n_steps;
    size_t reserved_most;
} replay;

enum { DIM = 16 };

static int batch_max(const requests *t, int alive) {
    return t->longest + alive;
}

static kvt_status replay_open(replay *r, const requests *t, const common_options *c, kvt_cache_kind kind, int block,
                              int alive) {
    const kvt_layer layer = { .kind = KVT_LAYER_FULL, .n_heads_q = 1, .n_heads_kv = 1, .dim_k = DIM, .dim_v = DIM };
    size_t n = (size_t)alive;
    *r = (replay){ .requests = t, .alive_max = alive };
    r->seq = calloc(n, sizeof *r->seq);
    r->n_new = calloc(n, sizeof *r->n_new);
    r->left = calloc(n, sizeof *r->left);
    r->zeros = calloc((size_t)batch_max(t, alive) * DIM, sizeof *r->zeros);
    if (!r->seq || !r->n_new || !r->left || !r->zeros) return KVT_E_MEMORY;
    kvt_options opt = kvt_options_default();
    opt.kind = kind;
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.block_tokens = block;
    opt.sequences_max = alive;
    opt.tokens_max = t->longest;
    opt.batch_tokens_max = batch_max(t, alive);
    opt.n_threads = c->threads;
    return kvt_open(&r->cache, &opt);
}

static void replay_close(replay *r) {
    kvt_close(r->cache);
    free(r->seq);
    free(r->n_new);
    free(r->left);
    free(r->zeros);
}

/* One request arrives per step, so that their ends spread as they do in a service. */
static kvt_status arrive(replay *r) {
    if (r->next == r->requests->n || r->n_alive == r->alive_max) return KVT_OK;
    const trace_request *q = &r->requests->trace.request[r->next++];
    int i = r->n_alive++;
    r->n_new[i] = (int)q->n_input;
    r->left[i] = (int)q->n_output;
    return kvt_seq_new(r->cache, &r->seq[i]);
}

static kvt_status grow(replay *r) {
    kvt_batch batch = { r->n_alive, r->seq, r->n_new };
    kvt_status status = kvt_reserve(r->cache, &batch);
    if (status == KVT_OK) status = kvt_append(r->cache, 0, &batch, r->zeros, r->zeros);
    return status == KVT_OK ? kvt_commit(r->cache, &batch, NULL) : status;
}

static kvt_status look(replay *r) {
    kvt_stats s;
    kvt_status status = kvt_stats_get(r->cache, &s);
    if (status != KVT_OK) return status;
    r->share_sum += (double)s.bytes_used / (double)s.bytes_reserved;
    r->held_sum += (double)s.tokens_held;
    r->n_steps++;
    if (s.bytes_reserved > r->reserved_most) r->reserved_most = s.bytes_reserved;
    return KVT_OK;
}

/* Those that have said everything go; the others get one more token in the next step. */
static kvt_status leave(replay *r) {
    kvt_status status = KVT_OK;
    for (int i = r->n_alive - 1; i >= 0 && status == KVT_OK; i--) {
        r->n_new[i] = 1;
        if (r->left[i]-- > 0) continue;
        status = kvt_seq_free(r->cache, r->seq[i]);
        int last = --r->n_alive;
        r->seq[i] = r->seq[last];
        r->n_new[i] = 1;
        r->left[i] = r->left[last];
    }
    return status;
}

static kvt_status replay_run(replay *r, progress *p) {
    kvt_status status = KVT_OK;
    while (status == KVT_OK && !cli_stop && (r->n_alive > 0 || r->next < r->requests->n)) {
        status = arrive(r);
        if (status == KVT_OK) status = grow(r);
        if (status == KVT_OK) status = look(r);
        if (status == KVT_OK) status = leave(r);
        if (r->next % 64 == 0) progress_show(p, r->next, r->requests->n);
    }
    progress_clear(p);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- the rows */

static const struct {
    kvt_cache_kind kind;
    int block;
} cases[] = { { KVT_PAGED, 16 }, { KVT_PAGED, 32 }, { KVT_PAGED, 64 }, { KVT_CONTIGUOUS, 32 } };
enum { N_CASES = sizeof cases / sizeof cases[0] };

static int measure(const memory_options *o, const requests *t, int i, json_t *rows) {
    replay r;
    progress p = progress_of("replaying the trace");
    const char *kind = kvt_cache_kind_name(cases[i].kind);
    kvt_status status = replay_open(&r, t, &o->common, cases[i].kind, cases[i].block, o->alive);
    if (status == KVT_OK) status = replay_run(&r, &p);
    double share = r.share_sum / r.n_steps, held = r.held_sum / r.n_steps;
    size_t reserved = r.reserved_most / (2 * DIM * 2); /* tokens' room: bf16 keys and values */
    replay_close(&r);
    if (status != KVT_OK) return cli_fail("the replay: %s", kvt_status_text(status));
    if (cli_stop) return CLI_INTERRUPTED;
    if (o->common.json)
        json_array_append_new(rows, json_pack("{s:s, s:i, s:f, s:f, s:I}", "cache", kind, "block_tokens",
                                              cases[i].block, "use_share", share, "tokens_held_mean", held,
                                              "tokens_reserved_most", (json_int_t)reserved));
    else if (cases[i].kind == KVT_PAGED)
        printf("paged, blocks of %-4d %9.2f %% %14s %16s\n", cases[i].block, 100 * share,
               show_count((uint64_t)(held + 0.5)).text, show_count(reserved).text);
    else
        printf("contiguous %10s %9.2f %% %14s %16s\n", "", 100 * share, show_count((uint64_t)(held + 0.5)).text,
               show_count(reserved).text);
    return CLI_DONE;
}

static int run(const memory_options *o, const requests *t, kvt_workers *team) {
    double bandwidth = bench_bandwidth(team);
    json_t *rows = json_array();
    int status = CLI_DONE;
    cli_catch_interrupt();
    if (!o->common.json)
        printf("%s, %d threads, read bandwidth %.1f GB/s; %s requests, the longest of %s tokens, %d alive at once\n"
               "%-20s %11s %14s %16s\n",
               kvt_cpu(), kvt_workers_count(team), bandwidth / 1e9, show_count((uint64_t)t->n).text,
               show_count((uint64_t)t->longest).text, o->alive, "cache", "in use", "tokens held", "most reserved");
    for (int i = 0; i < N_CASES && status == CLI_DONE; i++) status = measure(o, t, i, rows);
    if (status == CLI_DONE && o->common.json) return json_print(bench_json("bench memory", team, bandwidth, rows));
    json_decref(rows);
    return status == CLI_DONE ? cli_flush() : status;
}

static const option option_table[] = {
    { "--alive", "N", OPTION_INT, offsetof(memory_options, alive), "requests alive at once", 1, ALIVE_MAX },
    { "--requests", "N", OPTION_INT, offsetof(memory_options, n_requests), "the first N of the trace", 1, 1 << 30 },
    OPTION_HEAD("Machine"),
    OPTION_THREADS(memory_options),
    OPTION_JSON(memory_options),
};

static const option operand = { "TRACE", NULL, OPTION_FILE, offsetof(memory_options, file),
                                "the requests (default: $KVTILE_DATA/azure_conv.csv)", .files = "csv jsonl gz" };

static const command_example examples[] = {
    { "bench memory requests.csv --alive 256", "A service that has 256 requests at once." },
};

static void memory_defaults(void *options) {
    *(memory_options *)options =
        (memory_options){ .common = common_options_default(), .alive = 64, .n_requests = 4000 };
}

static int memory_command(const void *options) {
    const memory_options *o = options;
    char path[4096];
    const char *data = getenv("KVTILE_DATA");
    if (!o->file && !data)
        return cli_usage("bench memory", "a trace is wanted, or KVTILE_DATA with azure_conv.csv in it");
    snprintf(path, sizeof path, "%s/azure_conv.csv", data ? data : "");
    requests t = { 0 };
    kvt_workers *team = NULL;
    int status = requests_read(&t, o->file ? o->file : path, o->n_requests);
    if (status == CLI_DONE) status = team_open(&team, o->common.threads);
    if (status == CLI_DONE) status = run(o, &t, team);
    kvt_workers_close(team);
    trace_free(&t.trace);
    return status;
}

const command command_bench_memory = {
    .name = "bench memory",
    .summary = "a trace of requests: the share of reserved memory that holds tokens",
    .usage = "[TRACE] [OPTIONS]",
    .about = "Replay the lengths of a trace and tell which share of the reserved memory holds tokens, with blocks of "
             "each size and with a contiguous cache.",
    .more = "A trace is one that kvtile simulate reads, with the lengths of all requests: a line "
            "TIMESTAMP,ContextTokens,GeneratedTokens for each, say. No model is computed.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(memory_options),
    .defaults = memory_defaults,
    .run = memory_command,
};
