/* test_reuse_sim.c - random work on a cache that shares, on a pool of a quarter of what all clients want, over tiers
 * that fail, stall, tear, forget and lie. Clients know their tokens; keys and values are a function of all tokens up to
 * theirs, and those of steps that came to nothing are wrong ones, so whoever gets another's memory, or what must not be
 * found, is found out. No thread, no clock of the machine: a seed is the same run to the bit.
 *
 *     make sim                                a million operations
 *     SIM_OPS=1000000 test_reuse_sim          the same
 *     SIM_SEED=7 SIM_OPS=5000 test_reuse_sim  from this seed on */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faulty_tier.h"
#include "fixture.h"
#include "random.h"
#include "story.h"
#include "sums.h"

enum { N_CLIENTS = 32, SEQS_MAX = 28, N_BLOCKS = 24, BLOCK = 16, N_TIERS_MAX = 2, PINS_MAX = 4, OPS = 5000 };

/* Waiting: it has no sequence; its tokens, if any, were here before. */
typedef enum life { WAITING, RUNNING, AWAY } life;

typedef struct client {
    life life;
    kvt_seq id;
    int n, n_prompt; /* tokens that are computed; that it begins with */
    int tier;        /* where it is, away */
    bool resumed;
    story s;
} client;

typedef struct pin {
    int n;
    int32_t token[STORY_MAX];
} pin;

typedef struct sim {
    uint64_t seed, random, now, hash;
    long n_ops;
    const char *op;
    story_plan plan;
    kvt_cache *c, *empty;
    kvt_tier *tier[N_TIERS_MAX];
    faulty_tier *faulty[N_TIERS_MAX];
    client client[N_CLIENTS];
    pin pin[PINS_MAX];
    int n_pins;
    sums sum;
} sim;

#define FAIL(s, ...)                                                                                              \
    do {                                                                                                          \
        print_error("SIM_SEED=%llu, operation %ld, %s: ", (unsigned long long)(s)->seed, (s)->n_ops, (s)->op);    \
        fail_msg(__VA_ARGS__);                                                                                    \
    } while (0)
#define SAME(s, what, got, want)                                                                                  \
    do {                                                                                                          \
        long long got_ = (long long)(got), want_ = (long long)(want);                                             \
        if (got_ != want_) FAIL(s, "%s is %lld, must be %lld", what, got_, want_);                                \
    } while (0)

static uint32_t draw(sim *s, uint32_t n) {
    return random_below(&s->random, n);
}

static void note(sim *s, const void *bytes, size_t n) {
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++) s->hash = (s->hash ^ b[i]) * 0x100000001b3u;
}

static void note_number(sim *s, long long x) {
    note(s, &x, sizeof x);
}

/* ------------------------------------------------------------------------------------------- what must hold */

static void look_at(sim *s, const client *q, int at) {
    if (!story_readable(&s->plan)) return;
    if (!story_has(s->c, q->id, &q->s, at)) FAIL(s, "token %d of %d is another's", at, q->n);
}

static void check_stats(sim *s, const kvt_stats *now) {
    uint64_t missed = 0, n_held = 0, n_alive = 0;
    for (int i = 0; i < KVT_N_MISSES; i++) missed += now->tokens_missed[i];
    for (int i = 0; i < N_CLIENTS; i++) {
        n_alive += s->client[i].life != WAITING;
        n_held += s->client[i].life == RUNNING ? (uint64_t)s->client[i].n : 0;
    }
    SAME(s, "found and missed", now->tokens_found + now->tokens_fetched + missed, now->tokens_asked);
    SAME(s, "blocks_total", now->blocks_total, N_BLOCKS);
    SAME(s, "used and free", now->blocks_used + now->blocks_free, N_BLOCKS);
    SAME(s, "taken and given", now->blocks_taken - now->blocks_given, now->blocks_used);
    SAME(s, "n_sequences", now->n_sequences, n_alive);
    if (now->tokens_held < n_held) FAIL(s, "%zu tokens are held, of %zu", now->tokens_held, (size_t)n_held);
    if (now->blocks_idle > now->blocks_free) FAIL(s, "%zu blocks are idle", now->blocks_idle);
    if (now->blocks_pinned > N_BLOCKS / 4) FAIL(s, "%zu blocks are pinned", now->blocks_pinned);
    if (now->moves_open > 2 * (size_t)s->plan.moves_max) FAIL(s, "%zu moves are open", now->moves_open); /* and drops */
}

static void check_tiers(sim *s) {
    for (int i = 0; i < s->plan.n_tiers; i++) {
        kvt_tier_usage u;
        kvt_tier_usage_get(s->tier[i], &u);
        if (u.bytes > u.bytes_max) FAIL(s, "tier %d holds %llu bytes", i, (unsigned long long)u.bytes);
        note(s, &u, sizeof u);
    }
}

static void check_all(sim *s) {
    kvt_stats now;
    SAME(s, "kvt_check", kvt_check(s->c), KVT_OK);
    SAME(s, "kvt_stats_get", kvt_stats_get(s->c, &now), KVT_OK);
    check_stats(s, &now);
    check_tiers(s);
    note(s, &now, sizeof now);
    const client *q = &s->client[draw(s, N_CLIENTS)];
    if (q->life == RUNNING) {
        SAME(s, "kvt_seq_length", kvt_seq_length(s->c, q->id), q->n);
        if (q->n > 0) look_at(s, q, (int)draw(s, (uint32_t)q->n));
    }
}

/* ------------------------------------------------------------------------------------------------ clients */

/* NULL: there is none. */
static client *any_client(sim *s, life wanted) {
    uint32_t first = draw(s, N_CLIENTS);
    for (uint32_t i = 0; i < N_CLIENTS; i++) {
        client *q = &s->client[(first + i) % N_CLIENTS];
        if (q->life == wanted) return q;
    }
    return NULL;
}

static int min_of(int a, int b) {
    return a < b ? a : b;
}

/* Another one takes its place. */
static void client_renew(sim *s, client *q) {
    *q = (client){0};
    story_draw(&q->s, 1 + (int)draw(s, STORY_MAX), &s->random);
    q->n_prompt = 1 + (int)draw(s, (uint32_t)q->s.n);
}

static void client_leave(sim *s, client *q) {
    SAME(s, "kvt_seq_free", kvt_seq_free(s->c, q->id), KVT_OK);
    q->life = WAITING;
    q->id = KVT_SEQ_NONE;
}

/* What the sequence gets of what is known. */
static void client_match(sim *s, client *q) {
    kvt_match_options opt = {.priority = (int)draw(s, 3) - 1, .resumed = q->resumed, .memory_only = draw(s, 8) == 0};
    if (draw(s, 4) == 0) opt.ttl_ns = 1 + draw(s, 50000000);
    kvt_match_result r;
    int n = q->n_prompt > q->n ? q->n_prompt : q->n + 1;
    if (n > q->s.n) return;
    do {
        SAME(s, "kvt_match", kvt_match(s->c, q->id, q->s.token, n, draw(s, 4) ? &opt : NULL, &r), KVT_OK);
        if (r.n_tokens != q->n + r.n_found || r.n_tokens >= n) FAIL(s, "%d tokens of %d", r.n_tokens, n);
        SAME(s, "kvt_seq_length", kvt_seq_length(s->c, q->id), r.n_tokens);
        if (r.n_coming == 0 && (r.reason == KVT_MISS_NONE) != (r.n_tokens == n - 1))
            FAIL(s, "%d of %d tokens and \"%s\"", r.n_tokens, n, kvt_miss_name(r.reason));
        for (int i = q->n; i < r.n_tokens; i++) look_at(s, q, i);
        q->n = r.n_tokens;
        note(s, &r, sizeof r);
    } while (r.n_coming > 0 && draw(s, 8) > 0 && kvt_wait(s->c, -1) == KVT_OK);
}

/* ------------------------------------------------------------------------------------------------- steps */

typedef struct sim_step {
    int n, n_new[STORY_SEQS_MAX];
    client *q[STORY_SEQS_MAX];
    kvt_seq ids[STORY_SEQS_MAX];
    story_part part[STORY_SEQS_MAX];
    int32_t tokens[STORY_ROWS_MAX];
} sim_step;

static void step_add(sim_step *p, client *q, int n_new) {
    int n_rows = 0;
    for (int i = 0; i < p->n; i++) {
        if (p->q[i] == q) return;
        n_rows += p->n_new[i];
    }
    p->q[p->n] = q;
    p->ids[p->n] = q->id;
    p->n_new[p->n] = n_new;
    p->part[p->n++] = (story_part){q->id, &q->s, q->n, n_new, NULL};
    memcpy(p->tokens + n_rows, q->s.token + q->n, (size_t)n_new * sizeof *p->tokens);
}

/* Blocks that a step may need at most. */
static int step_blocks(const sim_step *p) {
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += (p->q[i]->n + p->n_new[i] + BLOCK - 1) / BLOCK - p->q[i]->n / BLOCK;
    return n;
}

/* Blocks that sequences have or wait for. */
static int blocks_in_use(const sim *s) {
    bool used[N_BLOCKS] = {0};
    int n = 0;
    for (int i = 0; i < N_CLIENTS; i++) {
        const seq *q = s->client[i].life == RUNNING ? seq_of(s->c, s->client[i].id) : NULL;
        for (int j = 0; q && j < q->n_blocks + q->search.n_coming; j++) {
            n += !used[q->table[j]];
            used[q->table[j]] = true;
        }
    }
    return n;
}

/* Full is true: whatever is on its way to tiers, blocks that no sequence uses are too few. */
static kvt_status step_reserve(sim *s, const kvt_batch *batch, const sim_step *p) {
    kvt_status status = kvt_reserve(s->c, batch);
    if (status != KVT_FULL) return status;
    kvt_stats now;
    kvt_stats_get(s->c, &now);
    if (N_BLOCKS - blocks_in_use(s) >= (int)now.blocks_pinned + step_blocks(p))
        FAIL(s, "full: %d of %d blocks are used, %zu pinned, %d are needed", blocks_in_use(s), N_BLOCKS,
             now.blocks_pinned, step_blocks(p));
    return status;
}

/* Attention of the last token of one of them is what it is where nothing is shared. */
static void step_compare(sim *s, const sim_step *p, int i, const float *rows) {
    const client *q = p->q[i];
    float alone[STORY_DIM];
    int last = q->n + p->n_new[i] - 1;
    story_alone(s->empty, &q->s, last, alone);
    if (memcmp(alone, rows + (p->n_new[i] - 1) * STORY_DIM, sizeof alone) != 0)
        FAIL(s, "token %d sees something else", last);
    note(s, alone, sizeof alone);
}

/* wrong: a step whose keys and values nobody may ever see. KVT_FULL: nothing has happened. */
static kvt_status step_run(sim *s, sim_step *p, bool wrong, bool commit) {
    static float rows[STORY_MAX * STORY_DIM];
    kvt_batch batch = {p->n, p->ids, p->n_new};
    bool compare = !wrong && draw(s, story_readable(&s->plan) ? 12 : 3) == 0;
    int which = (int)draw(s, (uint32_t)p->n);
    kvt_status status = step_reserve(s, &batch, p);
    if (status == KVT_FULL) return status;
    SAME(s, "kvt_reserve", status, KVT_OK);
    if (compare) p->part[which].out = rows;
    SAME(s, "keys and values", story_store(s->c, &batch, p->part, wrong), KVT_OK);
    if (compare) step_compare(s, p, which, rows);
    for (int i = 0; i < p->n; i++) s->now += (uint64_t)p->n_new[i] * 50000;
    if (!commit) {
        SAME(s, "kvt_abort", kvt_abort(s->c, &batch), KVT_OK);
        return KVT_OK;
    }
    SAME(s, "kvt_commit", kvt_commit(s->c, &batch, p->tokens), KVT_OK);
    for (int i = 0; i < p->n; i++) p->q[i]->n += p->n_new[i];
    return KVT_OK;
}

/* Tokens are taken back; how many are left is the cache's to say, within what it promises. */
static void client_cut(sim *s, client *q, int n) {
    bool seals = s->plan.seal || !story_readable(&s->plan);
    int n_first = (s->plan.hot_tokens + BLOCK - 1) / BLOCK, index = n / BLOCK;
    SAME(s, "kvt_seq_truncate", kvt_seq_truncate(s->c, q->id, n), KVT_OK);
    if (seals && index >= n_first && index < q->n / BLOCK) n = index * BLOCK;
    SAME(s, "kvt_seq_length", kvt_seq_length(s->c, q->id), n);
    q->n = n;
}

/* -------------------------------------------------------------------------------------------- operations */

static void op_admit(sim *s) {
    client *q = any_client(s, WAITING);
    if (!q) return;
    int n_alive = 0;
    for (int i = 0; i < N_CLIENTS; i++) n_alive += s->client[i].life != WAITING;
    kvt_status status = kvt_seq_new(s->c, &q->id);
    SAME(s, "kvt_seq_new", status, n_alive < SEQS_MAX ? KVT_OK : KVT_FULL);
    if (status != KVT_OK) return;
    q->life = RUNNING;
    if (q->resumed && q->n > q->n_prompt) q->n_prompt = q->n;
    q->n = 0;
    client_match(s, q);
}

static void op_match(sim *s) {
    client *q = any_client(s, RUNNING);
    if (q) client_match(s, q);
}

/* It gives its blocks up, and comes back. */
static void op_preempt(sim *s) {
    client *q = any_client(s, RUNNING);
    if (!q) return;
    client_leave(s, q);
    q->resumed = true;
}

static void op_step(sim *s) {
    sim_step p = {0};
    bool prefill = draw(s, 2) == 0;
    for (int i = 1 + (int)draw(s, STORY_SEQS_MAX - 1); i > 0; i--) {
        client *q = any_client(s, RUNNING);
        if (q && q->n < q->s.n) step_add(&p, q, 1 + (int)draw(s, (uint32_t)min_of(q->s.n - q->n, prefill ? 50 : 3)));
    }
    if (p.n == 0) return;
    kvt_status status = step_run(s, &p, false, true);
    note_number(s, status);
    if (status == KVT_FULL && draw(s, 4)) op_preempt(s);
}

static void op_abort(sim *s) {
    sim_step p = {0};
    client *q = any_client(s, RUNNING);
    if (!q || q->n == q->s.n) return;
    step_add(&p, q, 1 + (int)draw(s, (uint32_t)(q->s.n - q->n)));
    note_number(s, step_run(s, &p, true, false));
}

/* Tokens that turn out to be wrong are committed and taken back at once. */
static void op_reject(sim *s) {
    sim_step p = {0};
    client *q = any_client(s, RUNNING);
    if (!q || q->n == q->s.n) return;
    int n = q->n;
    step_add(&p, q, 1 + (int)draw(s, (uint32_t)(q->s.n - q->n)));
    if (step_run(s, &p, true, true) == KVT_OK) client_cut(s, q, n);
}

static void op_truncate(sim *s) {
    client *q = any_client(s, RUNNING);
    if (!q) return;
    client_cut(s, q, (int)draw(s, (uint32_t)q->n + 1));
    if (draw(s, 2)) story_turn(&q->s, q->n, &s->random);
}

static void op_fork(sim *s) {
    client *q = any_client(s, RUNNING), *to = any_client(s, WAITING);
    if (!q || !to) return;
    kvt_seq id;
    kvt_status status = kvt_seq_fork(s->c, q->id, &id);
    note_number(s, status);
    if (status == KVT_FULL) return;
    SAME(s, "kvt_seq_fork", status, KVT_OK);
    *to = *q;
    to->id = id;
    if (draw(s, 2)) story_turn(&to->s, to->n, &s->random);
}

/* Done, or somebody has hung up. */
static void op_finish(sim *s) {
    client *q = any_client(s, draw(s, 8) ? RUNNING : AWAY);
    if (!q || (q->n < q->s.n && draw(s, 4))) return;
    s->sum.finished += q->n == q->s.n;
    client_leave(s, q);
    client_renew(s, q);
}

static void op_swap_out(sim *s) {
    client *q = any_client(s, RUNNING);
    if (!q || s->plan.n_tiers == 0) return;
    int tier = (int)draw(s, (uint32_t)s->plan.n_tiers);
    kvt_status status = kvt_seq_swap_out(s->c, q->id, tier);
    note_number(s, status);
    if (status == KVT_OK) q->life = AWAY;
    else SAME(s, "kvt_seq_swap_out", status, KVT_E_IO);
    SAME(s, "kvt_seq_length", kvt_seq_length(s->c, q->id), q->n);
}

static void op_swap_in(sim *s) {
    client *q = any_client(s, AWAY);
    if (!q) return;
    kvt_status status = kvt_seq_swap_in(s->c, q->id);
    int n = kvt_seq_length(s->c, q->id);
    note_number(s, status);
    if (status != KVT_MISS) SAME(s, "kvt_seq_length", n, q->n);
    if (status == KVT_FULL || status == KVT_E_IO) return;
    if (status != KVT_MISS) SAME(s, "kvt_seq_swap_in", status, KVT_OK);
    if (n < 0 || n > q->n) FAIL(s, "%d tokens came back of %d", n, q->n);
    q->life = RUNNING;
    q->n = n;
    for (int i = 0; i < n; i++) look_at(s, q, i);
}

static void op_pin(sim *s) {
    const client *q = &s->client[draw(s, N_CLIENTS)];
    int n_pinned;
    if (s->n_pins == PINS_MAX || q->s.n == 0) return;
    pin *p = &s->pin[s->n_pins];
    p->n = 1 + (int)draw(s, (uint32_t)q->s.n);
    memcpy(p->token, q->s.token, sizeof p->token);
    kvt_status status = kvt_pin(s->c, p->token, p->n, &n_pinned);
    note_number(s, status * 1000 + n_pinned);
    if (status == KVT_FULL) return;
    SAME(s, "kvt_pin", status, KVT_OK);
    if (n_pinned > p->n) FAIL(s, "%d tokens are pinned of %d", n_pinned, p->n);
    p->n = n_pinned;
    s->n_pins++;
}

/* What was pinned is there. */
static void look_for_pin(sim *s, pin *p) {
    kvt_seq id;
    kvt_match_result r;
    if (p->n == STORY_MAX || kvt_seq_new(s->c, &id) != KVT_OK) return;
    kvt_match_options opt = {.memory_only = 1};
    SAME(s, "kvt_match", kvt_match(s->c, id, p->token, p->n + 1, &opt, &r), KVT_OK);
    SAME(s, "what is found of a pinned beginning", r.n_found, p->n);
    SAME(s, "kvt_seq_free", kvt_seq_free(s->c, id), KVT_OK);
}

static void op_unpin(sim *s) {
    if (s->n_pins == 0) return;
    pin *p = &s->pin[draw(s, (uint32_t)s->n_pins)];
    look_for_pin(s, p);
    SAME(s, "kvt_unpin", kvt_unpin(s->c, p->token, p->n), KVT_OK);
    *p = s->pin[--s->n_pins];
}

static void op_move(sim *s) {
    if (s->plan.n_tiers == 0) return;
    int tier = (int)draw(s, (uint32_t)s->plan.n_tiers);
    for (uint32_t n = draw(s, 16); n > 0 && move_run_one(s->c, tier); n--) {}
    s->now += draw(s, 1000000);
}

static void op_weather(sim *s) {
    static const faults kinds[] = {
        {0}, {.fail = 0.2}, {.stall = 0.3}, {.tear = 0.3}, {.lie = 0.1}, {.forget = 0.2}, {.fail = 1},
        {.fail = 0.05, .stall = 0.05, .tear = 0.05, .lie = 0.02, .forget = 0.05},
    };
    if (s->plan.n_tiers == 0) return;
    uint32_t kind = draw(s, 2) ? 0 : draw(s, sizeof kinds / sizeof *kinds);
    faulty_set(s->faulty[draw(s, (uint32_t)s->plan.n_tiers)], kinds[kind]);
}

/* ------------------------------------------------------------------------------------------ a whole run */

static void sum_up(sim *s) {
    kvt_stats now;
    kvt_stats_get(s->c, &now);
    note(s, &now, sizeof now);
    sums_take(&s->sum, &now);
}

/* A new process on the same tiers. */
static void op_restart(sim *s) {
    sum_up(s);
    kvt_close(s->c);
    for (int i = 0; i < N_CLIENTS; i++) {
        s->client[i].life = WAITING;
        s->client[i].resumed = s->client[i].n > 0;
    }
    s->n_pins = 0;
    s->c = story_open(&s->plan, s->tier, &s->now, SEQS_MAX, N_BLOCKS);
}

static const struct {
    const char *name;
    void (*run)(sim *s);
    uint32_t weight;
} ops[] = {
    {"admit", op_admit, 140}, {"match", op_match, 40}, {"step", op_step, 380}, {"abort", op_abort, 20},
    {"reject", op_reject, 30}, {"truncate", op_truncate, 20}, {"fork", op_fork, 30}, {"finish", op_finish, 110},
    {"preempt", op_preempt, 40}, {"swap out", op_swap_out, 25}, {"swap in", op_swap_in, 35}, {"pin", op_pin, 10},
    {"unpin", op_unpin, 10}, {"move", op_move, 180}, {"weather", op_weather, 8}, {"restart", op_restart, 1},
};

static void op_any(sim *s) {
    uint32_t total = 0, at, i = 0;
    for (size_t j = 0; j < sizeof ops / sizeof *ops; j++) total += ops[j].weight;
    for (at = draw(s, total); at >= ops[i].weight; i++) at -= ops[i].weight;
    s->op = ops[i].name;
    note_number(s, i);
    ops[i].run(s);
    check_all(s);
    s->now += draw(s, 100000);
    s->n_ops++;
}

static void sim_open(sim *s, uint64_t seed) {
    *s = (sim){.seed = seed, .random = seed, .hash = seed, .now = 1000000000, .op = "open"};
    s->plan = story_plan_draw(&s->random, N_TIERS_MAX);
    for (int i = 0; i < s->plan.n_tiers; i++) {
        faulty_options opt = {.seed = seed + (uint64_t)i, .bytes_max = 60000u * (uint32_t)(i + 1),
                              .stall_ns = 2000000, .clock = &s->now};
        s->tier[i] = faulty_tier_new(&s->faulty[i], &opt);
    }
    s->empty = story_open_empty(&s->plan);
    s->c = story_open(&s->plan, s->tier, &s->now, SEQS_MAX, N_BLOCKS);
    for (int i = 0; i < N_CLIENTS; i++) client_renew(s, &s->client[i]);
}

/* ----------------------------------------------------------------------------------------------- the end */

static void move_all(sim *s) {
    for (int i = 0; i < s->plan.n_tiers; i++)
        while (move_run_one(s->c, i)) {}
    kvt_flush(s->c);
}

/* One client to its last token; whoever is in its way gives way. */
static void finish_one(sim *s, client *q) {
    if (q->life == WAITING) {
        q->n = 0;
        SAME(s, "kvt_seq_new", kvt_seq_new(s->c, &q->id), KVT_OK);
        q->life = RUNNING;
        client_match(s, q);
    }
    for (int i = 0; q->n < q->s.n;) {
        sim_step p = {0};
        step_add(&p, q, min_of(q->s.n - q->n, 20));
        if (step_run(s, &p, false, true) == KVT_OK) continue;
        while (i < N_CLIENTS && (s->client[i].life != RUNNING || &s->client[i] == q)) i++;
        if (i < N_CLIENTS) client_leave(s, &s->client[i]);
        else FAIL(s, "the only sequence finds no room");
    }
    for (int i = 0; i < q->n; i++) look_at(s, q, i);
    client_leave(s, q);
    check_all(s);
}

/* Everybody can be finished, whatever the tiers do; then nothing is in use. */
static void sim_close(sim *s) {
    s->op = "the end";
    for (int i = 0; i < N_CLIENTS; i++)
        if (s->client[i].life == AWAY) client_leave(s, &s->client[i]);
    for (int i = 0; i < N_CLIENTS; i++)
        if (s->client[i].life == RUNNING) finish_one(s, &s->client[i]);
    for (int i = 0; i < N_CLIENTS; i++) finish_one(s, &s->client[i]);
    while (s->n_pins > 0) op_unpin(s);
    move_all(s);
    check_all(s);
    kvt_stats now;
    kvt_stats_get(s->c, &now);
    SAME(s, "blocks_used", now.blocks_used, 0);
    SAME(s, "blocks_pinned", now.blocks_pinned, 0);
    SAME(s, "moves_open", now.moves_open, 0);
    SAME(s, "tokens_held", now.tokens_held, 0);
    sum_up(s);
    kvt_close(s->c);
    kvt_close(s->empty);
    for (int i = 0; i < s->plan.n_tiers; i++) kvt_tier_close(s->tier[i]);
}

static void sim_run(sim *s, uint64_t seed) {
    sim_open(s, seed);
    while (s->n_ops < OPS) op_any(s);
    sim_close(s);
}

static long number_of(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : otherwise;
}

static void many_seeds(void **state) {
    static sim s;
    long n_ops = 0, most = number_of("SIM_OPS", fixture_quick() ? 20000 : 200000);
    uint64_t hash = 0;
    sums all = {0};
    (void)state;
    for (uint64_t seed = (uint64_t)number_of("SIM_SEED", 1); n_ops < most; seed++) {
        sim_run(&s, seed);
        n_ops += s.n_ops;
        hash = hash * 31 + s.hash;
        sums_add(&all, &s.sum);
    }
    sums_print(n_ops, &all, hash);
    if (most < 20000) return; /* too few for all that follows */
    assert_true(all.found > 0 && all.fetched > 0 && all.finished > 0 && all.full > 0 && all.evicted > 0);
    assert_true(all.merged > 0 && all.failed > 0 && all.puts > 0 && all.gets > 0 && all.missed[KVT_MISS_TIER_BAD] > 0);
}

static void a_seed_is_the_same_run(void **state) {
    (void)state;
    static sim a, b;
    for (uint64_t seed = 1; seed <= (fixture_quick() ? 1 : 6); seed++) {
        sim_run(&a, seed);
        sim_run(&b, seed);
        assert_true(a.hash == b.hash);
    }
    assert_true(a.hash != (sim_run(&b, 77), b.hash));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_seeds),
        cmocka_unit_test(a_seed_is_the_same_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
