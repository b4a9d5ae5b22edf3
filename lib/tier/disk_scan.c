/* disk_scan.c - what is in the folder: every name looked at, no file opened but those of writers that are gone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "disk.h"

typedef struct scan {
    disk *d;
    disk_index index;
    uint64_t bytes, n_records;
    kvt_tier_key key; /* as far as directories have named it */
    uint64_t n_here;  /* names in the directory that is being read */
} scan;

typedef kvt_status (*name_fn)(scan *s, int dir, const char *name);

static bool is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

/* Others may remove what was just listed: what is not there any more is no failure. */
static kvt_status failed(scan *s, const char *what) {
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? KVT_OK : disk_fail(s->d, what);
}

static kvt_status names(scan *s, int dir, const char *path, name_fn fn) {
    const disk_calls *calls = s->d->calls;
    int fd = calls->openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0) return failed(s, "a directory cannot be opened");
    DIR *list = calls->fdopendir(fd);
    if (!list) {
        kvt_status status = disk_fail(s->d, "a directory cannot be listed");
        close(fd);
        return status;
    }
    kvt_status status = KVT_OK;
    struct dirent *entry;
    while (status == KVT_OK && (errno = 0, entry = calls->readdir(list)))
        if (!is_dots(entry->d_name)) status = fn(s, fd, entry->d_name);
    if (status == KVT_OK && errno) status = disk_fail(s->d, "a directory cannot be listed");
    closedir(list);
    return status;
}

/* Counts it. *there: it could be looked at. */
static kvt_status look(scan *s, int dir, const char *name, struct stat *st, bool *there) {
    *there = s->d->calls->fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!*there) return failed(s, "a file cannot be looked at");
    s->bytes += disk_bytes(st);
    s->n_here++;
    return KVT_OK;
}

static kvt_status record_name(scan *s, int dir, const char *name) {
    struct stat st;
    bool there;
    TRY(look(s, dir, name, &st, &there));
    kvt_tier_key key = s->key;
    if (!there || !S_ISREG(st.st_mode) || !disk_name_parse(name, key.name, sizeof key.name)) return KVT_OK;
    if (key.name[0] != s->key.name[0]) return KVT_OK;
    kvt_tier_entry what = disk_entry_of(&key, &st);
    s->n_records++;
    if (disk_index_put(&s->index, &what)) return KVT_OK;
    return log_fail(&s->d->log, KVT_E_MEMORY, "store %s: no memory for the index of %llu records", s->d->folder,
                    (unsigned long long)s->n_records);
}

/* A directory of others in it; one that is left empty by a process that died goes. */
static kvt_status directory(scan *s, int dir, const char *name, name_fn fn) {
    struct stat st;
    bool there;
    TRY(look(s, dir, name, &st, &there));
    if (!there || !S_ISDIR(st.st_mode)) return KVT_OK;
    uint64_t n_above = s->n_here;
    s->n_here = 0;
    TRY(names(s, dir, name, fn));
    bool gone = s->n_here == 0 && s->d->calls->unlinkat(dir, name, AT_REMOVEDIR) == 0;
    s->n_here = gone ? n_above - 1 : n_above;
    if (gone) s->bytes -= disk_bytes(&st);
    return KVT_OK;
}

static kvt_status shard_name(scan *s, int dir, const char *name) {
    if (disk_name_parse(name, s->key.name, 1)) return directory(s, dir, name, record_name);
    struct stat st;
    bool there;
    return look(s, dir, name, &st, &there);
}

/* Its writer holds its lock until it has another name. Who gets the lock finds a file that nobody will finish. */
static kvt_status temporary_name(scan *s, int dir, const char *name) {
    struct stat st;
    bool there;
    TRY(look(s, dir, name, &st, &there));
    if (!there || !S_ISREG(st.st_mode)) return KVT_OK;
    const disk_calls *calls = s->d->calls;
    int fd = calls->openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0) return failed(s, "a temporary file cannot be opened");
    if (calls->flock(fd, LOCK_EX | LOCK_NB) == 0 && calls->unlinkat(dir, name, 0) == 0) s->bytes -= disk_bytes(&st);
    close(fd);
    return KVT_OK;
}

static kvt_status space_name(scan *s, int dir, const char *name) {
    if (disk_name_parse(name, s->key.space, sizeof s->key.space)) return directory(s, dir, name, shard_name);
    struct stat st;
    bool there;
    TRY(look(s, dir, name, &st, &there));
    return strcmp(name, "tmp") == 0 ? names(s, dir, name, temporary_name) : KVT_OK;
}

static kvt_status scan_all(scan *s) {
    static const char *const own[] = {".", "kvtile-store", "v1"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        struct stat st;
        bool there;
        TRY(look(s, s->d->root, own[i], &st, &there));
    }
    return names(s, s->d->root, "v1", space_name);
}

kvt_status disk_scan(disk *d) {
    scan s = {.d = d};
    uint64_t now = disk_now(d);
    kvt_status status = scan_all(&s);
    if (status == KVT_OK) {
        pthread_mutex_lock(&d->memory);
        disk_index old = d->index;
        d->index = s.index;
        s.index = old;
        pthread_mutex_unlock(&d->memory);
        d->bytes = s.bytes;
        d->n_records = s.n_records;
        d->scanned_ns = now;
        d->foreign = false;
        d->doubt = false;
    }
    disk_index_free(&s.index);
    return status;
}
