/* sample.h - the next token from a row of logits: greedy or drawn, the same on every machine.
 *
 * Owns the rule and its random numbers. Leaves to others where logits come from and when to stop. */
#ifndef APP_SAMPLE_H
#define APP_SAMPLE_H

#include <stdint.h>

typedef struct sample_options {
    double temp;  /* 0: greedy, the likeliest token; otherwise logits are divided by it */
    int top_k;    /* only the k likeliest tokens; 0: all */
    double top_p; /* only the likeliest tokens that together reach this probability; 1: all */
    double min_p; /* only tokens at least this likely, relative to the likeliest; 0: all */
    uint64_t seed;
} sample_options;

/* Greedy; seed 0. */
sample_options sample_options_default(void);

typedef struct sampler sampler;

/* Room for a row of n_vocab logits. NULL: no memory. */
sampler *sampler_new(int n_vocab);
void sampler_free(sampler *s); /* NULL is fine */

/* The token for place `position` of answer number `answer`. Depends on nothing but its arguments: the random
 * number is a function of (seed, answer, position), not of how many were drawn before.
 * -1: the logits hold a NaN, or no finite value is the largest. */
int sampler_pick(sampler *s, const sample_options *opt, const float *logits, uint64_t answer, uint64_t position);

#endif
