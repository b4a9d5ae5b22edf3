/* shape_names.c - models that a plan knows by name. Every number stands in the config.json that the model was
 * published with; the counts of weights are those of the model built from it (tests/vectors/configs.py), without parts
 * for images or for drafting. */
#include "shape.h"

#include <stdio.h>
#include <string.h>

/* What is 0 is not there. Layers attend with `heads` query heads over heads_kv of `dim`, or by a latent; every
 * full_every-th layer is full and the others have the window (0: all have it, if there is one); every attends_every-th
 * layer attends at all, and the others keep a state. */
typedef struct named {
    const char *name, *source;
    int n_layers, heads, heads_kv, dim, width, ffn, vocab, context;
    double weights, active; /* how many, and of experts as many as a token meets */
    double bytes, bytes_active; /* of the weights as published, where it is not 16 bits for each */
    bool tied; /* the output matrix is the embedding */
    int window, full_every;
    int latent, rope, index, chosen;
    int attends_every;
    size_t state_bytes;
} named;

/* 8 bits each with a float32 for 128 x 128 of them, embedding and output in 16. */
#define FP8(weights, vocab, width) ((weights) * (1 + 4.0 / (128 * 128)) + 2.0 * (vocab) * (width))

static const named table[] = {
    { "llama-3-8b", "meta-llama/Meta-Llama-3-8B", 32, 32, 8, 128, 4096, 14336, 128256, 8192,
      8030261248.0, 8030261248.0 },
    { "llama-3-70b", "meta-llama/Meta-Llama-3-70B", 80, 64, 8, 128, 8192, 28672, 128256, 8192,
      70553706496.0, 70553706496.0 },
    { "llama-3.1-8b", "meta-llama/Llama-3.1-8B", 32, 32, 8, 128, 4096, 14336, 128256, 131072,
      8030261248.0, 8030261248.0 },
    { "llama-3.1-70b", "meta-llama/Llama-3.1-70B", 80, 64, 8, 128, 8192, 28672, 128256, 131072,
      70553706496.0, 70553706496.0 },
    { "llama-3.2-1b", "meta-llama/Llama-3.2-1B", 16, 32, 8, 64, 2048, 8192, 128256, 131072,
      1235814400.0, 1235814400.0, .tied = true },
    { "mistral-7b", "mistralai/Mistral-7B-v0.1", 32, 32, 8, 128, 4096, 14336, 32000, 32768,
      7241732096.0, 7241732096.0, .window = 4096 },
    { "mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1", 32, 32, 8, 128, 4096, 14336, 32000, 32768,
      46702792704.0, 12879925248.0 },
    { "deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite", 27, 16, 16, 128, 2048, 10944, 102400, 163840,
      15706484224.0, 2661150208.0, .latent = 512, .rope = 64 },
    { "deepseek-v3", "deepseek-ai/DeepSeek-V3", 61, 128, 128, 128, 7168, 18432, 129280, 163840,
      671026404352.0, 37552282624.0, .latent = 512, .rope = 64,
      .bytes = FP8(671026404352.0, 129280, 7168), .bytes_active = FP8(37552282624.0, 129280, 7168) },
    { "deepseek-v3.2", "deepseek-ai/DeepSeek-V3.2-Exp", 61, 128, 128, 128, 7168, 18432, 129280, 163840,
      671877929216.0, 38403807488.0, .latent = 512, .rope = 64, .index = 128, .chosen = 2048,
      .bytes = FP8(671877929216.0, 129280, 7168), .bytes_active = FP8(38403807488.0, 129280, 7168) },
    { "jamba-v0.1", "ai21labs/Jamba-v0.1", 32, 32, 8, 128, 4096, 14336, 65536, 262144,
      51570323328.0, 12110311296.0, .attends_every = 8, .state_bytes = 8192 * (16 * 4 + 3 * 2) },
    { "gemma-3-270m", "google/gemma-3-270m", 18, 4, 1, 256, 640, 2048, 262144, 32768,
      268098176.0, 268098176.0, .window = 512, .full_every = 6, .tied = true },
    { "gemma-3-27b", "google/gemma-3-27b-pt", 62, 32, 16, 128, 5376, 21504, 262208, 131072,
      27009346304.0, 27009346304.0, .window = 1024, .full_every = 6, .tied = true },
    { "qwen2.5-7b", "Qwen/Qwen2.5-7B", 28, 28, 4, 128, 3584, 18944, 152064, 131072,
      7615616512.0, 7615616512.0 },
    { "qwen3-8b", "Qwen/Qwen3-8B", 36, 32, 8, 128, 4096, 12288, 151936, 40960,
      8190735360.0, 8190735360.0 },
    { "qwen3-next-80b", "Qwen/Qwen3-Next-80B-A3B-Instruct", 48, 16, 2, 256, 2048, 5120, 151936, 262144,
      79674391296.0, 3874929408.0, .attends_every = 4,
      .state_bytes = 32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2 },
    { "gpt-oss-20b", "openai/gpt-oss-20b", 24, 64, 8, 64, 2880, 2880, 201088, 131072,
      20914757184.0, 4187440704.0, .window = 128, .full_every = 2, .bytes = 13.76e9, .bytes_active = 4.87e9 },
    { "gpt2", "openai-community/gpt2", 12, 12, 12, 64, 768, 3072, 50257, 1024,
      124439808.0, 124439808.0, .tied = true },
    { "falcon-7b", "tiiuae/falcon-7b", 32, 71, 1, 64, 4544, 18176, 65024, 2048,
      6921720704.0, 6921720704.0, .tied = true },
    { "smollm2-135m", "HuggingFaceTB/SmolLM2-135M", 30, 9, 3, 64, 576, 1536, 49152, 8192,
      134515008.0, 134515008.0, .tied = true },
};
enum { N_NAMED = sizeof table / sizeof table[0] };

const char *shape_name(int i) {
    return i >= 0 && i < N_NAMED ? table[i].name : NULL;
}

static kvt_layer layer_of(const named *n, int i) {
    /* Of a period the last layer attends, or is full, but Jamba's, whose fifth does: which one it is costs the same. */
    if (n->attends_every && (i + 1) % n->attends_every != 0)
        return (kvt_layer){ .kind = KVT_LAYER_STATE, .state_bytes = n->state_bytes };
    if (n->latent)
        return (kvt_layer){ .kind = n->index ? KVT_LAYER_SPARSE : KVT_LAYER_LATENT, .dim_k = n->rope,
                            .dim_v = n->latent, .dim_index = n->index };
    bool window = n->window && (n->full_every == 0 || (i + 1) % n->full_every != 0);
    return (kvt_layer){ .kind = window ? KVT_LAYER_WINDOW : KVT_LAYER_FULL, .n_heads_q = n->heads,
                        .n_heads_kv = n->heads_kv, .dim_k = n->dim, .dim_v = n->dim, .window = window ? n->window : 0 };
}

static void fill(shape *out, const named *n) {
    enum { BYTES_EACH = 2 };
    *out = (shape){ .n_heads_q = n->heads, .dim_head = n->dim, .width = n->width, .width_ffn = n->ffn,
                    .n_vocab = n->vocab, .context = n->context };
    for (int i = 0; i < n->n_layers; i++) shape_add(out, layer_of(n, i)); /* of two kinds at most */
    snprintf(out->name, sizeof out->name, "%s", n->name);
    snprintf(out->source, sizeof out->source, "config.json of %s", n->source);
    out->n_weights = n->weights;
    out->n_weights_active = n->active;
    out->tied = n->tied;
    out->tokens_chosen = n->chosen;
    out->unread_bytes = n->tied ? 0 : (double)BYTES_EACH * n->width * n->vocab;
    out->weights_bytes = n->bytes > 0 ? n->bytes : BYTES_EACH * n->weights;
    out->active_bytes = n->bytes > 0 ? n->bytes_active : BYTES_EACH * n->active;
}

bool shape_of_name(shape *out, const char *name) {
    for (int i = 0; i < N_NAMED; i++)
        if (strcmp(table[i].name, name) == 0) {
            fill(out, &table[i]);
            return true;
        }
    return false;
}
