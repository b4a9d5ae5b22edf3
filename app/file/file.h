/* file.h - the door of the file room: a model file as named keys and named tensors, read where it lies.
 *
 *     model_file *f;
 *     error_text err;
 *     if (file_open(&f, "model.gguf", &err) != KVT_OK) ... err.text is one line: "model.gguf: what is wrong"
 *     uint32_t n_layers;
 *     file_u32(f, "llama.block_count", &n_layers, &err);
 *     const file_tensor *w;
 *     file_need(f, "output_norm.weight", &w, &err);       w->data, w->bytes, w->dims, w->type
 *     file_close(f);
 *
 * The reader of one kind of file (gguf.c) fills the tables; everything here is the same for all kinds. Every count,
 * length and offset was checked against the end of the file when it was opened, so what these calls hand out lies
 * inside. What the keys mean, and which tensors a model needs, is the model room's business.
 *
 * The file is mapped, not read: keys, names and tensor data point into it and live until file_close. A file that
 * another process shortens while it is open takes the mapping's pages away, and reading them ends this process
 * (SIGBUS); replace model files by renaming a new one over them.
 *
 * An open file does not change: threads may share it. */
#ifndef FILE_H
#define FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtile.h"

/* One line for people: which file, what, which number. Calls take NULL where nobody will read it. */
typedef struct error_text {
    char text[512];
} error_text;

typedef struct model_file model_file;

/* KVT_E_ARGUMENT: cannot be opened, or is no model file. KVT_E_CORRUPT: contradicts itself or ends too early.
 * KVT_E_UNSUPPORTED: a version this build does not read. KVT_E_MEMORY. On failure *out is NULL. */
kvt_status file_open(model_file **out, const char *path, error_text *err);
/* The same from memory that outlives the file; name stands for the path in errors. */
kvt_status file_open_memory(model_file **out, const char *name, const void *data, size_t n, error_text *err);
void file_close(model_file *f); /* NULL is fine */

/* Which file it is, and when it was last changed: equal stamps mean the same bytes, as far as its file system tells
 * times apart. All 0 for a file from memory. */
typedef struct file_stamp {
    uint64_t device, inode, size, mtime_ns, ctime_ns;
} file_stamp;
file_stamp file_stamp_of(const model_file *f); /* as it was opened */
file_stamp file_stamp_at(const char *path);    /* of what is there now; all 0: nothing */
bool file_stamps_equal(file_stamp a, file_stamp b);

/* Write "NAME: sentence" and hand the status on, for whoever finds a fault in a file:
 *     return file_fail(f, err, KVT_E_CORRUPT, "%u heads do not divide %u", heads, width); */
kvt_status file_fail(const model_file *f, error_text *err, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---------------------------------------------------------------------------------------------- keys */

/* Bytes in the file, without a 0 behind them. FILE_SHOW(t) is for "%.*s" in a message. */
typedef struct file_text {
    const char *at;
    size_t n;
} file_text;
#define FILE_SHOW(t) (int)((t).n < 100 ? (t).n : 100), (t).at
bool file_text_is(file_text t, const char *text);

/* Types of values, numbered as GGUF numbers them. */
typedef enum file_kind {
    FILE_U8 = 0,
    FILE_I8 = 1,
    FILE_U16 = 2,
    FILE_I16 = 3,
    FILE_U32 = 4,
    FILE_I32 = 5,
    FILE_F32 = 6,
    FILE_BOOL = 7,
    FILE_STRING = 8,
    FILE_ARRAY = 9,
    FILE_U64 = 10,
    FILE_I64 = 11,
    FILE_F64 = 12,
    FILE_KINDS
} file_kind;

bool file_has(const model_file *f, const char *key);

/* The value of a key that has to be there. KVT_E_CORRUPT: it is missing, of another type, or out of range; *v is left
 * as it was, so that an optional key reads:  if (file_has(f, key)) TRY(file_u32(f, key, &v, err)); */
kvt_status file_u32(const model_file *f, const char *key, uint32_t *v, error_text *err); /* from any integer type */
kvt_status file_f32(const model_file *f, const char *key, float *v, error_text *err);    /* from f32 or f64 */
kvt_status file_bool(const model_file *f, const char *key, bool *v, error_text *err);
kvt_status file_string(const model_file *f, const char *key, file_text *v, error_text *err);

/* An array of scalars or of strings, where it lies: at no particular alignment. */
typedef struct file_array {
    file_kind item;
    size_t n;
    const uint8_t *data;
    size_t bytes;
} file_array;

kvt_status file_array_of(const model_file *f, const char *key, file_kind item, file_array *v, error_text *err);
/* Of any item type: what layers may differ in is written as an array of whichever integers the writer chose. */
kvt_status file_array_any(const model_file *f, const char *key, file_array *v, error_text *err);

/* Item i of an integer array; false: not an integer type, or above INT64_MAX. */
bool file_item_i64(const file_array *a, size_t i, int64_t *v);
/* Item i of an array of f32 or f64; false: another type. */
bool file_item_f32(const file_array *a, size_t i, float *v);
/* Take the first string off an array of strings: n and data move on. */
file_text file_take_string(file_array *a);

/* All keys in the file's order, for listing; the name alone. */
size_t file_key_count(const model_file *f);
file_text file_key_name(const model_file *f, size_t i);

/* ------------------------------------------------------------------------------------------- tensors */

typedef struct file_tensor {
    file_text name;
    int n_dims;
    size_t dims[4];   /* dims[0] runs fastest: a matrix of r rows and c columns is {c, r, 1, 1} */
    uint32_t type;    /* as kvt_weight_type numbers them; may be one that this build does not offer */
    const void *data; /* NULL for such a type: file_need says so in words */
    size_t bytes;     /* 0 for such a type */
} file_tensor;

size_t file_tensor_count(const model_file *f);
const file_tensor *file_tensor_at(const model_file *f, size_t i);          /* in the file's order */
const file_tensor *file_tensor_find(const model_file *f, const char *name); /* NULL: there is none */

/* A tensor whose data is wanted. KVT_E_CORRUPT: there is no such name. KVT_E_UNSUPPORTED: its type is not offered. */
kvt_status file_need(const model_file *f, const char *name, const file_tensor **out, error_text *err);

/* Name of a tensor type, offered or not ("Q6_K"); "unknown" for a number that has none. */
const char *file_type_name(uint32_t type);

#endif
