/* test_reuse.c - warm equals cold: what is computed behind a prefix that was found has the bits of a computation that
 * found nothing, at every length of the prefix, in every format, from memory and from tiers, whatever happened in
 * between; and what is found is as long as a search through everything that was computed says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "folder.h"
#include "random.h"
#include "reuse.h"

/* What may happen between the match and the last token. */
enum { CHUNKS = 1, COMPANY = 2, FORK = 4, CUT = 8, SWAP = 16 };

/* A cold cache, which finds nothing, and a warm one. */
typedef struct pair {
    trial t;
    kvt_cache *cold, *warm;
    known known;
    kvt_seq neighbour; /* reads a text of its own in the warm one */
    text neighbours;
    uint64_t random;
} pair;

static const struct {
    kvt_format k, v;
} formats[] = {
    {KVT_BF16, KVT_BF16}, {KVT_F16, KVT_F16},   {KVT_F32, KVT_F32},   {KVT_E4M3, KVT_E4M3}, {KVT_E5M2, KVT_E5M2},
    {KVT_INT8, KVT_INT8}, {KVT_INT4, KVT_INT4}, {KVT_INT3, KVT_INT3}, {KVT_INT2, KVT_INT2}, {KVT_BF16, KVT_F32},
    {KVT_INT8, KVT_INT4}, {KVT_BF16, KVT_INT4}, {KVT_E4M3, KVT_F16},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static pair pair_open(const trial *t) {
    pair p = {.t = *t, .random = 5, .neighbours = text_random(99, TEXT_MAX)};
    trial cold = *t;
    cold.tier = NULL;
    cold.cpu = NULL;
    cold.n_blocks = cold.key_bits = 0;
    cold.forget = 1;
    p.cold = trial_open(&cold);
    p.warm = trial_open(t);
    return p;
}

static void pair_close(pair *p) {
    reuse_check(p->warm);
    kvt_close(p->cold);
    kvt_close(p->warm);
    known_free(&p->known);
}

/* As after a restart. */
static void pair_reopen(pair *p) {
    reuse_check(p->warm);
    kvt_close(p->warm);
    p->warm = trial_open(&p->t);
    p->neighbour = KVT_SEQ_NONE;
}

static void pair_learn(pair *p, const text *x) {
    reuse_compute(p->warm, x);
    known_add(&p->known, x, p->t.block_tokens);
}

/* ------------------------------------------------------------------------------- what happens in between */

/* The fork goes on, the sequence it came from ends. */
static kvt_seq fork_of(pair *p, kvt_seq id) {
    kvt_seq out;
    assert_int_equal(kvt_seq_fork(p->warm, id, &out), KVT_OK);
    assert_int_equal(kvt_seq_free(p->warm, id), KVT_OK);
    return out;
}

/* Other tokens behind those that were found, which are taken back. */
static void go_astray(pair *p, kvt_seq id, const text *x) {
    int n = kvt_seq_length(p->warm, id);
    text wrong = text_branch(x, n, n + 40, random_bits(&p->random));
    assert_int_equal(forward_run(p->warm, id, wrong.token, wrong.n, 23, NULL), KVT_OK);
    assert_int_equal(kvt_seq_truncate(p->warm, id, n), KVT_OK);
    assert_int_equal(kvt_seq_length(p->warm, id), n);
}

static void move_away_and_back(pair *p, kvt_seq id) {
    int n = kvt_seq_length(p->warm, id);
    assert_int_equal(kvt_seq_swap_out(p->warm, id, 0), KVT_OK);
    assert_int_equal(kvt_seq_length(p->warm, id), n);
    assert_int_equal(kvt_seq_fork(p->warm, id, &(kvt_seq){0}), KVT_E_STATE);
    assert_int_equal(kvt_seq_swap_in(p->warm, id), KVT_OK);
    assert_int_equal(kvt_seq_length(p->warm, id), n);
}

/* A neighbour with room for n tokens more. */
static kvt_seq neighbour_of(pair *p, int n) {
    if (p->neighbour && kvt_seq_length(p->warm, p->neighbour) + n > p->neighbours.n) {
        kvt_seq_free(p->warm, p->neighbour);
        p->neighbour = KVT_SEQ_NONE;
    }
    if (!p->neighbour) assert_int_equal(kvt_seq_new(p->warm, &p->neighbour), KVT_OK);
    return p->neighbour;
}

static void finish(pair *p, kvt_seq id, const text *x, unsigned how, float *rows) {
    for (int done; (done = kvt_seq_length(p->warm, id)) < x->n;) {
        int n = how & CHUNKS ? 1 + (int)random_below(&p->random, 30) : x->n;
        if (n > x->n - done) n = x->n - done;
        forward_part parts[2] = {{id, x->token, n, rows}, {0, p->neighbours.token, 1 + n % 3, NULL}};
        if (how & COMPANY) parts[1].seq = neighbour_of(p, 3);
        assert_int_equal(forward_step(p->warm, parts, how & COMPANY ? 2 : 1, FORWARD_COMMIT), KVT_OK);
    }
}

/* ------------------------------------------------------------------------------------- warm equals cold */

static void assert_rows(const pair *p, const float *cold, const float *warm, int first, int end, unsigned how) {
    for (int i = first; i < end; i++)
        if (memcmp(cold + i * FORWARD_WIDTH, warm + i * FORWARD_WIDTH, FORWARD_WIDTH * sizeof *cold))
            fail_msg("%s: found %d of %d tokens, then %#x: row %d differs", trial_name(&p->t), first, end, how, i);
}

/* Find what is known of a text, which has to be `n_least` .. `n_most` tokens, and compute the rest. */
static kvt_match_result warm_is_cold(pair *p, const text *x, int n_least, int n_most, unsigned how) {
    static float cold[FORWARD_ROWS_MAX * FORWARD_WIDTH], warm[FORWARD_ROWS_MAX * FORWARD_WIDTH];
    kvt_seq id;
    assert_int_equal(kvt_seq_new(p->cold, &id), KVT_OK);
    assert_int_equal(forward_run(p->cold, id, x->token, x->n, x->n, cold), KVT_OK);
    kvt_seq_free(p->cold, id);

    assert_int_equal(kvt_seq_new(p->warm, &id), KVT_OK);
    kvt_match_result r = reuse_match(p->warm, id, x, NULL);
    if (r.n_found < n_least || r.n_found > n_most)
        fail_msg("%s: found %d of %d tokens, not %d .. %d (%s)", trial_name(&p->t), r.n_found, x->n, n_least, n_most,
                 kvt_miss_name(r.reason));
    if (how & FORK) id = fork_of(p, id);
    if (how & CUT) go_astray(p, id, x);
    if (how & SWAP) move_away_and_back(p, id);
    finish(p, id, x, how, warm);
    assert_rows(p, cold, warm, r.n_tokens, x->n, how);
    if (how & SWAP) move_away_and_back(p, id);
    assert_int_equal(kvt_seq_free(p->warm, id), KVT_OK);
    known_add(&p->known, x, p->t.block_tokens);
    return r;
}

/* Long enough for two blocks and a part. */
static int length_of(const trial *t) {
    return t->block_tokens * 2 + t->block_tokens / 2 + 3;
}

/* Every length in small blocks; in larger ones, and where `sparse` says so, those about the edges and some between. */
static bool is_tried(const trial *t, int n, int sparse) {
    int stride = (fixture_quick() ? 7 : 1) * sparse * (t->block_tokens == 16 ? 1 : t->block_tokens / 16 * 2 - 1);
    return n % stride == 0 || (!fixture_quick() && (n + 1) % t->block_tokens <= 2);
}

/* Prompts that go as a known text for 0, 1, 2 ... tokens and then otherwise. */
static void every_length(const trial *t, unsigned may) {
    pair p = pair_open(t);
    text x = text_random(1, length_of(t));
    pair_learn(&p, &x);
    for (int n = 0; n <= x.n; n++) {
        if (!is_tried(t, n, 1)) continue;
        text y = text_branch(&x, n, x.n + 1 + n % 20, (uint64_t)(1000 + n));
        if (n % 32 == 31) { /* of too many that go on from one block only the newest are compared */
            pair_reopen(&p);
            known_free(&p.known);
            pair_learn(&p, &x);
        }
        int found = trial_found(t, &p.known, &y);
        assert_int_equal(found > 0, n > 0 && (found == n || n >= t->block_tokens));
        warm_is_cold(&p, &y, t->key_bits ? 0 : found, found, may & (unsigned)random_bits(&p.random));
    }
    pair_close(&p);
}

/* All of it is known: the last token is computed all the same. */
static void every_whole_prompt(const trial *t) {
    pair p = pair_open(t);
    text x = text_random(2, length_of(t));
    pair_learn(&p, &x);
    for (int n = 1; n <= x.n; n++) {
        if (!is_tried(t, n, 1)) continue;
        text y = x;
        y.n = n;
        int found = trial_found(t, &p.known, &y);
        kvt_match_result r = warm_is_cold(&p, &y, found, found, CHUNKS);
        if (found == n - 1) assert_int_equal(r.reason, KVT_MISS_NONE);
        else assert_int_not_equal(r.reason, KVT_MISS_NONE);
    }
    pair_close(&p);
}

static void every_hit_length_in_memory(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS * 3; i += fixture_quick() ? 4 : 1)
        for (int hot = 0; hot < 2; hot++) {
            trial t = {formats[i / 3].k, formats[i / 3].v, .block_tokens = 16 << i % 3};
            t.hot_tokens = hot ? t.block_tokens + 1 : i % 2;
            every_length(&t, CHUNKS | COMPANY | FORK | CUT);
            if (hot) every_whole_prompt(&t);
        }
}

static void every_cpu_path(void **state) {
    static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        if (!kernels_of(cpus[i])) continue;
        for (int j = 0; j < N_FORMATS; j += fixture_quick() ? 5 : 1)
            every_length(&(trial){formats[j].k, formats[j].v, 16, 1, .cpu = cpus[i], .n_threads = 1 + j % 2},
                         CHUNKS | COMPANY);
    }
}

/* Different texts under one address: less is found, and nothing that is wrong. */
static void keys_of_few_bits(void **state) {
    (void)state;
    for (int bits = 1; bits <= 8; bits += 7)
        for (int j = 0; j < N_FORMATS; j += 3)
            every_length(&(trial){formats[j].k, formats[j].v, 16, 1, .key_bits = bits}, CHUNKS | COMPANY | CUT);
}

/* Blocks leave all the time. Texts come back, in a random order. */
static void little_room(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS; i++) {
        trial t = {formats[i].k, formats[i].v, 16, 1, .n_blocks = FORWARD_ROWS_MAX / 16 + i % 3};
        pair p = pair_open(&t);
        text texts[12], stem = text_random(7, 60);
        kvt_stats s;
        for (int j = 0; j < 12; j++) texts[j] = text_branch(&stem, 5 * j, 100 + 3 * j, (uint64_t)(70 + j));
        for (int j = 0; j < (fixture_quick() ? 20 : 60); j++) {
            const text *x = &texts[random_below(&p.random, 12)];
            warm_is_cold(&p, x, 0, trial_found(&t, &p.known, x),
                         (CHUNKS | FORK | CUT) & (unsigned)random_bits(&p.random));
            reuse_check(p.warm);
        }
        kvt_stats_get(p.warm, &s);
        assert_true(s.blocks_evicted > 0 && s.tokens_found > 0);
        pair_close(&p);
    }
}

/* -------------------------------------------------------------------------------------------------- tiers */

/* Computed in one cache, found in another one, which has only the tier. */
static void every_length_from_tier(const trial *t, int sparse) {
    pair p = pair_open(t);
    text x = text_random(3, length_of(t));
    pair_learn(&p, &x);
    for (int n = 0; n <= x.n; n++) {
        if (!is_tried(t, n, sparse)) continue;
        text y = text_branch(&x, n, x.n + 1 + n % 20, (uint64_t)(2000 + n));
        int found = trial_found_blocks(t, &p.known, &y);
        pair_reopen(&p);
        unsigned how = (CHUNKS | COMPANY | FORK | CUT | SWAP) & (unsigned)random_bits(&p.random);
        kvt_match_result r = warm_is_cold(&p, &y, found, found, how);
        assert_int_equal(r.n_fetched, found);
        /* And once more, in this cache: now it is in memory, in other company. */
        r = warm_is_cold(&p, &y, found, trial_found(t, &p.known, &y), CHUNKS | COMPANY);
        assert_int_equal(r.n_fetched, 0);
    }
    pair_close(&p);
}

static void every_hit_length_from_a_memory_tier(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS; i += fixture_quick() ? 4 : 1) {
        trial t = {formats[i].k, formats[i].v, .block_tokens = 16 << i % 3, .hot_tokens = i % 2 ? 40 : 1};
        assert_int_equal(kvt_tier_memory(&t.tier, 64 << 20), KVT_OK);
        every_length_from_tier(&t, 1);
        kvt_tier_close(t.tier);
    }
}

static void every_hit_length_from_disk(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS; i += fixture_quick() ? 4 : 1) {
        trial t = {formats[i].k, formats[i].v, .block_tokens = 16 << i % 3, .hot_tokens = 1};
        char folder[FOLDER_PATH_MAX];
        folder_new(folder);
        assert_int_equal(kvt_tier_disk(&t.tier, folder, 64 << 20, NULL, NULL), KVT_OK);
        every_length_from_tier(&t, i % 2 ? 1 : 3);
        kvt_tier_close(t.tier);
        folder_remove(folder);
    }
}

/* Out and back at every length, tails included. */
static void swapped_at_every_length(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS; i += fixture_quick() ? 4 : 1) {
        trial t = {formats[i].k, formats[i].v, .block_tokens = 16 << i % 3, .hot_tokens = i % 2 ? 40 : 1};
        assert_int_equal(kvt_tier_memory(&t.tier, 64 << 20), KVT_OK);
        pair p = pair_open(&t);
        for (int n = 1; n <= length_of(&t); n++) {
            if (!is_tried(&t, n, 1)) continue;
            text x = text_random((uint64_t)(500 + n), n);
            warm_is_cold(&p, &x, 0, 0, SWAP | CHUNKS | COMPANY);
        }
        pair_close(&p);
        kvt_tier_close(t.tier);
    }
}

/* A tier that forgets, a pool that is small: whatever is left is right. */
static void little_room_everywhere(void **state) {
    (void)state;
    for (int i = 0; i < N_FORMATS; i++) {
        trial t = {formats[i].k, formats[i].v, 16, 1, .n_blocks = FORWARD_ROWS_MAX / 16, .key_bits = i % 2 ? 8 : 0};
        assert_int_equal(kvt_tier_memory(&t.tier, 256 << 10), KVT_OK);
        pair p = pair_open(&t);
        text texts[12], stem = text_random(7, 60);
        for (int j = 0; j < 12; j++) texts[j] = text_branch(&stem, 5 * j, 100 + 3 * j, (uint64_t)(70 + j));
        for (int j = 0; j < (fixture_quick() ? 20 : 60); j++) {
            const text *x = &texts[random_below(&p.random, 12)];
            warm_is_cold(&p, x, 0, trial_found(&t, &p.known, x),
                         (CHUNKS | FORK | CUT) & (unsigned)random_bits(&p.random));
            reuse_check(p.warm);
            if (j % 20 == 19) pair_reopen(&p);
        }
        pair_close(&p);
        kvt_tier_close(t.tier);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_hit_length_in_memory),
        cmocka_unit_test(every_cpu_path),
        cmocka_unit_test(keys_of_few_bits),
        cmocka_unit_test(little_room),
        cmocka_unit_test(every_hit_length_from_a_memory_tier),
        cmocka_unit_test(every_hit_length_from_disk),
        cmocka_unit_test(swapped_at_every_length),
        cmocka_unit_test(little_room_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
