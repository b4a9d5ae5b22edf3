/* handmade.c - see handmade.h. */
#include "handmade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const TOKENS[] = {"a", "b",   "c",    "ab",           "bc",         "abc", "<",
                                     ">", "<w>", "<ww>", "<|im_start|>", "<|im_end|>", "w"};
static const int32_t TYPES[] = {1, 1, 1, 1, 1, 1, 1, 1, 4, 3, 3, 3, 1};
static const char *const MERGES[] = {"b c", "a b", "a bc"};

handmade handmade_good(void) {
    return (handmade){.model = "gpt2", .pre = "gpt-2", .tokens = TOKENS, .n_tokens = 13, .types = TYPES, .n_types = 13,
                      .merges = MERGES, .n_merges = 3, .eos = 11};
}

model_file *handmade_file(const handmade *h, gguf_writer *w) {
    *w = (gguf_writer){0};
    put_header(w, 3, 0, (h->model != NULL) + (h->pre != NULL) + (h->template != NULL) + (h->types != NULL) + 3u);
    if (h->model) put_key_text(w, "tokenizer.ggml.model", h->model);
    if (h->pre) put_key_text(w, "tokenizer.ggml.pre", h->pre);
    if (h->template) put_key_text(w, "tokenizer.chat_template", h->template);
    if (h->types) put_key_array(w, "tokenizer.ggml.token_type", FILE_I32, h->n_types);
    for (size_t i = 0; h->types && i < h->n_types; i++) put_u32(w, (uint32_t)h->types[i]);
    put_key_texts(w, "tokenizer.ggml.tokens", h->tokens, h->n_tokens);
    put_key_texts(w, "tokenizer.ggml.merges", h->merges, h->n_merges);
    put_key_u32(w, "tokenizer.ggml.eos_token_id", h->eos);
    model_file *f;
    error_text err;
    if (file_open_memory(&f, "made.gguf", w->at, w->n, &err) != KVT_OK) fail_msg("%s", err.text);
    return f;
}

tokenizer *handmade_tokenizer(const handmade *h) {
    gguf_writer w;
    model_file *f = handmade_file(h, &w);
    tokenizer *t;
    error_text err;
    if (tokenizer_open(&t, f, &err) != KVT_OK) fail_msg("%s", err.text);
    file_close(f);
    free(w.at);
    return t;
}

tokenizer *handmade_open(const char *path) {
    model_file *f;
    tokenizer *t;
    error_text err;
    if (file_open(&f, path, &err) != KVT_OK) fail_msg("%s", err.text);
    if (tokenizer_open(&t, f, &err) != KVT_OK) fail_msg("%s", err.text);
    file_close(f);
    return t;
}

bool ids_same(const token_list *a, const token_list *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->id, b->id, a->n * sizeof *a->id) == 0);
}

void ids_show(const char *what, const token_list *ids) {
    print_message("    %s:", what);
    for (size_t i = 0; i < ids->n && i < 40; i++) print_message(" %d", ids->id[i]);
    print_message("\n");
}
