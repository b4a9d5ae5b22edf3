/* unigram.c - the kind "t5": SentencePiece's unigram model. Of all ways to spell a text by tokens the one with the
 * largest sum of scores (they are logarithms of probabilities), found by Viterbi's algorithm from the front. Sums are
 * in single precision, as SentencePiece's are: of ways that are as good as one another their rounding decides, and so
 * the text is searched as a whole. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "sentencepiece.h"
#include "trie.h"
#include "utf8.h"

typedef struct unigram {
    sentencepiece base;
    trie trie;      /* of normal and user-defined tokens */
    float unknown;  /* the score of a character that is no token */
} unigram;

/* The best way to spell the text up to a place; its last token began at `from`, id -1: a character that is no token. */
typedef struct unigram_place {
    float score;
    int32_t id;
    size_t from; /* NOWHERE: not reached */
} unigram_place;
#define NOWHERE SIZE_MAX

/* -------------------------------------------------------------------------------------------- opening */

static kvt_status read_tokens(unigram *u) {
    const vocab *v = u->base.vocab;
    float least = 0;
    TRY(trie_open(&u->trie));
    for (int32_t id = 0; id < v->n; id++) {
        size_t n = vocab_length(v, id);
        if (n == 0 || (v->type[id] != VOCAB_NORMAL && v->type[id] != VOCAB_USER)) continue;
        TRY(trie_add(&u->trie, vocab_bytes(v, id), n, id));
        bool user = v->type[id] == VOCAB_USER; /* better than any other */
        if (user) u->base.score[id] = -0.1f;
        else if (u->base.score[id] < least) least = u->base.score[id];
    }
    u->unknown = least - 10; /* worse than any other */
    return KVT_OK;
}

static void unigram_close(void *self) {
    unigram *u = self;
    if (!u) return;
    sentencepiece_close(&u->base);
    trie_close(&u->trie);
    free(u);
}

static kvt_status unigram_open(void **self, kind_traits *traits, const model_file *f, vocab *v, const spellings *s,
                               error_text *err) {
    (void)s;
    *self = NULL;
    unigram *u = calloc(1, sizeof *u);
    if (!u) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    kvt_status st = sentencepiece_open(&u->base, traits, f, v, false, err);
    if (st == KVT_OK && read_tokens(u) != KVT_OK) st = file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    if (st == KVT_OK) *self = u;
    else unigram_close(u);
    return st;
}

/* ------------------------------------------------------------------------------------------- encoding */

static kvt_status places_fit(kind_scratch *scratch, size_t n) {
    size_t bytes;
    if (n <= scratch->n_places) return KVT_OK;
    if (!mem_mul(n, sizeof *scratch->place, &bytes)) return KVT_E_MEMORY;
    free(scratch->place);
    scratch->place = malloc(bytes);
    scratch->n_places = scratch->place ? n : 0;
    return scratch->place ? KVT_OK : KVT_E_MEMORY;
}

/* sum: the score of the way to `to` that goes through `from`. */
static void reach(unigram_place *place, size_t from, size_t to, float sum, int32_t id) {
    if (place[to].from == NOWHERE || sum > place[to].score)
        place[to] = (unigram_place){.score = sum, .from = from, .id = id};
}

/* All tokens that begin at `at`, and the character there if it is none. */
static void reach_from(const unigram *u, unigram_place *place, const char *text, size_t n, size_t at, size_t length) {
    bool single = false;
    uint32_t node = 0;
    for (size_t end = at; end < n && (node = trie_child(&u->trie, node, (uint8_t)text[end])) != 0;) {
        int32_t id = u->trie.id[node];
        end++;
        if (id < 0) continue;
        reach(place, at, end, u->base.score[id] + place[at].score, id);
        single |= end == at + length;
    }
    if (!single) reach(place, at, at + length, u->unknown + place[at].score, -1);
}

/* Back along the best way, each place made to point at the next instead of the one before. */
static void turn_round(unigram_place *place, size_t n) {
    size_t next = n;
    for (size_t at = n; at > 0;) {
        size_t from = place[at].from;
        place[at].from = next;
        next = at;
        at = from;
    }
    place[0].from = next;
}

static kvt_status unigram_search(const void *self, kind_scratch *scratch, const char *text, size_t n,
                                 sentencepiece_out *out) {
    const unigram *u = self;
    bool whole;
    TRY(places_fit(scratch, n + 1));
    unigram_place *place = scratch->place;
    for (size_t i = 0; i <= n; i++) place[i].from = NOWHERE;
    place[0] = (unigram_place){.score = 0, .from = 0};
    for (size_t at = 0, length; at < n; at += length) {
        length = utf8_part(text + at, n - at, &whole);
        reach_from(u, place, text, n, at, length);
    }
    turn_round(place, n);
    for (size_t at = 0; at < n; at = place[at].from) {
        size_t end = place[at].from;
        int32_t id = place[end].id;
        TRY(id >= 0 ? sentencepiece_put(out, id) : sentencepiece_put_unknown(out, text + at, end - at));
    }
    return KVT_OK;
}

static kvt_status unigram_encode(const void *self, kind_scratch *scratch, const char *text, size_t n, token_list *out) {
    const unigram *u = self;
    return sentencepiece_encode(&u->base, u, unigram_search, SENTENCEPIECE_WHOLE, scratch, text, n, out);
}

const kind kind_unigram = {.name = "t5", .words = "SentencePiece unigram", .style = VOCAB_SPACES,
                           .special = SPECIAL_CONTROL, .eos = "</s>", .open = unigram_open, .close = unigram_close,
                           .encode = unigram_encode};
