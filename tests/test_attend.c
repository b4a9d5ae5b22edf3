/* test_attend.c - attention through the public calls: the same bits however the tokens got there, close to a reference
 * in binary64, and no allocation in a step. Texts, and readers that feed them to sequences, are in reader.h. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_guard.h"
#include "reader.h"

/* ------------------------------------------------------------------------------------------- the same bits */

/* Text 0 in a cache of this setup, in chunks, has the bits of the reference. */
static void assert_setup(const reader *reference, const setup *s, int n_tokens, int chunk, const char *how) {
    kvt_cache *c = cache_of(s);
    reader *r = reader_new(s->shape, c, 0);
    feed_in_chunks(c, r, n_tokens, chunk);
    assert_same(reference, r, 0, n_tokens, how);
    assert_int_equal(kvt_check(c), KVT_OK);
    reader_free(r);
    kvt_close(c);
}

static void chunks_do_not_matter(void **state) {
    static const int chunks[] = {1, 7, 16, 64};
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        int n = s.shape->n_tokens;
        reader *reference = reference_of(s.shape, n);
        for (int j = 0; j < 4; j++) assert_setup(reference, &s, n, chunks[j], "chunks");
        reader_free(reference);
    }
}

static void blocks_and_kinds_do_not_matter(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        int n = s.shape->n_tokens;
        reader *reference = reference_of(s.shape, n);
        for (s.block_tokens = 16; s.block_tokens <= 64; s.block_tokens *= 2) {
            for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++) {
                s.kind = (kvt_cache_kind)kind;
                assert_setup(reference, &s, n, 333, kvt_cache_kind_name(s.kind));
            }
        }
        reader_free(reference);
    }
}

static void without_a_cache_each_step_computes_everything_again(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        reader *reference = reference_of(s.shape, 200);
        s.kind = KVT_NONE;
        kvt_cache *c = cache_of(&s);
        reader *r = reader_new(s.shape, c, 0);
        for (int n = 1; n <= 200; n += 66) {
            r->n_done = 0;
            feed_one(c, r, n);
            assert_int_equal(kvt_seq_length(c, r->seq), 0);
            assert_same(reference, r, 0, n, "none");
        }
        reader_free(reference);
        reader_free(r);
        kvt_close(c);
    }
}

static void threads_do_not_matter(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        int n = s.shape->n_tokens;
        reader *reference = reference_of(s.shape, n);
        for (s.n_threads = 2; s.n_threads <= 3; s.n_threads++) {
            assert_setup(reference, &s, n, n, "threads, one step");
            assert_setup(reference, &s, n, 5, "threads, small steps");
        }
        reader_free(reference);
    }
}

/* From the start, and at the end of a long text whose beginning was read on the best path: the scalar one is slow. */
static void instruction_sets_do_not_matter(void **state) {
    static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        int n = s.shape->n_tokens;
        reader *reference = reference_of(s.shape, n);
        for (int j = 0; j < 4; j++) {
            if (!kernels_of(cpus[j])) continue;
            s.cpu = cpus[j];
            assert_setup(reference, &s, 150, 45, s.cpu);
            s.cpu = NULL;
            kvt_cache *c = cache_of(&s);
            reader *r = reader_new(s.shape, c, 0);
            feed_one(c, r, n - 40);
            c->kernels = kernels_of(cpus[j]);
            feed_in_chunks(c, r, n, 15);
            assert_same(reference, r, n - 40, n, cpus[j]);
            reader_free(r);
            kvt_close(c);
        }
        reader_free(reference);
    }
}

/* Five texts that start at different times, in steps of different sizes. */
static void company_does_not_matter(void **state) {
    static const int steps[][READERS_MAX] = {
        {900, 3, 0, 0, 17}, {1, 1, 700, 0, 1}, {1, 40, 1, 0, 1}, {64, 1, 1, 5, 1}, {1, 1, 1, 1, 1}, {83, 1, 1, 1, 200},
    };
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        reader *alone[READERS_MAX], *together[READERS_MAX];
        s.n_threads = 2;
        kvt_cache *c = cache_of(&s);
        for (int j = 0; j < READERS_MAX; j++) together[j] = reader_new(s.shape, c, j);
        for (size_t i_step = 0; i_step < sizeof steps / sizeof *steps; i_step++) {
            reader *in[READERS_MAX];
            int n_new[READERS_MAX], n = 0;
            for (int j = 0; j < READERS_MAX; j++)
                if (steps[i_step][j]) in[n] = together[j], n_new[n++] = steps[i_step][j];
            feed(c, in, n_new, n);
        }
        kvt_close(c);
        c = cache_of(&s);
        for (int j = 0; j < READERS_MAX; j++) {
            alone[j] = reader_new(s.shape, c, j);
            feed_one(c, alone[j], together[j]->n_done);
            assert_same(alone[j], together[j], 0, together[j]->n_done, "company");
            reader_free(alone[j]);
            reader_free(together[j]);
        }
        kvt_close(c);
    }
}

/* Text 0 up to `at`, then the reader goes on with `text`: as positions and outputs of that text. */
static void go_on_as(reader *r, int text) {
    r->text = text;
}

static void a_fork_goes_on_like_a_run_of_its_own(void **state) {
    static const int at[] = {32, 45, 1030};
    (void)state;
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (int i = 0; i < 3; i++) {
            setup s = setup_of(&shapes[0]);
            int n = at[i] + 40;
            s.kind = (kvt_cache_kind)kind;
            kvt_cache *c = cache_of(&s);
            /* given: one run each of "text 0, then text 0" and "text 0, then text 1" */
            reader *own[2], *forked[2];
            for (int j = 0; j < 2; j++) {
                own[j] = reader_new(s.shape, c, 0);
                feed_one(c, own[j], at[i]);
                go_on_as(own[j], j);
                feed_in_chunks(c, own[j], n, 9);
            }
            /* when: both come from one sequence, and go on side by side */
            for (int j = 0; j < 2; j++) forked[j] = reader_new(s.shape, c, 0);
            feed_one(c, forked[0], at[i]);
            kvt_seq_free(c, forked[1]->seq);
            assert_int_equal(kvt_seq_fork(c, forked[0]->seq, &forked[1]->seq), KVT_OK);
            forked[1]->n_done = at[i];
            go_on_as(forked[1], 1);
            while (forked[0]->n_done < n) feed(c, forked, (const int[]){1, 1}, 2);
            /* then */
            for (int j = 0; j < 2; j++) assert_same(own[j], forked[j], at[i], n, "fork");
            for (int j = 0; j < 2; j++) reader_free(own[j]), reader_free(forked[j]);
            kvt_close(c);
        }
}

/* Text whose keys and values are infinite or no numbers at all, as a model that has gone astray makes them. */
static void feed_nonsense(kvt_cache *c, kvt_seq id, int n, bool commit) {
    const shape *s = &shapes[0];
    kvt_batch batch = {1, &id, &n};
    rows r = rows_new(s);
    for (int i = 0; i < n * width_of(s, QUERY); i++) r.q[i] = NAN;
    for (int i = 0; i < n * width_of(s, KEY); i++) r.k[i] = INFINITY, r.v[i] = i % 2 ? NAN : -INFINITY;
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++)
        assert_int_equal(kvt_attend(c, layer, &batch, r.q, r.k, r.v, r.out), KVT_OK);
    if (commit) assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    else assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    rows_free(r);
}

static void forgotten_tokens_leave_nothing(void **state) {
    static const int at[] = {0, 20, 32, 1020};
    (void)state;
    reader *reference = reference_of(&shapes[0], 1100);
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (int i = 0; i < 4; i++)
            for (int aborted = 0; aborted < 2; aborted++) {
                setup s = setup_of(&shapes[0]);
                s.kind = (kvt_cache_kind)kind;
                kvt_cache *c = cache_of(&s);
                reader *r = reader_new(s.shape, c, 0);
                if (at[i]) feed_one(c, r, at[i]);
                feed_nonsense(c, r->seq, 50, !aborted);
                assert_int_equal(kvt_seq_truncate(c, r->seq, at[i]), KVT_OK);
                feed_one(c, r, 3);
                feed_in_chunks(c, r, 1100, 30);
                assert_same(reference, r, 0, 1100, aborted ? "abort" : "truncate");
                reader_free(r);
                kvt_close(c);
            }
    reader_free(reference);
}

/* A fork sees neither what the other wrote into the block they shared, nor what lies behind its own end. */
static void a_fork_cut_short_goes_on_like_a_run_of_its_own(void **state) {
    (void)state;
    setup s = setup_of(&shapes[0]);
    reader *reference = reference_of(s.shape, 60);
    kvt_cache *c = cache_of(&s);
    reader *r = reader_new(s.shape, c, 0);
    feed_one(c, r, 37);
    kvt_seq other;
    assert_int_equal(kvt_seq_fork(c, r->seq, &other), KVT_OK);
    feed_nonsense(c, other, 20, true);
    assert_int_equal(kvt_seq_truncate(c, other, 40), KVT_OK);
    kvt_seq_free(c, r->seq);
    assert_int_equal(kvt_seq_fork(c, other, &r->seq), KVT_OK);
    assert_int_equal(kvt_seq_truncate(c, r->seq, 37), KVT_OK);
    feed_in_chunks(c, r, 60, 1);
    assert_same(reference, r, 0, 60, "fork of a fork");
    reader_free(reference);
    reader_free(r);
    kvt_close(c);
}

static void append_before_attend_is_the_same(void **state) {
    (void)state;
    setup s = setup_of(&shapes[0]);
    int n = 70;
    reader *reference = reference_of(s.shape, n);
    kvt_cache *c = cache_of(&s);
    reader *r = reader_new(s.shape, c, 0);
    rows x = rows_new(s.shape), other = rows_new(s.shape);
    reader *stranger = &(reader){.shape = s.shape, .text = 9};
    kvt_batch batch = {1, &r->seq, &n};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(x, &r, &n, 1, layer);
        rows_fill(other, &stranger, &n, 1, layer);
        /* what is stored last counts */
        assert_int_equal(kvt_append(c, layer, &batch, other.k, other.v), KVT_OK);
        assert_int_equal(kvt_append(c, layer, &batch, x.k, x.v), KVT_OK);
        assert_int_equal(kvt_attend(c, layer, &batch, x.q, NULL, NULL, x.out), KVT_OK);
        rows_keep(x, &r, &n, 1, layer);
    }
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    assert_same(reference, r, 0, n, "append");
    reader_free(reference);
    reader_free(r);
    rows_free(x);
    rows_free(other);
    kvt_close(c);
}

static void the_callers_rounding_does_not_matter_and_comes_back(void **state) {
    (void)state;
    setup s = setup_of(&shapes[0]);
    reader *reference = reference_of(s.shape, 300);
    s.n_threads = 2;
    fesetround(FE_UPWARD);
    kvt_cache *c = cache_of(&s);
    reader *r = reader_new(s.shape, c, 0);
    rows x = rows_new(s.shape);
    int n = 300;
    kvt_batch batch = {1, &r->seq, &n};
    for (int layer = 0; layer < N_LAYERS; layer++) {
        fesetround(FE_TONEAREST); /* the texts are made by the caller */
        rows_fill(x, &r, &n, 1, layer);
        fesetround(FE_UPWARD);
        if (layer == 0) kvt_reserve(c, &batch);
        kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out);
        rows_keep(x, &r, &n, 1, layer);
    }
    kvt_commit(c, &batch, NULL);
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(rounding, FE_UPWARD);
    assert_same(reference, r, 0, 300, "rounding");
    rows_free(x);
    reader_free(reference);
    reader_free(r);
    kvt_close(c);
}

/* --------------------------------------------------------------------------------------- the right values */

static float stored(float x, kvt_format format) {
    return format == KVT_BF16 ? bf16_to_f32(f32_to_bf16(x)) : format == KVT_F16 ? f16_to_f32(f32_to_f16(x)) : x;
}

/* Keys or values of text 0 in layer 0, as stored: [n_tokens][n_heads_kv][dim]. */
static float *text_stored(const shape *s, int what, int n_tokens) {
    int width = width_of(s, what);
    float *x = malloc((size_t)(n_tokens * width) * sizeof *x);
    for (int t = 0; t < n_tokens; t++) text_fill(0, 0, t, what, x + t * width, width);
    for (int i = 0; i < n_tokens * width; i++) x[i] = stored(x[i], what == KEY ? s->k_format : s->v_format);
    return x;
}

/* The row of one query head in binary64. size: the sum of |weight * value|, to measure the error against. */
static void row_reference(const shape *s, const float *k, const float *v, int position, int head, double *out,
                          double *size) {
    const kvt_layer *l = &s->layer;
    int kv = head / (l->n_heads_q / l->n_heads_kv);
    double scale = l->scale != 0 ? (double)l->scale : 1 / sqrt(l->dim_k), top = -INFINITY, sum = 0;
    double *weight = malloc((size_t)(position + 1) * sizeof *weight);
    float q[32 * 80];
    text_fill(0, 0, position, QUERY, q, width_of(s, QUERY));
    for (int t = 0; t <= position; t++) {
        weight[t] = 0;
        for (int d = 0; d < l->dim_k; d++)
            weight[t] += scale * (double)q[head * l->dim_k + d] * (double)k[(t * l->n_heads_kv + kv) * l->dim_k + d];
        if (weight[t] > top) top = weight[t];
    }
    for (int t = 0; t <= position; t++) sum += weight[t] = exp(weight[t] - top);
    for (int d = 0; d < l->dim_v; d++) {
        out[d] = size[d] = 0;
        for (int t = 0; t <= position; t++) {
            double term = weight[t] / sum * (double)v[(t * l->n_heads_kv + kv) * l->dim_v + d];
            out[d] += term;
            size[d] += fabs(term);
        }
    }
    free(weight);
}

/* Rounding a query to bf16 moves a score by up to 2^-9 of sum |q k| scale, which is 5 or so here; the weights' own
 * rounding is 2^-9. Otherwise sums of float32. */
static double tolerance_of(const shape *s) {
    bool narrow = s->math == KVT_MATH_FAST && (s->k_format == KVT_BF16 || s->v_format == KVT_BF16);
    return narrow ? 0.03 : 2e-5;
}

static void values_are_those_of_attention(void **state) {
    (void)state;
    for (int i = 0; i < N_SHAPES; i++) {
        const shape *s = &shapes[i];
        int n = s->n_tokens, positions[] = {0, 1, 15, 16, 255, 256, n / 2, n - 2, n - 1}, bad = 0;
        reader *r = reference_of(s, n);
        float *k = text_stored(s, KEY, n), *v = text_stored(s, VALUE, n);
        for (size_t j = 0; j < sizeof positions / sizeof *positions; j++)
            for (int head = 0; head < s->layer.n_heads_q; head++) {
                double want[80], size[80];
                const float *got = r->out[0] + positions[j] * width_out(s) + head * s->layer.dim_v;
                row_reference(s, k, v, positions[j], head, want, size);
                for (int d = 0; d < s->layer.dim_v; d++)
                    bad += !(fabs((double)got[d] - want[d]) <= tolerance_of(s) * size[d]);
            }
        if (bad) fail_msg("%s: %d values are too far from the reference", s->name, bad);
        free(k);
        free(v);
        reader_free(r);
    }
}

static void accurate_attends_as_exact(void **state) {
    (void)state;
    shape exact = shapes[0], accurate = shapes[0];
    exact.math = KVT_MATH_EXACT;
    accurate.math = KVT_MATH_ACCURATE;
    reader *a = reference_of(&exact, exact.n_tokens), *b = reference_of(&accurate, exact.n_tokens);
    assert_same(a, b, 0, exact.n_tokens, "accurate");
    reader_free(a);
    reader_free(b);
}

/* ------------------------------------------------------------------------------------------ no allocation */

/* Calls of malloc while a step runs, with `extra` called in its middle. */
static long allocations_of_a_step(kvt_cache *c, reader *r, int n, void (*extra)(void)) {
    rows x = rows_new(r->shape);
    kvt_batch batch = {1, &r->seq, &n};
    rows_fill(x, &r, &n, 1, 0);
    alloc_guard_on();
    kvt_reserve(c, &batch);
    for (int layer = 0; layer < N_LAYERS; layer++) kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out);
    extra();
    kvt_commit(c, &batch, NULL);
    long n_calls = alloc_guard_off();
    rows_free(x);
    return n_calls;
}

static void nothing(void) {}

static void allocate(void) {
    void *volatile p = malloc(1);
    free(p);
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    if (!alloc_guard_works()) skip();
    for (int i = 0; i < N_SHAPES; i++) {
        setup s = setup_of(&shapes[i]);
        s.n_threads = 2;
        kvt_cache *c = cache_of(&s);
        reader *r = reader_new(s.shape, c, 0);
        assert_int_equal(allocations_of_a_step(c, r, 1100, nothing), 0);
        assert_int_equal(allocations_of_a_step(c, r, 1, nothing), 0);
        kvt_seq other;
        kvt_seq_fork(c, r->seq, &other);
        assert_int_equal(allocations_of_a_step(c, r, 1, nothing), 0); /* copies the shared block */
        assert_int_equal(allocations_of_a_step(c, r, 1, allocate), 1);
        reader_free(r);
        kvt_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_attention),
        cmocka_unit_test(accurate_attends_as_exact),
        cmocka_unit_test(chunks_do_not_matter),
        cmocka_unit_test(blocks_and_kinds_do_not_matter),
        cmocka_unit_test(without_a_cache_each_step_computes_everything_again),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(instruction_sets_do_not_matter),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(a_fork_goes_on_like_a_run_of_its_own),
        cmocka_unit_test(a_fork_cut_short_goes_on_like_a_run_of_its_own),
        cmocka_unit_test(forgotten_tokens_leave_nothing),
        cmocka_unit_test(append_before_attend_is_the_same),
        cmocka_unit_test(the_callers_rounding_does_not_matter_and_comes_back),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
