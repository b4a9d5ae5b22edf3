/* file.c - an open model file: its mapping and its tables of keys and tensors, and the lookups. What the bytes mean is
 * the readers' business (gguf.c); values.c gives out what keys hold. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kvtile_ops.h"
#include "table.h"

bool file_text_is(file_text t, const char *text) {
    return strlen(text) == t.n && memcmp(t.at, text, t.n) == 0;
}

/* -------------------------------------------------------------------------------------------- errors */

kvt_status file_fail(const model_file *f, error_text *err, kvt_status status, const char *format, ...) {
    enum { NAME_MAX_SHOWN = 240 }; /* a longer path loses its beginning, so that the sentence keeps its room */
    if (!err) return status;
    size_t n = strlen(f->name);
    bool cut = n > NAME_MAX_SHOWN;
    int used =
        snprintf(err->text, sizeof err->text, "%s%s: ", cut ? "..." : "", cut ? f->name + n - NAME_MAX_SHOWN : f->name);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text + used, sizeof err->text - (size_t)used, format, args);
    va_end(args);
    text_one_line(err->text);
    return status;
}

/* ------------------------------------------------------------------------------------ open and close */

static kvt_status new_file(model_file **out, const char *name, error_text *err) {
    model_file *f = calloc(1, sizeof *f);
    if (f) f->name = strdup(name);
    if (f && f->name) {
        *out = f;
        return KVT_OK;
    }
    free(f);
    if (err) snprintf(err->text, sizeof err->text, "out of memory");
    return KVT_E_MEMORY;
}

static uint64_t ns_of(struct timespec t) {
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static file_stamp stamp_of(const struct stat *st) {
    return (file_stamp){
        .device = (uint64_t)st->st_dev,
        .inode = (uint64_t)st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = ns_of(st->st_mtim),
        .ctime_ns = ns_of(st->st_ctim),
    };
}

file_stamp file_stamp_of(const model_file *f) {
    return f->stamp;
}

file_stamp file_stamp_at(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? stamp_of(&st) : (file_stamp){ 0 };
}

bool file_stamps_equal(file_stamp a, file_stamp b) {
    return a.device == b.device && a.inode == b.inode && a.size == b.size && a.mtime_ns == b.mtime_ns &&
           a.ctime_ns == b.ctime_ns;
}

static kvt_status map(model_file *f, int fd, error_text *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return file_fail(f, err, KVT_E_ARGUMENT, "cannot be examined: %s", strerror(errno));
    if (S_ISDIR(st.st_mode)) return file_fail(f, err, KVT_E_ARGUMENT, "is a folder, not a model file");
    if (!S_ISREG(st.st_mode)) return file_fail(f, err, KVT_E_ARGUMENT, "is not a regular file");
    if (st.st_size == 0) return file_fail(f, err, KVT_E_ARGUMENT, "is empty (0 bytes)");
    if ((uintmax_t)st.st_size > SIZE_MAX)
        return file_fail(f, err, KVT_E_UNSUPPORTED, "too large for this machine (%jd bytes)", (intmax_t)st.st_size);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return file_fail(f, err, KVT_E_ARGUMENT, "cannot be mapped: %s", strerror(errno));
    f->data = p;
    f->size = (size_t)st.st_size;
    f->mapped = true;
    f->stamp = stamp_of(&st);
    return KVT_OK;
}

static kvt_status map_path(model_file *f, const char *path, error_text *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a named pipe must not make this wait */
    if (fd < 0) return file_fail(f, err, KVT_E_ARGUMENT, "cannot be opened: %s", strerror(errno));
    kvt_status st = map(f, fd, err);
    close(fd);
    return st;
}

kvt_status file_open(model_file **out, const char *path, error_text *err) {
    *out = NULL;
    model_file *f;
    TRY(new_file(&f, path, err));
    kvt_status st = map_path(f, path, err);
    if (st == KVT_OK) st = gguf_read(f, err);
    if (st == KVT_OK) *out = f;
    else file_close(f);
    return st;
}

kvt_status file_open_memory(model_file **out, const char *name, const void *data, size_t n, error_text *err) {
    *out = NULL;
    model_file *f;
    TRY(new_file(&f, name, err));
    f->data = data;
    f->size = n;
    kvt_status st = n ? gguf_read(f, err) : file_fail(f, err, KVT_E_ARGUMENT, "is empty (0 bytes)");
    if (st == KVT_OK) *out = f;
    else file_close(f);
    return st;
}

void file_close(model_file *f) {
    if (!f) return;
    if (f->mapped) munmap((void *)f->data, f->size);
    free(f->keys);
    free(f->keys_sorted);
    free(f->tensors);
    free(f->tensors_sorted);
    free(f->name);
    free(f);
}

/* ------------------------------------------------------------------------------------------- sorting */

static int compare(file_text a, file_text b) {
    int order = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int by_name(const void *a, const void *b) {
    return compare(((const file_name_at *)a)->name, ((const file_name_at *)b)->name);
}

static kvt_status sort_names(const model_file *f, file_name_at *names, size_t n, const char *what, error_text *err) {
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 1; i < n; i++)
        if (compare(names[i - 1].name, names[i].name) == 0)
            return file_fail(f, err, KVT_E_CORRUPT, "%s %.*s is there twice (numbers %zu and %zu)", what,
                             FILE_SHOW(names[i].name), names[i - 1].at, names[i].at);
    return KVT_OK;
}

/* qsort and bsearch want an array even for no names. */
static file_name_at *names_for(size_t n) {
    return calloc(n ? n : 1, sizeof(file_name_at));
}

kvt_status table_sort_keys(model_file *f, error_text *err) {
    f->keys_sorted = names_for(f->n_keys);
    if (!f->keys_sorted) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu keys", f->n_keys);
    for (size_t i = 0; i < f->n_keys; i++) f->keys_sorted[i] = (file_name_at){f->keys[i].name, i};
    return sort_names(f, f->keys_sorted, f->n_keys, "key", err);
}

kvt_status table_sort_tensors(model_file *f, error_text *err) {
    f->tensors_sorted = names_for(f->n_tensors);
    if (!f->tensors_sorted) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu tensors", f->n_tensors);
    for (size_t i = 0; i < f->n_tensors; i++) f->tensors_sorted[i] = (file_name_at){f->tensors[i].name, i};
    return sort_names(f, f->tensors_sorted, f->n_tensors, "tensor", err);
}

static const file_name_at *find(const file_name_at *sorted, size_t n, const char *name) {
    file_name_at wanted = {{name, strlen(name)}, 0};
    return bsearch(&wanted, sorted, n, sizeof *sorted, by_name);
}

/* ---------------------------------------------------------------------------------- keys and tensors */

const file_key *table_key(const model_file *f, const char *key) {
    const file_name_at *found = find(f->keys_sorted, f->n_keys, key);
    return found ? &f->keys[found->at] : NULL;
}

size_t file_key_count(const model_file *f) { return f->n_keys; }
file_text file_key_name(const model_file *f, size_t i) { return f->keys[i].name; }

size_t file_tensor_count(const model_file *f) { return f->n_tensors; }
const file_tensor *file_tensor_at(const model_file *f, size_t i) { return &f->tensors[i]; }

const file_tensor *file_tensor_find(const model_file *f, const char *name) {
    const file_name_at *found = find(f->tensors_sorted, f->n_tensors, name);
    return found ? &f->tensors[found->at] : NULL;
}

kvt_status file_need(const model_file *f, const char *name, const file_tensor **out, error_text *err) {
    const file_tensor *t = file_tensor_find(f, name);
    if (!t) return file_fail(f, err, KVT_E_CORRUPT, "tensor %s is missing (%zu others are there)", name, f->n_tensors);
    if (!t->data)
        return file_fail(f, err, KVT_E_UNSUPPORTED, "tensor %s is of type %s (%u), which this version does not read",
                         name, file_type_name(t->type), t->type);
    *out = t;
    return KVT_OK;
}

const char *file_type_name(uint32_t type) {
    /* Numbers without a name were withdrawn. */
    static const char *const names[] = {
        "F32",  "F16",     "Q4_0",   "Q4_1",    NULL,    NULL,     "Q5_0",  "Q5_1",  "Q8_0",   "Q8_1",
        "Q2_K", "Q3_K",    "Q4_K",   "Q5_K",    "Q6_K",  "Q8_K",   "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
        "IQ4_NL", "IQ3_S", "IQ2_S",  "IQ4_XS",  "I8",    "I16",    "I32",   "I64",   "F64",    "IQ1_M",
        "BF16", NULL,      NULL,     NULL,      "TQ1_0", "TQ2_0",  NULL,    NULL,    NULL,     "MXFP4",
        "NVFP4", "Q1_0",
    };
    const char *name = type < sizeof names / sizeof *names ? names[type] : NULL;
    return name ? name : "unknown";
}
