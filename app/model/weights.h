/* weights.h - the packed weights of a model and the model itself, inside the room. */
#ifndef APP_WEIGHTS_H
#define APP_WEIGHTS_H

#include "arch.h"
#include "file/file.h"
#include "model.h"

typedef struct layer_weights {
    float *attn_norm, *ffn_norm;                     /* [width] */
    kvt_matrix *q, *k, *v, *attn_output;             /* rows: heads * dim; attn_output: width */
    kvt_matrix *gate, *up, *down;                    /* rows: width_ffn, width_ffn, width */
} layer_weights;

typedef struct model_weights {
    int n_layers;
    size_t norm_bytes;
    kvt_matrix *embedding; /* [n_vocab][width] */
    kvt_matrix *output;    /* [n_vocab][width]; the embedding itself where they are tied */
    float *output_norm;    /* [width] */
    layer_weights *layer;  /* [n_layers] */
} model_weights;

struct model {
    const model_arch *arch;
    model_config config;
    model_info info;
    model_weights weights;
    tokenizer *tokenizer;
    chat *chat;
    error_text no_template; /* why chat is plain text; "" where its template is known */
};

/* Pack every tensor that the architecture names. On failure what was packed is left to weights_free. */
kvt_status weights_load(model_weights *w, const model_arch *arch, const model_config *c, const model_file *f,
                        kvt_workers *team, error_text *err);
void weights_free(model_weights *w);

/* The architecture and its checked numbers. */
kvt_status config_read(model_config *c, const model_arch **arch, const model_file *f, error_text *err);

#endif
