/* gguf_writer.c - see gguf_writer.h. */
#include "gguf_writer.h"

#include <stdlib.h>
#include <string.h>

void put_bytes(gguf_writer *w, const void *bytes, size_t n) {
    w->at = realloc(w->at, w->n + n + 1);
    if (!w->at) abort();
    if (n) memcpy(w->at + w->n, bytes, n);
    w->n += n;
}

static void put_little(gguf_writer *w, uint64_t v, int n) {
    for (; n > 0; n--, v >>= 8) put_bytes(w, &(uint8_t){(uint8_t)v}, 1);
}

void put_u32(gguf_writer *w, uint32_t v) { put_little(w, v, 4); }
void put_u64(gguf_writer *w, uint64_t v) { put_little(w, v, 8); }

void put_text(gguf_writer *w, const char *text) {
    put_u64(w, strlen(text));
    put_bytes(w, text, strlen(text));
}

void put_header(gguf_writer *w, uint32_t version, uint64_t n_tensors, uint64_t n_keys) {
    put_bytes(w, "GGUF", 4);
    put_u32(w, version);
    put_u64(w, n_tensors);
    put_u64(w, n_keys);
}

void put_padding(gguf_writer *w, size_t alignment) {
    while (w->n % alignment) put_bytes(w, "", 1);
}

void put_key(gguf_writer *w, const char *name, uint32_t kind) {
    put_text(w, name);
    put_u32(w, kind);
}

void put_key_u32(gguf_writer *w, const char *name, uint32_t v) {
    put_key(w, name, FILE_U32);
    put_u32(w, v);
}

void put_key_text(gguf_writer *w, const char *name, const char *text) {
    put_key(w, name, FILE_STRING);
    put_text(w, text);
}

void put_key_array(gguf_writer *w, const char *name, uint32_t item, uint64_t n) {
    put_key(w, name, FILE_ARRAY);
    put_u32(w, item);
    put_u64(w, n);
}

void put_key_texts(gguf_writer *w, const char *name, const char *const *text, size_t n) {
    put_key_array(w, name, FILE_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(w, text[i]);
}

void put_tensor(gguf_writer *w, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                uint64_t offset) {
    put_text(w, name);
    put_u32(w, n_dims);
    for (uint32_t d = 0; d < n_dims; d++) put_u64(w, dims[d]);
    put_u32(w, type);
    put_u64(w, offset);
}
