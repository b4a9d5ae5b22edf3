/* test_parallel.c - several caches at once: each with a thread of its own and all with one log, and two that take turns
 * on one worker pool. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "reader.h"

enum { OWNERS = 4, TOKENS = 300 };

static void count_line(void *ctx, kvt_log_level level, const char *message) {
    (void)level;
    if (strstr(message, "kvt_seq_truncate")) atomic_fetch_add((atomic_int *)ctx, 1);
}

/* A cache of text 0's shape, paged. */
static kvt_cache *cache_with(const shape *s, kvt_workers *workers, atomic_int *n_lines) {
    kvt_layer layers[N_LAYERS] = {s->layer, s->layer};
    kvt_options opt = kvt_options_default();
    kvt_cache *c;
    opt.layers = layers;
    opt.n_layers = N_LAYERS;
    opt.k_format = s->k_format;
    opt.v_format = s->v_format;
    opt.math = s->math;
    opt.workers = workers;
    opt.n_threads = 2;
    opt.log = count_line;
    opt.log_ctx = n_lines;
    assert_int_equal(kvt_open(&c, &opt), KVT_OK);
    return c;
}

/* One thread's work, from kvt_open to kvt_close. */
typedef struct owner {
    const reader *reference;
    atomic_int *n_lines;
    int text;
    bool right;
    pthread_t thread;
} owner;

static bool same(const reader *a, const reader *b) {
    size_t bytes = (size_t)(TOKENS * width_out(a->shape)) * sizeof(float);
    return memcmp(a->out[0], b->out[0], bytes) == 0 && memcmp(a->out[1], b->out[1], bytes) == 0;
}

static void *own(void *ctx) {
    owner *o = ctx;
    for (int round = 0; round < 3; round++) {
        kvt_cache *c = cache_with(o->reference->shape, NULL, o->n_lines);
        reader *r = reader_new(o->reference->shape, c, o->text);
        feed_in_chunks(c, r, TOKENS, 37 + round);
        o->right = o->right && same(o->reference, r) && kvt_seq_truncate(c, r->seq, TOKENS + 1) == KVT_E_ARGUMENT;
        reader_free(r);
        kvt_close(c);
    }
    return NULL;
}

static void a_cache_per_thread(void **state) {
    (void)state;
    atomic_int n_lines = 0;
    reader *reference = reference_of(&shapes[0], TOKENS);
    owner owners[OWNERS];
    for (int i = 0; i < OWNERS; i++) {
        owners[i] = (owner){reference, &n_lines, 0, true, 0};
        assert_int_equal(pthread_create(&owners[i].thread, NULL, own, &owners[i]), 0);
    }
    for (int i = 0; i < OWNERS; i++) pthread_join(owners[i].thread, NULL);
    for (int i = 0; i < OWNERS; i++) assert_true(owners[i].right);
    assert_int_equal(n_lines, 3 * OWNERS);
    reader_free(reference);
}

/* Steps of both are open at the same time; what runs on the pool does so by turns. */
static void two_caches_on_one_pool(void **state) {
    (void)state;
    atomic_int n_lines = 0;
    kvt_workers *team;
    assert_int_equal(kvt_workers_open(&team, 3), KVT_OK);
    kvt_cache *c[2];
    reader *r[2], *reference[2];
    rows x[2];
    for (int i = 0; i < 2; i++) {
        c[i] = cache_with(&shapes[i], team, &n_lines);
        r[i] = reader_new(&shapes[i], c[i], 0);
        reference[i] = reference_of(&shapes[i], TOKENS);
        x[i] = rows_new(&shapes[i]);
    }
    for (int n = 50; r[0]->n_done < TOKENS;) {
        kvt_batch batch[2] = {{1, &r[0]->seq, &n}, {1, &r[1]->seq, &n}};
        for (int i = 0; i < 2; i++) assert_int_equal(kvt_reserve(c[i], &batch[i]), KVT_OK);
        for (int layer = 0; layer < N_LAYERS; layer++)
            for (int i = 0; i < 2; i++) {
                rows_fill(x[i], &r[i], &n, 1, layer);
                assert_int_equal(kvt_attend(c[i], layer, &batch[i], x[i].q, x[i].k, x[i].v, x[i].out), KVT_OK);
                rows_keep(x[i], &r[i], &n, 1, layer);
            }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(kvt_commit(c[i], &batch[i], NULL), KVT_OK);
            r[i]->n_done += n;
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_true(same(reference[i], r[i]));
        kvt_close(c[i]);
        reader_free(r[i]);
        reader_free(reference[i]);
        rows_free(x[i]);
    }
    kvt_workers_close(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cache_per_thread),
        cmocka_unit_test(two_caches_on_one_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
