/* bench_tier.c - kvtile bench tier: how soon a prompt that was computed before has its first token, from wherever its
 * blocks wait; how fast tiers are; and what writing to them costs who decodes meanwhile. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

enum { RUNS_MAX = 32 };

typedef struct tier_options {
    common_options common;
    int prompt_tokens, runs;
    const char *folder;
} tier_options;

/* From where the prompt's blocks come. */
typedef enum source { SOURCE_NOWHERE, SOURCE_CACHE, SOURCE_MEMORY, SOURCE_DISK, SOURCE_DISK_COLD, N_SOURCES } source;

static const char *const source_names[N_SOURCES] = { "computed", "cache", "memory tier", "disk", "disk, cold" };

typedef struct tier_row {
    source source;
    double ms;       /* to the first token, median */
    int n_computed;  /* positions */
    uint64_t bytes;  /* of records read */
    double floor_ms; /* reading and checking those records and nothing else, median; 0: there are none */
    double put_rate; /* bytes per second written, as the prompt was computed and flushed; 0: none */
} tier_row;

typedef struct lookup_row {
    int n_blocks;
    double us; /* their keys and entries */
} lookup_row;

typedef struct spill_row {
    double quiet_ms, spilling_ms; /* a decoded token */
    double rate;                  /* bytes per second written meanwhile */
} spill_row;

/* What one run works with. */
typedef struct bench {
    const tier_options *o;
    bench_model model;
    int32_t *tokens; /* [prompt_tokens] */
    char folder[4096]; /* made here */
    tier_row rows[N_SOURCES];
    lookup_row lookup;
    spill_row spill;
} bench;

static const option option_table[] = {
    OPTION_MODEL(tier_options),
    { "--tokens", "TOKENS", OPTION_INT, offsetof(tier_options, prompt_tokens), "length of the prompt", 64, 1 << 20 },
    { "--runs", "N", OPTION_INT, offsetof(tier_options, runs), "runs, of which the median is told", 1, RUNS_MAX },
    { "--folder", "DIR", OPTION_FILE, offsetof(tier_options, folder),
      "where the disk is measured (default: $TMPDIR, or /tmp)",
      .more = "In a folder of its own there, which is removed again." },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(tier_options),
    OPTION_MACHINE(tier_options),
    OPTION_CHUNK(tier_options),
    OPTION_JSON(tier_options),
};

static const command_example examples[] = {
    { "bench tier --tokens 2048 --kv k8v4", "A shorter prompt, in fewer bytes." },
};

static void tier_defaults(void *options) {
    *(tier_options *)options =
        (tier_options){ .common = common_options_default(), .prompt_tokens = 4096, .runs = 3 };
}

/* ----------------------------------------------------------------------------------------------- folders */

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int folder_open(bench *b) {
    const char *parent = b->o->folder ? b->o->folder : getenv("TMPDIR");
    if (!parent || !*parent) parent = "/tmp";
    int n = snprintf(b->folder, sizeof b->folder, "%s/kvtile-bench-XXXXXX", parent);
    if (n < (int)sizeof b->folder && mkdtemp(b->folder)) return CLI_DONE;
    b->folder[0] = 0;
    return cli_fail("%s: %s", parent, strerror(n < (int)sizeof b->folder ? errno : ENAMETOOLONG));
}

static void folder_close(bench *b) {
    if (b->folder[0]) nftw(b->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* What was written is on the disk, and out of the memory that the system keeps of it. */
static int forget_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)ftw;
    int fd = flag == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return 0;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- tiers */

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    if (level <= KVT_LOG_WARN) cli_warn("%s", message);
}

static bool has_tier(source s) {
    return s >= SOURCE_MEMORY;
}

static int tier_open(const bench *b, source s, kvt_tier **out) {
    static const uint64_t bytes_max = 64ull << 30;
    *out = NULL;
    if (!has_tier(s)) return CLI_DONE;
    kvt_status status = s == SOURCE_MEMORY ? kvt_tier_memory(out, bytes_max)
                                           : kvt_tier_disk(out, b->folder, bytes_max, hear, NULL);
    return status == KVT_OK ? CLI_DONE : cli_fail("%s: %s", b->folder, kvt_status_text(status));
}

static kvt_status check_one(void *ctx, const kvt_tier_entry *entry) {
    kvt_record_info info;
    return kvt_tier_verify(ctx, entry, &info);
}

/* ------------------------------------------------------------------------------------- to the first token */

static int engine_of(const bench *b, kvt_tier *const *tier, bool share, engine **out) {
    error_text err;
    engine_options opt = common_engine_options(&b->o->common);
    opt.context = b->o->prompt_tokens + 1;
    opt.rope_context = model_context(model_config_of(b->model.loaded.model));
    opt.share = share;
    opt.tiers = tier;
    opt.n_tiers = *tier ? 1 : 0;
    kvt_status status = engine_open(out, b->model.loaded.model, b->model.loaded.team, &opt, &err);
    return status == KVT_OK ? CLI_DONE : cli_fail("%s", err.text);
}

/* One answer of one token. */
static int first_token(const bench *b, engine *e, double *ms) {
    error_text err;
    answer a;
    prompt p = { b->tokens, b->o->prompt_tokens };
    generate_options g = { .prompts = &p, .n_prompts = 1, .n_samples = 1, .tokens_max = 1, .stop = &cli_stop };
    g.sampling = sample_options_default();
    kvt_status status = generate(e, &g, &a, &err);
    *ms = (double)a.first_ns / 1e6;
    answers_free(&a, 1);
    if (status != KVT_OK) return cli_fail("%s", err.text);
    return cli_stop ? CLI_INTERRUPTED : CLI_DONE;
}

/* The prompt is computed, and written to where it is looked for later. */
static int prepare(const bench *b, kvt_tier *tier, engine *e, tier_row *row) {
    double ms;
    uint64_t start = sys_now_ns();
    int status = first_token(b, e, &ms);
    if (status != CLI_DONE || !tier) return status;
    engine_flush(e);
    row->put_rate = (double)engine_stats(e).bytes_put * 1e3 / bench_ms_since(start);
    return CLI_DONE;
}

static int floor_of(const bench *b, kvt_tier *tier, double *ms) {
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_tier_walk(tier, check_one, tier);
    *ms = bench_ms_since(start);
    return status == KVT_OK ? CLI_DONE : cli_fail("%s: %s", b->folder, kvt_status_text(status));
}

static void let_cool(const bench *b, source s) {
    if (s == SOURCE_DISK_COLD) nftw(b->folder, forget_one, 16, FTW_PHYS);
}

/* In an engine of its own, as a new process has one; from the cache's own memory in the one that computed it. */
static int measure_once(const bench *b, source s, kvt_tier *tier, double *ms, tier_row *row) {
    engine *e;
    double floor = 0;
    let_cool(b, s);
    int status = tier ? floor_of(b, tier, &floor) : CLI_DONE;
    let_cool(b, s);
    if (status != CLI_DONE || engine_of(b, &tier, s != SOURCE_NOWHERE, &e) != CLI_DONE) return CLI_FAILED;
    if (s == SOURCE_CACHE) status = first_token(b, e, ms);
    uint64_t before = engine_counted(e).positions_computed;
    if (status == CLI_DONE) status = first_token(b, e, ms);
    row->n_computed = (int)(engine_counted(e).positions_computed - before);
    row->bytes = engine_stats(e).bytes_got;
    if (tier) row->floor_ms = floor;
    engine_close(e);
    return status;
}

static int measure(bench *b, source s) {
    double ms[RUNS_MAX], floor[RUNS_MAX];
    tier_row *row = &b->rows[s];
    kvt_tier *tier;
    engine *e;
    *row = (tier_row){ .source = s };
    int status = tier_open(b, s, &tier);
    if (status == CLI_DONE && tier) {
        status = engine_of(b, &tier, true, &e);
        if (status == CLI_DONE) status = prepare(b, tier, e, row);
        if (status == CLI_DONE) engine_close(e);
    }
    for (int i = 0; i < b->o->runs && status == CLI_DONE; i++) {
        status = measure_once(b, s, tier, &ms[i], row);
        floor[i] = row->floor_ms;
    }
    kvt_tier_close(tier);
    if (status != CLI_DONE) return status;
    row->ms = bench_median(ms, b->o->runs);
    row->floor_ms = bench_median(floor, b->o->runs);
    return CLI_DONE;
}

/* -------------------------------------------------------------------------------------------- keys and entries */

enum { LOOKUP_BLOCKS = 256, LOOKUP_RUNS = 15 };

/* A prompt of so many blocks, which are there. */
static int lookup_run(bench_cache *c, const int32_t *tokens, int n_tokens, double *us) {
    kvt_match_result r;
    kvt_seq seq;
    if (kvt_seq_new(c->cache, &seq) != KVT_OK) return cli_fail("no second sequence");
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_match(c->cache, seq, tokens, n_tokens, NULL, &r);
    *us = bench_ms_since(start) * 1e3;
    kvt_seq_free(c->cache, seq);
    return status == KVT_OK && r.n_found == n_tokens - 1 ? CLI_DONE : cli_fail("a prompt was not found");
}

static int lookup_runs(bench *b, bench_cache *c, int32_t *tokens, int n_tokens) {
    double us[LOOKUP_RUNS];
    int status = CLI_DONE;
    for (int i = 0; i < n_tokens; i++) tokens[i] = i % b->model.config->n_vocab;
    for (int done = 0; done + 1 < n_tokens; done += 512)
        if (bench_seq_append(c, c->seq, n_tokens - 1 - done < 512 ? n_tokens - 1 - done : 512, tokens + done) != KVT_OK)
            return cli_fail("filling the cache failed");
    for (int i = 0; i < LOOKUP_RUNS && status == CLI_DONE; i++) status = lookup_run(c, tokens, n_tokens, &us[i]);
    if (status == CLI_DONE) b->lookup = (lookup_row){ LOOKUP_BLOCKS, bench_median(us, LOOKUP_RUNS) };
    return status;
}

static int lookup_measure(bench *b) {
    bench_cache c;
    int n_tokens = LOOKUP_BLOCKS * (16 << b->o->common.block) + 1;
    int32_t *tokens = malloc((size_t)n_tokens * sizeof *tokens);
    if (!tokens) return cli_fail("no memory for %d tokens", n_tokens);
    bench_room room = { .sequences_max = 2, .tokens_max = n_tokens, .batch_max = 512 };
    int status = bench_cache_open_room(&c, b->model.config, b->model.loaded.team, &b->o->common, &room);
    if (status == CLI_DONE) status = lookup_runs(b, &c, tokens, n_tokens);
    bench_cache_close(&c);
    free(tokens);
    return status;
}

/* ------------------------------------------------------------------------------------- decoding meanwhile */

enum { DEPTH = 1024, STEPS = 48, QUEUED = 8 };

/* A block more of a second sequence, of tokens that nobody has had: one more that goes to the tier. */
static kvt_status block_add(bench_cache *c, kvt_seq *seq, int block_tokens) {
    static int32_t next;
    int32_t tokens[64];
    if (kvt_seq_length(c->cache, *seq) + block_tokens > DEPTH) {
        kvt_seq_free(c->cache, *seq);
        kvt_status status = kvt_seq_new(c->cache, seq);
        if (status != KVT_OK) return status;
    }
    for (int i = 0; i < block_tokens; i++) tokens[i] = next++;
    return bench_seq_append(c, *seq, block_tokens, tokens);
}

/* One token behind DEPTH others; busy: while the tier has as much to write as it can. */
static int decode_ms(const bench *b, bench_cache *c, kvt_seq *other, bool busy, double *ms) {
    bench_times t;
    kvt_stats now;
    while (busy && kvt_stats_get(c->cache, &now) == KVT_OK && now.moves_open < QUEUED)
        if (block_add(c, other, 16 << b->o->common.block) != KVT_OK) return cli_fail("filling the cache failed");
    int status = bench_model_step(&b->model, c->cache, &c->seq, 1, &t);
    *ms = t.reserve_ms + t.forward_ms + t.commit_ms;
    return status == CLI_DONE ? bench_cache_fill(c, DEPTH) : status;
}

static uint64_t bytes_put(const kvt_cache *c) {
    kvt_stats now;
    return kvt_stats_get(c, &now) == KVT_OK ? now.bytes_put : 0;
}

/* Quiet steps and busy ones take turns. What is queued for the busy ones is written before the quiet one begins. */
static int spill_steps(bench *b, bench_cache *c, kvt_seq *other) {
    double quiet[STEPS], busy[STEPS], unused;
    uint64_t busy_ns = 0, bytes = 0;
    int status = decode_ms(b, c, other, false, &unused); /* warms up */
    for (int i = 0; i < STEPS && status == CLI_DONE; i++) {
        uint64_t start = sys_now_ns(), before = bytes_put(c->cache);
        status = decode_ms(b, c, other, true, &busy[i]);
        kvt_wait(c->cache, 0); /* hears of what is written */
        busy_ns += sys_now_ns() - start;
        bytes += bytes_put(c->cache) - before;
        kvt_flush(c->cache);
        if (status == CLI_DONE) status = decode_ms(b, c, other, false, &quiet[i]);
    }
    if (status != CLI_DONE) return status;
    b->spill.rate = (double)bytes * 1e9 / (double)busy_ns;
    b->spill.quiet_ms = bench_median(quiet, STEPS);
    b->spill.spilling_ms = bench_median(busy, STEPS);
    return CLI_DONE;
}

static int spill_measure(bench *b) {
    bench_cache c;
    kvt_tier *tier;
    kvt_seq other;
    int status = tier_open(b, SOURCE_DISK, &tier);
    if (status != CLI_DONE) return status;
    bench_room room = { .sequences_max = 2, .tokens_max = 2 * DEPTH, .batch_max = 512, .tiers = &tier, .n_tiers = 1 };
    status = bench_cache_open_room(&c, b->model.config, b->model.loaded.team, &b->o->common, &room);
    if (status == CLI_DONE) status = bench_cache_fill(&c, DEPTH);
    if (status == CLI_DONE && kvt_seq_new(c.cache, &other) != KVT_OK) status = cli_fail("no second sequence");
    if (status == CLI_DONE) status = spill_steps(b, &c, &other);
    bench_cache_close(&c);
    kvt_tier_close(tier);
    return status;
}

/* --------------------------------------------------------------------------------------------------- telling */

static void row_tell(const tier_row *r, const tier_row *computed, bool json, json_t *rows) {
    double ratio = computed->ms / r->ms, rate = r->floor_ms > 0 ? (double)r->bytes * 1e3 / r->floor_ms : 0;
    if (json) {
        json_array_append_new(
            rows, json_pack("{s:s, s:f, s:f, s:i, s:I, s:f, s:f}", "from", source_names[r->source], "ttft_ms", r->ms,
                            "faster", ratio, "positions_computed", r->n_computed, "bytes_read", (json_int_t)r->bytes,
                            "read_and_check_ms", r->floor_ms, "write_bytes_per_s", r->put_rate));
        return;
    }
    printf("%-12s %11.2f %9.1f x %9d", source_names[r->source], r->ms, ratio, r->n_computed);
    if (has_tier(r->source))
        printf(" %10s %11.2f %8.2f GB/s %8.2f GB/s", show_bytes((double)r->bytes).text, r->floor_ms, rate / 1e9,
               r->put_rate / 1e9);
    putchar('\n');
}

static int tell(const bench *b) {
    const spill_row *s = &b->spill;
    json_t *rows = json_array();
    bool json = b->o->common.json;
    double slower = 100 * (s->spilling_ms / s->quiet_ms - 1);
    if (!json)
        printf("%s, %d threads, read bandwidth %.1f GB/s; prompt of %d tokens, %s\n%-12s %11s %11s %9s %10s %11s %13s "
               "%13s\n",
               kvt_cpu(), kvt_workers_count(b->model.loaded.team), b->model.bandwidth / 1e9, b->o->prompt_tokens,
               b->folder, "from", "first token", "faster", "computed", "read", "reading ms", "read", "written");
    for (int i = 0; i < N_SOURCES; i++) row_tell(&b->rows[i], &b->rows[SOURCE_NOWHERE], json, rows);
    if (json)
        json_array_append_new(rows, json_pack("{s:i, s:f}", "lookup_blocks", b->lookup.n_blocks, "lookup_us",
                                              b->lookup.us));
    else
        printf("keys and lookup of %d blocks: %.0f us\n", b->lookup.n_blocks, b->lookup.us);
    if (json)
        json_array_append_new(rows, json_pack("{s:f, s:f, s:f, s:f}", "decode_ms", s->quiet_ms, "decode_spilling_ms",
                                              s->spilling_ms, "slower_percent", slower, "write_bytes_per_s", s->rate));
    else
        printf("decode behind %d tokens %.3f ms; while a mover writes all it can (%.2f GB/s) %.3f ms, "
               "%+.1f %%\n",
               DEPTH, s->quiet_ms, s->rate / 1e9, s->spilling_ms, slower);
    if (json) return json_print(bench_json("bench tier", b->model.loaded.team, b->model.bandwidth, rows));
    json_decref(rows);
    return cli_flush();
}

static int run(bench *b) {
    int context = model_context(b->model.config);
    if (b->o->prompt_tokens >= context)
        return cli_fail("%d tokens and an answer are more than the context of %d", b->o->prompt_tokens, context);
    b->tokens = bench_prompt(b->model.loaded.model, b->o->prompt_tokens);
    if (!b->tokens) return cli_fail("no memory for %d tokens", b->o->prompt_tokens);
    int status = folder_open(b);
    cli_catch_interrupt();
    for (int i = 0; i < N_SOURCES && status == CLI_DONE; i++) status = measure(b, (source)i);
    if (status == CLI_DONE) status = lookup_measure(b);
    if (status == CLI_DONE) status = spill_measure(b);
    return status == CLI_DONE ? tell(b) : status;
}

static int tier_command(const void *options) {
    bench b = { .o = options };
    int status = bench_model_open(&b.model, &b.o->common, 1);
    if (status == CLI_DONE) status = run(&b);
    folder_close(&b);
    free(b.tokens);
    bench_model_close(&b.model);
    return status;
}

const command command_bench_tier = {
    .name = "bench tier",
    .summary = "a prompt computed, and found in memory and on a disk: time to its first token; decoding while writing",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "The time to the first token of a prompt that is computed, that is found in the cache, in a tier in "
             "memory, and on a disk whose files the system still has in memory, or has not. Then a decoded token's "
             "time while a mover writes blocks to the disk as fast as it does beside that.",
    .more = "\"reading ms\" is what reading and checking the same records takes alone, one after the other.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(tier_options),
    .defaults = tier_defaults,
    .run = tier_command,
};
