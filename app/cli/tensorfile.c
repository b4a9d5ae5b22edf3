/* tensorfile.c - see tensorfile.h. */
#include "tensorfile.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

struct row_file {
    FILE *f;
    const char *path;
    char temporary[4096]; /* "" where rows go to path itself */
    bool told;            /* a failure was told already */
    size_t n_columns;
};

static bool fail(row_file *f) {
    if (!f->told) cli_fail("%s: %s", f->path, strerror(errno));
    f->told = true;
    return false;
}

row_file *row_file_open(const char *path, size_t n_columns) {
    struct stat st;
    row_file *f = calloc(1, sizeof *f);
    if (!f) {
        cli_fail("%s: no memory", path);
        return NULL;
    }
    f->path = path;
    f->n_columns = n_columns;
    /* A device or a pipe must not be replaced by a file of its name. */
    bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    size_t room = sizeof f->temporary;
    if (special) f->f = fopen(path, "wb");
    else if ((size_t)snprintf(f->temporary, room, "%s.%ld.part", path, (long)getpid()) < room)
        f->f = fopen(f->temporary, "wb");
    else errno = ENAMETOOLONG;
    if (f->f) return f;
    fail(f);
    free(f);
    return NULL;
}

bool row_file_add(row_file *f, const float *row) {
    for (size_t i = 0; i < f->n_columns; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        const unsigned char bytes[] = { bits & 255, bits >> 8 & 255, bits >> 16 & 255, bits >> 24 };
        if (fwrite(bytes, 1, sizeof bytes, f->f) != sizeof bytes) return fail(f);
    }
    return fflush(f->f) == 0 || fail(f);
}

bool row_file_keep(row_file *f) {
    if (f->told) return false;
    FILE *stream = f->f;
    f->f = NULL;
    if (fclose(stream) != 0) return fail(f);
    if (f->temporary[0] && rename(f->temporary, f->path) != 0) return fail(f);
    f->temporary[0] = 0;
    return true;
}

void row_file_drop(row_file *f) {
    if (!f) return;
    if (f->f) fclose(f->f);
    if (f->temporary[0]) unlink(f->temporary);
    free(f);
}
