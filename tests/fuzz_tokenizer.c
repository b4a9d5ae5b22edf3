/* fuzz_tokenizer.c - any bytes as a small vocabulary and a text, over each kind of tokenizer: a file is refused with a
 * sentence, or what it encodes are ids of its own that decode, streaming as at once. Over the vocabulary of a file in
 * tests/vectors, which has all bytes (so it runs from the root of the repository), the text itself comes back.
 *
 *     1      1       1    then for each token     then   1    then
 *     kind   flags   n    type score length text         n    n bytes of table, and the text
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "model/utf8.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static tokenizer *whole_bytes;

static void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "fuzz_tokenizer: %s\n", what);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    model_file *f;
    error_text err = {""};
    check(file_open(&f, "tests/vectors/tiny-a.gguf", &err) == KVT_OK, err.text);
    check(tokenizer_open(&whole_bytes, f, &err) == KVT_OK, err.text);
    file_close(f);
    return 0;
}

/* -------------------------------------------------------------------------------------------- a vocabulary */

typedef struct input {
    const uint8_t *at;
    size_t n;
} input;

static uint8_t take(input *in) {
    if (in->n == 0) return 0;
    in->n--;
    return *in->at++;
}

static file_text take_text(input *in, size_t n) {
    file_text t = {(const char *)in->at, n < in->n ? n : in->n};
    in->at += t.n;
    in->n -= t.n;
    return t;
}

static void put(byte_list *w, const void *bytes, size_t n) {
    check(byte_list_add(w, bytes, n) == KVT_OK, "no memory");
}

static void put_number(byte_list *w, uint64_t v, size_t bytes) {
    for (; bytes > 0; bytes--, v >>= 8) put(w, &(uint8_t){(uint8_t)v}, 1);
}

static void put_text(byte_list *w, file_text t) {
    put_number(w, t.n, 8);
    put(w, t.at, t.n);
}

static void put_key(byte_list *w, const char *name, uint32_t kind) {
    put_text(w, (file_text){name, strlen(name)});
    put_number(w, kind, 4);
}

static void put_array(byte_list *w, const char *name, uint32_t item, size_t n) {
    put_key(w, name, FILE_ARRAY);
    put_number(w, item, 4);
    put_number(w, n, 8);
}

enum { TOKENS_MAX = 24 };

typedef struct model {
    const char *kind, *pre;
    uint8_t flags;
    int n;
    file_text token[TOKENS_MAX];
    uint8_t type[TOKENS_MAX], score[TOKENS_MAX];
    file_text table;
} model;

static model take_model(input *in) {
    static const char *const KINDS[][2] = {
        {"llama", ""},      {"t5", ""},         {"gpt2", "gpt-2"},        {"gpt2", "llama-bpe"},   {"gpt2", "qwen35"},
        {"gpt2", "tekken"}, {"gpt2", "gpt-4o"}, {"gpt2", "deepseek-llm"}, {"gpt2", "deepseek-v3"}, {"gpt2", "mpt"},
    };
    uint8_t kind = take(in) % (sizeof KINDS / sizeof *KINDS);
    model m = {.kind = KINDS[kind][0], .pre = KINDS[kind][1], .flags = take(in)};
    m.n = 1 + take(in) % TOKENS_MAX;
    for (int i = 0; i < m.n; i++) {
        m.type[i] = take(in) % 8;
        m.score[i] = take(in);
        m.token[i] = take_text(in, take(in) % 16);
    }
    m.table = take_text(in, take(in));
    return m;
}

/* Three neighbours of the list, the first two of which may make the third, are a merge each. */
static void put_merges(byte_list *w, const model *m) {
    put_array(w, "tokenizer.ggml.merges", FILE_STRING, (size_t)(m->flags & 8 ? m->n / 3 : 0));
    for (int i = 0; (m->flags & 8) && i < m->n / 3; i++) {
        put_number(w, m->token[3 * i].n + 1 + m->token[3 * i + 1].n, 8);
        put(w, m->token[3 * i].at, m->token[3 * i].n);
        put(w, " ", 1);
        put(w, m->token[3 * i + 1].at, m->token[3 * i + 1].n);
    }
}

static void put_flag(byte_list *w, const char *name, bool value) {
    put_key(w, name, FILE_BOOL);
    put(w, &(uint8_t){value}, 1);
}

static void put_model(byte_list *w, const model *m) {
    put(w, "GGUF", 4);
    put_number(w, 3, 4);
    put_number(w, 0, 8);
    put_number(w, 9, 8);
    put_key(w, "tokenizer.ggml.model", FILE_STRING);
    put_text(w, (file_text){m->kind, strlen(m->kind)});
    put_key(w, "tokenizer.ggml.pre", FILE_STRING);
    put_text(w, (file_text){m->pre, strlen(m->pre)});
    put_key(w, "general.architecture", FILE_STRING);
    put_text(w, (file_text){m->flags & 4 ? "phi3" : "none", 4});
    put_flag(w, "tokenizer.ggml.add_space_prefix", m->flags & 1);
    put_flag(w, "tokenizer.ggml.remove_extra_whitespaces", m->flags & 2);
    put_array(w, "tokenizer.ggml.tokens", FILE_STRING, (size_t)m->n);
    for (int i = 0; i < m->n; i++) put_text(w, m->token[i]);
    put_array(w, "tokenizer.ggml.token_type", FILE_I32, (size_t)m->n);
    for (int i = 0; i < m->n; i++) put_number(w, m->type[i], 4);
    put_array(w, "tokenizer.ggml.scores", FILE_F32, (size_t)m->n);
    for (int i = 0; i < m->n; i++) {
        float score = -(float)m->score[i] / 8;
        uint32_t bits;
        memcpy(&bits, &score, sizeof bits);
        put_number(w, m->score[i] == 0xFF ? 0x7FC00000 : bits, 4); /* not a number */
    }
    put_merges(w, m);
    if (m->table.n == 0) return;
    w->at[16]++; /* one key more */
    put_array(w, "tokenizer.ggml.precompiled_charsmap", FILE_U8, m->table.n);
    put(w, m->table.at, m->table.n);
}

/* NULL: it is refused. */
static tokenizer *open_model(const model *m) {
    byte_list w = {0};
    model_file *f;
    tokenizer *t = NULL;
    error_text err = {""};
    put_model(&w, m);
    check(file_open_memory(&f, "made.gguf", w.at, w.n, &err) == KVT_OK, err.text);
    kvt_status st = tokenizer_open(&t, f, &err);
    check((st == KVT_OK) == (t != NULL), "neither opened nor refused");
    check(t || strncmp(err.text, "made.gguf: ", 11) == 0, "refused without a sentence");
    file_close(f);
    byte_list_free(&w);
    return t;
}

/* ---------------------------------------------------------------------------------------------- a text */

static void check_stream(const tokenizer *t, const token_list *ids, const byte_list *whole, bool valid) {
    byte_list part = {0};
    tokenizer_decoder d = tokenizer_decoder_of(t, true);
    for (size_t i = 0; i < ids->n; i++) {
        check(tokenizer_push(&d, ids->id[i], &part) == KVT_OK, "a token is refused");
        check(!valid || d.n_tail == 0 || utf8_unfinished(d.tail, (size_t)d.n_tail) == (size_t)d.n_tail,
              "a whole character waits");
    }
    check(tokenizer_flush(&d, &part) == KVT_OK, "the flush fails");
    check(part.n == whole->n && (!part.n || memcmp(part.at, whole->at, part.n) == 0), "streaming differs");
    byte_list_free(&part);
}

static void check_text(const tokenizer *t, file_text text, bool parse, bool comes_back) {
    token_list ids = {0};
    byte_list repaired = {0}, whole = {0};
    check(utf8_repair(text.at, text.n, &repaired) == KVT_OK, "repair fails");
    check(tokenizer_encode(t, text.at, text.n, parse, &ids) == KVT_OK, "encoding fails");
    check(tokenizer_decode(t, ids.id, ids.n, true, &whole) == KVT_OK, "decoding fails");
    check(!comes_back || (whole.n == repaired.n && (!whole.n || memcmp(whole.at, repaired.at, whole.n) == 0)),
          "the text does not come back");
    check_stream(t, &ids, &whole, comes_back && utf8_valid(text.at, text.n));
    token_list_free(&ids);
    byte_list_free(&repaired);
    byte_list_free(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    input in = {data, n};
    model m = take_model(&in);
    file_text text = {(const char *)in.at, in.n};
    tokenizer *t = open_model(&m);
    if (t) check_text(t, text, m.flags & 16, false);
    tokenizer_close(t);
    check_text(whole_bytes, (file_text){(const char *)data, n}, m.flags & 16, true);
    return 0;
}
