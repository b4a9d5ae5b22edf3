/* logprob.c - see logprob.h. Binary64 in order of id (docs/numeric-contract.md, section 7). */
#include "logprob.h"

#include "kvtile_ops.h"

/* The ids of the n largest logits, falling. */
static void largest(const float *logits, int n_vocab, int n, int32_t *ids) {
    int held = 0;
    for (int32_t id = 0; id < n_vocab; id++) {
        if (held == n && !(logits[id] > logits[ids[n - 1]])) continue;
        int place = held < n ? held++ : n - 1;
        for (; place > 0 && logits[id] > logits[ids[place - 1]]; place--) ids[place] = ids[place - 1];
        ids[place] = id;
    }
}

void logprobs_of(const float *logits, int n_vocab, int32_t token, int n_top, token_logprob *out) {
    int32_t ids[LOGPROBS_TOP_MAX] = { 0 };
    double sum = 0;
    largest(logits, n_vocab, n_top > 0 ? n_top : 1, ids);
    double most = (double)logits[ids[0]];
    for (int i = 0; i < n_vocab; i++) sum += kvt_exp((double)logits[i] - most);
    double log_sum = kvt_log(sum);
    out[0] = (token_logprob){ token, (double)logits[token] - most - log_sum };
    for (int i = 0; i < n_top; i++) out[1 + i] = (token_logprob){ ids[i], (double)logits[ids[i]] - most - log_sum };
}
