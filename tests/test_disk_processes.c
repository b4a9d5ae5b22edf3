/* test_disk_processes.c - several processes on one folder, and processes that are killed: the limit holds at every
 * moment that anyone can look at, and what is found is whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "random.h"
#include "tier_records.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static char folder[FOLDER_PATH_MAX];

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx, (void)level;
    fprintf(stderr, "%s\n", message);
}

static kvt_tier *open_or_abort(uint64_t bytes_max) {
    kvt_tier *tier;
    if (kvt_tier_disk(&tier, folder, bytes_max, hear, NULL) != KVT_OK) abort();
    return tier;
}

/* Each number has its size. */
static size_t size_of(uint64_t number) { return 2000 + number * 7919 % 60000; }

static uint64_t bytes_of_all(uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += size_of(i);
    return sum;
}

/* One random operation; aborts where a record is not what was put. */
static void one_operation(kvt_tier *tier, uint64_t *random, uint32_t n_keys) {
    uint64_t number = random_below(random, n_keys);
    kvt_status status = KVT_OK;
    switch (random_below(random, 8)) {
    case 0: records_drop(tier, number); break;
    case 1: case 2: case 3: status = records_get(tier, number, size_of(number), NULL); break;
    default: status = records_put(tier, number, random_below(random, 100), size_of(number));
    }
    /* What others are writing may leave no room at this moment. */
    if (status != KVT_OK && status != KVT_MISS && status != KVT_FULL) abort();
}

/* ------------------------------------------------------------------------------------------- two at once */

enum { BUSY_KEYS = 256, BUSY_LIMIT = 1 * MIB, BUSY_TURNS = 1500, BUSY_N = 2 };

static void be_busy(uint64_t seed) {
    kvt_tier *tier = open_or_abort(BUSY_LIMIT);
    uint64_t random = seed;
    for (int i = 0; i < BUSY_TURNS; i++) one_operation(tier, &random, BUSY_KEYS);
    kvt_tier_close(tier);
    _exit(0);
}

/* Under the lock that everyone takes: then nobody moves a file from a folder not yet seen to one seen already. */
static uint64_t bytes_now(void) {
    char path[FOLDER_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/v1/state", folder);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    flock(fd, LOCK_EX);
    uint64_t bytes = folder_bytes(folder);
    close(fd);
    return bytes;
}

static void two_processes_share_a_limit(void **state) {
    (void)state;
    folder_new_in_memory(folder);
    assert_true(bytes_of_all(BUSY_KEYS) > 7 * (uint64_t)BUSY_LIMIT);
    kvt_tier_close(open_or_abort(BUSY_LIMIT));
    pid_t children[BUSY_N];
    for (int i = 0; i < BUSY_N; i++) {
        children[i] = fork();
        if (children[i] == 0) be_busy(77 + (uint64_t)i);
    }
    int n_running = BUSY_N, n_samples = 0;
    uint64_t most = 0;
    while (n_running > 0) {
        uint64_t bytes = bytes_now();
        most = bytes > most ? bytes : most;
        n_samples++;
        int ended;
        while (waitpid(-1, &ended, WNOHANG) > 0) {
            assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
            n_running--;
        }
    }
    assert_true(n_samples > 20);
    assert_in_range(most, BUSY_LIMIT / 2, BUSY_LIMIT);
    kvt_tier *tier = open_or_abort(BUSY_LIMIT);
    assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
    assert_in_range(records_bytes(tier), folder_bytes(folder), folder_bytes(folder) + BUSY_LIMIT / 100);
    kvt_tier_close(tier);
    folder_remove(folder);
}

/* The count is kept over both, not corrected by looking again: the last look was before them. */
static void two_processes_count_together(void **state) {
    (void)state;
    folder_new_in_memory(folder);
    kvt_tier *tier = open_or_abort(64 * MIB);
    pid_t children[BUSY_N];
    for (int i = 0; i < BUSY_N; i++) {
        children[i] = fork();
        if (children[i] > 0) continue;
        kvt_tier *own = open_or_abort(64 * MIB);
        uint64_t random = 5 + (uint64_t)i;
        for (int j = 0; j < 300; j++) one_operation(own, &random, 40);
        kvt_tier_close(own);
        _exit(0);
    }
    for (int i = 0; i < BUSY_N; i++) waitpid(children[i], NULL, 0);
    uint64_t bytes = records_bytes(tier), n = records_count(tier), there = folder_bytes(folder);
    assert_in_range(bytes, there, there + 16 * KIB);
    kvt_tier_close(open_or_abort(64 * MIB));
    assert_int_equal(records_bytes(tier), bytes);
    assert_int_equal(records_count(tier), n);
    kvt_tier_close(tier);
    folder_remove(folder);
}

/* ---------------------------------------------------------------------------------------------- killed */

enum { KILLS = 200, KILL_KEYS = 64, KILL_LIMIT = 512 * KIB, KILL_AFTER_US_MAX = 12000 };

static void until_killed(uint64_t seed) {
    kvt_tier *tier = open_or_abort(KILL_LIMIT);
    for (uint64_t random = seed;;) one_operation(tier, &random, KILL_KEYS);
}

static int n_whole;
static kvt_status read_one(void *ctx, const kvt_tier_entry *entry) {
    kvt_tier *tier = ctx;
    for (uint64_t i = 0; i < KILL_KEYS; i++) {
        kvt_tier_key key = records_key(i);
        if (memcmp(&key, &entry->key, sizeof key) != 0) continue;
        assert_int_equal(records_get(tier, i, size_of(i), NULL), KVT_OK);
        n_whole++;
        return KVT_OK;
    }
    fail_msg("a record that nobody has put");
    return KVT_OK;
}

static void a_killed_process_leaves_whole_records_and_no_more(void **state) {
    (void)state;
    const char *wanted = getenv("KVTILE_KILLS");
    int kills = wanted ? atoi(wanted) : KILLS;
    uint64_t random = 2026;
    folder_new_in_memory(folder);
    /* Was there all the time, and must not be misled by what the others left. */
    kvt_tier *witness = open_or_abort(KILL_LIMIT);
    n_whole = 0;
    for (int i = 0; i < kills; i++) {
        pid_t child = fork();
        if (child == 0) until_killed(random_bits(&random) + (uint64_t)i);
        struct timespec wait = {.tv_nsec = 1000 * (1 + (long)random_below(&random, KILL_AFTER_US_MAX))};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_true(folder_bytes(folder) <= KILL_LIMIT);
        if (i % 4 == 0) one_operation(witness, &random, KILL_KEYS);
        assert_true(folder_bytes(folder) <= KILL_LIMIT);
        kvt_tier *tier = open_or_abort(KILL_LIMIT);
        assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
        assert_in_range(records_bytes(tier), folder_bytes(folder), KILL_LIMIT);
        assert_int_equal(kvt_tier_walk(tier, read_one, tier), KVT_OK);
        kvt_tier_close(tier);
    }
    assert_true(n_whole > kills);
    kvt_tier_close(witness);
    folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes_share_a_limit),
        cmocka_unit_test(two_processes_count_together),
        cmocka_unit_test(a_killed_process_leaves_whole_records_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
