/* test_reuse_miss.c - why a prefix ends: each reason at the right token, what must never be found, and what is of
 * another model, format or shape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "faulty_tier.h"
#include "random.h"
#include "reuse.h"

enum { BLOCK = 16 };

static const trial plain = {KVT_BF16, KVT_BF16, BLOCK, 1};

#define ASSERT_FOUND(c, x, n, why)                                                                                \
    do {                                                                                                          \
        kvt_match_result found_ = reuse_look(c, x);                                                               \
        assert_string_equal(kvt_miss_name(found_.reason), kvt_miss_name(why));                                    \
        assert_int_equal(found_.n_found, n);                                                                      \
    } while (0)

static uint64_t missed(kvt_cache *c, kvt_miss why) {
    kvt_stats s;
    kvt_stats_get(c, &s);
    return s.tokens_missed[why];
}

/* Each starts in a cache that knows text 1, of three blocks and a half. */
typedef struct scene {
    kvt_cache *c;
    text x;
} scene;

static scene scene_open(const trial *t) {
    scene s = {trial_open(t), text_random(1, 3 * BLOCK + BLOCK / 2)};
    reuse_compute(s.c, &s.x);
    return s;
}

static void scene_close(scene *s) {
    reuse_check(s->c);
    kvt_close(s->c);
}

/* ----------------------------------------------------------------------------------------------- in memory */

static void nothing_is_known(void **state) {
    (void)state;
    kvt_cache *c = trial_open(&plain);
    text x = text_random(1, 40);
    ASSERT_FOUND(c, &x, 0, KVT_MISS_COLD);
    assert_int_equal(missed(c, KVT_MISS_COLD), 40);
    x.n = 1; /* the last token is computed in any case */
    ASSERT_FOUND(c, &x, 0, KVT_MISS_NONE);
    reuse_check(c);
    kvt_close(c);
}

static void it_goes_on_behind_what_is_known(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    text y = text_branch(&s.x, 3 * BLOCK, 6 * BLOCK, 5);
    ASSERT_FOUND(s.c, &y, 3 * BLOCK, KVT_MISS_COLD);
    assert_int_equal(missed(s.c, KVT_MISS_COLD), (size_t)(s.x.n + 3 * BLOCK) - (size_t)s.x.n);
    scene_close(&s);
}

static void it_goes_on_otherwise(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    for (int n = BLOCK; n < 3 * BLOCK; n++) {
        text y = text_branch(&s.x, n, 6 * BLOCK, (uint64_t)n);
        ASSERT_FOUND(s.c, &y, n, KVT_MISS_DIFFERS);
    }
    scene_close(&s);
}

static void codes_end_at_blocks(void **state) {
    (void)state;
    scene s = scene_open(&(trial){KVT_INT8, KVT_INT4, BLOCK, 1});
    text y = text_branch(&s.x, BLOCK + 9, 6 * BLOCK, 3);
    ASSERT_FOUND(s.c, &y, BLOCK, KVT_MISS_DIFFERS);
    y = text_branch(&s.x, 9, 6 * BLOCK, 3); /* the first block is kept as it came */
    ASSERT_FOUND(s.c, &y, 9, KVT_MISS_DIFFERS);
    y = s.x;
    y.n = 2 * BLOCK; /* all but the last token is wanted, and a whole block is more than that */
    ASSERT_FOUND(s.c, &y, BLOCK, KVT_MISS_SHORT);
    scene_close(&s);
}

static void the_rest_is_less_than_a_block(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    ASSERT_FOUND(s.c, &s.x, 3 * BLOCK, KVT_MISS_SHORT);
    assert_int_equal(missed(s.c, KVT_MISS_SHORT), BLOCK / 2);
    text y = text_random(8, BLOCK - 1);
    ASSERT_FOUND(s.c, &y, 0, KVT_MISS_SHORT);
    scene_close(&s);
}

static void all_is_known(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    for (int n = 2; n <= 3 * BLOCK; n++) {
        text y = s.x;
        y.n = n;
        ASSERT_FOUND(s.c, &y, n - 1, KVT_MISS_NONE);
    }
    scene_close(&s);
}

static void it_had_to_leave(void **state) {
    (void)state;
    trial t = plain;
    t.n_blocks = FORWARD_ROWS_MAX / BLOCK;
    scene s = scene_open(&t);
    kvt_stats stats;
    for (uint64_t i = 0; i < 40; i++) {
        text other = text_random(100 + i, s.x.n);
        reuse_compute(s.c, &other);
    }
    kvt_stats_get(s.c, &stats);
    assert_true(stats.blocks_evicted > 0);
    kvt_match_result r = reuse_look(s.c, &s.x);
    assert_int_equal(r.reason, KVT_MISS_EVICTED);
    assert_int_equal(r.n_found % BLOCK, 0);
    assert_true(r.n_found < 3 * BLOCK);
    assert_int_equal(missed(s.c, KVT_MISS_EVICTED), s.x.n - r.n_found);
    reuse_compute(s.c, &s.x);
    ASSERT_FOUND(s.c, &s.x, 3 * BLOCK, KVT_MISS_SHORT);
    scene_close(&s);
}

static void caches_that_remember_nothing(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        trial t = plain;
        t.forget = i == 2;
        kvt_options opt = trial_options(&t);
        opt.kind = i == 0 ? KVT_CONTIGUOUS : i == 1 ? KVT_NONE : KVT_PAGED;
        opt.bytes_max = 0;
        kvt_cache *c;
        kvt_stats s;
        text x = text_random(1, 50);
        assert_int_equal(kvt_open(&c, &opt), KVT_OK);
        kvt_seq id;
        assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
        assert_int_equal(forward_step(c, &(forward_part){id, x.token, x.n, NULL}, 1, FORWARD_COMMIT), KVT_OK);
        assert_int_equal(kvt_seq_free(c, id), KVT_OK);
        ASSERT_FOUND(c, &x, 0, KVT_MISS_DISABLED);
        assert_int_equal(missed(c, KVT_MISS_DISABLED), 50);
        kvt_stats_get(c, &s);
        assert_int_equal(s.blocks_idle, 0);
        reuse_check(c);
        kvt_close(c);
    }
}

/* A shared half of a block, which two go on from in their own way, and one who looks. */
static void most_of_a_block_wins(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    for (int n = 1; n < BLOCK; n += 2) {
        text y = text_branch(&s.x, BLOCK + n, 3 * BLOCK, (uint64_t)(40 + n)), z;
        reuse_compute(s.c, &y);
        z = text_branch(&y, BLOCK + n + 1, 5 * BLOCK, 77);
        ASSERT_FOUND(s.c, &z, BLOCK + n + 1, KVT_MISS_DIFFERS);
    }
    scene_close(&s);
}

/* ------------------------------------------------------------------------------------------- never found */

static kvt_seq begin(kvt_cache *c, const text *x, int n) {
    kvt_seq id;
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    assert_int_equal(forward_run(c, id, x->token, n, n, NULL), KVT_OK);
    return id;
}

/* One whose tokens are taken back, to each length. */
static void truncated_tokens_are_not_found(void **state) {
    (void)state;
    for (int n = 0; n < 4 * BLOCK; n += 3)
        for (int end = 0; end < 2; end++) {
            kvt_cache *c = trial_open(&plain);
            text x = text_random((uint64_t)n, 4 * BLOCK + 1);
            kvt_seq id = begin(c, &x, 4 * BLOCK);
            assert_int_equal(kvt_seq_truncate(c, id, n), KVT_OK);
            if (end) kvt_seq_free(c, id);
            kvt_match_result r = reuse_look(c, &x);
            assert_int_equal(r.n_found, n / BLOCK * BLOCK);
            reuse_check(c);
            kvt_close(c);
        }
}

/* The same, and it had been written to a tier already. */
static void truncated_tokens_are_not_in_tiers(void **state) {
    (void)state;
    for (int wait = 0; wait < 2; wait++) {
        trial t = plain;
        assert_int_equal(kvt_tier_memory(&t.tier, 1 << 20), KVT_OK);
        kvt_cache *c = trial_open(&t);
        text x = text_random(4, 4 * BLOCK + 1);
        kvt_seq id = begin(c, &x, 4 * BLOCK);
        if (wait) assert_int_equal(kvt_flush(c), KVT_OK);
        assert_int_equal(kvt_seq_truncate(c, id, BLOCK + 2), KVT_OK);
        kvt_seq_free(c, id);
        kvt_close(c);
        c = trial_open(&t);
        assert_int_equal(reuse_look(c, &x).n_found, BLOCK);
        reuse_check(c);
        kvt_close(c);
        kvt_tier_close(t.tier);
    }
}

static void steps_that_come_to_nothing_are_not_found(void **state) {
    (void)state;
    kvt_cache *c = trial_open(&plain);
    text x = text_random(4, 4 * BLOCK + 1);
    kvt_seq id = begin(c, &x, BLOCK + 3);
    assert_int_equal(forward_step(c, &(forward_part){id, x.token, 2 * BLOCK, NULL}, 1, FORWARD_ABORT), KVT_OK);
    assert_int_equal(reuse_look(c, &x).n_found, BLOCK);
    kvt_seq_free(c, id);
    assert_int_equal(reuse_look(c, &x).n_found, BLOCK);
    reuse_check(c);
    kvt_close(c);
}

/* Nobody said which tokens they are: neither they nor what follows is found, not even under -1. */
static void nameless_tokens_are_not_found(void **state) {
    (void)state;
    kvt_cache *c = trial_open(&plain);
    text x = text_random(4, 5 * BLOCK + 1), y;
    kvt_seq id = begin(c, &x, BLOCK);
    assert_int_equal(forward_step(c, &(forward_part){id, x.token, BLOCK, NULL}, 1, FORWARD_NAMELESS), KVT_OK);
    assert_int_equal(forward_run(c, id, x.token, 5 * BLOCK, 2 * BLOCK, NULL), KVT_OK);
    y = x;
    for (int i = BLOCK; i < 2 * BLOCK; i++) y.token[i] = -1;
    for (int end = 0; end < 2; end++) {
        assert_int_equal(reuse_look(c, &x).n_found, BLOCK);
        assert_int_equal(reuse_look(c, &y).n_found, BLOCK);
        if (!end) kvt_seq_free(c, id);
    }
    reuse_check(c);
    kvt_close(c);
}

/* A block is found at the place where it was computed, behind what it was computed behind. */
static void the_same_tokens_elsewhere_are_not_found(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    text y = {.n = 3 * BLOCK};
    memcpy(y.token, s.x.token + BLOCK, 2 * BLOCK * sizeof *y.token);
    ASSERT_FOUND(s.c, &y, 0, KVT_MISS_COLD);
    y = text_random(9, 3 * BLOCK);
    memcpy(y.token + BLOCK, s.x.token + BLOCK, BLOCK * sizeof *y.token);
    ASSERT_FOUND(s.c, &y, 0, KVT_MISS_COLD);
    scene_close(&s);
}

/* ------------------------------------------------------------------------------------------------- room */

static void what_is_held_twice_is_kept_once(void **state) {
    (void)state;
    kvt_cache *c = trial_open(&plain);
    kvt_stats s;
    text x = text_random(4, 4 * BLOCK);
    kvt_seq a = begin(c, &x, x.n), b = begin(c, &x, x.n);
    kvt_stats_get(c, &s);
    assert_int_equal(s.blocks_used, 4);
    assert_int_equal(s.blocks_shared, 4);
    assert_int_equal(s.blocks_merged, 4);
    assert_int_equal(s.tokens_stored, 4 * BLOCK);
    kvt_seq_free(c, a);
    kvt_seq_free(c, b);
    kvt_stats_get(c, &s);
    assert_int_equal(s.blocks_used, 0);
    assert_int_equal(s.blocks_idle, 4);
    assert_int_equal(s.bytes_reserved, 0);
    reuse_check(c);
    kvt_close(c);
}

static void hits_of_those_who_come_again_are_counted_apart(void **state) {
    (void)state;
    scene s = scene_open(&plain);
    kvt_stats stats;
    kvt_seq id;
    assert_int_equal(kvt_seq_new(s.c, &id), KVT_OK);
    reuse_match(s.c, id, &s.x, &(kvt_match_options){.resumed = 1});
    reuse_look(s.c, &s.x);
    kvt_stats_get(s.c, &stats);
    assert_int_equal(stats.tokens_found, 6 * BLOCK);
    assert_int_equal(stats.tokens_resumed, 3 * BLOCK);
    assert_int_equal(stats.tokens_asked, 2 * s.x.n);
    scene_close(&s);
}

/* ------------------------------------------------------------------------------------------------ tiers */

/* What one cache wrote to a tier, seen by another. */
static void assert_seen(const trial *writer, const trial *reader, int n_found, kvt_miss why) {
    trial w = *writer, r = *reader;
    assert_int_equal(kvt_tier_memory(&w.tier, 4 << 20), KVT_OK);
    r.tier = w.tier;
    scene s = scene_open(&w);
    scene_close(&s);
    text y = text_branch(&s.x, 2 * BLOCK, 5 * BLOCK, 3);
    kvt_cache *c = trial_open(&r);
    ASSERT_FOUND(c, &y, n_found, why);
    assert_int_equal(missed(c, why), y.n - n_found);
    reuse_check(c);
    kvt_close(c);
    kvt_tier_close(w.tier);
}

static void other_formats_and_models_have_their_reasons(void **state) {
    static const uint8_t identity[32] = "another model";
    trial other = plain;
    (void)state;
    assert_seen(&plain, &plain, 2 * BLOCK, KVT_MISS_COLD); /* a tier does not say what goes on */
    other.v = KVT_INT8;
    assert_seen(&plain, &other, 0, KVT_MISS_OTHER_FORMAT);
    assert_seen(&other, &plain, 0, KVT_MISS_OTHER_FORMAT);
    other = plain;
    other.block_tokens = 2 * BLOCK;
    assert_seen(&plain, &other, 0, KVT_MISS_OTHER_FORMAT);
    assert_seen(&other, &plain, 0, KVT_MISS_OTHER_FORMAT);
    other = plain;
    other.identity = identity;
    assert_seen(&plain, &other, 0, KVT_MISS_OTHER_MODEL);
    other.k = KVT_F16;
    assert_seen(&plain, &other, 0, KVT_MISS_OTHER_MODEL);
    trial codes = {KVT_INT8, KVT_INT8, BLOCK, 1}, hotter = {KVT_INT8, KVT_INT8, BLOCK, BLOCK + 1};
    assert_seen(&codes, &codes, 2 * BLOCK, KVT_MISS_COLD);
    assert_seen(&codes, &hotter, 0, KVT_MISS_OTHER_FORMAT);
}

/* One field of the description is another: nothing is found. */
static void every_field_of_the_layers_counts(void **state) {
    static const float balance[64] = {[0 ... 63] = 0.5f};
    trial t = {KVT_INT8, KVT_INT8, BLOCK, 1};
    (void)state;
    for (int field = 0; field < 6; field++) {
        assert_int_equal(kvt_tier_memory(&t.tier, 4 << 20), KVT_OK);
        kvt_options opt = trial_options(&t);
        scene s = scene_open(&t);
        scene_close(&s);
        kvt_layer layers[FORWARD_LAYERS];
        memcpy(layers, opt.layers, sizeof layers);
        opt.layers = layers;
        if (field == 1) layers[2].scale = 0.3f;
        if (field == 2) layers[0].k_balance = balance;
        if (field == 3) layers[1].n_heads_q = 4; /* keys and values are as before, but not what they are made from */
        if (field == 4) layers[1].dim_k = 32;
        if (field == 5) opt.n_layers = 2;
        kvt_cache *c;
        assert_int_equal(kvt_open(&c, &opt), KVT_OK);
        kvt_match_result r = reuse_look(c, &s.x);
        assert_int_equal(r.n_found, field == 0 ? 3 * BLOCK : 0);
        if (field > 0) assert_int_equal(r.reason, KVT_MISS_OTHER_FORMAT);
        kvt_close(c);
        kvt_tier_close(t.tier);
    }
}

/* Caches of another secret share nothing, and do not learn that there is something. */
static void secrets_are_kept(void **state) {
    static const uint8_t secret[32] = {1};
    trial t = plain;
    kvt_cache *c;
    (void)state;
    assert_int_equal(kvt_tier_memory(&t.tier, 4 << 20), KVT_OK);
    scene s = scene_open(&t);
    scene_close(&s);
    kvt_options opt = trial_options(&t);
    opt.secret = secret;
    assert_int_equal(kvt_open(&c, &opt), KVT_OK);
    ASSERT_FOUND(c, &s.x, 0, KVT_MISS_COLD);
    kvt_close(c);
    kvt_tier_close(t.tier);
}

/* A tier that waits for the cache to be opened again. */
typedef struct spoiled {
    trial t;
    faulty_tier *f;
    uint64_t now;
    text x;
} spoiled;

/* Each look takes a microsecond. */
static uint64_t now_of(void *ctx) {
    return *(uint64_t *)ctx += 1000;
}

static void spoiled_open(spoiled *s, uint64_t stall_ns) {
    *s = (spoiled){.t = plain, .now = 1000000};
    s->t.tier = faulty_tier_new(&s->f, &(faulty_options){.seed = 1, .stall_ns = stall_ns, .clock = &s->now});
    scene computed = scene_open(&s->t);
    scene_close(&computed);
    s->x = computed.x;
}

typedef struct flip {
    faulty_tier *f;
    uint64_t at;
    int n, n_seen;
} flip;

/* A bit of each record but the one that says what they are. */
static kvt_status flip_one(void *ctx, const kvt_tier_entry *entry) {
    flip *p = ctx;
    uint64_t n;
    uint8_t *bytes = faulty_record(p->f, &entry->key, &n);
    if (memcmp(entry->key.name, entry->key.space, sizeof entry->key.name) == 0) return KVT_OK;
    p->n_seen++;
    bytes[p->at % n] ^= (uint8_t)(1 << p->at % 8);
    p->n++;
    return KVT_OK;
}

static void damaged_records_are_not_used(void **state) {
    (void)state;
    for (uint64_t at = 0; at < 512 * 12; at += 97) {
        spoiled s;
        spoiled_open(&s, 0);
        flip p = {s.f, at, 0, 0};
        assert_int_equal(kvt_tier_walk(s.t.tier, flip_one, &p), KVT_OK);
        assert_int_equal(p.n, 3);
        kvt_cache *c = trial_open(&s.t);
        ASSERT_FOUND(c, &s.x, 0, KVT_MISS_TIER_BAD);
        kvt_stats stats;
        kvt_stats_get(c, &stats);
        assert_int_equal(stats.tokens_missed[KVT_MISS_TIER_BAD], s.x.n);
        assert_true(stats.n_gets_failed >= 1);
        reuse_check(c);
        kvt_close(c);
        for (int n = 0; n <= 3; n++) { /* each time what was found bad is put right */
            c = trial_open(&s.t);
            assert_true(reuse_look(c, &s.x).n_found >= n * BLOCK);
            reuse_compute(c, &s.x);
            kvt_close(c);
        }
        kvt_tier_close(s.t.tier);
    }
}

static void a_tier_that_fails_is_a_miss(void **state) {
    (void)state;
    spoiled s;
    spoiled_open(&s, 0);
    faulty_set(s.f, (faults){.fail = 1});
    kvt_cache *c = trial_open(&s.t);
    ASSERT_FOUND(c, &s.x, 0, KVT_MISS_TIER_BAD);
    reuse_compute(c, &s.x);
    reuse_check(c);
    kvt_close(c);
    kvt_tier_close(s.t.tier);
}

/* Reading takes a second, computing next to nothing: after some tries it is computed. */
static void a_slow_tier_is_not_used(void **state) {
    (void)state;
    spoiled s;
    spoiled_open(&s, 1000000000);
    faulty_set(s.f, (faults){.stall = 1});
    kvt_options opt = trial_options(&s.t);
    kvt_cache *c;
    kvt_stats stats;
    text other = text_random(55, 200);
    opt.clock = now_of;
    opt.clock_ctx = &s.now;
    assert_int_equal(cache_open(&c, &opt, &(cache_check){.moves_inline = true}), KVT_OK);
    reuse_compute(c, &other); /* how long that takes is known */
    s.x.n = BLOCK + 1;
    ASSERT_FOUND(c, &s.x, BLOCK, KVT_MISS_NONE); /* and now, how long this does */
    s.x.n = 3 * BLOCK + 1;
    ASSERT_FOUND(c, &s.x, BLOCK, KVT_MISS_TIER_SLOW);
    kvt_stats_get(c, &stats);
    assert_int_equal(stats.tokens_missed[KVT_MISS_TIER_SLOW], 2 * BLOCK + 1);
    reuse_check(c);
    kvt_close(c);
    kvt_tier_close(s.t.tier);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known),
        cmocka_unit_test(it_goes_on_behind_what_is_known),
        cmocka_unit_test(it_goes_on_otherwise),
        cmocka_unit_test(codes_end_at_blocks),
        cmocka_unit_test(the_rest_is_less_than_a_block),
        cmocka_unit_test(all_is_known),
        cmocka_unit_test(it_had_to_leave),
        cmocka_unit_test(caches_that_remember_nothing),
        cmocka_unit_test(most_of_a_block_wins),
        cmocka_unit_test(truncated_tokens_are_not_found),
        cmocka_unit_test(truncated_tokens_are_not_in_tiers),
        cmocka_unit_test(steps_that_come_to_nothing_are_not_found),
        cmocka_unit_test(nameless_tokens_are_not_found),
        cmocka_unit_test(the_same_tokens_elsewhere_are_not_found),
        cmocka_unit_test(what_is_held_twice_is_kept_once),
        cmocka_unit_test(hits_of_those_who_come_again_are_counted_apart),
        cmocka_unit_test(other_formats_and_models_have_their_reasons),
        cmocka_unit_test(every_field_of_the_layers_counts),
        cmocka_unit_test(secrets_are_kept),
        cmocka_unit_test(damaged_records_are_not_used),
        cmocka_unit_test(a_tier_that_fails_is_a_miss),
        cmocka_unit_test(a_slow_tier_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
