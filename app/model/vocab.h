/* vocab.h - the vocabulary: the bytes of every token, which of them are special, and while it is being opened the way
 * from a spelling in the file to an id. */
#ifndef VOCAB_H
#define VOCAB_H

#include "tokenizer.h"

/* A token that is found in the text by its bytes, not made by merges. */
typedef struct vocab_special {
    const char *at; /* [n] */
    size_t n;
    int32_t id;
    bool control; /* otherwise user-defined: a word of the text */
} vocab_special;

typedef struct vocab {
    int32_t n;
    char *bytes;                               /* of all tokens, one behind the other */
    size_t *start;                             /* [n + 1] */
    bool *control;                             /* [n] */
    vocab_special *special;                    /* [n_special], sorted by their bytes */
    size_t n_special;
    bool special_first[256];                   /* some special token begins with this byte */
} vocab;

/* Spelling to id, by hash; points into the file. A byte is spelled as a printable character (GPT-2's table). */
typedef struct spellings {
    file_text *of; /* [n] */
    int32_t *slot; /* [n_slots], -1: empty */
    size_t n_slots;
} spellings;

kvt_status spellings_open(spellings *s, const model_file *f, int32_t *n, error_text *err);
void spellings_close(spellings *s);
int32_t spellings_find(const spellings *s, const char *at, size_t n); /* -1: there is none */
/* The id of a single byte; -1: the vocabulary lacks it. */
int32_t spellings_byte(const spellings *s, unsigned char byte);

/* v is zeroed before and fit for vocab_close after a failure. */
kvt_status vocab_open(vocab *v, const model_file *f, const spellings *s, int32_t n, error_text *err);
void vocab_close(vocab *v);

static inline size_t vocab_length(const vocab *v, int32_t id) { return v->start[id + 1] - v->start[id]; }

/* The longest special token that the text begins with; NULL: none. Control tokens count only if `control`. */
const vocab_special *vocab_special_at(const vocab *v, const char *text, size_t n, bool control);
/* The special token of exactly these bytes; NULL: none. */
const vocab_special *vocab_special_find(const vocab *v, const char *text, size_t n);

#endif
