/* sentencepiece.h - what the two kinds of SentencePiece models share: normal text, user-defined words in it, scores,
 * and what becomes of a character that has no token. spm.c and unigram.c find the tokens of a stretch. */
#ifndef SENTENCEPIECE_H
#define SENTENCEPIECE_H

#include "kind.h"
#include "normalize.h"

typedef struct sentencepiece {
    const vocab *vocab;
    normalizer normal;
    float *score;         /* [n], no NaN */
    int32_t byte_id[256]; /* -1: no token for this byte */
    int32_t unknown;      /* -1: none */
    /* No token has a blank behind something else: a text can be cut in front of its blanks, which keeps what is
     * searched at once small. */
    bool cut_at_blanks;
} sentencepiece;

/* s is zeroed before and fit for sentencepiece_close after a failure. Indexes the vocabulary. */
kvt_status sentencepiece_open(sentencepiece *s, kind_traits *traits, const model_file *f, vocab *v, bool blank_first,
                              error_text *err);
void sentencepiece_close(sentencepiece *s);

/* Where tokens of one text go. */
typedef struct sentencepiece_out {
    const sentencepiece *s;
    token_list *ids;
    bool after_unknown;
} sentencepiece_out;

kvt_status sentencepiece_put(sentencepiece_out *out, int32_t id);
/* A character without a token: its bytes, if all of them have one; or else the unknown token, once for a run of them;
 * or else nothing. */
kvt_status sentencepiece_put_unknown(sentencepiece_out *out, const char *character, size_t n);

/* What finds the tokens of n > 0 bytes of normal text. */
typedef kvt_status sentencepiece_search(const void *self, kind_scratch *scratch, const char *text, size_t n,
                                        sentencepiece_out *out);
/* Normalise, cut, search: user-defined tokens are cut out and the text is cut at blanks, or it is searched whole. */
typedef enum sentencepiece_cut { SENTENCEPIECE_WHOLE, SENTENCEPIECE_WORDS } sentencepiece_cut;
kvt_status sentencepiece_encode(const sentencepiece *s, const void *self, sentencepiece_search *search,
                                sentencepiece_cut cut, kind_scratch *scratch, const char *text, size_t n,
                                token_list *ids);

#endif
