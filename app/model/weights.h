/* weights.h - the packed weights of a model and the model itself, inside the room. */
#ifndef APP_WEIGHTS_H
#define APP_WEIGHTS_H

#include "arch.h"
#include "file/file.h"
#include "keys.h"
#include "model.h"

/* Weights of a norm, or a bias: float32. */
typedef struct vector {
    float *at; /* [n]; NULL: the model has none */
    size_t n;
} vector;

typedef struct layer_weights {
    vector attn_norm, attn_post_norm, ffn_norm, ffn_post_norm; /* [width] */
    vector q_norm, k_norm;                                     /* [dim_k] or [heads * dim_k] */
    vector q_bias, k_bias, v_bias, attn_output_bias, gate_bias, up_bias, down_bias; /* [rows of the matrix] */
    kvt_matrix *q, *k, *v, *attn_output;                       /* rows: heads * dim; attn_output: width */
    kvt_matrix *gate, *up, *down;                              /* rows: width_ffn, width_ffn, width */
} layer_weights;

typedef struct model_weights {
    int n_layers;
    kvt_matrix *embedding; /* [n_vocab][width] */
    kvt_matrix *output;    /* [n_vocab][width]; the embedding itself where they are tied */
    vector output_norm;    /* [width] */
    vector rope_freqs, rope_long, rope_short; /* [rope dim / 2] */
    layer_weights *layer;                     /* [n_layers] */
} model_weights;

/* The rotary encoding, for contexts up to the original one and beyond it: two only where the file has two tensors of
 * factors. */
typedef struct model_ropes {
    vector freqs; /* of both, one after the other */
    kvt_rope within, beyond;
} model_ropes;

struct model {
    const model_arch *arch;
    model_config config;
    model_info info;
    model_weights weights;
    model_ropes ropes;
    tokenizer *tokenizer;
    chat *chat;
    char *path; /* of its file, without links in it */
    file_stamp stamp;
    error_text no_template; /* why chat is plain text; "" where its template is known */
};

/* Pack every tensor that the architecture names. On failure what was packed is left to weights_free. */
kvt_status weights_load(model_weights *w, const model_arch *arch, const model_config *c, const model_file *f,
                        kvt_workers *team, error_text *err);
void weights_free(model_weights *w);

/* rope.c: the keys of position encoding, and the frequencies that they and the tensors of factors come to. */
kvt_status rope_read(const key_reader *r, model_config *c);
kvt_status ropes_make(model_ropes *ropes, const model_config *c, const model_weights *w, const model_file *f,
                      error_text *err);
void ropes_free(model_ropes *ropes);

/* The one that is chosen for the longest sequence there will be. */
static inline const kvt_rope *model_rope(const model *m, int context) {
    return context > m->config.rope.original ? &m->ropes.beyond : &m->ropes.within;
}

/* Does this layer turn its queries and keys? */
static inline bool rope_turns(const rope_config *rope, int layer) {
    return rope->skip == 0 || (layer + 1) % rope->skip != 0;
}

/* The architecture and its checked numbers. */
kvt_status config_read(model_config *c, const model_arch **arch, const model_file *f, error_text *err);

#endif
