/* generate.c - answers: what waits is computed, forks for the samples, then token by token while any goes on. */
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "engine.h"
#include "writer.h"

enum { NO_SEQUENCE = -1 };

/* An answer and the sequence that it is read from. */
typedef struct work {
    writer writer;
    int seq;         /* NO_SEQUENCE: not begun yet */
    uint64_t number; /* of the answer, which decides what is drawn */
    int n_before;    /* tokens of the sequence before the answer */
    bool open;       /* goes on */
} work;

typedef struct run {
    engine *e;
    const generate_options *opt;
    error_text *err;
    sampler *sampler;
    stop_list *stops;
    work *works; /* [n_works] */
    int n_works;
    int n_samples; /* works to each prompt, one after the other */
    bool keep;     /* the sequence is the caller's and lives on */
    uint64_t start_ns;
    engine_counters before; /* what the engine had done until then */
    int64_t to_read;        /* tokens that the cache may know some of */
} run;

const char *finish_name(finish_reason reason) {
    static const char *const names[] = { "none", "stop", "length", "interrupted" };
    return names[reason];
}

static bool stopped(const run *r) {
    return r->opt->stop && *r->opt->stop;
}

static kvt_status no_memory(const run *r) {
    return engine_fail(r->err, KVT_E_MEMORY, "no memory for %d answers", r->n_works);
}

static kvt_status finish(run *r, work *w, finish_reason reason) {
    w->open = false;
    if (!r->keep) engine_end(r->e, w->seq); /* its place in the cache may be waited for */
    return writer_end(&w->writer, reason) == KVT_OK ? KVT_OK : no_memory(r);
}

/* ----------------------------------------------------------------------------------------------- one token */

/* The sequence gets the token too; does the answer end with it, and why? */
static finish_reason follow(run *r, work *w, int token) {
    const answer *a = w->writer.out;
    kvt_status room = engine_append(r->e, w->seq, token);
    if (a->finish != FINISH_NONE) return a->finish;
    if (tokenizer_is_end(model_tokenizer(engine_model(r->e)), token)) return FINISH_STOP;
    return a->n_tokens == r->opt->tokens_max || room == KVT_E_LIMIT ? FINISH_LENGTH : FINISH_NONE;
}

/* Sample an answer's next token from its logits, tell it, and decide whether the answer goes on. */
static kvt_status extend(run *r, work *w) {
    answer *a = w->writer.out;
    const float *logits = engine_logits(r->e, w->seq);
    if (!logits) return KVT_OK;
    if (r->opt->on_logits) r->opt->on_logits(r->opt->ctx, w->writer.index, logits);
    sample_history history = { engine_tokens(r->e, w->seq), engine_length(r->e, w->seq), w->n_before };
    int token = sampler_pick(r->sampler, &r->opt->sampling, logits, &history, w->number);
    if (token < 0)
        return engine_fail(r->err, KVT_E_ARGUMENT,
                           "the logits of token %d are not numbers (a damaged model file), or biases leave no token",
                           history.n_tokens);
    a->last_ns = sys_now_ns() - r->start_ns;
    if (a->n_tokens == 0) a->first_ns = a->last_ns;
    if (writer_add(&w->writer, token, logits) != KVT_OK) return no_memory(r);
    finish_reason reason = follow(r, w, token);
    return reason == FINISH_NONE ? KVT_OK : finish(r, w, reason);
}

static kvt_status fork_samples(run *r, work *first) {
    for (work *w = first + 1; w < first + r->n_samples; w++) {
        kvt_status status = engine_fork(r->e, first->seq, &w->seq);
        if (status != KVT_OK)
            return engine_fail(r->err, status, "a sequence could not be forked: %s", kvt_status_text(status));
        w->open = true;
    }
    return KVT_OK;
}

/* Forks for prompts that are through, then a token for each answer that has logits. */
static kvt_status harvest(run *r) {
    for (work *first = r->works; first < r->works + r->n_works; first += r->n_samples)
        if (first->open && first->writer.out->n_tokens == 0 && engine_logits(r->e, first->seq))
            TRY(fork_samples(r, first));
    for (work *w = r->works; w < r->works + r->n_works; w++)
        if (w->open) TRY(extend(r, w));
    return KVT_OK;
}

/* -------------------------------------------------------------------------------------------------- all tokens */

/* Tokens that were not computed for their prompts. */
static uint64_t reused(const engine_counters *c) {
    return c->tokens_found + c->tokens_fetched - c->tokens_resumed;
}

/* What is found is no work, and what is read again because the cache was full is not counted twice. */
static void progress(const run *r) {
    engine_counters now = engine_counted(r->e);
    int64_t done = (int64_t)(now.prefill_positions - r->before.prefill_positions);
    int64_t total = r->to_read - (int64_t)(reused(&now) - reused(&r->before));
    if (r->opt->on_progress) r->opt->on_progress(r->opt->ctx, done < total ? done : total, total);
}

static bool any_open(const run *r) {
    for (int i = 0; i < r->n_works; i++)
        if (r->works[i].open) return true;
    return false;
}

/* Each answer goes on until it ends, all of them in the same steps. */
static kvt_status write_all(run *r) {
    r->start_ns = sys_now_ns();
    r->before = engine_counted(r->e);
    TRY(harvest(r)); /* a sequence may have its logits already */
    while (any_open(r) && !stopped(r)) {
        kvt_status status = engine_step(r->e);
        if (status != KVT_OK) return engine_fail(r->err, status, "a step failed: %s", kvt_status_text(status));
        progress(r);
        TRY(harvest(r));
    }
    for (int i = 0; i < r->n_works; i++)
        if (r->works[i].writer.out->finish == FINISH_NONE) TRY(finish(r, &r->works[i], FINISH_INTERRUPTED));
    return KVT_OK;
}

/* ------------------------------------------------------------------------------------------- begin and end */

static kvt_status stops_take(run *r) {
    kvt_status status = stop_list_new(&r->stops, r->opt->stop_texts, r->opt->n_stop_texts);
    if (status == KVT_E_ARGUMENT)
        return engine_fail(r->err, status, "an empty stop text, or more than %d of them", STOP_TEXTS_MAX);
    return status == KVT_OK ? KVT_OK : no_memory(r);
}

static kvt_status run_open(run *r) {
    int n_vocab = model_config_of(engine_model(r->e))->n_vocab;
    TRY(sample_options_check(&r->opt->sampling, n_vocab, r->err));
    if (r->opt->n_top < 0 || r->opt->n_top > LOGPROBS_TOP_MAX)
        return engine_fail(r->err, KVT_E_ARGUMENT, "log-probabilities of %d tokens: at most %d", r->opt->n_top,
                           LOGPROBS_TOP_MAX);
    TRY(stops_take(r));
    r->sampler = sampler_new(n_vocab);
    r->works = calloc((size_t)r->n_works, sizeof r->works[0]);
    if (!r->sampler || !r->works) return no_memory(r);
    for (int i = 0; i < r->n_works; i++) r->works[i].seq = NO_SEQUENCE;
    return KVT_OK;
}

static void run_close(run *r) {
    for (int i = 0; r->works && i < r->n_works; i++) writer_close(&r->works[i].writer);
    free(r->works);
    sampler_free(r->sampler);
    stop_list_free(r->stops);
}

/* Work number i: its answer never grows beyond tokens_max, or the context and one token more. */
static kvt_status work_begin(run *r, int i, int n_before, answer *out) {
    work *w = &r->works[i];
    int room = engine_options_of(r->e)->context - n_before + 1;
    if (room > r->opt->tokens_max) room = r->opt->tokens_max;
    w->number = r->opt->draw + (uint64_t)(i % r->n_samples);
    w->n_before = n_before;
    if (writer_open(&w->writer, out, room, engine_model(r->e), r->stops, r->opt) != KVT_OK)
        return no_memory(r);
    w->writer.index = i;
    return KVT_OK;
}

static kvt_status prompts_check(const generate_options *opt, int context, error_text *err) {
    for (int i = 0; i < opt->n_prompts; i++) {
        int n = opt->prompts[i].n_tokens;
        if (n < 1) return engine_fail(err, KVT_E_ARGUMENT, "prompt %d is empty", i + 1);
        if (n > context)
            return engine_fail(err, KVT_E_LIMIT, "the prompt has %d tokens, the context holds %d", n, context);
    }
    return KVT_OK;
}

/* Each prompt's first answer gets the sequence; the other samples fork from it once it has logits. */
static kvt_status prompts_begin(run *r, answer *answers) {
    for (int i = 0; i < r->n_works; i++) {
        const prompt *p = &r->opt->prompts[i / r->n_samples];
        TRY(work_begin(r, i, p->n_tokens, &answers[i]));
        if (i % r->n_samples > 0) continue;
        kvt_status status = engine_add(r->e, p->tokens, p->n_tokens, &r->works[i].seq);
        if (status != KVT_OK)
            return engine_fail(r->err, status, "a prompt found no place: %s", kvt_status_text(status));
        r->works[i].open = true;
        r->to_read += p->n_tokens;
    }
    return KVT_OK;
}

kvt_status generate(engine *e, const generate_options *opt, answer *answers, error_text *err) {
    run r = { .e = e, .opt = opt, .err = err, .n_works = opt->n_prompts * opt->n_samples, .n_samples = opt->n_samples };
    for (int i = 0; i < r.n_works; i++) answers[i] = (answer){ 0 };
    TRY(prompts_check(opt, engine_options_of(e)->context, err));
    kvt_status status = run_open(&r);
    if (status == KVT_OK) status = prompts_begin(&r, answers);
    if (status == KVT_OK) status = write_all(&r);
    for (int i = 0; r.works && i < r.n_works; i++)
        if (r.works[i].open) engine_end(e, r.works[i].seq);
    run_close(&r);
    return status;
}

kvt_status generate_on(engine *e, int seq, const generate_options *opt, answer *out, error_text *err) {
    run r = { .e = e, .opt = opt, .err = err, .n_works = 1, .n_samples = 1, .keep = true };
    int n_before = engine_length(e, seq);
    *out = (answer){ 0 };
    if (n_before < 1) return engine_fail(err, KVT_E_SEQUENCE, "there is no sequence %d", seq);
    /* Where all is computed and another step took the logits, the last token is computed again. */
    if (!engine_logits(e, seq)) TRY(engine_truncate(e, seq, n_before));
    kvt_status status = run_open(&r);
    if (status == KVT_OK) status = work_begin(&r, 0, n_before, out);
    if (status == KVT_OK) {
        r.works[0].seq = seq;
        r.works[0].open = true;
        r.to_read = n_before - engine_cached(e, seq);
        status = write_all(&r);
    }
    run_close(&r);
    return status;
}

void answers_free(answer *answers, int n) {
    for (int i = 0; i < n; i++) {
        free(answers[i].tokens);
        free(answers[i].logprobs);
        byte_list_free(&answers[i].text);
        answers[i] = (answer){ 0 };
    }
}
