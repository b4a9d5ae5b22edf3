/* model.h - the door of the model: a file becomes description, weights, tokenizer; a batch of tokens becomes logits.
 *
 * Owns the forward pass and everything it reads. Knows no requests: who is in a batch, and when, is the engine's. */
#ifndef APP_MODEL_H
#define APP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chat.h"
#include "file/file.h"
#include "kvtile.h"
#include "kvtile_ops.h"
#include "tokenizer.h"
#include "utf8.h"

/* How rotary frequencies are stretched to contexts longer than they were made for; rope.c has the formulas. */
typedef enum rope_scaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_YARN } rope_scaling;
/* Tensors of factors, one for each frequency: none, one for every context, or two to choose from by the context. */
typedef enum rope_factors { ROPE_FACTORS_NONE, ROPE_FACTORS_ONE, ROPE_FACTORS_TWO } rope_factors;

typedef struct rope_config {
    int dim; /* elements of a head that turn */
    float base;
    bool halves;
    rope_scaling scaling;
    rope_factors factors;
    float factor;               /* by which positions shrink */
    int original;               /* the context before stretching */
    float beta_fast, beta_slow; /* yarn: turns over the original context, above and below which it takes one side */
    float magnitude;
    int skip; /* every layer of this many, the last of them, does not turn; 0: all turn */
} rope_config;

/* What the file's keys say, checked. */
typedef struct model_config {
    const char *arch; /* "llama" */
    int n_layers, n_vocab, context; /* context: the positions it was trained on */
    int limit;                      /* the longest context that is computed as the model means it; 0: any */
    const char *limit_key;          /* the key behind it */
    int width, width_ffn;           /* elements of a row between layers, and inside the feed-forward part */
    int n_heads_q, n_heads_kv, dim_k, dim_v;
    float norm_eps;
    float attention_scale; /* 0: 1 / sqrt(dim_k) */
    float embedding_scale, residual_scale, logit_scale;
    rope_config rope;
} model_config;

/* What a weights file holds besides; for people. */
typedef struct model_info {
    char name[128];      /* general.name, "" where the file has none */
    size_t weights_bytes; /* of the tensors as they lie in the file */
    size_t n_weights;     /* elements of all tensors */
    char types[256];      /* tensor types and their counts: "Q4_1 210, Q8_0 1, F32 61" */
    char special[192];    /* what a plain Llama has not: "biases, norm of each head"; "" for nothing */
} model_info;

typedef struct model model;

/* Read the description alone: keys and tensor directory, no weights. */
kvt_status model_describe(const char *path, model_config *config, model_info *info, error_text *err);

/* Open a .gguf file and pack its weights on the pool, which stays the caller's and is not kept.
 * KVT_E_UNSUPPORTED: an architecture, a tensor type or a key this build does not know; KVT_E_ARGUMENT: no such file;
 * KVT_E_CORRUPT: one that contradicts itself; KVT_E_MEMORY. */
kvt_status model_open(model **out, const char *path, kvt_workers *team, error_text *err);
void model_close(model *m); /* NULL is fine */

/* The weights that a step multiplies with: every matrix of the layers, and the output matrix. */
typedef struct model_products {
    size_t n_weights;
    size_t packed_bytes; /* a step of few rows reads each of them once */
} model_products;

const model_config *model_config_of(const model *m);
model_products model_products_of(const model *m);
const model_info *model_info_of(const model *m);
const tokenizer *model_tokenizer(const model *m);
/* Never NULL. Where the file has no chat template that this build knows it is plain text, and err says so in a sentence
 * for a warning; "" otherwise. */
const chat *model_chat(const model *m, error_text *err);

/* The context of an engine that is told none: what the model was trained on, or the limit where that is less. */
int model_context(const model_config *config);

/* The layers as a cache is told of them: [n_layers], the same for each layer of this family. */
void model_layers(const model_config *config, kvt_layer *out);

/* Everything outside a cache that its keys and values depend on, for kvt_options.identity: the weights, what the file
 * says of the arithmetic, the rotary frequencies chosen for `context` (see model_state_new), the precision of products,
 * the numeric contract. The first time it reads the whole file; what it finds is kept, see weights_hash.h.
 * KVT_E_STATE: the file has changed since the model was opened; else as model_open. */
enum { MODEL_IDENTITY_BYTES = 32 };
kvt_status model_identity(const model *m, int context, kvt_math math, uint8_t out[MODEL_IDENTITY_BYTES],
                          error_text *err);

/* ------------------------------------------------------------------------------------------- forward pass */

/* Scratch of a forward pass of up to rows_max rows: all memory that a step needs. */
typedef struct model_state model_state;

/* context: the longest sequence there will be. Some models turn by other frequencies in long contexts than in short
 * ones; the choice is made here, once, so that what a cache keeps fits whatever is computed on top of it. */
kvt_status model_state_new(model_state **out, const model *m, int rows_max, int context, kvt_math math,
                           kvt_workers *team);
void model_state_free(model_state *s); /* NULL is fine */

/* One step: the batch's new tokens through all layers. */
typedef struct model_step {
    kvt_batch batch;
    const int32_t *tokens; /* [n_rows], each 0 .. n_vocab - 1 */
    const int *wanted;     /* [n_wanted] rows whose logits are asked for, ascending */
    int n_wanted;
    float *logits; /* [n_wanted][n_vocab] */
} model_step;

/* The caller has reserved the batch in `cache`; it commits after success and aborts after failure. */
kvt_status model_forward(model_state *s, kvt_cache *cache, const model_step *step);

#endif
