/* arch_llama.c - Llama and what is built like it (SmolLM, TinyLlama, Mistral): names of tensors and options. */
#include "arch.h"

const model_arch arch_llama = {
    .name = "llama",
    .tensor_names = {
        [TENSOR_EMBEDDING] = "token_embd.weight",
        [TENSOR_OUTPUT_NORM] = "output_norm.weight",
        [TENSOR_OUTPUT] = "output.weight",
        [TENSOR_ATTN_NORM] = "blk.%d.attn_norm.weight",
        [TENSOR_Q] = "blk.%d.attn_q.weight",
        [TENSOR_K] = "blk.%d.attn_k.weight",
        [TENSOR_V] = "blk.%d.attn_v.weight",
        [TENSOR_ATTN_OUTPUT] = "blk.%d.attn_output.weight",
        [TENSOR_FFN_NORM] = "blk.%d.ffn_norm.weight",
        [TENSOR_GATE] = "blk.%d.ffn_gate.weight",
        [TENSOR_UP] = "blk.%d.ffn_up.weight",
        [TENSOR_DOWN] = "blk.%d.ffn_down.weight",
    },
    .output_tied = true,
    .rope_halves = false, /* GGUF stores the rows of q and k so that a pair lies side by side */
};
