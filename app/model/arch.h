/* arch.h - what tells one architecture from another: a row of tensors, names and options for config, weights and block.
 *
 * An architecture is described, not subclassed: the forward pass asks what is there, never which architecture it is.
 * docs/add-a-model.md is the recipe for another row. */
#ifndef APP_ARCH_H
#define APP_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/file.h"

/* What a file's tensors are for: one of each outside the layers, and one of each in every layer. */
typedef enum tensor_role {
    TENSOR_EMBEDDING,
    TENSOR_OUTPUT_NORM,
    TENSOR_OUTPUT,     /* absent: the embedding serves as output matrix too */
    TENSOR_ROPE_FREQS, /* what the rotary frequencies are divided by, [rope dim / 2] */
    TENSOR_ROPE_LONG,  /* likewise, in contexts longer than the original one, */
    TENSOR_ROPE_SHORT, /* and in others */

    TENSOR_ATTN_NORM,
    TENSOR_Q, /* q, k, v in this order, here and in biases: it is theirs in fused tensors */
    TENSOR_K,
    TENSOR_V,
    TENSOR_QKV, /* rows of q, k and v in one matrix, instead of the three */
    TENSOR_Q_BIAS,
    TENSOR_K_BIAS,
    TENSOR_V_BIAS,
    TENSOR_QKV_BIAS,
    TENSOR_Q_NORM, /* as long as a head: each head for itself; as a row: all heads together */
    TENSOR_K_NORM,
    TENSOR_ATTN_OUTPUT,
    TENSOR_ATTN_OUTPUT_BIAS,
    TENSOR_ATTN_POST_NORM, /* of what attention adds to the rows */

    TENSOR_FFN_NORM,
    TENSOR_GATE,
    TENSOR_UP, /* without a gate in the row: the rows of gate and of up in one matrix */
    TENSOR_DOWN,
    TENSOR_GATE_BIAS,
    TENSOR_UP_BIAS,
    TENSOR_DOWN_BIAS,
    TENSOR_FFN_POST_NORM, /* of what the feed-forward part adds */
    N_TENSOR_ROLES
} tensor_role;

/* A set of roles. */
#define ROLE(role) (UINT32_C(1) << (role))

typedef struct model_arch {
    const char *name;          /* general.architecture, and the prefix of its keys */
    uint32_t needed, optional; /* roles; a file with a tensor of any other is refused */
    struct {
        tensor_role role;
        const char *name;
    } renamed; /* the one tensor, if any, that goes by another name than usual */

    bool rope_halves;    /* rope turns (i, i + dim/2); otherwise (2i, 2i + 1) */
    int rope_skip;       /* every layer of this many, the last of them, does not turn; 0: all turn */
    const char *rope_on; /* key of a flag: false, no layer turns; NULL: there is none */

    /* Keys of factors; NULL: the architecture has none. On rows of the embedding, and on what attention and the
     * feed-forward part add to the rows; logits are divided by theirs. */
    const char *embedding_scale, *residual_scale, *logit_divisor;
} model_arch;

/* The row of that name; NULL: there is none. */
const model_arch *arch_find(file_text name);

/* All names, for a sentence: "llama, mistral3, ...". */
void arch_names(char *out, size_t room);

enum { TENSOR_NAME_BYTES = 64 };

/* Name of the tensor of a role; layer counts only for those in layers. */
const char *arch_tensor_name(const model_arch *arch, tensor_role role, int layer, char name[TENSOR_NAME_BYTES]);

static inline bool arch_may_have(const model_arch *arch, tensor_role role) {
    return ((arch->needed | arch->optional) & ROLE(role)) != 0;
}

#endif
