/* disk_room.c - who may take how much of the disk. The state file's lock makes one thread of one process the master of
 * the folder: it counts what is about to be taken before it takes it, and lets the least recently used records leave
 * until that fits. So the limit holds at every moment, and a process that dies in between leaves a count that is too
 * high; the next scan puts it right.
 *
 * The least recently used of all processes: each record that was there when this process last looked is in its index,
 * and a record's time only grows. So an entry whose file still has the time it had is the oldest of all, as long as
 * that time is before the look; everything that others have written since is younger. Only when those entries are used
 * up the folder is looked through again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cursor.h"
#include "disk.h"

enum { STATE_HASHED = DISK_STATE_BYTES - 8, SPARE_PART = 256 };
#define STATE_MAGIC 0x3165746174737476u /* "vtstate1" */

/* File systems add to files what nobody can foresee, an index of a file's pieces for one: a 256th of the limit stays
 * free for it. */
static uint64_t usable(const disk *d) { return d->bytes_max - d->bytes_max / SPARE_PART; }

static void u64_put(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static kvt_status state_write(disk *d) {
    uint8_t bytes[DISK_STATE_BYTES];
    d->written = (struct disk_counts){d->bytes, d->n_records};
    const uint64_t fields[] = {STATE_MAGIC, ++d->generation, d->bytes, d->n_records};
    for (int i = 0; i < 4; i++) u64_put(bytes + 8 * i, fields[i]);
    u64_put(bytes + STATE_HASHED, XXH3_64bits(bytes, STATE_HASHED));
    kvt_piece piece = {bytes, sizeof bytes};
    if (disk_pieces_write(d->calls, d->state, &piece, 1) == 1) return KVT_OK;
    d->doubt = true;
    return disk_fail(d, "its state cannot be written");
}

/* What others have changed. Of a state file that is new or damaged only doubt remains. */
static kvt_status state_read(disk *d) {
    uint8_t bytes[DISK_STATE_BYTES];
    kvt_piece piece = {bytes, sizeof bytes};
    int got = disk_pieces_read(d->calls, d->state, &piece, 1);
    if (got < 0) return disk_fail(d, "its state cannot be read");
    cursor c = cursor_of(bytes, sizeof bytes);
    uint64_t magic = cursor_u64(&c), generation = cursor_u64(&c);
    uint64_t count = cursor_u64(&c), n_records = cursor_u64(&c), hash = cursor_u64(&c);
    if (got == 0 || magic != STATE_MAGIC || hash != XXH3_64bits(bytes, STATE_HASHED)) {
        d->doubt = true;
        return KVT_OK;
    }
    d->foreign |= generation != d->generation;
    d->generation = generation;
    d->bytes = count;
    d->n_records = n_records;
    d->written = (struct disk_counts){count, n_records};
    return KVT_OK;
}

static kvt_status lock(disk *d) {
    while (d->calls->flock(d->state, LOCK_EX) < 0)
        if (errno != EINTR) return disk_fail(d, "cannot be locked");
    return KVT_OK;
}

static void leave(disk *d) {
    if (d->state >= 0) flock(d->state, LOCK_UN);
    pthread_mutex_unlock(&d->room);
}

static kvt_status enter(disk *d) {
    if (d->state < 0) return DISK_AWAY;
    TRY(lock(d));
    if (disk_files_away(d)) return DISK_AWAY;
    TRY(state_read(d));
    return d->doubt ? disk_scan(d) : KVT_OK;
}

kvt_status disk_room_enter(disk *d) {
    pthread_mutex_lock(&d->room);
    kvt_status status = enter(d);
    if (status != KVT_OK) leave(d);
    return status;
}

void disk_room_leave(disk *d) {
    if (d->bytes != d->written.bytes || d->n_records != d->written.n_records) state_write(d);
    leave(d);
}

kvt_status disk_room_claim(disk *d, uint64_t bytes) {
    d->bytes = bytes;
    return state_write(d);
}

bool disk_room_fits(const disk *d, uint64_t bytes) {
    return bytes <= usable(d) && usable(d) - bytes >= DISK_LEAST;
}

static kvt_status bytes_at(disk *d, const char *path, uint64_t *sum) {
    struct stat st;
    if (d->calls->fstatat(d->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0) *sum += disk_bytes(&st);
    else if (errno != ENOENT) return disk_fail(d, "a directory cannot be asked for its size");
    return KVT_OK;
}

kvt_status disk_room_directories(disk *d, const kvt_tier_key *key, uint64_t *out) {
    disk_path space, shard;
    disk_path_space(space, key);
    disk_path_shard(shard, key);
    *out = 0;
    TRY(bytes_at(d, "v1", out));
    TRY(bytes_at(d, "v1/tmp", out));
    TRY(bytes_at(d, space, out));
    return bytes_at(d, shard, out);
}

void disk_room_grown(disk *d, const kvt_tier_key *key, uint64_t before) {
    uint64_t after;
    if (disk_room_directories(d, key, &after) == KVT_OK) {
        disk_room_count(d, before, after, 0);
        return;
    }
    disk_room_count(d, 0, DISK_GROWTH, 0);
    d->doubt = true;
}

void disk_room_count(disk *d, uint64_t less, uint64_t more, int records) {
    uint64_t n_less = records < 0;
    if (d->bytes + more < less || d->n_records < n_less) d->doubt = true;
    d->bytes = d->bytes + more < less ? 0 : d->bytes + more - less;
    d->n_records = d->n_records < n_less ? 0 : d->n_records + (uint64_t)(int64_t)records;
}

static void forget(disk *d, const kvt_tier_key *key) {
    pthread_mutex_lock(&d->memory);
    disk_index_remove(&d->index, key);
    pthread_mutex_unlock(&d->memory);
}

void disk_room_check(disk *d, const kvt_tier_key *key, const struct stat *st) {
    pthread_mutex_lock(&d->memory);
    const kvt_tier_entry *known = disk_index_find(&d->index, key);
    if (known && known->bytes != disk_bytes(st)) d->doubt = true;
    pthread_mutex_unlock(&d->memory);
}

kvt_status disk_room_remove(disk *d, const kvt_tier_key *key, const struct stat *st) {
    disk_path path;
    uint64_t before;
    TRY(disk_room_directories(d, key, &before));
    disk_room_check(d, key, st);
    disk_path_record(path, key);
    if (d->calls->unlinkat(d->root, path, 0) < 0) {
        if (errno != ENOENT) return disk_fail(d, "a record cannot be removed");
        d->doubt = true;
    }
    forget(d, key);
    disk_path_shard(path, key);
    if (d->calls->unlinkat(d->root, path, AT_REMOVEDIR) == 0) {
        disk_path_space(path, key);
        d->calls->unlinkat(d->root, path, AT_REMOVEDIR);
    }
    disk_room_grown(d, key, before);
    disk_room_count(d, disk_bytes(st), 0, -1);
    return KVT_OK;
}

/* The oldest entry of the index. Its file decides: a later time than expected goes into the index, and *found stays
 * false, as it does for what is no record any more. */
static kvt_status oldest_look(disk *d, const kvt_tier_entry *oldest, struct stat *st, bool *found) {
    *found = false;
    disk_path path;
    disk_path_record(path, &oldest->key);
    if (d->calls->fstatat(d->root, path, st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT && errno != ENOTDIR) return disk_fail(d, "a record cannot be looked at");
        /* Another process has removed it, and has counted that. Or somebody else has, and nobody did. */
        forget(d, &oldest->key);
        if (!d->foreign) d->doubt = true;
        return KVT_OK;
    }
    if (!S_ISREG(st->st_mode)) {
        forget(d, &oldest->key);
        return KVT_OK;
    }
    *found = disk_used_ns(st) <= oldest->used_ns;
    if (*found) return KVT_OK;
    kvt_tier_entry what = disk_entry_of(&oldest->key, st);
    pthread_mutex_lock(&d->memory);
    disk_index_put(&d->index, &what);
    pthread_mutex_unlock(&d->memory);
    return KVT_OK;
}

static bool oldest_of(disk *d, kvt_tier_entry *out) {
    pthread_mutex_lock(&d->memory);
    const kvt_tier_entry *oldest = disk_index_oldest(&d->index);
    if (oldest) *out = *oldest;
    pthread_mutex_unlock(&d->memory);
    return oldest != NULL;
}

/* One step towards more room: the oldest record leaves, or more is known about which one that is. */
static kvt_status one_leaves(disk *d, bool *scanned) {
    kvt_tier_entry oldest;
    bool any = oldest_of(d, &oldest);
    bool unknown = any ? d->foreign && oldest.used_ns > d->scanned_ns : !*scanned;
    if (unknown || d->doubt) {
        *scanned = true;
        return disk_scan(d);
    }
    if (!any) return KVT_FULL;
    struct stat st;
    bool found;
    TRY(oldest_look(d, &oldest, &st, &found));
    return found ? disk_room_remove(d, &oldest.key, &st) : KVT_OK;
}

kvt_status disk_room_make(disk *d, uint64_t bytes) {
    bool scanned = false;
    while (bytes > usable(d) || d->bytes > usable(d) - bytes) TRY(one_leaves(d, &scanned));
    return KVT_OK;
}
