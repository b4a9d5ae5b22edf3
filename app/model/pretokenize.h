/* pretokenize.h - text to pieces: what BPE then merges inside, and never across. patterns.c has the patterns. */
#ifndef PRETOKENIZE_H
#define PRETOKENIZE_H

#include <stddef.h>
#include <stdint.h>

#include "file/file.h"
#include "patterns.h"

typedef struct pretokenizer pretokenizer;

/* The one that tokenizer.ggml.pre names. KVT_E_UNSUPPORTED: not in the table of patterns.c. */
kvt_status pretokenizer_open(pretokenizer **out, const model_file *f, error_text *err);
void pretokenizer_close(pretokenizer *p); /* NULL is fine */
const pattern_row *pretokenizer_row(const pretokenizer *p);

/* What one step of a row is cutting: the text between first and end, up to `at` by now. The match found last may lie
 * further on, behind a piece that matched nothing. */
typedef struct piece_level {
    size_t first, end, at;
    size_t match_first, match_end;
} piece_level;

/* A walk over the pieces of one text, which is valid UTF-8. */
typedef struct piece_walk {
    const pretokenizer *p;
    void *match; /* PCRE2's scratch */
    uint32_t options; /* of pcre2_match */
    const char *text;
    size_t at; /* the end of the last piece */
    piece_level level[PATTERN_STEPS_MAX + 1];
} piece_walk;

/* Scratch for walks, one at a time. */
kvt_status piece_walk_open(piece_walk *w, const pretokenizer *p);
void piece_walk_close(piece_walk *w);
/* Begin with n bytes of text. */
void piece_walk_start(piece_walk *w, const char *text, size_t n);
/* The next piece is text[*first .. w->at - 1]; *first = w->at at the end. KVT_E_LIMIT: PCRE2 gave up (not seen). */
kvt_status piece_next(piece_walk *w, size_t *first);

#endif
