/* disk_files.c - the files of the disk tier: their names, the marker that makes a folder a store, temporary files,
 * bytes in and out, and what is said when one of the system's calls fails. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "disk.h"

#define MARKER "kvtile-store"
#define STATE "v1/state"
static const char marker_line[] = "kvtile store 1\n";

enum { PIECES_AT_ONCE = 128, TEMPORARY_TRIES = 100 };

static int system_openat(int dir, const char *path, int flags, mode_t mode) { return openat(dir, path, flags, mode); }

const disk_calls disk_calls_system = {
    .openat = system_openat, .mkdirat = mkdirat, .unlinkat = unlinkat, .renameat = renameat,
    .fstat = fstat, .fstatat = fstatat, .flock = flock, .fallocate = fallocate,
    .ftruncate = ftruncate, .preadv = preadv, .pwritev = pwritev, .futimens = futimens,
    .fdopendir = fdopendir, .readdir = readdir,
};

/* --------------------------------------------------------------------------------------------- names */

static char *hex_put(char *at, const uint8_t *bytes, size_t n) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    *at = 0;
    return at;
}

void disk_path_space(disk_path out, const kvt_tier_key *key) {
    memcpy(out, "v1/", 3);
    hex_put(out + 3, key->space, sizeof key->space);
}

void disk_path_shard(disk_path out, const kvt_tier_key *key) {
    disk_path_space(out, key);
    char *at = out + strlen(out);
    *at++ = '/';
    hex_put(at, key->name, 1);
}

void disk_path_record(disk_path out, const kvt_tier_key *key) {
    disk_path_shard(out, key);
    char *at = out + strlen(out);
    *at++ = '/';
    hex_put(at, key->name, sizeof key->name);
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool disk_name_parse(const char *name, uint8_t *out, size_t n) {
    if (strlen(name) != 2 * n) return false;
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(name[2 * i]), low = digit_of(name[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* ------------------------------------------------------------------------------------- errors and time */

static bool told_before(disk *d, const char *what, int error) {
    for (int i = 0; i < d->n_told; i++)
        if (d->told[i].error == error && strcmp(d->told[i].what, what) == 0) return true;
    if (d->n_told == DISK_KINDS_MAX) return true;
    d->told[d->n_told++] = (struct disk_told){what, error};
    return false;
}

kvt_status disk_fail(disk *d, const char *what) {
    int error = errno;
    pthread_mutex_lock(&d->memory);
    bool told = told_before(d, what, error);
    pthread_mutex_unlock(&d->memory);
    if (told) return KVT_E_IO;
    char reason[128];
    return log_fail(&d->log, KVT_E_IO, "store %s: %s: %s", d->folder, what, strerror_r(error, reason, sizeof reason));
}

static uint64_t ns_of(struct timespec t) {
    return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t disk_now(disk *d) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    pthread_mutex_lock(&d->memory);
    uint64_t now = ns_of(t);
    if (now <= d->last_ns) now = d->last_ns + 1;
    d->last_ns = now;
    pthread_mutex_unlock(&d->memory);
    return now;
}

uint64_t disk_used_ns(const struct stat *st) { return ns_of(st->st_mtim); }

/* A file that was just written has no blocks yet on some systems, so its length counts too. */
uint64_t disk_bytes(const struct stat *st) {
    uint64_t blocks = (uint64_t)st->st_blocks * 512;
    if (!S_ISREG(st->st_mode)) return blocks;
    uint64_t length = ((uint64_t)st->st_size + DISK_UNIT - 1) / DISK_UNIT * DISK_UNIT;
    return blocks > length ? blocks : length;
}

kvt_tier_entry disk_entry_of(const kvt_tier_key *key, const struct stat *st) {
    return (kvt_tier_entry){
        .key = *key, .length = (uint64_t)st->st_size, .bytes = disk_bytes(st), .used_ns = disk_used_ns(st)};
}

void disk_touch(const disk_calls *calls, int fd, uint64_t used_ns) {
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(used_ns / 1000000000u), .tv_nsec = (long)(used_ns % 1000000000u)},
    };
    calls->futimens(fd, times);
}

/* ----------------------------------------------------------------------------------------- bytes */

bool disk_pieces_bytes(const kvt_piece *pieces, int n_pieces, uint64_t *out) {
    size_t sum = 0;
    for (int i = 0; i < n_pieces; i++)
        if (!mem_add(sum, pieces[i].n, &sum)) return false;
    *out = sum;
    return sum <= INT64_MAX / 2;
}

/* Where in the pieces the next byte goes. */
typedef struct spot {
    const kvt_piece *pieces;
    int n_pieces, piece;
    size_t within;
} spot;

static int spot_vectors(const spot *s, struct iovec *iov) {
    int n = 0;
    size_t within = s->within;
    for (int i = s->piece; i < s->n_pieces && n < PIECES_AT_ONCE; i++, within = 0) {
        if (s->pieces[i].n == within) continue;
        iov[n++] = (struct iovec){(char *)s->pieces[i].at + within, s->pieces[i].n - within};
    }
    return n;
}

static void spot_advance(spot *s, size_t n) {
    while (s->piece < s->n_pieces && n >= s->pieces[s->piece].n - s->within) {
        n -= s->pieces[s->piece++].n - s->within;
        s->within = 0;
    }
    s->within += n;
}

typedef ssize_t (*vector_fn)(int fd, const struct iovec *iov, int n, off_t at);

static int pieces_move(vector_fn move, int fd, const kvt_piece *pieces, int n_pieces) {
    struct iovec iov[PIECES_AT_ONCE];
    spot s = {.pieces = pieces, .n_pieces = n_pieces};
    off_t at = 0;
    for (int n; (n = spot_vectors(&s, iov)) > 0;) {
        ssize_t moved = move(fd, iov, n, at);
        if (moved < 0 && errno == EINTR) continue;
        if (moved <= 0) return (int)moved;
        at += moved;
        spot_advance(&s, (size_t)moved);
    }
    return 1;
}

int disk_pieces_read(const disk_calls *calls, int fd, const kvt_piece *pieces, int n_pieces) {
    return pieces_move(calls->preadv, fd, pieces, n_pieces);
}

int disk_pieces_write(const disk_calls *calls, int fd, const kvt_piece *pieces, int n_pieces) {
    int written = pieces_move(calls->pwritev, fd, pieces, n_pieces);
    if (written == 0) errno = EIO;
    return written == 1 ? 1 : -1;
}

/* ---------------------------------------------------------------------------------------- the folder */

/* 1: this is a store. 0: there is no marker, or an empty one, as a process leaves that dies at once. -1: neither. */
static int marker_read(disk *d) {
    char line[64];
    int fd = d->calls->openat(d->root, MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT) return 0;
    if (fd < 0) return disk_fail(d, "its file " MARKER " cannot be opened"), -1;
    ssize_t n = d->calls->preadv(fd, &(struct iovec){line, sizeof line - 1}, 1, 0);
    int error = errno;
    close(fd);
    errno = error;
    if (n < 0) return disk_fail(d, "its file " MARKER " cannot be read"), -1;
    line[n] = 0;
    if (n == 0) return 0;
    if (strcmp(line, marker_line) == 0) return 1;
    line[strcspn(line, "\n")] = 0;
    text_one_line(line);
    log_fail(&d->log, KVT_E_IO, "store %s: is of another version, \"%s\"", d->folder, line);
    return -1;
}

/* 1: nothing is in it but perhaps a marker. 0: something is. -1: told. */
static int folder_is_empty(disk *d) {
    int fd = d->calls->openat(d->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    DIR *dir = fd < 0 ? NULL : d->calls->fdopendir(fd);
    if (!dir) {
        disk_fail(d, "cannot be listed");
        if (fd >= 0) close(fd);
        return -1;
    }
    static const char *const fine[] = {".", "..", MARKER};
    int empty = 1;
    struct dirent *entry;
    while (empty == 1 && (errno = 0, entry = d->calls->readdir(dir))) {
        empty = 0;
        for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) empty |= strcmp(entry->d_name, fine[i]) == 0;
    }
    if (empty == 1 && errno) {
        disk_fail(d, "cannot be listed");
        empty = -1;
    }
    closedir(dir);
    return empty;
}

/* A folder that holds anything is made a store by nobody: a slip of the hand must not cost a user's files. */
static kvt_status marker_write(disk *d) {
    int empty = folder_is_empty(d);
    if (empty < 0) return KVT_E_IO;
    if (!empty) {
        /* Unless another process has made it one since: its marker was there before everything else. */
        int marked = marker_read(d);
        if (marked != 0) return marked > 0 ? KVT_OK : KVT_E_IO;
        return log_fail(&d->log, KVT_E_IO, "store %s: holds files, and no %s that says they are kvtile's",
                        d->folder, MARKER);
    }
    int fd = d->calls->openat(d->root, MARKER, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return disk_fail(d, "its file " MARKER " cannot be made");
    kvt_piece line = {(void *)(uintptr_t)marker_line, sizeof marker_line - 1};
    int written = disk_pieces_write(d->calls, fd, &line, 1);
    kvt_status status = written < 0 ? disk_fail(d, "its file " MARKER " cannot be written") : KVT_OK;
    close(fd);
    return status;
}

/* A link in its place is none: what lies behind it is somebody else's, and not counted. */
kvt_status disk_directory_make(disk *d, const char *path) {
    if (d->calls->mkdirat(d->root, path, 0700) == 0) return KVT_OK;
    if (errno != EEXIST) return disk_fail(d, "a directory cannot be made");
    struct stat st;
    if (d->calls->fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return disk_fail(d, "a directory cannot be looked at");
    if (S_ISDIR(st.st_mode)) return KVT_OK;
    errno = ENOTDIR;
    return disk_fail(d, "a directory cannot be made");
}

static kvt_status files_open(disk *d, bool make) {
    if (make && d->calls->mkdirat(AT_FDCWD, d->folder, 0700) < 0 && errno != EEXIST)
        return disk_fail(d, "cannot be made");
    d->root = d->calls->openat(AT_FDCWD, d->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (d->root < 0) return disk_fail(d, "cannot be opened");
    int marked = marker_read(d);
    if (marked < 0) return KVT_E_IO;
    if (!marked) TRY(marker_write(d));
    TRY(disk_directory_make(d, "v1"));
    TRY(disk_directory_make(d, "v1/tmp"));
    d->state = d->calls->openat(d->root, STATE, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (d->state < 0) return disk_fail(d, "its file " STATE " cannot be opened");
    /* It has its length before it is counted. */
    if (d->calls->ftruncate(d->state, DISK_STATE_BYTES) == 0) return KVT_OK;
    return disk_fail(d, "its file " STATE " cannot be made");
}

void disk_files_close(disk *d) {
    if (d->state >= 0) close(d->state);
    if (d->root >= 0) close(d->root);
    d->root = d->state = -1;
}

kvt_status disk_files_open(disk *d, bool make) {
    kvt_status status = files_open(d, make);
    if (status != KVT_OK) disk_files_close(d);
    return status;
}

bool disk_files_away(const disk *d) {
    struct stat st;
    return d->state < 0 || (d->calls->fstat(d->state, &st) == 0 && st.st_nlink == 0);
}

int disk_temporary_open(disk *d, disk_path out) {
    int fd = -1;
    for (int i = 0; fd < 0 && i < TEMPORARY_TRIES; i++) {
        /* Another namespace of processes may use the same numbers: then the next one. */
        snprintf(out, DISK_PATH_MAX, "v1/tmp/%lx-%x", (long)getpid(), atomic_fetch_add(&d->n_temporaries, 1));
        fd = d->calls->openat(d->root, out, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 || errno == EEXIST) continue;
        if (errno != ENOENT || d->calls->mkdirat(d->root, "v1/tmp", 0700) < 0) return -1;
    }
    if (fd < 0) return -1;
    if (d->calls->flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
    int error = errno;
    d->calls->unlinkat(d->root, out, 0);
    close(fd);
    errno = error;
    return -1;
}
