/* bench.c - kvtile bench: the family of measurements, and what they share. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sys.h"

const command command_bench = {
    .name = "bench",
    .summary = "measure on this machine",
    .usage = "MEASUREMENT [OPTIONS]",
    .about = "Measure on this machine. Each measurement prints a table, or with --json its rows, and the CPU path "
             "taken and the memory bandwidth measured in the same run.",
};

/* --------------------------------------------------------------------------------------------- bandwidth */

enum { READ_SLICE = 2 << 20, READ_SLICES = 256, READ_PASSES = 10, READ_AHEAD = 512 }; /* 512 MB; ahead: in words */

typedef struct read_work {
    uint64_t *words;
    uint64_t seen[READ_SLICES]; /* what was read ends here, or the compiler would not read it */
} read_work;

static void write_slice(void *ctx, int item, int worker) {
    read_work *work = ctx;
    (void)worker;
    memset((char *)work->words + (size_t)item * READ_SLICE, item + 1, READ_SLICE);
}

static inline void read_slice(read_work *work, int item, bool prefetch) {
    const uint64_t *w = work->words + (size_t)item * (READ_SLICE / sizeof *w);
    uint64_t x[8] = { 0 };
    for (size_t i = 0; i < READ_SLICE / sizeof *w; i += 8) {
        if (prefetch) __builtin_prefetch(w + i + READ_AHEAD);
        for (int j = 0; j < 8; j++) x[j] ^= w[i + (size_t)j];
    }
    for (int j = 1; j < 8; j++) x[0] ^= x[j];
    work->seen[item] = x[0];
}

static void read_plain(void *ctx, int item, int worker) {
    (void)worker;
    read_slice(ctx, item, false);
}

static void read_ahead(void *ctx, int item, int worker) {
    (void)worker;
    read_slice(ctx, item, true);
}

double bench_bandwidth(kvt_workers *team) {
    static read_work work;
    size_t bytes = (size_t)READ_SLICE * READ_SLICES;
    double best = 0;
    work.words = mem_take(NULL, bytes + READ_SLICE); /* the last slice prefetches behind itself */
    if (!work.words) return 0;
    kvt_workers_run(team, READ_SLICES, write_slice, &work);
    for (int i = 0; i < READ_PASSES; i++) {
        uint64_t start = sys_now_ns();
        kvt_workers_run(team, READ_SLICES, i % 2 ? read_ahead : read_plain, &work);
        double rate = (double)bytes * 1e9 / (double)(sys_now_ns() - start);
        if (rate > best) best = rate;
    }
    mem_give(NULL, work.words, bytes + READ_SLICE);
    return best;
}

/* ----------------------------------------------------------------------------------------------- numbers */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, ascending);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

double bench_ms_since(uint64_t start_ns) {
    return (double)(sys_now_ns() - start_ns) / 1e6;
}

int32_t *bench_prompt(const model *m, int n_tokens) {
    static const char text[] =
        "A cache keeps the keys and values of all tokens before, so that the next one is computed alone. ";
    token_list ids = { 0 };
    while (ids.n < (size_t)n_tokens)
        if (tokenizer_encode(model_tokenizer(m), text, strlen(text), false, &ids) != KVT_OK) {
            token_list_free(&ids);
            return NULL;
        }
    return ids.id;
}

json_t *bench_json(const char *name, const kvt_workers *team, double bandwidth, json_t *rows) {
    return json_pack("{s:s, s:s, s:i, s:f, s:o}", "command", name, "cpu", kvt_cpu(), "threads",
                     kvt_workers_count(team), "bandwidth_read", bandwidth, "rows", rows);
}
