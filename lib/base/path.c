/* path.c - see path.h. */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fits(int n) {
    return n > 0 && n < PATH_BYTES;
}

bool path_cache(const char *name, char out[PATH_BYTES]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/') return fits(snprintf(out, PATH_BYTES, "%s/kvtile/%s", cache, name));
    if (home && home[0] == '/') return fits(snprintf(out, PATH_BYTES, "%s/.cache/kvtile/%s", home, name));
    return false;
}

void path_folders_make(const char *path) {
    char part[PATH_BYTES];
    if (!fits(snprintf(part, sizeof part, "%s", path))) return;
    for (char *p = part + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(part, 0700);
        *p = '/';
    }
}

/* 0, or what went wrong. */
static int write_all(int fd, const uint8_t *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t done = write(fd, bytes + at, n - at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        at += (size_t)done;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

int path_replace(const char *path, const void *bytes, size_t n, unsigned mode) {
    char beside[PATH_BYTES];
    if (!fits(snprintf(beside, sizeof beside, "%s.%ld.part", path, (long)getpid()))) return ENAMETOOLONG;
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, (mode_t)mode);
    if (fd < 0) return errno;
    int why = write_all(fd, bytes, n);
    if (close(fd) != 0 && why == 0) why = errno;
    if (why == 0 && rename(beside, path) != 0) why = errno;
    if (why != 0) unlink(beside);
    return why;
}
