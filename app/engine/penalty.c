/* penalty.c - see penalty.h. Each rule computes in binary64 and leaves a binary32, as logits are. A token's rule is
 * applied once, however often the token is there: the first visit does it and clears the count. */
#include "penalty.h"

#include <string.h>

bool penalty_wanted(const sample_options *opt) {
    return opt->n_bias > 0 || opt->repeat_penalty != 1 || opt->frequency_penalty != 0 || opt->presence_penalty != 0;
}

static void add_biases(const sample_options *opt, float *out) {
    for (int i = 0; i < opt->n_bias; i++) {
        float *logit = &out[opt->bias[i].id];
        *logit = (float)((double)*logit + opt->bias[i].value);
    }
}

static void count_up(const int32_t *tokens, int n, int32_t *count) {
    for (int i = 0; i < n; i++) count[tokens[i]]++;
}

/* Keskar et al. 2019 (CTRL), section 4.1, with the sign rule of its code: a penalty never helps a token. */
static void penalise_repeats(const sample_options *opt, const sample_history *h, int32_t *count, float *out) {
    int n = opt->repeat_last > 0 && opt->repeat_last < h->n_tokens ? opt->repeat_last : h->n_tokens;
    const int32_t *tokens = h->tokens + (h->n_tokens - n);
    count_up(tokens, n, count);
    for (int i = 0; i < n; i++) {
        float *logit = &out[tokens[i]];
        if (count[tokens[i]] == 0) continue;
        *logit = (float)(*logit > 0 ? *logit / opt->repeat_penalty : *logit * opt->repeat_penalty);
        count[tokens[i]] = 0;
    }
}

/* OpenAI's formula: less frequency * count and, where it is there at all, less presence. */
static void penalise_counts(const sample_options *opt, const sample_history *h, int32_t *count, float *out) {
    int n = h->n_tokens - h->n_before;
    const int32_t *tokens = h->tokens + h->n_before;
    count_up(tokens, n, count);
    for (int i = 0; i < n; i++) {
        float *logit = &out[tokens[i]];
        if (count[tokens[i]] == 0) continue;
        *logit = (float)((double)*logit - opt->frequency_penalty * count[tokens[i]] - opt->presence_penalty);
        count[tokens[i]] = 0;
    }
}

void penalty_apply(const sample_options *opt, const sample_history *history, const float *logits, int n_vocab,
                   int32_t *count, float *out) {
    memcpy(out, logits, (size_t)n_vocab * sizeof *out);
    add_biases(opt, out);
    if (opt->repeat_penalty != 1) penalise_repeats(opt, history, count, out);
    if (opt->frequency_penalty != 0 || opt->presence_penalty != 0) penalise_counts(opt, history, count, out);
}
