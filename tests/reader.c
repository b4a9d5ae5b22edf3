/* reader.c - see reader.h. */
#include "reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

const shape shapes[N_SHAPES] = {
    {"3 heads per key head, 64 dims, bf16", {.n_heads_q = 9, .n_heads_kv = 3, .dim_k = 64, .dim_v = 64},
     KVT_BF16, KVT_BF16, KVT_MATH_FAST, 1100},
    {"1 head per key head, 80 dims, f16", {.n_heads_q = 2, .n_heads_kv = 2, .dim_k = 80, .dim_v = 80},
     KVT_F16, KVT_F16, KVT_MATH_FAST, 1300},
    {"8 heads per key head, 40 and 17 dims, f32", {.n_heads_q = 8, .n_heads_kv = 1, .dim_k = 40, .dim_v = 17},
     KVT_F32, KVT_F32, KVT_MATH_FAST, 1050},
    {"32 heads on one, 64 dims, bf16 keys and f16 values", {.n_heads_q = 32, .n_heads_kv = 1, .dim_k = 64, .dim_v = 64},
     KVT_BF16, KVT_F16, KVT_MATH_FAST, 400},
    {"2 heads on one, 17 and 40 dims, bf16, exact, scaled",
     {.n_heads_q = 2, .n_heads_kv = 1, .dim_k = 17, .dim_v = 40, .scale = 0.3f},
     KVT_BF16, KVT_BF16, KVT_MATH_EXACT, 2100},
};

setup setup_of(const shape *s) {
    return (setup){.shape = s, .kind = KVT_PAGED, .block_tokens = 32, .n_threads = 1, .hot_tokens = 1};
}

kvt_cache *cache_of(const setup *s) {
    kvt_layer layers[N_LAYERS] = {s->shape->layer, s->shape->layer};
    kvt_options opt = kvt_options_default();
    kvt_cache *c;
    opt.layers = layers;
    opt.n_layers = N_LAYERS;
    opt.kind = s->kind;
    opt.k_format = s->shape->k_format;
    opt.v_format = s->shape->v_format;
    opt.math = s->shape->math;
    opt.block_tokens = s->block_tokens;
    opt.sequences_max = READERS_MAX + 1;
    opt.tokens_max = ROWS_MAX;
    opt.batch_tokens_max = ROWS_MAX;
    opt.n_threads = s->n_threads;
    opt.hot_tokens = s->hot_tokens;
    cache_check check = {s->cpu ? kernels_of(s->cpu) : NULL, true, s->seal};
    assert_int_equal(cache_open(&c, &opt, &check), KVT_OK);
    return c;
}

/* ---------------------------------------------------------------------------------------------- texts */

/* n numbers between -2 and 2; queries are larger, so that the softmax has something to choose. */
void text_fill(int text, int layer, int position, int what, float *x, int n) {
    uint64_t seed = ((((uint64_t)text * 64 + (uint64_t)layer) << 32) + (uint64_t)position) * 4 + (uint64_t)what;
    for (int i = 0; i < n; i++) x[i] = (float)random_between(&seed, -2, 2) * (what == QUERY ? 1.5f : 1);
}

int width_of(const shape *s, int what) {
    const kvt_layer *l = &s->layer;
    return what == QUERY ? l->n_heads_q * l->dim_k : l->n_heads_kv * (what == KEY ? l->dim_k : l->dim_v);
}

int width_out(const shape *s) {
    return s->layer.n_heads_q * s->layer.dim_v;
}

/* --------------------------------------------------------------------------------------------- readers */

reader *reader_new(const shape *s, kvt_cache *c, int text) {
    reader *r = calloc(1, sizeof *r);
    *r = (reader){.shape = s, .text = text};
    for (int i = 0; i < N_LAYERS; i++) r->out[i] = calloc((size_t)(ROWS_MAX * width_out(s)), sizeof(float));
    assert_int_equal(kvt_seq_new(c, &r->seq), KVT_OK);
    return r;
}

void reader_free(reader *r) {
    for (int i = 0; i < N_LAYERS; i++) free(r->out[i]);
    free(r);
}

rows rows_new(const shape *s) {
    rows r;
    float **at[] = {&r.q, &r.k, &r.v};
    for (int i = 0; i < 3; i++) *at[i] = malloc((size_t)(ROWS_MAX * width_of(s, i)) * sizeof(float));
    r.out = malloc((size_t)(ROWS_MAX * width_out(s)) * sizeof(float));
    return r;
}

void rows_free(rows r) {
    free(r.q);
    free(r.k);
    free(r.v);
    free(r.out);
}

void rows_fill(rows to, reader *const *readers, const int *n_new, int n, int layer) {
    int row = 0;
    for (int i = 0; i < n; i++)
        for (int t = 0; t < n_new[i]; t++, row++) {
            const reader *r = readers[i];
            int nq = width_of(r->shape, QUERY), nk = width_of(r->shape, KEY), nv = width_of(r->shape, VALUE);
            text_fill(r->text, layer, r->n_done + t, QUERY, to.q + row * nq, nq);
            text_fill(r->text, layer, r->n_done + t, KEY, to.k + row * nk, nk);
            text_fill(r->text, layer, r->n_done + t, VALUE, to.v + row * nv, nv);
        }
}

void rows_keep(rows from, reader *const *readers, const int *n_new, int n, int layer) {
    const float *out = from.out;
    for (int i = 0; i < n; i++) {
        int width = width_out(readers[i]->shape), n_values = n_new[i] * width;
        memcpy(readers[i]->out[layer] + readers[i]->n_done * width, out, (size_t)n_values * sizeof *out);
        out += n_values;
    }
}

void feed(kvt_cache *c, reader *const *readers, const int *n_new, int n) {
    kvt_seq ids[READERS_MAX];
    for (int i = 0; i < n; i++) ids[i] = readers[i]->seq;
    kvt_batch batch = {n, ids, n_new};
    rows r = rows_new(readers[0]->shape);
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(r, readers, n_new, n, layer);
        assert_int_equal(kvt_attend(c, layer, &batch, r.q, r.k, r.v, r.out), KVT_OK);
        rows_keep(r, readers, n_new, n, layer);
    }
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    for (int i = 0; i < n; i++) readers[i]->n_done += n_new[i];
    rows_free(r);
}

void feed_one(kvt_cache *c, reader *r, int n_new) {
    feed(c, &r, &n_new, 1);
}

void feed_in_chunks(kvt_cache *c, reader *r, int n_tokens, int chunk) {
    while (r->n_done < n_tokens) feed_one(c, r, n_tokens - r->n_done < chunk ? n_tokens - r->n_done : chunk);
}

reader *reference_of(const shape *s, int n_tokens) {
    setup plain = setup_of(s);
    kvt_cache *c = cache_of(&plain);
    reader *r = reader_new(s, c, 0);
    feed_one(c, r, n_tokens);
    kvt_close(c);
    return r;
}

void assert_same(const reader *a, const reader *b, int first, int end, const char *how) {
    assert_true(first <= end);
    size_t width = (size_t)width_out(a->shape), from = (size_t)first * width, n = (size_t)(end - first) * width;
    for (int layer = 0; layer < N_LAYERS; layer++)
        if (memcmp(a->out[layer] + from, b->out[layer] + from, n * sizeof(float)))
            fail_msg("%s: %s: layer %d differs", a->shape->name, how, layer);
}
