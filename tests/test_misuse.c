/* test_misuse.c - calls as they should not be made, and caches at the ends of their ranges: a status, never a crash,
 * and what is there stays as it is. The options that kvt_open refuses are in test_layer.c, the order of a step in
 * test_seq.c. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "toy.h"

/* ------------------------------------------------------------------------------------------------- NULL */

static void no_cache_is_an_argument(void **state) {
    kvt_seq id = 1;
    int n = 1;
    kvt_batch batch = {1, &id, &n};
    kvt_stats stats;
    int32_t token;
    float x = 0;
    (void)state;
    assert_int_equal(kvt_seq_new(NULL, &id), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_fork(NULL, id, &id), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_truncate(NULL, id, 0), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_free(NULL, id), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_length(NULL, id), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(NULL, id, 0, 1, &token), KVT_E_ARGUMENT);
    assert_int_equal(kvt_reserve(NULL, &batch), KVT_E_ARGUMENT);
    assert_int_equal(kvt_append(NULL, 0, &batch, &x, &x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_attend(NULL, 0, &batch, &x, &x, &x, &x), KVT_E_ARGUMENT);
    assert_int_equal(kvt_commit(NULL, &batch, &token), KVT_E_ARGUMENT);
    assert_int_equal(kvt_abort(NULL, &batch), KVT_E_ARGUMENT);
    assert_int_equal(kvt_stats_get(NULL, &stats), KVT_E_ARGUMENT);
    assert_int_equal(kvt_check(NULL), KVT_E_ARGUMENT);
    kvt_close(NULL);
}

static void no_place_for_a_result_is_an_argument(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq id;
    kvt_matrix *w;
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    assert_int_equal(kvt_seq_new(c, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_fork(c, id, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_stats_get(c, NULL), KVT_E_ARGUMENT);
    assert_int_equal(toy_add(c, id, 0, 3), KVT_OK);
    assert_int_equal(kvt_seq_tokens(c, id, 0, 1, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_tokens(c, id, 0, 0, NULL), KVT_OK);
    assert_int_equal(kvt_bytes(NULL, &(kvt_bytes_info){0}), KVT_E_ARGUMENT);
    assert_int_equal(kvt_format_parse(NULL, "bf16"), KVT_E_ARGUMENT);
    assert_int_equal(kvt_workers_open(NULL, 1), KVT_E_ARGUMENT);
    assert_int_equal(kvt_matrix_pack(NULL, &(kvt_matrix_source){0}, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_matrix_pack(&w, NULL, NULL), KVT_E_ARGUMENT);
    assert_null(w);
    assert_int_equal(kvt_input_new(NULL, 1, 16, KVT_MATH_FAST), KVT_E_ARGUMENT);
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_close(c);
}

static void what_may_be_null_may_be(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq id;
    int32_t token;
    static float x[TOY_VALUES_MAX];
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    kvt_batch batch = {1, &id, (const int[]){1}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int i = 0; i < TOY_LAYERS; i++) assert_int_equal(kvt_append(c, i, &batch, x, x), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    assert_int_equal(kvt_seq_tokens(c, id, 0, 1, &token), KVT_OK);
    assert_int_equal(token, -1);
    assert_int_equal(kvt_seq_free(c, KVT_SEQ_NONE), KVT_OK);
    kvt_workers_close(NULL);
    kvt_matrix_free(NULL);
    kvt_input_free(NULL);
    kvt_close(c);
}

/* ----------------------------------------------------------------------------------------------- handles */

static void a_handle_that_was_never_given_is_refused(void **state) {
    (void)state;
    kvt_options opt = toy_options();
    kvt_cache *c = toy_open(&opt);
    kvt_seq id, out = 77;
    uint64_t seed = 3;
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    assert_int_equal(toy_add(c, id, 0, 20), KVT_OK);
    for (int i = 0; i < 20000; i++) {
        kvt_seq wrong = i < 64 ? id ^ (kvt_seq)1 << i : i < 128 ? (kvt_seq)1 << (i - 64) : random_bits(&seed);
        if (wrong == id || wrong == KVT_SEQ_NONE) continue;
        kvt_batch batch = {1, &wrong, (const int[]){1}};
        assert_int_equal(kvt_seq_length(c, wrong), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_fork(c, wrong, &out), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_truncate(c, wrong, 0), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_free(c, wrong), KVT_E_SEQUENCE);
        assert_int_equal(kvt_seq_tokens(c, wrong, 0, 0, NULL), KVT_E_SEQUENCE);
        assert_int_equal(kvt_reserve(c, &batch), KVT_E_SEQUENCE);
    }
    assert_int_equal(kvt_seq_length(c, KVT_SEQ_NONE), KVT_E_SEQUENCE);
    assert_int_equal(out, 77);
    assert_true(toy_holds(c, id, 0, 20));
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_close(c);
}

/* ---------------------------------------------------------------------------------------- ends of ranges */

/* The longest step that is allowed, then one token at a time to the end; all values are 1, and so is their mean. */
static void assert_works(const kvt_options *opt) {
    kvt_cache *c = toy_open(opt);
    int most = opt->batch_tokens_max < opt->tokens_max ? opt->batch_tokens_max : opt->tokens_max;
    size_t width_q = 0, width_kv = 0;
    for (int i = 0; i < opt->n_layers; i++) {
        const kvt_layer *l = &opt->layers[i];
        int dim = l->dim_k > l->dim_v ? l->dim_k : l->dim_v;
        if (width_q < (size_t)(l->n_heads_q * dim)) width_q = (size_t)(l->n_heads_q * dim);
        if (width_kv < (size_t)(l->n_heads_kv * dim)) width_kv = (size_t)(l->n_heads_kv * dim);
    }
    float *q = calloc((size_t)most * width_q, sizeof *q), *out = calloc((size_t)most * width_q, sizeof *q);
    float *kv = calloc((size_t)most * width_kv, sizeof *kv);
    for (size_t i = 0; i < (size_t)most * width_kv; i++) kv[i] = 1;
    kvt_seq id;
    int n = most, length = 0;
    kvt_batch batch = {1, &id, &n};
    assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
    for (; length < opt->tokens_max && length < 80; length += n, n = 1) {
        assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
        for (int i = 0; i < opt->n_layers; i++) {
            assert_int_equal(kvt_attend(c, i, &batch, q, kv, kv, out), KVT_OK);
            int n_out = n * opt->layers[i].n_heads_q * opt->layers[i].dim_v;
            for (int j = 0; j < n_out; j++) assert_true(fabsf(out[j] - 1) < 1e-6f);
        }
        assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    }
    assert_int_equal(kvt_seq_length(c, id), length);
    if (length == opt->tokens_max) assert_int_equal(kvt_reserve(c, &batch), KVT_E_LIMIT);
    assert_int_equal(kvt_check(c), KVT_OK);
    free(q);
    free(kv);
    free(out);
    kvt_close(c);
}

static void the_smallest_cache_works(void **state) {
    (void)state;
    kvt_layer layer = {.n_heads_q = 1, .n_heads_kv = 1, .dim_k = 1, .dim_v = 1};
    for (int kind = KVT_PAGED; kind <= KVT_CONTIGUOUS; kind++)
        for (int block = 16; block <= 64; block *= 2)
            for (int tokens = 1; tokens <= 65; tokens += 16) {
                kvt_options opt = toy_options();
                opt.layers = &layer;
                opt.n_layers = 1;
                opt.kind = (kvt_cache_kind)kind;
                opt.block_tokens = block;
                opt.sequences_max = 1;
                opt.tokens_max = tokens;
                opt.batch_tokens_max = 1;
                opt.bytes_max = (size_t)(tokens + block - 1) / (size_t)block * (size_t)block * 2 * 16 * 2;
                assert_works(&opt);
                opt.batch_tokens_max = INT_MAX >> 11; /* 2^20 - 1 */
                assert_works(&opt);
            }
}

/* Layers that have nothing in common in one cache, each at an end of its ranges. */
static void layers_of_every_shape_live_together(void **state) {
    static const kvt_layer layers[] = {
        {.n_heads_q = 1, .n_heads_kv = 1, .dim_k = 1, .dim_v = 512},
        {.n_heads_q = 1024, .n_heads_kv = 1, .dim_k = 17, .dim_v = 1},
        {.n_heads_q = 1024, .n_heads_kv = 1024, .dim_k = 16, .dim_v = 16},
        {.n_heads_q = 3, .n_heads_kv = 3, .dim_k = 512, .dim_v = 17},
        {.n_heads_q = 34, .n_heads_kv = 2, .dim_k = 33, .dim_v = 31, .scale = 1},
    };
    (void)state;
    for (int format = KVT_BF16; format <= KVT_F32; format++)
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            kvt_options opt = toy_options();
            opt.layers = layers;
            opt.n_layers = sizeof layers / sizeof *layers;
            opt.k_format = (kvt_format)format;
            opt.v_format = (kvt_format)(2 - format);
            opt.n_threads = n_threads;
            opt.batch_tokens_max = 37;
            assert_works(&opt);
        }
}

/* The largest and the least factor: a softmax that picks, and one that is a mean. */
static void factors_reach_to_their_ends(void **state) {
    static const float scales[] = {FLT_MIN, 0x1p127f, -0.f};
    (void)state;
    for (int i = 0; i < 3; i++) {
        kvt_layer layer = {.n_heads_q = 2, .n_heads_kv = 1, .dim_k = 8, .dim_v = 8, .scale = scales[i]};
        kvt_options opt = toy_options();
        opt.layers = &layer;
        opt.n_layers = 1;
        assert_works(&opt);
    }
}

/* As many sequences as there can be, each with a token, in steps of many; then all of them forked into nothing. */
static void sequences_reach_to_their_end(void **state) {
    enum { MOST = 65535, STEP = 5000 };
    static kvt_seq ids[MOST];
    static int ones[STEP];
    static float kv[STEP];
    (void)state;
    kvt_layer layer = {.n_heads_q = 1, .n_heads_kv = 1, .dim_k = 1, .dim_v = 1};
    kvt_options opt = toy_options();
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.sequences_max = MOST;
    opt.tokens_max = 16;
    opt.batch_tokens_max = STEP;
    kvt_cache *c = toy_open(&opt);
    kvt_seq out;
    for (int i = 0; i < STEP; i++) ones[i] = 1;
    for (int i = 0; i < MOST; i++) assert_int_equal(kvt_seq_new(c, &ids[i]), KVT_OK);
    assert_int_equal(kvt_seq_new(c, &out), KVT_FULL);
    for (int i = 0; i < MOST; i += STEP) {
        kvt_batch batch = {MOST - i < STEP ? MOST - i : STEP, ids + i, ones};
        assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
        assert_int_equal(kvt_append(c, 0, &batch, kv, kv), KVT_OK);
        assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    }
    kvt_batch all = {MOST, ids, (int *)calloc(MOST, sizeof(int))};
    for (int i = 0; i < MOST; i++) ((int *)all.n_new)[i] = 1;
    assert_int_equal(kvt_reserve(c, &all), KVT_E_LIMIT);
    assert_int_equal(kvt_check(c), KVT_OK);
    for (int i = 0; i < MOST; i++) assert_int_equal(kvt_seq_free(c, ids[i]), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    free((int *)all.n_new);
    kvt_close(c);
}

/* ------------------------------------------------------------------------------------------- calls at random */

/* Any call with any argument, good or bad, in any order: records stay in order, statuses are known ones. */
static void nothing_is_broken_by_calls_at_random(void **state) {
    static float x[40 * TOY_VALUES_MAX], y[40 * TOY_VALUES_MAX];
    static const int odd[] = {0, -1, INT_MIN, INT_MAX, 1 << 30};
    uint64_t seed = 11;
    (void)state;
    for (int way = 0; way < 2 * (KVT_NONE + 1); way++) {
        kvt_options opt = toy_options();
        opt.kind = (kvt_cache_kind)(way / 2);
        opt.batch_tokens_max = 40;
        kvt_cache *c = way % 2 ? toy_open_sealing(&opt) : toy_open(&opt);
        kvt_seq ids[8] = {0};
        kvt_seq in[2][3];
        int n_new[2][3], now = 0; /* the batch of the open step stays, but for calls that come with another */
        kvt_batch batches[2] = {{0, in[0], n_new[0]}, {0, in[1], n_new[1]}};
        for (int round = 0; round < 120000; round++) {
            kvt_seq *id = &ids[random_below(&seed, 8)];
            int n = random_below(&seed, 9) ? (int)random_below(&seed, 20) : odd[random_below(&seed, 5)];
            int layer = random_below(&seed, 9) ? (int)random_below(&seed, TOY_LAYERS) : n;
            float *k = random_below(&seed, 9) ? x : NULL, *v = random_below(&seed, 9) ? x : NULL;
            kvt_batch *next = &batches[!now], batch = batches[random_below(&seed, 20) ? now : !now];
            kvt_status status = KVT_OK;
            switch (random_below(&seed, 14)) {
            case 0: status = kvt_seq_new(c, id); break;
            case 1: status = kvt_seq_fork(c, *id, &ids[random_below(&seed, 8)]); break;
            case 2: status = kvt_seq_truncate(c, *id, n); break;
            case 3: status = kvt_seq_free(c, *id); break;
            case 4:
            case 5:
                next->n_seqs = 1 + (int)random_below(&seed, 3);
                for (int i = 0; i < next->n_seqs; i++) {
                    in[!now][i] = ids[random_below(&seed, 8)];
                    n_new[!now][i] = random_below(&seed, 9) ? 1 + (int)random_below(&seed, 15) : n;
                }
                status = kvt_reserve(c, next);
                if (status == KVT_OK) now = !now;
                break;
            case 6: status = kvt_append(c, layer, &batch, k, v); break;
            case 7:
            case 8: status = kvt_attend(c, layer, &batch, x, k, v, y); break;
            case 9:
            case 10: status = kvt_commit(c, &batch, NULL); break;
            case 11: status = kvt_abort(c, &batch); break;
            case 12: status = kvt_seq_tokens(c, *id, n, 3, (int32_t[3]){0}); break;
            default: status = kvt_stats_get(c, &(kvt_stats){0});
            }
            assert_in_range(status + 10, KVT_E_UNSUPPORTED + 10, KVT_FULL + 10);
            assert_true(status != KVT_E_CORRUPT && status != KVT_E_MEMORY);
            if (round % 8 == 0) assert_int_equal(kvt_check(c), KVT_OK);
        }
        kvt_stats stats;
        assert_int_equal(kvt_stats_get(c, &stats), KVT_OK);
        assert_true(stats.n_commits > 100 && stats.n_aborts > 300);
        kvt_close(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_cache_is_an_argument),
        cmocka_unit_test(no_place_for_a_result_is_an_argument),
        cmocka_unit_test(what_may_be_null_may_be),
        cmocka_unit_test(a_handle_that_was_never_given_is_refused),
        cmocka_unit_test(the_smallest_cache_works),
        cmocka_unit_test(layers_of_every_shape_live_together),
        cmocka_unit_test(factors_reach_to_their_ends),
        cmocka_unit_test(sequences_reach_to_their_end),
        cmocka_unit_test(nothing_is_broken_by_calls_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
