/* test_disk_faults.c - the disk tier when things go wrong: each system call fails in turn, or is the last one of its
 * process; folders vanish, files are cut, replaced and deleted by others. Never a crash, a leak or a wrong byte; the
 * limit holds, and what fails once works afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "tier/disk.h"
#include "tier_records.h"

enum { LIMIT = 512 << 10, SIZE = 45 << 10, N = 8, /* of these fit into that */ STOPPED = 9 };

/* ------------------------------------------------------------------------------------------ faults */

static struct fault {
    bool on, lasts; /* lasts: all calls from that one on */
    bool stops;     /* the process ends instead */
    long after;     /* so many calls */
    int error;      /* 0: a read or write of nothing */
    const char *only;
    size_t at_most; /* bytes of a read or write, if not 0; every third one is interrupted */
    bool hit;
    long n_moves;
} fault;

static bool broken(const char *name) {
    if (!fault.on || (fault.only && strcmp(name, fault.only) != 0)) return false;
    if (fault.after > 0) return fault.after--, false;
    if (fault.stops) _exit(STOPPED);
    if (!fault.lasts) fault.on = false;
    fault.hit = true;
    errno = fault.error;
    return true;
}

#define FAULTY(type, failed, name, params, args)                     \
    static type faulty_##name params {                               \
        if (broken(#name)) return failed;                            \
        return disk_calls_system.name args;                          \
    }
FAULTY(int, -1, openat, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode))
FAULTY(int, -1, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
FAULTY(int, -1, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
FAULTY(int, -1, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAULTY(int, -1, fstat, (int fd, struct stat *out), (fd, out))
FAULTY(int, -1, fstatat, (int dir, const char *path, struct stat *out, int flags), (dir, path, out, flags))
FAULTY(int, -1, flock, (int fd, int operation), (fd, operation))
FAULTY(int, -1, fallocate, (int fd, int mode, off_t from, off_t n), (fd, mode, from, n))
FAULTY(int, -1, ftruncate, (int fd, off_t n), (fd, n))
FAULTY(int, -1, futimens, (int fd, const struct timespec times[2]), (fd, times))
FAULTY(DIR *, NULL, fdopendir, (int fd), (fd))
FAULTY(struct dirent *, NULL, readdir, (DIR *dir), (dir))

typedef ssize_t (*move_fn)(int fd, const struct iovec *iov, int n, off_t at);

static ssize_t move(move_fn fn, const char *name, int fd, const struct iovec *iov, int n, off_t at) {
    if (broken(name)) return fault.error ? -1 : 0;
    if (!fault.at_most) return fn(fd, iov, n, at);
    if (fault.n_moves++ % 3 == 2) return errno = EINTR, -1;
    struct iovec one = iov[0];
    if (one.iov_len > fault.at_most) one.iov_len = fault.at_most;
    return fn(fd, &one, 1, at);
}

static ssize_t faulty_preadv(int fd, const struct iovec *iov, int n, off_t at) {
    return move(preadv, "preadv", fd, iov, n, at);
}
static ssize_t faulty_pwritev(int fd, const struct iovec *iov, int n, off_t at) {
    return move(pwritev, "pwritev", fd, iov, n, at);
}

static const disk_calls calls = {
    faulty_openat,    faulty_mkdirat,   faulty_unlinkat, faulty_renameat,  faulty_fstat,
    faulty_fstatat,   faulty_flock,     faulty_fallocate, faulty_ftruncate, faulty_preadv,
    faulty_pwritev,   faulty_futimens,  faulty_fdopendir, faulty_readdir,
};

/* ------------------------------------------------------------------------------------------- scene */

static char folder[FOLDER_PATH_MAX];
static int n_heard;

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx, (void)level, (void)message;
    n_heard++;
}

static kvt_status open_with(kvt_tier **out, uint64_t bytes_max) {
    return disk_open(out, folder, bytes_max, &(log_sink){hear, NULL}, &calls);
}

static kvt_tier *open_or_fail(uint64_t bytes_max) {
    kvt_tier *tier;
    assert_int_equal(open_with(&tier, bytes_max), KVT_OK);
    return tier;
}

static kvt_tier *full_store(void) {
    fault = (struct fault){0};
    n_heard = 0;
    folder_new_in_memory(folder);
    kvt_tier *tier = open_or_fail(LIMIT);
    for (uint64_t i = 0; i < N; i++) assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
    assert_int_equal(records_count(tier), N);
    return tier;
}

static void path_of(uint64_t number, char out[FOLDER_PATH_MAX + DISK_PATH_MAX]) {
    kvt_tier_key key = records_key(number);
    disk_path path;
    disk_path_record(path, &key);
    snprintf(out, FOLDER_PATH_MAX + DISK_PATH_MAX, "%s/%s", folder, path);
}

static kvt_status nothing(void *ctx, const kvt_tier_entry *entry) {
    (void)ctx, (void)entry;
    return KVT_OK;
}

static void assert_counted(kvt_tier *tier) {
    uint64_t there = folder_bytes(folder), counted = records_bytes(tier);
    assert_true(there <= LIMIT);
    assert_in_range(counted, there, there + LIMIT / 100);
}

/* All is as it should be: at most one version of each record, whole, and room for more. */
static void assert_works(kvt_tier *tier) {
    int n = 0;
    assert_true(folder_bytes(folder) <= LIMIT);
    for (uint64_t i = 0; i < 2 * N; i++) {
        kvt_status status = records_get(tier, i, SIZE, NULL);
        assert_true(status == KVT_OK || status == KVT_MISS);
        n += status == KVT_OK;
    }
    assert_true(n >= N - 2);
    for (uint64_t i = 30; i < 33; i++) {
        assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
        assert_int_equal(records_get(tier, i, SIZE, NULL), KVT_OK);
    }
    assert_counted(tier);
    assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
    assert_int_equal(kvt_tier_walk(tier, nothing, NULL), KVT_OK);
    assert_counted(tier);
}

/* ---------------------------------------------------------------------------- each call of each operation */

static kvt_status do_put(kvt_tier *tier) { return records_put(tier, N, 1, SIZE); }
static kvt_status do_replace(kvt_tier *tier) { return records_put(tier, 3, 2, SIZE); }
static kvt_status do_get(kvt_tier *tier) { return records_get(tier, 3, SIZE, NULL); }
static kvt_status do_has(kvt_tier *tier) { return records_has(tier, 50) ? KVT_E_STATE : KVT_OK; }
static kvt_status do_drop(kvt_tier *tier) { return records_drop(tier, 3), KVT_OK; }
static kvt_status do_walk(kvt_tier *tier) { return kvt_tier_walk(tier, nothing, NULL); }
static kvt_status do_usage(kvt_tier *tier) { return records_bytes(tier), KVT_OK; }
static kvt_status do_open(kvt_tier *tier) {
    (void)tier;
    kvt_tier *other;
    kvt_status status = open_with(&other, LIMIT / 2);
    kvt_tier_close(other);
    return status;
}
/* What another tier has changed is looked for. */
static kvt_status do_put_after_others(kvt_tier *tier) {
    struct fault later = fault;
    fault.on = false;
    kvt_tier *other = open_or_fail(LIMIT);
    records_put(other, N + 1, 1, SIZE);
    for (uint64_t i = 2; i < N; i++) records_get(other, i, SIZE, NULL);
    kvt_tier_close(other);
    fault = later;
    records_put(tier, N + 2, 1, SIZE);
    return records_put(tier, N + 3, 1, SIZE);
}

static const struct operation {
    kvt_status (*run)(kvt_tier *tier);
    bool shrinks;
} operations[] = {{do_put, 0}, {do_replace, 0}, {do_get, 0}, {do_has, 0}, {do_drop, 0},
                  {do_walk, 0}, {do_usage, 0}, {do_open, 1}, {do_put_after_others, 1}};
enum { N_OPERATIONS = sizeof operations / sizeof *operations };

/* One operation with one fault; false: it needed fewer calls than that. */
static bool fails_well(const struct operation *op, struct fault f) {
    kvt_tier *tier = full_store();
    int before = folder_descriptors();
    uint32_t version = 0;
    fault = f;
    kvt_status status = op->run(tier);
    bool hit = fault.hit;
    fault = (struct fault){0};
    assert_int_equal(folder_descriptors(), before);
    assert_true(status == KVT_OK || status == KVT_E_IO || (status == KVT_MISS && op->run == do_get));
    assert_true(status == KVT_OK || status == KVT_MISS || n_heard > 0);
    assert_true(n_heard <= 8);
    kvt_status there = records_get(tier, 3, SIZE, &version);
    if (op->run == do_replace && there == KVT_OK) assert_int_equal(version, status == KVT_OK ? 2 : 1);
    if (op->run == do_put && status == KVT_OK) assert_int_equal(records_get(tier, N, SIZE, NULL), KVT_OK);
    if (!op->shrinks) assert_works(tier);
    kvt_tier_close(tier);
    tier = open_or_fail(LIMIT);
    assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
    assert_counted(tier);
    assert_int_equal(records_put(tier, 40, 1, SIZE), KVT_OK);
    kvt_tier_close(tier);
    folder_remove(folder);
    return hit;
}

static void each_call_may_fail(void **state) {
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EMFILE, EACCES, EROFS};
    for (int o = 0; o < N_OPERATIONS; o++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            /* The first error at each call, the others at every third. */
            long k = (long)e % 3, step = e ? 3 : 1;
            while (fails_well(&operations[o], (struct fault){.on = true, .after = k, .error = errors[e]}))
                k += step;
        }
}

static void all_calls_may_fail_from_one_on(void **state) {
    (void)state;
    for (int o = 0; o < N_OPERATIONS; o++)
        for (struct fault f = {.on = true, .lasts = true, .error = EIO}; fails_well(&operations[o], f);) f.after++;
}

/* The process ends before a call; others go on, and one that comes later cleans up. */
static void a_process_may_end_before_each_call(void **state) {
    (void)state;
    for (int o = 0; o < N_OPERATIONS; o++)
        for (long k = 0, stopped = 1; stopped; k++) {
            kvt_tier *other = full_store();
            pid_t child = fork();
            if (child == 0) {
                kvt_tier *tier = open_or_fail(LIMIT);
                fault = (struct fault){.on = true, .stops = true, .after = k};
                operations[o].run(tier);
                _exit(0);
            }
            int ended;
            waitpid(child, &ended, 0);
            assert_true(WIFEXITED(ended));
            stopped = WEXITSTATUS(ended) == STOPPED;
            assert_true(folder_bytes(folder) <= LIMIT);
            assert_int_equal(records_put(other, 20, 1, SIZE), KVT_OK);
            assert_true(folder_bytes(folder) <= LIMIT);
            kvt_tier *tier = open_or_fail(LIMIT);
            assert_int_equal(folder_count(folder, "v1/tmp/"), 0);
            assert_counted(tier);
            if (!operations[o].shrinks) assert_works(tier);
            kvt_tier_close(other);
            kvt_tier_close(tier);
            folder_remove(folder);
        }
}

/* A store that is being made has no other that could be disturbed. */
static void a_process_may_end_before_each_call_that_makes_a_store(void **state) {
    (void)state;
    for (long k = 0, stopped = 1; stopped; k++) {
        folder_new_in_memory(folder);
        pid_t child = fork();
        if (child == 0) {
            fault = (struct fault){.on = true, .stops = true, .after = k};
            kvt_tier *tier;
            open_with(&tier, LIMIT);
            _exit(0);
        }
        int ended;
        waitpid(child, &ended, 0);
        stopped = WEXITSTATUS(ended) == STOPPED;
        kvt_tier *tier = open_or_fail(LIMIT);
        assert_int_equal(records_put(tier, 1, 1, SIZE), KVT_OK);
        assert_counted(tier);
        kvt_tier_close(tier);
        folder_remove(folder);
    }
}

static void reads_and_writes_may_be_short_and_interrupted(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    fault = (struct fault){.at_most = 999};
    for (uint64_t i = 0; i < N; i++) assert_int_equal(records_get(tier, i, SIZE, NULL), KVT_OK);
    assert_int_equal(records_put(tier, N, 1, SIZE), KVT_OK);
    fault = (struct fault){0};
    assert_int_equal(records_get(tier, N, SIZE, NULL), KVT_OK);
    static const char *const slow[] = {"flock", "fallocate"};
    for (int i = 0; i < 2; i++) {
        fault = (struct fault){.on = true, .only = slow[i], .error = EINTR};
        assert_int_equal(records_put(tier, 60 + (uint64_t)i, 1, SIZE), KVT_OK);
        assert_true(fault.hit);
    }
    fault = (struct fault){.on = true, .only = "preadv", .after = 0, .error = 0};
    assert_int_equal(records_get(tier, N, SIZE, NULL), KVT_E_CORRUPT);
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

static void a_file_system_may_have_no_fallocate(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    fault = (struct fault){.on = true, .lasts = true, .only = "fallocate", .error = EOPNOTSUPP};
    for (uint64_t i = N; i < 3 * N; i++) {
        assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
        assert_counted(tier);
    }
    kvt_tier_close(tier);
    folder_remove(folder);
}

static void an_error_is_told_once(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    fault = (struct fault){.on = true, .lasts = true, .only = "fallocate", .error = ENOSPC};
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(records_put(tier, 100 + i, 1, SIZE), KVT_E_IO);
    assert_int_equal(n_heard, 1);
    fault.error = EDQUOT;
    for (uint64_t i = 0; i < 100; i++) assert_int_equal(records_put(tier, 100 + i, 1, SIZE), KVT_E_IO);
    assert_int_equal(n_heard, 2);
    fault = (struct fault){0};
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

/* ------------------------------------------------------------------------------------- others' hands */

static void a_folder_may_vanish_and_come_back(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    int before = folder_descriptors();
    folder_remove(folder);
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(records_put(tier, i, 1, SIZE), KVT_E_IO);
        assert_true(records_get(tier, i, SIZE, NULL) == KVT_E_IO);
        assert_int_equal(records_has(tier, 1000 + i), 0);
        records_drop(tier, i);
        assert_int_equal(records_bytes(tier), 0);
    }
    assert_int_equal(kvt_tier_walk(tier, nothing, NULL), KVT_E_IO);
    assert_in_range(n_heard, 1, 2);
    assert_int_equal(mkdir(folder, 0700), 0);
    for (uint64_t i = 0; i < 2 * N; i++) {
        assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
        assert_int_equal(records_get(tier, i, SIZE, NULL), KVT_OK);
    }
    assert_int_equal(folder_descriptors(), before);
    assert_works(tier);
    /* What is in it may vanish, too. */
    char path[FOLDER_PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/v1", folder);
    folder_remove(path);
    for (uint64_t i = 0; i < 2 * N; i++) assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
    assert_works(tier);
    snprintf(path, sizeof path, "%s/v1/tmp", folder);
    folder_remove(path);
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

static void files_may_be_deleted_by_others(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    char path[FOLDER_PATH_MAX + DISK_PATH_MAX];
    for (uint64_t i = 0; i < 5; i++) {
        path_of(i, path);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(records_get(tier, 4, SIZE, NULL), KVT_MISS);
    assert_int_equal(records_has(tier, 4), 0);
    /* The count is too high until that is noticed, so that none of the others has to leave. */
    for (uint64_t i = 10; i < 15; i++) assert_int_equal(records_put(tier, i, 1, SIZE), KVT_OK);
    for (uint64_t i = 5; i < N; i++) assert_int_equal(records_get(tier, i, SIZE, NULL), KVT_OK);
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

static void a_file_of_another_length_is_damaged(void **state) {
    (void)state;
    static const long lengths[] = {0, 1, 511, 512, 513, SIZE - 1, SIZE + 1};
    kvt_tier *tier = full_store();
    char path[FOLDER_PATH_MAX + DISK_PATH_MAX];
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        path_of(2, path);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_int_equal(records_get(tier, 2, SIZE, NULL), KVT_E_CORRUPT);
        records_drop(tier, 2);
        assert_int_equal(records_get(tier, 2, SIZE, NULL), KVT_MISS);
        assert_int_equal(records_put(tier, 2, 1, SIZE), KVT_OK);
        assert_int_equal(records_get(tier, 2, SIZE, NULL), KVT_OK);
    }
    assert_int_equal(kvt_tier_walk(tier, nothing, NULL), KVT_OK);
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

static void what_is_no_file_is_a_miss(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    char path[FOLDER_PATH_MAX + DISK_PATH_MAX];
    for (uint64_t i = 0; i < 3; i++) {
        path_of(i, path);
        assert_int_equal(unlink(path), 0);
        if (i == 0) assert_int_equal(mkdir(path, 0700), 0);
        if (i == 1) assert_int_equal(symlink("/etc/passwd", path), 0);
        if (i == 2) assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(records_get(tier, i, SIZE, NULL), KVT_MISS);
        assert_int_equal(records_has(tier, i), 0);
        assert_int_equal(records_put(tier, i, 1, SIZE), i == 0 ? KVT_E_IO : KVT_OK);
        assert_int_equal(records_get(tier, i, SIZE, NULL), i == 0 ? KVT_MISS : KVT_OK);
        records_drop(tier, i);
    }
    assert_int_equal(access("/etc/passwd", F_OK), 0);
    assert_int_equal(kvt_tier_walk(tier, nothing, NULL), KVT_OK);
    kvt_tier_close(tier);
    tier = open_or_fail(LIMIT);
    assert_counted(tier);
    assert_int_equal(records_count(tier), N - 3);
    kvt_tier_close(tier);
    folder_remove(folder);
}

/* A directory of the store that is a link to one elsewhere: nothing is written there. */
static void links_are_not_followed_out_of_the_store(void **state) {
    (void)state;
    kvt_tier_key key = records_key(0);
    disk_path space, shard;
    disk_path_space(space, &key);
    disk_path_shard(shard, &key);
    const char *const links[] = {"v1", "v1/tmp", space, shard};
    for (int i = 0; i < 4; i++) {
        kvt_tier *tier = full_store();
        char path[FOLDER_PATH_MAX + DISK_PATH_MAX], elsewhere[FOLDER_PATH_MAX];
        kvt_tier_close(tier);
        folder_new(elsewhere);
        snprintf(path, sizeof path, "%s/%s", folder, links[i]);
        folder_remove(path);
        assert_int_equal(symlink(elsewhere, path), 0);
        kvt_status status = kvt_tier_disk(&tier, folder, LIMIT, NULL, NULL);
        assert_int_equal(status, i < 2 ? KVT_E_IO : KVT_OK);
        if (status == KVT_OK) assert_int_equal(records_put(tier, 0, 1, SIZE), KVT_E_IO);
        kvt_tier_close(tier);
        assert_int_equal(folder_count(elsewhere, "/"), 1);
        folder_remove(elsewhere);
        folder_remove(folder);
    }
}

static void a_damaged_state_is_made_anew(void **state) {
    (void)state;
    kvt_tier *tier = full_store();
    uint64_t bytes = records_bytes(tier);
    char path[FOLDER_PATH_MAX + 16], junk[DISK_STATE_BYTES];
    snprintf(path, sizeof path, "%s/v1/state", folder);
    for (int i = 0; i < DISK_STATE_BYTES; i++) {
        int fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, junk, sizeof junk, 0), sizeof junk);
        junk[i] ^= 0x10;
        assert_int_equal(pwrite(fd, junk, sizeof junk, 0), sizeof junk);
        close(fd);
        assert_int_equal(records_bytes(tier), bytes);
        assert_int_equal(records_count(tier), N);
    }
    assert_int_equal(truncate(path, 3), 0);
    assert_works(tier);
    kvt_tier_close(tier);
    folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_may_fail),
        cmocka_unit_test(all_calls_may_fail_from_one_on),
        cmocka_unit_test(a_process_may_end_before_each_call),
        cmocka_unit_test(a_process_may_end_before_each_call_that_makes_a_store),
        cmocka_unit_test(reads_and_writes_may_be_short_and_interrupted),
        cmocka_unit_test(a_file_system_may_have_no_fallocate),
        cmocka_unit_test(an_error_is_told_once),
        cmocka_unit_test(a_folder_may_vanish_and_come_back),
        cmocka_unit_test(files_may_be_deleted_by_others),
        cmocka_unit_test(a_file_of_another_length_is_damaged),
        cmocka_unit_test(what_is_no_file_is_a_miss),
        cmocka_unit_test(links_are_not_followed_out_of_the_store),
        cmocka_unit_test(a_damaged_state_is_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
