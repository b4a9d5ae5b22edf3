/* test_reuse_trace.c - the cache finds of many conversations what kvtile simulate says it will. One stream of turns,
 * written as a trace of block numbers for the one, as tokens for the other; the pool holds an eighth of its blocks, or
 * less. KVTILE_TURNS: another number than 10,000. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "fixture.h"
#include "kvtile.h"
#include "plan/plan.h"
#include "talks.h"

enum { SEED = 8, DIM = 16 };

static int n_turns;

static double percent(uint64_t n, uint64_t of) {
    return 100 * (double)n / (double)of;
}

/* ------------------------------------------------------------------------------------------ as a trace */

static void write_turn(FILE *f, const turn *t) {
    fprintf(f, "{\"input_length\": %d, \"hash_ids\": [", t->n_tokens);
    int n = t->n_tokens / TALK_BLOCK;
    for (int i = 0; i < n; i++) fprintf(f, "%s%d", i ? ", " : "", t->blocks[i]);
    fprintf(f, "], \"block_size\": %d}\n", TALK_BLOCK);
}

/* n_asked: full blocks of all prompts; answers cannot be found. */
static trace trace_of_talks(uint64_t *n_asked) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/kvtile-talks-%d.jsonl", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    talks *all = talks_new(SEED, n_turns);
    *n_asked = 0;
    for (int i = 0; i < n_turns; i++) {
        turn t = talks_next(all);
        write_turn(f, &t);
        *n_asked += (uint64_t)(t.n_prompt / TALK_BLOCK);
    }
    talks_free(all);
    assert_int_equal(fclose(f), 0);
    trace t;
    error_text err = { "" };
    kvt_status status = trace_read(&t, path, &err);
    unlink(path);
    assert_string_equal(err.text, "");
    assert_int_equal(status, KVT_OK);
    return t;
}

static uint64_t simulated(const policy *p, const trace *t, int room) {
    policy_counts c;
    assert_int_equal(p->replay(t, room, TALK_BLOCK, &c), KVT_OK);
    return c.n_hit;
}

/* --------------------------------------------------------------------------------------- in a real cache */

static kvt_cache *cache_of(int n_blocks) {
    const kvt_layer layer = { .n_heads_q = 1, .n_heads_kv = 1, .dim_k = DIM, .dim_v = DIM };
    kvt_options opt = kvt_options_default();
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.block_tokens = TALK_BLOCK;
    opt.sequences_max = 1;
    opt.tokens_max = opt.batch_tokens_max = TALK_TOKENS_MAX;
    opt.n_threads = 1;
    opt.bytes_max = (size_t)n_blocks * TALK_BLOCK * 2 * DIM * sizeof(uint16_t);
    kvt_bytes_info info;
    assert_int_equal(kvt_bytes(&opt, &info), KVT_OK);
    assert_int_equal(info.n_blocks, n_blocks);
    kvt_cache *c;
    assert_int_equal(kvt_open(&c, &opt), KVT_OK);
    return c;
}

static void step(kvt_cache *c, kvt_seq seq, const int32_t *tokens, int n) {
    static const float nothing[TALK_TOKENS_MAX * DIM];
    kvt_batch batch = { .n_seqs = 1, .seqs = &seq, .n_new = &n };
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(kvt_append(c, 0, &batch, nothing, nothing), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, tokens), KVT_OK);
}

/* What was found of the prompt in full blocks; the rest of it is computed, then the answer. */
static int take_turn(kvt_cache *c, const turn *t) {
    kvt_seq seq;
    kvt_match_result hit;
    assert_int_equal(kvt_seq_new(c, &seq), KVT_OK);
    assert_int_equal(kvt_match(c, seq, t->tokens, t->n_prompt, NULL, &hit), KVT_OK);
    int n_full = hit.n_tokens - hit.n_partial;
    assert_true(n_full % TALK_BLOCK == 0 && hit.n_tokens < t->n_prompt);
    step(c, seq, &t->tokens[hit.n_tokens], t->n_prompt - hit.n_tokens);
    step(c, seq, &t->tokens[t->n_prompt], t->n_tokens - t->n_prompt);
    assert_int_equal(kvt_seq_free(c, seq), KVT_OK);
    return n_full / TALK_BLOCK;
}

static uint64_t found(int n_blocks, kvt_stats *stats) {
    kvt_cache *c = cache_of(n_blocks);
    talks *all = talks_new(SEED, n_turns);
    uint64_t n = 0;
    for (int i = 0; i < n_turns; i++) {
        turn t = talks_next(all);
        n += (uint64_t)take_turn(c, &t);
        if (i % 1000 == 0) assert_int_equal(kvt_check(c), KVT_OK);
    }
    talks_free(all);
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(kvt_stats_get(c, stats), KVT_OK);
    kvt_close(c);
    return n;
}

/* -------------------------------------------------------------------------------------------- the promise */

/* Points. 2 are promised; what was seen over several seeds is 0.2 at most, since a running sequence takes blocks of the
 * real pool and none of the simulated one. A cache that forgets when its blocks were read again is 0.8 off. */
static const double TOLERANCE = 0.5;

static void compare(const trace *t, uint64_t n_asked, int part) {
    int room = t->n_distinct / part;
    double own = percent(simulated(&policy_default, t, room), n_asked);
    double lru = percent(simulated(&policy_lru, t, room), n_asked);
    double best = percent(simulated(&policy_optimum, t, room), n_asked);
    kvt_stats stats;
    double real = percent(found(room, &stats), n_asked);
    print_message("room for %d: found %.2f %%, simulated %.2f (LRU %.2f, optimum %.2f), %llu evicted\n", room, real,
                  own, lru, best, (unsigned long long)stats.blocks_evicted);
    assert_true(real > own - TOLERANCE && real < own + TOLERANCE);
    assert_int_equal(stats.blocks_used, 0);
    /* what a sequence leaves stays until it has to go, but for its last block, which was not full */
    assert_in_range(stats.blocks_idle, room - 1, room);
}

static void the_cache_finds_what_the_simulation_says(void **state) {
    (void)state;
    uint64_t n_asked;
    trace t = trace_of_talks(&n_asked);
    double all = percent(simulated(&policy_default, &t, t.n_distinct), n_asked);
    double own = percent(simulated(&policy_default, &t, t.n_distinct / 8), n_asked);
    print_message("%d turns ask for %llu blocks, %.2f %% of them not for the first time; %d come to be\n", n_turns,
                  (unsigned long long)n_asked, all, t.n_distinct);
    assert_true(own > 30 && all - own > 10); /* or what leaves would not matter */
    /* a sequence must not be a good part of the pool */
    for (int part = 8; part <= 32 && t.n_distinct / part > 4 * TALK_BLOCKS_MAX; part *= 4) compare(&t, n_asked, part);
    trace_free(&t);
}

int main(void) {
    const char *turns = getenv("KVTILE_TURNS");
    n_turns = turns ? atoi(turns) : fixture_quick() ? 2000 : 10000;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cache_finds_what_the_simulation_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
