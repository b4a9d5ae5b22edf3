/* forward.c - see forward.h. */
#include "forward.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

enum { WIDTH = FORWARD_WIDTH, HEADS_MAX = 64 /* numbers of all heads of a layer */, PARTS_MAX = 8 };

static const kvt_layer layers[FORWARD_LAYERS] = {
    {.n_heads_q = 2, .n_heads_kv = 2, .dim_k = 16, .dim_v = 16},
    {.n_heads_q = 2, .n_heads_kv = 1, .dim_k = 24, .dim_v = 8},
    {.n_heads_q = 4, .n_heads_kv = 2, .dim_k = 16, .dim_v = 16},
};

/* Matrices of a layer: [outputs][WIDTH], the last one [WIDTH][outputs of attention]. */
typedef struct weights {
    float q[HEADS_MAX * WIDTH], k[HEADS_MAX * WIDTH], v[HEADS_MAX * WIDTH], o[WIDTH * HEADS_MAX];
} weights;

kvt_options forward_options(void) {
    kvt_options opt = kvt_options_default();
    opt.layers = layers;
    opt.n_layers = FORWARD_LAYERS;
    opt.sequences_max = 6;
    opt.tokens_max = FORWARD_ROWS_MAX;
    opt.batch_tokens_max = FORWARD_ROWS_MAX;
    opt.n_threads = 1;
    return opt;
}

void forward_blocks(kvt_options *opt, int n_blocks) {
    kvt_bytes_info info = {0};
    opt->bytes_max = 1;
    kvt_bytes(opt, &info);
    opt->bytes_max = info.bytes_hot;
    while (info.n_blocks != (size_t)n_blocks) {
        opt->bytes_max += info.bytes_per_block;
        kvt_bytes(opt, &info);
        assert_true(info.n_blocks <= (size_t)n_blocks);
    }
}

static void fill(float *x, size_t n, uint64_t seed, double size) {
    for (size_t i = 0; i < n; i++) x[i] = (float)random_between(&seed, -size, size);
}

static const weights *weights_of(int layer) {
    static weights w[FORWARD_LAYERS];
    static bool made;
    for (int i = 0; i < FORWARD_LAYERS && !made; i++) {
        uint64_t seed = 100 * (uint64_t)i;
        fill(w[i].q, HEADS_MAX * WIDTH, seed + 1, 0.9); /* the softmax has something to choose */
        fill(w[i].k, HEADS_MAX * WIDTH, seed + 2, 0.6);
        fill(w[i].v, HEADS_MAX * WIDTH, seed + 3, 0.6);
        fill(w[i].o, WIDTH * HEADS_MAX, seed + 4, 0.4);
    }
    made = true;
    return &w[layer];
}

/* y[n] = m [n][n_in] x */
static void product(const float *m, const float *x, int n_in, float *y, int n) {
    for (int i = 0; i < n; i++) {
        y[i] = 0;
        for (int j = 0; j < n_in; j++) y[i] += m[i * n_in + j] * x[j];
    }
}

static void normalise(float *x) {
    float sum = 0;
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[i];
    float factor = 1 / sqrtf(sum / WIDTH + 1e-6f);
    for (int i = 0; i < WIDTH; i++) x[i] *= factor;
}

/* A token at its place. */
static void embed(int32_t token, int position, float *x) {
    float place[WIDTH];
    fill(x, WIDTH, (uint64_t)(uint32_t)token << 20, 1);
    fill(place, WIDTH, ((uint64_t)position << 40) + 7, 0.5);
    for (int i = 0; i < WIDTH; i++) x[i] += place[i];
    normalise(x);
}

/* x [n_rows][WIDTH] through one layer. */
static void layer_run(kvt_cache *c, int layer, const kvt_batch *batch, float *x, int n_rows) {
    static float q[FORWARD_ROWS_MAX * HEADS_MAX], k[FORWARD_ROWS_MAX * HEADS_MAX], v[FORWARD_ROWS_MAX * HEADS_MAX];
    static float out[FORWARD_ROWS_MAX * HEADS_MAX];
    const kvt_layer *l = &layers[layer];
    const weights *w = weights_of(layer);
    int nq = l->n_heads_q * l->dim_k, nk = l->n_heads_kv * l->dim_k, nv = l->n_heads_kv * l->dim_v;
    int no = l->n_heads_q * l->dim_v;
    for (int row = 0; row < n_rows; row++) {
        product(w->q, x + row * WIDTH, WIDTH, q + row * nq, nq);
        product(w->k, x + row * WIDTH, WIDTH, k + row * nk, nk);
        product(w->v, x + row * WIDTH, WIDTH, v + row * nv, nv);
    }
    assert_int_equal(kvt_attend(c, layer, batch, q, k, v, out), KVT_OK);
    for (int row = 0; row < n_rows; row++) {
        float more[WIDTH], *at = x + row * WIDTH;
        product(w->o, out + row * no, no, more, WIDTH);
        for (int i = 0; i < WIDTH; i++) at[i] += more[i];
        normalise(at);
    }
}

kvt_status forward_step(kvt_cache *c, const forward_part *parts, int n, forward_end end) {
    static float x[FORWARD_ROWS_MAX * WIDTH];
    static int32_t tokens[FORWARD_ROWS_MAX];
    kvt_seq seqs[PARTS_MAX];
    int n_new[PARTS_MAX], first[PARTS_MAX], n_rows = 0;
    kvt_batch batch = {n, seqs, n_new};
    assert_true(n <= PARTS_MAX);
    for (int i = 0; i < n; i++) {
        const forward_part *p = &parts[i];
        seqs[i] = p->seq;
        n_new[i] = p->n_new;
        first[i] = kvt_seq_length(c, p->seq);
        assert_true(first[i] >= 0 && n_rows + p->n_new <= FORWARD_ROWS_MAX);
        for (int t = first[i]; t < first[i] + p->n_new; t++, n_rows++) {
            tokens[n_rows] = p->tokens[t];
            embed(p->tokens[t], t, x + n_rows * WIDTH);
        }
    }
    kvt_status status = kvt_reserve(c, &batch);
    if (status == KVT_FULL) return status;
    assert_int_equal(status, KVT_OK);
    for (int i = 0; i < FORWARD_LAYERS; i++) layer_run(c, i, &batch, x, n_rows);
    const float *from = x;
    for (int i = 0; i < n; from += n_new[i++] * WIDTH)
        if (parts[i].rows)
            memcpy(parts[i].rows + first[i] * WIDTH, from, (size_t)(n_new[i] * WIDTH) * sizeof *from);
    if (end == FORWARD_ABORT) assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    else assert_int_equal(kvt_commit(c, &batch, end == FORWARD_COMMIT ? tokens : NULL), KVT_OK);
    return KVT_OK;
}

kvt_status forward_run(kvt_cache *c, kvt_seq seq, const int32_t *tokens, int n_tokens, int chunk, float *rows) {
    for (int done; (done = kvt_seq_length(c, seq)) < n_tokens;) {
        int n = n_tokens - done < chunk ? n_tokens - done : chunk;
        kvt_status status = forward_step(c, &(forward_part){seq, tokens, n, rows}, 1, FORWARD_COMMIT);
        if (status != KVT_OK) return status;
    }
    return KVT_OK;
}
