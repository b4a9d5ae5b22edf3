/* bench_share.c - kvtile bench share: sequences that begin alike decode as one batch, and we look what is read once for
 * all of them, what for each, and what it costs to keep a copy for each. */
#include "bench.h"

#include "base/sys.h"

enum { SEQUENCES_MAX = 256, FILL_ROWS = 512 };

typedef enum mode_id {
    MODE_SHARED, /* forked from one sequence; a shared block is read once for all */
    MODE_APART,  /* the same forks; a shared block is read once for each */
    MODE_PRIVATE /* each filled on its own */
} mode_id;
enum { N_MODES = MODE_PRIVATE + 1 };

static const char *const mode_names[N_MODES] = { "shared", "apart", "private" };

typedef struct share_options {
    common_options common;
    int sequences, prefix, own, steps;
} share_options;

typedef struct mode {
    bench_cache cache;
    kvt_seq seqs[SEQUENCES_MAX]; /* [sequences] */
    size_t bytes;                /* of the blocks in use */
    double step_ms[BENCH_REPEATS], attend_ms[BENCH_REPEATS];
} mode;

static const option option_table[] = {
    OPTION_MODEL(share_options),
    { "--sequences", "N", OPTION_INT, offsetof(share_options, sequences), "sequences of the batch", 1, SEQUENCES_MAX },
    { "--prefix", "TOKENS", OPTION_INT, offsetof(share_options, prefix), "tokens that all begin with", 1, 1 << 20 },
    { "--own", "TOKENS", OPTION_INT, offsetof(share_options, own), "tokens of each behind them", 0, 1 << 20 },
    { "--steps", "N", OPTION_INT, offsetof(share_options, steps), "steps, of which the median is told", 1,
      BENCH_REPEATS },
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(share_options),
    OPTION_MACHINE(share_options),
    OPTION_JSON(share_options),
};

static const command_example examples[] = {
    { "bench share --sequences 64 --prefix 4096 --steps 5", "Many users behind one long system prompt." },
};

static void share_defaults(void *options) {
    *(share_options *)options = (share_options){
        .common = common_options_default(), .sequences = 16, .prefix = 2048, .own = 64, .steps = 15
    };
}

/* ---------------------------------------------------------------------------------------------- the three caches */

/* Untouched pages cost nothing, so three caches that are too large together open, and would end the program while they
 * are filled. */
static int room_check(const share_options *o, size_t bytes_per_token) {
    double block = 16 << o->common.block, n = o->sequences, own = o->own + 1 + block; /* the last one partly filled */
    double tokens = n * (o->prefix + own) + 2 * (o->prefix + n * own), bytes = tokens * (double)bytes_per_token;
    if (bytes <= (double)sys_memory_total()) return CLI_DONE;
    return cli_fail("three caches of %d sequences need %s, this machine has %s", o->sequences, show_bytes(bytes).text,
                    show_bytes((double)sys_memory_total()).text);
}

static int mode_open(mode *m, mode_id id, const share_options *o, const bench_model *llm) {
    bench_room room = {
        .sequences_max = o->sequences,
        .tokens_max = o->prefix + o->own + 1,
        .batch_max = FILL_ROWS,
        .read_apart = id == MODE_APART,
    };
    return bench_cache_open_room(&m->cache, llm->config, llm->loaded.team, &o->common, &room);
}

/* All sequences to the same length. */
static int mode_fill(mode *m, mode_id id, const share_options *o) {
    kvt_cache *cache = m->cache.cache;
    kvt_status status = KVT_OK;
    m->seqs[0] = m->cache.seq;
    if (bench_cache_fill(&m->cache, o->prefix) != CLI_DONE) return CLI_FAILED;
    for (int i = 1; i < o->sequences && status == KVT_OK; i++)
        status = id == MODE_PRIVATE ? kvt_seq_new(cache, &m->seqs[i]) : kvt_seq_fork(cache, m->seqs[0], &m->seqs[i]);
    if (status != KVT_OK) return cli_fail("%d sequences: %s", o->sequences, kvt_status_text(status));
    for (int i = 0; i < o->sequences; i++)
        if (bench_seq_fill(&m->cache, m->seqs[i], o->prefix + o->own) != CLI_DONE) return CLI_FAILED;
    return CLI_DONE;
}

static int modes_open(mode modes[N_MODES], const share_options *o, const bench_model *llm) {
    int status = CLI_DONE;
    for (int id = 0; id < N_MODES && status == CLI_DONE; id++) status = mode_open(&modes[id], (mode_id)id, o, llm);
    if (status == CLI_DONE) status = room_check(o, modes[0].cache.bytes_per_token);
    for (int id = 0; id < N_MODES && status == CLI_DONE; id++) status = mode_fill(&modes[id], (mode_id)id, o);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- measuring */

/* A whole step and its attention alone, both dropped again. A fork's partly filled last block is copied in the first
 * step, which is not counted, and stays its own. */
static int mode_measure(mode *m, const share_options *o, const bench_model *llm, double *step_ms, double *attend_ms) {
    bench_times t;
    int status = bench_model_step(llm, m->cache.cache, m->seqs, o->sequences, &t);
    for (int i = 0; i < o->sequences && status == CLI_DONE; i++)
        status = bench_seq_fill(&m->cache, m->seqs[i], o->prefix + o->own);
    if (status != CLI_DONE) return status;
    *step_ms = t.reserve_ms + t.forward_ms + t.commit_ms;
    *attend_ms = bench_batch_attend_ms(&m->cache, &(kvt_batch){ o->sequences, m->seqs, llm->ones });
    return *attend_ms < 0 ? CLI_FAILED : CLI_DONE;
}

/* The modes take turns step by step, so that whatever the machine does besides meets them alike. */
static int modes_measure(mode modes[N_MODES], const share_options *o, const bench_model *llm) {
    kvt_stats stats;
    for (int i = -1; i < o->steps; i++)
        for (int id = 0; id < N_MODES; id++) {
            int at = i < 0 ? 0 : i; /* the first step warms up; the next one takes its place */
            int status = mode_measure(&modes[id], o, llm, &modes[id].step_ms[at], &modes[id].attend_ms[at]);
            if (status != CLI_DONE) return status;
        }
    for (int id = 0; id < N_MODES; id++)
        if (kvt_stats_get(modes[id].cache.cache, &stats) == KVT_OK) modes[id].bytes = stats.bytes_reserved;
    return CLI_DONE;
}

/* --------------------------------------------------------------------------------------------------------- telling */

static void header_tell(const share_options *o, const bench_model *llm) {
    printf("%s, %d threads, read bandwidth %.1f GB/s; %d sequences, %d tokens in common, %d of each behind them\n"
           "%-8s %10s %10s %13s %14s %10s\n",
           kvt_cpu(), kvt_workers_count(llm->loaded.team), llm->bandwidth / 1e9, o->sequences, o->prefix, o->own,
           "mode", "ms/step", "tokens/s", "attention ms", "shared faster", "cache");
}

static void modes_tell(mode modes[N_MODES], const share_options *o, json_t *rows) {
    double shared_ms = 0;
    for (int id = 0; id < N_MODES; id++) {
        double ms = bench_median(modes[id].step_ms, o->steps), attend_ms = bench_median(modes[id].attend_ms, o->steps);
        double rate = o->sequences * 1e3 / ms;
        if (id == MODE_SHARED) shared_ms = attend_ms;
        if (o->common.json)
            json_array_append_new(
                rows, json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:I}", "mode", mode_names[id], "sequences",
                                o->sequences, "prefix", o->prefix, "own", o->own, "ms_per_step", ms, "attend_ms",
                                attend_ms, "tokens_per_s", rate, "cache_bytes", (json_int_t)modes[id].bytes));
        else
            printf("%-8s %10.2f %10.1f %13.3f %12.2f x %10s\n", mode_names[id], ms, rate, attend_ms,
                   attend_ms / shared_ms, show_bytes((double)modes[id].bytes).text);
    }
}

static int run(const share_options *o, const bench_model *llm, mode modes[N_MODES]) {
    int status = modes_open(modes, o, llm);
    if (status == CLI_DONE) status = modes_measure(modes, o, llm);
    if (status != CLI_DONE) return status;
    json_t *rows = json_array();
    if (!o->common.json) header_tell(o, llm);
    modes_tell(modes, o, rows);
    if (o->common.json) return json_print(bench_json("bench share", llm->loaded.team, llm->bandwidth, rows));
    json_decref(rows);
    return cli_flush();
}

static int share_command(const void *options) {
    const share_options *o = options;
    bench_model llm;
    mode modes[N_MODES] = { 0 };
    int status = bench_model_open(&llm, &o->common, o->sequences);
    if (status == CLI_DONE) status = run(o, &llm, modes);
    for (int id = 0; id < N_MODES; id++) bench_cache_close(&modes[id].cache);
    bench_model_close(&llm);
    return status;
}

const command command_bench_share = {
    .name = "bench share",
    .summary = "a batch over one common prefix: read once for all, read for each sequence, copied for each",
    .usage = "[-m MODEL] [OPTIONS]",
    .about = "One more token for each sequence of a batch over a common prefix (synthetic keys and values), where its "
             "blocks are shared and read once, shared and read for each sequence, or private to each.",
    COMMAND_OPTIONS(option_table),
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(share_options),
    .defaults = share_defaults,
    .run = share_command,
};
