/* score.c - see score.h. */
#include "score.h"

#include <stdlib.h>

enum { BLOCK_MOST = 64 }; /* tokens of a block */

/* ------------------------------------------------------------------------------------------------- a reading */

static void hear(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    if (level == KVT_LOG_ERROR) cli_fail("%s", message);
}

static kvt_status cache_open(score_reader *r, const score_setup *s) {
    const model_config *c = model_config_of(r->model);
    kvt_layer *layers = calloc((size_t)c->n_layers, sizeof *layers);
    if (!layers) return KVT_E_MEMORY;
    model_layers(c, layers);
    kvt_options opt = kvt_options_default();
    opt.layers = layers;
    opt.n_layers = c->n_layers;
    opt.k_format = s->k_format;
    opt.v_format = s->v_format;
    opt.block_tokens = s->block_tokens;
    opt.hot_tokens = s->hot_tokens;
    opt.sequences_max = 1;
    opt.tokens_max = s->context;
    opt.batch_tokens_max = s->rows_max;
    opt.math = s->math;
    opt.workers = r->team;
    opt.log = hear;
    format_cost_of(layers, c->n_layers, (format_pair){ NULL, s->k_format, s->v_format }, s->block_tokens, &r->cost);
    kvt_status status = kvt_open(&r->cache, &opt);
    if (status == KVT_OK) status = kvt_seq_new(r->cache, &r->seq);
    free(layers);
    return status;
}

static bool rows_take(score_reader *r, int rows_max) {
    size_t n = (size_t)rows_max;
    r->rows = malloc(n * sizeof *r->rows);
    r->logits = malloc(n * (size_t)model_config_of(r->model)->n_vocab * sizeof *r->logits);
    for (int i = 0; r->rows && i < rows_max; i++) r->rows[i] = i;
    return r->rows && r->logits;
}

int score_open(score_reader *r, const loaded *l, const score_setup *s) {
    const model_config *c = model_config_of(l->model);
    *r = (score_reader){ .model = l->model, .team = l->team, .block_tokens = s->block_tokens, .rows_max = s->rows_max };
    if (c->limit > 0 && s->context > c->limit)
        return cli_fail("reading %d tokens: the model's %s ends its context at %d, more is not offered", s->context,
                        c->limit_key, c->limit);
    if (!rows_take(r, s->rows_max)) return cli_fail("no memory for the logits of %d tokens", s->rows_max);
    kvt_status status = cache_open(r, s);
    if (status == KVT_OK) status = model_state_new(&r->state, l->model, s->rows_max, s->context, s->math, l->team);
    if (status == KVT_OK) return CLI_DONE;
    return cli_fail("reading %d tokens: %s", s->context, kvt_status_text(status));
}

void score_close(score_reader *r) {
    kvt_close(r->cache);
    model_state_free(r->state);
    free(r->rows);
    free(r->logits);
}

static int read_from(score_reader *r, const int32_t *tokens, int n, int first_wanted) {
    model_step step = { .batch = { 1, &r->seq, &n }, .tokens = tokens, .wanted = r->rows + first_wanted,
                        .n_wanted = n - first_wanted, .logits = r->logits };
    kvt_status status = kvt_reserve(r->cache, &step.batch);
    if (status == KVT_OK) status = model_forward(r->state, r->cache, &step);
    if (status == KVT_OK) status = kvt_commit(r->cache, &step.batch, tokens);
    return status == KVT_OK ? CLI_DONE : cli_fail("reading the text: %s", kvt_status_text(status));
}

int score_read(score_reader *r, const int32_t *tokens, int n) {
    return read_from(r, tokens, n, 0);
}

int score_read_last(score_reader *r, const int32_t *tokens, int n) {
    return read_from(r, tokens, n, n - 1);
}

int score_seek(score_reader *r, int n) {
    int32_t tokens[BLOCK_MOST];
    int first = n - n % r->block_tokens;
    /* A block in codes is kept whole or not at all: what is given up with it is read again. */
    kvt_status status = kvt_seq_tokens(r->cache, r->seq, first, n - first, tokens);
    if (status == KVT_OK) status = kvt_seq_truncate(r->cache, r->seq, n);
    if (status != KVT_OK) return cli_fail("going back in the text: %s", kvt_status_text(status));
    for (int at = kvt_seq_length(r->cache, r->seq); at < n;) {
        int rows = n - at < r->rows_max ? n - at : r->rows_max;
        if (score_read_last(r, tokens + at - first, rows) != CLI_DONE) return CLI_FAILED;
        at += rows;
    }
    return CLI_DONE;
}

/* -------------------------------------------------------------------------------------------------- the rows */

typedef struct rows_work {
    const score_reader *r, *other;
    const int32_t *next;
    score_row *out;
    int n_vocab;
} rows_work;

static int top_of(const float *logits, int n) {
    int top = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[top]) top = i;
    return top;
}

/* The logarithm of the sum of e^logit, in order of id. */
static double log_sum(const float *logits, int n, double most) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += kvt_exp((double)logits[i] - most);
    return most + kvt_log(sum);
}

/* Sum of p ln(p / q). */
static double divergence(const float *p, double p_sum, const float *q, double q_sum, int n) {
    double kl = 0;
    for (int i = 0; i < n; i++) {
        double ln_p = (double)p[i] - p_sum, ln_q = (double)q[i] - q_sum;
        kl += kvt_exp(ln_p) * (ln_p - ln_q);
    }
    return kl < 0 ? 0 : kl; /* rounding may make it negative; NaN stays */
}

static void row_score(void *ctx, int item, int worker) {
    const rows_work *w = ctx;
    (void)worker;
    const float *row = w->r->logits + (size_t)item * (size_t)w->n_vocab;
    int top = top_of(row, w->n_vocab);
    double sum = log_sum(row, w->n_vocab, (double)row[top]);
    w->out[item] = (score_row){ .nll = w->next[item] >= 0 ? sum - (double)row[w->next[item]] : 0 };
    if (!w->other) return;
    const float *theirs = w->other->logits + (size_t)item * (size_t)w->n_vocab;
    int their_top = top_of(theirs, w->n_vocab);
    double their_sum = log_sum(theirs, w->n_vocab, (double)theirs[their_top]);
    w->out[item].kl = divergence(theirs, their_sum, row, sum, w->n_vocab);
    w->out[item].top_agrees = top == their_top;
}

void score_rows(const score_reader *r, const score_reader *other, const int32_t *next, int n, score_row *out) {
    rows_work work = { r, other, next, out, model_config_of(r->model)->n_vocab };
    kvt_workers_run(r->team, n, row_score, &work);
}
