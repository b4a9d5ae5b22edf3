/* logprob.h - how likely the model held tokens to be: log-softmax of its logits, before any sampling rule. */
#ifndef APP_LOGPROB_H
#define APP_LOGPROB_H

#include <stdint.h>

enum { LOGPROBS_TOP_MAX = 20 };

typedef struct token_logprob {
    int32_t id;
    double logprob; /* natural logarithm of the probability; -INFINITY: impossible */
} token_logprob;

/* out [1 + n_top]: the token's own, then those of the n_top likeliest, falling, the lower id first among equals.
 * n_top is at most LOGPROBS_TOP_MAX and n_vocab; no logit is NaN and the largest is finite. */
void logprobs_of(const float *logits, int n_vocab, int32_t token, int n_top, token_logprob *out);

#endif
