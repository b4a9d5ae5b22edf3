/* test_thread.c - the worker pool: each item once, worker numbers, sleep and wake, several pools, the mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fp.h"
#include "base/sys.h"
#include "base/thread.h"

enum { PARK_US = 3000 }; /* long after the workers have given up spinning */

static kvt_workers *team_of(int n_threads) {
    kvt_workers *team;
    assert_int_equal(kvt_workers_open(&team, n_threads), KVT_OK);
    return team;
}

/* ----------------------------------------------------------------------------------------- each item once */

enum { ITEMS_MAX = 64 };

typedef struct tally {
    _Atomic int hits[ITEMS_MAX];
    _Atomic int strange; /* items outside the run */
    int n_items;
} tally;

static void count_item(void *ctx, int item, int worker) {
    tally *t = ctx;
    (void)worker;
    if (item < 0 || item >= t->n_items) t->strange++;
    else t->hits[item]++;
}

/* One run of n items; the number of items that did not run exactly once. */
static int wrong_items(kvt_workers *team, int n_items) {
    tally t;
    memset(&t, 0, sizeof t);
    t.n_items = n_items;
    kvt_workers_run(team, n_items, count_item, &t);
    int wrong = t.strange;
    for (int i = 0; i < n_items; i++) wrong += t.hits[i] != 1;
    return wrong;
}

/* The tally lies on the stack and is gone after its run: an item run late, or with another run's function, shows. */
static void test_each_item_runs_once(void **state) {
    (void)state;
    for (int n_threads = 1; n_threads <= 5; n_threads += 2) {
        kvt_workers *team = team_of(n_threads);
        int wrong = 0;
        for (int run = 0; run < 100000; run++) wrong += wrong_items(team, run % 7);
        wrong += wrong_items(team, ITEMS_MAX);
        assert_int_equal(wrong, 0);
        kvt_workers_close(team);
    }
}

/* What an item wrote is seen by the caller after the run, without any atomic of its own. */
static void write_item(void *ctx, int item, int worker) {
    (void)worker;
    ((int *)ctx)[item] += item + 1;
}

static void test_results_are_visible_after_the_run(void **state) {
    (void)state;
    kvt_workers *team = team_of(3);
    int sums[16] = {0};
    for (int run = 0; run < 20000; run++) kvt_workers_run(team, 16, write_item, sums);
    for (int i = 0; i < 16; i++) assert_int_equal(sums[i], 20000 * (i + 1));
    kvt_workers_close(team);
}

/* ------------------------------------------------------------------------------------------------ workers */

typedef struct busy {
    _Atomic int busy[8]; /* by worker number */
    _Atomic int clashes, outside;
    _Atomic uint64_t seen; /* bit per worker */
} busy;

static void occupy(void *ctx, int item, int worker) {
    busy *b = ctx;
    (void)item;
    if (worker < 0 || worker > 3) {
        b->outside++;
        return;
    }
    if (b->busy[worker]++) b->clashes++;
    b->seen |= 1u << worker;
    for (volatile int i = 0; i < 200; i++) continue;
    b->busy[worker]--;
}

static void test_no_two_items_share_a_worker_number(void **state) {
    (void)state;
    kvt_workers *team = team_of(4);
    busy b;
    memset(&b, 0, sizeof b);
    assert_int_equal(kvt_workers_count(team), 4);
    /* The others must help in the end; on a busy machine it may take a while until one gets a processor. */
    uint64_t end = sys_now_ns() + 20000000000u;
    for (int run = 0; run < 3000 || (__builtin_popcountll(b.seen) < 2 && sys_now_ns() < end); run++)
        kvt_workers_run(team, 16, occupy, &b);
    assert_int_equal(b.clashes, 0);
    assert_int_equal(b.outside, 0);
    assert_true(__builtin_popcountll(b.seen) > 1);
    kvt_workers_close(team);
}

static void test_one_thread_is_the_callers(void **state) {
    (void)state;
    kvt_workers *team = team_of(1);
    int sums[4] = {0};
    kvt_workers_run(team, 4, write_item, sums);
    assert_int_equal(sums[3], 4);
    thread_run(NULL, 4, write_item, sums); /* and no pool at all is the caller too */
    assert_int_equal(sums[3], 8);
    kvt_workers_close(team);
}

static void test_sizes_outside_the_range_are_refused(void **state) {
    (void)state;
    kvt_workers *team;
    assert_int_equal(kvt_workers_open(&team, -1), KVT_E_ARGUMENT);
    assert_null(team);
    assert_int_equal(kvt_workers_open(&team, 257), KVT_E_ARGUMENT);
    assert_int_equal(kvt_workers_open(&team, 0), KVT_OK);
    assert_int_equal(kvt_workers_count(team), sys_processors());
    kvt_workers_close(team);
    kvt_workers_close(NULL);
}

/* Stacks larger than the machine: no thread can be made, and the pool is undone. */
static void test_threads_that_cannot_be_had(void **state) {
    (void)state;
    pthread_attr_t callers, huge;
    kvt_workers *team;
    assert_int_equal(pthread_getattr_default_np(&callers), 0);
    pthread_attr_init(&huge);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 46), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    kvt_status status = kvt_workers_open(&team, 3);
    assert_int_equal(pthread_setattr_default_np(&callers), 0);
    assert_int_equal(status, KVT_E_MEMORY);
    assert_null(team);
    pthread_attr_destroy(&callers);
    pthread_attr_destroy(&huge);
}

/* ------------------------------------------------------------------------------------- sleeping and waking */

static void test_parked_workers_come_back(void **state) {
    (void)state;
    kvt_workers *team = team_of(3);
    for (int run = 0; run < 30; run++) {
        usleep(PARK_US);
        assert_int_equal(wrong_items(team, 5), 0);
    }
    /* Around the moment of parking a lost call would leave the run to the caller alone or for ever. */
    for (int run = 0; run < 400; run++) {
        usleep((useconds_t)(300 + run));
        assert_int_equal(wrong_items(team, 3), 0);
    }
    kvt_workers_close(team);
}

static void wait_for_partner(void *ctx, int item, int worker) {
    _Atomic int *arrived = ctx;
    (void)item;
    (void)worker;
    ++*arrived;
    while (*arrived < 2) usleep(10);
}

/* Two items that wait for each other: only a worker that was really woken ends the run. */
static void test_a_parked_worker_is_woken_for_its_item(void **state) {
    (void)state;
    kvt_workers *team = team_of(2);
    for (int run = 0; run < 50; run++) {
        _Atomic int arrived = 0;
        usleep(run % 2 ? PARK_US : 350);
        kvt_workers_run(team, 2, wait_for_partner, &arrived);
        assert_int_equal(arrived, 2);
    }
    kvt_workers_close(team);
}

/* ----------------------------------------------------------------------------------- one that stalls the others */

typedef struct stall {
    _Atomic bool begun;        /* by a thread that is not the caller */
    _Atomic int n_by_others;
} stall;

/* The caller waits for the other to begin, the other then sleeps for longer than anybody has patience. */
static void sleep_in_an_item(void *ctx, int item, int worker) {
    stall *s = ctx;
    (void)item;
    if (worker == 0) {
        while (!s->begun) usleep(10);
        return;
    }
    s->begun = true;
    usleep(20000);
}

static void count_by_others(void *ctx, int item, int worker) {
    stall *s = ctx;
    (void)item;
    if (worker != 0) s->n_by_others++;
    for (uint64_t start = sys_now_ns(); sys_now_ns() - start < 1000;) {}
}

/* Stalls twice in a row; does the other then take none of the items for the next 5 ms? */
static bool sits_out(kvt_workers *team) {
    for (int run = 0; run < 2; run++) {
        stall s = {false, 0};
        kvt_workers_run(team, 2, sleep_in_an_item, &s);
        assert_true(s.begun);
    }
    stall s = {false, 0};
    kvt_workers_run(team, 5000, count_by_others, &s);
    return s.n_by_others == 0;
}

/* Once may be an accident. Twice in a row: no items for at least the 10 ms of a trial, and then again some. Where other
 * programs want the processors, the caller may itself be away while it should see the stall: then once more. */
static void test_a_worker_that_stalls_sits_out(void **state) {
    (void)state;
    kvt_workers *team = team_of(2);
    for (int attempt = 0; !sits_out(team); attempt++) {
        assert_true(attempt < 10);
        kvt_workers_close(team);
        team = team_of(2);
    }
    stall s = {false, 0};
    for (uint64_t start = sys_now_ns(); s.n_by_others == 0 && sys_now_ns() - start < 20000000000u;)
        kvt_workers_run(team, 1000, count_by_others, &s);
    assert_true(s.n_by_others > 0);
    kvt_workers_close(team);
}

static void test_close_while_sitting_out(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        kvt_workers *team = team_of(2);
        for (int run = 0; run < 2; run++) {
            stall s = {false, 0};
            kvt_workers_run(team, 2, sleep_in_an_item, &s);
        }
        usleep((useconds_t)i * 5000);
        uint64_t start = sys_now_ns();
        kvt_workers_close(team);
        assert_true(sys_now_ns() - start < 5000000000u);
    }
}

static void test_close_while_spinning_and_while_parked(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        kvt_workers *team = team_of(3);
        if (i % 4 > 0) assert_int_equal(wrong_items(team, 4), 0);
        if (i % 4 > 1) usleep(i % 4 == 2 ? PARK_US : 400);
        kvt_workers_close(team);
    }
}

/* ---------------------------------------------------------------------------------------------- two pools */

static void *many_runs(void *arg) {
    kvt_workers *team = team_of(2);
    int *wrong = arg;
    for (int run = 0; run < 20000; run++) *wrong += wrong_items(team, 1 + run % 5);
    kvt_workers_close(team);
    return NULL;
}

static void test_two_pools_at_once(void **state) {
    (void)state;
    pthread_t other;
    int wrong[2] = {0, 0};
    assert_int_equal(pthread_create(&other, NULL, many_runs, &wrong[0]), 0);
    many_runs(&wrong[1]);
    pthread_join(other, NULL);
    assert_int_equal(wrong[0] + wrong[1], 0);
}

/* ------------------------------------------------------------------------------------------------ the mode */

#if defined(__x86_64__)
static void look_at_mode(void *ctx, int item, int worker) {
    _Atomic int *other_modes = ctx;
    (void)item;
    (void)worker;
    if ((_mm_getcsr() & ~0x3fu) != 0x9fc0) ++*other_modes; /* the low six bits are what happened, not the mode */
    usleep(50);
}

static void test_items_run_in_the_contracts_mode(void **state) {
    (void)state;
    kvt_workers *team = team_of(3), *alone = team_of(1);
    _Atomic int other_modes = 0;
    unsigned before = _mm_getcsr();
    _mm_setcsr(0x5f80); /* round up, nothing flushed */
    kvt_workers_run(team, 12, look_at_mode, &other_modes);
    kvt_workers_run(team, 1, look_at_mode, &other_modes);
    kvt_workers_run(alone, 3, look_at_mode, &other_modes);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    assert_int_equal(other_modes, 0);
    assert_int_equal(after, 0x5f80);
    kvt_workers_close(team);
    kvt_workers_close(alone);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_item_runs_once),
        cmocka_unit_test(test_results_are_visible_after_the_run),
        cmocka_unit_test(test_no_two_items_share_a_worker_number),
        cmocka_unit_test(test_one_thread_is_the_callers),
        cmocka_unit_test(test_sizes_outside_the_range_are_refused),
        cmocka_unit_test(test_threads_that_cannot_be_had),
        cmocka_unit_test(test_parked_workers_come_back),
        cmocka_unit_test(test_a_parked_worker_is_woken_for_its_item),
        cmocka_unit_test(test_a_worker_that_stalls_sits_out),
        cmocka_unit_test(test_close_while_sitting_out),
        cmocka_unit_test(test_close_while_spinning_and_while_parked),
        cmocka_unit_test(test_two_pools_at_once),
#if defined(__x86_64__)
        cmocka_unit_test(test_items_run_in_the_contracts_mode),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
