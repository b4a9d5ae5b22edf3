/* config.c - what kind of model a file holds: its keys, each checked once, so that nobody behind this asks again. */
#include "base/log.h"
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 128 };

static const model_arch *const archs[] = { &arch_llama };

/* What is read, from where: every call of this file passes it on. */
typedef struct reader {
    const model_file *f;
    const model_arch *arch;
    error_text *err;
} reader;

static const char *key_of(const reader *r, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", r->arch->name, name);
    return key;
}

/* A number that has to be there, or may be missing (otherwise >= 0 takes its place), within least .. most. */
enum { REQUIRED = -1 };
static kvt_status number(const reader *r, const char *name, int least, int most, int otherwise, int *out) {
    char key[KEY_BYTES];
    uint32_t v = (uint32_t)otherwise;
    if (otherwise == REQUIRED || file_has(r->f, key_of(r, name, key)))
        TRY(file_u32(r->f, key_of(r, name, key), &v, r->err));
    if (v < (uint32_t)least || v > (uint32_t)most)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %u, outside %d .. %d", key_of(r, name, key), v, least,
                         most);
    *out = (int)v;
    return KVT_OK;
}

static kvt_status real(const reader *r, const char *name, float otherwise, float *out) {
    char key[KEY_BYTES];
    *out = otherwise;
    if (file_has(r->f, key_of(r, name, key))) TRY(file_f32(r->f, key, out, r->err));
    if (!(*out > 0) || !isfinite(*out))
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g, not a positive number", key, (double)*out);
    return KVT_OK;
}

static kvt_status arch_find(reader *r) {
    file_text name;
    TRY(file_string(r->f, "general.architecture", &name, r->err));
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++) {
        r->arch = archs[i];
        if (strlen(r->arch->name) == name.n && memcmp(r->arch->name, name.at, name.n) == 0) return KVT_OK;
    }
    return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "architecture \"%.*s\" is not one this build runs (llama is)",
                     FILE_SHOW(name));
}

/* Keys that change the arithmetic in ways this build does not have: better refused than answered wrongly. */
static kvt_status refuse_unknown(const reader *r) {
    static const char *const counts[] = { "expert_count", "attention.sliding_window" };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t n = 0;
        if (file_has(r->f, key_of(r, counts[i], key))) TRY(file_u32(r->f, key, &n, r->err));
        if (n > 0) return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %u: not offered", key, n);
    }
    return KVT_OK;
}

/* A factor without a type stands for linear scaling. */
static kvt_status refuse_scaling(const reader *r) {
    static const char *const factors[] = { "rope.scaling.factor", "rope.scale_linear" };
    char key[KEY_BYTES];
    if (file_has(r->f, key_of(r, "rope.scaling.type", key))) {
        file_text type;
        TRY(file_string(r->f, key, &type, r->err));
        if (type.n == 4 && memcmp(type.at, "none", 4) == 0) return KVT_OK;
        return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "rope scaling \"%.*s\" is not offered", FILE_SHOW(type));
    }
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        float factor;
        TRY(real(r, factors[i], 1, &factor));
        if (factor != 1)
            return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %g: not offered", key_of(r, factors[i], key),
                             (double)factor);
    }
    return KVT_OK;
}

static kvt_status heads_read(const reader *r, model_config *c) {
    TRY(number(r, "attention.head_count", 1, 1024, REQUIRED, &c->n_heads_q));
    TRY(number(r, "attention.head_count_kv", 1, 1024, c->n_heads_q, &c->n_heads_kv));
    if (c->n_heads_q % c->n_heads_kv != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%d query heads are not a multiple of %d key/value heads",
                         c->n_heads_q, c->n_heads_kv);
    char key[KEY_BYTES];
    bool own_dim = file_has(r->f, key_of(r, "attention.key_length", key));
    if (!own_dim && c->width % c->n_heads_q != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "width %d is not a multiple of %d heads", c->width, c->n_heads_q);
    TRY(number(r, "attention.key_length", 1, 512, c->width / c->n_heads_q, &c->dim_k));
    return number(r, "attention.value_length", 1, 512, c->width / c->n_heads_q, &c->dim_v);
}

static kvt_status rope_read(const reader *r, model_config *c) {
    c->rope.halves = r->arch->rope_halves;
    TRY(real(r, "rope.freq_base", 10000.0f, &c->rope.base));
    TRY(number(r, "rope.dimension_count", 2, c->dim_k, c->dim_k, &c->rope.dim));
    if (c->rope.dim % 2 != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "rope turns %d elements, an odd number", c->rope.dim);
    return KVT_OK;
}

/* The vocabulary is as long as the embedding; where a key says it too, it must agree. */
static kvt_status vocab_read(const reader *r, model_config *c) {
    const file_tensor *t;
    TRY(file_need(r->f, r->arch->tensor_names[TENSOR_EMBEDDING], &t, r->err));
    if (t->n_dims != 2 || t->dims[1] > 1 << 24)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "the embedding has %d dimensions and %zu rows", t->n_dims,
                         t->dims[1]);
    c->n_vocab = (int)t->dims[1];
    int told;
    TRY(number(r, "vocab_size", 1, 1 << 24, c->n_vocab, &told));
    if (told != c->n_vocab)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "the vocabulary is %d by its key, %d by the embedding", told,
                         c->n_vocab);
    return KVT_OK;
}

kvt_status config_read(model_config *c, const model_arch **arch, const model_file *f, error_text *err) {
    reader r = { .f = f, .err = err };
    *c = (model_config){ 0 };
    TRY(arch_find(&r));
    *arch = r.arch;
    c->arch = r.arch->name;
    TRY(refuse_unknown(&r));
    TRY(refuse_scaling(&r));
    TRY(number(&r, "block_count", 1, 4096, REQUIRED, &c->n_layers));
    TRY(number(&r, "context_length", 1, 1 << 24, REQUIRED, &c->context));
    TRY(number(&r, "embedding_length", 1, 1 << 20, REQUIRED, &c->width));
    TRY(number(&r, "feed_forward_length", 1, 1 << 22, REQUIRED, &c->width_ffn));
    TRY(real(&r, "attention.layer_norm_rms_epsilon", 1e-5f, &c->norm_eps));
    TRY(heads_read(&r, c));
    TRY(rope_read(&r, c));
    return vocab_read(&r, c);
}

void model_layers(const model_config *c, kvt_layer *out) {
    for (int i = 0; i < c->n_layers; i++)
        out[i] = (kvt_layer){
            .kind = KVT_LAYER_FULL,
            .n_heads_q = c->n_heads_q,
            .n_heads_kv = c->n_heads_kv,
            .dim_k = c->dim_k,
            .dim_v = c->dim_v,
        };
}
