/* bench_step.c - kvtile bench step: what a decode step costs beside its arithmetic: room for the token and its commit,
 * and handing work to the pool. */
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/sys.h"
#include "base/thread.h"

/* Runs in a row, so that the clock's own time and a cold start weigh nothing. Where threads have to share a core, a
 * meeting takes as long as the system lets the last one wait: fewer of them. */
enum { EMPTY_RUNS = 200, MEETINGS = 20, MEETING_TURNS = 1000 };

typedef struct step_options {
    common_options common;
    const char *depths;
    int steps;
} step_options;

typedef struct step_row {
    int depth, runs; /* runs: of the pool in one step */
    double ms, reserve_us, commit_us;
    double empty_us, empty_share; /* of a run, and what all of them with reserve and commit are of a step */
    double meeting_us, meeting_share;
} step_row;

static const option option_table[] = {
    OPTION_MODEL(step_options),
    { "--depths", "TOKENS,...", OPTION_LIST, offsetof(step_options, depths), "tokens already in the cache", 0,
      1 << 20 },
    { "--steps", "N", OPTION_INT, offsetof(step_options, steps), "steps, of which the median is told", 1,
      BENCH_REPEATS },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(step_options),
    OPTION_MACHINE(step_options),
    OPTION_JSON(step_options),
};

static const command_example examples[] = {
    { "bench step --threads 1", "One thread hands nothing to others: what is left is the cache's own share." },
};

static void step_defaults(void *options) {
    *(step_options *)options = (step_options){ .common = common_options_default(), .depths = "0,1024", .steps = 32 };
}

static void nothing(void *ctx, int item, int worker) {
    (void)ctx;
    (void)item;
    (void)worker;
}

/* Wait for all items to have begun: no thread can take two. */
static void meet(void *ctx, int item, int worker) {
    atomic_int *n_missing = ctx;
    (void)item;
    (void)worker;
    atomic_fetch_sub(n_missing, 1);
    for (int turn = 1; atomic_load(n_missing) > 0; turn++)
        if (turn % MEETING_TURNS == 0) sched_yield();
}

/* Microseconds of a run with one item for each thread. */
static double run_us(kvt_workers *team, kvt_work_fn fn, int n_runs) {
    double us[BENCH_REPEATS];
    for (int i = 0; i < BENCH_REPEATS; i++) {
        uint64_t start = sys_now_ns();
        for (int done = 0; done < n_runs; done++) {
            atomic_int n_missing = kvt_workers_count(team);
            kvt_workers_run(team, kvt_workers_count(team), fn, &n_missing);
        }
        us[i] = bench_ms_since(start) * 1e3 / n_runs;
    }
    return bench_median(us, BENCH_REPEATS);
}

static double share_of(const step_row *r, double us_per_run) {
    return (r->reserve_us + r->commit_us + r->runs * us_per_run) / (r->ms * 1e3);
}

static int measure(const bench_model *m, bench_cache *b, int depth, int steps, step_row *out) {
    double ms[BENCH_REPEATS], reserve[BENCH_REPEATS], commit[BENCH_REPEATS];
    int status = bench_cache_fill(b, depth);
    *out = (step_row){ .depth = depth };
    for (int i = -1; i < steps && status == CLI_DONE; i++) {
        bench_times t;
        uint32_t runs = thread_runs(m->loaded.team);
        status = bench_model_step(m, b->cache, &b->seq, 1, &t);
        out->runs = (int)(thread_runs(m->loaded.team) - runs);
        if (status == CLI_DONE) status = bench_cache_fill(b, depth);
        if (i < 0) continue; /* the first one warms up */
        ms[i] = t.reserve_ms + t.forward_ms + t.commit_ms;
        reserve[i] = t.reserve_ms * 1e3;
        commit[i] = t.commit_ms * 1e3;
    }
    if (status != CLI_DONE) return status;
    out->ms = bench_median(ms, steps);
    out->reserve_us = bench_median(reserve, steps);
    out->commit_us = bench_median(commit, steps);
    out->empty_us = run_us(m->loaded.team, nothing, EMPTY_RUNS);
    out->empty_share = share_of(out, out->empty_us);
    out->meeting_us = run_us(m->loaded.team, meet, MEETINGS);
    out->meeting_share = share_of(out, out->meeting_us);
    return CLI_DONE;
}

static void tell(const step_row *r, bool json, json_t *rows) {
    if (json)
        json_array_append_new(
            rows, json_pack("{s:i, s:f, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "depth", r->depth, "ms_per_token", r->ms,
                            "reserve_us", r->reserve_us, "commit_us", r->commit_us, "pool_runs", r->runs,
                            "empty_run_us", r->empty_us, "overhead_share", r->empty_share, "meeting_run_us",
                            r->meeting_us, "overhead_share_meeting", r->meeting_share));
    else
        printf("%8d %10.3f %11.2f %10.2f %6d %10.2f %8.2f %% %10.2f %8.2f %%\n", r->depth, r->ms, r->reserve_us,
               r->commit_us, r->runs, r->empty_us, 100 * r->empty_share, r->meeting_us, 100 * r->meeting_share);
}

static int run(const step_options *o, const bench_model *m, bench_cache *b) {
    int depth[OPTION_LIST_MAX], n = option_list(o->depths, depth), most = 0;
    for (int i = 0; i < n; i++)
        if (depth[i] > most) most = depth[i];
    int status = bench_cache_open(b, m->config, m->loaded.team, &o->common, most + 1, 512);
    if (status != CLI_DONE) return status;
    json_t *rows = json_array();
    if (!o->common.json)
        printf("%s, %d threads, read bandwidth %.1f GB/s\n%8s %10s %11s %10s %6s %10s %10s %10s %10s\n", kvt_cpu(),
               kvt_workers_count(m->loaded.team), m->bandwidth / 1e9, "depth", "ms/token", "reserve us", "commit us",
               "runs", "empty us", "of a step", "meeting us", "of a step");
    for (int i = 0; i < n && status == CLI_DONE; i++) {
        step_row r;
        status = measure(m, b, depth[i], o->steps, &r);
        if (status == CLI_DONE) tell(&r, o->common.json, rows);
    }
    if (status == CLI_DONE && o->common.json)
        return json_print(bench_json("bench step", m->loaded.team, m->bandwidth, rows));
    json_decref(rows);
    return status == CLI_DONE ? cli_flush() : status;
}

static int step_command(const void *options) {
    const step_options *o = options;
    bench_model llm;
    bench_cache cache = { 0 };
    int status = bench_model_open(&llm, &o->common, 1);
    if (status == CLI_DONE) status = run(o, &llm, &cache);
    bench_cache_close(&cache);
    bench_model_close(&llm);
    return status;
}

const command command_bench_step = {
    .name = "bench step",
    .summary = "what a decode step costs beside its arithmetic",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "What one more token costs beside its arithmetic: kvt_reserve, kvt_commit, and the runs of the pool, "
             "counted. A run costs at least what an empty one does, which one thread may finish alone, and on an idle "
             "machine about what one does in which all threads meet.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(step_options),
    .defaults = step_defaults,
    .run = step_command,
};
