/* generate.c - answers to prompts: one prefill each, forks for the samples, then token by token while any goes on. */
#include <stdlib.h>

#include "base/log.h"
#include "base/sys.h"
#include "engine.h"

enum { NO_SEQUENCE = -1 };

typedef struct run {
    engine *e;
    const generate_options *opt;
    error_text *err;
    sampler *sampler;
    answer *answers;
    int n_answers;
    int *seq; /* [n_answers] its sequence, NO_SEQUENCE: not begun or finished */
    uint64_t start_ns;
} run;

const char *finish_name(finish_reason reason) {
    static const char *const names[] = { "none", "stop", "length", "interrupted" };
    return names[reason];
}

static bool stopped(const run *r) {
    return r->opt->stop && *r->opt->stop;
}

static void finish(run *r, int index, finish_reason reason) {
    r->answers[index].finish = reason;
    if (r->seq[index] == NO_SEQUENCE) return;
    engine_end(r->e, r->seq[index]);
    r->seq[index] = NO_SEQUENCE;
}

/* ------------------------------------------------------------------------------------------ begin and prefill */

static kvt_status check(const generate_options *opt, int context, error_text *err) {
    for (int i = 0; i < opt->n_prompts; i++) {
        int n = opt->prompts[i].n_tokens;
        if (n < 1) return engine_fail(err, KVT_E_ARGUMENT, "prompt %d is empty", i + 1);
        if (n > context)
            return engine_fail(err, KVT_E_LIMIT, "the prompt has %d tokens, the context holds %d", n, context);
    }
    return KVT_OK;
}

/* Each prompt's first answer gets the sequence; the other samples fork from it once it has logits. */
static kvt_status begin(run *r) {
    for (int i = 0; i < r->opt->n_prompts; i++) {
        const prompt *p = &r->opt->prompts[i];
        TRY(engine_add(r->e, p->tokens, p->n_tokens, &r->seq[i * r->opt->n_samples]));
    }
    return KVT_OK;
}

static kvt_status fork_samples(run *r, int first) {
    for (int i = 1; i < r->opt->n_samples; i++) TRY(engine_fork(r->e, r->seq[first], &r->seq[first + i]));
    return KVT_OK;
}

static void progress(const run *r) {
    int64_t total = 0;
    for (int i = 0; i < r->opt->n_prompts; i++) total += r->opt->prompts[i].n_tokens;
    if (r->opt->on_progress) r->opt->on_progress(r->opt->ctx, (int64_t)engine_counted(r->e).prefill_positions, total);
}

/* --------------------------------------------------------------------------------------------- one token */

/* Sample an answer's next token from its logits, tell it, and decide whether the answer goes on. */
static kvt_status extend(run *r, int index) {
    const generate_options *opt = r->opt;
    answer *a = &r->answers[index];
    const float *logits = engine_logits(r->e, r->seq[index]);
    if (!logits) return KVT_OK;
    if (opt->on_logits) opt->on_logits(opt->ctx, index, logits);
    int token = sampler_pick(r->sampler, &opt->sampling, logits, (uint64_t)(index % opt->n_samples),
                             (uint64_t)engine_length(r->e, r->seq[index]));
    if (token < 0)
        return engine_fail(r->err, KVT_E_ARGUMENT, "the logits of token %d are not numbers: the model file is damaged",
                        engine_length(r->e, r->seq[index]));
    a->last_ns = sys_now_ns() - r->start_ns;
    if (a->n_tokens == 0) a->first_ns = a->last_ns;
    a->tokens[a->n_tokens++] = token;
    if (opt->on_token) opt->on_token(opt->ctx, index, token);

    if (tokenizer_is_end(model_tokenizer(engine_model(r->e)), token)) finish(r, index, FINISH_STOP);
    else if (a->n_tokens == opt->tokens_max) finish(r, index, FINISH_LENGTH);
    else if (engine_append(r->e, r->seq[index], token) == KVT_E_LIMIT) finish(r, index, FINISH_LENGTH);
    return KVT_OK;
}

/* After a step: forks for prompts that are through, then a token for each answer that has logits. */
static kvt_status harvest(run *r) {
    for (int first = 0; first < r->n_answers; first += r->opt->n_samples) {
        bool fresh = r->answers[first].n_tokens == 0 && engine_logits(r->e, r->seq[first]);
        if (fresh) TRY(fork_samples(r, first));
    }
    for (int i = 0; i < r->n_answers; i++)
        if (r->seq[i] != NO_SEQUENCE) TRY(extend(r, i));
    return KVT_OK;
}

static kvt_status steps(run *r) {
    TRY(begin(r));
    while (engine_waiting(r->e) && !stopped(r)) {
        kvt_status status = engine_step(r->e);
        if (status != KVT_OK) return engine_fail(r->err, status, "a step failed: %s", kvt_status_text(status));
        progress(r);
        TRY(harvest(r));
    }
    for (int i = 0; i < r->n_answers; i++)
        if (r->answers[i].finish == FINISH_NONE) finish(r, i, FINISH_INTERRUPTED);
    return KVT_OK;
}

/* ---------------------------------------------------------------------------------------------- all of it */

/* An answer's array never grows: it ends at tokens_max, or with the context. */
static bool answers_take(run *r, int context) {
    for (int i = 0; i < r->n_answers; i++) {
        int room = context - r->opt->prompts[i / r->opt->n_samples].n_tokens + 1;
        if (room > r->opt->tokens_max) room = r->opt->tokens_max;
        r->answers[i] = (answer){ .tokens = malloc((size_t)room * sizeof(int32_t)) };
        r->seq[i] = NO_SEQUENCE;
        if (!r->answers[i].tokens) return false;
    }
    return true;
}

kvt_status generate(engine *e, const generate_options *opt, answer *answers, error_text *err) {
    run r = { .e = e, .opt = opt, .err = err, .answers = answers, .n_answers = opt->n_prompts * opt->n_samples };
    for (int i = 0; i < r.n_answers; i++) answers[i] = (answer){ 0 };
    TRY(check(opt, engine_options_of(e)->context, err));

    r.sampler = sampler_new(model_config_of(engine_model(e))->n_vocab);
    r.seq = malloc((size_t)r.n_answers * sizeof r.seq[0]);
    kvt_status status = KVT_OK;
    if (!r.sampler || !r.seq || !answers_take(&r, engine_options_of(e)->context))
        status = engine_fail(err, KVT_E_MEMORY, "no memory for %d answers", r.n_answers);
    r.start_ns = sys_now_ns();
    if (status == KVT_OK) {
        status = steps(&r);
        for (int i = 0; i < r.n_answers; i++) finish(&r, i, r.answers[i].finish);
    }
    sampler_free(r.sampler);
    free(r.seq);
    return status;
}

void answers_free(answer *answers, int n) {
    for (int i = 0; i < n; i++) {
        free(answers[i].tokens);
        answers[i].tokens = NULL;
    }
}
