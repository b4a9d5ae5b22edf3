/* cohort.c - see cohort.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cohort.h"
#include "subject.h"

static kvt_workers *team;
model *cohort_models[3];

const format_case format_cases[N_FORMATS] = {
    { KVT_BF16, KVT_BF16, false }, { KVT_F16, KVT_F16, false },   { KVT_F32, KVT_F32, false },
    { KVT_E4M3, KVT_E4M3, true },  { KVT_E5M2, KVT_E5M2, true },  { KVT_INT8, KVT_INT8, true },
    { KVT_INT8, KVT_INT4, true },  { KVT_INT4, KVT_INT4, true },  { KVT_INT3, KVT_INT3, true },
    { KVT_INT2, KVT_INT2, true },  { KVT_F32, KVT_INT4, true },
};

void cohort_ids(const model *m, uint64_t seed, int32_t *out, int n) {
    uint64_t x = seed * 2 + 1;
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (int32_t)((x >> 33) % (uint64_t)model_config_of(m)->n_vocab);
    }
}

engine_options engine_plain(void) {
    engine_options opt = engine_options_default();
    opt.block_tokens = BLOCK;
    opt.context = 128;
    opt.sequences_max = 8;
    return opt;
}

engine_options engine_cold(void) {
    engine_options opt = engine_plain();
    opt.share = false;
    return opt;
}

engine_options engine_in_format(engine_options opt, format_case f) {
    opt.k_format = f.k;
    opt.v_format = f.v;
    return opt;
}

engine *cohort_engine(const model *m, engine_options opt) {
    error_text err;
    engine *e;
    if (engine_open(&e, m, team, &opt, &err) != KVT_OK) fail_msg("%s", err.text);
    return e;
}

int cohort_add(engine *e, const int32_t *ids, int n) {
    int seq = -1;
    assert_int_equal(engine_add(e, ids, n, &seq), KVT_OK);
    return seq;
}

void cohort_step_all(engine *e) {
    for (int i = 0; engine_waiting(e); i++) {
        assert_int_equal(engine_step(e), KVT_OK);
        if (i > 100000) fail_msg("it does not end");
    }
}

static rows rows_of(const model *m) {
    size_t row = (size_t)model_config_of(m)->n_vocab * sizeof(float);
    return (rows){ calloc(1 + N_MORE, row), (1 + N_MORE) * row, row };
}

static void rows_take(rows *r, const engine *e, int seq, int i) {
    const float *logits = engine_logits(e, seq);
    assert_non_null(logits);
    memcpy((char *)r->at + (size_t)i * r->row, logits, r->row);
}

rows run_in(engine *e, const int32_t *ids, int n) {
    rows r = rows_of(engine_model(e));
    int seq = cohort_add(e, ids, n);
    cohort_step_all(e);
    for (int i = 0; i <= N_MORE; i++) {
        rows_take(&r, e, seq, i);
        if (i == N_MORE) break;
        assert_int_equal(engine_append(e, seq, ids[n + i]), KVT_OK);
        cohort_step_all(e);
    }
    engine_end(e, seq);
    return r;
}

rows run_alone(const model *m, engine_options opt, const int32_t *ids, int n) {
    engine *e = cohort_engine(m, opt);
    rows r = run_in(e, ids, n);
    engine_close(e);
    return r;
}

void assert_same_rows(rows a, rows b, const char *what, int number) {
    if (memcmp(a.at, b.at, a.bytes) != 0) fail_msg("%s %d: other bits", what, number);
    free(a.at);
}

int whole_blocks(int n) {
    return n / BLOCK * BLOCK;
}

engine_options engine_with_tier(engine_options opt, kvt_tier *const *tier) {
    opt.tiers = tier;
    opt.n_tiers = 1;
    return opt;
}

kvt_tier *cohort_tier(void) {
    kvt_tier *tier;
    assert_int_equal(kvt_tier_memory(&tier, 64 << 20), KVT_OK);
    return tier;
}

cohort cohort_of(const model *m) {
    cohort c;
    for (int i = 0; i < N_SEQS; i++) {
        cohort_ids(m, (uint64_t)(20 + i), c.ids[i], N_PROMPT + N_MORE);
        memcpy(c.ids[i], c.ids[0], N_COMMON * sizeof c.ids[0][0]);
        c.ids[i][N_COMMON] = i + 1;
        c.expected[i] = run_alone(m, engine_cold(), c.ids[i], N_PROMPT);
    }
    return c;
}

void cohort_free(cohort *c) {
    for (int i = 0; i < N_SEQS; i++) free(c->expected[i].at);
}

void assert_prompt_row(const cohort *c, const engine *e, int seq, int i) {
    const float *logits = engine_logits(e, seq);
    assert_non_null(logits);
    if (memcmp(logits, c->expected[i].at, c->expected[i].row) != 0) fail_msg("sequence %d: other bits", i);
}

engine_counters cohort_run(const cohort *c, engine_options opt, bool end_each) {
    engine *e = cohort_engine(cohort_models[1], opt);
    int seq[N_SEQS], n_done = 0;
    bool done[N_SEQS] = { false };
    for (int i = 0; i < N_SEQS; i++) seq[i] = cohort_add(e, c->ids[i], N_PROMPT);
    for (int n = 0; engine_waiting(e); n++) {
        assert_true(n < 10000);
        assert_int_equal(engine_step(e), KVT_OK);
        for (int i = 0; i < N_SEQS; i++) {
            if (done[i] || !engine_logits(e, seq[i])) continue;
            assert_prompt_row(c, e, seq[i], i);
            done[i] = true;
            n_done++;
            if (end_each) engine_end(e, seq[i]);
        }
    }
    assert_int_equal(n_done, N_SEQS);
    engine_counters count = engine_counted(e);
    engine_close(e);
    return count;
}

size_t bytes_of_blocks(const model *m, int n) {
    const model_config *c = model_config_of(m);
    return (size_t)n * BLOCK * (size_t)c->n_layers * (size_t)(c->n_heads_kv * (c->dim_k + c->dim_v)) * 2;
}

int cohort_begin(void **state) {
    static const char *const paths[] = { "tests/vectors/tiny-a.gguf", "tests/vectors/tiny-b.gguf",
                                         "tests/vectors/tiny-c.gguf" };
    (void)state;
    if (kvt_workers_open(&team, 2) != KVT_OK) return -1;
    for (int i = 0; i < 3; i++) cohort_models[i] = model_good(paths[i], team);
    return 0;
}

int cohort_end(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) model_close(cohort_models[i]);
    kvt_workers_close(team);
    return 0;
}

