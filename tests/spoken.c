/* spoken.c - see spoken.h. */
#include "spoken.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MERGES = 5, TOKENS_MAX = 256 + N_MERGES + SPOKEN_CONTROLS_MAX };

/* A line break and a blank are spelled U+010A and U+0120. */
static const char *const MERGES[N_MERGES] = {"\xc4\x8a H", "\xc4\xa0 H", "H i", "] \xc4\xa0", ": \xc4\xa0"};
static const char *const MERGED[N_MERGES] = {"\xc4\x8aH", "\xc4\xa0H", "Hi", "]\xc4\xa0", ":\xc4\xa0"};

typedef struct token_table {
    char byte[256][8];
    const char *token[TOKENS_MAX];
    size_t n, n_control;
} token_table;

/* GPT-2's spelling: printable bytes as themselves, the others in their order from U+0100 on. */
static void spell_bytes(token_table *t) {
    int n_more = 0;
    for (int byte = 0; byte < 256; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        int code = itself ? byte : 256 + n_more++;
        if (code < 128) snprintf(t->byte[byte], 8, "%c", code);
        else snprintf(t->byte[byte], 8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
        t->token[t->n++] = t->byte[byte];
    }
}

static void put_id(gguf_writer *w, const char *key, const token_table *t, const char *spelling) {
    if (!spelling) return;
    for (size_t i = t->n - t->n_control; i < t->n; i++)
        if (strcmp(t->token[i], spelling) == 0) {
            put_key_u32(w, key, (uint32_t)i);
            return;
        }
    fprintf(stderr, "%s: no control token %s\n", key, spelling);
    abort();
}

/* What Phi-3's files have instead: bytes as they are written in tokens, and the blank. */
static void spell_pieces(token_table *t) {
    for (int byte = 0; byte < 256; byte++) {
        snprintf(t->byte[byte], sizeof t->byte[byte], "<0x%02X>", (unsigned)byte);
        t->token[t->n++] = t->byte[byte];
    }
    t->token[t->n++] = "\xe2\x96\x81";
}

static void put_types(gguf_writer *w, const token_table *t, bool pieces) {
    enum { NORMAL = 1, CONTROL = 3, BYTE = 6 };
    put_key_array(w, "tokenizer.ggml.token_type", FILE_I32, t->n);
    for (size_t i = 0; i < t->n; i++)
        put_u32(w, i >= t->n - t->n_control ? CONTROL : pieces && i < 256 ? BYTE : NORMAL);
}

static void put_kind(gguf_writer *w, const token_table *t, bool pieces) {
    put_key_text(w, "tokenizer.ggml.model", pieces ? "llama" : "gpt2");
    put_key_text(w, pieces ? "general.architecture" : "tokenizer.ggml.pre", pieces ? "phi3" : "gpt-2");
    if (!pieces) {
        put_key_texts(w, "tokenizer.ggml.merges", MERGES, N_MERGES);
        return;
    }
    put_key_array(w, "tokenizer.ggml.scores", FILE_F32, t->n);
    for (size_t i = 0; i < t->n; i++) put_u32(w, 0);
}

void spoken_write(const spoken *s, gguf_writer *w) {
    token_table t = {.n = 0};
    if (s->phi_3) spell_pieces(&t);
    else spell_bytes(&t);
    for (size_t i = 0; i < N_MERGES && !s->phi_3; i++) t.token[t.n++] = MERGED[i];
    for (; t.n_control < SPOKEN_CONTROLS_MAX && s->control[t.n_control]; t.n_control++)
        t.token[t.n++] = s->control[t.n_control];

    put_header(w, 3, 0, 6u + (s->template != NULL) + (s->eos != NULL) + (s->bos != NULL));
    put_kind(w, &t, s->phi_3);
    if (s->template) put_key_text(w, "tokenizer.chat_template", s->template);
    put_key_texts(w, "tokenizer.ggml.tokens", t.token, t.n);
    put_types(w, &t, s->phi_3);
    put_key(w, "tokenizer.ggml.add_bos_token", FILE_BOOL);
    put_bytes(w, &(uint8_t){s->add_bos}, 1);
    put_id(w, "tokenizer.ggml.eos_token_id", &t, s->eos);
    put_id(w, "tokenizer.ggml.bos_token_id", &t, s->bos);
}
