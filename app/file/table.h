/* table.h - what an open model file is made of. The readers of file kinds fill it; file.c owns it, looks things up in
 * it and frees it. */
#ifndef FILE_TABLE_H
#define FILE_TABLE_H

#include "file.h"

/* One key and its value where it lies. For a scalar n is 1 and item is kind. */
typedef struct file_key {
    file_text name;
    file_kind kind, item;
    size_t n; /* scalars, or items of an array */
    const uint8_t *data;
    size_t bytes;
} file_key;

/* Names in sorted order, each with its place in the table. */
typedef struct file_name_at {
    file_text name;
    size_t at;
} file_name_at;

struct model_file {
    char *name;
    const uint8_t *data; /* [size] */
    size_t size;
    bool mapped; /* data is a mapping of ours */
    file_stamp stamp;
    file_key *keys; /* [n_keys], in the file's order */
    size_t n_keys;
    file_tensor *tensors; /* [n_tensors], in the file's order */
    size_t n_tensors;
    file_name_at *keys_sorted, *tensors_sorted; /* made by table_sort_keys, table_sort_tensors */
};

/* Sort for lookup. KVT_E_CORRUPT: a name stands there twice. */
kvt_status table_sort_keys(model_file *f, error_text *err);
kvt_status table_sort_tensors(model_file *f, error_text *err);

/* NULL: there is none. */
const file_key *table_key(const model_file *f, const char *key);

/* Width in bytes of a scalar; 0 for strings, arrays and numbers that are no kind. */
size_t table_kind_bytes(uint32_t kind);
const char *table_kind_name(file_kind kind);

/* Fill the tables from f->data. */
kvt_status gguf_read(model_file *f, error_text *err);

#endif
