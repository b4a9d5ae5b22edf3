/* vocab.h - the vocabulary: the bytes and the type of every token, the special ones among them, and while it is being
 * opened the way from a spelling in the file to an id. */
#ifndef VOCAB_H
#define VOCAB_H

#include "tokenizer.h"

/* Of tokenizer.ggml.token_type, by its numbers. */
typedef enum vocab_type {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2, /* stands for what has no token: special like a control token */
    VOCAB_CONTROL = 3,
    VOCAB_USER = 4,   /* user-defined: a word of the text, found by its bytes, not made by merges */
    VOCAB_UNUSED = 5, /* also one whose spelling no text can have */
    VOCAB_BYTE = 6,   /* one byte, where a character has no token */
} vocab_type;

/* How normal tokens are spelled in the file. Special ones stand there as they are typed. */
typedef enum vocab_style {
    VOCAB_BYTES,  /* each byte as one printable character (GPT-2's table) */
    VOCAB_SPACES, /* as text, but U+2581 for a blank; bytes as <0x41> */
} vocab_style;

/* A token that is found in the text by its bytes. */
typedef struct vocab_special {
    const char *at; /* [n] */
    size_t n;
    int32_t id;
    bool user;        /* otherwise control or unknown */
    bool strip_right; /* white space behind it belongs to it */
} vocab_special;

/* Tokens that are looked for at every place of a text have this many bytes at most: it is a limit on the time that a
 * place takes. Of real ones the longest have some dozens. */
enum { VOCAB_BYTES_SOUGHT_MAX = 512 };

typedef struct vocab {
    int32_t n;
    char *bytes;   /* of all tokens, one behind the other */
    size_t *start; /* [n + 1] */
    uint8_t *type; /* [n] a vocab_type */
    vocab_special *special; /* [n_special], sorted by their bytes */
    size_t n_special;
    bool special_first[256]; /* some special token begins with this byte */
    int32_t *slot;           /* [n_slots] bytes to normal token, by hash; -1: empty */
    size_t n_slots;
} vocab;

/* Spelling to id, by hash; points into the file. */
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
kvt_status vocab_open(vocab *v, const model_file *f, const spellings *s, int32_t n, vocab_style style, error_text *err);
void vocab_close(vocab *v);

static inline size_t vocab_length(const vocab *v, int32_t id) { return v->start[id + 1] - v->start[id]; }
static inline const char *vocab_bytes(const vocab *v, int32_t id) { return v->bytes + v->start[id]; }
static inline bool vocab_hidden(const vocab *v, int32_t id) {
    return v->type[id] == VOCAB_CONTROL || v->type[id] == VOCAB_UNKNOWN;
}

/* The longest special token that the text begins with, of those wanted; NULL: none. */
enum { SPECIAL_CONTROL = 1, SPECIAL_USER = 2 };
const vocab_special *vocab_special_at(const vocab *v, const char *text, size_t n, unsigned wanted);
/* The special token of exactly these bytes; NULL: none. */
const vocab_special *vocab_special_find(const vocab *v, const char *text, size_t n);

/* The normal token of exactly these bytes; -1: none. Only after vocab_index. */
kvt_status vocab_index(vocab *v);
int32_t vocab_find(const vocab *v, const char *bytes, size_t n);

#endif
