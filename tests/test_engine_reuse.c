/* test_engine_reuse.c - what an engine does not compute a second time: beginnings that the cache or a tier knows, and
 * those that another sequence is computing. Whatever was found, the logits are those of a cold cache in every bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "engine/engine.h"
#include "faulty_tier.h"
#include "subject.h"

enum { BLOCK = 16, N_PROMPT = 90, N_MORE = 3 };

static kvt_workers *team;
static model *models[3];

static const struct pair {
    kvt_format k, v;
    bool codes; /* only whole blocks are found */
} formats[] = {
    { KVT_BF16, KVT_BF16, false }, { KVT_F16, KVT_F16, false },   { KVT_F32, KVT_F32, false },
    { KVT_E4M3, KVT_E4M3, true },  { KVT_E5M2, KVT_E5M2, true },  { KVT_INT8, KVT_INT8, true },
    { KVT_INT8, KVT_INT4, true },  { KVT_INT4, KVT_INT4, true },  { KVT_INT3, KVT_INT3, true },
    { KVT_INT2, KVT_INT2, true },  { KVT_F32, KVT_INT4, true },
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

/* Tokens that are the same for the same seed. */
static void ids_make(const model *m, uint64_t seed, int32_t *out, int n) {
    uint64_t x = seed * 2 + 1;
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        out[i] = (int32_t)((x >> 33) % (uint64_t)model_config_of(m)->n_vocab);
    }
}

static engine_options plain(void) {
    engine_options opt = engine_options_default();
    opt.block_tokens = BLOCK;
    opt.context = 128;
    opt.sequences_max = 8;
    return opt;
}

static engine_options cold(void) {
    engine_options opt = plain();
    opt.share = false;
    return opt;
}

static engine_options in_format(engine_options opt, struct pair f) {
    opt.k_format = f.k;
    opt.v_format = f.v;
    return opt;
}

static engine *engine_for(const model *m, engine_options opt) {
    error_text err;
    engine *e;
    if (engine_open(&e, m, team, &opt, &err) != KVT_OK) fail_msg("%s", err.text);
    return e;
}

static int add(engine *e, const int32_t *ids, int n) {
    int seq = -1;
    assert_int_equal(engine_add(e, ids, n, &seq), KVT_OK);
    return seq;
}

static void step_all(engine *e) {
    for (int i = 0; engine_waiting(e); i++) {
        assert_int_equal(engine_step(e), KVT_OK);
        if (i > 100000) fail_msg("it does not end");
    }
}

/* Logits behind a prompt and behind N_MORE tokens more. */
typedef struct rows {
    float *at; /* [1 + N_MORE][n_vocab] */
    size_t bytes, row;
} rows;

static rows rows_of(const model *m) {
    size_t row = (size_t)model_config_of(m)->n_vocab * sizeof(float);
    return (rows){ calloc(1 + N_MORE, row), (1 + N_MORE) * row, row };
}

static void rows_take(rows *r, const engine *e, int seq, int i) {
    const float *logits = engine_logits(e, seq);
    assert_non_null(logits);
    memcpy((char *)r->at + (size_t)i * r->row, logits, r->row);
}

/* ids [n + N_MORE] */
static rows run_in(engine *e, const int32_t *ids, int n) {
    rows r = rows_of(engine_model(e));
    int seq = add(e, ids, n);
    step_all(e);
    for (int i = 0; i <= N_MORE; i++) {
        rows_take(&r, e, seq, i);
        if (i == N_MORE) break;
        assert_int_equal(engine_append(e, seq, ids[n + i]), KVT_OK);
        step_all(e);
    }
    engine_end(e, seq);
    return r;
}

static rows run_alone(const model *m, engine_options opt, const int32_t *ids, int n) {
    engine *e = engine_for(m, opt);
    rows r = run_in(e, ids, n);
    engine_close(e);
    return r;
}

static void assert_same(rows a, rows b, const char *what, int number) {
    if (memcmp(a.at, b.at, a.bytes) != 0) fail_msg("%s %d: other bits", what, number);
    free(a.at);
}

/* ------------------------------------------------------------------------------------------------ warm and cold */

static int whole_blocks(int n) {
    return n / BLOCK * BLOCK;
}

/* What the first one leaves: its full blocks. */
enum { N_FULL = (N_PROMPT + N_MORE) / BLOCK * BLOCK };

/* A prompt that shares its first `common` tokens with one that was there before. */
static void check_hit(const model *m, struct pair f, int common) {
    int32_t first[N_PROMPT + N_MORE], second[N_PROMPT + N_MORE];
    ids_make(m, 1, first, N_PROMPT + N_MORE);
    ids_make(m, 2, second, N_PROMPT + N_MORE);
    memcpy(second, first, (size_t)common * sizeof first[0]);
    second[common] = first[common] == 5 ? 6 : 5;

    rows expected = run_alone(m, in_format(cold(), f), second, N_PROMPT);
    engine *e = engine_for(m, in_format(plain(), f));
    free(run_in(e, first, N_PROMPT).at);
    engine_counters before = engine_counted(e);
    assert_int_equal(before.tokens_found, 0);
    assert_same(run_in(e, second, N_PROMPT), expected, "after so many common tokens:", common);
    engine_counters after = engine_counted(e);
    int found = (int)after.tokens_found, most = common < N_FULL ? common : N_FULL;
    assert_true(found >= whole_blocks(most) && found <= most);
    if (!f.codes) assert_int_equal(found, most);
    assert_int_equal(after.prefill_positions - before.prefill_positions, N_PROMPT - found);
    assert_int_equal(after.tokens_fetched, 0);
    engine_close(e);
    free(expected.at);
}

static void test_warm_equals_cold_in_every_format(void **state) {
    (void)state;
    static const int commons[] = { 0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7, N_PROMPT - 1,
                                   N_PROMPT };
    for (int m = 0; m < 3; m++)
        for (int f = 0; f < N_FORMATS; f++)
            for (size_t i = 0; i < sizeof commons / sizeof commons[0]; i++)
                if (m == 0 || i % 3 == 1) check_hit(models[m], formats[f], commons[i]);
}

/* Every length of a hit, for one format that is kept as it comes and one of codes. */
static void test_warm_equals_cold_at_every_length(void **state) {
    (void)state;
    for (int n = 0; n <= N_PROMPT; n++) {
        check_hit(models[2], formats[0], n);
        check_hit(models[2], formats[6], n);
    }
}

static void test_other_kinds_of_cache_and_no_sharing_find_nothing(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    ids_make(models[0], 1, ids, N_PROMPT + N_MORE);
    rows expected = run_alone(models[0], cold(), ids, N_PROMPT);
    for (int kind = 0; kind < 3; kind++) {
        engine_options opt = kind == KVT_PAGED ? cold() : plain();
        opt.kind = (kvt_cache_kind)kind;
        engine *e = engine_for(models[0], opt);
        for (int i = 0; i < 2; i++) assert_same(run_in(e, ids, N_PROMPT), expected, "kind", kind);
        assert_int_equal(engine_counted(e).tokens_found, 0);
        engine_close(e);
    }
    free(expected.at);
}

/* -------------------------------------------------------------------------------------------------- from a tier */

static engine_options with_tier(engine_options opt, kvt_tier *const *tier) {
    opt.tiers = tier;
    opt.n_tiers = 1;
    return opt;
}

static kvt_tier *tier_new(void) {
    kvt_tier *tier;
    assert_int_equal(kvt_tier_memory(&tier, 64 << 20), KVT_OK);
    return tier;
}

static void test_a_later_engine_finds_in_a_tier_what_an_earlier_one_computed(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    ids_make(models[2], 1, ids, N_PROMPT + N_MORE);
    for (int f = 0; f < N_FORMATS; f++) {
        kvt_tier *tier = tier_new();
        engine_options opt = with_tier(in_format(plain(), formats[f]), &tier);
        rows expected = run_alone(models[2], in_format(cold(), formats[f]), ids, N_PROMPT);
        assert_same(run_alone(models[2], opt, ids, N_PROMPT), expected, "writing, format", f);
        engine *e = engine_for(models[2], opt);
        assert_same(run_in(e, ids, N_PROMPT), expected, "reading, format", f);
        engine_counters count = engine_counted(e);
        assert_int_equal(count.tokens_fetched, whole_blocks(N_PROMPT - 1));
        assert_int_equal(count.tokens_found, 0);
        assert_int_equal(count.prefill_positions, N_PROMPT - whole_blocks(N_PROMPT - 1));
        engine_close(e);
        kvt_tier_close(tier);
        free(expected.at);
    }
}

static void test_what_a_cache_takes_is_known_with_a_tier_too(void **state) {
    (void)state;
    kvt_tier *tier = tier_new();
    kvt_bytes_info without, with;
    engine_options opt = plain();
    assert_int_equal(engine_bytes(models[0], &opt, &without), KVT_OK);
    opt = with_tier(opt, &tier);
    assert_int_equal(engine_bytes(models[0], &opt, &with), KVT_OK);
    assert_int_equal(with.bytes_cache, without.bytes_cache);
    assert_true(with.bytes_total > without.bytes_total); /* what is on its way has buffers */
    opt.cache_bytes = SIZE_MAX / 4;
    assert_int_equal(engine_bytes(models[0], &opt, &without), KVT_OK);
    assert_int_equal(with.bytes_total, without.bytes_total);
    kvt_tier_close(tier);
}

static void test_a_tier_gives_nothing_to_other_arithmetic_or_weights(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    ids_make(models[2], 1, ids, N_PROMPT + N_MORE);
    kvt_tier *tier = tier_new();
    free(run_alone(models[2], with_tier(plain(), &tier), ids, N_PROMPT).at);
    for (int m = 0; m < 3; m += 2) {
        engine_options opt = plain();
        opt.math = m == 2 ? KVT_MATH_EXACT : KVT_MATH_FAST;
        ids_make(models[m], 1, ids, N_PROMPT + N_MORE);
        rows expected = run_alone(models[m], opt, ids, N_PROMPT);
        engine *e = engine_for(models[m], with_tier(opt, &tier));
        assert_same(run_in(e, ids, N_PROMPT), expected, "model", m);
        assert_int_equal(engine_counted(e).tokens_fetched, 0);
        engine_close(e);
        free(expected.at);
    }
    kvt_tier_close(tier);
}

/* -------------------------------------------------------------------------------------------- waiting for others */

enum { N_COMMON = 4 * BLOCK, N_SEQS = 4 };

/* Prompts with a common beginning, and what each comes to alone. */
typedef struct crowd {
    int32_t ids[N_SEQS][N_PROMPT + N_MORE];
    rows expected[N_SEQS];
} crowd;

static crowd crowd_of(const model *m) {
    crowd c;
    for (int i = 0; i < N_SEQS; i++) {
        ids_make(m, (uint64_t)(20 + i), c.ids[i], N_PROMPT + N_MORE);
        memcpy(c.ids[i], c.ids[0], N_COMMON * sizeof c.ids[0][0]);
        c.ids[i][N_COMMON] = i + 1;
        c.expected[i] = run_alone(m, cold(), c.ids[i], N_PROMPT);
    }
    return c;
}

static void crowd_free(crowd *c) {
    for (int i = 0; i < N_SEQS; i++) free(c->expected[i].at);
}

static void assert_prompt_row(const crowd *c, const engine *e, int seq, int i) {
    const float *logits = engine_logits(e, seq);
    assert_non_null(logits);
    if (memcmp(logits, c->expected[i].at, c->expected[i].row) != 0) fail_msg("sequence %d: other bits", i);
}

/* All of them at once, from the first on; the logits of each are looked at when they come. */
static engine_counters crowd_run(const crowd *c, engine_options opt, bool end_each) {
    engine *e = engine_for(models[1], opt);
    int seq[N_SEQS], n_done = 0;
    bool done[N_SEQS] = { false };
    for (int i = 0; i < N_SEQS; i++) seq[i] = add(e, c->ids[i], N_PROMPT);
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

static void test_what_prompts_have_in_common_is_computed_once(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    static const int chunks[] = { 5, BLOCK, 40, 512 };
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
        engine_options opt = plain();
        opt.chunk = chunks[i];
        engine_counters count = crowd_run(&c, opt, i % 2);
        assert_int_equal(count.positions_computed, N_SEQS * N_PROMPT - (N_SEQS - 1) * N_COMMON);
        assert_int_equal(count.tokens_found, (N_SEQS - 1) * N_COMMON);
        opt.wait = false;
        if (opt.chunk < 512) continue;
        assert_int_equal(crowd_run(&c, opt, false).positions_computed, N_SEQS * N_PROMPT);
    }
    crowd_free(&c);
}

/* One fetches, the others find it in memory. */
static void test_what_prompts_have_in_common_is_fetched_once(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    kvt_tier *tier = tier_new();
    crowd_run(&c, with_tier(plain(), &tier), false);
    engine_counters count = crowd_run(&c, with_tier(plain(), &tier), false);
    int each = whole_blocks(N_PROMPT);
    assert_int_equal(count.positions_computed, N_SEQS * (N_PROMPT - each));
    assert_int_equal(count.tokens_found, (N_SEQS - 1) * N_COMMON);
    assert_int_equal(count.tokens_fetched, N_SEQS * each - (N_SEQS - 1) * N_COMMON);
    kvt_tier_close(tier);
    crowd_free(&c);
}

/* Caches that cannot be asked make nobody wait. */
static void test_other_kinds_of_cache_compute_all_at_once(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    for (int kind = KVT_CONTIGUOUS; kind <= KVT_NONE; kind++) {
        engine_options opt = plain();
        opt.kind = (kvt_cache_kind)kind;
        engine_counters count = crowd_run(&c, opt, false);
        assert_int_equal(count.positions_computed, N_SEQS * N_PROMPT);
        assert_int_equal(count.n_steps, 1);
    }
    crowd_free(&c);
}

/* The first one goes away before the common beginning is computed: the others go on, one of them as the first. */
static void test_whoever_waits_goes_on_when_the_other_one_ends(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    for (int n_steps = 0; n_steps < 5; n_steps++) {
        engine_options opt = plain();
        opt.chunk = BLOCK;
        engine *e = engine_for(models[1], opt);
        int seq[N_SEQS];
        for (int i = 0; i < N_SEQS; i++) seq[i] = add(e, c.ids[i], N_PROMPT);
        for (int i = 0; i < n_steps; i++) assert_int_equal(engine_step(e), KVT_OK);
        engine_end(e, seq[0]);
        bool done[N_SEQS] = { true };
        while (engine_waiting(e)) {
            assert_int_equal(engine_step(e), KVT_OK);
            for (int i = 1; i < N_SEQS; i++) {
                if (done[i] || !engine_logits(e, seq[i])) continue;
                assert_prompt_row(&c, e, seq[i], i);
                done[i] = true;
            }
        }
        for (int i = 0; i < N_SEQS; i++) assert_true(done[i]);
        engine_close(e);
    }
    crowd_free(&c);
}

/* Another one whose number is that of one that ended is not taken for it. */
static void test_a_sequence_in_the_place_of_another_is_not_waited_for(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    engine_options opt = plain();
    opt.sequences_max = 2;
    engine *e = engine_for(models[1], opt);
    int first = add(e, c.ids[0], N_PROMPT), second = add(e, c.ids[1], N_PROMPT);
    engine_end(e, first);
    int32_t other[N_PROMPT];
    ids_make(models[1], 99, other, N_PROMPT);
    assert_int_equal(add(e, other, N_PROMPT), first);
    assert_int_equal(engine_step(e), KVT_OK);
    assert_prompt_row(&c, e, second, 1);
    engine_close(e);
    crowd_free(&c);
}

/* --------------------------------------------------------------------------------------------------- a full cache */

static size_t bytes_of_blocks(const model *m, int n) {
    const model_config *c = model_config_of(m);
    return (size_t)n * BLOCK * (size_t)c->n_layers * (size_t)(c->n_heads_kv * (c->dim_k + c->dim_v)) * 2;
}

/* Between the least that a cache can have and room for all, with sequences that come to their prompts' ends or stay. */
static void test_a_full_cache_stops_nobody_for_ever(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    for (int n_blocks = 8; n_blocks <= 26; n_blocks += 3) {
        engine_options opt = plain();
        opt.context = 128;
        opt.cache_bytes = bytes_of_blocks(models[1], n_blocks);
        for (opt.chunk = 7; opt.chunk < 100; opt.chunk += 40) crowd_run(&c, opt, true);
        kvt_tier *tier = tier_new();
        crowd_run(&c, with_tier(opt, &tier), true);
        engine_counters count = crowd_run(&c, with_tier(opt, &tier), true);
        assert_true(count.tokens_fetched > 0);
        kvt_tier_close(tier);
    }
    crowd_free(&c);
}

/* The oldest has what it wants, and stays; the next one finds no room beside it, and the youngest would. */
static void test_nobody_waits_for_one_that_is_paused(void **state) {
    (void)state;
    enum { N_OLDEST = 7 * BLOCK - 1, N_LARGE = 7 * BLOCK, N_SMALL = 2 * BLOCK + 8 };
    int32_t ids[2][N_LARGE];
    for (int i = 0; i < 2; i++) ids_make(models[1], (uint64_t)(60 + i), ids[i], N_LARGE);
    engine_options opt = plain();
    opt.cache_bytes = bytes_of_blocks(models[1], 10);
    opt.chunk = 4 * BLOCK;
    engine *e = engine_for(models[1], opt);
    add(e, ids[0], N_OLDEST);
    step_all(e);
    int large = add(e, ids[1], N_LARGE), small = add(e, ids[1], N_SMALL);
    assert_int_equal(engine_step(e), KVT_OK);
    assert_non_null(engine_logits(e, small));
    assert_null(engine_logits(e, large));
    assert_int_equal(engine_counted(e).n_paused, 1);
    engine_close(e);
}

/* Two that do not fit together: the younger one gives way, and finds its own blocks when it comes back. */
static void test_what_a_paused_sequence_finds_again_is_counted_apart(void **state) {
    (void)state;
    enum { N = 100 };
    int32_t ids[2][N];
    kvt_tier *tier = tier_new();
    engine_options opt = with_tier(plain(), &tier);
    opt.cache_bytes = bytes_of_blocks(models[1], 8);
    opt.chunk = BLOCK;
    engine *e = engine_for(models[1], opt);
    int seq[2];
    for (int i = 0; i < 2; i++) {
        ids_make(models[1], (uint64_t)(40 + i), ids[i], N);
        seq[i] = add(e, ids[i], N);
    }
    while (engine_waiting(e)) {
        assert_int_equal(engine_step(e), KVT_OK);
        for (int i = 0; i < 2; i++)
            if (engine_logits(e, seq[i])) engine_end(e, seq[i]);
    }
    engine_counters count = engine_counted(e);
    assert_true(count.n_paused > 0);
    assert_true(count.tokens_resumed > 0);
    assert_int_equal(count.tokens_found + count.tokens_fetched, count.tokens_resumed);
    assert_int_equal(engine_stats(e).tokens_resumed, count.tokens_resumed);
    engine_close(e);
    kvt_tier_close(tier);
}

/* ------------------------------------------------------------------------------------------------- bad tiers */

static void test_a_tier_that_misbehaves_changes_no_bit(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    for (uint64_t seed = 1; seed <= 8; seed++) {
        faulty_tier *faulty;
        kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = seed });
        engine_options opt = with_tier(plain(), &tier);
        opt.chunk = 40;
        if (seed % 2) opt.cache_bytes = bytes_of_blocks(models[1], 12);
        crowd_run(&c, opt, true);
        faulty_set(faulty, (faults){ .fail = 0.2, .tear = 0.2, .lie = 0.2, .forget = 0.1 });
        for (int i = 0; i < 4; i++) crowd_run(&c, opt, true);
        kvt_tier_close(tier);
    }
    crowd_free(&c);
}

static void test_a_tier_that_says_nothing_is_not_waited_for(void **state) {
    (void)state;
    int32_t ids[N_PROMPT + N_MORE];
    faulty_tier *faulty;
    ids_make(models[0], 1, ids, N_PROMPT + N_MORE);
    rows expected = run_alone(models[0], cold(), ids, N_PROMPT);
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = 1 });
    engine_options opt = with_tier(plain(), &tier);
    free(run_alone(models[0], opt, ids, N_PROMPT).at);
    engine *e = engine_for(models[0], opt);
    faulty_shut(faulty);
    assert_same(run_in(e, ids, N_PROMPT), expected, "a shut gate", 0);
    assert_int_equal(engine_counted(e).tokens_fetched, 0);
    assert_int_equal(engine_counted(e).prefill_positions, N_PROMPT);
    faulty_let_in(faulty);
    engine_close(e);
    kvt_tier_close(tier);
    free(expected.at);
}

/* A block that is being fetched for a sequence which ended is nobody's, and not free either. */
static void test_room_that_a_fetch_holds_is_waited_for(void **state) {
    (void)state;
    enum { N_ALL = 8 * BLOCK };
    int32_t ids[N_ALL], other[N_ALL];
    faulty_tier *faulty;
    ids_make(models[0], 1, ids, N_ALL);
    ids_make(models[0], 2, other, N_ALL);
    kvt_tier *tier = faulty_tier_new(&faulty, &(faulty_options){ .seed = 1, .stall_ns = 300000000 });
    engine_options opt = with_tier(plain(), &tier);
    opt.cache_bytes = bytes_of_blocks(models[0], 8);
    free(run_alone(models[0], opt, ids, N_PROMPT).at);
    engine *e = engine_for(models[0], opt);
    faulty_set(faulty, (faults){ .stall = 1 });
    uint64_t gets = faulty_counts_of(faulty).gets;
    int seq = add(e, ids, N_PROMPT);
    while (faulty_counts_of(faulty).gets == gets) assert_int_equal(engine_step(e), KVT_OK);
    engine_end(e, seq);
    faulty_set(faulty, (faults){ 0 }); /* but for the one that is on its way */
    assert_true(engine_stats(e).moves_open > 0);
    seq = add(e, other, N_ALL);
    step_all(e);
    assert_non_null(engine_logits(e, seq));
    engine_close(e);
    kvt_tier_close(tier);
}

/* -------------------------------------------------------------------------------------------------------- answers */

typedef struct seen {
    int64_t done, total;
} seen;

static void see(void *ctx, int64_t done, int64_t total) {
    assert_true(done >= 0 && done <= total);
    *(seen *)ctx = (seen){ done, total };
}

static void test_progress_is_of_what_is_really_read(void **state) {
    (void)state;
    crowd c = crowd_of(models[1]);
    prompt prompts[N_SEQS];
    answer answers[N_SEQS];
    error_text err;
    seen last;
    for (int i = 0; i < N_SEQS; i++) prompts[i] = (prompt){ c.ids[i], N_PROMPT };
    engine *e = engine_for(models[1], plain());
    generate_options g = {
        .prompts = prompts,
        .n_prompts = N_SEQS,
        .n_samples = 1,
        .tokens_max = 3,
        .sampling = sample_options_default(),
        .on_progress = see,
        .ctx = &last,
    };
    for (int turn = 0; turn < 2; turn++) {
        engine_counters before = engine_counted(e);
        if (generate(e, &g, answers, &err) != KVT_OK) fail_msg("%s", err.text);
        int64_t read = (int64_t)(engine_counted(e).prefill_positions - before.prefill_positions);
        assert_int_equal(last.done, read);
        assert_int_equal(last.total, read);
        int once = N_SEQS * N_PROMPT - (N_SEQS - 1) * N_COMMON, again = N_SEQS * (N_PROMPT - whole_blocks(N_PROMPT));
        assert_int_equal(read, turn ? again : once);
        answers_free(answers, N_SEQS);
    }
    engine_close(e);
    crowd_free(&c);
}

static int begin(void **state) {
    static const char *const paths[] = { "tests/vectors/tiny-a.gguf", "tests/vectors/tiny-b.gguf",
                                         "tests/vectors/tiny-c.gguf" };
    (void)state;
    if (kvt_workers_open(&team, 2) != KVT_OK) return -1;
    for (int i = 0; i < 3; i++) models[i] = model_good(paths[i], team);
    return 0;
}

static int end(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) model_close(models[i]);
    kvt_workers_close(team);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_equals_cold_in_every_format),
        cmocka_unit_test(test_warm_equals_cold_at_every_length),
        cmocka_unit_test(test_other_kinds_of_cache_and_no_sharing_find_nothing),
        cmocka_unit_test(test_a_later_engine_finds_in_a_tier_what_an_earlier_one_computed),
        cmocka_unit_test(test_what_a_cache_takes_is_known_with_a_tier_too),
        cmocka_unit_test(test_a_tier_gives_nothing_to_other_arithmetic_or_weights),
        cmocka_unit_test(test_what_prompts_have_in_common_is_computed_once),
        cmocka_unit_test(test_what_prompts_have_in_common_is_fetched_once),
        cmocka_unit_test(test_other_kinds_of_cache_compute_all_at_once),
        cmocka_unit_test(test_whoever_waits_goes_on_when_the_other_one_ends),
        cmocka_unit_test(test_a_sequence_in_the_place_of_another_is_not_waited_for),
        cmocka_unit_test(test_a_full_cache_stops_nobody_for_ever),
        cmocka_unit_test(test_nobody_waits_for_one_that_is_paused),
        cmocka_unit_test(test_what_a_paused_sequence_finds_again_is_counted_apart),
        cmocka_unit_test(test_a_tier_that_misbehaves_changes_no_bit),
        cmocka_unit_test(test_a_tier_that_says_nothing_is_not_waited_for),
        cmocka_unit_test(test_room_that_a_fetch_holds_is_waited_for),
        cmocka_unit_test(test_progress_is_of_what_is_really_read),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
