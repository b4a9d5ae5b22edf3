/* shape_weights.c - how many weights a config.json means, from the sizes of the matrices. Norms and biases are left
 * out, so it is right within a per cent, and said to be an estimate. */
#include "config.h"

#include <string.h>

#include "base/log.h"

/* -------------------------------------------------------------------------------------------- the attention */

static kvt_status latent_weights(const config *c, const config_sizes *s, double *out) {
    int latent, rope, nope, dim_v, q_rank, index_heads, index_dim;
    double w = s->width, heads = s->heads;
    TRY(config_number(c, "kv_lora_rank", 1, DIM_MAX, CONFIG_REQUIRED, &latent));
    TRY(config_number(c, "qk_rope_head_dim", 1, DIM_MAX, CONFIG_REQUIRED, &rope));
    TRY(config_number(c, "qk_nope_head_dim", 1, DIM_MAX, CONFIG_REQUIRED, &nope));
    TRY(config_number(c, "v_head_dim", 1, DIM_MAX, CONFIG_REQUIRED, &dim_v));
    TRY(config_number(c, "q_lora_rank", 1, WIDTH_MAX, 0, &q_rank));
    TRY(config_number(c, "index_head_dim", 1, DIM_MAX, 0, &index_dim));
    TRY(config_number(c, "index_n_heads", 1, HEADS_MAX, index_dim ? CONFIG_REQUIRED : 0, &index_heads));
    double q = q_rank ? (w + heads * (nope + rope)) * q_rank : w * heads * (nope + rope);
    double index = (double)q_rank * index_heads * index_dim + w * (index_dim + index_heads);
    *out = q + w * (latent + rope) + latent * heads * (nope + dim_v) + heads * dim_v * w + index;
    return KVT_OK;
}

/* Into and out of the layer, the convolution, what chooses the steps, the decay. */
static kvt_status mamba_weights(const config *c, const config_sizes *s, double *out) {
    int state, conv, expand, rank;
    TRY(config_number(c, "mamba_d_state", 1, 4096, CONFIG_REQUIRED, &state));
    TRY(config_number(c, "mamba_d_conv", 1, 64, CONFIG_REQUIRED, &conv));
    TRY(config_number(c, "mamba_expand", 1, 16, CONFIG_REQUIRED, &expand));
    const char *automatic = config_text(c, "mamba_dt_rank"); /* "auto" */
    if (automatic) rank = (s->width + 15) / 16;
    else TRY(config_number(c, "mamba_dt_rank", 1, WIDTH_MAX, (s->width + 15) / 16, &rank));
    double w = s->width, inner = w * expand;
    *out = 3 * w * inner + inner * conv + inner * (2.0 * rank + 3.0 * state);
    return KVT_OK;
}

static kvt_status delta_weights(const config *c, const config_sizes *s, double *out) {
    int k_heads, v_heads, k_dim, v_dim, conv;
    TRY(config_number(c, "linear_num_key_heads", 1, HEADS_MAX, CONFIG_REQUIRED, &k_heads));
    TRY(config_number(c, "linear_num_value_heads", 1, HEADS_MAX, CONFIG_REQUIRED, &v_heads));
    TRY(config_number(c, "linear_key_head_dim", 1, 4096, CONFIG_REQUIRED, &k_dim));
    TRY(config_number(c, "linear_value_head_dim", 1, 4096, CONFIG_REQUIRED, &v_dim));
    TRY(config_number(c, "linear_conv_kernel_dim", 1, 64, CONFIG_REQUIRED, &conv));
    double w = s->width, k = (double)k_heads * k_dim, v = (double)v_heads * v_dim;
    *out = w * (2 * k + 3 * v + 2.0 * v_heads) + (2 * k + v) * conv;
    return KVT_OK;
}

/* Of a layer that attends by heads: queries, keys, values, the output; Qwen3-Next's queries come with a gate. */
static double heads_weights(const config *c, const config_sizes *s) {
    double q = c->family->kind == FAMILY_DELTA ? 2 : 1;
    return (double)s->width * s->dim * ((q + 1) * s->heads + 2.0 * s->heads_kv);
}

/* All layers' together; how many attend is in the shape. */
static kvt_status attention_weights(const config *c, const config_sizes *s, const shape *made, double *out) {
    double one = heads_weights(c, s), state = 0;
    if (c->family->kind == FAMILY_LATENT) TRY(latent_weights(c, s, &one));
    if (c->family->kind == FAMILY_MAMBA) TRY(mamba_weights(c, s, &state));
    if (c->family->kind == FAMILY_DELTA) TRY(delta_weights(c, s, &state));
    *out = 0;
    for (int i = 0; i < made->n_groups; i++)
        *out += made->group[i].n_layers * (made->group[i].layer.kind == KVT_LAYER_STATE ? state : one);
    return KVT_OK;
}

/* ---------------------------------------------------------------------------------------- the feed-forward part */

/* Experts of a mixture: how many, how many a token meets, how wide; which layers have them. */
typedef struct mixture {
    int n, used, ffn, shared, shared_ffn, first_dense, every, offset;
} mixture;

static kvt_status mixture_read(const config *c, const config_sizes *s, mixture *m) {
    int step;
    TRY(config_number(c, "num_local_experts|n_routed_experts|num_experts", 0, 65536, 0, &m->n));
    TRY(config_number(c, "num_experts_per_tok|num_experts_per_token", 0, 65536, m->n ? CONFIG_REQUIRED : 0, &m->used));
    TRY(config_number(c, "moe_intermediate_size", 1, WIDTH_MAX, s->ffn, &m->ffn));
    TRY(config_number(c, "n_shared_experts", 0, 1024, 0, &m->shared));
    int64_t shared_ffn = m->shared * (int64_t)m->ffn;
    if (shared_ffn > WIDTH_MAX)
        return config_fail(c, KVT_E_CORRUPT, "n_shared_experts is %d, each %d wide: more than %d together", m->shared,
                           m->ffn, WIDTH_MAX);
    TRY(config_number(c, "shared_expert_intermediate_size", 0, WIDTH_MAX, shared_ffn, &m->shared_ffn));
    TRY(config_number(c, "first_k_dense_replace", 0, LAYERS_MAX, 0, &m->first_dense));
    TRY(config_number(c, "decoder_sparse_step", 1, LAYERS_MAX, 1, &step));
    TRY(config_number(c, "moe_layer_freq|expert_layer_period", 1, LAYERS_MAX, step, &m->every));
    return config_number(c, "expert_layer_offset", 0, LAYERS_MAX, step - 1, &m->offset);
}

/* Matrices of one layer: those of experts, the same that a token meets, and the others. */
typedef struct forward {
    double experts, experts_active, others;
} forward;

static forward forward_of(const config *c, const config_sizes *s, const mixture *m, int layer) {
    double w = s->width, part = c->family->matrices * w;
    bool mixed = m->n > 0 && layer >= m->first_dense && layer % m->every == m->offset % m->every;
    if (!mixed) return (forward){ .others = part * s->ffn };
    double each = part * m->ffn, choice = w * m->n;
    return (forward){ each * m->n, each * m->used, part * m->shared_ffn + choice };
}

/* --------------------------------------------------------------------------------------------------- in bytes */

/* Bits of a weight in a quantised file, scales counted; 0: the file is not quantised. */
static double bits_quantised(const config *c, bool *experts_alone) {
    static const struct {
        const char *method;
        double bits;
        bool experts_alone;
    } methods[] = {
        { "mxfp4", 4 + 8 / 32.0, true },            /* one scale of 8 bits for 32 */
        { "fp8", 8 + 32 / (128 * 128.0), false },   /* DeepSeek: one float32 for 128 x 128 */
    };
    const json_t *q = config_value(c, "quantization_config");
    const char *method = json_string_value(json_object_get(q, "quant_method"));
    const json_t *bits = json_object_get(q, "bits"); /* GPTQ, AWQ: mostly a 16-bit scale and a zero for 128 */
    *experts_alone = false;
    for (size_t i = 0; method && i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(methods[i].method, method) == 0) {
            *experts_alone = methods[i].experts_alone;
            return methods[i].bits;
        }
    int64_t n = json_is_integer(bits) ? json_integer_value(bits) : 0;
    return n >= 1 && n <= 8 ? (double)n + 20 / 128.0 : 0;
}

static double bytes_each(const config *c) {
    const char *type = config_text(c, "torch_dtype|dtype");
    return type && strcmp(type, "float32") == 0 ? 4 : 2;
}

/* Embedding, output, learned positions: no quantised file has those in fewer bits. */
static double tables_weights(const config *c, const config_sizes *s, bool tied) {
    double rows = (double)s->vocab * (tied ? 1 : 2) + (c->family->learned ? s->context : 0);
    return s->width * rows;
}

kvt_status config_weights(const config *c, const config_sizes *s, shape *out) {
    forward sum = { 0 };
    mixture m;
    bool experts_alone;
    double attention, plain = bytes_each(c), bits = bits_quantised(c, &experts_alone);
    TRY(attention_weights(c, s, out, &attention));
    TRY(mixture_read(c, s, &m));
    for (int i = 0; i < s->n_layers; i++) {
        forward f = forward_of(c, s, &m, i);
        sum = (forward){ sum.experts + f.experts, sum.experts_active + f.experts_active, sum.others + f.others };
    }
    out->tied = config_flag(c, "tie_word_embeddings", false);
    double tables = tables_weights(c, s, out->tied), others = attention + sum.others;
    double expert_bytes = bits > 0 ? bits / 8 : plain, other_bytes = experts_alone ? plain : expert_bytes;
    out->n_weights = tables + others + sum.experts;
    out->n_weights_active = tables + others + sum.experts_active;
    out->weights_bytes = tables * plain + others * other_bytes + sum.experts * expert_bytes;
    out->active_bytes = tables * plain + others * other_bytes + sum.experts_active * expert_bytes;
    out->unread_bytes = out->tied ? 0 : (double)s->width * s->vocab * plain;
    out->weights_estimated = true;
    return KVT_OK;
}
