/* test_shared.c - segments that several sequences share are read once for all of them, and no bit shows it. Each text
 * is compared with a run of its own; whether something was shared is read off the plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"
#include "reader.h"

/* A text of its own behind the first `at` tokens of `from`. */
static reader *branch(kvt_cache *c, const reader *from, int at, int text) {
    reader *r = reader_new(from->shape, c, 0);
    kvt_seq_free(c, r->seq);
    assert_int_equal(kvt_seq_fork(c, from->seq, &r->seq), KVT_OK);
    assert_int_equal(kvt_seq_truncate(c, r->seq, at), KVT_OK);
    r->n_done = at;
    r->text = text;
    return r;
}

/* Pieces of the last layer that were computed for several sequences. */
static int n_shared_pieces(const kvt_cache *c) {
    int n = 0;
    for (int i = 0; i < c->attend.n_items; i++) n += c->attend.item[i].n_entries > 1;
    return n;
}

/* Text 0 up to at[0], text 1 up to at[1] behind that, and so on, in one sequence and step by step, up to n tokens. */
static reader *run_alone(const setup *s, const int *at, const int *text, int n_parts, int n) {
    setup alone = setup_of(s->shape);
    kvt_cache *c = cache_of(&alone);
    reader *r = reader_new(s->shape, c, 0);
    for (int i = 0; i < n_parts; i++) {
        r->text = text[i];
        feed_one(c, r, at[i] - r->n_done);
    }
    r->text = text[n_parts];
    feed_in_chunks(c, r, n, 3);
    kvt_close(c);
    return r;
}

enum { N_STEPS = 12 };

/* Five branches of one prefix of `at` tokens, decoded side by side. */
static void assert_branches(const setup *s, int at, bool apart) {
    kvt_cache *c = cache_of(s);
    reader *stem = reader_new(s->shape, c, 0), *branches[READERS_MAX];
    c->read_apart = apart;
    feed_one(c, stem, at);
    for (int i = 0; i < READERS_MAX; i++) branches[i] = branch(c, stem, at, i + 1);
    kvt_seq_free(c, stem->seq);
    for (int i_step = 0; i_step < N_STEPS; i_step++) feed(c, branches, (const int[]){1, 1, 1, 1, 1}, READERS_MAX);
    assert_int_equal(n_shared_pieces(c) > 0, at >= ATTN_SEGMENT && !apart && c->layers[0].group <= ATTN_ROWS);
    for (int i = 0; i < READERS_MAX; i++) {
        reader *alone = run_alone(s, &at, (const int[]){0, i + 1}, 1, at + N_STEPS);
        assert_same(alone, branches[i], at, at + N_STEPS, "branch");
        reader_free(alone);
        reader_free(branches[i]);
    }
    assert_int_equal(kvt_check(c), KVT_OK);
    reader_free(stem);
    kvt_close(c);
}

static void branches_are_what_they_are_alone(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        for (s.n_threads = fixture_quick() ? 2 : 1; s.n_threads <= 3; s.n_threads += fixture_quick() ? 2 : 1) {
            s.block_tokens = 8 << s.n_threads;
            assert_branches(&s, 1020 + 20 * s.n_threads, false);
        }
    }
}

static void whole_segments_only(void **state) {
    static const int at[] = {31, 1023, 1024, 1025, 2048, 2100};
    (void)state;
    for (int i = 0; i < 6; i += fixture_quick() ? 3 : 1) {
        setup s = setup_of(&shapes[0]);
        s.n_threads = 2;
        assert_branches(&s, at[i], false);
        assert_branches(&s, at[i], true);
    }
}

static void on_every_path(void **state) {
    static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};
    (void)state;
    for (int i = fixture_quick() ? 1 : 0; i < 4; i++) { /* the scalar path is slow enough as it is */
        if (!kernels_of(cpus[i])) continue;
        setup s = setup_of(&shapes[0]);
        s.cpu = cpus[i];
        s.n_threads = 2;
        assert_branches(&s, 1030, false);
    }
}

/* Two branches of one segment, one of which branches again behind two; and a newcomer who shares nothing, reading a
 * prompt beside them, and a sequence of few new tokens. */
static void trees_and_company(void **state) {
    static const int n_new[][READERS_MAX] = {{1, 1, 1, 1, 60}, {1, 1, 2, 1, 1}, {2, 1, 1, 3, 1}, {1, 1, 1, 1, 1}};
    (void)state;
    for (int n_threads = fixture_quick() ? 3 : 1; n_threads <= 3; n_threads++) {
        setup s = setup_of(&shapes[0]);
        s.n_threads = n_threads;
        kvt_cache *c = cache_of(&s);
        reader *stem = reader_new(s.shape, c, 0), *r[READERS_MAX];
        feed_one(c, stem, 1040);
        r[0] = branch(c, stem, 1040, 1);
        stem->text = 2;
        feed_one(c, stem, 1060);
        for (int i = 1; i <= 3; i++) r[i] = branch(c, stem, i == 3 ? 1100 : 2080, i + 2);
        r[4] = reader_new(s.shape, c, 9);
        kvt_seq_free(c, stem->seq);
        int from[READERS_MAX];
        for (int i = 0; i < READERS_MAX; i++) from[i] = r[i]->n_done;
        for (int i_step = 0; i_step < 4; i_step++) {
            feed(c, r, n_new[i_step], READERS_MAX);
            assert_true(n_shared_pieces(c) > 0);
        }
        for (int i = 0; i < READERS_MAX; i++) {
            const int at[] = {1040, from[i]}, text[] = {0, 2, i + 2}, first[] = {0, 1};
            reader *alone = i == 0   ? run_alone(&s, at, first, 1, r[i]->n_done)
                            : i == 4 ? run_alone(&s, at, (const int[]){9}, 0, r[i]->n_done)
                                     : run_alone(&s, at, text, 2, r[i]->n_done);
            assert_same(alone, r[i], from[i], r[i]->n_done, "tree");
            reader_free(alone);
            reader_free(r[i]);
        }
        reader_free(stem);
        kvt_close(c);
    }
}

/* Where the buffer of results is too small for all, some are read alone. */
static void without_room_some_read_alone(void **state) {
    (void)state;
    setup s = setup_of(&shapes[0]);
    s.n_threads = 2;
    kvt_cache *c = cache_of(&s);
    reader *stem = reader_new(s.shape, c, 0), *r[READERS_MAX];
    feed_one(c, stem, 1030);
    for (int i = 0; i < READERS_MAX; i++) r[i] = branch(c, stem, 1030, i + 1);
    size_t for_one = 2 * (size_t)s.shape->layer.n_heads_kv *
                     partial_floats(&c->layers[0], s.shape->layer.n_heads_q / s.shape->layer.n_heads_kv);
    for (int room = 0; room <= READERS_MAX; room++) {
        c->layout.partial_floats = (size_t)room * for_one;
        feed(c, r, (const int[]){1, 1, 1, 1, 1}, READERS_MAX);
        assert_int_equal(n_shared_pieces(c) > 0, room >= 2);
    }
    for (int i = 0; i < READERS_MAX; i++) {
        const int at = 1030;
        reader *alone = run_alone(&s, &at, (const int[]){0, i + 1}, 1, r[i]->n_done);
        assert_same(alone, r[i], at, r[i]->n_done, "room");
        reader_free(alone);
        reader_free(r[i]);
    }
    reader_free(stem);
    kvt_close(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_are_what_they_are_alone), cmocka_unit_test(whole_segments_only),
        cmocka_unit_test(on_every_path),                    cmocka_unit_test(trees_and_company),
        cmocka_unit_test(without_room_some_read_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
