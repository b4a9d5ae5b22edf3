/* test_swap.c - sequences that go to a tier and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "finds.h"

static void a_sequence_comes_back_as_it_was(void **state) {
    (void)state;
    tiered y = tiered_of(12, KVT_WRITE_THROUGH);
    tiered_open(&y);
    for (int32_t n = 0; n <= 40; n++) {
        kvt_seq s = seq_new(y.c);
        int32_t first = 100 + 50 * n;
        if (n > 0) assert_int_equal(toy_add(y.c, s, first, n), KVT_OK);
        assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
        assert_int_equal(kvt_seq_length(y.c, s), n);
        kvt_flush(y.c);
        assert_int_equal(stats_of(y.c).blocks_used, 0);
        assert_int_equal(kvt_check(y.c), KVT_OK);
        leave_behind(y.c, 9000 + 200 * n, 128); /* takes its place */
        assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_OK);
        assert_int_equal(kvt_check(y.c), KVT_OK);
        assert_true(toy_holds(y.c, s, first, n));
        assert_int_equal(toy_add(y.c, s, first + n, 20), KVT_OK);
        assert_true(toy_holds(y.c, s, first, n + 20));
        kvt_seq_free(y.c, s);
    }
    tiered_close(&y);
}

static void records_of_a_swap_leave_with_it(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    kvt_tier_usage before, usage;
    tiered_open(&y);
    leave_behind(y.c, 100, 32);
    kvt_flush(y.c);
    kvt_tier_usage_get(y.tier, &before);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 40), KVT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
        kvt_tier_usage_get(y.tier, &usage);
        assert_int_equal(usage.n_records, before.n_records + 2); /* the open block and the list */
        if (i == 0) assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_OK);
        else assert_int_equal(kvt_seq_free(y.c, s), KVT_OK);
        kvt_tier_usage_get(y.tier, &usage);
        assert_int_equal(usage.n_records, before.n_records);
    }
    s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 40), KVT_OK);
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    kvt_close(y.c);
    kvt_tier_usage_get(y.tier, &usage);
    assert_int_equal(usage.n_records, before.n_records);
    kvt_tier_close(y.tier);
}

/* Another sequence computes the same and takes it back: what the tier had before is not its own to take out of it. */
static void what_was_in_the_tier_before_stays_there(void **state) {
    (void)state;
    for (int write = 0; write < 2; write++) {
        tiered y = tiered_of(12, (kvt_write)write);
        tiered_open(&y);
        kvt_seq s = seq_new(y.c);
        assert_int_equal(toy_add(y.c, s, 100, 40), KVT_OK);
        assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
        for (int32_t i = 0; i < 4; i++) leave_behind(y.c, 9000 + 200 * i, 128);
        kvt_seq other = seq_new(y.c);
        assert_int_equal(toy_add(y.c, other, 100, 40), KVT_OK);
        assert_int_equal(kvt_seq_truncate(y.c, other, 0), KVT_OK);
        for (int32_t i = 0; i < 4; i++) leave_behind(y.c, 19000 + 200 * i, 128);
        kvt_flush(y.c);
        assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_OK);
        assert_true(toy_holds(y.c, s, 100, 40));
        tiered_close(&y);
    }
}

static void a_tier_that_fails_keeps_the_sequence_here(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_BACK);
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 40), KVT_OK);
    faulty_set(y.faulty, (faults){.fail = 1});
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_E_IO);
    assert_true(toy_holds(y.c, s, 100, 40));
    faulty_set(y.faulty, (faults){0});
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    leave_behind(y.c, 1000, 128);
    tiered_close(&y);
}

/* What cannot be read now may be read later. */
static void a_tier_that_cannot_be_read_keeps_the_sequence(void **state) {
    (void)state;
    tiered y = tiered_of(8, KVT_WRITE_THROUGH);
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 60), KVT_OK);
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    leave_behind(y.c, 1000, 128);
    kvt_flush(y.c);
    for (int i = 0; i < 2; i++) {
        faulty_set(y.faulty, (faults){.fail = 1 - i * 0.7}); /* the list of keys, and then some block */
        kvt_status status = kvt_seq_swap_in(y.c, s);
        if (i == 0) assert_int_equal(status, KVT_E_IO);
        else assert_true(status == KVT_E_IO || status == KVT_OK);
        assert_int_equal(kvt_seq_length(y.c, s), 60);
        assert_int_equal(kvt_check(y.c), KVT_OK);
    }
    faulty_set(y.faulty, (faults){0});
    kvt_status status = kvt_seq_swap_in(y.c, s);
    assert_true(status == KVT_OK || status == KVT_E_STATE); /* the second try may have brought it */
    assert_true(toy_holds(y.c, s, 100, 60));
    tiered_close(&y);
}

/* Of what the tier has lost, and of all behind it, nothing comes back. */
static void a_swap_that_lost_a_block_ends_before_it(void **state) {
    (void)state;
    tiered y = tiered_of(8, KVT_WRITE_THROUGH);
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 60), KVT_OK);
    kvt_tier_key second = spill_key(y.c, &y.c->prefix.key[seq_of(y.c, s)->table[1]]);
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    leave_behind(y.c, 1000, 128);
    kvt_flush(y.c);
    kvt_tier_drop(y.tier, &second);
    assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_MISS);
    assert_int_equal(kvt_seq_length(y.c, s), 16);
    assert_true(toy_holds(y.c, s, 100, 16));
    assert_int_equal(kvt_check(y.c), KVT_OK);
    assert_int_equal(toy_add(y.c, s, 116, 44), KVT_OK);
    assert_true(toy_holds(y.c, s, 100, 60));
    tiered_close(&y);
}

/* A block that the sequence has the beginning of, and others the rest. */
static void a_part_of_a_block_comes_back(void **state) {
    (void)state;
    tiered y = tiered_of(12, KVT_WRITE_THROUGH);
    tiered_open(&y);
    leave_behind(y.c, 100, 64);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(match(y.c, s, 100, 41).n_tokens, 40);
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    kvt_flush(y.c);
    leave_behind(y.c, 3000, 128);
    leave_behind(y.c, 4000, 128);
    leave_behind(y.c, 5000, 128);
    assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_OK);
    assert_int_equal(kvt_seq_length(y.c, s), 40);
    assert_true(toy_holds(y.c, s, 100, 40));
    assert_int_equal(toy_add(y.c, s, 777, 3), KVT_OK);
    assert_int_equal(kvt_check(y.c), KVT_OK);
    tiered_close(&y);
}

static void a_tier_too_small_for_a_sequence_does_not_take_it(void **state) {
    (void)state;
    kvt_options opt = finds_options(3, 12);
    kvt_bytes_info info;
    kvt_bytes(&opt, &info);
    faulty_tier *f;
    kvt_tier *tier = faulty_tier_new(&f, &(faulty_options){.seed = 1, .bytes_max = 4 * (info.bytes_per_block + 512)});
    opt.n_tiers = 1;
    opt.tiers = &tier;
    opt.write = KVT_WRITE_BACK;
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 120), KVT_OK);
    assert_int_equal(kvt_seq_swap_out(c, s, 0), KVT_E_IO);
    assert_true(toy_holds(c, s, 100, 120));
    kvt_close(c);
    kvt_tier_close(tier);
}

/* A drop that waits behind other moves does not reach what a swap has written since. */
static void what_was_taken_back_does_not_take_a_swap_along(void **state) {
    (void)state;
    tiered y = tiered_of(8, KVT_WRITE_BACK);
    y.opt.tiers = &y.tier;
    assert_int_equal(cache_open(&y.c, &y.opt, &(cache_check){.poison = true, .moves_inline = true}), KVT_OK);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 64), KVT_OK);
    assert_int_equal(kvt_seq_truncate(y.c, s, 0), KVT_OK);
    assert_int_equal(toy_add(y.c, s, 100, 64), KVT_OK);
    assert_int_equal(kvt_seq_swap_out(y.c, s, 0), KVT_OK);
    leave_behind(y.c, 1000, 128); /* needs the room, so writes that wait are taken back */
    kvt_flush(y.c);
    for (int i = 1; i < 3; i++) leave_behind(y.c, 1000 * (i + 1), 128);
    assert_int_equal(kvt_seq_swap_in(y.c, s), KVT_OK);
    assert_true(toy_holds(y.c, s, 100, 64));
    tiered_close(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_comes_back_as_it_was),
        cmocka_unit_test(a_part_of_a_block_comes_back),
        cmocka_unit_test(records_of_a_swap_leave_with_it),
        cmocka_unit_test(what_was_in_the_tier_before_stays_there),
        cmocka_unit_test(a_tier_that_fails_keeps_the_sequence_here),
        cmocka_unit_test(a_tier_that_cannot_be_read_keeps_the_sequence),
        cmocka_unit_test(a_tier_too_small_for_a_sequence_does_not_take_it),
        cmocka_unit_test(a_swap_that_lost_a_block_ends_before_it),
        cmocka_unit_test(what_was_taken_back_does_not_take_a_swap_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
