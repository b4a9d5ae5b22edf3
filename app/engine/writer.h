/* writer.h - an answer as it is written: its tokens, their text as it becomes certain, the stop text that ends it.
 *
 * Owns what an answer holds. Leaves to others which token comes next and when there are enough. */
#ifndef APP_WRITER_H
#define APP_WRITER_H

#include "engine.h"

typedef struct writer {
    answer *out;
    int index;                   /* of the answer, for the callbacks */
    const generate_options *opt; /* the callbacks */
    const stop_list *stops;
    tokenizer_decoder decoder;
    stop_scan scan;
    int n_vocab;
    size_t *ends; /* [out->n_tokens] bytes of text up to each token's end */
    size_t logprobs_room; /* in the answer, of token_logprob */
    size_t n_read, n_told; /* bytes of the text: searched for stop texts, given to on_text */
} writer;

/* An empty answer with room for tokens_max tokens of the model. All pointers outlive the writer. KVT_E_MEMORY: also
 * then writer_close, and answers_free for the answer. */
kvt_status writer_open(writer *w, answer *out, int tokens_max, const model *m, const stop_list *stops,
                       const generate_options *opt);
void writer_close(writer *w); /* the answer stays */

/* One token more, sampled from these logits [n_vocab], which are read where log-probabilities are asked for. Where a
 * stop text is whole with it, the answer's finish becomes FINISH_STOP. */
kvt_status writer_add(writer *w, int32_t token, const float *logits);
/* The answer is over: what was held back is told, and everything is counted. A finish that is set stays. */
kvt_status writer_end(writer *w, finish_reason reason);

#endif
