/* test_move.c - movers: blocks go to tiers and come back as they were, in the order asked for; results, cancelling,
 * waiting and what is learned, with threads and without. Tiers that misbehave are test_move_faults.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_guard.h"
#include "base/sys.h"
#include "yard.h"

/* ------------------------------------------------------------------------------------------ there and back */

static void round_trip(kvt_options opt, bool hot, bool moves_inline) {
    yard *y = yard_open(opt, (faulty_options){.seed = 1}, moves_inline);
    int before = block_new(y->c, hot, 10), a = block_new(y->c, hot, 11), b = block_new(y->c, hot, 12);
    int after = block_new(y->c, hot, 13);
    for (int tier = 0; tier < N_TIERS; tier++) {
        move_job put = yard_job(MOVE_PUT, tier, a, 7), get = yard_job(MOVE_GET, tier, b, 7);
        put.hot = get.hot = hot;
        block_fill(y->c, b, hot, 12);
        assert_true(move_add(y->c, &put));
        assert_copied(y, 7);
        assert_done(y, 7, KVT_OK);
        assert_true(move_add(y->c, &get));
        move_result r = yard_taken(y, 7);
        assert_int_equal(r.job.status, KVT_OK);
        assert_true(block_holds(y->c, a, hot, 11) && block_holds(y->c, b, hot, 11));
        assert_true(block_holds(y->c, before, hot, 10) && block_holds(y->c, after, hot, 13));
        uint64_t n;
        assert_non_null(faulty_record(y->faulty[tier], &put.key, &n));
        assert_int_equal(n, r.job.bytes);
        assert_int_equal(n, RECORD_HEADER + r.job.what.payload_bytes);
    }
    assert_nothing_open(y);
    yard_close(y);
}

static void a_block_comes_back_bit_for_bit(void **state) {
    static const kvt_format formats[][2] = {
        {KVT_BF16, KVT_BF16}, {KVT_F32, KVT_F16}, {KVT_INT8, KVT_INT4}, {KVT_E4M3, KVT_INT2}, {KVT_INT3, KVT_F32}};
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        kvt_options opt = toy_options();
        opt.k_format = formats[i][0];
        opt.v_format = formats[i][1];
        for (int how = 0; how < 4; how++) round_trip(opt, how & 1, how & 2);
    }
}

static void a_real_sequence_comes_back(void **state) {
    (void)state;
    yard *y = yard_of(false);
    kvt_seq s;
    assert_int_equal(kvt_seq_new(y->c, &s), KVT_OK);
    assert_int_equal(toy_add(y->c, s, 500, 40), KVT_OK);
    const int32_t *table = seq_of(y->c, s)->table;
    for (uint32_t i = 0; i < 3; i++) yard_put(y, 1, table[i], i);
    for (int i = 0; i < 3; i++) store_poison(y->c, table[i]);
    assert_false(toy_holds(y->c, s, 500, 40));
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(yard_get(y, 1, table[i], i), KVT_OK);
    assert_true(toy_holds(y->c, s, 500, 40));
    yard_close(y);
}

static void a_copied_block_is_the_owners_while_it_is_written(void **state) {
    (void)state;
    yard *y = yard_of(false);
    int a = block_new(y->c, false, 1);
    faulty_shut(y->faulty[0]);
    yard_add(y, MOVE_PUT, 0, a, 5);
    assert_copied(y, 5);
    faulty_wait_for_one(y->faulty[0]);
    assert_int_equal(move_n_open(y->c), 1);
    assert_false(move_wait_copied(y->c)); /* it is written, and no longer copied */
    block_fill(y->c, a, false, 2);
    faulty_let_in(y->faulty[0]);
    assert_done(y, 5, KVT_OK);
    assert_int_equal(yard_get(y, 0, a, 5), KVT_OK);
    assert_true(block_holds(y->c, a, false, 1));
    yard_close(y);
}

/* Both are there before the owner looks. */
static void results_of_a_put_come_one_after_the_other(void **state) {
    (void)state;
    yard *y = yard_of(true);
    int a = block_new(y->c, false, 1);
    yard_add(y, MOVE_PUT, 0, a, 1);
    yard_add(y, MOVE_PUT, 0, a, 2);
    assert_true(move_run_one(y->c, 0) && move_run_one(y->c, 0) && !move_run_one(y->c, 0));
    assert_copied(y, 1);
    assert_int_equal(move_n_open(y->c), 2);
    assert_done(y, 1, KVT_OK);
    assert_copied(y, 2);
    assert_done(y, 2, KVT_OK);
    assert_nothing_open(y);
    yard_close(y);
}

static void jobs_of_a_tier_run_in_their_order(void **state) {
    (void)state;
    for (int moves_inline = 0; moves_inline < 2; moves_inline++) {
        yard *y = yard_of(moves_inline);
        int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2);
        yard_add(y, MOVE_PUT, 0, a, 9);
        yard_add(y, MOVE_DROP, 0, MOVE_NONE, 9);
        yard_add(y, MOVE_PUT, 0, b, 9);
        assert_copied(y, 9);
        assert_done(y, 9, KVT_OK);
        assert_done(y, 9, KVT_OK);
        assert_copied(y, 9);
        assert_done(y, 9, KVT_OK);
        yard_add(y, MOVE_GET, 0, a, 9);
        assert_done(y, 9, KVT_OK);
        assert_true(block_holds(y->c, a, false, 2));
        assert_nothing_open(y);
        yard_close(y);
    }
}

/* Behind a write of 5 ms a mover rests for 150, unless the owner waits. */
static void a_mover_rests_behind_a_write(void **state) {
    (void)state;
    yard *y = yard_open(toy_options(), (faulty_options){.seed = 1, .stall_ns = 5000000, .faults = {.stall = 1}}, false);
    int a = block_new(y->c, false, 1), n_taken = 0;
    uint64_t start = sys_now_ns();
    for (uint32_t i = 0; i < 2; i++) yard_add(y, MOVE_PUT, 0, a, i);
    for (move_result r; sys_now_ns() - start < 80000000u;) n_taken += move_take(y->c, &r);
    assert_in_range(n_taken, 0, 2); /* the second has not begun */
    while (move_n_open(y->c) > 0) {
        move_result r;
        assert_true(move_wait(y->c, -1, true));
        n_taken += move_take(y->c, &r);
    }
    assert_int_equal(n_taken, 4);
    yard_close(y);
}

/* Somebody waits for what is read. */
static void gets_go_before_all_others(void **state) {
    (void)state;
    yard *y = yard_of(true);
    int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2);
    yard_add(y, MOVE_PUT, 0, a, 1);
    yard_add(y, MOVE_DROP, 0, MOVE_NONE, 2);
    yard_add(y, MOVE_GET, 0, b, 3);
    yard_add(y, MOVE_GET, 0, b, 4);
    assert_done(y, 3, KVT_MISS);
    assert_done(y, 4, KVT_MISS);
    assert_copied(y, 1);
    assert_done(y, 1, KVT_OK);
    assert_done(y, 2, KVT_OK);
    yard_close(y);
}

static void a_slow_tier_holds_up_no_other(void **state) {
    (void)state;
    yard *y = yard_of(false);
    int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2);
    faulty_shut(y->faulty[0]);
    yard_add(y, MOVE_PUT, 0, a, 1);
    assert_copied(y, 1);
    yard_put(y, 1, b, 2);
    assert_int_equal(yard_get(y, 1, a, 2), KVT_OK);
    faulty_let_in(y->faulty[0]);
    assert_done(y, 1, KVT_OK);
    yard_close(y);
}

/* ---------------------------------------------------------------------------------- full, cancelled, waited for */

static void the_table_of_jobs_is_full_at_moves_max(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    opt.moves_max = 3;
    yard *y = yard_open(opt, (faulty_options){.seed = 1}, true);
    int a = block_new(y->c, false, 1);
    for (uint32_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            assert_false(move_is_full(y->c));
            yard_add(y, MOVE_PUT, (int)(i % 2), a, i);
        }
        assert_true(move_is_full(y->c));
        move_job more = yard_job(MOVE_PUT, 1, a, 3);
        assert_false(move_add(y->c, &more));
        yard_add(y, MOVE_DROP, 1, MOVE_NONE, 4); /* what is not to be found is dropped all the same */
        assert_copied(y, 0);
        assert_false(move_add(y->c, &more));
        assert_done(y, 0, KVT_OK);
        assert_true(move_add(y->c, &more));
        assert_false(move_add(y->c, &more));
        for (uint32_t i = 1; i < 3; i++) {
            assert_copied(y, i);
            assert_done(y, i, KVT_OK);
        }
        assert_done(y, 4, KVT_OK);
        assert_copied(y, 3);
        assert_done(y, 3, KVT_OK);
        assert_nothing_open(y);
    }
    yard_close(y);
}

static void the_newest_puts_are_taken_back_first(void **state) {
    (void)state;
    yard *y = yard_of(true);
    int a = block_new(y->c, false, 1);
    for (uint32_t i = 0; i < 6; i++) yard_add(y, MOVE_PUT, (int)(i % 2), a, i);
    yard_add(y, MOVE_GET, 0, a, 6);
    yard_add(y, MOVE_DROP, 1, MOVE_NONE, 7);
    assert_int_equal(move_cancel_puts(y->c, 3), 3);
    assert_cancelled(y, 5);
    assert_cancelled(y, 4);
    assert_cancelled(y, 3);
    assert_true(move_run_one(y->c, 0));
    assert_done(y, 6, KVT_MISS);
    assert_true(move_run_one(y->c, 0));
    assert_int_equal(move_cancel_puts(y->c, 100), 2);
    assert_copied(y, 0);
    assert_done(y, 0, KVT_OK);
    assert_cancelled(y, 2);
    assert_cancelled(y, 1);
    assert_int_equal(move_cancel_puts(y->c, 100), 0);
    assert_done(y, 7, KVT_OK);
    assert_nothing_open(y);
    assert_int_equal(move_cancel_puts(y->c, 1), 0);
    assert_int_equal(faulty_counts_of(y->faulty[0]).puts + faulty_counts_of(y->faulty[1]).puts, 1);
    yard_close(y);
}

static void a_put_that_has_begun_goes_on(void **state) {
    (void)state;
    yard *y = yard_of(false);
    int a = block_new(y->c, false, 1);
    faulty_shut(y->faulty[0]);
    yard_add(y, MOVE_PUT, 0, a, 1);
    faulty_wait_for_one(y->faulty[0]);
    yard_add(y, MOVE_PUT, 0, a, 2);
    assert_int_equal(move_cancel_puts(y->c, 2), 1);
    assert_copied(y, 1);
    assert_cancelled(y, 2);
    faulty_let_in(y->faulty[0]);
    assert_done(y, 1, KVT_OK);
    assert_nothing_open(y);
    yard_close(y);
}

static void a_get_is_taken_back_if_it_has_not_begun(void **state) {
    (void)state;
    yard *y = yard_of(false);
    int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2), d = block_new(y->c, false, 3);
    assert_false(move_cancel_get(y->c, a));
    faulty_shut(y->faulty[1]);
    yard_add(y, MOVE_GET, 1, a, 1);
    faulty_wait_for_one(y->faulty[1]);
    yard_add(y, MOVE_PUT, 1, d, 2);
    yard_add(y, MOVE_GET, 1, b, 3);
    assert_false(move_cancel_get(y->c, a));
    assert_false(move_cancel_get(y->c, d));
    assert_int_equal(move_n_gets(y->c), 2);
    assert_true(move_cancel_get(y->c, b));
    assert_false(move_cancel_get(y->c, b));
    assert_cancelled(y, 3);
    assert_int_equal(move_n_gets(y->c), 1);
    faulty_let_in(y->faulty[1]);
    assert_done(y, 1, KVT_MISS);
    assert_copied(y, 2);
    assert_done(y, 2, KVT_OK);
    assert_true(block_holds(y->c, b, false, 2));
    assert_nothing_open(y);
    yard_close(y);
}

static void waiting_ends_with_a_result_or_with_the_time(void **state) {
    (void)state;
    yard *y = yard_of(false);
    int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2);
    move_result r;
    yard_put(y, 0, b, 8);
    faulty_shut(y->faulty[0]);
    yard_add(y, MOVE_PUT, 0, a, 1);
    assert_true(move_wait(y->c, 0, false)); /* no get is open */
    faulty_wait_for_one(y->faulty[0]);
    assert_true(move_wait(y->c, 0, true));
    assert_copied(y, 1);
    yard_add(y, MOVE_GET, 0, b, 8);
    assert_false(move_wait(y->c, 0, false));
    assert_false(move_wait(y->c, 0, true));
    uint64_t start = sys_now_ns();
    assert_false(move_wait(y->c, 20, true));
    assert_false(move_wait(y->c, 20, false));
    assert_true(sys_now_ns() - start >= 40 * MS);
    assert_false(move_take(y->c, &r));
    /* the put comes first, but it is the get that is waited for */
    faulty_let_in(y->faulty[0]);
    assert_true(move_wait(y->c, 60000, false));
    assert_done(y, 1, KVT_OK);
    assert_true(move_wait(y->c, 0, false));
    assert_done(y, 8, KVT_OK);
    assert_nothing_open(y);
    yard_close(y);
}

static void without_threads_a_wait_runs_the_oldest_jobs(void **state) {
    (void)state;
    yard *y = yard_of(true);
    int a = block_new(y->c, false, 1);
    yard_add(y, MOVE_PUT, 1, a, 1);
    yard_add(y, MOVE_PUT, 0, a, 2);
    yard_add(y, MOVE_GET, 0, a, 2);
    yard_add(y, MOVE_PUT, 1, a, 3);
    assert_false(move_wait(y->c, 0, true));
    assert_int_equal(faulty_counts_of(y->faulty[1]).puts, 0);
    assert_true(move_wait(y->c, 1, true));
    assert_int_equal(faulty_counts_of(y->faulty[1]).puts, 1);
    assert_int_equal(faulty_counts_of(y->faulty[0]).puts, 0);
    assert_true(move_wait(y->c, -1, false));
    assert_int_equal(faulty_counts_of(y->faulty[0]).gets, 1);
    assert_int_equal(faulty_counts_of(y->faulty[1]).puts, 1);
    yard_close(y);
}

/* ---------------------------------------------------------------------------------------------- speed */

static void the_time_of_gets_is_learned(void **state) {
    (void)state;
    yard *y = yard_open(toy_options(), (faulty_options){.stall_ns = 1000, .faults = {.stall = 1}}, true);
    int a = block_new(y->c, false, 1);
    move_job get = yard_job(MOVE_GET, 1, a, 1);
    yard_put(y, 1, a, 1);
    assert_int_equal(yard_get(y, 1, a, 1), KVT_OK); /* does not count */
    assert_int_equal(move_get_ns(y->c, 1), 0);
    get.counts_time = true;
    for (int i = 0; i < 2; i++) {
        assert_true(move_add(y->c, &get));
        y->clock += 500; /* time in the queue is not the tier's */
        assert_done(y, 1, KVT_OK);
        assert_int_equal(move_get_ns(y->c, 1), 1000);
    }
    faulty_set(y->faulty[1], (faults){0});
    assert_true(move_add(y->c, &get));
    assert_done(y, 1, KVT_OK);
    assert_int_equal(move_get_ns(y->c, 1), 750);
    get = yard_job(MOVE_GET, 1, a, 2); /* a miss is fast and says nothing */
    get.counts_time = true;
    assert_true(move_add(y->c, &get));
    assert_done(y, 2, KVT_MISS);
    assert_int_equal(move_get_ns(y->c, 1), 750);
    assert_int_equal(move_get_ns(y->c, 0), 0);
    yard_close(y);
}

/* ------------------------------------------------------------------------------------------- the end */

static void closing_writes_what_is_queued_and_reads_nothing(void **state) {
    (void)state;
    for (int moves_inline = 0; moves_inline < 2; moves_inline++) {
        yard *y = yard_open(toy_options(), (faulty_options){.stall_ns = 3 * MS, .faults = {.stall = 1}}, moves_inline);
        uint64_t n;
        for (uint32_t i = 0; i < 6; i++) {
            yard_add(y, MOVE_PUT, (int)(i % 2), block_new(y->c, false, i), i);
            yard_add(y, MOVE_GET, (int)(i % 2), block_new(y->c, false, 50), i);
        }
        yard_add(y, MOVE_DROP, 0, MOVE_NONE, 2);
        kvt_close(y->c);
        y->c = NULL;
        for (uint32_t i = 0; i < 6; i++) {
            kvt_tier_key key = yard_key(i);
            assert_int_equal(faulty_record(y->faulty[i % 2], &key, &n) != NULL, i != 2);
        }
        for (int i = 0; i < N_TIERS; i++) {
            assert_int_equal(faulty_counts_of(y->faulty[i]).puts, 3);
            assert_true(faulty_counts_of(y->faulty[i]).gets <= 1);
        }
        yard_close(y);
    }
}

static void moves_allocate_nothing(void **state) {
    (void)state;
    if (!alloc_guard_works()) skip();
    for (int moves_inline = 0; moves_inline < 2; moves_inline++) {
        yard *y = yard_of(moves_inline);
        int a = block_new(y->c, false, 1), b = block_new(y->c, false, 2);
        yard_put(y, 0, a, 1); /* from here on the tier has memory for it too */
        yard_put(y, 1, a, 1);
        alloc_guard_on();
        mem_guard("moves");
        for (int i = 0; i < 20; i++) {
            yard_put(y, i % 2, a, 1);
            assert_int_equal(yard_get(y, i % 2, b, 1), KVT_OK);
            yard_add(y, MOVE_PUT, i % 2, a, 1);
            move_cancel_puts(y->c, 1);
            move_cancel_get(y->c, b);
            for (move_result r; move_n_open(y->c) > 0 && move_wait(y->c, -1, true);) move_take(y->c, &r);
        }
        mem_guard(NULL);
        assert_int_equal(alloc_guard_off(), 0);
        yard_close(y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_comes_back_bit_for_bit),
        cmocka_unit_test(a_real_sequence_comes_back),
        cmocka_unit_test(a_copied_block_is_the_owners_while_it_is_written),
        cmocka_unit_test(results_of_a_put_come_one_after_the_other),
        cmocka_unit_test(jobs_of_a_tier_run_in_their_order),
        cmocka_unit_test(gets_go_before_all_others),
        cmocka_unit_test(a_mover_rests_behind_a_write),
        cmocka_unit_test(a_slow_tier_holds_up_no_other),
        cmocka_unit_test(the_table_of_jobs_is_full_at_moves_max),
        cmocka_unit_test(the_newest_puts_are_taken_back_first),
        cmocka_unit_test(a_put_that_has_begun_goes_on),
        cmocka_unit_test(a_get_is_taken_back_if_it_has_not_begun),
        cmocka_unit_test(waiting_ends_with_a_result_or_with_the_time),
        cmocka_unit_test(without_threads_a_wait_runs_the_oldest_jobs),
        cmocka_unit_test(the_time_of_gets_is_learned),
        cmocka_unit_test(closing_writes_what_is_queued_and_reads_nothing),
        cmocka_unit_test(moves_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
