/* reuse.h - what tests of sharing have in common: texts, a plain list of what is known, caches as rows of a table, and
 * asking until all has come. */
#ifndef TESTS_REUSE_H
#define TESTS_REUSE_H

#include <stdbool.h>

#include "cache/cache.h"
#include "forward.h"

enum { TEXT_MAX = 256 };

typedef struct text {
    int n;
    int32_t token[TEXT_MAX];
} text;

text text_random(uint64_t seed, int n);
/* The first n_same tokens of one and then others, n in all. */
text text_branch(const text *of, int n_same, int n, uint64_t seed);

/* Everything that was computed, searched from one end to the other. */
typedef struct known {
    int n, room;
    text *text; /* whole blocks only */
} known;

void known_add(known *k, const text *t, int block_tokens);
void known_free(known *k);
/* How a text begins that is known, but at most all of its tokens but the last. */
int known_longest(const known *k, const text *t);

/* A cache. */
typedef struct trial {
    kvt_format k, v;
    int block_tokens, hot_tokens;
    kvt_tier *tier;      /* NULL: none */
    const char *cpu;     /* NULL: the best */
    int key_bits;        /* 0: all */
    int n_blocks;        /* 0: plenty */
    int n_threads;       /* 0: one */
    int forget;
    const uint8_t *identity;
} trial;

/* "int8, int4, blocks of 32, ...", in static memory. */
const char *trial_name(const trial *t);
kvt_options trial_options(const trial *t);
/* With freed blocks poisoned, under a clock that stands still: no tier is ever too slow. */
kvt_cache *trial_open(const trial *t);
/* Tokens that kvt_match must find in memory, and the same where whole blocks are found only. */
int trial_found(const trial *t, const known *k, const text *x);
int trial_found_blocks(const trial *t, const known *k, const text *x);

/* kvt_match, again and again while something is coming. All of them together. */
kvt_match_result reuse_match(kvt_cache *c, kvt_seq id, const text *x, const kvt_match_options *opt);
/* kvt_match for a sequence that ends at once. */
kvt_match_result reuse_look(kvt_cache *c, const text *x);
/* A sequence computes all of a text, found or not, and ends. */
void reuse_compute(kvt_cache *c, const text *x);

/* kvt_check, and that the counters add up. */
void reuse_check(kvt_cache *c);

#endif
