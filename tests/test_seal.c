/* test_seal.c - the life of a block that is sealed when it is full, with formats that are not encoded: a record is a
 * copy of the hot tiles, so a sealing cache has to give every bit of one that does not seal, whatever is done to it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "reader.h"

static setup sealing_of(const shape *s) {
    setup set = setup_of(s);
    set.seal = true;
    return set;
}

static void assert_setup(const reader *reference, const setup *s, int n_tokens, int chunk, const char *how) {
    kvt_cache *c = cache_of(s);
    reader *r = reader_new(s->shape, c, 0);
    while (r->n_done < n_tokens) {
        feed_in_chunks(c, r, r->n_done + chunk < n_tokens ? r->n_done + chunk : n_tokens, chunk);
        assert_int_equal(kvt_check(c), KVT_OK);
    }
    assert_same(reference, r, 0, n_tokens, how);
    reader_free(r);
    kvt_close(c);
}

static void chunks_blocks_kinds_and_threads_do_not_matter(void **state) {
    static const int chunks[] = {1, 5, 16, 100, 2200};
    static const int hot[] = {0, 1, 40, 5000};
    (void)state;
    for (int i = 0; i < (fixture_quick() ? 2 : N_SHAPES); i++) {
        setup s = sealing_of(&shapes[i]);
        int n = s.shape->n_tokens, turn = i;
        reader *reference = reference_of(s.shape, n);
        for (s.block_tokens = 16; s.block_tokens <= 64; s.block_tokens *= 2)
            for (int chunk = fixture_quick() ? 1 : 0; chunk < 5; chunk++, turn++) {
                s.kind = (kvt_cache_kind)(turn % 2);
                s.n_threads = 1 + turn % 3;
                s.hot_tokens = hot[turn % 4];
                assert_setup(reference, &s, n, chunks[chunk], "sealing");
            }
        reader_free(reference);
    }
}

static void without_a_cache_too(void **state) {
    (void)state;
    for (int i = 0; i < (fixture_quick() ? 1 : N_SHAPES); i++) {
        setup s = sealing_of(&shapes[i]);
        reader *reference = reference_of(s.shape, 200);
        s.kind = KVT_NONE;
        s.block_tokens = 16;
        kvt_cache *c = cache_of(&s);
        reader *r = reader_new(s.shape, c, 0);
        for (int n = 1; n <= 200; n += 33) {
            r->n_done = 0;
            feed_one(c, r, n);
            assert_same(reference, r, 0, n, "none");
            assert_int_equal(kvt_check(c), KVT_OK);
        }
        reader_free(reference);
        reader_free(r);
        kvt_close(c);
    }
}

/* Text 0 up to `at`, then both texts side by side, the one in the fork, the other in what it was made of. */
static void forks_go_on_alone(void **state) {
    static const int at[] = {3, 32, 45, 64, 1030};
    (void)state;
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (int i = 0; i < 5; i++) {
            setup plain = setup_of(&shapes[0]), s = sealing_of(&shapes[0]);
            plain.kind = s.kind = (kvt_cache_kind)kind;
            reader *r[2][2];
            kvt_cache *caches[2] = {cache_of(&plain), cache_of(&s)};
            for (int j = 0; j < 2; j++) {
                for (int text = 0; text < 2; text++) r[j][text] = reader_new(s.shape, caches[j], 0);
                feed_one(caches[j], r[j][0], at[i]);
                kvt_seq_free(caches[j], r[j][1]->seq);
                assert_int_equal(kvt_seq_fork(caches[j], r[j][0]->seq, &r[j][1]->seq), KVT_OK);
                r[j][1]->n_done = at[i];
                r[j][1]->text = 1;
                assert_int_equal(kvt_check(caches[j]), KVT_OK);
                while (r[j][0]->n_done < at[i] + 70) {
                    feed(caches[j], r[j], (const int[]){1, 2}, 2);
                    assert_int_equal(kvt_check(caches[j]), KVT_OK);
                }
            }
            for (int text = 0; text < 2; text++) assert_same(r[0][text], r[1][text], at[i], at[i] + 70, "fork");
            for (int j = 0; j < 2; j++) reader_free(r[j][0]), reader_free(r[j][1]), kvt_close(caches[j]);
        }
}

/* A step of n tokens of text 9 that comes to nothing. */
static void feed_in_vain(kvt_cache *c, const reader *r, int n) {
    reader *stranger = &(reader){.shape = r->shape, .text = 9, .n_done = r->n_done, .seq = r->seq};
    kvt_batch batch = {1, &r->seq, &n};
    rows x = rows_new(r->shape);
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(x, &stranger, &n, 1, layer);
        assert_int_equal(kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out), KVT_OK);
    }
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    rows_free(x);
}

/* Aborted steps that fill the open block, and others behind it, leave its tokens as they were. */
static void aborts_go_back_exactly(void **state) {
    static const int in_vain[] = {1, 40, 17, 100, 31};
    (void)state;
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (int fork = 0; fork < 2; fork++) {
            setup s = sealing_of(&shapes[0]);
            s.kind = (kvt_cache_kind)kind;
            reader *reference = reference_of(s.shape, 300);
            kvt_cache *c = cache_of(&s);
            reader *r = reader_new(s.shape, c, 0);
            kvt_seq other = KVT_SEQ_NONE;
            for (int i = 0; r->n_done < 300; i++) {
                if (fork) assert_int_equal(kvt_seq_fork(c, r->seq, &other), KVT_OK);
                feed_in_vain(c, r, in_vain[i % 5]);
                feed_one(c, r, r->n_done + 13 < 300 ? 13 : 300 - r->n_done);
                assert_int_equal(kvt_seq_free(c, other), KVT_OK);
            }
            assert_same(reference, r, 0, 300, "abort");
            reader_free(reference);
            reader_free(r);
            kvt_close(c);
        }
}

/* What is left is exactly what was asked for in the first blocks and in the open one, else the blocks before. */
static void truncating_ends_before_a_sealed_block(void **state) {
    static const struct {
        int length, to, left;
    } cuts[] = {{100, 99, 99}, {100, 97, 97}, {100, 96, 96}, {100, 95, 64}, {100, 65, 64}, {100, 64, 64}, {100, 63, 32},
                {100, 33, 32}, {100, 32, 32}, {100, 31, 31}, {100, 1, 1},   {100, 0, 0},   {96, 96, 96},  {96, 95, 64},
                {96, 64, 64},  {20, 7, 7},    {32, 31, 31},  {33, 32, 32},  {64, 63, 32},  {1060, 1030, 1024}};
    (void)state;
    reader *reference = reference_of(&shapes[0], 1100);
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            setup s = sealing_of(&shapes[0]);
            s.kind = (kvt_cache_kind)kind;
            kvt_cache *c = cache_of(&s);
            reader *r = reader_new(s.shape, c, 0);
            feed_one(c, r, cuts[i].length);
            kvt_seq fork;
            assert_int_equal(kvt_seq_fork(c, r->seq, &fork), KVT_OK);
            assert_int_equal(kvt_seq_truncate(c, r->seq, cuts[i].to), KVT_OK);
            assert_int_equal(kvt_seq_length(c, r->seq), cuts[i].left);
            assert_int_equal(kvt_check(c), KVT_OK);
            /* and both go on from there */
            r->n_done = cuts[i].left;
            feed_in_chunks(c, r, cuts[i].length + 20, 7);
            assert_same(reference, r, 0, cuts[i].length + 20, "truncated");
            r->seq = fork;
            r->n_done = cuts[i].length;
            feed_in_chunks(c, r, cuts[i].length + 20, 7);
            assert_same(reference, r, 0, cuts[i].length + 20, "the fork of what was truncated");
            assert_int_equal(kvt_check(c), KVT_OK);
            reader_free(r);
            kvt_close(c);
        }
    reader_free(reference);
}

/* Sequences that share sealed blocks, and whole segments of them, in steps of different sizes. */
static void company_does_not_matter(void **state) {
    static const int steps[][4] = {{1, 1, 1, 1}, {30, 1, 40, 1}, {1, 33, 2, 1}, {1, 1, 1, 70}, {2, 2, 2, 2}};
    (void)state;
    for (int n_threads = fixture_quick() ? 3 : 1; n_threads <= 3; n_threads += 2)
        for (int block = 16; block <= 64; block *= 4) {
            setup plain = setup_of(&shapes[0]), s = sealing_of(&shapes[0]);
            plain.block_tokens = s.block_tokens = block;
            plain.n_threads = s.n_threads = n_threads;
            kvt_cache *caches[2] = {cache_of(&plain), cache_of(&s)};
            reader *r[2][4];
            for (int j = 0; j < 2; j++) {
                for (int i = 0; i < 4; i++) r[j][i] = reader_new(s.shape, caches[j], 0);
                feed_one(caches[j], r[j][0], 1100);
                for (int i = 1; i < 4; i++) {
                    kvt_seq_free(caches[j], r[j][i]->seq);
                    assert_int_equal(kvt_seq_fork(caches[j], r[j][0]->seq, &r[j][i]->seq), KVT_OK);
                    assert_int_equal(kvt_seq_truncate(caches[j], r[j][i]->seq, 1024 + (i == 3 ? 64 : 0)), KVT_OK);
                    r[j][i]->n_done = 1024 + (i == 3 ? 64 : 0);
                    r[j][i]->text = i;
                }
                for (int i = 0; i < 5; i++) {
                    feed(caches[j], r[j], steps[i], 4);
                    assert_int_equal(kvt_check(caches[j]), KVT_OK);
                }
            }
            assert_same(r[0][0], r[1][0], 0, r[0][0]->n_done, "company");
            for (int i = 1; i < 4; i++)
                assert_same(r[0][i], r[1][i], 1024 + (i == 3 ? 64 : 0), r[0][i]->n_done, "company");
            for (int j = 0; j < 2; j++) {
                for (int i = 0; i < 4; i++) reader_free(r[j][i]);
                kvt_close(caches[j]);
            }
        }
}

/* ------------------------------------------------------------------------------------------------ statuses */

static char said[512];

static void listen(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    (void)level;
    strncpy(said, message, sizeof said - 1);
}

/* A number that is none is refused before anything is written, and the step can still be done or undone. */
static void what_is_not_finite_is_refused(void **state) {
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3.4e38f /* infinite in bf16 */};
    (void)state;
    setup s = sealing_of(&shapes[0]);
    reader *reference = reference_of(s.shape, 90);
    for (int what = KEY; what <= VALUE; what++)
        for (int i = 0; i < 4; i++) {
            kvt_cache *c = cache_of(&s);
            reader *r = reader_new(s.shape, c, 0);
            rows x = rows_new(s.shape);
            int n = 50;
            kvt_batch batch = {1, &r->seq, &n};
            c->log = (log_sink){listen, NULL};
            feed_one(c, r, 40);
            assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
            for (int layer = 0; layer < N_LAYERS; layer++) {
                rows_fill(x, &r, &n, 1, layer);
                float *of = what == KEY ? x.k : x.v, good = of[49 * 3 * 64 + 100];
                of[49 * 3 * 64 + 100] = bad[i];
                assert_int_equal(kvt_append(c, layer, &batch, x.k, x.v), KVT_E_ARGUMENT);
                assert_non_null(strstr(said, layer ? "kvt_append: layer 1" : "kvt_append: layer 0"));
                assert_int_equal(kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out), KVT_E_ARGUMENT);
                assert_non_null(strstr(said, layer ? "kvt_attend: layer 1" : "kvt_attend: layer 0"));
                assert_non_null(strstr(said, what == KEY ? "key" : "value"));
                assert_int_equal(kvt_attend(c, layer, &batch, x.q, NULL, NULL, x.out), KVT_E_STATE);
                assert_int_equal(kvt_commit(c, &batch, NULL), KVT_E_STATE);
                of[49 * 3 * 64 + 100] = good;
                assert_int_equal(kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out), KVT_OK);
                rows_keep(x, &r, &n, 1, layer);
            }
            assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
            assert_same(reference, r, 0, 90, "after numbers that were none");
            rows_free(x);
            reader_free(r);
            kvt_close(c);
        }
    reader_free(reference);
}

/* Hot tiles of full blocks are there for the layer that was stored last. */
static void only_the_last_layer_can_be_attended_later(void **state) {
    (void)state;
    setup s = sealing_of(&shapes[0]);
    kvt_cache *c = cache_of(&s);
    reader *reference = reference_of(s.shape, 70), *r = reader_new(s.shape, c, 0);
    rows x = rows_new(s.shape);
    int n = 70;
    kvt_batch batch = {1, &r->seq, &n};
    c->log = (log_sink){listen, NULL};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = N_LAYERS - 1; layer >= 0; layer--) {
        rows_fill(x, &r, &n, 1, layer);
        assert_int_equal(kvt_append(c, layer, &batch, x.k, x.v), KVT_OK);
    }
    assert_int_equal(kvt_attend(c, 1, &batch, x.q, NULL, NULL, x.out), KVT_E_STATE);
    assert_non_null(strstr(said, "layer 1 has to be stored again"));
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(x, &r, &n, 1, layer);
        if (layer) assert_int_equal(kvt_append(c, layer, &batch, x.k, x.v), KVT_OK);
        assert_int_equal(kvt_attend(c, layer, &batch, x.q, NULL, NULL, x.out), KVT_OK);
        rows_keep(x, &r, &n, 1, layer);
    }
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    assert_same(reference, r, 0, 70, "layer by layer");
    rows_free(x);
    reader_free(reference);
    reader_free(r);
    kvt_close(c);
}

/* ---------------------------------------------------------------------------------------------- the proof */

static kvt_cache *cache_with_open_block(kvt_seq *id) {
    setup s = sealing_of(&shapes[0]);
    kvt_cache *c = cache_of(&s);
    reader *r = reader_new(s.shape, c, 0);
    feed_one(c, r, 70);
    *id = r->seq;
    reader_free(r);
    assert_int_equal(kvt_check(c), KVT_OK);
    return c;
}

static void check_finds_places_that_are_wrong(void **state) {
    kvt_seq id;
    (void)state;
    for (int fault = 0; fault < 7; fault++) {
        kvt_cache *c = cache_with_open_block(&id);
        const int32_t *table = seq_of(c, id)->table;
        hot_pool *h = &c->hot;
        switch (fault) {
        case 0: h->of[table[0]] = HOT_NONE; break;           /* a first block without a slot */
        case 1: h->of[table[2]] = HOT_NONE; break;           /* an open one */
        case 2: h->of[table[1]] = h->free_first; break;      /* a sealed one with one */
        case 3: h->of[table[2]] = h->of[table[0]]; break;    /* one slot, two blocks */
        case 4: h->of[table[2]] = h->free_first; break;      /* a slot that is free */
        case 5: h->of[table[2]] = h->n_slots; break;         /* a staging place outside of a step */
        case 6: h->of[c->pool.free_first] = h->free_first; break;
        }
        assert_int_equal(kvt_check(c), KVT_E_CORRUPT);
        kvt_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_blocks_kinds_and_threads_do_not_matter),
        cmocka_unit_test(without_a_cache_too),
        cmocka_unit_test(forks_go_on_alone),
        cmocka_unit_test(aborts_go_back_exactly),
        cmocka_unit_test(truncating_ends_before_a_sealed_block),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(only_the_last_layer_can_be_attended_later),
        cmocka_unit_test(check_finds_places_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
