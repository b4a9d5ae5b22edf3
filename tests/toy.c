/* toy.c - see toy.h. */
#include "toy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* The second layer's key and value are padded. */
static const kvt_layer layers[TOY_LAYERS] = {
    {.n_heads_q = 2, .n_heads_kv = 2, .dim_k = 16, .dim_v = 16},
    {.n_heads_q = 2, .n_heads_kv = 1, .dim_k = 24, .dim_v = 8},
};

kvt_options toy_options(void) {
    kvt_options opt = kvt_options_default();
    opt.layers = layers;
    opt.n_layers = TOY_LAYERS;
    opt.block_tokens = 16;
    opt.sequences_max = 4;
    opt.tokens_max = 128;
    opt.batch_tokens_max = TOY_ROWS_MAX;
    opt.n_threads = 1;
    return opt;
}

static kvt_cache *open_checked(const kvt_options *opt, bool seal) {
    kvt_cache *c;
    assert_int_equal(cache_open(&c, opt, &(cache_check){.poison = true, .seal = seal}), KVT_OK);
    return c;
}

kvt_cache *toy_open(const kvt_options *opt) {
    return open_checked(opt, false);
}

kvt_cache *toy_open_sealing(const kvt_options *opt) {
    return open_checked(opt, true);
}

/* Whole numbers up to 127, which every format keeps exactly. */
static float value_of(int32_t token, int layer, int kind, int head, int dim) {
    uint32_t h = (uint32_t)token * 2654435761u ^ (uint32_t)(layer * 1009 + kind * 757 + head * 131 + dim) * 40503u;
    h ^= h >> 15;
    return (float)((int)(h * 2246822519u >> 24) - 128);
}

static float *put(float *at, int32_t token, int layer, int kind, int n_heads, int n_dims) {
    for (int head = 0; head < n_heads; head++)
        for (int d = 0; d < n_dims; d++) *at++ = value_of(token, layer, kind, head, d);
    return at;
}

static int rows_of(const kvt_batch *batch) {
    int n = 0;
    for (int i = 0; i < batch->n_seqs; i++) n += batch->n_new[i];
    return n;
}

static kvt_status store_layer(kvt_cache *c, int layer, const kvt_batch *batch, const int32_t *tokens) {
    static float keys[TOY_ROWS_MAX * TOY_VALUES_MAX], values[TOY_ROWS_MAX * TOY_VALUES_MAX];
    const kvt_layer *l = &layers[layer];
    float *k = keys, *v = values;
    for (int row = 0; row < rows_of(batch); row++) {
        k = put(k, tokens[row], layer, 0, l->n_heads_kv, l->dim_k);
        v = put(v, tokens[row], layer, 1, l->n_heads_kv, l->dim_v);
    }
    return kvt_append(c, layer, batch, keys, values);
}

kvt_status toy_store(kvt_cache *c, const kvt_batch *batch, const int32_t *tokens) {
    for (int i = 0; i < TOY_LAYERS; i++) {
        kvt_status status = store_layer(c, i, batch, tokens);
        if (status != KVT_OK) return status;
    }
    return KVT_OK;
}

kvt_status toy_add(kvt_cache *c, kvt_seq handle, int32_t first, int n) {
    int32_t tokens[TOY_ROWS_MAX];
    kvt_batch batch = {1, &handle, &n};
    for (int i = 0; i < n && i < TOY_ROWS_MAX; i++) tokens[i] = first + i;
    kvt_status status = kvt_reserve(c, &batch);
    if (status != KVT_OK) return status;
    status = toy_store(c, &batch, tokens);
    if (status == KVT_OK) status = kvt_commit(c, &batch, tokens);
    if (status != KVT_OK) kvt_abort(c, &batch);
    return status;
}

static bool slot_has(kvt_cache *c, int layer, int block, int slot, int32_t token) {
    const kvt_layer *l = &layers[layer];
    float k[TOY_VALUES_MAX], v[TOY_VALUES_MAX];
    for (int head = 0; head < l->n_heads_kv; head++) {
        store_get(c, layer, block, slot, head, k, v);
        for (int d = 0; d < l->dim_k; d++)
            if (k[d] != value_of(token, layer, 0, head, d)) return false;
        for (int d = 0; d < l->dim_v; d++)
            if (v[d] != value_of(token, layer, 1, head, d)) return false;
    }
    return true;
}

bool toy_has(kvt_cache *c, kvt_seq handle, int at, int32_t token) {
    const seq *s = seq_of(c, handle);
    int32_t id;
    if (!s || at >= s->length || kvt_seq_tokens(c, handle, at, 1, &id) != KVT_OK || id != token) return false;
    int block = s->table[at / c->layout.block_tokens], slot = at % c->layout.block_tokens;
    for (int layer = 0; layer < TOY_LAYERS; layer++)
        if (!slot_has(c, layer, block, slot, token)) return false;
    return true;
}

bool toy_holds(kvt_cache *c, kvt_seq handle, int32_t first, int n) {
    if (kvt_seq_length(c, handle) != n) return false;
    for (int i = 0; i < n; i++)
        if (!toy_has(c, handle, i, first + i)) return false;
    return true;
}

/* out [n_heads_q][dim_v] of the row that sees tokens[0 .. n - 1]. */
static bool row_is_mean(const float *out, int layer, const int32_t *tokens, int n) {
    const kvt_layer *l = &layers[layer];
    for (int head = 0; head < l->n_heads_q; head++)
        for (int d = 0; d < l->dim_v; d++) {
            double sum = 0;
            for (int t = 0; t < n; t++) sum += value_of(tokens[t], layer, 1, head * l->n_heads_kv / l->n_heads_q, d);
            if (!(fabs((double)out[head * l->dim_v + d] - sum / n) < 1e-3)) return false;
        }
    return true;
}

bool toy_means(kvt_cache *c, const kvt_batch *batch, const int32_t *const *tokens, const int *n_tokens) {
    static const float q[TOY_ROWS_MAX * TOY_VALUES_MAX];
    static float out[TOY_ROWS_MAX * TOY_VALUES_MAX];
    int32_t rows[TOY_ROWS_MAX], *next = rows;
    for (int i = 0; i < batch->n_seqs; i++)
        for (int t = n_tokens[i] - batch->n_new[i]; t < n_tokens[i]; t++) *next++ = tokens[i][t];
    for (int layer = 0; layer < TOY_LAYERS; layer++) {
        const float *row = out;
        if (store_layer(c, layer, batch, rows) != KVT_OK) return false;
        if (kvt_attend(c, layer, batch, q, NULL, NULL, out) != KVT_OK) return false;
        for (int i = 0; i < batch->n_seqs; i++)
            for (int t = 0; t < batch->n_new[i]; t++) {
                if (!row_is_mean(row, layer, tokens[i], n_tokens[i] - batch->n_new[i] + t + 1)) return false;
                row += layers[layer].n_heads_q * layers[layer].dim_v;
            }
    }
    return true;
}
