/* reader.h - texts and who reads them, for tests of attention.
 *
 * Texts are made up: query, key and value of (text, layer, position) are random numbers of that seed. A reader feeds
 * one text to one sequence and keeps every output; tests feed the same text in different ways and compare. */
#ifndef TESTS_READER_H
#define TESTS_READER_H

#include "cache/cache.h"

enum { READERS_MAX = 5, ROWS_MAX = 2200, N_LAYERS = 2 };

/* A model's shape and a length to try it at. */
typedef struct shape {
    const char *name;
    kvt_layer layer;
    kvt_format k_format, v_format;
    kvt_math math;
    int n_tokens;
} shape;

enum { N_SHAPES = 5 };
extern const shape shapes[N_SHAPES];

/* How a cache is opened. */
typedef struct setup {
    const shape *shape;
    kvt_cache_kind kind;
    int block_tokens, n_threads;
    const char *cpu; /* NULL: the best */
    bool seal;       /* full blocks, though their formats are not encoded */
    int hot_tokens;
} setup;

/* Paged, blocks of 32, one thread, not sealing. */
setup setup_of(const shape *s);
/* With freed blocks poisoned; fails the test if that fails. */
kvt_cache *cache_of(const setup *s);

/* n numbers of a text; what: QUERY, KEY or VALUE. */
enum { QUERY, KEY, VALUE };
void text_fill(int text, int layer, int position, int what, float *x, int n);

/* Numbers of one token: queries, keys or values of all heads; outputs of all heads. */
int width_of(const shape *s, int what);
int width_out(const shape *s);

typedef struct reader {
    const shape *shape;
    int text, n_done;
    kvt_seq seq;
    float *out[N_LAYERS]; /* [ROWS_MAX][n_heads_q][dim_v] */
} reader;

reader *reader_new(const shape *s, kvt_cache *c, int text);
void reader_free(reader *r); /* its sequence stays */

/* Rows of a step, all readers together. */
typedef struct rows {
    float *q, *k, *v, *out;
} rows;

rows rows_new(const shape *s);
void rows_free(rows r);
/* The next n_new[i] tokens of each reader. */
void rows_fill(rows to, reader *const *readers, const int *n_new, int n, int layer);
/* Outputs to the readers. */
void rows_keep(rows from, reader *const *readers, const int *n_new, int n, int layer);

/* One step of n readers; of one; steps of `chunk` up to n_tokens. */
void feed(kvt_cache *c, reader *const *readers, const int *n_new, int n);
void feed_one(kvt_cache *c, reader *r, int n_new);
void feed_in_chunks(kvt_cache *c, reader *r, int n_tokens, int chunk);

/* Text 0 in one step, in a cache of setup_of(s). */
reader *reference_of(const shape *s, int n_tokens);

/* Bits of tokens first .. end - 1. */
void assert_same(const reader *a, const reader *b, int first, int end, const char *how);

#endif
