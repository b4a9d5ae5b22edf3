/* test_disk.c - the disk tier: what is put comes back, the least recently used leaves, the limit holds over records,
 * folders, temporary files and processes. What happens when something fails is test_disk_faults.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "kvtile.h"
#include "random.h"
#include "tier/disk.h"
#include "tier_records.h"

enum { MIB = 1 << 20, KIB = 1 << 10, EIGHTH = 105 * KIB /* of these, eight fit into a MiB */ };

static char folder[FOLDER_PATH_MAX];
static char heard[2048];

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx, (void)level;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s\n", message);
}

static int each_setup(void **state) {
    (void)state;
    folder_new(folder);
    heard[0] = 0;
    return 0;
}

static int each_teardown(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static kvt_tier *open_or_fail(uint64_t bytes_max) {
    kvt_tier *tier;
    assert_int_equal(kvt_tier_disk(&tier, folder, bytes_max, hear, NULL), KVT_OK);
    return tier;
}

static void path_in(char out[FOLDER_PATH_MAX + 64], const char *name) {
    snprintf(out, FOLDER_PATH_MAX + 64, "%s/%s", folder, name);
}

static void write_file(const char *name, const char *text) {
    char path[FOLDER_PATH_MAX + 64];
    path_in(path, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

/* What du says is what is counted, but for what is written down late. */
static void assert_counted(kvt_tier *tier, uint64_t bytes_max) {
    uint64_t counted = records_bytes(tier), there = folder_bytes(folder);
    assert_true(there <= bytes_max);
    assert_true(counted <= bytes_max);
    assert_true(counted >= there);
    assert_true(counted - there <= bytes_max / 100);
}

static void what_is_put_comes_back(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 23, 24, 4095, 4096, 4097, 100001, 737280};
    kvt_tier *tier = open_or_fail(64 * MIB);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(records_get(tier, i, sizes[i], NULL), KVT_MISS);
        assert_int_equal(records_has(tier, i), 0);
        assert_int_equal(records_put(tier, i, 7, sizes[i]), KVT_OK);
        assert_int_equal(records_has(tier, i), 1);
        uint32_t version = 7;
        assert_int_equal(records_get(tier, i, sizes[i], &version), KVT_OK);
        assert_int_equal(version, 7);
        assert_int_equal(records_get(tier, i, sizes[i] + 1, NULL), KVT_E_CORRUPT);
        assert_int_equal(records_count(tier), i + 1);
    }
    assert_counted(tier, 64 * MIB);
    kvt_tier_close(tier);
    assert_string_equal(heard, "");
}

static void a_record_may_have_more_pieces_than_one_call_takes(void **state) {
    (void)state;
    enum { N = 5000 };
    static uint16_t out[N][7], in[N][7];
    static kvt_piece from[N], to[N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < 7; j++) out[i][j] = (uint16_t)(i * 7 + j);
        size_t n = (size_t)(i % 8) * 2;
        from[i] = (kvt_piece){out[i], n};
        to[i] = (kvt_piece){in[i], n};
    }
    kvt_tier *tier = open_or_fail(4 * MIB);
    kvt_tier_key key = records_key(1);
    assert_int_equal(tier->ops.put(tier->ctx, &key, from, N), KVT_OK);
    assert_int_equal(tier->ops.get(tier->ctx, &key, to, N), KVT_OK);
    for (int i = 0; i < N; i++) assert_memory_equal(in[i], out[i], to[i].n);
    kvt_tier_close(tier);
}

static void a_record_is_replaced_and_dropped(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(4 * MIB);
    uint64_t empty = records_bytes(tier);
    uint32_t version;
    assert_int_equal(records_put(tier, 1, 1, 100000), KVT_OK);
    assert_int_equal(records_put(tier, 1, 2, 50000), KVT_OK);
    assert_int_equal(records_count(tier), 1);
    assert_int_equal(records_get(tier, 1, 100000, NULL), KVT_E_CORRUPT);
    assert_int_equal(records_get(tier, 1, 50000, &version), KVT_OK);
    assert_int_equal(version, 2);
    assert_counted(tier, 4 * MIB);
    records_drop(tier, 1);
    records_drop(tier, 2);
    assert_int_equal(records_get(tier, 1, 50000, NULL), KVT_MISS);
    assert_int_equal(records_has(tier, 1), 0);
    assert_int_equal(records_count(tier), 0);
    assert_int_equal(records_bytes(tier), empty);
    kvt_tier_close(tier);
}

static void the_least_recently_used_leaves(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(MIB);
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(records_put(tier, i, 0, EIGHTH), KVT_OK);
    assert_int_equal(records_count(tier), 8);
    assert_int_equal(records_get(tier, 0, EIGHTH, NULL), KVT_OK);
    assert_int_equal(records_get(tier, 2, EIGHTH, NULL), KVT_OK);
    for (uint64_t i = 8; i < 14; i++) assert_int_equal(records_put(tier, i, 0, EIGHTH), KVT_OK);
    for (uint64_t i = 0; i < 14; i++) {
        int stays = i == 0 || i == 2 || i >= 8;
        assert_int_equal(records_has(tier, i), stays);
        assert_int_equal(records_get(tier, i, EIGHTH, NULL), stays ? KVT_OK : KVT_MISS);
    }
    kvt_tier_close(tier);
}

static void what_is_larger_than_the_limit_is_refused(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(MIB);
    assert_int_equal(records_put(tier, 1, 0, 300 * KIB), KVT_OK);
    uint64_t bytes = records_bytes(tier);
    assert_int_equal(records_put(tier, 2, 0, MIB), KVT_FULL);
    assert_int_equal(records_put(tier, 2, 0, MIB - 32 * KIB), KVT_FULL);
    assert_int_equal(records_put(tier, 2, 0, (size_t)64 * MIB), KVT_FULL);
    assert_int_equal(records_get(tier, 1, 300 * KIB, NULL), KVT_OK);
    assert_int_equal(records_bytes(tier), bytes);
    assert_int_equal(records_put(tier, 2, 0, 900 * KIB), KVT_OK);
    assert_counted(tier, MIB);
    kvt_tier_close(tier);
    assert_int_equal(kvt_tier_disk(&tier, folder, 1000, hear, NULL), KVT_E_ARGUMENT);
    assert_non_null(strstr(heard, "1000 bytes"));
}

static void the_limit_holds_for_records_of_any_size(void **state) {
    (void)state;
    enum { LIMIT = 2 * MIB, N = 250 };
    kvt_tier *tier = open_or_fail(LIMIT);
    static size_t size[N];
    uint64_t random = 5;
    for (uint64_t i = 0; i < N; i++) {
        size[i] = random_below(&random, 8) ? random_below(&random, 60000) : random_below(&random, 400000);
        assert_int_equal(records_put(tier, i, 0, size[i]), KVT_OK);
        if (i % 16 == 0) assert_counted(tier, LIMIT);
    }
    int n = 0;
    for (uint64_t i = 0; i < N; i++) n += records_get(tier, i, size[i], NULL) == KVT_OK;
    assert_int_equal(n, records_count(tier));
    assert_true(records_bytes(tier) > LIMIT / 2);
    for (uint64_t i = 0; i < N; i++) records_drop(tier, i);
    assert_int_equal(records_count(tier), 0);
    assert_counted(tier, LIMIT);
    assert_true(records_bytes(tier) < 64 * KIB);
    kvt_tier_close(tier);
}

typedef struct seen {
    kvt_tier *tier;
    int n, stop_at;
    kvt_tier_key keys[64];
    uint64_t length, bytes, used_ns;
    bool drops;
} seen;

static kvt_status see(void *ctx, const kvt_tier_entry *entry) {
    seen *s = ctx;
    assert_true(entry->used_ns >= s->used_ns);
    s->used_ns = entry->used_ns;
    s->bytes += entry->bytes;
    s->length += entry->length;
    s->keys[s->n++] = entry->key;
    if (s->drops) kvt_tier_drop(s->tier, &entry->key);
    return s->n == s->stop_at ? KVT_E_LIMIT : KVT_OK;
}

static void a_walk_begins_with_the_least_recently_used(void **state) {
    (void)state;
    static const uint64_t order[] = {1, 3, 4, 0, 2};
    kvt_tier *tier = open_or_fail(4 * MIB);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(records_put(tier, i, 0, 10000), KVT_OK);
    records_get(tier, 0, 10000, NULL);
    records_get(tier, 2, 10000, NULL);
    seen s = {.tier = tier};
    assert_int_equal(kvt_tier_walk(tier, see, &s), KVT_OK);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.bytes, 5 * 12288);
    assert_int_equal(s.length, 5 * 10000);
    for (int i = 0; i < 5; i++) {
        kvt_tier_key key = records_key(order[i]);
        assert_memory_equal(&s.keys[i], &key, sizeof key);
    }
    s = (seen){.tier = tier, .stop_at = 2};
    assert_int_equal(kvt_tier_walk(tier, see, &s), KVT_E_LIMIT);
    assert_int_equal(s.n, 2);
    s = (seen){.tier = tier, .drops = true};
    assert_int_equal(kvt_tier_walk(tier, see, &s), KVT_OK);
    assert_int_equal(s.n, 5);
    assert_int_equal(records_count(tier), 0);
    kvt_tier_close(tier);
}

static void what_was_written_is_there_after_reopening(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(4 * MIB);
    for (uint64_t i = 0; i < 30; i++) assert_int_equal(records_put(tier, 100 * i, 0, 100 * KIB), KVT_OK);
    assert_int_equal(records_get(tier, 0, 100 * KIB, NULL), KVT_OK);
    uint64_t bytes = records_bytes(tier);
    kvt_tier_close(tier);

    tier = open_or_fail(4 * MIB);
    assert_int_equal(records_count(tier), 30);
    assert_int_equal(records_bytes(tier), bytes);
    for (uint64_t i = 1; i < 30; i++) assert_int_equal(records_has(tier, 100 * i), 1);
    kvt_tier_close(tier);

    /* With less room the oldest leave; number 0 was read last. */
    tier = open_or_fail(MIB);
    assert_counted(tier, MIB);
    assert_in_range(records_count(tier), 7, 9);
    uint64_t n = records_count(tier);
    for (uint64_t i = 0; i < 30; i++) assert_int_equal(records_has(tier, 100 * i), i == 0 || i > 30 - n);
    kvt_tier_close(tier);
    assert_string_equal(heard, "");
}

static void files_are_for_their_owner_alone(void **state) {
    (void)state;
    folder_remove(folder);
    mode_t old = umask(0);
    kvt_tier *tier = open_or_fail(MIB);
    records_put(tier, 1, 0, 10);
    umask(old);
    struct stat st;
    static const char *const files[] = {"kvtile-store", "v1/state"}, *const directories[] = {"", "v1", "v1/tmp"};
    char path[FOLDER_PATH_MAX + 64];
    for (int i = 0; i < 2; i++) {
        path_in(path, files[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    for (int i = 0; i < 3; i++) {
        path_in(path, directories[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0700);
    }
    kvt_tier_close(tier);
}

static void a_users_folder_is_left_alone(void **state) {
    (void)state;
    write_file("thesis.txt", "two years");
    kvt_tier *tier;
    assert_int_equal(kvt_tier_disk(&tier, folder, MIB, hear, NULL), KVT_E_IO);
    assert_null(tier);
    assert_non_null(strstr(heard, "holds files, and no kvtile-store"));
    assert_int_equal(folder_count(folder, "/"), 2);
}

static void a_folder_of_another_version_is_refused(void **state) {
    (void)state;
    write_file("kvtile-store", "kvtile store 2\n");
    kvt_tier *tier;
    assert_int_equal(kvt_tier_disk(&tier, folder, MIB, hear, NULL), KVT_E_IO);
    assert_non_null(strstr(heard, "another version, \"kvtile store 2\""));
    assert_int_equal(folder_count(folder, "/"), 2);

    /* An empty marker is what a process leaves that dies at once. */
    write_file("kvtile-store", "");
    kvt_tier_close(open_or_fail(MIB));
    kvt_tier_close(open_or_fail(MIB));
}

static void a_folder_that_cannot_be_is_said_so(void **state) {
    (void)state;
    kvt_tier *tier;
    char path[FOLDER_PATH_MAX + 64];
    path_in(path, "none/such");
    assert_int_equal(kvt_tier_disk(&tier, path, MIB, hear, NULL), KVT_E_IO);
    assert_non_null(strstr(heard, "No such file or directory"));
    write_file("file", "");
    path_in(path, "file");
    assert_int_equal(kvt_tier_disk(&tier, path, MIB, hear, NULL), KVT_E_IO);
    assert_non_null(strstr(heard, "Not a directory"));
    assert_int_equal(kvt_tier_disk(&tier, NULL, MIB, NULL, NULL), KVT_E_ARGUMENT);
}

static void two_tiers_on_a_folder_see_each_other(void **state) {
    (void)state;
    kvt_tier *a = open_or_fail(MIB), *b = open_or_fail(MIB);
    for (uint64_t i = 0; i < 8; i++) assert_int_equal(records_put(a, i, 0, EIGHTH), KVT_OK);
    assert_int_equal(records_has(b, 3), 1);
    assert_int_equal(records_count(b), 8);
    /* b reads number 0, which is the oldest in a's index, and writes 8: a has to see both. */
    assert_int_equal(records_get(b, 0, EIGHTH, NULL), KVT_OK);
    assert_int_equal(records_put(b, 8, 0, EIGHTH), KVT_OK);
    for (uint64_t i = 9; i < 15; i++) assert_int_equal(records_put(a, i, 0, EIGHTH), KVT_OK);
    for (uint64_t i = 0; i < 15; i++) {
        kvt_status expected = i == 0 || i >= 8 ? KVT_OK : KVT_MISS;
        assert_int_equal(records_get(b, i, EIGHTH, NULL), expected);
        assert_int_equal(records_get(a, i, EIGHTH, NULL), expected);
    }
    records_drop(a, 9);
    assert_int_equal(records_get(b, 9, EIGHTH, NULL), KVT_MISS);
    assert_int_equal(records_has(b, 9), 0);
    assert_int_equal(records_bytes(a), records_bytes(b));
    assert_counted(a, MIB);
    kvt_tier_close(a);
    kvt_tier_close(b);
}

/* Both orders in which another's doings differ from what the index says. */
static void the_oldest_of_all_leaves_whoever_wrote_it(void **state) {
    (void)state;
    kvt_tier *b = open_or_fail(MIB);
    for (uint64_t i = 0; i < 4; i++) assert_int_equal(records_put(b, i, 0, EIGHTH), KVT_OK);
    kvt_tier *a = open_or_fail(MIB);
    assert_int_equal(records_get(b, 0, EIGHTH, NULL), KVT_OK);
    assert_int_equal(records_put(b, 4, 0, EIGHTH), KVT_OK);
    for (uint64_t i = 5; i < 11; i++) assert_int_equal(records_put(a, i, 0, EIGHTH), KVT_OK);
    /* 1, 2 and 3 have left, and not 0, which b has read; then b's 4 leaves before a's own. */
    assert_int_equal(records_get(b, 3, EIGHTH, NULL), KVT_MISS);
    assert_int_equal(records_get(b, 0, EIGHTH, NULL), KVT_OK);
    for (uint64_t i = 11; i < 13; i++) assert_int_equal(records_put(a, i, 0, EIGHTH), KVT_OK);
    for (uint64_t i = 6; i < 13; i++) assert_int_equal(records_get(a, i, EIGHTH, NULL), KVT_OK);
    kvt_tier_close(a);
    kvt_tier_close(b);
}

typedef struct worker {
    kvt_tier *tier;
    uint64_t seed;
} worker;

enum { WORKERS = 6, WORKER_TURNS = 400, WORKER_KEYS = 64, WORKER_LIMIT = 2 * MIB };

static kvt_status ignore(void *ctx, const kvt_tier_entry *entry) {
    (void)ctx, (void)entry;
    return KVT_OK;
}

static void *work(void *ctx) {
    worker *w = ctx;
    uint64_t random = w->seed;
    for (int i = 0; i < WORKER_TURNS; i++) {
        uint64_t number = random_below(&random, WORKER_KEYS);
        size_t n = 1000 + 1000 * number;
        switch (random_below(&random, 16)) {
        case 0: records_drop(w->tier, number); break;
        case 1: kvt_tier_walk(w->tier, ignore, NULL); break;
        case 2: case 3: records_has(w->tier, number); break;
        case 4: case 5: case 6: case 7: records_put(w->tier, number, (uint32_t)i, n); break;
        default: {
            kvt_status status = records_get(w->tier, number, n, NULL);
            if (status != KVT_OK && status != KVT_MISS) abort();
        }
        }
    }
    return NULL;
}

static void threads_use_two_tiers_at_once(void **state) {
    (void)state;
    kvt_tier *tiers[2] = {open_or_fail(WORKER_LIMIT), open_or_fail(WORKER_LIMIT)};
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (worker){tiers[i % 2], 100 + (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    assert_counted(tiers[0], WORKER_LIMIT);
    assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
    kvt_tier_close(tiers[0]);
    kvt_tier_close(tiers[1]);
    assert_string_equal(heard, "");
}

/* A reader that expects another length finds out, and leaves it alone. */
static void a_record_of_another_version_is_told_whatever_its_length(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(MIB);
    uint8_t bytes[RECORD_HEADER + 100] = {0};
    record r = {.kind = RECORD_BLOCK};
    record_write(&r, 0, bytes);
    kvt_tier_key key = records_key(1);
    for (uint8_t version = RECORD_VERSION; version <= RECORD_VERSION + 1; version++) {
        bytes[8] = version; /* behind the magic */
        for (size_t n = 0; n < sizeof bytes; n += 12) {
            assert_int_equal(tier->ops.put(tier->ctx, &key, &(kvt_piece){bytes, n}, 1), KVT_OK);
            kvt_status due = version == RECORD_VERSION || n < 12 ? KVT_E_CORRUPT : KVT_E_UNSUPPORTED;
            assert_int_equal(records_get(tier, 1, n + 1, NULL), due);
            assert_int_equal(records_has(tier, 1), 1);
        }
    }
    kvt_tier_close(tier);
}

typedef struct search {
    disk *d;
    pthread_barrier_t step; /* it has begun; it may end */
} search;

static void *search_for_folder(void *arg) {
    search *s = arg;
    pthread_rwlock_wrlock(&s->d->attached);
    pthread_barrier_wait(&s->step);
    pthread_barrier_wait(&s->step);
    pthread_rwlock_unlock(&s->d->attached);
    return NULL;
}

/* Somebody looks for a folder that went away, which may take long. */
static void asking_waits_for_nobody(void **state) {
    (void)state;
    kvt_tier *tier = open_or_fail(MIB);
    search other = {.d = tier->ctx};
    pthread_t thread;
    assert_int_equal(records_put(tier, 1, 1, 1000), KVT_OK);
    pthread_barrier_init(&other.step, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, search_for_folder, &other), 0);
    pthread_barrier_wait(&other.step);
    assert_int_equal(records_has(tier, 1), 1);
    assert_int_equal(records_has(tier, 2), 0);
    pthread_barrier_wait(&other.step);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&other.step);
    kvt_tier_close(tier);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, each_setup, each_teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_put_comes_back),
        TEST(a_record_may_have_more_pieces_than_one_call_takes),
        TEST(a_record_is_replaced_and_dropped),
        TEST(the_least_recently_used_leaves),
        TEST(what_is_larger_than_the_limit_is_refused),
        TEST(the_limit_holds_for_records_of_any_size),
        TEST(a_walk_begins_with_the_least_recently_used),
        TEST(what_was_written_is_there_after_reopening),
        TEST(files_are_for_their_owner_alone),
        TEST(a_users_folder_is_left_alone),
        TEST(a_folder_of_another_version_is_refused),
        TEST(a_folder_that_cannot_be_is_said_so),
        TEST(a_record_of_another_version_is_told_whatever_its_length),
        TEST(asking_waits_for_nobody),
        TEST(two_tiers_on_a_folder_see_each_other),
        TEST(the_oldest_of_all_leaves_whoever_wrote_it),
        TEST(threads_use_two_tiers_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
