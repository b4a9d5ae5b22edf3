/* policy_ranked.c - policies that give every block a rank at each read, the lowest of which leaves: least recently
 * used, frequency with ageing, and the optimum of those who know the future. One heap serves all three. */
#include "policy.h"

#include <stdlib.h>

typedef struct ranked {
    const trace *t;
    int32_t *heap;    /* [n_heap] blocks in the cache, the one that leaves first on top */
    int32_t *heap_at; /* [n_distinct] -1: not in the cache */
    int64_t *rank;    /* [n_distinct] */
    int32_t *uses;    /* [n_distinct] 0: never read */
    size_t *next;     /* [t->n_blocks] request that reads the same block again, n_requests: none; NULL: nobody asks */
    int n_heap;
    int64_t clock; /* blocks read so far */
    int64_t age;   /* rank of the block that left last */
} ranked;

/* The rank of a block that is read as number j of request i. */
typedef int64_t (*rank_fn)(const ranked *s, size_t i, int j, int32_t block);

/* ------------------------------------------------------------------------------------------------- the heap */

static bool leaves_before(const ranked *s, int32_t a, int32_t b) {
    return s->rank[a] < s->rank[b] || (s->rank[a] == s->rank[b] && a < b);
}

static void put(ranked *s, int at, int32_t block) {
    s->heap[at] = block;
    s->heap_at[block] = at;
}

/* A block whose rank changed, or that came to place `at`, finds its own. */
static void settle(ranked *s, int at, int32_t block) {
    for (int parent; at > 0 && leaves_before(s, block, s->heap[parent = (at - 1) / 2]); at = parent)
        put(s, at, s->heap[parent]);
    for (int child; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && leaves_before(s, s->heap[child + 1], s->heap[child])) child++;
        if (!leaves_before(s, s->heap[child], block)) break;
        put(s, at, s->heap[child]);
    }
    put(s, at, block);
}

static void leave(ranked *s) {
    int32_t block = s->heap[0], last = s->heap[--s->n_heap];
    s->heap_at[block] = -1;
    s->age = s->rank[block];
    if (s->n_heap > 0) settle(s, 0, last);
}

/* ----------------------------------------------------------------------------------------------- the requests */

static void hits_count(const ranked *s, const trace_request *r, policy_counts *out) {
    const int32_t *block = s->t->block + r->first;
    int j = 0;
    for (; j < r->n_blocks && s->heap_at[block[j]] >= 0; j++) out->n_hit++;
    for (; j < r->n_blocks; j++) s->uses[block[j]] > 0 ? out->n_evicted++ : out->n_cold++;
}

static void request_read(ranked *s, size_t i, rank_fn rank, int capacity, policy_counts *out) {
    const trace_request *r = &s->t->request[i];
    hits_count(s, r, out);
    for (int j = 0; j < r->n_blocks; j++) {
        int32_t block = s->t->block[r->first + (size_t)j];
        s->clock++;
        s->uses[block]++;
        s->rank[block] = rank(s, i, j, block);
        settle(s, s->heap_at[block] >= 0 ? s->heap_at[block] : s->n_heap++, block);
    }
    for (; s->n_heap > capacity; out->n_left++) leave(s);
}

/* Which request reads each block next, found from the end. */
static bool next_fill(ranked *s) {
    size_t *seen = malloc((size_t)s->t->n_distinct * sizeof *seen + 1);
    s->next = malloc(s->t->n_blocks * sizeof *s->next + 1);
    for (int32_t b = 0; seen && b < s->t->n_distinct; b++) seen[b] = s->t->n_requests;
    for (size_t i = s->t->n_requests; seen && s->next && i-- > 0;) {
        const trace_request *r = &s->t->request[i];
        for (size_t k = r->first; k < r->first + (size_t)r->n_blocks; k++) s->next[k] = seen[s->t->block[k]];
        for (size_t k = r->first; k < r->first + (size_t)r->n_blocks; k++) seen[s->t->block[k]] = i;
    }
    free(seen);
    return seen && s->next;
}

static bool ranked_open(ranked *s, const trace *t, bool foresees) {
    size_t n = (size_t)t->n_distinct + 1;
    *s = (ranked){ .t = t };
    s->heap = malloc(n * sizeof *s->heap);
    s->heap_at = malloc(n * sizeof *s->heap_at);
    s->rank = malloc(n * sizeof *s->rank);
    s->uses = calloc(n, sizeof *s->uses);
    if (!s->heap || !s->heap_at || !s->rank || !s->uses) return false;
    for (size_t i = 0; i < n; i++) s->heap_at[i] = -1;
    return !foresees || next_fill(s);
}

static kvt_status ranked_replay(const trace *t, int capacity, bool foresees, rank_fn rank, policy_counts *out) {
    ranked s;
    *out = (policy_counts){ 0 };
    bool opened = ranked_open(&s, t, foresees);
    for (size_t i = 0; opened && i < t->n_requests; i++) request_read(&s, i, rank, capacity, out);
    free(s.heap);
    free(s.heap_at);
    free(s.rank);
    free(s.uses);
    free(s.next);
    return opened ? KVT_OK : KVT_E_MEMORY;
}

/* ------------------------------------------------------------------------------------------------- the ranks */

static int64_t recency(const ranked *s, size_t i, int j, int32_t block) {
    (void)i, (void)j, (void)block;
    return s->clock;
}

/* Uses, on top of what the last one to leave had: who was popular once falls behind those who come anew (Arlitt et al.
 * 2000, with all blocks of one size and cost). Uses are remembered while a block is away. */
static int64_t frequency(const ranked *s, size_t i, int j, int32_t block) {
    (void)i, (void)j;
    return s->age + s->uses[block];
}

/* Who is read again last leaves first (Belady 1966), of one request the end before the beginning, as the hit of a block
 * needs all before it. */
static int64_t foresight(const ranked *s, size_t i, int j, int32_t block) {
    enum { DEPTHS = 1 << 20 };
    (void)block;
    return -(int64_t)s->next[s->t->request[i].first + (size_t)j] * DEPTHS - j;
}

static kvt_status replay_lru(const trace *t, int capacity, int block_tokens, policy_counts *out) {
    (void)block_tokens;
    return ranked_replay(t, capacity, false, recency, out);
}

static kvt_status replay_frequency(const trace *t, int capacity, int block_tokens, policy_counts *out) {
    (void)block_tokens;
    return ranked_replay(t, capacity, false, frequency, out);
}

static kvt_status replay_optimum(const trace *t, int capacity, int block_tokens, policy_counts *out) {
    (void)block_tokens;
    return ranked_replay(t, capacity, true, foresight, out);
}

const policy policy_lru = {
    .name = "lru",
    .about = "the block that was not read for longest leaves",
    .replay = replay_lru,
};
const policy policy_frequency = {
    .name = "frequency",
    .about = "the block that was read least often leaves, with ageing (GDSF)",
    .replay = replay_frequency,
};
const policy policy_optimum = {
    .name = "optimum",
    .about = "knows the future: the block that is read again last leaves (Belady)",
    .foresees = true,
    .replay = replay_optimum,
};
