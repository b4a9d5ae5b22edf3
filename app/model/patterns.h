/* patterns.h - how the known pre-tokenizers cut: the names of tokenizer.ggml.pre and what stands behind each.
 * pretokenize.c does the cutting. */
#ifndef PATTERNS_H
#define PATTERNS_H

#include "file/file.h"

enum { PATTERN_STEPS_MAX = 6 };

typedef struct pattern_row {
    const char *names; /* one blank between them */
    /* Patterns for PCRE2, NULL behind the last. Each cuts the pieces of the one before: its matches are pieces, and so
     * is what lies between two matches. No pattern matches nothing, and none looks behind. */
    const char *step[PATTERN_STEPS_MAX + 1];
    bool nfc;   /* the text is brought to Unicode's normal form C first */
    bool whole; /* a piece that is a token as a whole is that token, whatever the merges say */
    bool bos;   /* the model wants its bos token in front where the file does not say */
} pattern_row;

/* NULL: no row has this name. */
const pattern_row *pattern_find(file_text name);

#endif
