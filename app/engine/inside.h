/* inside.h - what an engine is made of, inside the room: engine.c grows sequences and makes steps, reuse.c takes what
 * the cache knows and says who waits for it. */
#ifndef APP_ENGINE_INSIDE_H
#define APP_ENGINE_INSIDE_H

#include "engine.h"

typedef struct sequence {
    bool alive, started; /* started: has had logits, so what waits is decode */
    kvt_seq cached;      /* KVT_SEQ_NONE: has no place in the cache, for now */
    int32_t *tokens;     /* [context] */
    int n_tokens;
    int n_done;         /* tokens up to which logits were computed; fewer than n_tokens: the rest waits */
    int row;            /* of its logits; -1: they are gone, or were never there */
    uint64_t born;      /* order of arrival */
    uint64_t set_aside; /* n_ended when it was paused: it waits until another one has ended; NEVER: it is not paused */

    bool resumed;          /* it was computed before, and gave its blocks back */
    bool asks;             /* before it is computed the cache is asked what it knows */
    int n_coming;          /* tokens that are on their way from a tier */
    uint64_t came_ns;      /* when some last came */
    int follows;           /* the sequence whose beginning it waits for; NOBODY: none */
    uint64_t follows_born; /* tells that one from another in its slot */
    int n_common;          /* tokens of whole blocks that both begin with */
} sequence;

enum { NOBODY = -1 };
static const uint64_t NEVER = UINT64_MAX;

struct engine {
    const model *model;
    engine_options opt;
    bool shares; /* the cache can be asked */
    kvt_cache *cache;
    model_state *state;
    engine_counters count;
    kvt_stats fullest;
    error_text said; /* by the cache */
    uint64_t n_born, n_ended;
    sequence *seqs; /* [sequences_max] */
    int turn;       /* the sequence whose turn it is in the next step */

    /* One step, taken once: arrays of sequences_max, tokens of rows_max. */
    int rows_max, n_picked;
    int *picked; /* sequence numbers */
    kvt_seq *step_seqs;
    int *step_new, *step_wanted;
    int32_t *step_tokens;
    float *logits; /* [sequences_max][n_vocab] */
    int32_t *tokens;
    size_t bytes_step, bytes_logits, bytes_tokens, bytes_seqs;
    char *step_memory;
};

/* Tokens that the cache holds of it. */
static inline int sequence_held(const engine *e, const sequence *s) {
    return s->cached == KVT_SEQ_NONE ? 0 : kvt_seq_length(e->cache, s->cached);
}

static inline bool sequence_waits(const sequence *s) {
    return s->alive && s->n_done < s->n_tokens;
}

/* ------------------------------------------------------------------------------------------------- reuse.c */

/* A new sequence has its tokens: whose beginning is its own? */
void reuse_begin(engine *e, sequence *s);
/* Does it wait for another one to compute what both begin with? */
bool reuse_follows(const engine *e, sequence *s);
/* Take what the cache knows of a sequence that has a place; false: some of it is still on its way. */
bool reuse_take(engine *e, sequence *s);
/* Is anything that a sequence waits for on its way from a tier? */
bool reuse_coming(const engine *e);
/* Wait for it, but only a moment. */
kvt_status reuse_wait(engine *e);

#endif
