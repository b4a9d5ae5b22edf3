/* arch.c - the table of architectures: a row each, and the names that tensors go by in GGUF files. */
#include "arch.h"

#include <stdio.h>
#include <string.h>

/* Names of layers hold one %d: the layer. */
static const char *const usual_names[N_TENSOR_ROLES] = {
    [TENSOR_EMBEDDING] = "token_embd.weight",
    [TENSOR_OUTPUT_NORM] = "output_norm.weight",
    [TENSOR_OUTPUT] = "output.weight",
    [TENSOR_ROPE_FREQS] = "rope_freqs.weight",
    [TENSOR_ROPE_LONG] = "rope_factors_long.weight",
    [TENSOR_ROPE_SHORT] = "rope_factors_short.weight",
    [TENSOR_ATTN_NORM] = "blk.%d.attn_norm.weight",
    [TENSOR_Q] = "blk.%d.attn_q.weight",
    [TENSOR_K] = "blk.%d.attn_k.weight",
    [TENSOR_V] = "blk.%d.attn_v.weight",
    [TENSOR_QKV] = "blk.%d.attn_qkv.weight",
    [TENSOR_Q_BIAS] = "blk.%d.attn_q.bias",
    [TENSOR_K_BIAS] = "blk.%d.attn_k.bias",
    [TENSOR_V_BIAS] = "blk.%d.attn_v.bias",
    [TENSOR_QKV_BIAS] = "blk.%d.attn_qkv.bias",
    [TENSOR_Q_NORM] = "blk.%d.attn_q_norm.weight",
    [TENSOR_K_NORM] = "blk.%d.attn_k_norm.weight",
    [TENSOR_ATTN_OUTPUT] = "blk.%d.attn_output.weight",
    [TENSOR_ATTN_OUTPUT_BIAS] = "blk.%d.attn_output.bias",
    [TENSOR_ATTN_POST_NORM] = "blk.%d.post_attention_norm.weight",
    [TENSOR_FFN_NORM] = "blk.%d.ffn_norm.weight",
    [TENSOR_GATE] = "blk.%d.ffn_gate.weight",
    [TENSOR_UP] = "blk.%d.ffn_up.weight",
    [TENSOR_DOWN] = "blk.%d.ffn_down.weight",
    [TENSOR_GATE_BIAS] = "blk.%d.ffn_gate.bias",
    [TENSOR_UP_BIAS] = "blk.%d.ffn_up.bias",
    [TENSOR_DOWN_BIAS] = "blk.%d.ffn_down.bias",
    [TENSOR_FFN_POST_NORM] = "blk.%d.post_ffw_norm.weight",
};

/* What rows are put together from. */
#define OUTSIDE (ROLE(TENSOR_EMBEDDING) | ROLE(TENSOR_OUTPUT_NORM))
#define PROJECTIONS (ROLE(TENSOR_Q) | ROLE(TENSOR_K) | ROLE(TENSOR_V) | ROLE(TENSOR_ATTN_OUTPUT))
#define GATED (ROLE(TENSOR_GATE) | ROLE(TENSOR_UP) | ROLE(TENSOR_DOWN))
#define NORMS_BEFORE (ROLE(TENSOR_ATTN_NORM) | ROLE(TENSOR_FFN_NORM))
#define NORMS_BEHIND (ROLE(TENSOR_ATTN_POST_NORM) | ROLE(TENSOR_FFN_POST_NORM))
#define NORMS_OF_HEADS (ROLE(TENSOR_Q_NORM) | ROLE(TENSOR_K_NORM))
#define BIASES \
    (ROLE(TENSOR_Q_BIAS) | ROLE(TENSOR_K_BIAS) | ROLE(TENSOR_V_BIAS) | ROLE(TENSOR_QKV_BIAS) | \
     ROLE(TENSOR_ATTN_OUTPUT_BIAS) | ROLE(TENSOR_GATE_BIAS) | ROLE(TENSOR_UP_BIAS) | ROLE(TENSOR_DOWN_BIAS))
#define FACTORS (ROLE(TENSOR_ROPE_FREQS) | ROLE(TENSOR_ROPE_LONG) | ROLE(TENSOR_ROPE_SHORT))

#define LLAMA (OUTSIDE | PROJECTIONS | GATED | NORMS_BEFORE)
#define USUAL (ROLE(TENSOR_OUTPUT) | ROLE(TENSOR_QKV) | BIASES | FACTORS)

/* In GGUF the rows of q and k lie so that a pair of rope is side by side, or as they came, half a head apart: which of
 * the two is a matter of the architecture. */
static const model_arch archs[] = {
    /* Llama 1 to 3, and what is built like it: Mistral 7B, SmolLM, TinyLlama */
    { .name = "llama", .needed = LLAMA, .optional = USUAL },
    { .name = "mistral3", .needed = LLAMA, .optional = USUAL },
    { .name = "qwen2", .needed = LLAMA, .optional = USUAL, .rope_halves = true },
    { .name = "qwen3", .needed = LLAMA | NORMS_OF_HEADS, .optional = USUAL, .rope_halves = true },
    { .name = "smollm3", .needed = LLAMA, .optional = USUAL, .rope_skip = 4 },
    { .name = "phi3", .needed = LLAMA & ~ROLE(TENSOR_GATE), .optional = USUAL, .rope_halves = true },
    { .name = "granite",
      .needed = LLAMA,
      .optional = USUAL,
      .rope_on = "rope.scaling.finetuned",
      .embedding_scale = "embedding_scale",
      .residual_scale = "residual_scale",
      .logit_divisor = "logit_scale" },
    { .name = "olmo2",
      .needed = OUTSIDE | PROJECTIONS | GATED | NORMS_BEHIND | NORMS_OF_HEADS,
      .optional = USUAL,
      .rope_halves = true },
    { .name = "seed_oss",
      .needed = LLAMA,
      .optional = USUAL,
      .renamed = { TENSOR_FFN_NORM, "blk.%d.post_attention_norm.weight" },
      .rope_halves = true },
    { .name = "ernie4_5", .needed = LLAMA, .optional = USUAL },
    { .name = "glm4", .needed = (LLAMA | NORMS_BEHIND) & ~ROLE(TENSOR_GATE), .optional = USUAL },
};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

const model_arch *arch_find(file_text name) {
    for (size_t i = 0; i < N_ARCHS; i++)
        if (file_text_is(name, archs[i].name)) return &archs[i];
    return NULL;
}

void arch_names(char *out, size_t room) {
    size_t at = 0;
    for (size_t i = 0; i < N_ARCHS && at < room; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? ", " : "", archs[i].name);
}

const char *arch_tensor_name(const model_arch *arch, tensor_role role, int layer, char name[TENSOR_NAME_BYTES]) {
    bool renamed = arch->renamed.name && arch->renamed.role == role;
    const char *format = renamed ? arch->renamed.name : usual_names[role], *place = strstr(format, "%d");
    if (place) snprintf(name, TENSOR_NAME_BYTES, "%.*s%d%s", (int)(place - format), format, layer, place + 2);
    else snprintf(name, TENSOR_NAME_BYTES, "%s", format);
    return name;
}
