/* disk.c - records in a folder, a file for each, as ccache and git keep objects: written under a temporary name, then
 * renamed. Nothing is synchronised: after a loss of power a file may be torn, which its checksum shows, and a damaged
 * record is a miss. Files are read, never mapped: one that others truncate gives an error and no signal.
 *
 * Bytes are read and written outside all locks; the room (disk_room.c) is entered to take space and to change names. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "disk.h"

typedef struct job {
    const kvt_tier_key *key;
    const kvt_piece *pieces;
    int n_pieces;
    uint64_t bytes;
} job;

typedef kvt_status (*job_fn)(disk *d, const job *j);

/* ------------------------------------------------------------------------------------------ the folder */

/* Everything that is there is known and within the limit afterwards. Alone with the descriptors. */
static kvt_status attach(disk *d, bool make) {
    TRY(disk_files_open(d, make));
    d->doubt = true;
    kvt_status status = disk_room_enter(d);
    if (status == KVT_OK) {
        status = disk_room_make(d, 0);
        disk_room_leave(d);
    }
    if (status == KVT_OK || status == KVT_FULL) return KVT_OK;
    disk_files_close(d);
    return status == DISK_AWAY ? log_fail(&d->log, KVT_E_IO, "store %s: is being removed", d->folder) : status;
}

/* The folder went away. It is not made again, since what is missing may be a disk; if it is back, it is used. */
static kvt_status attach_again(disk *d) {
    pthread_rwlock_wrlock(&d->attached);
    kvt_status status = KVT_OK;
    if (disk_files_away(d)) {
        disk_files_close(d);
        status = attach(d, false);
    }
    pthread_rwlock_unlock(&d->attached);
    return status;
}

static kvt_status run(disk *d, job_fn fn, const job *j) {
    for (int tries = 0; tries < 2; tries++) {
        pthread_rwlock_rdlock(&d->attached);
        kvt_status status = fn(d, j);
        pthread_rwlock_unlock(&d->attached);
        if (status != DISK_AWAY) return status;
        TRY(attach_again(d));
    }
    return KVT_E_IO;
}

/* ----------------------------------------------------------------------------------------------- put */

typedef struct temporary {
    disk_path path;
    int fd;
    uint64_t bytes; /* it takes */
} temporary;

/* All of its bytes, so that whoever counts the files counts them. */
static kvt_status fill_up(disk *d, temporary *t, uint64_t bytes) {
    struct stat st;
    int error = bytes > 0 ? -1 : 0;
    for (errno = EINTR; error < 0 && errno == EINTR;) error = d->calls->fallocate(t->fd, 0, 0, (off_t)bytes);
    /* Where a file system has no such call its length is counted. */
    if (error < 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) error = d->calls->ftruncate(t->fd, (off_t)bytes);
    if (error < 0) return disk_fail(d, "no space for a record");
    if (d->calls->fstat(t->fd, &st) < 0) return disk_fail(d, "a temporary file cannot be looked at");
    t->bytes = disk_bytes(&st);
    return KVT_OK;
}

/* In the room. */
static void temporary_drop(disk *d, temporary *t) {
    if (d->calls->unlinkat(d->root, t->path, 0) == 0 || errno == ENOENT) disk_room_count(d, t->bytes, 0, 0);
    else d->doubt = true;
}

/* In the room. What it may take is written down before it is taken, what it takes afterwards. */
static kvt_status temporary_take(disk *d, const job *j, temporary *t) {
    uint64_t need = disk_bytes(&(struct stat){.st_mode = S_IFREG, .st_size = (off_t)j->bytes}), before;
    TRY(disk_room_make(d, need + DISK_GROWTH));
    TRY(disk_room_directories(d, j->key, &before));
    TRY(disk_room_claim(d, d->bytes + need + DISK_GROWTH));
    t->fd = disk_temporary_open(d, t->path);
    kvt_status status = t->fd < 0 ? disk_fail(d, "a temporary file cannot be made") : fill_up(d, t, j->bytes);
    disk_room_grown(d, j->key, before);
    disk_room_count(d, need + DISK_GROWTH, t->bytes, 0);
    if (status == KVT_OK || t->fd < 0) return status;
    temporary_drop(d, t);
    close(t->fd);
    return status;
}

static kvt_status reserve(disk *d, const job *j, temporary *t) {
    TRY(disk_room_enter(d));
    kvt_status status = temporary_take(d, j, t);
    disk_room_leave(d);
    return status;
}

/* In the room: the file gets its name. *old: what a record of this name took. */
static kvt_status name_give(disk *d, const job *j, const temporary *t, uint64_t *old, bool *replaced) {
    disk_path path;
    disk_path_space(path, j->key);
    TRY(disk_directory_make(d, path));
    disk_path_shard(path, j->key);
    TRY(disk_directory_make(d, path));
    disk_path_record(path, j->key);
    struct stat st;
    bool there = d->calls->fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT) return disk_fail(d, "a record cannot be looked at");
    if (d->calls->renameat(d->root, t->path, d->root, path) < 0) return disk_fail(d, "a record cannot be named");
    if (there) disk_room_check(d, j->key, &st);
    *replaced = there && S_ISREG(st.st_mode);
    *old = there ? disk_bytes(&st) : 0;
    return KVT_OK;
}

/* In the room. The file system may have taken a little more for the file since it was made. */
static kvt_status publish_in(disk *d, const job *j, temporary *t, uint64_t used_ns) {
    struct stat st;
    uint64_t before, old = 0;
    bool replaced = false;
    TRY(disk_room_make(d, DISK_GROWTH));
    if (d->calls->fstat(t->fd, &st) < 0) return disk_fail(d, "a temporary file cannot be looked at");
    TRY(disk_room_directories(d, j->key, &before));
    TRY(disk_room_claim(d, d->bytes + DISK_GROWTH));
    kvt_status status = name_give(d, j, t, &old, &replaced);
    disk_room_grown(d, j->key, before);
    disk_room_count(d, DISK_GROWTH, 0, 0);
    TRY(status);
    disk_room_count(d, t->bytes + old, disk_bytes(&st), !replaced);
    kvt_tier_entry what = disk_entry_of(j->key, &st);
    what.used_ns = used_ns;
    pthread_mutex_lock(&d->memory);
    if (!disk_index_put(&d->index, &what)) d->doubt = true;
    pthread_mutex_unlock(&d->memory);
    return KVT_OK;
}

/* Where no lock is to be had: the count stays too high until the next look at the folder. */
static void temporary_abandon(disk *d, const temporary *t) {
    d->calls->unlinkat(d->root, t->path, 0);
    d->doubt = true;
}

static void temporary_give(disk *d, temporary *t) {
    if (disk_room_enter(d) != KVT_OK) {
        temporary_abandon(d, t);
        return;
    }
    temporary_drop(d, t);
    disk_room_leave(d);
}

static kvt_status publish(disk *d, const job *j, temporary *t) {
    kvt_status status = disk_room_enter(d);
    if (status != KVT_OK) {
        temporary_abandon(d, t);
        return status;
    }
    uint64_t now = disk_now(d);
    disk_touch(d->calls, t->fd, now);
    status = publish_in(d, j, t, now);
    if (status != KVT_OK) temporary_drop(d, t);
    disk_room_leave(d);
    return status;
}

static kvt_status put_job(disk *d, const job *j) {
    temporary t = {.fd = -1};
    TRY(reserve(d, j, &t));
    kvt_status status;
    if (disk_pieces_write(d->calls, t.fd, j->pieces, j->n_pieces) == 1) {
        status = publish(d, j, &t);
    } else {
        status = disk_fail(d, "a record cannot be written");
        temporary_give(d, &t);
    }
    close(t.fd);
    return status;
}

static kvt_status put(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    disk *d = ctx;
    job j = {.key = key, .pieces = pieces, .n_pieces = n_pieces};
    if (!disk_pieces_bytes(pieces, n_pieces, &j.bytes) || !disk_room_fits(d, j.bytes)) return KVT_FULL;
    return run(d, put_job, &j);
}

/* ----------------------------------------------------------------------------------------------- get */

static uint64_t known_since(disk *d, const kvt_tier_key *key) {
    pthread_mutex_lock(&d->memory);
    const kvt_tier_entry *e = disk_index_find(&d->index, key);
    uint64_t used = e ? e->used_ns : 0;
    pthread_mutex_unlock(&d->memory);
    return used;
}

/* The file was not there. If it has been written since, the entry has another time. */
static kvt_status missing(disk *d, const kvt_tier_key *key, uint64_t known) {
    if (disk_files_away(d)) return DISK_AWAY;
    pthread_mutex_lock(&d->memory);
    const kvt_tier_entry *e = disk_index_find(&d->index, key);
    if (e && e->used_ns == known) disk_index_remove(&d->index, key);
    pthread_mutex_unlock(&d->memory);
    return KVT_MISS;
}

/* What is of another version may well have another length. It is not damaged, and nobody's to drop. */
static kvt_status read_other(disk *d, int fd) {
    uint8_t header[RECORD_HEADER] = {0};
    kvt_piece piece = {header, sizeof header};
    if (disk_pieces_read(d->calls, fd, &piece, 1) < 0) return disk_fail(d, "a record cannot be read");
    uint32_t version = record_version(header);
    return version == 0 || version == RECORD_VERSION ? KVT_E_CORRUPT : KVT_E_UNSUPPORTED;
}

static kvt_status read_whole(disk *d, int fd, const job *j) {
    struct stat st;
    if (d->calls->fstat(fd, &st) < 0) return disk_fail(d, "a record cannot be looked at");
    if (!S_ISREG(st.st_mode)) return KVT_MISS;
    if ((uint64_t)st.st_size != j->bytes) return read_other(d, fd);
    int got = disk_pieces_read(d->calls, fd, j->pieces, j->n_pieces);
    if (got < 0) return disk_fail(d, "a record cannot be read");
    return got ? KVT_OK : KVT_E_CORRUPT;
}

static void used(disk *d, int fd, const kvt_tier_key *key) {
    uint64_t now = disk_now(d);
    disk_touch(d->calls, fd, now);
    pthread_mutex_lock(&d->memory);
    const kvt_tier_entry *e = disk_index_find(&d->index, key);
    if (e) {
        kvt_tier_entry what = *e;
        what.used_ns = now;
        disk_index_put(&d->index, &what);
    }
    pthread_mutex_unlock(&d->memory);
}

static kvt_status get_job(disk *d, const job *j) {
    if (d->root < 0) return DISK_AWAY;
    disk_path path;
    disk_path_record(path, j->key);
    uint64_t known = known_since(d, j->key);
    /* Not blocking: what lies there in a record's place may be a pipe. */
    int fd = d->calls->openat(d->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return missing(d, j->key, known);
    if (fd < 0) return disk_fail(d, "a record cannot be opened");
    kvt_status status = read_whole(d, fd, j);
    if (status == KVT_OK) used(d, fd, j->key);
    close(fd);
    return status == KVT_MISS ? missing(d, j->key, known) : status;
}

static kvt_status get(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    job j = {.key = key, .pieces = pieces, .n_pieces = n_pieces};
    if (!disk_pieces_bytes(pieces, n_pieces, &j.bytes)) return KVT_E_CORRUPT;
    return run(ctx, get_job, &j);
}

/* The owner of a cache asks, and waits for nobody: while the folder is looked for again, nothing is there. */
static int has(void *ctx, const kvt_tier_key *key) {
    disk *d = ctx;
    if (known_since(d, key)) return 1;
    /* Another process may have written it. */
    disk_path path;
    disk_path_record(path, key);
    struct stat st;
    if (pthread_rwlock_tryrdlock(&d->attached) != 0) return 0;
    int there = d->root >= 0 && d->calls->fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    pthread_rwlock_unlock(&d->attached);
    return there;
}

/* -------------------------------------------------------------------------------------------- drop, walk */

static kvt_status drop_in(disk *d, const job *j) {
    disk_path path;
    disk_path_record(path, j->key);
    struct stat st;
    if (d->calls->fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0) return disk_room_remove(d, j->key, &st);
    return errno == ENOENT || errno == ENOTDIR ? KVT_OK : disk_fail(d, "a record cannot be looked at");
}

static kvt_status drop_job(disk *d, const job *j) {
    uint64_t known = known_since(d, j->key);
    TRY(disk_room_enter(d));
    kvt_status status = drop_in(d, j);
    if (status == KVT_OK) missing(d, j->key, known);
    disk_room_leave(d);
    return status;
}

static void drop(void *ctx, const kvt_tier_key *key) { run(ctx, drop_job, &(job){.key = key}); }

static kvt_status look_job(disk *d, const job *j) {
    (void)j;
    TRY(disk_room_enter(d));
    kvt_status status = disk_scan(d);
    disk_room_leave(d);
    return status;
}

static int by_age(const void *a, const void *b) {
    uint64_t x = ((const kvt_tier_entry *)a)->used_ns, y = ((const kvt_tier_entry *)b)->used_ns;
    return x < y ? -1 : x > y;
}

static kvt_tier_entry *snapshot(disk *d, size_t *n) {
    pthread_mutex_lock(&d->memory);
    const disk_index *index = &d->index;
    *n = index->n;
    kvt_tier_entry *entries = malloc((*n + 1) * sizeof *entries);
    for (size_t i = 0; entries && i < *n; i++) entries[i] = index->entries[index->heap[i]].what;
    pthread_mutex_unlock(&d->memory);
    return entries;
}

/* Of what is there when it begins, other processes' records included; no lock is held while fn runs. */
static kvt_status walk(void *ctx, kvt_tier_fn fn, void *fn_ctx) {
    disk *d = ctx;
    TRY(run(d, look_job, NULL));
    size_t n;
    kvt_tier_entry *entries = snapshot(d, &n);
    if (!entries) return log_fail(&d->log, KVT_E_MEMORY, "store %s: no memory to list %zu records", d->folder, n);
    qsort(entries, n, sizeof *entries, by_age);
    kvt_status status = KVT_OK;
    for (size_t i = 0; status == KVT_OK && i < n; i++) status = fn(fn_ctx, &entries[i]);
    free(entries);
    return status;
}

/* ------------------------------------------------------------------------------------- usage, open, close */

static kvt_status usage_job(disk *d, const job *j) {
    (void)j;
    TRY(disk_room_enter(d));
    disk_room_leave(d);
    return KVT_OK;
}

static void usage(void *ctx, kvt_tier_usage *out) {
    disk *d = ctx;
    *out = (kvt_tier_usage){.bytes_max = d->bytes_max};
    if (run(d, usage_job, NULL) != KVT_OK) return;
    pthread_mutex_lock(&d->room);
    out->bytes = d->bytes;
    out->n_records = d->n_records;
    pthread_mutex_unlock(&d->room);
}

static void disk_close(void *ctx) {
    disk *d = ctx;
    disk_files_close(d);
    disk_index_free(&d->index);
    pthread_rwlock_destroy(&d->attached);
    pthread_mutex_destroy(&d->room);
    pthread_mutex_destroy(&d->memory);
    free(d->folder);
    free(d);
}

static const kvt_tier_ops ops = {"disk", put, get, has, drop, walk, usage, disk_close};

static disk *disk_new(const char *folder, uint64_t bytes_max, const log_sink *log, const disk_calls *calls) {
    disk *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    *d = (disk){.log = *log, .calls = calls, .folder = strdup(folder), .bytes_max = bytes_max, .root = -1, .state = -1};
    pthread_rwlock_init(&d->attached, NULL);
    pthread_mutex_init(&d->room, NULL);
    pthread_mutex_init(&d->memory, NULL);
    if (d->folder) return d;
    disk_close(d);
    return NULL;
}

kvt_status disk_open(kvt_tier **out, const char *folder, uint64_t bytes_max, const log_sink *log,
                     const disk_calls *calls) {
    *out = NULL;
    if (bytes_max < DISK_LEAST)
        return log_fail(log, KVT_E_ARGUMENT, "a limit of %llu bytes: a store needs %d at least",
                        (unsigned long long)bytes_max, (int)DISK_LEAST);
    disk *d = disk_new(folder, bytes_max, log, calls);
    if (!d) return log_fail(log, KVT_E_MEMORY, "no memory for a store");
    kvt_status status = attach(d, true);
    if (status == KVT_OK) status = kvt_tier_new(out, &ops, d);
    if (status != KVT_OK) disk_close(d);
    return status;
}

kvt_status kvt_tier_disk(kvt_tier **out, const char *folder, uint64_t bytes_max, kvt_log_fn log, void *log_ctx) {
    if (!out || !folder) return KVT_E_ARGUMENT;
    return disk_open(out, folder, bytes_max, &(log_sink){log, log_ctx}, &disk_calls_system);
}
