/* spoken.h - a small model file that holds a chat template and a tokenizer to write it with: all bytes, a few merges
 * that would reach across the seams of a careless rendering, and control tokens. Fuzzers link it too: it knows no
 * cmocka. */
#ifndef SPOKEN_H
#define SPOKEN_H

#include <stdbool.h>

#include "gguf_writer.h"

enum { SPOKEN_CONTROLS_MAX = 40 };

typedef struct spoken {
    const char *template;                     /* NULL: the file has none */
    const char *control[SPOKEN_CONTROLS_MAX]; /* up to the first NULL */
    const char *bos, *eos;                    /* of these; NULL: the file names none */
    bool add_bos;
    bool phi_3; /* SentencePiece's kind, in a file of Phi-3, whose control tokens take the white space behind them */
} spoken;

/* The file's bytes; w is empty before. */
void spoken_write(const spoken *s, gguf_writer *w);

#endif
