/* sample.h - the next token from a row of logits: greedy or drawn, the same on every machine.
 *
 * The rules, in their order. Each sees what the ones before it left, as in Hugging Face's generate; one that is off
 * changes nothing.
 *
 *     1. bias            a token's logit + its value
 *     2. repetition      a logit above 0 / penalty, any other * penalty, once, for tokens among the last ones
 *     3. frequency       a logit - penalty * how often the answer has the token
 *        presence        a logit - penalty, where the answer has it
 *     4. temperature     logits / temp; 0: the largest logit is the choice, and nothing below matters
 *     5. top-k           the k likeliest
 *     6. top-p           the fewest likeliest whose share of what is left reaches p (Holtzman et al. 2020)
 *     7. min-p           those at least p times as likely as the likeliest (Nguyen et al. 2024)
 *     8. typical         the fewest whose share reaches p, those first whose log-probability is nearest to its mean
 *                        over what is left (Meister et al. 2022, locally typical sampling)
 *
 * Then one of those left is drawn by probability. Of equal tokens the lower id goes first in every rule.
 *
 * Owns the rules and the random number. Leaves to others where logits come from and when to stop. */
#ifndef APP_SAMPLE_H
#define APP_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"
#include "rank.h"

typedef struct sample_bias {
    int32_t id;
    double value; /* -100 .. 100, or -INFINITY: never */
} sample_bias;

typedef struct sample_options {
    double temp;           /* 0: greedy, the likeliest token; otherwise logits are divided by it */
    int top_k;             /* 0: all */
    double top_p;          /* 1: all */
    double min_p;          /* 0: all */
    double typical;        /* 1: all */
    double repeat_penalty; /* above 0; 1: none */
    int repeat_last;       /* how many of the last tokens, those of the prompt among them, it looks at; 0: all */
    double frequency_penalty, presence_penalty; /* 0: none */
    const sample_bias *bias;                    /* [n_bias]; several for one token add up */
    int n_bias;
    uint64_t seed;
} sample_options;

/* Greedy, every other rule off, repetitions looked for in 64 tokens; seed 0. */
sample_options sample_options_default(void);
/* KVT_E_ARGUMENT: a number outside its range or a token outside the vocabulary, named in the error. */
kvt_status sample_options_check(const sample_options *opt, int n_vocab, error_text *err);

/* What stands before the token. Only penalties read the tokens. */
typedef struct sample_history {
    const int32_t *tokens; /* [n_tokens], each in the vocabulary */
    int n_tokens;
    int n_before; /* of them before the answer: its prompt */
} sample_history;

typedef struct sampler sampler;

/* Room for a row of n_vocab logits. NULL: no memory. */
sampler *sampler_new(int n_vocab);
void sampler_free(sampler *s); /* NULL is fine */

/* The token that follows the history in answer number `number`. Depends on nothing but its arguments: the random
 * number is a function of (seed, number, n_tokens), not of how many were drawn before.
 * -1: a logit is NaN, the largest is infinite, or none is possible. */
int sampler_pick(sampler *s, const sample_options *opt, const float *logits, const sample_history *history,
                 uint64_t number);

/* The tokens that all rules leave, with weights in proportion to their probabilities, in the order in which a draw
 * goes through them; they are the sampler's until its next call. Greedy: one. Returns how many, -1 as above. */
int sampler_kept(sampler *s, const sample_options *opt, const float *logits, const sample_history *history,
                 const candidate **kept);

#endif
