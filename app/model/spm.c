/* spm.c - the kind "llama": SentencePiece's BPE. Characters are merged to tokens, of all that two neighbours can become
 * the one of the best score first. Every way to make a token out of two is a rule of bpe.c, worked out at the start:
 * all ways to cut a token are looked up, each in time of its length, which sentencepiece.c limits. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "sentencepiece.h"
#include "utf8.h"

typedef struct spm {
    sentencepiece base;
    bpe bpe;
} spm;

/* -------------------------------------------------------------------------------------------- opening */

static bool is_mergeable(const vocab *v, int32_t id) {
    return v->type[id] == VOCAB_NORMAL && vocab_length(v, id) > 1;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int best_first(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* Tokens of the same score have the same rank. */
static void rank_tokens(const spm *s, uint32_t *rank, scored *order) {
    const vocab *v = s->base.vocab;
    for (int32_t id = 0; id < v->n; id++) order[id] = (scored){s->base.score[id], id};
    qsort(order, (size_t)v->n, sizeof *order, best_first);
    uint32_t r = 0;
    for (int32_t i = 0; i < v->n; i++) {
        r += i > 0 && order[i].score < order[i - 1].score;
        rank[order[i].id] = r;
    }
}

/* A rule for each pair of tokens that make this one; returns how many. b NULL: only count them. */
static size_t add_rules(bpe *b, const vocab *v, int32_t id, uint32_t rank) {
    const char *bytes = vocab_bytes(v, id);
    size_t n = vocab_length(v, id), count = 0;
    for (size_t cut = 1; cut < n; cut++) {
        if (((unsigned char)bytes[cut] & 0xC0) == 0x80) continue; /* inside a character */
        int32_t left = vocab_find(v, bytes, cut), right = left < 0 ? -1 : vocab_find(v, bytes + cut, n - cut);
        if (right < 0) continue;
        if (b) bpe_add(b, (bpe_rule){.left = left, .right = right, .joined = id, .rank = rank});
        count++;
    }
    return count;
}

static kvt_status make_rules(spm *s, const model_file *f, const uint32_t *rank, error_text *err) {
    const vocab *v = s->base.vocab;
    size_t n = 0;
    for (int32_t id = 0; id < v->n; id++) n += is_mergeable(v, id) ? add_rules(NULL, v, id, 0) : 0;
    if (n > INT32_MAX / 4) return file_fail(f, err, KVT_E_UNSUPPORTED, "its tokens are made in %zu ways", n);
    if (bpe_open(&s->bpe, n) != KVT_OK) return file_fail(f, err, KVT_E_MEMORY, "no memory for %zu merges", n);
    for (int32_t id = 0; id < v->n; id++)
        if (is_mergeable(v, id)) add_rules(&s->bpe, v, id, rank[id]);
    return KVT_OK;
}

static kvt_status read_rules(spm *s, const model_file *f, vocab *v, error_text *err) {
    uint32_t *rank = malloc((size_t)v->n * sizeof *rank);
    scored *order = malloc((size_t)v->n * sizeof *order);
    kvt_status st = KVT_E_MEMORY;
    if (rank && order && vocab_index(v) == KVT_OK) {
        rank_tokens(s, rank, order);
        st = make_rules(s, f, rank, err);
    } else file_fail(f, err, st, "no memory for the tokenizer");
    free(rank);
    free(order);
    return st;
}

static void spm_close(void *self) {
    spm *s = self;
    if (!s) return;
    sentencepiece_close(&s->base);
    bpe_close(&s->bpe);
    free(s);
}

static kvt_status spm_open(void **self, kind_traits *traits, const model_file *f, vocab *v, const spellings *spelled,
                           error_text *err) {
    (void)spelled;
    *self = NULL;
    spm *s = calloc(1, sizeof *s);
    if (!s) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    kvt_status st = sentencepiece_open(&s->base, traits, f, v, true, err);
    if (st == KVT_OK) st = read_rules(s, f, v, err);
    if (st == KVT_OK) *self = s;
    else spm_close(s);
    traits->bos = true;
    return st;
}

/* ------------------------------------------------------------------------------------------- encoding */

/* A character without a token is a symbol whose id says where it is: below zero, so nothing merges with it. */
static int32_t id_of_place(size_t at) { return -1 - (int32_t)at; }
static size_t place_of_id(int32_t id) { return (size_t)(-1 - id); }

static kvt_status spm_search(const void *self, kind_scratch *scratch, const char *text, size_t n,
                             sentencepiece_out *out) {
    const spm *s = self;
    bpe_scratch *b = &scratch->bpe;
    bool whole;
    if (n > INT32_MAX) return KVT_E_LIMIT;
    TRY(bpe_begin(b, n));
    for (size_t at = 0, length; at < n; at += length) {
        length = utf8_part(text + at, n - at, &whole);
        int32_t id = vocab_find(s->base.vocab, text + at, length);
        bpe_put(b, id < 0 ? id_of_place(at) : id);
    }
    bpe_merge(&s->bpe, b);
    for (uint32_t i = 0; i != BPE_END; i = b->symbol[i].right) {
        int32_t id = b->symbol[i].id;
        if (id >= 0) TRY(sentencepiece_put(out, id));
        else {
            const char *character = text + place_of_id(id);
            size_t left = n - place_of_id(id);
            TRY(sentencepiece_put_unknown(out, character, utf8_part(character, left, &whole)));
        }
    }
    return KVT_OK;
}

static kvt_status spm_encode(const void *self, kind_scratch *scratch, const char *text, size_t n, token_list *out) {
    const spm *s = self;
    return sentencepiece_encode(&s->base, s, spm_search, SENTENCEPIECE_WORDS, scratch, text, n, out);
}

const kind kind_spm = {.name = "llama", .words = "SentencePiece BPE", .style = VOCAB_SPACES,
                       .special = SPECIAL_CONTROL, .bos = "<s>", .eos = "</s>", .open = spm_open, .close = spm_close,
                       .encode = spm_encode};
