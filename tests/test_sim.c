/* test_sim.c - random operations on a cache, in lock-step with a model that is too simple to be wrong: a sequence is
 * an array of tokens and an array of block names, and every count is made by counting. Keys and values spell their
 * token and freed blocks are poisoned, so a sequence that reads another's memory is found.
 *
 *     KVTILE_SEED=7 KVTILE_STEPS=10000000 test_sim */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "toy.h"

enum {
    SEQS_MAX = 6,
    TOKENS_MAX = 96,
    BLOCKS_MAX = SEQS_MAX * TOKENS_MAX / 16,
    SEQ_BLOCKS_MAX = TOKENS_MAX / 16,
    ENTRIES_MAX = 3,
    NEW_MAX = 40
};

/* --------------------------------------------------------------------------------------------- the model */

typedef struct model_seq {
    bool alive;
    kvt_seq id;
    int n_tokens, n_blocks;
    int32_t tokens[TOKENS_MAX];
    int blocks[SEQ_BLOCKS_MAX]; /* names of the model's own */
} model_seq;

typedef struct model {
    kvt_cache_kind kind;
    bool seals; /* full blocks but the first */
    int n_seqs, n_blocks, block_tokens, tokens_max;
    model_seq seqs[SEQS_MAX];
    uint64_t n_copied, n_commits, n_aborts, n_full, n_committed;
} model;

typedef struct sim {
    kvt_cache *c;
    model m;
    uint64_t random;
    long n_ops;
    int32_t next_token;
    kvt_seq dead; /* a handle that was freed */
    bool forgets; /* no block is kept for others to begin with */
} sim;

/* Times each block is named. */
static void model_count(const model *m, int *named) {
    memset(named, 0, (size_t)m->n_blocks * sizeof *named);
    for (int i = 0; i < m->n_seqs; i++)
        for (int j = 0; m->seqs[i].alive && j < m->seqs[i].n_blocks; j++) named[m->seqs[i].blocks[j]]++;
}

/* A block that nobody names; -1: full. */
static int model_free_block(const model *m) {
    int named[BLOCKS_MAX];
    model_count(m, named);
    for (int b = 0; b < m->n_blocks; b++)
        if (named[b] == 0) return b;
    return -1;
}

static bool model_grow(model *m, model_seq *s) {
    int b = model_free_block(m);
    if (b >= 0) s->blocks[s->n_blocks++] = b;
    return b >= 0;
}

static int blocks_of(const model *m, int n_tokens) {
    return (n_tokens + m->block_tokens - 1) / m->block_tokens;
}

static void model_cut(model *m, model_seq *s, int n_tokens) {
    s->n_tokens = n_tokens;
    if (m->kind != KVT_CONTIGUOUS) s->n_blocks = blocks_of(m, n_tokens);
}

static model_seq *model_free_seq(model *m) {
    for (int i = 0; i < m->n_seqs; i++)
        if (!m->seqs[i].alive) return &m->seqs[i];
    return NULL;
}

/* A new sequence, or NULL where the cache must be full. */
static model_seq *model_new(model *m) {
    model_seq *s = model_free_seq(m);
    if (!s) return NULL;
    *s = (model_seq){.alive = true};
    while (m->kind == KVT_CONTIGUOUS && s->n_blocks < blocks_of(m, m->tokens_max))
        if (!model_grow(m, s)) {
            s->alive = false;
            return NULL;
        }
    return s;
}

/* Room for n tokens more. False where the cache must be full. */
static bool model_reserve(model *m, model_seq *s, int n) {
    int named[BLOCKS_MAX];
    model_count(m, named);
    if (s->n_tokens % m->block_tokens && named[s->blocks[s->n_tokens / m->block_tokens]] > 1) {
        int b = model_free_block(m);
        if (b < 0) return false;
        s->blocks[s->n_tokens / m->block_tokens] = b;
        m->n_copied++;
    }
    while (s->n_blocks < blocks_of(m, s->n_tokens + n))
        if (!model_grow(m, s)) return false;
    return true;
}

/* ------------------------------------------------------------------------------------------- comparing */

/* Longest part of a block that a sequence has filled. hot: tokens of it that a sealing cache keeps hot as well. */
static int model_filled(const model *m, int block, int *hot) {
    int most = 0, first = 0;
    for (int i = 0; i < m->n_seqs; i++)
        for (int j = 0; m->seqs[i].alive && j < m->seqs[i].n_blocks; j++) {
            int n = m->seqs[i].n_tokens - j * m->block_tokens;
            if (m->seqs[i].blocks[j] == block && n > most) most = n;
            if (m->seqs[i].blocks[j] == block && j == 0) first = 1;
        }
    if (most > m->block_tokens) most = m->block_tokens;
    *hot = m->seals && (first || most < m->block_tokens) ? most : 0;
    return most;
}

#define SAME(what, got, want)                                                                                     \
    do {                                                                                                          \
        if ((uint64_t)(got) != (uint64_t)(want))                                                                  \
            fail_msg("op %ld: %s is %llu, must be %llu", s->n_ops, what, (unsigned long long)(got),               \
                     (unsigned long long)(want));                                                                 \
    } while (0)

static void compare_stats(const sim *s) {
    const model *m = &s->m;
    int named[BLOCKS_MAX], n_used = 0, n_shared = 0, n_held = 0, n_stored = 0, n_hot = 0, n_alive = 0, hot;
    kvt_stats now;
    kvt_stats_get(s->c, &now);
    model_count(m, named);
    for (int b = 0; b < m->n_blocks; b++) {
        n_used += named[b] > 0;
        n_shared += named[b] > 1;
        if (named[b]) n_stored += model_filled(m, b, &hot), n_hot += hot;
    }
    for (int i = 0; i < m->n_seqs; i++)
        if (m->seqs[i].alive) n_held += m->seqs[i].n_tokens, n_alive++;
    SAME("blocks_used", now.blocks_used, n_used);
    SAME("blocks_free", now.blocks_free, m->n_blocks - n_used);
    SAME("blocks_shared", now.blocks_shared, n_shared);
    SAME("blocks in use by the counters", now.blocks_taken - now.blocks_given, n_used);
    SAME("tokens_held", now.tokens_held, n_held);
    SAME("tokens_stored", now.tokens_stored, n_stored);
    SAME("bytes_used", now.bytes_used, (size_t)(n_stored + n_hot) * now.bytes_per_token);
    SAME("n_sequences", now.n_sequences, n_alive);
    /* A block that others may begin with is copied where it would be written to, if there is room. */
    if (s->forgets) SAME("blocks_copied", now.blocks_copied, m->n_copied);
    else if (now.blocks_copied < m->n_copied) fail_msg("op %ld: fewer blocks are copied than must be", s->n_ops);
    SAME("n_commits", now.n_commits, m->n_commits);
    SAME("n_aborts", now.n_aborts, m->n_aborts);
    SAME("n_full", now.n_full, m->n_full);
    SAME("tokens_committed", now.tokens_committed, m->n_committed);
}

static void compare_token(const sim *s, const model_seq *q, int at) {
    if (!toy_has(s->c, q->id, at, q->tokens[at]))
        fail_msg("op %ld: token %d of a sequence of %d is not its own", s->n_ops, at, q->n_tokens);
}

static void compare_all(const sim *s) {
    SAME("kvt_check", kvt_check(s->c), KVT_OK);
    for (int i = 0; i < s->m.n_seqs; i++) {
        const model_seq *q = &s->m.seqs[i];
        if (!q->alive) continue;
        SAME("kvt_seq_length", kvt_seq_length(s->c, q->id), q->n_tokens);
        for (int t = 0; t < q->n_tokens; t++) compare_token(s, q, t);
    }
}

/* ------------------------------------------------------------------------------------------- operations */

static model_seq *any_seq(sim *s) {
    model_seq *q = &s->m.seqs[random_below(&s->random, (uint32_t)s->m.n_seqs)];
    return q->alive ? q : NULL;
}

static void op_new(sim *s) {
    model_seq *q = model_new(&s->m);
    kvt_seq id = 0;
    SAME("kvt_seq_new", kvt_seq_new(s->c, &id), q ? KVT_OK : KVT_FULL);
    if (q) q->id = id;
    else s->m.n_full++;
}

static void op_fork(sim *s) {
    model_seq *from = any_seq(s);
    if (!from) return;
    model_seq *to = model_new(&s->m);
    kvt_seq id = 0;
    SAME("kvt_seq_fork", kvt_seq_fork(s->c, from->id, &id), to ? KVT_OK : KVT_FULL);
    if (!to) {
        s->m.n_full++;
        return;
    }
    to->id = id;
    to->n_tokens = from->n_tokens;
    memcpy(to->tokens, from->tokens, sizeof to->tokens);
    if (s->m.kind == KVT_CONTIGUOUS) return;
    to->n_blocks = from->n_blocks;
    memcpy(to->blocks, from->blocks, sizeof to->blocks);
}

static void op_truncate(sim *s) {
    model_seq *q = any_seq(s);
    if (!q) return;
    int n = (int)random_below(&s->random, (uint32_t)q->n_tokens + 1);
    SAME("kvt_seq_truncate", kvt_seq_truncate(s->c, q->id, n), KVT_OK);
    int index = n / s->m.block_tokens;
    if (s->m.seals && index > 0 && index < q->n_tokens / s->m.block_tokens) n = index * s->m.block_tokens;
    model_cut(&s->m, q, n);
}

static void op_free(sim *s) {
    model_seq *q = any_seq(s);
    if (!q) return;
    SAME("kvt_seq_free", kvt_seq_free(s->c, q->id), KVT_OK);
    q->alive = false;
    s->dead = q->id;
}

static void op_wrong(sim *s) {
    kvt_seq out;
    if (s->dead == KVT_SEQ_NONE) return;
    SAME("free of a freed one", kvt_seq_free(s->c, s->dead), KVT_E_SEQUENCE);
    SAME("fork of a freed one", kvt_seq_fork(s->c, s->dead, &out), KVT_E_SEQUENCE);
    SAME("kvt_abort without a step", kvt_abort(s->c, &(kvt_batch){1, &s->dead, (const int[]){1}}), KVT_E_STATE);
}

/* The sequences of a step and their new tokens. */
typedef struct sim_batch {
    int n;
    model_seq *seqs[ENTRIES_MAX];
    kvt_seq ids[ENTRIES_MAX];
    int n_new[ENTRIES_MAX];
    int32_t tokens[ENTRIES_MAX * NEW_MAX];
    int n_rows;
} sim_batch;

static sim_batch batch_draw(sim *s) {
    sim_batch b = {0};
    int n = 1 + (int)random_below(&s->random, ENTRIES_MAX);
    for (int i = 0; i < n; i++) {
        model_seq *q = any_seq(s);
        bool twice = false;
        for (int j = 0; j < b.n; j++) twice |= b.seqs[j] == q;
        if (!q || twice || q->n_tokens == s->m.tokens_max) continue;
        int most = s->m.tokens_max - q->n_tokens;
        if (most > NEW_MAX) most = NEW_MAX;
        if (random_below(&s->random, 2)) most = most < 3 ? most : 3;
        b.seqs[b.n] = q;
        b.ids[b.n] = q->id;
        b.n_new[b.n] = 1 + (int)random_below(&s->random, (uint32_t)most);
        b.n_rows += b.n_new[b.n++];
    }
    for (int i = 0; i < b.n_rows; i++) b.tokens[i] = s->next_token++;
    return b;
}

static void batch_commit(const sim_batch *b) {
    const int32_t *next = b->tokens;
    for (int i = 0; i < b->n; i++) {
        model_seq *q = b->seqs[i];
        memcpy(q->tokens + q->n_tokens, next, (size_t)b->n_new[i] * sizeof *next);
        q->n_tokens += b->n_new[i];
        next += b->n_new[i];
    }
}

/* Attention over the sequences as they will be gives the mean of exactly their own values. */
static void batch_attend(sim *s, const kvt_batch *batch, const sim_batch *b) {
    int32_t all[ENTRIES_MAX][TOKENS_MAX];
    const int32_t *tokens[ENTRIES_MAX], *next = b->tokens;
    int n_tokens[ENTRIES_MAX];
    for (int i = 0; i < b->n; i++) {
        const model_seq *q = b->seqs[i];
        memcpy(all[i], q->tokens, sizeof all[i]);
        memcpy(all[i] + q->n_tokens, next, (size_t)b->n_new[i] * sizeof *next);
        next += b->n_new[i];
        tokens[i] = all[i];
        n_tokens[i] = q->n_tokens + b->n_new[i];
    }
    if (!toy_means(s->c, batch, tokens, n_tokens)) fail_msg("op %ld: attention saw something else", s->n_ops);
}

static void op_step(sim *s) {
    sim_batch b = batch_draw(s);
    if (b.n == 0) return;
    kvt_batch batch = {b.n, b.ids, b.n_new};
    model before = s->m;
    bool fits = true;
    for (int i = 0; i < b.n && fits; i++) fits = model_reserve(&s->m, b.seqs[i], b.n_new[i]);
    SAME("kvt_reserve", kvt_reserve(s->c, &batch), fits ? KVT_OK : KVT_FULL);
    if (!fits) {
        s->m = before;
        s->m.n_full++;
        return;
    }
    SAME("toy_store", toy_store(s->c, &batch, b.tokens), KVT_OK);
    if (random_below(&s->random, 16) == 0) batch_attend(s, &batch, &b);
    if (random_below(&s->random, 5) == 0) {
        uint64_t n_copied = s->m.n_copied; /* the copy was made all the same */
        SAME("kvt_abort", kvt_abort(s->c, &batch), KVT_OK);
        s->m = before;
        s->m.n_copied = n_copied;
        s->m.n_aborts++;
        return;
    }
    SAME("kvt_commit", kvt_commit(s->c, &batch, b.tokens), KVT_OK);
    batch_commit(&b);
    s->m.n_commits++;
    s->m.n_committed += (uint64_t)b.n_rows;
    for (int i = 0; i < b.n && s->m.kind == KVT_NONE; i++) model_cut(&s->m, b.seqs[i], 0);
}

static void op_any(sim *s) {
    uint32_t which = random_below(&s->random, 100);
    if (which < 8) op_new(s);
    else if (which < 20) op_fork(s);
    else if (which < 32) op_truncate(s);
    else if (which < 42) op_free(s);
    else if (which < 45) op_wrong(s);
    else op_step(s);
    s->n_ops++;
}

/* ------------------------------------------------------------------------------------------------ runs */

typedef struct run {
    kvt_cache_kind kind;
    int n_seqs, n_blocks, block_tokens, tokens_max;
    long n_ops, check_every;
    bool seals;
} run;

static long number_of(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static kvt_cache *run_open(const run *r, bool forgets) {
    kvt_options opt = toy_options();
    log_sink silent = {0};
    layout l = {0};
    opt.kind = r->kind;
    opt.forget = forgets;
    opt.block_tokens = r->block_tokens;
    opt.sequences_max = r->n_seqs;
    opt.tokens_max = r->tokens_max;
    layout_of(&opt, r->seals, &silent, &l);
    for (size_t block = l.bytes_per_block; l.n_blocks != r->n_blocks; layout_of(&opt, r->seals, &silent, &l))
        opt.bytes_max += block; /* of one block more at a time */
    return r->seals ? toy_open_sealing(&opt) : toy_open(&opt);
}

/* When all is freed, all gauges are zero. */
static void assert_idle(sim *s) {
    for (int i = 0; i < s->m.n_seqs; i++)
        if (s->m.seqs[i].alive) kvt_seq_free(s->c, s->m.seqs[i].id), s->m.seqs[i].alive = false;
    compare_stats(s);
    SAME("kvt_check", kvt_check(s->c), KVT_OK);
}

static void run_once(const run *r, bool forgets, long n_ops) {
    sim *s = calloc(1, sizeof *s);
    s->c = run_open(r, forgets);
    s->forgets = forgets;
    s->m = (model){.kind = r->kind, .seals = r->seals, .n_seqs = r->n_seqs, .n_blocks = r->n_blocks,
                   .block_tokens = r->block_tokens, .tokens_max = r->tokens_max};
    s->random = (uint64_t)number_of("KVTILE_SEED", 1);
    while (s->n_ops < n_ops) {
        op_any(s);
        compare_stats(s);
        const model_seq *q = any_seq(s);
        if (q && q->n_tokens) compare_token(s, q, (int)random_below(&s->random, (uint32_t)q->n_tokens));
        if (s->n_ops % r->check_every == 0) compare_all(s);
    }
    kvt_stats now;
    kvt_stats_get(s->c, &now);
    printf("%s%s: %ld operations: %llu commits, %llu aborts, %llu times full, %llu blocks taken, %llu copied\n",
           kvt_cache_kind_name(r->kind), r->seals ? ", sealing" : "", s->n_ops, (unsigned long long)now.n_commits,
           (unsigned long long)now.n_aborts, (unsigned long long)now.n_full, (unsigned long long)now.blocks_taken,
           (unsigned long long)now.blocks_copied);
    assert_idle(s);
    kvt_close(s->c);
    free(s);
}

static void run_go(const run *r) {
    run_once(r, true, r->n_ops);
    if (r->kind == KVT_PAGED) run_once(r, false, r->n_ops / 2);
}

/* Few blocks and few sequences: every situation comes up often, and everything is compared after every operation. */
static void small_scope(void **state) {
    (void)state;
    run_go(&(run){KVT_PAGED, 3, 4, 16, 64, 20000, 1});
    run_go(&(run){KVT_PAGED, 2, 2, 16, 20, 10000, 1});
    run_go(&(run){KVT_CONTIGUOUS, 3, 4, 16, 32, 10000, 1});
    run_go(&(run){KVT_NONE, 2, 3, 16, 48, 5000, 1});
}

static void long_run_paged(void **state) {
    (void)state;
    run_go(&(run){KVT_PAGED, SEQS_MAX, 20, 16, TOKENS_MAX, number_of("KVTILE_STEPS", 1000000), 1000});
}

static void other_block_sizes_and_kinds(void **state) {
    (void)state;
    long n = number_of("KVTILE_STEPS", 1000000) / 20;
    run_go(&(run){KVT_PAGED, SEQS_MAX, 11, 32, TOKENS_MAX, n, 1000});
    run_go(&(run){KVT_PAGED, SEQS_MAX, 5, 64, 70, n, 1000});
    run_go(&(run){KVT_CONTIGUOUS, SEQS_MAX, 4 * 3, 32, TOKENS_MAX, n, 1000});
    run_go(&(run){KVT_NONE, SEQS_MAX, 12, 16, TOKENS_MAX, n, 1000});
}

/* Blocks that are sealed as they fill, in slots that are as few as can be. */
static void sealing(void **state) {
    (void)state;
    long n = number_of("KVTILE_STEPS", 1000000) / 20;
    run_go(&(run){KVT_PAGED, 3, 4, 16, 64, 20000, 1, true});
    run_go(&(run){KVT_CONTIGUOUS, 3, 4, 16, 32, 10000, 1, true});
    run_go(&(run){KVT_NONE, 2, 3, 16, 48, 5000, 1, true});
    run_go(&(run){KVT_PAGED, SEQS_MAX, 20, 16, TOKENS_MAX, n, 100, true});
    run_go(&(run){KVT_PAGED, SEQS_MAX, 11, 32, TOKENS_MAX, n, 100, true});
    run_go(&(run){KVT_CONTIGUOUS, SEQS_MAX, 6 * 4, 16, 64, n, 100, true});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_scope),
        cmocka_unit_test(long_run_paged),
        cmocka_unit_test(other_block_sizes_and_kinds),
        cmocka_unit_test(sealing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
