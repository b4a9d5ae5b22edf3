/* weights_hash.c - see weights_hash.h. */
#include "weights_hash.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/path.h"

/* --------------------------------------------------------------------------------------------- computed */

static void tensor_add(digest *d, const file_tensor *t) {
    digest_bytes(d, "name", t->name.at, t->name.n);
    digest_number(d, "type", t->type);
    digest_number(d, "dims", (uint64_t)t->n_dims);
    for (int i = 0; i < t->n_dims; i++) digest_number(d, "dim", t->dims[i]);
    digest_bytes(d, "data", t->data, t->bytes);
}

static void compute(const model_file *f, uint8_t out[DIGEST_BYTES]) {
    digest d;
    digest_begin(&d, "kvtile weights");
    digest_number(&d, "tensors", file_tensor_count(f));
    for (size_t i = 0; i < file_tensor_count(f); i++) tensor_add(&d, file_tensor_at(f, i));
    digest_end(&d, out);
}

/* A file that is written while it is read would give a hash of neither what was there nor what is. */
static kvt_status compute_of(const char *path, file_stamp stamp, uint8_t out[DIGEST_BYTES], error_text *err) {
    model_file *f;
    TRY(file_open(&f, path, err));
    bool same = file_stamps_equal(file_stamp_of(f), stamp);
    if (same) compute(f, out);
    same = same && file_stamps_equal(file_stamp_at(path), stamp);
    kvt_status status = same ? KVT_OK : file_fail(f, err, KVT_E_STATE, "has changed since it was loaded");
    file_close(f);
    return status;
}

/* ------------------------------------------------------------------------------------------------- kept */

enum { KEPT_BYTES = PATH_BYTES + 512 };

/* What stands in the file before the hash, which counts for this path and stamp alone. */
typedef struct kept {
    char path[PATH_BYTES]; /* of the small file */
    char head[KEPT_BYTES];
    size_t n;
} kept;

static bool kept_of(const char *path, file_stamp s, kept *out) {
    uint8_t name[DIGEST_BYTES];
    char hex[DIGEST_HEX], place[DIGEST_HEX + 16];
    digest d;
    digest_begin(&d, "kvtile path");
    digest_text(&d, "path", path);
    digest_end(&d, name);
    digest_hex(name, hex);
    snprintf(place, sizeof place, "weights/%s", hex);
    if (!path_cache(place, out->path)) return false;
    int n = snprintf(out->head, sizeof out->head,
                     "kvtile weights 1\npath %s\ndevice %" PRIu64 "\ninode %" PRIu64 "\nsize %" PRIu64
                     "\nmtime_ns %" PRIu64 "\nctime_ns %" PRIu64 "\nblake2b ",
                     path, s.device, s.inode, s.size, s.mtime_ns, s.ctime_ns);
    out->n = (size_t)n;
    return n > 0 && n < (int)sizeof out->head;
}

/* The whole file; 0 bytes where there is none, or it is longer than any of ours. */
static size_t read_whole(const char *path, char *out, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe must not make this wait */
    if (fd < 0) return 0;
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < room; n += (size_t)got)
        if ((got = read(fd, out + n, room - n)) < 0) got = 0;
    close(fd);
    return n < room ? n : 0;
}

/* Word for word what would be written now, and the hash. */
static bool kept_read(const kept *k, uint8_t out[DIGEST_BYTES]) {
    char text[KEPT_BYTES + DIGEST_HEX];
    size_t n = read_whole(k->path, text, sizeof text), got = 0;
    if (n != k->n + DIGEST_HEX || memcmp(text, k->head, k->n) != 0 || text[n - 1] != '\n') return false;
    return sodium_hex2bin(out, DIGEST_BYTES, text + k->n, DIGEST_HEX - 1, NULL, &got, NULL) == 0 &&
           got == DIGEST_BYTES;
}

static void kept_write(const kept *k, const uint8_t hash[DIGEST_BYTES]) {
    char text[KEPT_BYTES + DIGEST_HEX + 1], hex[DIGEST_HEX];
    digest_hex(hash, hex);
    int n = snprintf(text, sizeof text, "%s%s\n", k->head, hex);
    path_folders_make(k->path);
    path_replace(k->path, text, (size_t)n, 0600);
}

/* File systems tell times apart by up to two seconds: what has just been written may be written once more with the same
 * stamp. */
static bool settled(file_stamp stamp) {
    static const uint64_t COARSE_NS = 2000000000;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec > stamp.ctime_ns + COARSE_NS;
}

kvt_status weights_hash(const char *path, file_stamp stamp, uint8_t out[DIGEST_BYTES], error_text *err) {
    kept k;
    bool keep = kept_of(path, stamp, &k) && settled(stamp);
    if (keep && kept_read(&k, out)) return KVT_OK;
    TRY(compute_of(path, stamp, out, err));
    if (keep) kept_write(&k, out);
    return KVT_OK;
}
