/* config.c - what kind of model a file holds: its keys, each checked once, so that nobody behind this asks again.
 * Position encoding has its own file, rope.c. */
#include "base/log.h"
#include "weights.h"

#include <string.h>

static kvt_status arch_read(key_reader *r) {
    file_text name;
    char known[256];
    TRY(file_string(r->f, "general.architecture", &name, r->err));
    r->arch = arch_find(name);
    if (r->arch) return KVT_OK;
    arch_names(known, sizeof known);
    return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "architecture \"%.*s\" is not one this build runs (%s are)",
                     FILE_SHOW(name), known);
}

/* ------------------------------------------------------------------------------- what this build has not
 *
 * Keys that change the arithmetic in ways nobody here computes: better refused than answered wrongly. */

static kvt_status refuse_counts(const key_reader *r) {
    static const char *const counts[] = {
        "expert_count", "expert_shared_count", "expert_shared_feed_forward_length", "attention.q_lora_rank",
        "attention.kv_lora_rank", "attention.key_length_swa", "attention.value_length_swa",
        "attention.shared_kv_layers", "rope.dimension_count_swa", "ssm.state_size",
    };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint32_t n = 0;
        if (key_has(r, counts[i])) TRY(file_u32(r->f, key_of(r, counts[i], key), &n, r->err));
        if (n > 0) return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %u: not offered", key, n);
    }
    return KVT_OK;
}

static bool is_key_of(const char *name, const char *key) {
    return key && strcmp(name, key) == 0;
}

/* A factor that the architecture has no use for, unless it is 0 or 1 and so says nothing. */
static kvt_status refuse_reals(const key_reader *r) {
    static const char *const reals[] = {
        "embedding_scale", "residual_scale", "logit_scale", "attention.output_scale", "attention.value_scale",
        "attention.clamp_kqv", "attention.max_alibi_bias", "attn_logit_softcapping", "final_logit_softcapping",
        "rope.scaling.alpha", "rope.freq_base_swa",
    };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++) {
        const model_arch *a = r->arch;
        float v = 0;
        if (is_key_of(reals[i], a->embedding_scale) || is_key_of(reals[i], a->residual_scale) ||
            is_key_of(reals[i], a->logit_divisor) || !key_has(r, reals[i]))
            continue;
        TRY(file_f32(r->f, key_of(r, reals[i], key), &v, r->err));
        if (v != 0 && v != 1)
            return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %g: not offered", key, (double)v);
    }
    return KVT_OK;
}

static kvt_status refuse_flags(const key_reader *r) {
    static const struct {
        const char *name;
        bool usual;
    } flags[] = { { "attention.causal", true }, { "use_parallel_residual", false }, { "swin_norm", false } };
    char key[KEY_BYTES];
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        bool on;
        TRY(key_flag(r, flags[i].name, flags[i].usual, &on));
        if (on != flags[i].usual)
            return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %s: not offered", key_of(r, flags[i].name, key),
                             on ? "true" : "false");
    }
    return KVT_OK;
}

static kvt_status refuse_unknown(const key_reader *r) {
    char key[KEY_BYTES];
    TRY(refuse_counts(r));
    TRY(refuse_reals(r));
    if (key_has(r, "rope.dimension_sections"))
        return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s: positions of more than one dimension are not offered",
                         key_of(r, "rope.dimension_sections", key));
    return refuse_flags(r);
}

/* -------------------------------------------------------------------------------------------- what it has */

static kvt_status heads_read(const key_reader *r, model_config *c) {
    TRY(key_int(r, "attention.head_count", 1, 1024, KEY_REQUIRED, &c->n_heads_q));
    TRY(key_int(r, "attention.head_count_kv", 1, 1024, c->n_heads_q, &c->n_heads_kv));
    if (c->n_heads_q % c->n_heads_kv != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%d query heads are not a multiple of %d key/value heads",
                         c->n_heads_q, c->n_heads_kv);
    if (!key_has(r, "attention.key_length") && c->width % c->n_heads_q != 0)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "width %d is not a multiple of %d heads", c->width, c->n_heads_q);
    TRY(key_int(r, "attention.key_length", 1, 512, c->width / c->n_heads_q, &c->dim_k));
    return key_int(r, "attention.value_length", 1, 512, c->width / c->n_heads_q, &c->dim_v);
}

/* A factor under the key that the architecture has for it; 1 where it has none. */
static kvt_status scale_read(const key_reader *r, const char *name, float *out) {
    *out = 1;
    return name ? key_positive(r, name, 1, out) : KVT_OK;
}

/* What kvt_layer takes for a scale, and divisors whose inverse is a normal number too. */
static kvt_status scales_read(const key_reader *r, model_config *c) {
    char key[KEY_BYTES];
    float divisor;
    TRY(scale_read(r, r->arch->embedding_scale, &c->embedding_scale));
    TRY(scale_read(r, r->arch->residual_scale, &c->residual_scale));
    TRY(scale_read(r, r->arch->logit_divisor, &divisor));
    TRY(key_positive(r, "attention.scale", 1, &c->attention_scale));
    if (!key_has(r, "attention.scale")) c->attention_scale = 0;
    else if (c->attention_scale < 0x1p-126f || c->attention_scale > 0x1p127f)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g", key_of(r, "attention.scale", key),
                         (double)c->attention_scale);
    if (divisor < 0x1p-126f || divisor > 0x1p126f)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g", key_of(r, r->arch->logit_divisor, key),
                         (double)divisor);
    c->logit_scale = 1 / divisor;
    return KVT_OK;
}

static void limit_to(model_config *c, int tokens, const char *name) {
    if (c->limit > 0 && c->limit <= tokens) return;
    c->limit = tokens;
    c->limit_key = name;
}

/* A window sees all tokens while there are no more than it holds, and a temperature of attention is 1 within the
 * original context. What is beyond is computed by nobody here, so it is where contexts end. */
static kvt_status limits_read(const key_reader *r, model_config *c) {
    static const char window[] = "attention.sliding_window", temperature[] = "attention.temperature_scale";
    char key[KEY_BYTES];
    int tokens;
    float rise = 0;
    TRY(key_int(r, window, 0, INT32_MAX, 0, &tokens));
    if (tokens > 0 && tokens < c->context) {
        limit_to(c, tokens, window);
        if (c->rope.scaling != ROPE_PLAIN) /* whether layers with a window turn in the same way is not in the file */
            return file_fail(r->f, r->err, KVT_E_UNSUPPORTED, "%s is %d beside rope.scaling: not offered",
                             key_of(r, window, key), tokens);
    }
    if (key_has(r, temperature)) TRY(file_f32(r->f, key_of(r, temperature, key), &rise, r->err));
    if (rise != 0) limit_to(c, c->rope.original, temperature);
    return KVT_OK;
}

/* The vocabulary is as long as the embedding; where a key says it too, it must agree. */
static kvt_status vocab_read(const key_reader *r, model_config *c) {
    char name[TENSOR_NAME_BYTES];
    const file_tensor *t;
    TRY(file_need(r->f, arch_tensor_name(r->arch, TENSOR_EMBEDDING, 0, name), &t, r->err));
    if (t->n_dims != 2 || t->dims[1] > 1 << 24)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "the embedding has %d dimensions and %zu rows", t->n_dims,
                         t->dims[1]);
    c->n_vocab = (int)t->dims[1];
    int told;
    TRY(key_int(r, "vocab_size", 1, 1 << 24, c->n_vocab, &told));
    if (told != c->n_vocab)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "the vocabulary is %d by its key, %d by the embedding", told,
                         c->n_vocab);
    return KVT_OK;
}

kvt_status config_read(model_config *c, const model_arch **arch, const model_file *f, error_text *err) {
    key_reader r = { .f = f, .err = err };
    *c = (model_config){ 0 };
    TRY(arch_read(&r));
    *arch = r.arch;
    c->arch = r.arch->name;
    TRY(refuse_unknown(&r));
    TRY(key_int(&r, "block_count", 1, 4096, KEY_REQUIRED, &c->n_layers));
    TRY(key_int(&r, "context_length", 1, 1 << 24, KEY_REQUIRED, &c->context));
    TRY(key_int(&r, "embedding_length", 1, 1 << 20, KEY_REQUIRED, &c->width));
    TRY(key_int(&r, "feed_forward_length", 1, 1 << 22, KEY_REQUIRED, &c->width_ffn));
    TRY(key_positive(&r, "attention.layer_norm_rms_epsilon", 1e-5f, &c->norm_eps));
    TRY(heads_read(&r, c));
    TRY(rope_read(&r, c));
    TRY(scales_read(&r, c));
    TRY(limits_read(&r, c));
    return vocab_read(&r, c);
}

int model_context(const model_config *c) {
    return c->limit > 0 && c->limit < c->context ? c->limit : c->context;
}

void model_layers(const model_config *c, kvt_layer *out) {
    for (int i = 0; i < c->n_layers; i++)
        out[i] = (kvt_layer){
            .kind = KVT_LAYER_FULL,
            .n_heads_q = c->n_heads_q,
            .n_heads_kv = c->n_heads_kv,
            .dim_k = c->dim_k,
            .dim_v = c->dim_v,
            .scale = c->attention_scale,
        };
}
