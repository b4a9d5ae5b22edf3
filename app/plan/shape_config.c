/* shape_config.c - a Hugging Face config.json as layers: what its keys say, by the family that model_type names. */
#include "shape.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

enum { LAYERS_MAX = 4096, WIDTH_MAX = 1 << 22, NAME_BYTES = 400 };

typedef struct config {
    const char *path;
    const json_t *root; /* of a model with several parts, the one that makes text */
    error_text *err;
} config;

static kvt_status fail(const config *c, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static kvt_status fail(const config *c, kvt_status status, const char *format, ...) {
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (c->err) {
        snprintf(c->err->text, sizeof c->err->text, "%.200s: %s", c->path, what);
        file_one_line(c->err->text);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------- the keys */

/* The same thing has a name in each family: the first that is there, NULL: none is, or it is null. */
static const json_t *value_of(const config *c, const char *names, const char **found) {
    static char name[64];
    for (size_t n; *names; names += n + (names[n] != 0)) {
        n = strcspn(names, "|");
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        const json_t *v = json_object_get(c->root, name);
        *found = name;
        if (v && !json_is_null(v)) return v;
    }
    return NULL;
}

enum { REQUIRED = -1 };

/* A whole number of `least` or more; otherwise >= 0 stands for a key that is missing. */
static kvt_status number(const config *c, const char *names, int64_t least, int64_t most, int64_t otherwise, int *out) {
    const char *found = names;
    const json_t *v = value_of(c, names, &found);
    if (!v && otherwise == REQUIRED) return fail(c, KVT_E_CORRUPT, "the key %s is missing", names);
    if (v && !json_is_integer(v)) return fail(c, KVT_E_CORRUPT, "%s is not a whole number", found);
    int64_t n = v ? json_integer_value(v) : otherwise;
    if (v && (n < least || n > most))
        return fail(c, KVT_E_CORRUPT, "%s is %" PRId64 ", outside %" PRId64 " .. %" PRId64, found, n, least, most);
    *out = (int)n;
    return KVT_OK;
}

static bool flag(const config *c, const char *names, bool otherwise) {
    const char *found;
    const json_t *v = value_of(c, names, &found);
    return v && json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* The word of layer i in layer_types; NULL: there is no such list. */
static const char *layer_type(const config *c, int i) {
    const json_t *list = json_object_get(c->root, "layer_types");
    return json_string_value(json_array_get(list, (size_t)i));
}

/* ----------------------------------------------------------------------------------------------- the numbers */

/* What most families have; the rest is asked for where it matters. */
typedef struct sizes {
    int n_layers, width, heads, heads_kv, dim, ffn, vocab, context, window;
} sizes;

static kvt_status heads_read(const config *c, sizes *s) {
    /* Falcon: one key/value head for all, but in its newer models as many as the key says. */
    bool multi = flag(c, "multi_query", false) && !flag(c, "new_decoder_architecture", false);
    TRY(number(c, "num_attention_heads|n_head|n_heads", 1, 1024, REQUIRED, &s->heads));
    TRY(number(c, "num_key_value_heads|num_kv_heads|n_head_kv", 1, 1024, s->heads, &s->heads_kv));
    if (multi) s->heads_kv = 1;
    if (s->heads % s->heads_kv != 0)
        return fail(c, KVT_E_CORRUPT, "num_attention_heads is %d, no multiple of num_key_value_heads, %d", s->heads,
                    s->heads_kv);
    TRY(number(c, "head_dim", 1, 512, 0, &s->dim));
    if (s->dim == 0 && s->width % s->heads != 0)
        return fail(c, KVT_E_CORRUPT, "hidden_size is %d, no multiple of num_attention_heads, %d", s->width, s->heads);
    if (s->dim == 0) s->dim = s->width / s->heads;
    return s->dim <= 512 ? KVT_OK : fail(c, KVT_E_CORRUPT, "head_dim is %d, above 512", s->dim);
}

static kvt_status sizes_read(const config *c, sizes *s) {
    TRY(number(c, "num_hidden_layers|n_layer|n_layers", 1, LAYERS_MAX, REQUIRED, &s->n_layers));
    TRY(number(c, "hidden_size|n_embd|d_model|n_embed", 1, WIDTH_MAX, REQUIRED, &s->width));
    TRY(heads_read(c, s));
    TRY(number(c, "intermediate_size|ffn_hidden_size|n_inner", 1, WIDTH_MAX, 4 * (int64_t)s->width, &s->ffn));
    TRY(number(c, "vocab_size", 1, 1 << 24, REQUIRED, &s->vocab));
    TRY(number(c, "max_position_embeddings|n_positions|max_seq_len|seq_length", 1, 1 << 30, 0, &s->context));
    TRY(number(c, "sliding_window", 0, 1 << 30, 0, &s->window));
    return KVT_OK;
}

/* ------------------------------------------------------------------------------------------------- the layers */

static kvt_layer heads_layer(const sizes *s, bool window) {
    return (kvt_layer){ .kind = window && s->window > 0 ? KVT_LAYER_WINDOW : KVT_LAYER_FULL, .n_heads_q = s->heads,
                        .n_heads_kv = s->heads_kv, .dim_k = s->dim, .dim_v = s->dim,
                        .window = window ? s->window : 0 };
}

/* Where the window is, if layer_types does not tell: of how many layers one is full (0: none, 1: all). */
typedef struct family {
    const char *type;
    int full_every;
} family;

static const family families[] = {
    { "llama", 1 },   { "mistral", 0 }, { "mixtral", 0 }, { "qwen2", 1 },   { "qwen2_moe", 1 },   { "qwen3", 1 },
    { "qwen3_moe", 1 }, { "gemma", 1 }, { "gemma2", 2 },  { "gemma3", 6 },  { "gemma3_text", 6 }, { "phi3", 0 },
    { "gpt_oss", 2 }, { "falcon", 1 },  { "gpt2", 1 },    { "mpt", 1 },     { "bloom", 1 },       { "smollm3", 1 },
    { "granite", 1 }, { "olmo2", 1 },   { "deepseek_v2", 1 }, { "deepseek_v3", 1 }, { "deepseek_v32", 1 },
    { "jamba", 1 },   { "qwen3_next", 1 },
};

static const family *family_of(const char *type) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}

/* MLA: one latent and one rotary key; with an index key where the model chooses tokens (DeepSeek-V3.2). */
static kvt_status latent_layer(const config *c, kvt_layer *out) {
    int latent, rope, index;
    TRY(number(c, "kv_lora_rank", 1, 512, REQUIRED, &latent));
    TRY(number(c, "qk_rope_head_dim", 1, 512, REQUIRED, &rope));
    TRY(number(c, "index_head_dim", 1, 512, 0, &index));
    *out = (kvt_layer){ .kind = index ? KVT_LAYER_SPARSE : KVT_LAYER_LATENT, .dim_k = rope, .dim_v = latent,
                        .dim_index = index };
    return KVT_OK;
}

/* Mamba (Jamba): a state of d_inner x d_state in float32, and the last inputs of the convolution in 16 bits. */
static kvt_status mamba_layer(const config *c, const sizes *s, kvt_layer *out) {
    int state, conv, expand;
    TRY(number(c, "mamba_d_state", 1, 4096, REQUIRED, &state));
    TRY(number(c, "mamba_d_conv", 1, 64, REQUIRED, &conv));
    TRY(number(c, "mamba_expand", 1, 16, REQUIRED, &expand));
    size_t inner = (size_t)expand * (size_t)s->width;
    *out = (kvt_layer){ .kind = KVT_LAYER_STATE, .state_bytes = inner * ((size_t)state * 4 + (size_t)conv * 2) };
    return KVT_OK;
}

/* Gated delta net (Qwen3-Next): a matrix of dim_k x dim_v for each value head in float32, and the convolution's
 * inputs. */
static kvt_status delta_layer(const config *c, kvt_layer *out) {
    int k_heads, v_heads, k_dim, v_dim, conv;
    TRY(number(c, "linear_num_key_heads", 1, 1024, REQUIRED, &k_heads));
    TRY(number(c, "linear_num_value_heads", 1, 1024, REQUIRED, &v_heads));
    TRY(number(c, "linear_key_head_dim", 1, 4096, REQUIRED, &k_dim));
    TRY(number(c, "linear_value_head_dim", 1, 4096, REQUIRED, &v_dim));
    TRY(number(c, "linear_conv_kernel_dim", 1, 64, REQUIRED, &conv));
    size_t inputs = 2 * (size_t)k_heads * (size_t)k_dim + (size_t)v_heads * (size_t)v_dim;
    size_t state = (size_t)v_heads * (size_t)k_dim * (size_t)v_dim * 4;
    *out = (kvt_layer){ .kind = KVT_LAYER_STATE, .state_bytes = state + inputs * (size_t)(conv - 1) * 2 };
    return KVT_OK;
}

/* Does layer i of a hybrid model attend? */
static kvt_status hybrid_attends(const config *c, int i, bool *out) {
    int period, offset;
    const char *type = layer_type(c, i);
    if (type) {
        *out = strcmp(type, "full_attention") == 0;
        return KVT_OK;
    }
    TRY(number(c, "attn_layer_period|full_attention_interval", 1, LAYERS_MAX, REQUIRED, &period));
    TRY(number(c, "attn_layer_offset", 0, LAYERS_MAX, period - 1, &offset));
    *out = i % period == offset % period;
    return KVT_OK;
}

/* Is layer i one with a window? */
static kvt_status windowed(const config *c, const family *f, const sizes *s, int i, bool *out) {
    const char *type = layer_type(c, i);
    int every = f->full_every, from;
    *out = type && strcmp(type, "sliding_attention") == 0;
    if (type || s->window == 0) return KVT_OK;
    TRY(number(c, "sliding_window_pattern", 1, LAYERS_MAX, every, &every));
    *out = every == 0 || (every > 1 && (i + 1) % every != 0);
    if (!flag(c, "use_sliding_window", false)) return KVT_OK;
    TRY(number(c, "max_window_layers", 0, LAYERS_MAX, s->n_layers, &from));
    *out = i >= from;
    return KVT_OK;
}

static kvt_status layer_of(const config *c, const family *f, const sizes *s, int i, kvt_layer *out) {
    bool yes, hybrid = strcmp(f->type, "jamba") == 0 || strcmp(f->type, "qwen3_next") == 0;
    if (strncmp(f->type, "deepseek", 8) == 0) return latent_layer(c, out);
    if (hybrid) {
        TRY(hybrid_attends(c, i, &yes));
        if (!yes) return strcmp(f->type, "jamba") == 0 ? mamba_layer(c, s, out) : delta_layer(c, out);
        *out = heads_layer(s, false);
        return KVT_OK;
    }
    TRY(windowed(c, f, s, i, &yes));
    *out = heads_layer(s, yes);
    return KVT_OK;
}

/* ------------------------------------------------------------------------------------------------ the weights */

/* Matrices of the attention of a layer: q, k, v and the output; MLA has its own way through two narrow ones. */
static kvt_status attention_weights(const config *c, const sizes *s, double *out) {
    int latent, rope, nope, dim_v, q_rank;
    double w = s->width, heads = s->heads;
    TRY(number(c, "kv_lora_rank", 1, 512, 0, &latent));
    *out = w * s->dim * (2 * heads + 2 * s->heads_kv);
    if (latent == 0) return KVT_OK;
    TRY(number(c, "qk_rope_head_dim", 1, 512, REQUIRED, &rope));
    TRY(number(c, "qk_nope_head_dim", 1, 512, REQUIRED, &nope));
    TRY(number(c, "v_head_dim", 1, 512, REQUIRED, &dim_v));
    TRY(number(c, "q_lora_rank", 1, WIDTH_MAX, 0, &q_rank));
    double q = q_rank ? (w + heads * (nope + rope)) * q_rank : w * heads * (nope + rope);
    *out = q + w * (latent + rope) + latent * heads * (nope + dim_v) + heads * dim_v * w;
    return KVT_OK;
}

/* Experts of a mixture: how many, how many a token meets, how wide. */
typedef struct mixture {
    int n, used, ffn, shared, first_dense, every, offset;
} mixture;

static kvt_status mixture_read(const config *c, const sizes *s, mixture *m) {
    TRY(number(c, "num_local_experts|n_routed_experts|num_experts", 0, 65536, 0, &m->n));
    TRY(number(c, "num_experts_per_tok|num_experts_per_token", 0, 65536, m->n ? 2 : 0, &m->used));
    TRY(number(c, "moe_intermediate_size", 1, WIDTH_MAX, s->ffn, &m->ffn));
    TRY(number(c, "n_shared_experts", 0, 1024, 0, &m->shared));
    TRY(number(c, "first_k_dense_replace", 0, LAYERS_MAX, 0, &m->first_dense));
    TRY(number(c, "moe_layer_freq|expert_layer_period|decoder_sparse_step", 1, LAYERS_MAX, 1, &m->every));
    return number(c, "expert_layer_offset", 0, LAYERS_MAX, 0, &m->offset);
}

/* Without norms, biases and the small matrices of recurrent layers: right within some per cent, and said to be so. */
static kvt_status weights_estimate(const config *c, const family *f, const sizes *s, shape *out) {
    double attention, w = s->width;
    mixture m;
    bool plain = strcmp(f->type, "gpt2") == 0 || strcmp(f->type, "falcon") == 0 || strcmp(f->type, "mpt") == 0 ||
                 strcmp(f->type, "bloom") == 0;
    double matrices = plain ? 2 : 3; /* of a feed-forward part: with a gate, or without */
    TRY(attention_weights(c, s, &attention));
    TRY(mixture_read(c, s, &m));
    double once = w * s->vocab * (flag(c, "tie_word_embeddings", plain) ? 1 : 2);
    out->n_weights = out->n_weights_active = once;
    for (int i = 0; i < s->n_layers; i++) {
        bool mixed = m.n > 0 && i >= m.first_dense && i % m.every == m.offset % m.every;
        double dense = mixed ? 0 : matrices * w * s->ffn, each = mixed ? matrices * w * m.ffn : 0;
        out->n_weights += attention + dense + each * (m.n + m.shared);
        out->n_weights_active += attention + dense + each * (m.used + m.shared);
    }
    out->weights_estimated = true;
    return KVT_OK;
}

/* The exact size stands beside the weights, where they were downloaded too. */
static void weights_index(const char *path, shape *out) {
    char index[NAME_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(index, sizeof index, "%.*smodel.safetensors.index.json", slash ? (int)(slash - path) + 1 : 0, path);
    json_t *root = json_load_file(index, 0, NULL);
    const json_t *size = json_object_get(json_object_get(root, "metadata"), "total_size");
    double bytes = json_number_value(size);
    if (bytes > 0 && out->weights_bytes > 0) {
        out->active_bytes *= bytes / out->weights_bytes;
        out->weights_bytes = bytes;
        out->weights_estimated = false;
    }
    json_decref(root);
}

static double bytes_each(const config *c) {
    const char *found, *type = json_string_value(value_of(c, "torch_dtype|dtype", &found));
    return type && strcmp(type, "float32") == 0 ? 4 : 2;
}

/* ---------------------------------------------------------------------------------------------------- the file */

static kvt_status layers_read(const config *c, const family *f, const sizes *s, shape *out) {
    for (int i = 0; i < s->n_layers; i++) {
        kvt_layer layer;
        TRY(layer_of(c, f, s, i, &layer));
        if (!shape_add(out, layer))
            return fail(c, KVT_E_UNSUPPORTED, "its layers are of more than %d kinds", SHAPE_GROUPS_MAX);
    }
    return KVT_OK;
}

static kvt_status config_read(config *c, shape *out) {
    sizes s;
    const json_t *text = json_object_get(c->root, "text_config");
    if (json_is_object(text)) c->root = text;
    const char *type = json_string_value(json_object_get(c->root, "model_type"));
    if (!type) return fail(c, KVT_E_CORRUPT, "the key model_type is missing");
    const family *f = family_of(type);
    if (!f) return fail(c, KVT_E_UNSUPPORTED, "model_type \"%.60s\" is not one whose layers are known", type);
    TRY(sizes_read(c, &s));
    if (s.window > 0 && strncmp(type, "qwen", 4) == 0 && !flag(c, "use_sliding_window", false)) s.window = 0;
    TRY(layers_read(c, f, &s, out));
    snprintf(out->name, sizeof out->name, "%s", type);
    snprintf(out->source, sizeof out->source, "%.150s", c->path);
    out->n_heads_q = s.heads;
    out->dim_head = s.dim;
    if (strncmp(type, "deepseek", 8) == 0) TRY(number(c, "v_head_dim", 1, 512, REQUIRED, &out->dim_head));
    out->width = s.width;
    out->width_ffn = s.ffn;
    out->n_vocab = s.vocab;
    out->context = s.context;
    TRY(weights_estimate(c, f, &s, out));
    shape_weigh(out, bytes_each(c));
    weights_index(c->path, out);
    return KVT_OK;
}

kvt_status shape_of_config(shape *out, const char *path, error_text *err) {
    char inside[NAME_BYTES];
    struct stat st;
    json_error_t wrong;
    *out = (shape){ 0 };
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(inside, sizeof inside, "%.380s/config.json", path);
        path = inside;
    }
    config c = { .path = path, .err = err };
    errno = 0;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (!root && errno) return fail(&c, KVT_E_ARGUMENT, "%s", strerror(errno));
    if (!root) return fail(&c, KVT_E_CORRUPT, "line %d: %s", wrong.line, wrong.text);
    c.root = root;
    kvt_status status = json_is_object(root) ? config_read(&c, out) : fail(&c, KVT_E_CORRUPT, "is no JSON object");
    json_decref(root);
    return status;
}
