/* shape_config.c - a Hugging Face config.json as layers: what its keys say, by the family that model_type names. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

enum { NAME_BYTES = 400, CONFIG_BYTES_MAX = 16 << 20 };

/* ---------------------------------------------------------------------------------------------- the families */

/* Defaults are those of the families' configuration classes in transformers, of keys that published files leave out. */
static const family families[] = {
    { "llama", FAMILY_HEADS, 1, 3, false, NULL },
    { "mistral", FAMILY_HEADS, 0, 3, false, "{\"sliding_window\": 4096}" },
    { "mixtral", FAMILY_HEADS, 0, 3, false, NULL },
    { "qwen2", FAMILY_HEADS, 1, 3, false, "{\"sliding_window\": 4096, \"max_window_layers\": 28}" },
    { "qwen2_moe", FAMILY_HEADS, 1, 3, false, NULL },
    { "qwen3", FAMILY_HEADS, 1, 3, false, "{\"sliding_window\": 4096, \"max_window_layers\": 28, \"head_dim\": 128}" },
    { "qwen3_moe", FAMILY_HEADS, 1, 3, false, NULL },
    { "qwen3_next", FAMILY_DELTA, 1, 3, false, "{\"full_attention_interval\": 4, \"head_dim\": 256}" },
    { "gemma", FAMILY_HEADS, 1, 3, false, "{\"tie_word_embeddings\": true, \"head_dim\": 256}" },
    { "gemma2", FAMILY_HEADS, 2, 3, false,
      "{\"tie_word_embeddings\": true, \"head_dim\": 256, \"sliding_window\": 4096}" },
    { "gemma3_text", FAMILY_HEADS, 6, 3, false,
      "{\"tie_word_embeddings\": true, \"head_dim\": 256, \"num_attention_heads\": 8, \"num_key_value_heads\": 4,"
      " \"vocab_size\": 262208, \"max_position_embeddings\": 131072, \"sliding_window\": 4096}" },
    { "phi3", FAMILY_HEADS, 0, 3, false, NULL },
    { "gpt_oss", FAMILY_HEADS, 2, 3, false, "{\"sliding_window\": 128, \"head_dim\": 64}" },
    { "deepseek_v2", FAMILY_LATENT, 1, 3, false, NULL },
    { "deepseek_v3", FAMILY_LATENT, 1, 3, false, NULL },
    { "deepseek_v32", FAMILY_LATENT, 1, 3, false,
      "{\"index_head_dim\": 128, \"index_n_heads\": 64, \"index_topk\": 2048}" },
    { "jamba", FAMILY_MAMBA, 1, 3, false,
      "{\"attn_layer_period\": 8, \"attn_layer_offset\": 4, \"expert_layer_period\": 2, \"expert_layer_offset\": 1,"
      " \"mamba_d_state\": 16, \"mamba_d_conv\": 4, \"mamba_expand\": 2}" },
    { "falcon", FAMILY_HEADS, 1, 2, false,
      "{\"tie_word_embeddings\": true, \"multi_query\": true, \"max_position_embeddings\": 2048}" },
    { "gpt2", FAMILY_HEADS, 1, 2, true, "{\"tie_word_embeddings\": true}" },
    { "mpt", FAMILY_HEADS, 1, 2, false, "{\"tie_word_embeddings\": true}" },
    { "bloom", FAMILY_HEADS, 1, 2, false, "{\"tie_word_embeddings\": true}" },
    { "gpt_neox", FAMILY_HEADS, 1, 2, false, NULL },
    { "gptj", FAMILY_HEADS, 1, 2, false, NULL },
    { "opt", FAMILY_HEADS, 1, 2, true, "{\"tie_word_embeddings\": true}" },
    { "phi", FAMILY_HEADS, 1, 2, false, NULL },
    { "starcoder2", FAMILY_HEADS, 0, 2, false, "{\"tie_word_embeddings\": true}" },
    { "stablelm", FAMILY_HEADS, 1, 3, false, NULL },
    { "cohere", FAMILY_HEADS, 1, 3, false, "{\"tie_word_embeddings\": true}" },
    { "cohere2", FAMILY_HEADS, 4, 3, false, "{\"tie_word_embeddings\": true, \"sliding_window\": 4096}" },
    { "glm4", FAMILY_HEADS, 1, 3, false, NULL },
    { "smollm3", FAMILY_HEADS, 1, 3, false, "{\"tie_word_embeddings\": true}" },
    { "granite", FAMILY_HEADS, 1, 3, false, NULL },
    { "olmo2", FAMILY_HEADS, 1, 3, false, NULL },
};

static const family *family_of(const char *type) {
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}

static bool is_family(const config *c, const char *type) {
    return strcmp(c->family->type, type) == 0;
}

/* ------------------------------------------------------------------------------------------------- the numbers */

/* One key/value head for all, where multi_query says so; newer Falcons have as many as their key says nevertheless. */
static bool is_multi_query(const config *c) {
    return is_family(c, "falcon") && config_flag(c, "multi_query", false) &&
           !config_flag(c, "new_decoder_architecture", false);
}

/* MPT says in an object of its own how its heads are shared. */
static kvt_status heads_of_attention(const config *c, int *heads_kv) {
    const json_t *attention = config_value(c, "attn_config");
    if (!json_is_object(attention)) return KVT_OK;
    const config inner = { .path = c->path, .family = c->family, .root = attention, .err = c->err };
    const char *type = config_text(&inner, "attn_type");
    if (type && strcmp(type, "multiquery_attention") == 0) *heads_kv = 1;
    return config_number(&inner, "kv_n_heads", 1, HEADS_MAX, *heads_kv, heads_kv);
}

static kvt_status heads_read(const config *c, config_sizes *s) {
    TRY(config_number(c, "num_attention_heads|n_head|n_heads", 1, HEADS_MAX, CONFIG_REQUIRED, &s->heads));
    TRY(config_number(c, "num_key_value_heads|num_kv_heads|n_head_kv", 1, HEADS_MAX, s->heads, &s->heads_kv));
    if (is_multi_query(c)) s->heads_kv = 1;
    TRY(heads_of_attention(c, &s->heads_kv));
    if (s->heads % s->heads_kv != 0)
        return config_fail(c, KVT_E_CORRUPT, "num_attention_heads is %d, no multiple of num_key_value_heads, %d",
                           s->heads, s->heads_kv);
    TRY(config_number(c, "head_dim", 1, DIM_MAX, 0, &s->dim));
    if (s->dim == 0 && s->width % s->heads != 0)
        return config_fail(c, KVT_E_CORRUPT, "hidden_size is %d, no multiple of num_attention_heads, %d", s->width,
                           s->heads);
    if (s->dim == 0) s->dim = s->width / s->heads;
    return s->dim <= DIM_MAX ? KVT_OK
                             : config_fail(c, KVT_E_CORRUPT, "hidden_size is %d: %d heads of more than %d elements",
                                           s->width, s->heads, DIM_MAX);
}

static kvt_status window_read(const config *c, config_sizes *s) {
    bool qwen = strncmp(c->family->type, "qwen", 4) == 0;
    bool used = config_flag(c, "use_sliding_window", !qwen);
    TRY(config_number(c, "sliding_window|sliding_window_size", 0, 1 << 30, 0, &s->window));
    if (!used) s->window = 0;
    if (s->window > 0 && qwen && !is_family(c, "qwen2") && !is_family(c, "qwen3"))
        return config_fail(c, KVT_E_UNSUPPORTED, "use_sliding_window: which layers of a \"%s\" have one is not known",
                           c->family->type);
    return KVT_OK;
}

static kvt_status sizes_read(const config *c, config_sizes *s) {
    int expansion;
    TRY(config_number(c, "num_hidden_layers|n_layer|n_layers", 1, LAYERS_MAX, CONFIG_REQUIRED, &s->n_layers));
    TRY(config_number(c, "hidden_size|n_embd|d_model|n_embed", 1, WIDTH_MAX, CONFIG_REQUIRED, &s->width));
    TRY(heads_read(c, s));
    TRY(config_number(c, "expansion_ratio", 1, 64, 4, &expansion));
    TRY(config_number(c, "intermediate_size|ffn_hidden_size|n_inner|ffn_dim", 1, WIDTH_MAX,
                      expansion * (int64_t)s->width, &s->ffn));
    TRY(config_number(c, "vocab_size", 1, 1 << 24, CONFIG_REQUIRED, &s->vocab));
    TRY(config_number(c, "max_position_embeddings|n_positions|max_seq_len|seq_length", 1, 1 << 30, 0, &s->context));
    return window_read(c, s);
}

/* ------------------------------------------------------------------------------------------------- the layers */

static kvt_layer heads_layer(const config_sizes *s, bool window) {
    return (kvt_layer){ .kind = window ? KVT_LAYER_WINDOW : KVT_LAYER_FULL, .n_heads_q = s->heads,
                        .n_heads_kv = s->heads_kv, .dim_k = s->dim, .dim_v = s->dim,
                        .window = window ? s->window : 0 };
}

/* MLA: one latent and one rotary key; with an index key where the model chooses tokens (DeepSeek-V3.2). */
static kvt_status latent_layer(const config *c, kvt_layer *out) {
    int latent, rope, index;
    TRY(config_number(c, "kv_lora_rank", 1, DIM_MAX, CONFIG_REQUIRED, &latent));
    TRY(config_number(c, "qk_rope_head_dim", 1, DIM_MAX, CONFIG_REQUIRED, &rope));
    TRY(config_number(c, "index_head_dim", 1, DIM_MAX, 0, &index));
    *out = (kvt_layer){ .kind = index ? KVT_LAYER_SPARSE : KVT_LAYER_LATENT, .dim_k = rope, .dim_v = latent,
                        .dim_index = index };
    return KVT_OK;
}

/* Mamba (Jamba): a state of d_inner x d_state in float32, and the last inputs of the convolution in 16 bits. */
static kvt_status mamba_layer(const config *c, const config_sizes *s, kvt_layer *out) {
    int state, conv, expand;
    TRY(config_number(c, "mamba_d_state", 1, 4096, CONFIG_REQUIRED, &state));
    TRY(config_number(c, "mamba_d_conv", 1, 64, CONFIG_REQUIRED, &conv));
    TRY(config_number(c, "mamba_expand", 1, 16, CONFIG_REQUIRED, &expand));
    size_t inner = (size_t)expand * (size_t)s->width;
    *out = (kvt_layer){ .kind = KVT_LAYER_STATE, .state_bytes = inner * ((size_t)state * 4 + (size_t)(conv - 1) * 2) };
    return KVT_OK;
}

/* Gated delta net (Qwen3-Next): a matrix of dim_k x dim_v for each value head in float32, and the convolution's
 * inputs. */
static kvt_status delta_layer(const config *c, kvt_layer *out) {
    int k_heads, v_heads, k_dim, v_dim, conv;
    TRY(config_number(c, "linear_num_key_heads", 1, HEADS_MAX, CONFIG_REQUIRED, &k_heads));
    TRY(config_number(c, "linear_num_value_heads", 1, HEADS_MAX, CONFIG_REQUIRED, &v_heads));
    TRY(config_number(c, "linear_key_head_dim", 1, 4096, CONFIG_REQUIRED, &k_dim));
    TRY(config_number(c, "linear_value_head_dim", 1, 4096, CONFIG_REQUIRED, &v_dim));
    TRY(config_number(c, "linear_conv_kernel_dim", 1, 64, CONFIG_REQUIRED, &conv));
    size_t inputs = 2 * (size_t)k_heads * (size_t)k_dim + (size_t)v_heads * (size_t)v_dim;
    size_t state = (size_t)v_heads * (size_t)k_dim * (size_t)v_dim * 4;
    *out = (kvt_layer){ .kind = KVT_LAYER_STATE, .state_bytes = state + inputs * (size_t)(conv - 1) * 2 };
    return KVT_OK;
}

/* The word of layer i in layer_types; NULL: there is no such list. */
static kvt_status layer_type(const config *c, const config_sizes *s, int i, const char **out) {
    const json_t *list = config_value(c, "layer_types");
    *out = NULL;
    if (!list) return KVT_OK;
    if (!json_is_array(list) || json_array_size(list) != (size_t)s->n_layers)
        return config_fail(c, KVT_E_CORRUPT, "layer_types is no list of num_hidden_layers, %d, words", s->n_layers);
    *out = json_string_value(json_array_get(list, (size_t)i));
    return *out ? KVT_OK : config_fail(c, KVT_E_CORRUPT, "layer_types: entry %d is no word", i);
}

static kvt_status unknown_type(const config *c, const char *type) {
    return config_fail(c, KVT_E_UNSUPPORTED, "layer_types: \"%.60s\" is not a kind of layer that is known", type);
}

/* Does layer i of a hybrid model attend? */
static kvt_status hybrid_attends(const config *c, const config_sizes *s, int i, bool *out) {
    int period, offset;
    const char *type;
    TRY(layer_type(c, s, i, &type));
    if (type) {
        *out = strcmp(type, "full_attention") == 0;
        return *out || strcmp(type, "linear_attention") == 0 ? KVT_OK : unknown_type(c, type);
    }
    TRY(config_number(c, "attn_layer_period|full_attention_interval", 1, LAYERS_MAX, CONFIG_REQUIRED, &period));
    TRY(config_number(c, "attn_layer_offset", 0, LAYERS_MAX, period - 1, &offset));
    if (offset >= period)
        return config_fail(c, KVT_E_CORRUPT, "attn_layer_offset is %d, attn_layer_period %d", offset, period);
    *out = i % period == offset;
    return KVT_OK;
}

/* Is layer i one with a window? */
static kvt_status windowed(const config *c, const config_sizes *s, int i, bool *out) {
    const char *type;
    int every = c->family->full_every, from = s->n_layers;
    TRY(layer_type(c, s, i, &type));
    *out = type && strcmp(type, "sliding_attention") == 0;
    if (*out && s->window == 0) return config_fail(c, KVT_E_CORRUPT, "layer_types has sliding_attention, and there is "
                                                                     "no sliding_window");
    if (type) return *out || strcmp(type, "full_attention") == 0 ? KVT_OK : unknown_type(c, type);
    if (s->window == 0) return KVT_OK;
    TRY(config_number(c, "sliding_window_pattern|_sliding_window_pattern", 1, LAYERS_MAX, every, &every));
    TRY(config_number(c, "max_window_layers", 0, LAYERS_MAX, s->n_layers, &from)); /* Qwen: those behind */
    *out = every == 0 || (every > 1 && (i + 1) % every != 0) || i >= from;
    return KVT_OK;
}

static kvt_status layer_of(const config *c, const config_sizes *s, int i, kvt_layer *out) {
    family_kind kind = c->family->kind;
    bool yes = false;
    if (kind == FAMILY_LATENT) return latent_layer(c, out);
    if (kind == FAMILY_HEADS) {
        TRY(windowed(c, s, i, &yes));
        *out = heads_layer(s, yes);
        return KVT_OK;
    }
    TRY(hybrid_attends(c, s, i, &yes));
    if (!yes) return kind == FAMILY_MAMBA ? mamba_layer(c, s, out) : delta_layer(c, out);
    *out = heads_layer(s, false);
    return KVT_OK;
}

/* ---------------------------------------------------------------------------------------------------- the file */

static kvt_status layers_read(const config *c, const config_sizes *s, shape *out) {
    for (int i = 0; i < s->n_layers; i++) {
        kvt_layer layer;
        TRY(layer_of(c, s, i, &layer));
        if (!shape_add(out, layer))
            return config_fail(c, KVT_E_UNSUPPORTED, "its layers are of more than %d kinds", SHAPE_GROUPS_MAX);
    }
    return KVT_OK;
}

/* The exact size stands beside the weights, where they were downloaded too. */
static void weights_index(const char *path, shape *out) {
    char index[NAME_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(index, sizeof index, "%.*smodel.safetensors.index.json", slash ? (int)(slash - path) + 1 : 0, path);
    struct stat st;
    bool usable = stat(index, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= CONFIG_BYTES_MAX;
    json_t *root = usable ? json_load_file(index, 0, NULL) : NULL;
    const json_t *size = json_object_get(json_object_get(root, "metadata"), "total_size");
    double bytes = json_number_value(size);
    if (bytes > 0 && bytes < 0x1p62 && out->weights_bytes > 0) shape_weigh_all(out, bytes);
    json_decref(root);
}

static kvt_status config_shape(config *c, shape *out) {
    config_sizes s = { 0 };
    TRY(sizes_read(c, &s));
    TRY(layers_read(c, &s, out));
    snprintf(out->name, sizeof out->name, "%s", c->family->type);
    snprintf(out->source, sizeof out->source, "%.150s", c->path);
    out->n_heads_q = s.heads;
    out->dim_head = s.dim;
    if (c->family->kind == FAMILY_LATENT)
        TRY(config_number(c, "v_head_dim", 1, DIM_MAX, CONFIG_REQUIRED, &out->dim_head));
    TRY(config_number(c, "index_topk", 1, 1 << 30, 0, &out->tokens_chosen));
    out->width = s.width;
    out->width_ffn = s.ffn;
    out->n_vocab = s.vocab;
    out->context = s.context;
    TRY(config_weights(c, &s, out));
    weights_index(c->path, out);
    return KVT_OK;
}

/* Of a model with pictures or sound, the part that makes text is an object of its own. */
static kvt_status config_read(config *c, shape *out) {
    const json_t *text = json_object_get(c->root, "text_config");
    const char *type = json_string_value(json_object_get(c->root, "model_type"));
    if (json_is_object(text)) {
        const char *inner = json_string_value(json_object_get(text, "model_type"));
        c->root = text;
        if (inner) type = inner;
    }
    if (!type) return config_fail(c, KVT_E_CORRUPT, "the key model_type is missing");
    c->family = family_of(type);
    if (!c->family)
        return config_fail(c, KVT_E_UNSUPPORTED, "model_type \"%.60s\" is not one whose layers are known", type);
    json_t *defaults = c->family->defaults ? json_loads(c->family->defaults, 0, NULL) : NULL;
    c->defaults = defaults;
    kvt_status status = config_shape(c, out);
    json_decref(defaults);
    return status;
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
    if (stat(path, &st) != 0) return config_fail(&c, KVT_E_ARGUMENT, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return config_fail(&c, KVT_E_ARGUMENT, "is no file");
    if (st.st_size > CONFIG_BYTES_MAX) return config_fail(&c, KVT_E_CORRUPT, "is too large for a config.json");
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (!root && wrong.line < 0) return config_fail(&c, KVT_E_ARGUMENT, "%s", strerror(errno)); /* not to be opened */
    if (!root) return config_fail(&c, KVT_E_CORRUPT, "line %d: %s", wrong.line, wrong.text);
    c.root = root;
    kvt_status status =
        json_is_object(root) ? config_read(&c, out) : config_fail(&c, KVT_E_CORRUPT, "is no JSON object");
    json_decref(root);
    return status;
}
