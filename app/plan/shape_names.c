/* shape_names.c - models that a plan knows by name. Every number stands in the config.json that the model was
 * published with; the counts of weights in its model card or paper. */
#include "shape.h"

#include <stdio.h>
#include <string.h>

/* What is 0 is not there. Layers attend with `heads` query heads over heads_kv of `dim`, or by a latent; every
 * full_every-th layer is full and the others have the window (0: all have it, if there is one); every attends_every-th
 * layer attends at all, and the others keep a state. */
typedef struct named {
    const char *name, *source;
    int n_layers, heads, heads_kv, dim, width, ffn, vocab, context;
    double weights, active; /* 1e9 */
    double gigabytes;       /* of the weights as published, where it is not 16 bits for each */
    int window, full_every;
    int latent, rope, index;
    int attends_every;
    size_t state_bytes;
} named;

static const named table[] = {
    { "llama-3-8b", "meta-llama/Meta-Llama-3-8B", 32, 32, 8, 128, 4096, 14336, 128256, 8192, 8.030, 8.030, 0 },
    { "llama-3-70b", "meta-llama/Meta-Llama-3-70B", 80, 64, 8, 128, 8192, 28672, 128256, 8192, 70.554, 70.554, 0 },
    { "llama-3.1-8b", "meta-llama/Llama-3.1-8B", 32, 32, 8, 128, 4096, 14336, 128256, 131072, 8.030, 8.030, 0 },
    { "llama-3.1-70b", "meta-llama/Llama-3.1-70B", 80, 64, 8, 128, 8192, 28672, 128256, 131072, 70.554, 70.554, 0 },
    { "llama-3.2-1b", "meta-llama/Llama-3.2-1B", 16, 32, 8, 64, 2048, 8192, 128256, 131072, 1.236, 1.236, 0 },
    { "mistral-7b", "mistralai/Mistral-7B-v0.1", 32, 32, 8, 128, 4096, 14336, 32000, 32768, 7.242, 7.242, 0,
      .window = 4096 },
    { "mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1", 32, 32, 8, 128, 4096, 14336, 32000, 32768, 46.703, 12.880, 0 },
    { "deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite", 27, 16, 16, 128, 2048, 10944, 102400, 163840, 15.706, 2.663,
      0, .latent = 512, .rope = 64 },
    { "deepseek-v3", "deepseek-ai/DeepSeek-V3", 61, 128, 128, 128, 7168, 18432, 129280, 163840, 671.026, 37.552, 0,
      .latent = 512, .rope = 64 },
    { "deepseek-v3.2", "deepseek-ai/DeepSeek-V3.2-Exp", 61, 128, 128, 128, 7168, 18432, 129280, 163840, 671.877, 37.5,
      0, .latent = 512, .rope = 64, .index = 128 },
    { "jamba-v0.1", "ai21labs/Jamba-v0.1", 32, 32, 8, 128, 4096, 14336, 65536, 262144, 51.570, 12.0, 0,
      .attends_every = 8, .state_bytes = (size_t)8192 * (16 * 4 + 4 * 2) },
    { "gemma-3-270m", "google/gemma-3-270m", 18, 4, 1, 256, 640, 2048, 262144, 32768, 0.268, 0.268, 0, .window = 512,
      .full_every = 6 },
    { "gemma-3-27b", "google/gemma-3-27b-pt", 62, 32, 16, 128, 5376, 21504, 262208, 131072, 27.009, 27.009, 0,
      .window = 1024, .full_every = 6 },
    { "qwen2.5-7b", "Qwen/Qwen2.5-7B", 28, 28, 4, 128, 3584, 18944, 152064, 131072, 7.616, 7.616, 0 },
    { "qwen3-8b", "Qwen/Qwen3-8B", 36, 32, 8, 128, 4096, 12288, 151936, 40960, 8.191, 8.191, 0 },
    { "qwen3-next-80b", "Qwen/Qwen3-Next-80B-A3B-Instruct", 48, 16, 2, 256, 2048, 5120, 151936, 262144, 80.0, 3.0, 0,
      .attends_every = 4, .state_bytes = (size_t)32 * 128 * 128 * 4 + (size_t)(2 * 16 * 128 + 32 * 128) * 3 * 2 },
    { "gpt-oss-20b", "openai/gpt-oss-20b", 24, 64, 8, 64, 2880, 2880, 201088, 131072, 20.9, 3.6, 13.8, .window = 128,
      .full_every = 2 },
    { "gpt2", "openai-community/gpt2", 12, 12, 12, 64, 768, 3072, 50257, 1024, 0.124440, 0.124440, 0 },
    { "falcon-7b", "tiiuae/falcon-7b", 32, 71, 1, 64, 4544, 18176, 65024, 2048, 7.218, 7.218, 0 },
    { "smollm2-135m", "HuggingFaceTB/SmolLM2-135M", 30, 9, 3, 64, 576, 1536, 49152, 8192, 0.134515, 0.134515, 0 },
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
    out->n_weights = 1e9 * n->weights;
    out->n_weights_active = 1e9 * n->active;
    shape_weigh(out, n->gigabytes ? n->gigabytes / n->weights : BYTES_EACH);
}

bool shape_of_name(shape *out, const char *name) {
    for (int i = 0; i < N_NAMED; i++)
        if (strcmp(table[i].name, name) == 0) {
            fill(out, &table[i]);
            return true;
        }
    return false;
}
