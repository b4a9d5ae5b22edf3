/* engine.c - sequences and steps: who is computed next, room in the cache for it, the forward pass, commit. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sys.h"
#include "inside.h"

engine_options engine_options_default(void) {
    return (engine_options){
        .kind = KVT_PAGED,
        .k_format = KVT_BF16,
        .v_format = KVT_BF16,
        .block_tokens = 32,
        .hot_tokens = 1,
        .sequences_max = 1,
        .math = KVT_MATH_FAST,
        .chunk = 512,
        .share = true,
        .wait = true,
    };
}

kvt_status engine_fail(error_text *err, kvt_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (err) vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    return status;
}

/* ------------------------------------------------------------------------------------------ open and close */

/* The library's last error line, for whoever asks why. */
static void hear(void *ctx, kvt_log_level level, const char *message) {
    engine *e = ctx;
    if (level == KVT_LOG_ERROR) snprintf(e->said.text, sizeof e->said.text, "%s", message);
}

/* The options with the context filled in. */
static engine_options whole(const model *m, const engine_options *opt) {
    engine_options all = *opt;
    if (all.context == 0) all.context = model_context(model_config_of(m));
    if (all.rope_context == 0) all.rope_context = all.context;
    return all;
}

static int rows_most(const engine_options *opt) {
    return opt->kind == KVT_NONE && opt->chunk < opt->context ? opt->context : opt->chunk;
}

static kvt_layer *layers_take(const model *m, size_t *bytes) {
    const model_config *c = model_config_of(m);
    if (!mem_mul((size_t)c->n_layers, sizeof(kvt_layer), bytes)) return NULL;
    kvt_layer *layers = mem_take(NULL, *bytes);
    if (layers) model_layers(c, layers);
    return layers;
}

/* What the cache is told. The limit is no wish for more than all sequences at full length. */
static kvt_options cache_options(const engine_options *from, const kvt_layer *layers, int n_layers) {
    static const uint8_t any_identity[MODEL_IDENTITY_BYTES]; /* what it takes does not depend on which */
    kvt_bytes_info need;
    kvt_options opt = kvt_options_default();
    opt.kind = from->kind;
    opt.layers = layers;
    opt.n_layers = n_layers;
    opt.k_format = from->k_format;
    opt.v_format = from->v_format;
    opt.block_tokens = from->block_tokens;
    opt.hot_tokens = from->hot_tokens;
    opt.sequences_max = from->sequences_max;
    opt.tokens_max = from->context;
    opt.batch_tokens_max = rows_most(from);
    opt.math = from->math;
    opt.forget = !from->share;
    opt.tiers = from->tiers;
    opt.n_tiers = from->n_tiers;
    opt.identity = any_identity;
    if (kvt_bytes(&opt, &need) != KVT_OK || need.bytes_cache + need.bytes_hot > from->cache_bytes)
        opt.bytes_max = from->cache_bytes;
    return opt;
}

kvt_status engine_bytes(const model *m, const engine_options *from, kvt_bytes_info *out) {
    size_t bytes;
    engine_options all = whole(m, from);
    kvt_layer *layers = layers_take(m, &bytes);
    if (!layers) return KVT_E_MEMORY;
    kvt_options opt = cache_options(&all, layers, model_config_of(m)->n_layers);
    kvt_status status = kvt_bytes(&opt, out);
    mem_give(NULL, layers, bytes);
    return status;
}

static kvt_status cache_open(engine *e, kvt_workers *team, error_text *err) {
    uint8_t identity[MODEL_IDENTITY_BYTES];
    size_t bytes;
    if (e->opt.n_tiers > 0) TRY(model_identity(e->model, e->opt.rope_context, e->opt.math, identity, err));
    kvt_layer *layers = layers_take(e->model, &bytes);
    if (!layers) return engine_fail(err, KVT_E_MEMORY, "no memory for a list of layers");
    kvt_options opt = cache_options(&e->opt, layers, model_config_of(e->model)->n_layers);
    if (e->opt.n_tiers > 0) opt.identity = identity;
    opt.label = model_info_of(e->model)->name;
    opt.workers = team;
    opt.log = hear;
    opt.log_ctx = e;
    kvt_status status = kvt_open(&e->cache, &opt);
    if (status != KVT_OK)
        engine_fail(err, status, "%s", e->said.text[0] ? e->said.text : kvt_status_text(status));
    mem_give(NULL, layers, bytes);
    return status;
}

/* Beyond its limit the model would be another one than the file describes. */
static kvt_status context_check(const engine *e, error_text *err) {
    const model_config *c = model_config_of(e->model);
    if (c->limit == 0 || e->opt.context <= c->limit) return KVT_OK;
    return engine_fail(err, KVT_E_LIMIT, "a context of %d tokens: the model's %s ends it at %d, more is not offered",
                       e->opt.context, c->limit_key, c->limit);
}

static bool step_take(engine *e) {
    size_t n = (size_t)e->opt.sequences_max, rows = (size_t)e->rows_max;
    size_t each = sizeof(kvt_seq) + 3 * sizeof(int);
    size_t n_vocab = (size_t)model_config_of(e->model)->n_vocab;

    e->bytes_step = n * each + rows * sizeof(int32_t);
    e->bytes_seqs = n * sizeof(sequence);
    if (!mem_mul(n * n_vocab, sizeof(float), &e->bytes_logits)) return false;
    if (!mem_mul(n * (size_t)e->opt.context, sizeof(int32_t), &e->bytes_tokens)) return false;
    e->step_memory = mem_take(NULL, e->bytes_step);
    e->seqs = mem_take(NULL, e->bytes_seqs);
    e->logits = mem_take(NULL, e->bytes_logits);
    e->tokens = mem_take(NULL, e->bytes_tokens);
    if (!e->step_memory || !e->seqs || !e->logits || !e->tokens) return false;

    e->step_seqs = (kvt_seq *)(void *)e->step_memory;
    e->step_new = (int *)(void *)(e->step_seqs + n);
    e->step_wanted = e->step_new + n;
    e->picked = e->step_wanted + n;
    e->step_tokens = (int32_t *)(e->picked + n);
    for (size_t i = 0; i < n; i++) e->seqs[i].tokens = e->tokens + i * (size_t)e->opt.context;
    return true;
}

kvt_status engine_open(engine **out, const model *m, kvt_workers *team, const engine_options *opt, error_text *err) {
    *out = NULL;
    engine *e = mem_take(NULL, sizeof *e);
    if (!e) return engine_fail(err, KVT_E_MEMORY, "no memory for an engine");
    e->model = m;
    e->opt = whole(m, opt);
    e->rows_max = rows_most(&e->opt);
    e->shares = e->opt.share && e->opt.kind == KVT_PAGED;

    kvt_status status = context_check(e, err);
    if (status == KVT_OK) status = cache_open(e, team, err);
    if (status == KVT_OK) {
        status = model_state_new(&e->state, m, e->rows_max, e->opt.rope_context, e->opt.math, team);
        if (status == KVT_OK && !step_take(e)) status = KVT_E_MEMORY;
        if (status != KVT_OK) engine_fail(err, status, "no memory for steps of %d tokens", e->rows_max);
    }
    if (status != KVT_OK) {
        engine_close(e);
        return status;
    }
    *out = e;
    return KVT_OK;
}

void engine_close(engine *e) {
    if (!e) return;
    kvt_close(e->cache);
    model_state_free(e->state);
    mem_give(NULL, e->step_memory, e->bytes_step);
    mem_give(NULL, e->seqs, e->bytes_seqs);
    mem_give(NULL, e->logits, e->bytes_logits);
    mem_give(NULL, e->tokens, e->bytes_tokens);
    mem_give(NULL, e, sizeof *e);
}

const engine_options *engine_options_of(const engine *e) {
    return &e->opt;
}

const model *engine_model(const engine *e) {
    return e->model;
}

engine_counters engine_counted(const engine *e) {
    return e->count;
}

kvt_stats engine_fullest(const engine *e) {
    return e->fullest;
}

kvt_stats engine_stats(const engine *e) {
    kvt_stats now = { 0 };
    kvt_stats_get(e->cache, &now);
    return now;
}

void engine_flush(engine *e) {
    kvt_flush(e->cache);
}

/* ---------------------------------------------------------------------------------------------- sequences */

static sequence *find(const engine *e, int seq) {
    return seq >= 0 && seq < e->opt.sequences_max && e->seqs[seq].alive ? &e->seqs[seq] : NULL;
}

static kvt_status slot_take(engine *e, int *out) {
    for (int i = 0; i < e->opt.sequences_max; i++) {
        sequence *s = &e->seqs[i];
        if (s->alive) continue;
        *s = (sequence){ .alive = true, .tokens = s->tokens, .row = -1, .born = e->n_born++, .set_aside = NEVER,
                         .follows = NOBODY };
        *out = i;
        return KVT_OK;
    }
    return KVT_FULL;
}

kvt_status engine_add(engine *e, const int32_t *tokens, int n_tokens, int *out) {
    if (n_tokens < 1) return KVT_E_ARGUMENT;
    if (n_tokens > e->opt.context) return KVT_E_LIMIT;
    TRY(slot_take(e, out));
    sequence *s = &e->seqs[*out];
    memcpy(s->tokens, tokens, (size_t)n_tokens * sizeof tokens[0]);
    s->n_tokens = n_tokens;
    reuse_begin(e, s);
    return KVT_OK;
}

kvt_status engine_fork(engine *e, int seq, int *out) {
    const sequence *from = find(e, seq);
    if (!from) return KVT_E_SEQUENCE;
    TRY(slot_take(e, out));
    sequence *s = &e->seqs[*out];
    memcpy(s->tokens, from->tokens, (size_t)from->n_tokens * sizeof s->tokens[0]);
    s->n_tokens = from->n_tokens;
    s->n_done = from->n_done;
    s->row = from->row;
    s->started = from->started;
    s->resumed = from->n_done > 0;
    if (from->cached == KVT_SEQ_NONE) return KVT_OK;
    /* No room for a second one now: it is computed again when there is. */
    kvt_status status = kvt_seq_fork(e->cache, from->cached, &s->cached);
    if (status != KVT_OK) s->cached = KVT_SEQ_NONE;
    if (status < 0) engine_end(e, *out);
    return status < 0 ? status : KVT_OK;
}

kvt_status engine_append(engine *e, int seq, int32_t token) {
    sequence *s = find(e, seq);
    if (!s) return KVT_E_SEQUENCE;
    if (s->n_tokens == e->opt.context) return KVT_E_LIMIT;
    s->tokens[s->n_tokens++] = token;
    s->row = -1;
    return KVT_OK;
}

kvt_status engine_extend(engine *e, int seq, const int32_t *tokens, int n) {
    sequence *s = find(e, seq);
    if (!s) return KVT_E_SEQUENCE;
    if (n < 1) return n < 0 ? KVT_E_ARGUMENT : KVT_OK;
    if (n > e->opt.context - s->n_tokens) return KVT_E_LIMIT;
    memcpy(s->tokens + s->n_tokens, tokens, (size_t)n * sizeof tokens[0]);
    s->n_tokens += n;
    s->row = -1;
    s->started = false;
    return KVT_OK;
}

kvt_status engine_truncate(engine *e, int seq, int n_tokens) {
    sequence *s = find(e, seq);
    if (!s) return KVT_E_SEQUENCE;
    if (n_tokens < 1 || n_tokens > s->n_tokens) return KVT_E_ARGUMENT;
    /* The last token is computed again: its logits are not kept. Of a block in codes the cache keeps none or all, and
     * what it gave up is read again as a prompt is. */
    int kept = engine_cached(e, seq);
    if (kept >= n_tokens) {
        TRY(kvt_seq_truncate(e->cache, s->cached, n_tokens - 1));
        if (kvt_seq_length(e->cache, s->cached) < n_tokens - 1) s->started = false;
    }
    s->n_tokens = n_tokens;
    s->n_done = 0;
    s->row = -1;
    return KVT_OK;
}

/* Its blocks (or region) go back; its tokens stay, to be computed again. */
static void place_give(engine *e, sequence *s) {
    kvt_seq_free(e->cache, s->cached);
    s->cached = KVT_SEQ_NONE;
    s->n_coming = 0;
}

void engine_end(engine *e, int seq) {
    sequence *s = find(e, seq);
    if (!s) return;
    place_give(e, s);
    s->alive = false;
    e->n_ended++;
}

int engine_length(const engine *e, int seq) {
    const sequence *s = find(e, seq);
    return s ? s->n_tokens : KVT_E_SEQUENCE;
}

const int32_t *engine_tokens(const engine *e, int seq) {
    const sequence *s = find(e, seq);
    return s ? s->tokens : NULL;
}

int engine_cached(const engine *e, int seq) {
    const sequence *s = find(e, seq);
    return s ? sequence_held(e, s) : KVT_E_SEQUENCE;
}

const float *engine_logits(const engine *e, int seq) {
    const sequence *s = find(e, seq);
    if (!s || s->row < 0) return NULL;
    return e->logits + (size_t)s->row * (size_t)model_config_of(e->model)->n_vocab;
}

/* --------------------------------------------------------------------------------------------- who is next */

bool engine_waiting(const engine *e) {
    for (int i = 0; i < e->opt.sequences_max; i++)
        if (sequence_waits(&e->seqs[i])) return true;
    return false;
}

static void set_aside(engine *e, sequence *s) {
    place_give(e, s);
    s->set_aside = e->n_ended;
    s->resumed = true;
    e->count.n_paused++;
}

/* A place in the cache for a sequence that has none. False: there is none now. */
static bool place_take(engine *e, sequence *s) {
    if (s->cached != KVT_SEQ_NONE) return true;
    if (s->set_aside == e->n_ended) return false;
    if (kvt_seq_new(e->cache, &s->cached) == KVT_OK) {
        s->set_aside = NEVER;
        s->asks = e->shares;
        return true;
    }
    s->set_aside = e->n_ended;
    return false;
}

/* Tokens that the cache does not hold yet. */
static int missing(const engine *e, const sequence *s) {
    return s->n_tokens - kvt_seq_length(e->cache, s->cached);
}

/* Add a sequence to the step as far as `room` rows go; how many rows it took. */
static int pick(engine *e, int seq, int room) {
    sequence *s = &e->seqs[seq];
    if (reuse_follows(e, s) || !place_take(e, s) || !reuse_take(e, s)) return 0;
    int n = missing(e, s);
    if (n > room) {
        /* Without a cache a sequence is computed whole or not at all. */
        if (e->opt.kind == KVT_NONE) return 0;
        n = room;
    }
    if (n > 0) {
        e->picked[e->n_picked] = seq;
        e->step_seqs[e->n_picked] = s->cached;
        e->step_new[e->n_picked++] = n;
    }
    return n;
}

/* Fill the step: running sequences first, so that a long prompt does not hold up answers, then prompts. Whoever is left
 * out begins the next one. */
static int plan(engine *e) {
    int n = e->opt.sequences_max, room = e->rows_max, left_out = -1;
    e->n_picked = 0;
    for (int started = 1; started >= 0; started--) {
        for (int i = 0; i < n; i++) {
            int seq = (e->turn + i) % n;
            if (!sequence_waits(&e->seqs[seq]) || e->seqs[seq].started != started) continue;
            int took = pick(e, seq, room);
            if (took == 0 && left_out < 0) left_out = seq;
            room -= took;
        }
    }
    if (left_out >= 0) e->turn = left_out;
    return e->rows_max - room;
}

/* The cache is full: the youngest sequence that has a place gives it up, unless it is the only one. */
static bool make_room(engine *e) {
    sequence *youngest = NULL;
    int n_placed = 0;
    for (int i = 0; i < e->opt.sequences_max; i++) {
        sequence *s = &e->seqs[i];
        if (!s->alive || s->cached == KVT_SEQ_NONE) continue;
        n_placed++;
        if (!youngest || s->born > youngest->born) youngest = s;
    }
    if (n_placed < 2) return false;
    set_aside(e, youngest);
    return true;
}

/* Blocks may be held by what is on its way to or from tiers, too; false: nothing is. */
static bool moves_end(engine *e) {
    if (engine_stats(e).moves_open == 0) return false;
    kvt_flush(e->cache);
    return true;
}

/* -------------------------------------------------------------------------------------------------- a step */

/* Tokens of the rows, and the rows whose logits complete a sequence. */
static int fill(engine *e) {
    int row = 0, n_wanted = 0;
    for (int i = 0; i < e->n_picked; i++) {
        const sequence *s = &e->seqs[e->picked[i]];
        int first = kvt_seq_length(e->cache, s->cached), n = e->step_new[i];
        memcpy(e->step_tokens + row, s->tokens + first, (size_t)n * sizeof s->tokens[0]);
        row += n;
        if (first + n == s->n_tokens) e->step_wanted[n_wanted++] = row - 1;
    }
    return n_wanted;
}

/* What the step has made true: who has logits, and what it cost. */
static void account(engine *e, uint64_t ns) {
    int row = 0;
    uint64_t prefill = 0, decode = 0;
    for (int i = 0; i < e->opt.sequences_max; i++) e->seqs[i].row = -1;
    for (int i = 0; i < e->n_picked; i++) {
        sequence *s = &e->seqs[e->picked[i]];
        *(s->started ? &decode : &prefill) += (uint64_t)e->step_new[i];
        bool whole = e->opt.kind == KVT_NONE || missing(e, s) == 0;
        if (!whole) continue;
        s->n_done = s->n_tokens;
        s->started = true;
        s->row = row++;
    }
    e->count.prefill_positions += prefill;
    e->count.decode_positions += decode;
    e->count.positions_computed += prefill + decode;
    if (prefill > 0) e->count.prefill_ns += ns;
    e->count.n_steps++;
    kvt_stats now;
    if (kvt_stats_get(e->cache, &now) == KVT_OK && now.tokens_held >= e->fullest.tokens_held) e->fullest = now;
}

static kvt_status step(engine *e) {
    uint64_t start = sys_now_ns();
    kvt_status status;
    kvt_batch batch = { .seqs = e->step_seqs, .n_new = e->step_new };
    do {
        if (plan(e) == 0) return reuse_coming(e) ? reuse_wait(e) : KVT_FULL;
        batch.n_seqs = e->n_picked;
        status = kvt_reserve(e->cache, &batch);
    } while (status == KVT_FULL && (make_room(e) || moves_end(e)));
    if (status != KVT_OK) return status;

    model_step work = { .batch = batch, .tokens = e->step_tokens, .wanted = e->step_wanted, .logits = e->logits };
    work.n_wanted = fill(e);
    status = model_forward(e->state, e->cache, &work);
    if (status == KVT_OK) status = kvt_commit(e->cache, &batch, e->step_tokens);
    if (status != KVT_OK) {
        kvt_abort(e->cache, &batch);
        return status;
    }
    account(e, sys_now_ns() - start);
    return KVT_OK;
}

kvt_status engine_step(engine *e) {
    if (!engine_waiting(e)) return KVT_OK;
    mem_guard("a step");
    kvt_status status = step(e);
    mem_guard(NULL);
    return status;
}
