/* pretokenize.h - text to pieces: what BPE then merges inside, and never across. */
#ifndef PRETOKENIZE_H
#define PRETOKENIZE_H

#include <stddef.h>

#include "file/file.h"

typedef struct pretokenizer pretokenizer;

/* The one that tokenizer.ggml.pre names. KVT_E_UNSUPPORTED: not in the table of pretokenize.c. */
kvt_status pretokenizer_open(pretokenizer **out, const model_file *f, error_text *err);
void pretokenizer_close(pretokenizer *p); /* NULL is fine */

/* A walk over the pieces of one text, which is valid UTF-8. */
typedef struct piece_walk {
    const pretokenizer *p;
    void *match; /* PCRE2's scratch */
    const char *text;
    size_t n, at; /* at: the end of the piece before */
} piece_walk;

/* Scratch for walks, one at a time; reused from text to text by setting text, n and at. */
kvt_status piece_walk_open(piece_walk *w, const pretokenizer *p);
void piece_walk_close(piece_walk *w);
/* The next piece is text[*first .. w->at - 1]; *first = n at the end. KVT_E_LIMIT: PCRE2 gave up (not seen). */
kvt_status piece_next(piece_walk *w, size_t *first);

#endif
