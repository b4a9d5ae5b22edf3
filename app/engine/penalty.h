/* penalty.h - logits changed by what was said before: biases of tokens, penalties for repetition.
 *
 * Owns these rules. Leaves to sample.h which token follows. */
#ifndef APP_PENALTY_H
#define APP_PENALTY_H

#include "sample.h"

/* Does any of these options change logits? */
bool penalty_wanted(const sample_options *opt);

/* out [n_vocab]: the logits [n_vocab] after biases and penalties. count [n_vocab] is zeros, before and after. */
void penalty_apply(const sample_options *opt, const sample_history *history, const float *logits, int n_vocab,
                   int32_t *count, float *out);

#endif
