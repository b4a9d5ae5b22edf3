/* arch.h - what tells one architecture from another: a row of names and options for config, weights and block.
 *
 * An architecture is described, not subclassed: the forward pass asks the options, it never asks which one it is. */
#ifndef APP_ARCH_H
#define APP_ARCH_H

#include <stdbool.h>

/* The tensors of a layer, and those outside the layers. */
typedef enum tensor_role {
    TENSOR_EMBEDDING,
    TENSOR_OUTPUT_NORM,
    TENSOR_OUTPUT,
    TENSOR_ATTN_NORM,
    TENSOR_Q,
    TENSOR_K,
    TENSOR_V,
    TENSOR_ATTN_OUTPUT,
    TENSOR_FFN_NORM,
    TENSOR_GATE,
    TENSOR_UP,
    TENSOR_DOWN,
    N_TENSOR_ROLES
} tensor_role;

typedef struct model_arch {
    const char *name;                          /* general.architecture, and the prefix of its keys */
    const char *tensor_names[N_TENSOR_ROLES]; /* those of layers hold one %d: the layer */
    bool output_tied;                          /* without an output matrix, the embedding is used */
    bool rope_halves;                          /* rope turns (i, i + dim/2); otherwise (2i, 2i + 1) */
} model_arch;

extern const model_arch arch_llama;

#endif
