/* talks.c - see talks.h. */
#include "talks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"

enum { SYSTEMS = 24, SYSTEM_MAX = 600, MESSAGE_MAX = 200, ANSWER_MAX = 400, DOCUMENT_MAX = 800, VOCABULARY = 50000 };

/* Of a hundred turns. */
enum { NEW = 20, ONCE = 10, SOON = 10, WITHOUT_SYSTEM = 30, GOES_BACK = 5 };

typedef struct talk {
    int n_tokens, n_blocks; /* blocks that have a number */
    bool over;              /* nobody will go on */
    int32_t token[TALK_TOKENS_MAX], block[TALK_BLOCKS_MAX];
} talk;

struct talks {
    uint64_t seed;
    int32_t n_numbers;
    talk system[SYSTEMS];
    talk **live; /* [n_live] the one that spoke last first */
    int n_live;
};

static bool happens(talks *t, uint32_t percent) {
    return random_below(&t->seed, 100) < percent;
}

/* 1 .. n, small ones as often as ten times as large ones. */
static int spread(talks *t, int n) {
    return (int)exp(random_between(&t->seed, 0, log(n + 1)));
}

/* Text that nobody has said before, and numbers for the blocks it fills. */
static void say(talks *t, talk *k, int n) {
    for (int i = 0; i < n; i++) k->token[k->n_tokens++] = (int32_t)random_below(&t->seed, VOCABULARY);
    while (k->n_blocks < k->n_tokens / TALK_BLOCK) k->block[k->n_blocks++] = t->n_numbers++;
}

talks *talks_new(uint64_t seed, int n_turns) {
    talks *t = calloc(1, sizeof *t);
    t->seed = seed;
    t->live = calloc((size_t)n_turns, sizeof *t->live);
    for (int i = 0; i < SYSTEMS; i++) say(t, &t->system[i], 40 + (int)random_below(&t->seed, SYSTEM_MAX - 40));
    return t;
}

void talks_free(talks *t) {
    for (int i = 0; i < t->n_live; i++) free(t->live[i]);
    free(t->live);
    free(t);
}

static talk *begin(talks *t) {
    talk *k = calloc(1, sizeof *k);
    if (!happens(t, WITHOUT_SYSTEM)) *k = t->system[spread(t, SYSTEMS) - 1];
    memmove(&t->live[1], t->live, (size_t)t->n_live++ * sizeof *t->live);
    return t->live[0] = k;
}

/* One that goes on: one that has just spoken, or any. */
static talk *go_on(talks *t) {
    int at = happens(t, SOON) ? spread(t, t->n_live) - 1 : (int)random_below(&t->seed, (uint32_t)t->n_live);
    talk *k = t->live[at];
    memmove(&t->live[1], t->live, (size_t)at * sizeof *t->live);
    return t->live[0] = k;
}

static void end(talks *t, talk *k) {
    memmove(t->live, &t->live[1], (size_t)--t->n_live * sizeof *t->live);
    free(k);
}

static bool is_over(const talk *k) {
    return k->over || k->n_tokens + MESSAGE_MAX + ANSWER_MAX > TALK_TOKENS_MAX;
}

/* What was said from some token on is taken back. */
static void go_back(talks *t, talk *k) {
    k->n_tokens = (int)random_below(&t->seed, (uint32_t)k->n_tokens + 1);
    k->n_blocks = k->n_tokens / TALK_BLOCK;
}

/* A long text, and one question about it. */
static void show(talks *t, talk *k) {
    say(t, k, (int)random_below(&t->seed, DOCUMENT_MAX));
    k->over = true;
}

turn talks_next(talks *t) {
    while (t->n_live > 0 && is_over(t->live[0])) end(t, t->live[0]);
    bool once = happens(t, ONCE);
    talk *k = t->n_live == 0 || once || happens(t, NEW) ? begin(t) : go_on(t);
    if (once) show(t, k);
    else if (happens(t, GOES_BACK)) go_back(t, k);
    say(t, k, spread(t, MESSAGE_MAX));
    int n_prompt = k->n_tokens;
    say(t, k, spread(t, ANSWER_MAX));
    return (turn){ k->token, n_prompt, k->n_tokens, k->block };
}
