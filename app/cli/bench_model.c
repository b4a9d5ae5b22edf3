/* bench_model.c - whole steps of a model: one more token for each sequence of a batch, with the time of its parts. */
#include "bench.h"

#include <stdlib.h>

#include "base/sys.h"

static bool rows_take(bench_model *m, int n) {
    size_t count = (size_t)n;
    m->tokens = malloc(count * sizeof *m->tokens);
    m->ones = malloc(count * sizeof *m->ones);
    m->wanted = malloc(count * sizeof *m->wanted);
    m->logits = malloc(count * (size_t)m->config->n_vocab * sizeof *m->logits);
    if (!m->tokens || !m->ones || !m->wanted || !m->logits) return false;
    for (int i = 0; i < n; i++) {
        m->tokens[i] = (i * 7919 + 17) % m->config->n_vocab;
        m->ones[i] = 1;
        m->wanted[i] = i;
    }
    return true;
}

int bench_model_open(bench_model *m, const common_options *c, int sequences_max) {
    *m = (bench_model){ 0 };
    int status = loaded_open(&m->loaded, c);
    if (status != CLI_DONE) return status;
    m->config = model_config_of(m->loaded.model);
    m->bandwidth = bench_bandwidth(m->loaded.team);
    if (rows_take(m, sequences_max) && model_state_new(&m->state, m->loaded.model, sequences_max, m->config->context,
                                                       common_math(c), m->loaded.team) == KVT_OK)
        return CLI_DONE;
    return cli_fail("no memory for steps of %d sequences", sequences_max);
}

void bench_model_close(bench_model *m) {
    model_state_free(m->state);
    loaded_close(&m->loaded);
    free(m->tokens);
    free(m->ones);
    free(m->wanted);
    free(m->logits);
}

int bench_model_step(const bench_model *m, kvt_cache *cache, const kvt_seq *seqs, int n_seqs, bench_times *out) {
    model_step step = {
        .batch = { n_seqs, seqs, m->ones },
        .tokens = m->tokens,
        .wanted = m->wanted,
        .n_wanted = n_seqs,
        .logits = m->logits,
    };
    uint64_t start = sys_now_ns();
    kvt_status status = kvt_reserve(cache, &step.batch);
    out->reserve_ms = bench_ms_since(start);
    start = sys_now_ns();
    if (status == KVT_OK) status = model_forward(m->state, cache, &step);
    out->forward_ms = bench_ms_since(start);
    start = sys_now_ns();
    if (status == KVT_OK) status = kvt_commit(cache, &step.batch, m->tokens);
    out->commit_ms = bench_ms_since(start);
    if (status == KVT_OK) return CLI_DONE;
    kvt_abort(cache, &step.batch);
    return cli_fail("a step failed: %s", kvt_status_text(status));
}
