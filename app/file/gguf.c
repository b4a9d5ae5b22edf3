/* gguf.c - the reader of GGUF files, versions 2 and 3, little-endian: fills the tables of an open file. Nothing is
 * taken on trust: a count must fit what is left of the file before memory is asked for, and everything a table points
 * to lies inside.
 *
 *     magic "GGUF"   u32 version   u64 n_tensors   u64 n_keys
 *     n_keys times:     string name   u32 kind   value
 *     n_tensors times:  string name   u32 n_dims   u64 dims[n_dims]   u32 type   u64 offset
 *     padding to a multiple of general.alignment (32 unless the key says otherwise)
 *     tensor data, each at its offset from here
 *
 * A string is u64 n and n bytes; an array is u32 kind, u64 n and n values. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "file.h"
#include "kvtile_ops.h"
#include "table.h"

enum {
    HEADER_BYTES = 24,
    KEY_BYTES_MIN = 8 + 4 + 1,    /* name length, kind, a one-byte value */
    TENSOR_BYTES_MIN = 8 + 4 + 4 + 8, /* name length, n_dims, type, offset */
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MIN = 8, /* the format asks for a multiple of 8, and elements of tensors may be read as they lie */
};

/* ----------------------------------------------------------------------------------------------- keys */

static file_text take_text(cursor *c) {
    uint64_t n = cursor_u64(c);
    const char *at = (const char *)cursor_bytes(c, n);
    return at ? (file_text){at, (size_t)n} : (file_text){"", 0};
}

static kvt_status take_array(const model_file *f, cursor *c, file_key *k, error_text *err) {
    uint32_t item = cursor_u32(c);
    uint64_t n = cursor_u64(c);
    size_t width = table_kind_bytes(item), left = cursor_left(c);
    if (c->failed) return KVT_OK; /* take_key reports it */
    if (item == FILE_ARRAY)
        return file_fail(f, err, KVT_E_UNSUPPORTED, "key %.*s is an array of arrays, which this version does not read",
                         FILE_SHOW(k->name));
    if (item >= FILE_KINDS)
        return file_fail(f, err, KVT_E_CORRUPT, "key %.*s is an array of unknown type %" PRIu32, FILE_SHOW(k->name),
                         item);
    if (n > left / (width ? width : sizeof(uint64_t))) /* a string takes its length at least */
        return file_fail(f, err, KVT_E_CORRUPT,
                         "key %.*s claims %" PRIu64 " items, but only %zu bytes of the file are left",
                         FILE_SHOW(k->name), n, left);
    k->item = (file_kind)item;
    k->n = (size_t)n;
    k->data = c->at;
    if (width) cursor_bytes(c, n * width);
    else
        for (uint64_t i = 0; i < n && !c->failed; i++) take_text(c);
    k->bytes = (size_t)(c->at - k->data);
    return KVT_OK;
}

static kvt_status take_value(const model_file *f, cursor *c, file_key *k, error_text *err) {
    uint32_t kind = cursor_u32(c);
    if (c->failed) return KVT_OK; /* take_key reports it */
    if (kind >= FILE_KINDS)
        return file_fail(f, err, KVT_E_CORRUPT, "key %.*s is of unknown type %" PRIu32, FILE_SHOW(k->name), kind);
    k->kind = k->item = (file_kind)kind;
    k->n = 1;
    if (kind == FILE_ARRAY) return take_array(f, c, k, err);
    if (kind == FILE_STRING) {
        file_text text = take_text(c);
        k->data = (const uint8_t *)text.at;
        k->bytes = text.n;
        return KVT_OK;
    }
    k->bytes = table_kind_bytes(kind);
    k->data = cursor_bytes(c, k->bytes);
    return KVT_OK;
}

static kvt_status take_key(const model_file *f, cursor *c, size_t i, file_key *k, error_text *err) {
    size_t start = cursor_offset(c);
    k->name = take_text(c);
    if (!c->failed) TRY(take_value(f, c, k, err));
    if (c->failed)
        return file_fail(f, err, KVT_E_CORRUPT,
                         "the file ends inside key %zu of %zu%s%.*s (which begins at byte %zu of %zu)", i, f->n_keys,
                         k->name.n ? ", " : "", FILE_SHOW(k->name), start, f->size);
    return KVT_OK;
}

static kvt_status take_keys(model_file *f, cursor *c, uint64_t n, error_text *err) {
    if (n > cursor_left(c) / KEY_BYTES_MIN)
        return file_fail(f, err, KVT_E_CORRUPT, "claims %" PRIu64 " keys, but has only %zu bytes", n, f->size);
    f->n_keys = (size_t)n;
    f->keys = calloc(f->n_keys ? f->n_keys : 1, sizeof *f->keys);
    if (!f->keys) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu keys", f->n_keys);
    for (size_t i = 0; i < f->n_keys; i++) TRY(take_key(f, c, i, &f->keys[i], err));
    return table_sort_keys(f, err);
}

/* -------------------------------------------------------------------------------------------- tensors */

static kvt_status take_dims(const model_file *f, cursor *c, file_tensor *t, error_text *err) {
    uint32_t n_dims = cursor_u32(c);
    if (n_dims > 4)
        return file_fail(f, err, KVT_E_CORRUPT, "tensor %.*s has %" PRIu32 " dimensions, more than 4",
                         FILE_SHOW(t->name), n_dims);
    t->n_dims = (int)n_dims;
    for (int d = 0; d < 4; d++) {
        uint64_t n = d < t->n_dims ? cursor_u64(c) : 1;
        if (!c->failed && (n == 0 || n > SIZE_MAX))
            return file_fail(f, err, KVT_E_CORRUPT, "dimension %d of tensor %.*s is %" PRIu64, d, FILE_SHOW(t->name),
                             n);
        t->dims[d] = (size_t)n;
    }
    return KVT_OK;
}

/* bytes = those of a row times the rows. A type that is not offered keeps 0: nobody knows how long its rows are. */
static kvt_status size_tensor(const model_file *f, file_tensor *t, error_text *err) {
    size_t rows, elements;
    if (!mem_mul(t->dims[1], t->dims[2], &rows) || !mem_mul(rows, t->dims[3], &rows) ||
        !mem_mul(rows, t->dims[0], &elements))
        return file_fail(f, err, KVT_E_CORRUPT, "tensor %.*s of %zu x %zu x %zu x %zu elements is too large",
                         FILE_SHOW(t->name), t->dims[0], t->dims[1], t->dims[2], t->dims[3]);
    if (!kvt_weight_name((kvt_weight_type)t->type)) return KVT_OK;
    size_t row_bytes = kvt_weight_bytes((kvt_weight_type)t->type, t->dims[0]);
    if (row_bytes == 0)
        return file_fail(f, err, KVT_E_CORRUPT,
                         "tensor %.*s: a row of %zu elements is not a whole number of blocks of %s (%" PRIu32 ")",
                         FILE_SHOW(t->name), t->dims[0], file_type_name(t->type), t->type);
    if (!mem_mul(rows, row_bytes, &t->bytes))
        return file_fail(f, err, KVT_E_CORRUPT, "tensor %.*s of %zu rows of %zu bytes is too large", FILE_SHOW(t->name),
                         rows, row_bytes);
    return KVT_OK;
}

static kvt_status take_tensor(const model_file *f, cursor *c, size_t i, file_tensor *t, uint64_t *offset,
                              error_text *err) {
    size_t start = cursor_offset(c);
    t->name = take_text(c);
    if (!c->failed) TRY(take_dims(f, c, t, err));
    t->type = cursor_u32(c);
    *offset = cursor_u64(c);
    if (c->failed)
        return file_fail(f, err, KVT_E_CORRUPT,
                         "the file ends inside the entry of tensor %zu of %zu%s%.*s (which begins at byte %zu of %zu)",
                         i, f->n_tensors, t->name.n ? ", " : "", FILE_SHOW(t->name), start, f->size);
    return size_tensor(f, t, err);
}

/* Offsets count from the first multiple of the alignment behind the entries: they wait in an array until then. */
static kvt_status take_tensors(model_file *f, cursor *c, uint64_t n, uint64_t **offsets, error_text *err) {
    if (n > cursor_left(c) / TENSOR_BYTES_MIN)
        return file_fail(f, err, KVT_E_CORRUPT, "claims %" PRIu64 " tensors, but has only %zu bytes", n, f->size);
    f->n_tensors = (size_t)n;
    f->tensors = calloc(f->n_tensors ? f->n_tensors : 1, sizeof *f->tensors);
    *offsets = calloc(f->n_tensors ? f->n_tensors : 1, sizeof **offsets);
    if (!f->tensors || !*offsets) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu tensors", f->n_tensors);
    for (size_t i = 0; i < f->n_tensors; i++) TRY(take_tensor(f, c, i, &f->tensors[i], &(*offsets)[i], err));
    return table_sort_tensors(f, err);
}

static kvt_status place_tensor(const model_file *f, file_tensor *t, size_t data_start, uint32_t alignment,
                               uint64_t offset, error_text *err) {
    if (offset % alignment)
        return file_fail(f, err, KVT_E_CORRUPT,
                         "tensor %.*s is at offset %" PRIu64 ", which is not a multiple of %" PRIu32,
                         FILE_SHOW(t->name), offset, alignment);
    size_t room = f->size > data_start ? f->size - data_start : 0;
    if (offset > room || t->bytes > room - offset)
        return file_fail(f, err, KVT_E_CORRUPT,
                         "tensor %.*s (%zu bytes at offset %" PRIu64
                         ") reaches past the end: the file holds %zu bytes of tensor data",
                         FILE_SHOW(t->name), t->bytes, offset, room);
    if (t->bytes) t->data = f->data + data_start + offset;
    return KVT_OK;
}

static int by_place(const void *a, const void *b) {
    const file_tensor *const *x = a, *const *y = b;
    const char *p = (*x)->data, *q = (*y)->data;
    return (p > q) - (p < q);
}

/* Every tensor is copied when it is loaded: if they could share bytes, a small file could ask for any amount of memory.
 * Those of a type that is not offered have no known length and are left out. */
static kvt_status refuse_overlap(const model_file *f, error_text *err) {
    size_t n = 0;
    const file_tensor **placed = calloc(f->n_tensors ? f->n_tensors : 1, sizeof *placed);
    if (!placed) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu tensors", f->n_tensors);
    for (size_t i = 0; i < f->n_tensors; i++)
        if (f->tensors[i].data) placed[n++] = &f->tensors[i];
    qsort(placed, n, sizeof *placed, by_place);
    kvt_status st = KVT_OK;
    for (size_t i = 1; i < n && st == KVT_OK; i++)
        if ((const char *)placed[i]->data < (const char *)placed[i - 1]->data + placed[i - 1]->bytes)
            st = file_fail(f, err, KVT_E_CORRUPT, "tensors %.*s and %.*s overlap", FILE_SHOW(placed[i - 1]->name),
                           FILE_SHOW(placed[i]->name));
    free(placed);
    return st;
}

static kvt_status place_tensors(model_file *f, const cursor *c, const uint64_t *offsets, error_text *err) {
    uint32_t alignment = ALIGNMENT_DEFAULT;
    if (file_has(f, "general.alignment")) TRY(file_u32(f, "general.alignment", &alignment, err));
    if (alignment < ALIGNMENT_MIN || (alignment & (alignment - 1)))
        return file_fail(f, err, KVT_E_CORRUPT, "key general.alignment is %" PRIu32 ", not a power of two from %d up",
                         alignment, ALIGNMENT_MIN);
    size_t data_start = mem_round(cursor_offset(c), alignment);
    for (size_t i = 0; i < f->n_tensors; i++)
        TRY(place_tensor(f, &f->tensors[i], data_start, alignment, offsets[i], err));
    return refuse_overlap(f, err);
}

/* --------------------------------------------------------------------------------------------- header */

static kvt_status check_version(const model_file *f, uint32_t version, error_text *err) {
    if (version == 2 || version == 3) return KVT_OK;
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 0xFFFF && version > 0xFFFF)
        return file_fail(f, err, KVT_E_UNSUPPORTED,
                         "a big-endian GGUF file (version %" PRIu32 "); this version reads little-endian ones",
                         swapped);
    return file_fail(f, err, KVT_E_UNSUPPORTED, "GGUF version %" PRIu32 "; this version reads 2 and 3", version);
}

kvt_status gguf_read(model_file *f, error_text *err) {
    cursor c = cursor_of(f->data, f->size);
    const uint8_t *magic = cursor_bytes(&c, 4);
    if (!magic || memcmp(magic, "GGUF", 4) != 0)
        return file_fail(f, err, KVT_E_ARGUMENT, "is not a GGUF file (its first four bytes are not \"GGUF\")");
    if (f->size < HEADER_BYTES)
        return file_fail(f, err, KVT_E_CORRUPT, "the file ends inside the header (%zu of %d bytes)", f->size,
                         HEADER_BYTES);
    TRY(check_version(f, cursor_u32(&c), err));
    uint64_t n_tensors = cursor_u64(&c), n_keys = cursor_u64(&c), *offsets = NULL;
    TRY(take_keys(f, &c, n_keys, err));
    kvt_status st = take_tensors(f, &c, n_tensors, &offsets, err);
    if (st == KVT_OK) st = place_tensors(f, &c, offsets, err);
    free(offsets);
    return st;
}
