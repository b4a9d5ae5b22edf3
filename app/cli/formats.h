/* formats.h - the words for formats of keys and values: those of the library for each alone, and words for both. */
#ifndef APP_FORMATS_H
#define APP_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

#include "command/command.h"
#include "kvtile.h"

typedef struct format_pair {
    const char *name; /* "bf16", "k8v4" */
    kvt_format k, v;
} format_pair;

/* Words one by one, NULL behind the last: of a single format, numbered as kvt_format; of --kv, which are the same and
 * then the pairs. */
const char *format_word(int i);
const char *format_pair_word(int i);
/* Pair i of format_pair_word, from 0 on. */
format_pair format_pair_at(int i);

/* Is it one for full blocks, with scales? */
static inline bool format_is_coded(kvt_format f) {
    return f > KVT_F32;
}

/* What a token's keys and values take in all layers; false: the library does not offer that. */
typedef struct format_cost {
    size_t bytes_per_token;
    double bits; /* of an element, with scales, centroids and padding */
} format_cost;
bool format_cost_of(const kvt_layer *layers, int n_layers, format_pair pair, int block_tokens, format_cost *out);

/* Place of the next pair from place i on that tables have a row of: of words that mean the same the one that is a
 * pair's. -1: there is none left. */
int format_row_next(int i);

#endif
