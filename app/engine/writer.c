/* writer.c - see writer.h. */
#include "writer.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

kvt_status writer_open(writer *w, answer *out, int tokens_max, const model *m, const stop_list *stops,
                       const generate_options *opt) {
    size_t bytes_tokens, bytes_ends;
    *w = (writer){ .out = out, .opt = opt, .stops = stops, .n_vocab = model_config_of(m)->n_vocab };
    w->decoder = tokenizer_decoder_of(model_tokenizer(m), false);
    w->decoder.at_start = !opt->goes_on;
    if (!mem_mul((size_t)tokens_max, sizeof out->tokens[0], &bytes_tokens)) return KVT_E_MEMORY;
    if (!mem_mul((size_t)tokens_max, sizeof w->ends[0], &bytes_ends)) return KVT_E_MEMORY;
    *out = (answer){ .tokens = malloc(bytes_tokens), .n_top = opt->n_top < w->n_vocab ? opt->n_top : w->n_vocab };
    w->ends = malloc(bytes_ends);
    return out->tokens && w->ends ? KVT_OK : KVT_E_MEMORY;
}

void writer_close(writer *w) {
    free(w->ends);
    w->ends = NULL;
}

/* A stop text of n_stop bytes ends at byte `end` of the text: nothing from its beginning on is the answer's. */
static void cut(writer *w, size_t end, size_t n_stop) {
    answer *a = w->out;
    a->text.n = end - n_stop;
    while (a->n_shown > 0 && w->ends[a->n_shown - 1] > a->text.n) a->n_shown--;
    a->finish = FINISH_STOP;
}

/* Search what is new in the text, and tell what is certain. */
static void read_on(writer *w) {
    byte_list *text = &w->out->text;
    size_t n_new = text->n - w->n_read, n_read, held = 0;
    size_t n_stop = n_new ? stop_scan_read(&w->scan, w->stops, text->at + w->n_read, n_new, &n_read) : 0;
    if (n_stop > 0) cut(w, w->n_read + n_read, n_stop);
    else held = stop_scan_held(&w->scan, w->stops);
    w->n_read = text->n;
    if (w->out->finish != FINISH_NONE) held = 0;
    size_t certain = text->n - held;
    if (certain > w->n_told && w->opt->on_text)
        w->opt->on_text(w->opt->ctx, w->index, text->at + w->n_told, certain - w->n_told);
    w->n_told = certain;
}

/* Room grows by doubling: 21 numbers a token for a whole context would be a lot to ask for at once. */
static kvt_status add_logprobs(writer *w, int32_t token, const float *logits) {
    answer *a = w->out;
    size_t row = 1 + (size_t)a->n_top, n = (size_t)a->n_tokens * row, bytes;
    if (n + row > w->logprobs_room) {
        size_t room = n ? 2 * n : 16 * row;
        if (!mem_mul(room, sizeof a->logprobs[0], &bytes)) return KVT_E_MEMORY;
        token_logprob *grown = realloc(a->logprobs, bytes);
        if (!grown) return KVT_E_MEMORY;
        a->logprobs = grown;
        w->logprobs_room = room;
    }
    logprobs_of(logits, w->n_vocab, token, a->n_top, a->logprobs + n);
    return KVT_OK;
}

kvt_status writer_add(writer *w, int32_t token, const float *logits) {
    answer *a = w->out;
    if (w->opt->logprobs) TRY(add_logprobs(w, token, logits));
    TRY(tokenizer_push(&w->decoder, token, &a->text));
    a->tokens[a->n_tokens] = token;
    w->ends[a->n_tokens++] = a->text.n + (size_t)w->decoder.n_tail;
    a->n_shown = a->n_tokens;
    if (w->opt->on_token) w->opt->on_token(w->opt->ctx, w->index, token);
    read_on(w);
    return KVT_OK;
}

kvt_status writer_end(writer *w, finish_reason reason) {
    if (w->out->finish != FINISH_NONE) return KVT_OK; /* a stop text ended it: nothing is held back */
    TRY(tokenizer_flush(&w->decoder, &w->out->text));
    w->out->finish = reason;
    read_on(w);
    return KVT_OK;
}
