/* test_sealed_attend.c - attention over a cache of encoded formats: for every pair of them the same bits whatever the
 * steps, threads, company, kind of cache and instruction set; hot blocks as without an encoded format; and how far from
 * exact keys and values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "random.h"
#include "reader.h"

enum { LONG = 1120 };

static shape shape_of(int k, int v, kvt_math math) {
    return (shape){"4 heads on two, 24 and 48 dims", {.n_heads_q = 4, .n_heads_kv = 2, .dim_k = 24, .dim_v = 48},
                   (kvt_format)k, (kvt_format)v, math, 150};
}

static bool seals(const shape *s) {
    return s->k_format > KVT_F32 || s->v_format > KVT_F32;
}

static const char *name_of(const shape *s, const char *how) {
    static char name[80];
    snprintf(name, sizeof name, "%s, %s, math %d: %s", kvt_format_name(s->k_format), kvt_format_name(s->v_format),
             (int)s->math, how);
    return name;
}

/* --------------------------------------------------------------------------------------------- the same bits */

static void assert_setup(const reader *reference, const setup *s, int n_tokens, int chunk, const char *how) {
    kvt_cache *c = cache_of(s);
    reader *r = reader_new(s->shape, c, 0);
    feed_in_chunks(c, r, n_tokens, chunk);
    assert_same(reference, r, 0, n_tokens, name_of(s->shape, how));
    assert_int_equal(kvt_check(c), KVT_OK);
    reader_free(r);
    kvt_close(c);
}

/* Text 0, in a fork, beside two others; before each step one of another text that comes to nothing. */
static void assert_company(const reader *reference, const setup *s, int n_tokens) {
    kvt_cache *c = cache_of(s);
    reader *r[3];
    for (int i = 0; i < 3; i++) r[i] = reader_new(s->shape, c, i);
    feed_one(c, r[0], 40);
    kvt_seq_free(c, r[1]->seq);
    assert_int_equal(kvt_seq_fork(c, r[0]->seq, &r[1]->seq), KVT_OK);
    r[1]->n_done = 40;
    while (r[0]->n_done < n_tokens) {
        int n_new[] = {r[0]->n_done + 9 < n_tokens ? 9 : n_tokens - r[0]->n_done, 3, 1}, n = 30;
        rows x = rows_new(s->shape);
        kvt_batch vain = {1, &r[0]->seq, &n};
        assert_int_equal(kvt_reserve(c, &vain), KVT_OK);
        for (int layer = 0; layer < N_LAYERS; layer++) {
            rows_fill(x, &r[2], &n, 1, layer);
            assert_int_equal(kvt_attend(c, layer, &vain, x.q, x.k, x.v, x.out), KVT_OK);
        }
        assert_int_equal(kvt_abort(c, &vain), KVT_OK);
        rows_free(x);
        feed(c, r, n_new, 3);
    }
    assert_same(reference, r[0], 0, n_tokens, name_of(s->shape, "company and aborts"));
    for (int i = 0; i < 3; i++) reader_free(r[i]);
    kvt_close(c);
}

static void assert_none(const reader *reference, const setup *s) {
    setup none = *s;
    none.kind = KVT_NONE;
    kvt_cache *c = cache_of(&none);
    reader *r = reader_new(s->shape, c, 0);
    for (int n = 70; n <= 140; n += 35) {
        r->n_done = 0;
        feed_one(c, r, n);
        assert_same(reference, r, 0, n, name_of(s->shape, "none"));
    }
    reader_free(r);
    kvt_close(c);
}

static void every_pair_of_formats_is_the_same_everywhere(void **state) {
    static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};
    (void)state;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS; i += fixture_quick() ? 7 : 1) {
        shape s = shape_of(i / N_KV_FORMATS, i % N_KV_FORMATS, (kvt_math)(i % 2));
        if (!seals(&s)) continue;
        setup set = setup_of(&s);
        reader *reference = reference_of(&s, s.n_tokens);
        assert_setup(reference, &set, s.n_tokens, 1, "token by token");
        set.n_threads = 2 + i % 3;
        assert_setup(reference, &set, s.n_tokens, 40, "steps of 40");
        assert_company(reference, &set, s.n_tokens);
        set.kind = KVT_CONTIGUOUS;
        assert_setup(reference, &set, s.n_tokens, 23, "contiguous");
        assert_none(reference, &set);
        set.kind = KVT_PAGED;
        set.n_threads = 1;
        for (int j = 0; j < 4; j++) {
            if (!kernels_of(cpus[j])) continue;
            set.cpu = cpus[j];
            /* Steps of 3: rows of both heads in one call, and some of those steps lie in two blocks. */
            assert_setup(reference, &set, s.n_tokens, j % 2 ? 3 : 35, cpus[j]);
        }
        reader_free(reference);
    }
}

/* Several segments, cut for threads and shared by sequences; other blocks, more hot tokens. */
static void long_texts_too(void **state) {
    static const int pairs[][2] = {{KVT_INT8, KVT_INT4}, {KVT_E4M3, KVT_E5M2}, {KVT_INT3, KVT_INT2},
                                   {KVT_BF16, KVT_INT4}, {KVT_INT4, KVT_F16},  {KVT_E4M3, KVT_INT8}};
    (void)state;
    for (int i = 0; i < (fixture_quick() ? 2 : 6); i++) {
        shape s = shape_of(pairs[i][0], pairs[i][1], KVT_MATH_FAST);
        setup set = setup_of(&s);
        set.block_tokens = 16 << i % 3;
        set.hot_tokens = i % 2 ? 70 : 0;
        kvt_cache *c = cache_of(&set);
        reader *one = reader_new(&s, c, 0), *r[3];
        int from[3] = {0};
        feed_one(c, one, LONG);
        kvt_close(c);
        for (set.n_threads = 1; set.n_threads <= 3; set.n_threads++) {
            c = cache_of(&set);
            for (int j = 0; j < 3; j++) r[j] = reader_new(&s, c, 0);
            feed_in_chunks(c, r[0], 1090, 200);
            for (int j = 1; j < 3; j++) {
                kvt_seq_free(c, r[j]->seq);
                assert_int_equal(kvt_seq_fork(c, r[0]->seq, &r[j]->seq), KVT_OK);
                assert_int_equal(kvt_seq_truncate(c, r[j]->seq, 1024 + 20 * j), KVT_OK);
                from[j] = r[j]->n_done = kvt_seq_length(c, r[j]->seq);
            }
            while (r[0]->n_done < LONG) feed(c, r, (const int[]){1, 1, 2}, 3);
            assert_same(one, r[0], 0, LONG, name_of(&s, "long"));
            for (int j = 1; j < 3; j++) assert_same(one, r[j], from[j], r[j]->n_done, name_of(&s, "branch"));
            for (int j = 0; j < 3; j++) reader_free(r[j]);
            kvt_close(c);
        }
        reader_free(one);
    }
}

/* ------------------------------------------------------------------------------------------- the right values */

/* Root of the mean square of the difference of tokens first .. end - 1, against that of the values. */
static double apart(const reader *a, const reader *b, int first, int end) {
    const int width = width_out(a->shape);
    double lost = 0, all = 0;
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int i = first * width; i < end * width; i++) {
            double x = (double)a->out[layer][i], y = (double)b->out[layer][i];
            lost += (x - y) * (x - y);
            all += y * y;
        }
    return sqrt(lost / all);
}

/* The block a token is in and the first ones are as in a cache of the hot formats: floats of 8 bits to the bit, codes
 * but for the rounding of numbers that are rotated. */
static void the_first_tokens_are_not_encoded(void **state) {
    (void)state;
    for (int format = KVT_E4M3; format < N_KV_FORMATS; format++) {
        shape sealed = shape_of(format, format, KVT_MATH_FAST), plain = sealed;
        bool codes = format >= KVT_INT8;
        plain.k_format = codes ? KVT_F32 : KVT_BF16;
        plain.v_format = KVT_BF16;
        reader *a = reference_of(&sealed, 100), *b = reference_of(&plain, 100);
        if (!codes) assert_same(a, b, 0, 64, "hot"); /* 0 .. 31 are hot for ever, 32 .. 63 for those in that block */
        else if (!(apart(a, b, 0, 64) < 3e-3)) fail_msg("%s: %g", name_of(&sealed, "hot"), apart(a, b, 0, 64));
        assert_true(apart(a, b, 64, 100) > 1e-3);
        reader_free(a);
        reader_free(b);
    }
}

static void what_is_lost_falls_with_the_bits(void **state) {
    static const struct {
        int k, v;
        double most;
    } pairs[] = {{KVT_INT8, KVT_INT8, 0.02}, {KVT_E4M3, KVT_E4M3, 0.06}, {KVT_INT8, KVT_INT4, 0.12},
                 {KVT_INT4, KVT_INT4, 0.25}, {KVT_INT3, KVT_INT3, 0.5},  {KVT_INT2, KVT_INT2, 1}};
    float balance[2 * 24];
    (void)state;
    for (int i = 0; i < 2 * 24; i++) balance[i] = 0.25f * (float)(1 + i % 7);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int balanced = 0; balanced < 2; balanced++) {
            shape s = shape_of(pairs[i].k, pairs[i].v, KVT_MATH_EXACT), exact = s;
            exact.k_format = exact.v_format = KVT_F32;
            if (balanced) s.layer.k_balance = balance;
            reader *a = reference_of(&s, 400), *b = reference_of(&exact, 400);
            double lost = apart(a, b, 200, 400);
            if (!(lost < pairs[i].most * (balanced ? 2 : 1)) || !(lost > 1e-4))
                fail_msg("%s: %g", name_of(&s, "lost"), lost);
            reader_free(a);
            reader_free(b);
        }
}

static void extreme_numbers_give_finite_results(void **state) {
    static const float sizes[] = {0, 1e-40f, 1e-30f, 1e30f};
    (void)state;
    for (int format = KVT_E4M3; format < N_KV_FORMATS; format++)
        for (int i = 0; i < 4; i++)
            for (int what = 0; what < 3; what++) { /* constant; one huge channel; random */
                shape s = shape_of(format, format, KVT_MATH_FAST);
                setup set = setup_of(&s);
                kvt_cache *c = cache_of(&set);
                kvt_seq id;
                int n = 100;
                static float q[100 * 4 * 24], k[100 * 2 * 24], v[100 * 2 * 48], out[100 * 4 * 48];
                uint64_t seed = 5;
                for (int j = 0; j < 100 * 2 * 48; j++)
                    v[j] = what == 0 ? sizes[i] : what == 1 ? (j % 48 == 3 ? sizes[i] : 1e-3f)
                                                            : sizes[i] * (float)random_between(&seed, -1, 1);
                memcpy(k, v, sizeof k);
                /* scores stay where a rounding of one of them is no power of e, whatever the format */
                for (int j = 0; j < 100 * 4 * 24; j++)
                    q[j] = (float)random_between(&seed, -1, 1) / (sizes[i] > 1 ? sizes[i] : 1);
                assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
                kvt_batch batch = {1, &id, &n};
                assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
                for (int layer = 0; layer < N_LAYERS; layer++) {
                    assert_int_equal(kvt_attend(c, layer, &batch, q, k, v, out), KVT_OK);
                    for (int j = 0; j < 100 * 4 * 48; j++)
                        if (!isfinite(out[j]))
                            fail_msg("%s: %d of size %g, row %d: %g", name_of(&s, "extreme"), what, (double)sizes[i],
                                     j / (4 * 48), (double)out[j]);
                }
                assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
                kvt_close(c);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_formats_is_the_same_everywhere),
        cmocka_unit_test(long_texts_too),
        cmocka_unit_test(the_first_tokens_are_not_encoded),
        cmocka_unit_test(what_is_lost_falls_with_the_bits),
        cmocka_unit_test(extreme_numbers_give_finite_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
