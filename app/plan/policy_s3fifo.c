/* policy_s3fifo.c - S3-FIFO (Yang et al. 2023): a small queue that new blocks have to pass, a main one for those that
 * were read meanwhile, and a memory of those that did not pass. */
#include "policy.h"

#include <stdlib.h>

enum { PLACE_OUT, PLACE_GHOST, PLACE_SMALL, PLACE_MAIN, USES_MAX = 3 };

/* Blocks in order of arrival; each is in one queue at most, so one array of links serves all. */
typedef struct queue {
    int32_t first, last;
    int n;
} queue;

typedef struct s3fifo {
    const trace *t;
    int32_t *behind;  /* [n_distinct] */
    uint8_t *place;   /* [n_distinct] */
    uint8_t *uses;    /* [n_distinct] since it came, up to USES_MAX */
    bool *seen;       /* [n_distinct] */
    bool *remembered; /* [n_distinct] it stands in the queue of ghosts, though it may have come back meanwhile */
    int32_t *ghost;   /* ring [ghosts_max] */
    queue small, main;
    int ghosts_max, ghost_first, n_ghosts, small_max, capacity;
} s3fifo;

static void push(s3fifo *s, queue *q, int32_t block, uint8_t place) {
    s->behind[block] = -1;
    if (q->n == 0) q->first = block;
    else s->behind[q->last] = block;
    q->last = block;
    q->n++;
    s->place[block] = place;
}

static int32_t pop(s3fifo *s, queue *q) {
    int32_t block = q->first;
    q->first = s->behind[block];
    q->n--;
    return block;
}

static void remember(s3fifo *s, int32_t block) {
    if (s->n_ghosts == s->ghosts_max) {
        int32_t oldest = s->ghost[s->ghost_first];
        if (s->place[oldest] == PLACE_GHOST) s->place[oldest] = PLACE_OUT;
        s->remembered[oldest] = false;
        s->ghost_first = (s->ghost_first + 1) % s->ghosts_max;
        s->n_ghosts--;
    }
    s->place[block] = PLACE_GHOST;
    if (s->remembered[block]) return;
    s->remembered[block] = true;
    s->ghost[(s->ghost_first + s->n_ghosts++) % s->ghosts_max] = block;
}

/* True: a block left the cache. */
static bool leave_small(s3fifo *s) {
    int32_t block = pop(s, &s->small);
    bool passes = s->uses[block] > 1;
    s->uses[block] = 0;
    if (passes) push(s, &s->main, block, PLACE_MAIN);
    else remember(s, block);
    return !passes;
}

static bool leave_main(s3fifo *s) {
    int32_t block = pop(s, &s->main);
    if (s->uses[block] > 0) {
        s->uses[block]--;
        push(s, &s->main, block, PLACE_MAIN);
        return false;
    }
    s->place[block] = PLACE_OUT;
    return true;
}

static void shrink(s3fifo *s, policy_counts *out) {
    while (s->small.n + s->main.n > s->capacity)
        if (s->small.n > s->small_max || s->main.n == 0 ? leave_small(s) : leave_main(s)) out->n_left++;
}

static bool inside(const s3fifo *s, int32_t block) {
    return s->place[block] == PLACE_SMALL || s->place[block] == PLACE_MAIN;
}

static void block_read(s3fifo *s, int32_t block) {
    s->seen[block] = true;
    if (inside(s, block)) {
        if (s->uses[block] < USES_MAX) s->uses[block]++;
        return;
    }
    s->uses[block] = 0;
    if (s->place[block] == PLACE_GHOST) push(s, &s->main, block, PLACE_MAIN);
    else push(s, &s->small, block, PLACE_SMALL);
}

static void request_read(s3fifo *s, const trace_request *r, policy_counts *out) {
    const int32_t *block = s->t->block + r->first;
    int j = 0;
    for (; j < r->n_blocks && inside(s, block[j]); j++) out->n_hit++;
    for (; j < r->n_blocks; j++) s->seen[block[j]] ? out->n_evicted++ : out->n_cold++;
    for (j = 0; j < r->n_blocks; j++) block_read(s, block[j]);
    shrink(s, out);
}

static bool s3fifo_open(s3fifo *s, const trace *t, int capacity) {
    size_t n = (size_t)t->n_distinct + 1;
    *s = (s3fifo){ .t = t, .capacity = capacity, .small_max = capacity / 10 };
    s->ghosts_max = capacity - s->small_max < t->n_distinct ? capacity - s->small_max : t->n_distinct;
    if (s->ghosts_max < 1) s->ghosts_max = 1;
    s->behind = malloc(n * sizeof *s->behind);
    s->place = calloc(n, sizeof *s->place);
    s->uses = calloc(n, sizeof *s->uses);
    s->seen = calloc(n, sizeof *s->seen);
    s->remembered = calloc(n, sizeof *s->remembered);
    s->ghost = malloc((size_t)s->ghosts_max * sizeof *s->ghost);
    return s->behind && s->place && s->uses && s->seen && s->remembered && s->ghost;
}

static kvt_status replay(const trace *t, int capacity, int block_tokens, policy_counts *out) {
    s3fifo s;
    (void)block_tokens;
    *out = (policy_counts){ 0 };
    bool opened = s3fifo_open(&s, t, capacity);
    for (size_t i = 0; opened && i < t->n_requests; i++) request_read(&s, &t->request[i], out);
    free(s.behind);
    free(s.place);
    free(s.uses);
    free(s.seen);
    free(s.remembered);
    free(s.ghost);
    return opened ? KVT_OK : KVT_E_MEMORY;
}

const policy policy_s3fifo = {
    .name = "s3-fifo",
    .about = "three queues: new, read again, and remembered (S3-FIFO)",
    .replay = replay,
};
