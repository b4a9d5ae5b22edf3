/* handmade.c - see handmade.h. */
#include "handmade.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
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

static const char *const SPM_TOKENS[] = {
    "<unk>", "<s>", "</s>", "<0x41>", "<0xC3>", "\xE2\x96\x81", "a", "b", "ab", "\xE2\x96\x81" "a",
    "\xE2\x96\x81" "ab", "bb", "<w>", "<|end|>"};
static const int32_t SPM_TYPES[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4, 3};
static const float SPM_SCORES[] = {0, 0, 0, 0, 0, -8, -7, -6, -2, -3, -4, -1, 0, 0};

handmade handmade_spm(void) {
    return (handmade){.model = "llama", .tokens = SPM_TOKENS, .n_tokens = 14, .types = SPM_TYPES, .n_types = 14,
                      .scores = SPM_SCORES, .n_scores = 14, .eos = 2};
}

/* Each word of the list as a key. */
static uint32_t put_flags(gguf_writer *w, const char *flags) {
    uint32_t count = 0;
    for (size_t n; *flags; flags += n + (flags[n] == ' '), count++) {
        char key[64];
        bool no = *flags == '!';
        n = strcspn(flags, " ");
        snprintf(key, sizeof key, "tokenizer.ggml.%.*s", (int)n - no, flags + no);
        put_key(w, key, FILE_BOOL);
        put_bytes(w, no ? "\0" : "\1", 1);
    }
    return count;
}

static void put_scores(gguf_writer *w, const handmade *h) {
    put_key_array(w, "tokenizer.ggml.scores", FILE_F32, h->n_scores);
    for (size_t i = 0; i < h->n_scores; i++) {
        uint32_t bits;
        memcpy(&bits, &h->scores[i], sizeof bits);
        put_u32(w, bits);
    }
}

model_file *handmade_file(const handmade *h, gguf_writer *w) {
    gguf_writer flags = {0};
    *w = (gguf_writer){0};
    put_header(w, 3, 0, (h->model != NULL) + (h->pre != NULL) + (h->template != NULL) + (h->types != NULL) +
                            (h->architecture != NULL) + (h->scores != NULL) + (h->table != NULL) + (h->bos > 0) + 3u +
                            put_flags(&flags, h->flags ? h->flags : ""));
    put_bytes(w, flags.at, flags.n);
    free(flags.at);
    if (h->bos) put_key_u32(w, "tokenizer.ggml.bos_token_id", h->bos - 1);
    if (h->architecture) put_key_text(w, "general.architecture", h->architecture);
    if (h->scores) put_scores(w, h);
    if (h->table) put_key_array(w, "tokenizer.ggml.precompiled_charsmap", FILE_U8, h->n_table);
    if (h->table) put_bytes(w, h->table, h->n_table);
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

void handmade_encodes(int line, const tokenizer *t, const char *text, bool parse, const int32_t *want) {
    token_list got = {0};
    size_t n = 0;
    while (want[n] >= 0) n++;
    assert_int_equal(tokenizer_encode(t, text, strlen(text), parse, &got), KVT_OK);
    if (got.n != n || (n && memcmp(got.id, want, n * sizeof *want) != 0)) {
        ids_show("got", &got);
        fail_msg("line %d: %s", line, text);
    }
    token_list_free(&got);
}

void handmade_refused(handmade h, kvt_status want, const char *word) {
    gguf_writer w;
    model_file *f = handmade_file(&h, &w);
    tokenizer *t;
    error_text err = {""};
    kvt_status got = tokenizer_open(&t, f, &err);
    if (got != want || t || strncmp(err.text, "made.gguf: ", 11) != 0 || !strstr(err.text, word))
        fail_msg("status %d, not %d: \"%s\", not \"%s\"", got, want, err.text, word);
    file_close(f);
    free(w.at);
}
