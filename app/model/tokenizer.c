/* tokenizer.c - see tokenizer.h: special tokens cut out, what lies between them handed to the kind of tokenizer, and
 * the way back to bytes. */
#include "tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "ends.h"
#include "kind.h"
#include "strip.h"
#include "utf8.h"

struct tokenizer {
    tokenizer_info info;
    kind_traits traits;
    vocab vocab;
    const kind *kind;
    void *self; /* of the kind */
    ends ends;
};

/* -------------------------------------------------------------------------------------------- opening */

static const kind *const KINDS[] = {&kind_bytelevel, &kind_spm, &kind_unigram};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

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
    if (info->bos < 0 && t->kind->bos) info->bos = tokenizer_control(t, t->kind->bos);
    if (info->eos < 0 && t->kind->eos) info->eos = tokenizer_control(t, t->kind->eos);
    int32_t eom;
    TRY(read_id(f, "tokenizer.ggml.eom_token_id", t->vocab.n, &eom, err));
    ends_add(&t->ends, info->eos);
    ends_add(&t->ends, info->eot);
    ends_add(&t->ends, eom);
    ends_add_known(&t->ends, &t->vocab);
    info->add_bos = t->traits.bos;
    if (file_has(f, "tokenizer.ggml.add_bos_token"))
        TRY(file_bool(f, "tokenizer.ggml.add_bos_token", &info->add_bos, err));
    if (info->bos < 0) info->add_bos = false;
    return KVT_OK;
}

static kvt_status find_kind(tokenizer *t, const model_file *f, error_text *err) {
    file_text name;
    TRY(file_string(f, "tokenizer.ggml.model", &name, err));
    for (size_t i = 0; i < N_KINDS && !t->kind; i++)
        if (strlen(KINDS[i]->name) == name.n && memcmp(KINDS[i]->name, name.at, name.n) == 0) t->kind = KINDS[i];
    if (t->kind) return KVT_OK;
    return file_fail(f, err, KVT_E_UNSUPPORTED,
                     "its tokenizer is of kind \"%.*s\"; this version knows \"%s\" (%s), \"%s\" (%s) and \"%s\" (%s)",
                     FILE_SHOW(name), KINDS[0]->name, KINDS[0]->words, KINDS[1]->name, KINDS[1]->words, KINDS[2]->name,
                     KINDS[2]->words);
}

static kvt_status open_parts(tokenizer *t, const model_file *f, error_text *err) {
    spellings s;
    int32_t n;
    TRY(spellings_open(&s, f, &n, err));
    kvt_status st = vocab_open(&t->vocab, f, &s, n, t->kind->style, err);
    if (st == KVT_OK) strip_read(&t->vocab, f);
    if (st == KVT_OK) st = t->kind->open(&t->self, &t->traits, f, &t->vocab, &s, err);
    spellings_close(&s);
    TRY(st);
    return read_info(t, f, err);
}

kvt_status tokenizer_open(tokenizer **out, const model_file *f, error_text *err) {
    *out = NULL;
    tokenizer *t = calloc(1, sizeof *t);
    if (!t) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    kvt_status st = find_kind(t, f, err);
    if (st == KVT_OK) st = open_parts(t, f, err);
    if (st == KVT_OK) *out = t;
    else tokenizer_close(t);
    return st;
}

void tokenizer_close(tokenizer *t) {
    if (!t) return;
    if (t->kind) t->kind->close(t->self);
    vocab_close(&t->vocab);
    free(t);
}

/* ------------------------------------------------------------------------------------------- looking */

const tokenizer_info *tokenizer_about(const tokenizer *t) { return &t->info; }

bool tokenizer_is_end(const tokenizer *t, int32_t id) { return ends_has(&t->ends, id); }

static bool known(const tokenizer *t, int32_t id) {
    return id >= 0 && id < t->vocab.n;
}

bool tokenizer_is_control(const tokenizer *t, int32_t id) {
    return known(t, id) && vocab_hidden(&t->vocab, id);
}

int32_t tokenizer_control(const tokenizer *t, const char *text) {
    const vocab_special *s = vocab_special_find(&t->vocab, text, strlen(text));
    return s && !s->user ? s->id : -1;
}

const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *n) {
    if (!known(t, id)) return NULL;
    *n = vocab_length(&t->vocab, id);
    return vocab_bytes(&t->vocab, id);
}

/* ------------------------------------------------------------------------------------------ encoding */

void kind_scratch_free(kind_scratch *s) {
    bpe_scratch_free(&s->bpe);
    piece_walk_close(&s->walk);
    byte_list_free(&s->text);
    free(s->place);
    nfc_scratch_free(&s->nfc);
}

typedef struct encoding {
    const tokenizer *t;
    kind_scratch scratch;
    token_list *out;
} encoding;

/* Text between two special tokens, as if there were nothing else. */
static kvt_status encode_plain(encoding *e, const char *text, size_t n) {
    return n ? e->t->kind->encode(e->t->self, &e->scratch, text, n, e->out) : KVT_OK;
}

static kvt_status encode_valid(encoding *e, const char *text, size_t n, bool parse_control) {
    unsigned wanted = e->t->kind->special & (parse_control ? ~0u : ~(unsigned)SPECIAL_CONTROL);
    size_t plain = 0; /* where the plain text before the next special token begins */
    for (size_t at = 0; at < n;) {
        const vocab_special *s = vocab_special_at(&e->t->vocab, text + at, n - at, wanted);
        if (!s) {
            at++;
            continue;
        }
        TRY(encode_plain(e, text + plain, at - plain));
        TRY(token_list_add(e->out, s->id));
        at += s->n;
        if (s->strip_right) at += utf8_blanks(text + at, n - at);
        plain = at;
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
    kvt_status st = encode_any(&e, text, n, parse_control);
    if (st != KVT_OK) out->n = n_before;
    kind_scratch_free(&e.scratch);
    return st;
}

/* ------------------------------------------------------------------------------------------ decoding */

/* The first token of a text may have a blank in front that encoding put there. */
static kvt_status add_bytes(const tokenizer *t, int32_t id, bool show_control, bool *at_start, byte_list *out) {
    if (!known(t, id)) return KVT_E_ARGUMENT;
    const char *bytes = vocab_bytes(&t->vocab, id);
    size_t n = vocab_length(&t->vocab, id);
    if (vocab_hidden(&t->vocab, id)) return show_control ? byte_list_add(out, bytes, n) : KVT_OK;
    bool blank = *at_start && t->traits.blank && t->vocab.type[id] != VOCAB_BYTE && n > 0 && *bytes == ' ';
    *at_start = false;
    return byte_list_add(out, bytes + blank, n - blank);
}

kvt_status tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, bool show_control, byte_list *out) {
    size_t n_before = out->n;
    bool at_start = true;
    for (size_t i = 0; i < n; i++) {
        kvt_status st = add_bytes(t, id[i], show_control, &at_start, out);
        if (st == KVT_OK) continue;
        out->n = n_before;
        return st;
    }
    return KVT_OK;
}

tokenizer_decoder tokenizer_decoder_of(const tokenizer *t, bool show_control) {
    return (tokenizer_decoder){.t = t, .show_control = show_control, .at_start = true};
}

kvt_status tokenizer_push(tokenizer_decoder *d, int32_t id, byte_list *out) {
    size_t n_before = out->n;
    kvt_status st = byte_list_add(out, d->tail, (size_t)d->n_tail);
    if (st == KVT_OK) st = add_bytes(d->t, id, d->show_control, &d->at_start, out);
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
