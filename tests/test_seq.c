/* test_seq.c - sequences and the protocol of a step: what each call does, every status it is documented to give, and
 * that a call which fails has changed nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "toy.h"

static kvt_seq seq_with(kvt_cache *c, int32_t first, int n) {
    kvt_seq s;
    assert_int_equal(kvt_seq_new(c, &s), KVT_OK);
    if (n) assert_int_equal(toy_add(c, s, first, n), KVT_OK);
    return s;
}

static kvt_seq fork_of(kvt_cache *c, kvt_seq s) {
    kvt_seq fork;
    assert_int_equal(kvt_seq_fork(c, s, &fork), KVT_OK);
    return fork;
}

static kvt_stats stats_of(const kvt_cache *c) {
    kvt_stats s;
    assert_int_equal(kvt_stats_get(c, &s), KVT_OK);
    return s;
}

/* Same records, but for the count of calls that found it full. */
static void assert_unchanged(const kvt_cache *c, kvt_stats before) {
    kvt_stats now = stats_of(c);
    before.n_full = now.n_full;
    assert_memory_equal(&now, &before, sizeof now);
    assert_int_equal(kvt_check(c), KVT_OK);
}

static void assert_idle(const kvt_cache *c) {
    kvt_stats s = stats_of(c);
    assert_int_equal(s.blocks_used + s.blocks_shared + s.tokens_held + s.tokens_stored + s.n_sequences, 0);
    assert_int_equal(s.bytes_reserved + s.bytes_used, 0);
    assert_int_equal(s.blocks_taken, s.blocks_given);
    assert_int_equal(kvt_check(c), KVT_OK);
}

/* ------------------------------------------------------------------------------------------- sequences */

static void a_sequence_grows_by_blocks(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_with(c, 0, 16);
    assert_int_equal(stats_of(c).blocks_used, 1);
    toy_add(c, s, 16, 1);
    kvt_stats now = stats_of(c);
    assert_int_equal(now.blocks_used, 2);
    assert_int_equal(now.tokens_stored, 17);
    /* 2 heads of 16 + 16 and 1 head of 32 + 16 numbers of 2 bytes */
    assert_int_equal(now.bytes_per_token, 2 * (2 * 32 + 48));
    assert_int_equal(now.bytes_reserved, 2 * 16 * now.bytes_per_token);
    assert_int_equal(now.bytes_used, 17 * now.bytes_per_token);
    assert_true(toy_holds(c, s, 0, 17));
    assert_int_equal(kvt_seq_free(c, s), KVT_OK);
    assert_idle(c);
    kvt_close(c);
}

static void a_fork_shares_blocks_until_one_writes(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 20), b = fork_of(c, a);
    kvt_stats forked = stats_of(c);
    assert_int_equal(forked.blocks_used, 2);
    assert_int_equal(forked.blocks_shared, 2);
    assert_int_equal(forked.tokens_held, 40);
    assert_int_equal(forked.tokens_stored, 20);
    /* when b writes, the half-filled block is copied, the full one is not */
    assert_int_equal(toy_add(c, b, 500, 1), KVT_OK);
    kvt_stats written = stats_of(c);
    assert_int_equal(written.blocks_copied, 1);
    assert_int_equal(written.blocks_used, 3);
    assert_int_equal(written.blocks_shared, 1);
    assert_int_equal(written.tokens_stored, 16 + 4 + 5);
    /* then a is as it was, and writes into its own block */
    assert_true(toy_holds(c, a, 0, 20));
    assert_int_equal(toy_add(c, a, 20, 1), KVT_OK);
    assert_int_equal(stats_of(c).blocks_copied, 1);
    assert_true(toy_holds(c, a, 0, 21));
    assert_true(toy_has(c, b, 19, 19) && toy_has(c, b, 20, 500));
    /* and either outlives the other */
    kvt_seq_free(c, a);
    assert_true(toy_has(c, b, 0, 0) && toy_has(c, b, 20, 500));
    kvt_seq_free(c, b);
    assert_idle(c);
    kvt_close(c);
}

static void two_forks_in_one_batch_copy_once(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq ids[2] = {seq_with(c, 0, 5)};
    ids[1] = fork_of(c, ids[0]);
    kvt_batch batch = {2, ids, (const int[]){1, 1}};
    const int32_t tokens[] = {100, 200};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(toy_store(c, &batch, tokens), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, tokens), KVT_OK);
    assert_int_equal(stats_of(c).blocks_copied, 1);
    assert_int_equal(stats_of(c).blocks_used, 2);
    for (int i = 0; i < 2; i++) assert_true(toy_has(c, ids[i], 4, 4) && toy_has(c, ids[i], 5, tokens[i]));
    kvt_close(c);
}

static void tokens_stored_counts_the_longest_of_those_that_share(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 30), b = fork_of(c, a), d = fork_of(c, a);
    kvt_seq_truncate(c, b, 20);
    kvt_seq_truncate(c, d, 18);
    assert_int_equal(stats_of(c).tokens_stored, 30);
    kvt_seq_free(c, a);
    assert_int_equal(stats_of(c).tokens_stored, 20);
    kvt_seq_free(c, b);
    assert_int_equal(stats_of(c).tokens_stored, 18);
    kvt_close(c);
}

static void truncate_gives_the_blocks_behind_back(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_with(c, 0, 100);
    static const struct {
        int n_tokens, n_blocks;
    } cuts[] = {{97, 7}, {96, 6}, {50, 4}, {48, 3}, {1, 1}, {0, 0}};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(kvt_seq_truncate(c, s, cuts[i].n_tokens), KVT_OK);
        assert_int_equal(stats_of(c).blocks_used, cuts[i].n_blocks);
        assert_true(toy_holds(c, s, 0, cuts[i].n_tokens));
    }
    assert_int_equal(toy_add(c, s, 0, 40), KVT_OK);
    assert_true(toy_holds(c, s, 0, 40));
    kvt_close(c);
}

static void tokens_come_back_as_committed(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_with(c, 1000, 50);
    int32_t ids[50] = {0};
    assert_int_equal(kvt_seq_tokens(c, s, 10, 40, ids), KVT_OK);
    for (int i = 0; i < 40; i++) assert_int_equal(ids[i], 1010 + i);
    assert_int_equal(kvt_seq_tokens(c, s, 50, 0, NULL), KVT_OK);
    /* without ids they are -1 */
    int n = 2;
    kvt_batch batch = {1, &s, &n};
    kvt_reserve(c, &batch);
    toy_store(c, &batch, ids);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    assert_int_equal(kvt_seq_tokens(c, s, 49, 3, ids), KVT_OK);
    assert_int_equal(ids[0], 1049);
    assert_int_equal(ids[1], -1);
    assert_int_equal(ids[2], -1);
    kvt_close(c);
}

static void a_handle_of_a_freed_sequence_is_dead_for_good(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    opt.sequences_max = 1;
    kvt_cache *c = toy_open(&opt);
    kvt_seq old = seq_with(c, 0, 3), out;
    assert_int_equal(kvt_seq_free(c, old), KVT_OK);
    for (int i = 0; i < 1000; i++) {
        kvt_seq s = seq_with(c, 0, 0);
        assert_true(s != old && s != KVT_SEQ_NONE);
        assert_int_equal(kvt_seq_length(c, old), KVT_E_SEQUENCE);
        kvt_seq_free(c, s);
    }
    const kvt_seq wrong[] = {old, 12345, KVT_SEQ_NONE, ~(kvt_seq)0, 1};
    int32_t id;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kvt_batch batch = {1, &wrong[i], (const int[]){1}};
        assert_int_equal(kvt_seq_length(c, wrong[i]), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_fork(c, wrong[i], &out), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_truncate(c, wrong[i], 0), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_tokens(c, wrong[i], 0, 1, &id), KVT_E_SEQUENCE);
        assert_int_equal(kvt_reserve(c, &batch), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_free(c, wrong[i]), wrong[i] == KVT_SEQ_NONE ? KVT_OK : KVT_E_SEQUENCE);
    }
    kvt_close(c);
}

static void wrong_ranges_are_arguments(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_with(c, 0, 10);
    int32_t ids[16];
    assert_int_equal(kvt_seq_truncate(c, s, 11), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_truncate(c, s, -1), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, s, 0, 11, ids), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, s, -1, 2, ids), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, s, 11, 0, ids), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, s, 2, INT32_MAX, ids), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, s, 0, 1, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_new(c, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_new(NULL, &s), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_free(NULL, s), KVT_E_ARGUMENT);
    assert_int_equal(kvt_check(NULL), KVT_E_ARGUMENT);
    assert_true(toy_holds(c, s, 0, 10));
    kvt_close(c);
}

/* ------------------------------------------------------------------------------------------------ full */

/* 8 blocks, of which a holds 4 (55 tokens) and b, its fork, none of its own. */
static kvt_cache *small_cache(kvt_seq *a, kvt_seq *b) {
    kvt_options opt = toy_options();
    kvt_bytes_info bytes;
    kvt_bytes(&opt, &bytes);
    opt.bytes_max = 8 * bytes.bytes_per_block + bytes.bytes_per_block / 2;
    kvt_cache *c = toy_open(&opt);
    assert_int_equal(stats_of(c).blocks_total, 8);
    *a = seq_with(c, 0, 55);
    *b = fork_of(c, *a);
    return c;
}

static void full_changes_nothing(void **state) {
    (void)state;
    kvt_seq ids[3];
    kvt_cache *c = small_cache(&ids[0], &ids[1]);
    ids[2] = seq_with(c, 900, 16);
    int free_first = c->pool.free_first;
    kvt_stats before = stats_of(c);
    /* 3 blocks are free; a needs a copy and a new block, b writes into what was shared and needs one, the third one */
    kvt_batch batch = {3, ids, (const int[]){10, 10, 1}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_FULL);
    assert_unchanged(c, before);
    assert_int_equal(stats_of(c).n_full, before.n_full + 1);
    assert_int_equal(c->pool.free_first, free_first);
    for (int i = 0; i < 2; i++) assert_true(toy_holds(c, ids[i], 0, 55));
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_E_STATE);
    /* what needs exactly what is free succeeds */
    batch.n_seqs = 2;
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(stats_of(c).blocks_free, 0);
    assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    /* after something is given back, the first one does too */
    kvt_seq_free(c, ids[1]);
    batch = (kvt_batch){2, (const kvt_seq[]){ids[0], ids[2]}, (const int[]){10, 1}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    kvt_close(c);
}

static void sequences_run_out_too(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq ids[4], extra = 77;
    for (int i = 0; i < 4; i++) ids[i] = seq_with(c, 0, 0);
    kvt_stats before = stats_of(c);
    assert_int_equal(kvt_seq_new(c, &extra), KVT_FULL);
    assert_int_equal(kvt_seq_fork(c, ids[0], &extra), KVT_FULL);
    assert_int_equal(extra, 77);
    assert_unchanged(c, before);
    kvt_seq_free(c, ids[2]);
    assert_int_equal(kvt_seq_new(c, &extra), KVT_OK);
    kvt_close(c);
}

/* ------------------------------------------------------------------------------------------------ steps */

static void abort_undoes_all_of_it(void **state) {
    (void)state;
    kvt_seq ids[2];
    kvt_cache *c = small_cache(&ids[0], &ids[1]);
    kvt_stats before = stats_of(c);
    kvt_batch batch = {2, ids, (const int[]){12, 12}};
    int32_t tokens[24];
    for (int i = 0; i < 24; i++) tokens[i] = 3000 + i;
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(toy_store(c, &batch, tokens), KVT_OK);
    assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    kvt_stats after = stats_of(c);
    assert_int_equal(after.n_aborts, 1);
    assert_int_equal(after.blocks_used, before.blocks_used);
    assert_int_equal(after.blocks_shared, before.blocks_shared);
    assert_int_equal(after.tokens_stored, before.tokens_stored);
    assert_int_equal(after.blocks_taken - after.blocks_given, after.blocks_used);
    for (int i = 0; i < 2; i++) assert_true(toy_holds(c, ids[i], 0, 55));
    assert_int_equal(kvt_check(c), KVT_OK);
    /* and the step can be done after all */
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(toy_store(c, &batch, tokens), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, tokens), KVT_OK);
    for (int i = 0; i < 2; i++) assert_true(toy_has(c, ids[i], 54, 54) && toy_has(c, ids[i], 66, 3000 + 12 * i + 11));
    kvt_close(c);
}

/* The longer of two that share a block finds its tokens again after an abort, though the shorter has written, too. */
static void abort_gives_back_what_the_other_wrote_over(void **state) {
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        kvt_options opt = toy_options();
        kvt_cache *c = toy_open(&opt);
        kvt_seq ids[2] = {seq_with(c, 0, 10)};
        ids[1] = fork_of(c, ids[0]);
        kvt_seq_truncate(c, ids[1 - longer], 4);
        kvt_batch batch = {2, ids, (const int[]){3, 3}};
        const int32_t tokens[] = {500, 501, 502, 503, 504, 505};
        assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
        assert_int_equal(toy_store(c, &batch, tokens), KVT_OK);
        assert_int_equal(kvt_abort(c, &batch), KVT_OK);
        assert_true(toy_holds(c, ids[longer], 0, 10) && toy_holds(c, ids[1 - longer], 0, 4));
        kvt_close(c);
    }
}

static void limits_are_kept(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    opt.batch_tokens_max = 40;
    kvt_cache *c = toy_open(&opt);
    kvt_seq ids[2] = {seq_with(c, 0, 40), seq_with(c, 0, 10)};
    kvt_stats before = stats_of(c);
    assert_int_equal(toy_add(c, ids[0], 0, 41), KVT_E_LIMIT);
    kvt_batch batch = {2, ids, (const int[]){20, 21}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_E_LIMIT);
    assert_unchanged(c, before);
    assert_int_equal(toy_add(c, ids[0], 40, 40), KVT_OK);
    assert_int_equal(toy_add(c, ids[0], 80, 40), KVT_OK);
    assert_int_equal(toy_add(c, ids[0], 120, 9), KVT_E_LIMIT);
    assert_int_equal(toy_add(c, ids[0], 120, 8), KVT_OK);
    assert_int_equal(toy_add(c, ids[0], 128, 1), KVT_E_LIMIT);
    assert_true(toy_holds(c, ids[0], 0, 128));
    kvt_close(c);
}

static void wrong_batches_are_arguments(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 3), ids[6] = {a, a, a, a, a, a};
    kvt_stats before = stats_of(c);
    const int one[6] = {1, 1, 1, 1, 1, 1}, zero = 0, minus = INT32_MIN, huge = INT32_MAX;
    assert_int_equal(kvt_reserve(c, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){0, ids, one}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){-1, ids, one}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, NULL, one}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, ids, NULL}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, ids, &zero}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, ids, &minus}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, ids, &huge}), KVT_E_LIMIT);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){2, ids, one}), KVT_E_ARGUMENT); /* the same one twice */
    assert_int_equal(kvt_reserve(c, &(kvt_batch){6, ids, one}), KVT_E_ARGUMENT);
    assert_unchanged(c, before);
    assert_int_equal(toy_add(c, a, 3, 1), KVT_OK);
    kvt_close(c);
}

static void a_step_goes_in_its_order(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 3), b = seq_with(c, 50, 3), out;
    static float x[TOY_VALUES_MAX], y[TOY_VALUES_MAX];
    kvt_batch batch = {1, &a, (const int[]){1}}, more = {1, &a, (const int[]){2}}, other = {1, &b, (const int[]){1}};
    /* before it is open */
    assert_int_equal(kvt_append(c, 0, &batch, x, x), KVT_E_STATE);
    assert_int_equal(kvt_attend(c, 0, &batch, x, x, x, y), KVT_E_STATE);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_E_STATE);
    assert_int_equal(kvt_abort(c, &batch), KVT_E_STATE);
    /* while it is open */
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(kvt_reserve(c, &batch), KVT_E_STATE);
    assert_int_equal(kvt_seq_fork(c, a, &out), KVT_E_STATE);
    assert_int_equal(kvt_seq_truncate(c, b, 0), KVT_E_STATE);
    assert_int_equal(kvt_seq_free(c, b), KVT_E_STATE);
    assert_int_equal(kvt_attend(c, 0, &batch, x, NULL, NULL, y), KVT_E_STATE); /* no keys and values yet */
    assert_int_equal(kvt_append(c, 0, &more, x, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, 0, &other, x, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, 0, NULL, x, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, 0, &batch, NULL, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, 0, &batch, x, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, -1, &batch, x, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(c, TOY_LAYERS, &batch, x, x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_attend(c, 0, &batch, NULL, x, x, y), KVT_E_ARGUMENT);
    assert_int_equal(kvt_attend(c, 0, &batch, x, x, x, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_attend(c, 0, &batch, x, x, NULL, y), KVT_E_ARGUMENT);
    /* a layer is missing: the step stays open */
    assert_int_equal(kvt_append(c, 1, &batch, x, x), KVT_OK);
    assert_int_equal(kvt_append(c, 1, &batch, x, x), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_E_STATE);
    assert_int_equal(kvt_commit(c, &other, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_abort(c, &other), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_length(c, a), 3);
    assert_int_equal(kvt_append(c, 0, &batch, x, x), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    assert_int_equal(kvt_seq_length(c, a), 4);
    /* after it */
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_E_STATE);
    assert_int_equal(kvt_abort(c, &batch), KVT_E_STATE);
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_close(c);
}

/* As many rows as a step takes, in as many sequences as there are: the plan has room for every piece. */
static void a_step_may_be_as_large_as_the_limits(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    opt.batch_tokens_max = 4;
    opt.n_threads = 2;
    kvt_cache *c = toy_open(&opt);
    kvt_seq ids[4];
    const int n[4] = {1, 1, 1, 1};
    const int32_t tokens[4] = {10, 20, 30, 40}, *const each[4] = {tokens, tokens + 1, tokens + 2, tokens + 3};
    for (int i = 0; i < 4; i++) ids[i] = seq_with(c, 0, 0);
    kvt_batch batch = {4, ids, n};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(toy_store(c, &batch, tokens), KVT_OK);
    assert_true(toy_means(c, &batch, each, n));
    assert_int_equal(kvt_commit(c, &batch, tokens), KVT_OK);
    kvt_close(c);
}

/* Queries that are no numbers, in one layer, do not reach the padding of the next. */
static void layers_do_not_see_each_others_queries(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 5);
    static float q[3 * TOY_VALUES_MAX], out[3 * TOY_VALUES_MAX];
    kvt_batch batch = {1, &a, (const int[]){3}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(toy_store(c, &batch, (const int32_t[]){5, 6, 7}), KVT_OK);
    for (int i = 0; i < 3 * TOY_VALUES_MAX; i++) q[i] = NAN;
    assert_int_equal(kvt_attend(c, 0, &batch, q, NULL, NULL, out), KVT_OK);
    memset(q, 0, sizeof q);
    assert_int_equal(kvt_attend(c, 1, &batch, q, NULL, NULL, out), KVT_OK);
    for (int i = 0; i < 3 * 2 * 8; i++) assert_true(isfinite(out[i])); /* the second layer has 2 heads of 8 */
    kvt_close(c);
}

/* A sequence may be born during a step, which then goes on. */
static void a_sequence_is_born_during_a_step(void **state) {
    (void)state;
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++) {
        kvt_options opt = toy_options();
        opt.kind = (kvt_cache_kind)kind;
        kvt_cache *c = toy_open(&opt);
        kvt_seq a = seq_with(c, 0, 3), b;
        kvt_batch batch = {1, &a, (const int[]){40}};
        assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
        assert_int_equal(kvt_seq_new(c, &b), KVT_OK);
        assert_int_equal(kvt_abort(c, &batch), KVT_OK);
        assert_int_equal(kvt_check(c), KVT_OK);
        assert_int_equal(toy_add(c, b, 0, 20), KVT_OK);
        assert_true(toy_holds(c, a, 0, 3) && toy_holds(c, b, 0, 20));
        kvt_close(c);
    }
}

/* ------------------------------------------------------------------------------------------- other kinds */

static void contiguous_reserves_the_longest_and_copies_forks(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_bytes_info bytes;
    kvt_bytes(&opt, &bytes);
    opt.kind = KVT_CONTIGUOUS;
    opt.bytes_max = 21 * bytes.bytes_per_block; /* two regions of 8 blocks, the rest is no use */
    kvt_cache *c = toy_open(&opt);
    assert_int_equal(stats_of(c).blocks_total, 16);
    kvt_seq a = seq_with(c, 0, 20), b, none;
    kvt_stats one = stats_of(c);
    assert_int_equal(one.blocks_used, 8);
    assert_int_equal(one.bytes_reserved, 8 * bytes.bytes_per_block);
    assert_int_equal(one.bytes_used, 20 * bytes.bytes_per_token);
    assert_int_equal(kvt_seq_fork(c, a, &b), KVT_OK);
    assert_int_equal(stats_of(c).blocks_shared, 0);
    assert_int_equal(stats_of(c).tokens_stored, 40);
    assert_true(toy_holds(c, b, 0, 20));
    assert_int_equal(toy_add(c, b, 20, 108), KVT_OK);
    assert_true(toy_holds(c, a, 0, 20) && toy_holds(c, b, 0, 128));
    assert_int_equal(kvt_seq_new(c, &none), KVT_FULL);
    assert_int_equal(kvt_seq_fork(c, a, &none), KVT_FULL);
    assert_int_equal(kvt_seq_truncate(c, b, 5), KVT_OK);
    assert_int_equal(stats_of(c).blocks_used, 16);
    assert_int_equal(stats_of(c).tokens_stored, 25);
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_seq_free(c, a);
    assert_int_equal(kvt_seq_new(c, &none), KVT_OK);
    assert_true(toy_holds(c, b, 0, 5));
    kvt_seq_free(c, b);
    kvt_seq_free(c, none);
    assert_idle(c);
    kvt_close(c);
}

static void none_keeps_nothing(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    opt.kind = KVT_NONE;
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_with(c, 0, 100);
    assert_int_equal(kvt_seq_length(c, a), 0);
    assert_int_equal(stats_of(c).blocks_used, 0);
    assert_int_equal(stats_of(c).blocks_used_most, 7);
    assert_int_equal(stats_of(c).tokens_committed, 100);
    assert_int_equal(kvt_seq_length(c, fork_of(c, a)), 0);
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_grows_by_blocks),
        cmocka_unit_test(a_fork_shares_blocks_until_one_writes),
        cmocka_unit_test(two_forks_in_one_batch_copy_once),
        cmocka_unit_test(tokens_stored_counts_the_longest_of_those_that_share),
        cmocka_unit_test(truncate_gives_the_blocks_behind_back),
        cmocka_unit_test(tokens_come_back_as_committed),
        cmocka_unit_test(a_handle_of_a_freed_sequence_is_dead_for_good),
        cmocka_unit_test(wrong_ranges_are_arguments),
        cmocka_unit_test(full_changes_nothing),
        cmocka_unit_test(sequences_run_out_too),
        cmocka_unit_test(abort_undoes_all_of_it),
        cmocka_unit_test(abort_gives_back_what_the_other_wrote_over),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(wrong_batches_are_arguments),
        cmocka_unit_test(a_step_goes_in_its_order),
        cmocka_unit_test(a_step_may_be_as_large_as_the_limits),
        cmocka_unit_test(layers_do_not_see_each_others_queries),
        cmocka_unit_test(a_sequence_is_born_during_a_step),
        cmocka_unit_test(contiguous_reserves_the_longest_and_copies_forks),
        cmocka_unit_test(none_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
