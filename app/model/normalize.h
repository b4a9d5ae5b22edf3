/* normalize.h - text as SentencePiece reads it: characters replaced by the model's own table, blanks added and removed.
 * A blank stays a blank here, where SentencePiece writes U+2581: the tokens of a vocab have blanks too. */
#ifndef NORMALIZE_H
#define NORMALIZE_H

#include "vocab.h"

typedef struct normalizer {
    const vocab *vocab; /* its user-defined tokens pass as they are */
    bool blank_first;   /* a blank in front of the text */
    bool blanks_single; /* none at the beginning and the end, one where there are several */
    /* The table, as the file has it: a double array (darts) that finds the longest characters to replace, and the
     * replacements, each with a 0 behind it. */
    uint32_t *unit; /* [n_units] */
    size_t n_units;
    char *replacement; /* [n_replacement] */
    size_t n_replacement;
} normalizer;

/* n is zeroed before and fit for normalizer_close after a failure. blank_first: where the file does not say. */
kvt_status normalizer_open(normalizer *n, const model_file *f, const vocab *v, bool blank_first, error_text *err);
void normalizer_close(normalizer *n);

/* Append the normal form of valid UTF-8. KVT_E_MEMORY: out has only some of it. */
kvt_status normalizer_add(const normalizer *n, const char *text, size_t n_text, byte_list *out);

#endif
