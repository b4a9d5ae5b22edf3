/* gguf_writer.h - GGUF files made by hand, right or wrong, piece by piece in the order of the format (app/file/gguf.c
 * has the picture). Nothing is checked: that is the point. */
#ifndef GGUF_WRITER_H
#define GGUF_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "file/file.h"

typedef struct gguf_writer {
    uint8_t *at; /* [n], for the caller to free */
    size_t n;
} gguf_writer;

void put_bytes(gguf_writer *w, const void *bytes, size_t n);
void put_u32(gguf_writer *w, uint32_t v);
void put_u64(gguf_writer *w, uint64_t v);
void put_text(gguf_writer *w, const char *text);
void put_header(gguf_writer *w, uint32_t version, uint64_t n_tensors, uint64_t n_keys);
void put_padding(gguf_writer *w, size_t alignment);

/* A key's name and type; its value is put next. */
void put_key(gguf_writer *w, const char *name, uint32_t kind);
void put_key_u32(gguf_writer *w, const char *name, uint32_t v);
void put_key_text(gguf_writer *w, const char *name, const char *text);
void put_key_texts(gguf_writer *w, const char *name, const char *const *text, size_t n);
/* An array's name, item type and count; its items are put next. */
void put_key_array(gguf_writer *w, const char *name, uint32_t item, uint64_t n);

void put_tensor(gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                uint64_t offset);

#endif
