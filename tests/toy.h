/* toy.h - a small cache for tests: two layers of different shape, keys and values that spell the token they are of. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"

enum { TOY_LAYERS = 2, TOY_ROWS_MAX = 256, TOY_VALUES_MAX = 64 /* of one token in one layer */ };

/* Paged, blocks of 16, 4 sequences of up to 128 tokens, steps of up to TOY_ROWS_MAX rows, one thread. */
kvt_options toy_options(void);

/* Opens with freed blocks poisoned; fails the test if that fails. */
kvt_cache *toy_open(const kvt_options *opt);
/* The same, and full blocks are sealed, as copies of their hot tiles. */
kvt_cache *toy_open_sealing(const kvt_options *opt);

/* Store the rows of an open step: row i belongs to token tokens[i]. */
kvt_status toy_store(kvt_cache *c, const kvt_batch *batch, const int32_t *tokens);

/* The whole step for one sequence: tokens `first`, `first + 1`, ... Aborts it if it cannot be committed. */
kvt_status toy_add(kvt_cache *c, kvt_seq handle, int32_t first, int n);

/* Does token `at` of the sequence have the id `token`, and its keys and values, in every layer? */
bool toy_has(kvt_cache *c, kvt_seq handle, int at, int32_t token);

/* Has the sequence exactly the tokens first, first + 1, ...? */
bool toy_holds(kvt_cache *c, kvt_seq handle, int32_t first, int n);

/* Store a step and attend in every layer, with queries of 0: the mean of the values. False: a result is far
 * from it, or NaN. Sequence i of the batch holds n_tokens[i] tokens tokens[i][..], the new ones included. */
bool toy_means(kvt_cache *c, const kvt_batch *batch, const int32_t *const *tokens, const int *n_tokens);

#endif
