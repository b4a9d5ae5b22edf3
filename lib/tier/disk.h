/* disk.h - the disk tier among its own files. Not a door: other rooms see kvt_tier_disk, tests see this too.
 *
 *     disk.c        the tier: put, get, has, drop, walk
 *     disk_room.c   who may take how much: the lock between processes, the count, who leaves
 *     disk_scan.c   what is there: the folder read into an index
 *     disk_files.c  names, the marker, temporary files, bytes in and out, errors
 *     disk_index.c  records by key and by age, in memory
 *
 * docs/format.md has the folder's layout. Everything that changes names in it happens under the lock of the state file,
 * so whoever holds that lock sees every byte there is. */
#ifndef KVT_DISK_H
#define KVT_DISK_H

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/log.h"
#include "tier.h"

/* ------------------------------------------------------------------------------------ system calls
 * All that may fail. Tests put a table in place whose k-th call does, or is the last one. */
typedef struct disk_calls {
    int (*openat)(int dir, const char *path, int flags, mode_t mode);
    int (*mkdirat)(int dir, const char *path, mode_t mode);
    int (*unlinkat)(int dir, const char *path, int flags);
    int (*renameat)(int dir_from, const char *from, int dir_to, const char *to);
    int (*fstat)(int fd, struct stat *out);
    int (*fstatat)(int dir, const char *path, struct stat *out, int flags);
    int (*flock)(int fd, int operation);
    int (*fallocate)(int fd, int mode, off_t from, off_t n);
    int (*ftruncate)(int fd, off_t n);
    ssize_t (*preadv)(int fd, const struct iovec *iov, int n, off_t at);
    ssize_t (*pwritev)(int fd, const struct iovec *iov, int n, off_t at);
    int (*futimens)(int fd, const struct timespec times[2]);
    DIR *(*fdopendir)(int fd);
    struct dirent *(*readdir)(DIR *dir);
} disk_calls;
extern const disk_calls disk_calls_system;

/* -------------------------------------------------------------------------------------------- index */

typedef struct disk_entry {
    kvt_tier_entry what;
    uint32_t next, place; /* in its bucket, or among the free ones; in the heap */
} disk_entry;

typedef struct disk_index {
    disk_entry *entries; /* [n_max] */
    uint32_t *buckets;   /* [n_max], a power of two */
    uint32_t *heap;      /* [n], the least recently used on top */
    uint32_t n, n_max, free;
} disk_index;

/* Add a record, or say what it is now and when it was used. False: no memory, for one that was not there. */
bool disk_index_put(disk_index *index, const kvt_tier_entry *what);
const kvt_tier_entry *disk_index_find(const disk_index *index, const kvt_tier_key *key);
const kvt_tier_entry *disk_index_oldest(const disk_index *index);
void disk_index_remove(disk_index *index, const kvt_tier_key *key); /* it need not be there */
void disk_index_free(disk_index *index);

/* --------------------------------------------------------------------------------------------- tier */

enum {
    DISK_UNIT = 4096, /* what the smallest file takes */
    /* Directories grow as names come: four of them by at most two blocks each, where a list of names becomes a tree. */
    DISK_GROWTH = 8 * DISK_UNIT,
    DISK_LEAST = 16 * DISK_UNIT, /* smallest limit: the folder itself, and its growth */
    DISK_STATE_BYTES = 40,
    DISK_KINDS_MAX = 32,
    DISK_PATH_MAX = 160,
};
/* Inside the tier only: the folder is no longer where it was. */
#define DISK_AWAY KVT_E_STATE

typedef struct disk {
    log_sink log;
    const disk_calls *calls;
    char *folder;
    uint64_t bytes_max;

    pthread_rwlock_t attached; /* read: the descriptors are used; write: they are replaced */
    int root, state;           /* -1: the folder is away */

    /* What all processes share is in the state file; these are copies, right while disk_room_enter's lock is held. */
    pthread_mutex_t room;
    uint64_t generation, bytes, n_records;
    struct disk_counts {
        uint64_t bytes, n_records;
    } written; /* that the state file has */
    uint64_t scanned_ns; /* every record that was there then is in the index */
    bool foreign;        /* another process has changed the folder since */
    atomic_bool doubt;   /* something failed since: the counts or the index may be wrong */

    pthread_mutex_t memory; /* for what follows; held for memory only, never across a system call */
    disk_index index;
    uint64_t last_ns;
    struct disk_told {
        const char *what;
        int error;
    } told[DISK_KINDS_MAX];
    int n_told;

    atomic_uint n_temporaries; /* so far */
} disk;

/* kvt_tier_disk over a table of calls. */
kvt_status disk_open(kvt_tier **out, const char *folder, uint64_t bytes_max, const log_sink *log,
                     const disk_calls *calls);

/* --------------------------------------------------------------------------------------------- files */

typedef char disk_path[DISK_PATH_MAX];
void disk_path_space(disk_path out, const kvt_tier_key *key);
void disk_path_shard(disk_path out, const kvt_tier_key *key);
void disk_path_record(disk_path out, const kvt_tier_key *key);
/* n bytes of lowercase hexadecimal digits and nothing else. */
bool disk_name_parse(const char *name, uint8_t *out, size_t n);

/* Log errno, once for each `what` (a literal) and kind of error; KVT_E_IO. */
kvt_status disk_fail(disk *d, const char *what);
/* Realtime in nanoseconds, later than whatever this said before. */
uint64_t disk_now(disk *d);
/* What a file takes. */
uint64_t disk_bytes(const struct stat *st);
uint64_t disk_used_ns(const struct stat *st);
/* What the index has to know of a record with this file. */
kvt_tier_entry disk_entry_of(const kvt_tier_key *key, const struct stat *st);

/* Bytes of all pieces; false: more than a file can have. */
bool disk_pieces_bytes(const kvt_piece *pieces, int n_pieces, uint64_t *out);
/* All of them, from the file's beginning on. -1 and errno; reading, 0 where the file ends too early; 1. */
int disk_pieces_read(const disk_calls *calls, int fd, const kvt_piece *pieces, int n_pieces);
int disk_pieces_write(const disk_calls *calls, int fd, const kvt_piece *pieces, int n_pieces);
/* The file was used now; a file that cannot be told so is no failure. */
void disk_touch(const disk_calls *calls, int fd, uint64_t used_ns);

/* Open d->root and d->state: marker, folders and state file are there afterwards. `make`: the folder itself too. */
kvt_status disk_files_open(disk *d, bool make);
void disk_files_close(disk *d);
/* The folder was removed, or another one is in its place. */
bool disk_files_away(const disk *d);
kvt_status disk_directory_make(disk *d, const char *path); /* it may be there */
/* A new temporary file, locked by its descriptor: who can have that lock finds a file whose writer is gone. -1 and
 * errno. */
int disk_temporary_open(disk *d, disk_path out);

/* ---------------------------------------------------------------------------------------------- room */

/* Alone in the folder, over all threads and processes, until disk_room_leave. DISK_AWAY. */
kvt_status disk_room_enter(disk *d);
void disk_room_leave(disk *d);
/* Records leave until so many bytes are free. KVT_FULL: there is no such room, even without any record. */
kvt_status disk_room_make(disk *d, uint64_t bytes);
/* Could so many bytes ever be free? */
bool disk_room_fits(const disk *d, uint64_t bytes);
/* Write the counts down. Before bytes are taken, so that a process that dies leaves them too high, never too low. */
kvt_status disk_room_claim(disk *d, uint64_t bytes);
/* Bytes that are free now, bytes that are taken, records that came or went. Written down when the room is left. */
void disk_room_count(disk *d, uint64_t less, uint64_t more, int records);
/* A record's file leaves. Of one whose size is not what it was, somebody else has changed what is there. */
void disk_room_check(disk *d, const kvt_tier_key *key, const struct stat *st);
/* Bytes of the directories that a record of this key changes. */
kvt_status disk_room_directories(disk *d, const kvt_tier_key *key, uint64_t *out);
/* Count what they have come to since. */
void disk_room_grown(disk *d, const kvt_tier_key *key, uint64_t before);
/* Remove a file of a record and directories that this leaves empty. st: the file's. */
kvt_status disk_room_remove(disk *d, const kvt_tier_key *key, const struct stat *st);

/* Counts and index from what is there; temporary files whose writers are gone leave. In the room only. */
kvt_status disk_scan(disk *d);

#endif
