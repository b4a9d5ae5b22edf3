/* engine.h - the door of the engine: sequences of tokens that grow, one step after the other, and answers to prompts.
 *
 * One rule makes the three kinds of cache one code path: a step computes the tokens of each sequence that the cache
 * does not hold yet. Paged and contiguous caches hold all but the newest; KVT_NONE holds nothing, so every step
 * computes the whole sequence again, in one go (what one step leaves behind is dropped, so it cannot be cut into
 * chunks).
 *
 * Owns who is in a step, and sampling. Knows no tensors. */
#ifndef APP_ENGINE_H
#define APP_ENGINE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "logprob.h"
#include "model/model.h"
#include "sample.h"
#include "stop.h"

/* --------------------------------------------------------------------------------------------- engine */

typedef struct engine_options {
    kvt_cache_kind kind;
    kvt_format k_format, v_format;
    int block_tokens;   /* 16, 32, 64 */
    int hot_tokens;     /* first tokens, in whole blocks, that are never encoded */
    int context;        /* longest sequence; 0: model_context */
    int rope_context;   /* the context that rotary frequencies are chosen for, see model_state_new; 0: `context` */
    int sequences_max;  /* alive at once */
    size_t cache_bytes; /* limit of the cache; 0: enough for all sequences at full length */
    kvt_math math;
    int chunk; /* most tokens of one step, all sequences together; KVT_NONE: at least the context */

    /* Of a paged cache. */
    bool share; /* a new sequence begins with what the cache knows of its tokens */
    bool wait;  /* and where another one is still computing what both begin with, it waits for that */
    kvt_tier *const *tiers; /* [n_tiers] where blocks are kept outside the cache, see kvt_options; the caller's, which
                               outlive the engine */
    int n_tiers;
} engine_options;

/* Paged, bf16, blocks of 32, the first of them hot, the model's context, one sequence, fast, chunks of 512, shared, no
 * tiers. */
engine_options engine_options_default(void);

typedef struct engine_counters {
    uint64_t positions_computed;                  /* rows pushed through the model */
    uint64_t prefill_positions, decode_positions; /* prefill: until a sequence's first logits */
    uint64_t prefill_ns;                          /* of the steps with any prefill row */
    uint64_t n_steps, n_paused; /* paused: sequences that gave their blocks back to let others go on */
    uint64_t tokens_found, tokens_fetched; /* not computed, because they were in memory, or came from a tier; */
    uint64_t tokens_resumed; /* of both, those of sequences that had been computed before and were paused */
} engine_counters;

typedef struct engine engine;

/* The model and the pool stay the caller's and must outlive the engine. All memory is asked for here.
 * KVT_E_LIMIT: cache_bytes cannot hold one sequence of `context` tokens, or the model does not go as far; the error
 * says need and have. */
kvt_status engine_open(engine **out, const model *m, kvt_workers *team, const engine_options *opt, error_text *err);
void engine_close(engine *e); /* NULL is fine */

/* What the cache of such an engine takes, known without opening one; the status is kvt_bytes'. */
kvt_status engine_bytes(const model *m, const engine_options *opt, kvt_bytes_info *out);

const engine_options *engine_options_of(const engine *e); /* as opened, defaults filled in */
const model *engine_model(const engine *e);
engine_counters engine_counted(const engine *e);
/* The cache's own counts after the step that left the most tokens in it, and now. */
kvt_stats engine_fullest(const engine *e);
kvt_stats engine_stats(const engine *e);
/* Wait until what is on its way to tiers is written. */
void engine_flush(engine *e);

/* ------------------------------------------------------------------------------------------ sequences */

/* A new sequence that holds these tokens; *out is its number until engine_end. KVT_FULL: sequences_max are alive.
 * KVT_E_LIMIT: more than `context`. */
kvt_status engine_add(engine *e, const int32_t *tokens, int n_tokens, int *out);
/* A second one with the same tokens, the same cached blocks and the same logits. KVT_FULL as above. */
kvt_status engine_fork(engine *e, int seq, int *out);
/* One more token. KVT_E_LIMIT: the sequence is as long as the context. */
kvt_status engine_append(engine *e, int seq, int32_t token);
/* More tokens behind a sequence, to be read as a prompt is and counted as prefill; n 0 does nothing.
 * KVT_E_LIMIT: beyond the context; nothing changed. */
kvt_status engine_extend(engine *e, int seq, const int32_t *tokens, int n);
/* Keep the first n_tokens tokens, at least one. The last of them is computed again, and where the cache keeps full
 * blocks in codes, those of its block that stand before it. */
kvt_status engine_truncate(engine *e, int seq, int n_tokens);
void engine_end(engine *e, int seq);
int engine_length(const engine *e, int seq);
const int32_t *engine_tokens(const engine *e, int seq); /* [engine_length] */
int engine_cached(const engine *e, int seq);            /* how many of them the cache holds */

/* Compute up to `chunk` waiting tokens: first of sequences that already have logits, then of the others, in turn. Where
 * the cache is full the youngest sequence gives its blocks back and is computed again later. Where all that there is
 * to compute is on its way from a tier it waits a moment, and computes nothing. Nothing waits: KVT_OK. */
kvt_status engine_step(engine *e);
bool engine_waiting(const engine *e); /* is there something to compute */

/* Logits [n_vocab] after the sequence's last token, until the next step; NULL: not computed yet. */
const float *engine_logits(const engine *e, int seq);

/* -------------------------------------------------------------------------------------------- answers */

/* Stop: an end token, or a stop text. */
typedef enum finish_reason { FINISH_NONE, FINISH_STOP, FINISH_LENGTH, FINISH_INTERRUPTED } finish_reason;

/* "stop", "length", "interrupted". */
const char *finish_name(finish_reason reason);

typedef struct prompt {
    const int32_t *tokens; /* [n_tokens], at least one */
    int n_tokens;
} prompt;

typedef struct answer {
    int32_t *tokens; /* [n_tokens] as sampled, an end token or the tokens of a stop text included */
    int n_tokens;
    byte_list text; /* up to the stop text; control tokens have none */
    int n_shown;    /* tokens that lie before the stop text whole; without a stop text all */
    token_logprob *logprobs; /* [n_tokens][1 + n_top]: each token's own, then the likeliest; NULL: not asked for */
    int n_top;
    finish_reason finish;
    uint64_t first_ns, last_ns; /* when the first and last token were there, from the start of generate */
} answer;

typedef struct generate_options {
    const prompt *prompts; /* [n_prompts], all in one ragged batch */
    int n_prompts;
    int n_samples;  /* answers to each prompt, which is computed once */
    uint64_t draw;  /* the first of them has this number, which with the seed decides what is drawn */
    int tokens_max; /* of an answer, at least 1 */
    sample_options sampling;
    /* An answer ends before the first of these texts that is whole, whatever tokens spell it. None is empty. */
    const char *const *stop_texts; /* [n_stop_texts] */
    int n_stop_texts;              /* 0 .. STOP_TEXTS_MAX */
    bool goes_on; /* the answer goes on with the prompt's text, so a blank in front of its first word belongs to it */
    bool logprobs;                 /* keep how likely the model held each token to be, before penalties and rules */
    int n_top;                     /* and the likeliest ones with it: 0 .. LOGPROBS_TOP_MAX, cut to the vocabulary */

    /* All may be NULL. index = prompt * n_samples + sample. */
    void (*on_logits)(void *ctx, int index, const float *logits); /* [n_vocab], before each token */
    void (*on_token)(void *ctx, int index, int32_t token);
    /* Text as it becomes certain: whole characters, held back while they may be the beginning of a stop text. All calls
     * together give the answer's text. */
    void (*on_text)(void *ctx, int index, const char *bytes, size_t n);
    void (*on_progress)(void *ctx, int64_t done, int64_t total); /* positions, while prompts are read */
    void *ctx;
    const volatile sig_atomic_t *stop; /* checked between steps: not 0 ends the answers where they are */
} generate_options;

/* Answer the prompts: answers [n_prompts * n_samples], to be freed with answers_free also after a failure.
 * The engine needs sequences_max of n_prompts * n_samples.
 * KVT_E_ARGUMENT: logits that are not numbers, sampling options, stop texts or an n_top out of their ranges;
 * KVT_E_LIMIT: a prompt longer than the context. */
kvt_status generate(engine *e, const generate_options *opt, answer *answers, error_text *err);

/* Answer a living sequence: compute what waits in it, then token by token. It stays alive and holds the answer's tokens
 * as sampled, where the context has room for the last one too; that one waits, computed with whatever comes next. After
 * a failure it holds those sampled so far. One answer, index 0: opt's prompts and n_samples are not used. Other
 * sequences of the engine that wait are computed along. KVT_E_SEQUENCE: it is not alive. */
kvt_status generate_on(engine *e, int seq, const generate_options *opt, answer *out, error_text *err);

void answers_free(answer *answers, int n);

/* Write a sentence and hand the status on. */
kvt_status engine_fail(error_text *err, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Conversations, on top of all this. */
#include "talk.h"

#endif
