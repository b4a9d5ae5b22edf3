/* identity.c - which model it is, in 32 bytes: everything outside a cache that its keys and values depend on. Two
 * engines whose identities are equal compute the same bits. */
#include "base/log.h"
#include "weights.h"
#include "weights_hash.h"

static void config_add(digest *d, const model_config *c) {
    digest_text(d, "arch", c->arch);
    digest_number(d, "n_layers", (uint64_t)c->n_layers);
    digest_number(d, "n_vocab", (uint64_t)c->n_vocab);
    digest_number(d, "width", (uint64_t)c->width);
    digest_number(d, "width_ffn", (uint64_t)c->width_ffn);
    digest_number(d, "n_heads_q", (uint64_t)c->n_heads_q);
    digest_number(d, "n_heads_kv", (uint64_t)c->n_heads_kv);
    digest_number(d, "dim_k", (uint64_t)c->dim_k);
    digest_number(d, "dim_v", (uint64_t)c->dim_v);
    digest_real(d, "norm_eps", c->norm_eps);
    digest_real(d, "attention_scale", c->attention_scale);
    digest_real(d, "embedding_scale", c->embedding_scale);
    digest_real(d, "residual_scale", c->residual_scale);
    digest_real(d, "logit_scale", c->logit_scale);
}

/* However positions are stretched, it comes to a list of frequencies and a magnitude. */
static void rope_add(digest *d, const kvt_rope *rope, int skip) {
    digest_number(d, "rope_dim", (uint64_t)rope->dim);
    digest_number(d, "rope_halves", (uint64_t)rope->halves);
    digest_number(d, "rope_skip", (uint64_t)skip);
    digest_real(d, "rope_magnitude", rope->magnitude);
    for (int i = 0; i < rope->dim / 2; i++) digest_real(d, "rope_freq", rope->freqs[i]);
}

/* The promise of equal bits is one of x86-64. */
static const char *processor(void) {
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "other";
#endif
}

kvt_status model_identity(const model *m, int context, kvt_math math, uint8_t out[MODEL_IDENTITY_BYTES],
                          error_text *err) {
    uint8_t weights[DIGEST_BYTES];
    digest d;
    TRY(weights_hash(m->path, m->stamp, weights, err));
    digest_begin(&d, "kvtile model");
    digest_bytes(&d, "weights", weights, sizeof weights);
    config_add(&d, &m->config);
    rope_add(&d, model_rope(m, context), m->config.rope.skip);
    digest_number(&d, "math", (uint64_t)math);
    digest_number(&d, "numeric_contract", KVT_NUMERIC_CONTRACT);
    digest_text(&d, "processor", processor());
    digest_end(&d, out);
    return KVT_OK;
}
