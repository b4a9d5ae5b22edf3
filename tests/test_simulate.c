/* test_simulate.c - traces as they are read, policies by hand and against known numbers, memory over time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>
#include <zlib.h>

#include "fixture.h"
#include "plan/plan.h"

/* A file with this text, removed by the caller. */
static const char *file_with(const char *text, const char *ending) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/kvtile-trace-%d%s", (int)getpid(), ending);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

static trace trace_of(const char *text) {
    trace t;
    error_text err = { "" };
    const char *path = file_with(text, ".jsonl");
    kvt_status status = trace_read(&t, path, &err);
    unlink(path);
    assert_string_equal(err.text, "");
    assert_int_equal(status, KVT_OK);
    return t;
}

static const char small[] =
    "{\"timestamp\": 0, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": [7, 8, 9]}\n"
    "\n"
    "{\"hash_ids\": [7, 8, -3, 9000000000], \"block_size\": 256, \"more\": {}}\r\n"
    "{\"timestamp\": 2.5, \"hash_ids\": []}";

/* -------------------------------------------------------------------------------------------------- reading */

static void check_small(const trace *t) {
    const int32_t blocks[] = { 0, 1, 2, 0, 1, 3, 4 };
    assert_int_equal(t->n_requests, 3);
    assert_int_equal(t->n_blocks, 7);
    assert_int_equal(t->n_distinct, 5);
    assert_int_equal(t->blocks_longest, 4);
    assert_int_equal(t->block_tokens, 256);
    assert_memory_equal(t->block, blocks, sizeof blocks);
    assert_true(t->request[0].n_input == 1100 && t->request[0].n_output == 5 && t->request[0].time_ms == 0);
    assert_true(t->request[1].n_input == TRACE_UNKNOWN && t->request[1].time_ms < 0 && t->request[1].n_blocks == 4);
    assert_true(t->request[2].time_ms == 2.5 && t->request[2].n_blocks == 0);
    assert_int_equal(trace_full_blocks(&t->request[0], 512), 2);
    assert_int_equal(trace_full_blocks(&t->request[1], 512), 4);
}

static void lines_become_requests(void **state) {
    (void)state;
    trace t = trace_of(small);
    check_small(&t);
    trace_free(&t);
}

static void a_compressed_file_is_the_same(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/kvtile-trace-%d.gz", (int)getpid());
    gzFile f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, small, sizeof small - 1), sizeof small - 1);
    gzclose(f);
    trace t;
    assert_int_equal(trace_read(&t, path, NULL), KVT_OK);
    check_small(&t);
    trace_free(&t);
    /* cut short, it is an error and no shorter trace */
    assert_int_equal(truncate(path, 40), 0);
    assert_int_equal(trace_read(&t, path, NULL), KVT_E_CORRUPT);
    unlink(path);
}

static void lengths_come_from_csv(void **state) {
    (void)state;
    trace t = trace_of("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                       "2023-11-16 18:15:46.5,374,44\n2023-11-16 18:16:46.5,1,0\n");
    assert_int_equal(t.n_requests, 2);
    assert_int_equal(t.n_blocks, 0);
    assert_true(t.request[0].n_input == 374 && t.request[0].n_output == 44);
    assert_true(t.request[1].time_ms - t.request[0].time_ms == 60000);
    trace_free(&t);
    /* what is no moment is not recorded */
    t = trace_of("inf,1,1\n0:0:inf,1,1\nnan,1,1\n2.5,1,1\n");
    for (size_t i = 0; i < 3; i++) assert_true(t.request[i].time_ms == TRACE_UNKNOWN);
    assert_true(t.request[3].time_ms == 2500);
    trace_free(&t);
}

static void a_bad_line_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *line, *what;
    } bad[] = {
        { "", "", "holds no requests" },
        { "{\"hash_ids\": [1]}\n{\"hash_ids\": [1,]}\n", "line 2", "not JSON" },
        { "{\"hash_ids\": [1]}\n[1]\n", "line 2", "no JSON object" },
        { "{\"input_length\": 3}", "line 1", "hash_ids is missing" },
        { "{\"hash_ids\": 3}", "line 1", "hash_ids" },
        { "{\"hash_ids\": [1, 2.5]}", "line 1", "entry 2" },
        { "{\"hash_ids\": [1, 99999999999999999999]}", "line 1", "not JSON" },
        { "{\"hash_ids\": [1], \"input_length\": -1}", "line 1", "input_length is -1" },
        { "{\"hash_ids\": [1], \"output_length\": \"7\"}", "line 1", "output_length" },
        { "{\"hash_ids\": [1], \"timestamp\": \"noon\"}", "line 1", "timestamp" },
        { "{\"hash_ids\": [1], \"timestamp\": 1e300}", "line 1", "timestamp is 1e+300" },
        { "{\"hash_ids\": [1], \"block_size\": 0}", "line 1", "block_size is 0" },
        { "{\"hash_ids\": [1], \"block_size\": 16}\n{\"hash_ids\": [1], \"block_size\": 32}", "line 2",
          "block_size is 32" },
        { "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n1,2\n", "line 3", "TIMESTAMP" },
        { "TIMESTAMP,ContextTokens,GeneratedTokens\n1,-2,3\n", "line 2", "outside" },
        { "1,2,3\n1,2,3,4\n", "line 2", "TIMESTAMP" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        trace t;
        error_text err;
        const char *path = file_with(bad[i].text, ".jsonl");
        assert_int_equal(trace_read(&t, path, &err), KVT_E_CORRUPT);
        unlink(path);
        if (!strstr(err.text, bad[i].line) || !strstr(err.text, bad[i].what)) fail_msg("case %zu: %s", i, err.text);
        assert_null(t.request);
    }
    trace t;
    assert_int_equal(trace_read(&t, "/nowhere/trace.jsonl", NULL), KVT_E_ARGUMENT);
}

/* A clock that says nothing that can be computed with says nothing; a stream of NULs is no endless empty line. */
static void odd_times_and_nuls_are_no_numbers(void **state) {
    (void)state;
    trace t = trace_of("nan,1,1\n1e308,1,1\n-5,1,1\ninf,1,1\n2024-01-01 00:00:nan,1,1\n00:00:inf,1,1\n"
                       "-9-9-9 1:1:1,1,1\n3,1,1\n");
    assert_int_equal(t.n_requests, 8);
    for (size_t i = 0; i < 7; i++) assert_true(t.request[i].time_ms < 0);
    assert_true(t.request[7].time_ms == 3000);
    trace_free(&t);
    error_text err;
    assert_int_equal(trace_read(&t, "/dev/zero", &err), KVT_E_CORRUPT);
    assert_non_null(strstr(err.text, "line 1: holds a NUL"));
}

/* ------------------------------------------------------------------------------------------------- policies */

static policy_counts replay(const policy *p, const trace *t, int room) {
    policy_counts c;
    assert_int_equal(p->replay(t, room, 512, &c), KVT_OK);
    assert_int_equal(c.n_hit + c.n_cold + c.n_evicted, t->n_blocks);
    return c;
}

static void policies_by_hand(void **state) {
    (void)state;
    /* given room for two, and 1 read again after 2 and 3 */
    trace t = trace_of("{\"hash_ids\": [1]}\n{\"hash_ids\": [2]}\n{\"hash_ids\": [3]}\n{\"hash_ids\": [1]}\n");
    policy_counts lru = replay(&policy_lru, &t, 2), best = replay(&policy_optimum, &t, 2);
    assert_int_equal(lru.n_hit, 0);
    assert_int_equal(lru.n_evicted, 1);
    assert_int_equal(lru.n_left, 2);
    assert_int_equal(best.n_hit, 1);
    assert_int_equal(best.n_left, 1);
    trace_free(&t);
}

static void a_hit_needs_all_before_it(void **state) {
    (void)state;
    /* when the first block of a prefix had to leave, what stayed of it does not count */
    trace t = trace_of("{\"hash_ids\": [1, 2, 3]}\n{\"hash_ids\": [4]}\n{\"hash_ids\": [1, 2, 3]}\n");
    assert_int_equal(replay(&policy_lru, &t, 3).n_hit, 0);
    assert_int_equal(replay(&policy_optimum, &t, 3).n_hit, 3);
    assert_int_equal(replay(&policy_default, &t, 3).n_hit, 2);
    trace_free(&t);
}

static void enough_room_hits_all_that_can_be_hit(void **state) {
    (void)state;
    trace t = trace_of(small);
    for (int i = 0; policies[i]; i++)
        for (int room = 5; room < 1000000; room *= 10) {
            policy_counts c = replay(policies[i], &t, room);
            assert_int_equal(c.n_hit, 2);
            assert_int_equal(c.n_cold, 5);
            assert_int_equal(c.n_left, 0);
        }
    trace_free(&t);
}

/* Known numbers of a public trace: LRU, the optimum and no bound, and what the cache's own policy has to reach. */
static void the_recorded_trace(void **state) {
    (void)state;
    static const struct {
        int room;
        double lru, optimum, own; /* per cent; 0: not known, or nothing is asked */
    } rows[] = {
        { 1000, 4.45, 19.07, 8 },    { 5000, 11.04, 34.12, 17 },  { 10000, 21.12, 36.64, 24 },
        { 20000, 28.75, 36.64, 30 }, { 30000, 32.57, 36.64, 33 }, { 50000, 35.46, 36.64, 35.46 },
    };
    const char *path = fixture_data("conversation_trace.jsonl");
    if (!path) fixture_skip("KVTILE_DATA has no conversation_trace.jsonl");
    trace t;
    assert_int_equal(trace_read(&t, path, NULL), KVT_OK);
    assert_int_equal(t.n_requests, 12031);
    assert_int_equal(t.n_blocks, 288500);
    assert_int_equal(t.n_distinct, 182790);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double n = (double)t.n_blocks / 100;
        double lru = (double)replay(&policy_lru, &t, rows[i].room).n_hit / n;
        double best = (double)replay(&policy_optimum, &t, rows[i].room).n_hit / n;
        double own = (double)replay(&policy_default, &t, rows[i].room).n_hit / n;
        assert_true(lru > rows[i].lru - 0.005 && lru < rows[i].lru + 0.005);
        assert_true(best > rows[i].optimum - 0.005 && best < rows[i].optimum + 0.005);
        if (own < rows[i].own) fail_msg("%d blocks: %.2f %%, not %.2f", rows[i].room, own, rows[i].own);
        assert_true(own <= best);
    }
    trace_free(&t);
}

static void the_knee_is_where_it_bends(void **state) {
    (void)state;
    const int room[] = { 1, 10, 100, 1000, 10000 };
    const double bent[] = { 0, 0.1, 0.8, 0.85, 0.9 }, straight[] = { 0, 1, 2, 3, 4 }, flat[] = { 1, 1, 1, 1, 1 };
    assert_int_equal(sweep_knee(room, bent, 5), 2);
    assert_true(sweep_knee(room, straight, 5) == -1 || straight[4] == 4);
    assert_int_equal(sweep_knee(room, flat, 5), -1);
    assert_int_equal(sweep_knee(room, bent, 2), -1);
}

/* --------------------------------------------------------------------------------------------- memory over time */

static void memory_over_time_by_hand(void **state) {
    (void)state;
    /* given one request of 20 tokens that takes a second to read and one more for 10 answered ones */
    trace t = trace_of("0,20,10\n");
    occupancy_options opt = { .prefill_per_s = 20, .token_ms = 100 };
    occupancy *o = malloc(sizeof *o);
    assert_int_equal(occupancy_of(&t, &opt, o, NULL), KVT_OK);
    assert_true(o->span_ms == 2000 && o->tokens_longest == 30);
    assert_true(o->held[0] == 20 && o->held[OCCUPANCY_MOMENTS - 1] == 30 && o->alive[0] == 1);
    assert_true(o->reserved[0][0] == 30);                                              /* the longest */
    assert_true(o->reserved[1][0] == 32 && o->reserved[1][OCCUPANCY_MOMENTS - 1] == 32); /* a power of two */
    assert_true(o->reserved[2][0] == 32 && o->reserved[4][0] == 64);                   /* blocks of 16, of 64 */
    /* when the longest may be 25, then it is named */
    error_text err;
    opt.tokens_longest = 25;
    assert_int_equal(occupancy_of(&t, &opt, o, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, "request 1 has 30 tokens"));
    /* when a token takes next to no time, then all are there at once */
    opt = (occupancy_options){ .prefill_per_s = 20, .token_ms = 1e-300 };
    assert_int_equal(occupancy_of(&t, &opt, o, NULL), KVT_OK);
    assert_true(o->held[OCCUPANCY_MOMENTS - 1] == 20 || o->held[OCCUPANCY_MOMENTS - 1] == 30);
    free(o);
    trace_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_requests),
        cmocka_unit_test(a_compressed_file_is_the_same),
        cmocka_unit_test(lengths_come_from_csv),
        cmocka_unit_test(a_bad_line_is_named),
        cmocka_unit_test(odd_times_and_nuls_are_no_numbers),
        cmocka_unit_test(policies_by_hand),
        cmocka_unit_test(a_hit_needs_all_before_it),
        cmocka_unit_test(enough_room_hits_all_that_can_be_hit),
        cmocka_unit_test(the_recorded_trace),
        cmocka_unit_test(the_knee_is_where_it_bends),
        cmocka_unit_test(memory_over_time_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
