/* tokenizer.c - see tokenizer.h: special tokens, pre-tokenizer and BPE put together, and the way back to bytes. */
#include "tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bpe.h"
#include "pretokenize.h"
#include "utf8.h"
#include "vocab.h"

enum { ENDS_MAX = 4 };

struct tokenizer {
    tokenizer_info info;
    vocab vocab;
    bpe bpe;
    pretokenizer *pre;
    int32_t end[ENDS_MAX]; /* tokens that end an answer, -1 where fewer */
};

/* -------------------------------------------------------------------------------------------- opening */

/* -1 where the file names none. */
static kvt_status read_id(const model_file *f, const char *key, int32_t n_vocab, int32_t *id, error_text *err) {
    uint32_t wide;
    *id = -1;
    if (!file_has(f, key)) return KVT_OK;
    TRY(file_u32(f, key, &wide, err));
    if (wide >= (uint32_t)n_vocab)
        return file_fail(f, err, KVT_E_CORRUPT, "%s is %" PRIu32 ", but there are %" PRId32 " tokens", key, wide,
                         n_vocab);
    *id = (int32_t)wide;
    return KVT_OK;
}

static kvt_status read_info(tokenizer *t, const model_file *f, error_text *err) {
    tokenizer_info *info = &t->info;
    info->n_vocab = t->vocab.n;
    TRY(read_id(f, "tokenizer.ggml.bos_token_id", t->vocab.n, &info->bos, err));
    TRY(read_id(f, "tokenizer.ggml.eos_token_id", t->vocab.n, &info->eos, err));
    TRY(read_id(f, "tokenizer.ggml.eot_token_id", t->vocab.n, &info->eot, err));
    if (file_has(f, "tokenizer.ggml.add_bos_token"))
        TRY(file_bool(f, "tokenizer.ggml.add_bos_token", &info->add_bos, err));
    if (info->bos < 0) info->add_bos = false;
    const int32_t ends[ENDS_MAX] = {info->eos, info->eot, tokenizer_control(t, "<|im_end|>"),
                                    tokenizer_control(t, "<|endoftext|>")};
    memcpy(t->end, ends, sizeof ends);
    return KVT_OK;
}

static kvt_status check_kind(const model_file *f, error_text *err) {
    file_text kind;
    TRY(file_string(f, "tokenizer.ggml.model", &kind, err));
    if (kind.n == 4 && memcmp(kind.at, "gpt2", 4) == 0) return KVT_OK;
    return file_fail(f, err, KVT_E_UNSUPPORTED,
                     "its tokenizer is of kind \"%.*s\"; this version knows \"gpt2\" (byte-level BPE)",
                     FILE_SHOW(kind));
}

static kvt_status open_parts(tokenizer *t, const model_file *f, error_text *err) {
    spellings s;
    int32_t n;
    TRY(spellings_open(&s, f, &n, err));
    kvt_status st = vocab_open(&t->vocab, f, &s, n, err);
    if (st == KVT_OK) st = bpe_open(&t->bpe, f, &s, err);
    spellings_close(&s);
    TRY(st);
    return read_info(t, f, err);
}

kvt_status tokenizer_open(tokenizer **out, const model_file *f, error_text *err) {
    *out = NULL;
    TRY(check_kind(f, err));
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    kvt_status st = pretokenizer_open(&t->pre, f, err);
    if (st == KVT_OK) st = open_parts(t, f, err);
    if (st == KVT_OK) *out = t;
    else tokenizer_close(t);
    return st;
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    pretokenizer_close(t->pre);
    bpe_close(&t->bpe);
    vocab_close(&t->vocab);
    free(t);
}

/* ------------------------------------------------------------------------------------------- looking */

const tokenizer_info *tokenizer_about(const tokenizer *t) { return &t->info; }

bool tokenizer_is_end(const tokenizer *t, int32_t id) {
    for (int i = 0; i < ENDS_MAX; i++)
        if (t->end[i] == id) return id >= 0;
    return false;
}

static bool known(const tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocab.n;
}

bool tokenizer_is_control(const tokenizer *t, int32_t id) {
    return known(t, id) && t->vocab.control[id];
}

int32_t tokenizer_control(const tokenizer *t, const char *text) {
    const vocab_special *s = vocab_special_find(&t->vocab, text, strlen(text));
    return s && s->control ? s->id : -1;
}

const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *n) {
    if (!known(t, id)) return NULL;
    *n = vocab_length(&t->vocab, id);
    return t->vocab.bytes + t->vocab.start[id];
}

/* ------------------------------------------------------------------------------------------ encoding */

typedef struct encoding {
    const tokenizer *t;
    piece_walk walk;
    bpe_scratch scratch;
    token_list *out;
} encoding;

/* Text between two special tokens: pieces are cut as if there were nothing else. */
static kvt_status encode_plain(encoding *e, const char *text, size_t n) {
    e->walk.text = text;
    e->walk.n = n;
    e->walk.at = 0;
    for (;;) {
        size_t first;
        TRY(piece_next(&e->walk, &first));
        if (first == n) return KVT_OK;
        TRY(bpe_encode(&e->t->bpe, &e->scratch, text + first, e->walk.at - first, e->out));
    }
}

static kvt_status encode_valid(encoding *e, const char *text, size_t n, bool parse_control) {
    size_t plain = 0; /* where the plain text before the next special token begins */
    for (size_t at = 0; at < n;) {
        const vocab_special *s = vocab_special_at(&e->t->vocab, text + at, n - at, parse_control);
        if (!s) {
            at++;
            continue;
        }
        TRY(encode_plain(e, text + plain, at - plain));
        TRY(token_list_add(e->out, s->id));
        plain = at += s->n;
    }
    return encode_plain(e, text + plain, n - plain);
}

static kvt_status encode_any(encoding *e, const char *text, size_t n, bool parse_control) {
    if (utf8_valid(text, n)) return encode_valid(e, text, n, parse_control);
    byte_list repaired = {0};
    kvt_status st = utf8_repair(text, n, &repaired);
    if (st == KVT_OK) st = encode_valid(e, repaired.at, repaired.n, parse_control);
    byte_list_free(&repaired);
    return st;
}

kvt_status tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool parse_control, token_list *out) {
    enum { TEXT_MAX = 1 << 30 }; /* repaired it is at most three times as long, which BPE's 32-bit places hold */
    if (n > TEXT_MAX) return KVT_E_LIMIT;
    if (n == 0) return KVT_OK;
    encoding e = {.t = t, .out = out};
    size_t n_before = out->n;
    kvt_status st = piece_walk_open(&e.walk, t->pre);
    if (st == KVT_OK) st = encode_any(&e, text, n, parse_control);
    if (st != KVT_OK) out->n = n_before;
    bpe_scratch_free(&e.scratch);
    piece_walk_close(&e.walk);
    return st;
}

/* ------------------------------------------------------------------------------------------ decoding */

static kvt_status add_bytes(const tokenizer *t, int32_t id, bool show_control, byte_list *out) {
    if (!known(t, id)) return KVT_E_ARGUMENT;
    if (t->vocab.control[id] && !show_control) return KVT_OK;
    return byte_list_add(out, t->vocab.bytes + t->vocab.start[id], vocab_length(&t->vocab, id));
}

kvt_status tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, bool show_control, byte_list *out) {
    size_t n_before = out->n;
    for (size_t i = 0; i < n; i++) {
        kvt_status st = add_bytes(t, id[i], show_control, out);
        if (st == KVT_OK) continue;
        out->n = n_before;
        return st;
    }
    return KVT_OK;
}

tokenizer_decoder tokenizer_decoder_of(const tokenizer *t, bool show_control) {
    return (tokenizer_decoder){.t = t, .show_control = show_control};
}

kvt_status tokenizer_push(tokenizer_decoder *d, int32_t id, byte_list *out) {
    size_t n_before = out->n;
    kvt_status st = byte_list_add(out, d->tail, (size_t)d->n_tail);
    if (st == KVT_OK) st = add_bytes(d->t, id, d->show_control, out);
    if (st != KVT_OK) {
        out->n = n_before;
        return st;
    }
    size_t n = out->n - n_before; /* 0 behind a control token, where out may have no memory yet */
    size_t tail = n ? utf8_unfinished(out->at + n_before, n) : 0;
    out->n -= tail;
    if (tail) memcpy(d->tail, out->at + out->n, tail);
    d->n_tail = (int)tail;
    return KVT_OK;
}

kvt_status tokenizer_flush(tokenizer_decoder *d, byte_list *out) {
    TRY(byte_list_add(out, d->tail, (size_t)d->n_tail));
    d->n_tail = 0;
    return KVT_OK;
}
