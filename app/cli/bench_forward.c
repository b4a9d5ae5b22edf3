/* bench_forward.c - whole forward passes of a model over a cache in one format: a token behind others, a prompt. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"

int forward_open(forward *f, const loaded *l, const common_options *c, int tokens_max, int rows_max) {
    const model_config *config = model_config_of(l->model);
    *f = (forward){ .loaded = l, .chunk = c->chunk };
    int status = bench_cache_open(&f->cache, config, l->team, c, tokens_max, rows_max > c->chunk ? rows_max : c->chunk);
    if (status != CLI_DONE) return status;
    f->tokens = malloc((size_t)f->chunk * sizeof *f->tokens);
    f->logits = malloc((size_t)config->n_vocab * sizeof *f->logits);
    bool taken = f->tokens && f->logits;
    if (!taken || model_state_new(&f->state, l->model, f->chunk, tokens_max, common_math(c), l->team) != KVT_OK)
        return cli_fail("no memory for steps of %d tokens", f->chunk);
    for (int i = 0; i < f->chunk; i++) f->tokens[i] = (int32_t)((i * 7919 + 17) % config->n_vocab);
    return CLI_DONE;
}

void forward_close(forward *f) {
    model_state_free(f->state);
    bench_cache_close(&f->cache);
    free(f->tokens);
    free(f->logits);
}

/* n_rows new tokens with logits of the last one; milliseconds, below 0: it failed. */
static double step_ms(forward *f, int n_rows) {
    int last = n_rows - 1;
    model_step step = { .batch = { 1, &f->cache.seq, &n_rows }, .tokens = f->tokens, .wanted = &last, .n_wanted = 1 };
    step.logits = f->logits;
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_reserve(f->cache.cache, &step.batch);
    if (status == KVT_OK) status = model_forward(f->state, f->cache.cache, &step);
    if (status == KVT_OK) status = kvt_commit(f->cache.cache, &step.batch, f->tokens);
    if (status == KVT_OK) return bench_ms_since(start);
    kvt_abort(f->cache.cache, &step.batch);
    cli_fail("a step failed: %s", kvt_status_text(status));
    return -1;
}

int forward_decode(forward *f, int depth, int steps, bench_token *out) {
    double ms[BENCH_REPEATS], attend[BENCH_REPEATS];
    int status = bench_cache_fill(&f->cache, depth);
    /* The first step warms up; each is dropped again, so that all are at the same depth. */
    for (int i = -1; i < steps && status == CLI_DONE; i++) {
        double whole = step_ms(f, 1);
        if (whole >= 0) status = bench_cache_fill(&f->cache, depth);
        double alone = whole >= 0 && status == CLI_DONE ? bench_attend_ms(&f->cache, 1) : -1;
        if (alone < 0) return CLI_FAILED;
        if (i < 0) continue;
        ms[i] = whole;
        attend[i] = alone;
    }
    if (status != CLI_DONE) return status;
    model_products products = model_products_of(f->loaded->model);
    const model_config *c = &f->cache.config;
    *out = (bench_token){ .depth = depth };
    out->attend.flop = bench_attend_flop(c, depth, 1) * c->n_layers;
    out->attend.bytes = (double)f->cache.bytes_per_token * (depth + 1);
    out->attend.ms = bench_median(attend, steps);
    out->step.flop = out->attend.flop + 2 * (double)products.n_weights;
    out->step.bytes = out->attend.bytes + (double)products.packed_bytes;
    out->step.ms = bench_median(ms, steps);
    return CLI_DONE;
}

int forward_prefill(forward *f, int n_tokens, int steps, double *median_ms) {
    double ms[BENCH_REPEATS];
    for (int i = -1; i < steps; i++) { /* the first one warms up */
        double sum = 0;
        if (bench_cache_fill(&f->cache, 0) != CLI_DONE) return CLI_FAILED;
        for (int done = 0; done < n_tokens; done += f->chunk) {
            double t = step_ms(f, n_tokens - done < f->chunk ? n_tokens - done : f->chunk);
            if (t < 0) return CLI_FAILED;
            sum += t;
        }
        if (i >= 0) ms[i] = sum;
    }
    *median_ms = bench_median(ms, steps);
    return CLI_DONE;
}
