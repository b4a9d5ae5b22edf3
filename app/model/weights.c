/* weights.c - a file's tensors become packed matrices and vectors; names, shapes and types are checked here, and every
 * tensor has to be of use: one that nobody asked for would change the answer. */
#include "base/log.h"
#include "base/mem.h"
#include "weights.h"

#include <string.h>

enum { OUTSIDE = -1 };

/* What every call of this file passes on. */
typedef struct loader {
    model_weights *w;
    const model_arch *arch;
    const model_config *c;
    const model_file *f;
    kvt_workers *team;
    error_text *err;
    bool *used; /* [tensors of the file] */
} loader;

static kvt_status no_memory(const loader *l, size_t bytes) {
    return file_fail(l->f, l->err, KVT_E_MEMORY, "no memory for %zu bytes", bytes);
}

/* --------------------------------------------------------------------------------------------- one tensor */

/* Rows and columns that a role's tensor must have; a vector is one row. */
typedef struct shape {
    size_t rows, cols;
} shape;

static shape shape_of(const loader *l, tensor_role role) {
    const model_config *c = l->c;
    size_t width = (size_t)c->width, ffn = (size_t)c->width_ffn;
    size_t q = (size_t)c->n_heads_q * (size_t)c->dim_k, k = (size_t)c->n_heads_kv * (size_t)c->dim_k;
    size_t v = (size_t)c->n_heads_kv * (size_t)c->dim_v, attended = (size_t)c->n_heads_q * (size_t)c->dim_v;
    switch (role) {
    case TENSOR_EMBEDDING:
    case TENSOR_OUTPUT: return (shape){ (size_t)c->n_vocab, width };
    case TENSOR_ROPE_FREQS:
    case TENSOR_ROPE_LONG:
    case TENSOR_ROPE_SHORT: return (shape){ 1, (size_t)c->rope.dim / 2 };
    case TENSOR_Q: return (shape){ q, width };
    case TENSOR_K: return (shape){ k, width };
    case TENSOR_V: return (shape){ v, width };
    case TENSOR_QKV: return (shape){ q + k + v, width };
    case TENSOR_Q_BIAS:
    case TENSOR_Q_NORM: return (shape){ 1, q };
    case TENSOR_K_BIAS:
    case TENSOR_K_NORM: return (shape){ 1, k };
    case TENSOR_V_BIAS: return (shape){ 1, v };
    case TENSOR_QKV_BIAS: return (shape){ 1, q + k + v };
    case TENSOR_ATTN_OUTPUT: return (shape){ width, attended };
    case TENSOR_GATE: return (shape){ ffn, width };
    case TENSOR_UP: return (shape){ arch_may_have(l->arch, TENSOR_GATE) ? ffn : 2 * ffn, width };
    case TENSOR_DOWN: return (shape){ width, ffn };
    case TENSOR_GATE_BIAS: return (shape){ 1, ffn };
    case TENSOR_UP_BIAS: return (shape){ 1, shape_of(l, TENSOR_UP).rows };
    default: return (shape){ 1, width };
    }
}

/* A norm of queries or keys may also be as long as one head. */
static bool fits(const loader *l, tensor_role role, const file_tensor *t, shape need) {
    bool of_heads = role == TENSOR_Q_NORM || role == TENSOR_K_NORM;
    return t->dims[1] == need.rows &&
           (t->dims[0] == need.cols || (of_heads && t->dims[0] == (size_t)l->c->dim_k));
}

static kvt_status tensor_find(const loader *l, tensor_role role, int layer, const file_tensor **out) {
    char name[TENSOR_NAME_BYTES];
    shape need = shape_of(l, role);
    TRY(file_need(l->f, arch_tensor_name(l->arch, role, layer, name), out, l->err));
    const file_tensor *t = *out;
    l->used[t - file_tensor_at(l->f, 0)] = true;
    if (t->dims[2] * t->dims[3] != 1)
        return file_fail(l->f, l->err, KVT_E_CORRUPT, "tensor %s has %d dimensions, not one or two", name, t->n_dims);
    if (!fits(l, role, t, need))
        return file_fail(l->f, l->err, KVT_E_CORRUPT, "tensor %s is %zu x %zu, the keys say %zu x %zu", name,
                         t->dims[1], t->dims[0], need.rows, need.cols);
    return KVT_OK;
}

static bool has(const loader *l, tensor_role role, int layer) {
    char name[TENSOR_NAME_BYTES];
    return arch_may_have(l->arch, role) && file_tensor_find(l->f, arch_tensor_name(l->arch, role, layer, name));
}

/* -------------------------------------------------------------------------------- parts of fused tensors */

/* Where a role's rows lie: in a tensor of their own, or among those of a fused one. */
typedef struct part {
    tensor_role tensor;
    size_t first, n; /* rows of a matrix, elements of a vector */
} part;

/* Among q, k and v one after the other, of which `role` is number `at`. */
static part part_of_qkv(const loader *l, int at, tensor_role fused) {
    part p = { .tensor = fused };
    for (int i = 0; i < at; i++) p.first += shape_of(l, (tensor_role)(TENSOR_Q + i)).rows;
    p.n = shape_of(l, (tensor_role)(TENSOR_Q + at)).rows;
    return p;
}

static part part_of(const loader *l, tensor_role role, int layer) {
    size_t ffn = (size_t)l->c->width_ffn;
    bool fused_up = !arch_may_have(l->arch, TENSOR_GATE);
    switch (role) {
    case TENSOR_Q:
    case TENSOR_K:
    case TENSOR_V:
        if (has(l, TENSOR_QKV, layer)) return part_of_qkv(l, (int)(role - TENSOR_Q), TENSOR_QKV);
        break;
    case TENSOR_Q_BIAS:
    case TENSOR_K_BIAS:
    case TENSOR_V_BIAS:
        if (has(l, TENSOR_QKV_BIAS, layer)) return part_of_qkv(l, (int)(role - TENSOR_Q_BIAS), TENSOR_QKV_BIAS);
        break;
    case TENSOR_GATE:
    case TENSOR_GATE_BIAS:
        if (fused_up) return (part){ role == TENSOR_GATE ? TENSOR_UP : TENSOR_UP_BIAS, 0, ffn };
        break;
    case TENSOR_UP:
    case TENSOR_UP_BIAS:
        if (fused_up) return (part){ role, ffn, ffn };
        break;
    default: break;
    }
    return (part){ role, 0, 0 }; /* all of it */
}

static kvt_status matrix_load(const loader *l, tensor_role role, int layer, kvt_matrix **out) {
    const file_tensor *t;
    part p = part_of(l, role, layer);
    TRY(tensor_find(l, p.tensor, layer, &t));
    kvt_matrix_source source = { (kvt_weight_type)t->type, t->dims[1], t->dims[0], t->data, t->bytes };
    if (p.n > 0) {
        size_t row_bytes = t->bytes / t->dims[1]; /* rows are whole numbers of blocks, the reader checked it */
        source.n_rows = p.n;
        source.data = (const char *)t->data + p.first * row_bytes;
        source.data_bytes = p.n * row_bytes;
    }
    kvt_status status = kvt_matrix_pack(out, &source, l->team);
    if (status != KVT_OK)
        return file_fail(l->f, l->err, status, "tensor %.*s of type %s (%u), %zu bytes: %s", FILE_SHOW(t->name),
                         file_type_name(t->type), t->type, t->bytes, kvt_status_text(status));
    return KVT_OK;
}

/* Norms and biases: float32 in every file of this family. */
static kvt_status vector_load(const loader *l, tensor_role role, int layer, vector *out) {
    const file_tensor *t;
    part p = part_of(l, role, layer);
    TRY(tensor_find(l, p.tensor, layer, &t));
    if (t->type != KVT_W_F32)
        return file_fail(l->f, l->err, KVT_E_UNSUPPORTED, "tensor %.*s is of type %s (%u), it has to be F32",
                         FILE_SHOW(t->name), file_type_name(t->type), t->type);
    size_t n = p.n > 0 ? p.n : t->dims[0];
    *out = (vector){ mem_take(NULL, n * sizeof(float)), n };
    if (!out->at) return no_memory(l, n * sizeof(float));
    memcpy(out->at, (const char *)t->data + p.first * sizeof(float), n * sizeof(float));
    return KVT_OK;
}

/* A vector that the architecture has, may have, or has not. */
static kvt_status vector_maybe(const loader *l, tensor_role role, int layer, vector *out) {
    bool needed = (l->arch->needed & ROLE(role)) != 0;
    return needed || has(l, part_of(l, role, layer).tensor, layer) ? vector_load(l, role, layer, out) : KVT_OK;
}

/* ---------------------------------------------------------------------------------------------- lists
 *
 * What a layer holds, for loading, counting and freeing. */

enum { LAYER_MATRICES = 7, LAYER_VECTORS = 13 };

typedef struct matrix_slot {
    tensor_role role;
    kvt_matrix **at;
} matrix_slot;

static void matrices_of(layer_weights *w, matrix_slot out[LAYER_MATRICES]) {
    const matrix_slot all[LAYER_MATRICES] = {
        { TENSOR_Q, &w->q },
        { TENSOR_K, &w->k },
        { TENSOR_V, &w->v },
        { TENSOR_ATTN_OUTPUT, &w->attn_output },
        { TENSOR_GATE, &w->gate },
        { TENSOR_UP, &w->up },
        { TENSOR_DOWN, &w->down },
    };
    memcpy(out, all, sizeof all);
}

typedef struct vector_slot {
    tensor_role role;
    vector *at;
} vector_slot;

static void vectors_of(layer_weights *w, vector_slot out[LAYER_VECTORS]) {
    const vector_slot all[LAYER_VECTORS] = {
        { TENSOR_ATTN_NORM, &w->attn_norm },
        { TENSOR_ATTN_POST_NORM, &w->attn_post_norm },
        { TENSOR_FFN_NORM, &w->ffn_norm },
        { TENSOR_FFN_POST_NORM, &w->ffn_post_norm },
        { TENSOR_Q_NORM, &w->q_norm },
        { TENSOR_K_NORM, &w->k_norm },
        { TENSOR_Q_BIAS, &w->q_bias },
        { TENSOR_K_BIAS, &w->k_bias },
        { TENSOR_V_BIAS, &w->v_bias },
        { TENSOR_ATTN_OUTPUT_BIAS, &w->attn_output_bias },
        { TENSOR_GATE_BIAS, &w->gate_bias },
        { TENSOR_UP_BIAS, &w->up_bias },
        { TENSOR_DOWN_BIAS, &w->down_bias },
    };
    memcpy(out, all, sizeof all);
}

/* --------------------------------------------------------------------------------------------- all of them */

static kvt_status layer_load(const loader *l, int i) {
    matrix_slot matrices[LAYER_MATRICES];
    vector_slot vectors[LAYER_VECTORS];
    matrices_of(&l->w->layer[i], matrices);
    vectors_of(&l->w->layer[i], vectors);
    for (int j = 0; j < LAYER_VECTORS; j++) TRY(vector_maybe(l, vectors[j].role, i, vectors[j].at));
    for (int j = 0; j < LAYER_MATRICES; j++) TRY(matrix_load(l, matrices[j].role, i, matrices[j].at));
    return KVT_OK;
}

static kvt_status outside_load(const loader *l) {
    model_weights *w = l->w;
    TRY(matrix_load(l, TENSOR_EMBEDDING, OUTSIDE, &w->embedding));
    TRY(vector_load(l, TENSOR_OUTPUT_NORM, OUTSIDE, &w->output_norm));
    if (has(l, TENSOR_OUTPUT, OUTSIDE)) TRY(matrix_load(l, TENSOR_OUTPUT, OUTSIDE, &w->output));
    else w->output = w->embedding;
    if (l->c->rope.factors == ROPE_FACTORS_ONE) return vector_load(l, TENSOR_ROPE_FREQS, OUTSIDE, &w->rope_freqs);
    if (l->c->rope.factors == ROPE_FACTORS_NONE) return KVT_OK;
    TRY(vector_load(l, TENSOR_ROPE_LONG, OUTSIDE, &w->rope_long));
    return vector_load(l, TENSOR_ROPE_SHORT, OUTSIDE, &w->rope_short);
}

static kvt_status refuse_unused(const loader *l) {
    for (size_t i = 0; i < file_tensor_count(l->f); i++)
        if (!l->used[i])
            return file_fail(l->f, l->err, KVT_E_UNSUPPORTED, "tensor %.*s is not one that architecture %s has here",
                             FILE_SHOW(file_tensor_at(l->f, i)->name), l->arch->name);
    return KVT_OK;
}

static kvt_status all_load(const loader *l) {
    TRY(outside_load(l));
    for (int i = 0; i < l->c->n_layers; i++) TRY(layer_load(l, i));
    return refuse_unused(l);
}

kvt_status weights_load(model_weights *w, const model_arch *arch, const model_config *c, const model_file *f,
                        kvt_workers *team, error_text *err) {
    loader l = { w, arch, c, f, team, err, NULL };
    *w = (model_weights){ 0 };
    w->layer = mem_take(NULL, (size_t)c->n_layers * sizeof w->layer[0]);
    if (!w->layer) return file_fail(f, err, KVT_E_MEMORY, "no memory for %d layers", c->n_layers);
    w->n_layers = c->n_layers;
    l.used = mem_take(NULL, file_tensor_count(f)); /* at least the embedding, config_read saw it */
    if (!l.used) return no_memory(&l, file_tensor_count(f));
    kvt_status status = all_load(&l);
    mem_give(NULL, l.used, file_tensor_count(f));
    return status;
}

static void products_add(model_products *p, const kvt_matrix *w) {
    p->n_weights += kvt_matrix_rows(w) * kvt_matrix_cols(w);
    p->packed_bytes += kvt_matrix_bytes(w);
}

model_products model_products_of(const model *m) {
    const model_weights *w = &m->weights;
    model_products p = { 0 };
    matrix_slot all[LAYER_MATRICES];
    products_add(&p, w->output);
    for (int i = 0; i < w->n_layers; i++) {
        matrices_of(&w->layer[i], all);
        for (int j = 0; j < LAYER_MATRICES; j++) products_add(&p, *all[j].at);
    }
    return p;
}

static void vector_free(vector *v) {
    mem_give(NULL, v->at, v->n * sizeof(float));
}

static void layer_free(layer_weights *w) {
    matrix_slot matrices[LAYER_MATRICES];
    vector_slot vectors[LAYER_VECTORS];
    matrices_of(w, matrices);
    vectors_of(w, vectors);
    for (int i = 0; i < LAYER_MATRICES; i++) kvt_matrix_free(*matrices[i].at);
    for (int i = 0; i < LAYER_VECTORS; i++) vector_free(vectors[i].at);
}

void weights_free(model_weights *w) {
    for (int i = 0; w->layer && i < w->n_layers; i++) layer_free(&w->layer[i]);
    if (w->output != w->embedding) kvt_matrix_free(w->output);
    kvt_matrix_free(w->embedding);
    vector_free(&w->output_norm);
    vector_free(&w->rope_freqs);
    vector_free(&w->rope_long);
    vector_free(&w->rope_short);
    mem_give(NULL, w->layer, (size_t)w->n_layers * sizeof w->layer[0]);
}
