/* weights.c - a file's tensors become packed matrices and norm vectors; names, shapes and types are checked here. */
#include "base/log.h"
#include "base/mem.h"
#include "weights.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 64, OUTSIDE = -1 };

/* What every call of this file passes on. */
typedef struct loader {
    model_weights *w;
    const model_arch *arch;
    const model_config *c;
    const model_file *f;
    kvt_workers *team;
    error_text *err;
} loader;

static const char *name_of(const model_arch *arch, tensor_role role, int layer, char name[NAME_BYTES]) {
    /* The formats are the architecture's own table; those outside layers have no place for a number. */
    const char *format = arch->tensor_names[role], *place = strstr(format, "%d");
    if (place) snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(place - format), format, layer, place + 2);
    else snprintf(name, NAME_BYTES, "%s", format);
    return name;
}

/* --------------------------------------------------------------------------------------------- one tensor */

/* Rows and columns that a role's tensor must have; a norm is one row. */
typedef struct shape {
    size_t rows, cols;
} shape;

static shape shape_of(const model_config *c, tensor_role role) {
    size_t width = (size_t)c->width, ffn = (size_t)c->width_ffn;
    size_t q = (size_t)c->n_heads_q * (size_t)c->dim_k, k = (size_t)c->n_heads_kv * (size_t)c->dim_k;
    size_t v = (size_t)c->n_heads_kv * (size_t)c->dim_v, attended = (size_t)c->n_heads_q * (size_t)c->dim_v;
    switch (role) {
    case TENSOR_EMBEDDING:
    case TENSOR_OUTPUT: return (shape){ (size_t)c->n_vocab, width };
    case TENSOR_Q: return (shape){ q, width };
    case TENSOR_K: return (shape){ k, width };
    case TENSOR_V: return (shape){ v, width };
    case TENSOR_ATTN_OUTPUT: return (shape){ width, attended };
    case TENSOR_GATE:
    case TENSOR_UP: return (shape){ ffn, width };
    case TENSOR_DOWN: return (shape){ width, ffn };
    default: return (shape){ 1, width };
    }
}

static kvt_status tensor_find(const loader *l, tensor_role role, int layer, const file_tensor **out) {
    char name[NAME_BYTES];
    shape need = shape_of(l->c, role);
    TRY(file_need(l->f, name_of(l->arch, role, layer, name), out, l->err));
    const file_tensor *t = *out;
    if (t->dims[2] * t->dims[3] != 1)
        return file_fail(l->f, l->err, KVT_E_CORRUPT, "tensor %s has %d dimensions, not one or two", name, t->n_dims);
    if (t->dims[0] != need.cols || t->dims[1] != need.rows)
        return file_fail(l->f, l->err, KVT_E_CORRUPT, "tensor %s is %zu x %zu, the keys say %zu x %zu", name,
                         t->dims[1], t->dims[0], need.rows, need.cols);
    return KVT_OK;
}

static kvt_status matrix_load(const loader *l, tensor_role role, int layer, kvt_matrix **out) {
    const file_tensor *t;
    TRY(tensor_find(l, role, layer, &t));
    kvt_matrix_source source = { (kvt_weight_type)t->type, t->dims[1], t->dims[0], t->data, t->bytes };
    kvt_status status = kvt_matrix_pack(out, &source, l->team);
    if (status != KVT_OK)
        return file_fail(l->f, l->err, status, "tensor %.*s of type %s (%u), %zu bytes: %s", FILE_SHOW(t->name),
                         file_type_name(t->type), t->type, t->bytes, kvt_status_text(status));
    return KVT_OK;
}

/* A norm's weights: float32 in every file of this family. */
static kvt_status norm_load(const loader *l, tensor_role role, int layer, float **out) {
    const file_tensor *t;
    TRY(tensor_find(l, role, layer, &t));
    if (t->type != KVT_W_F32)
        return file_fail(l->f, l->err, KVT_E_UNSUPPORTED, "tensor %.*s is of type %s (%u), a norm has to be F32",
                         FILE_SHOW(t->name), file_type_name(t->type), t->type);
    *out = mem_take(NULL, t->bytes);
    if (!*out) return file_fail(l->f, l->err, KVT_E_MEMORY, "no memory for %zu bytes", t->bytes);
    memcpy(*out, t->data, t->bytes);
    return KVT_OK;
}

/* --------------------------------------------------------------------------------------------- all of them */

static kvt_status layer_load(const loader *l, int i) {
    layer_weights *w = &l->w->layer[i];
    TRY(norm_load(l, TENSOR_ATTN_NORM, i, &w->attn_norm));
    TRY(matrix_load(l, TENSOR_Q, i, &w->q));
    TRY(matrix_load(l, TENSOR_K, i, &w->k));
    TRY(matrix_load(l, TENSOR_V, i, &w->v));
    TRY(matrix_load(l, TENSOR_ATTN_OUTPUT, i, &w->attn_output));
    TRY(norm_load(l, TENSOR_FFN_NORM, i, &w->ffn_norm));
    TRY(matrix_load(l, TENSOR_GATE, i, &w->gate));
    TRY(matrix_load(l, TENSOR_UP, i, &w->up));
    return matrix_load(l, TENSOR_DOWN, i, &w->down);
}

static bool has_output(const loader *l) {
    return !l->arch->output_tied || file_tensor_find(l->f, l->arch->tensor_names[TENSOR_OUTPUT]);
}

static bool text_is(file_text a, const char *b) {
    return strlen(b) == a.n && memcmp(a.at, b, a.n) == 0;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* The first number in a tensor's name; 0 where that is none of the layers, so that no layer's name is the same. */
static int layer_in(file_text name, int n_layers) {
    size_t i = 0;
    int layer = 0;
    while (i < name.n && !is_digit(name.at[i])) i++;
    for (; i < name.n && is_digit(name.at[i]) && layer < n_layers; i++) layer = 10 * layer + (name.at[i] - '0');
    return layer < n_layers ? layer : 0;
}

static bool is_known(const loader *l, file_text name) {
    char known[NAME_BYTES];
    int layer = layer_in(name, l->c->n_layers);
    for (int role = 0; role < N_TENSOR_ROLES; role++)
        if (text_is(name, name_of(l->arch, (tensor_role)role, layer, known))) return true;
    return false;
}

/* A tensor that nobody asked for (a bias, a rope table) would change the answer: refused, not ignored. */
static kvt_status refuse_unknown(const loader *l) {
    size_t outside = has_output(l) ? 3 : 2, inside = N_TENSOR_ROLES - 3;
    if (file_tensor_count(l->f) == outside + inside * (size_t)l->c->n_layers) return KVT_OK;
    for (size_t i = 0; i < file_tensor_count(l->f); i++) {
        file_text name = file_tensor_at(l->f, i)->name;
        if (!is_known(l, name))
            return file_fail(l->f, l->err, KVT_E_UNSUPPORTED, "tensor %.*s is not one that architecture %s has",
                             FILE_SHOW(name), l->arch->name);
    }
    return KVT_OK;
}

kvt_status weights_load(model_weights *w, const model_arch *arch, const model_config *c, const model_file *f,
                        kvt_workers *team, error_text *err) {
    loader l = { w, arch, c, f, team, err };
    *w = (model_weights){ 0 };
    w->layer = mem_take(NULL, (size_t)c->n_layers * sizeof w->layer[0]);
    if (!w->layer) return file_fail(f, err, KVT_E_MEMORY, "no memory for %d layers", c->n_layers);
    w->n_layers = c->n_layers;
    w->norm_bytes = (size_t)c->width * sizeof(float);
    TRY(matrix_load(&l, TENSOR_EMBEDDING, OUTSIDE, &w->embedding));
    TRY(norm_load(&l, TENSOR_OUTPUT_NORM, OUTSIDE, &w->output_norm));
    if (has_output(&l)) TRY(matrix_load(&l, TENSOR_OUTPUT, OUTSIDE, &w->output));
    else w->output = w->embedding;
    for (int i = 0; i < c->n_layers; i++) TRY(layer_load(&l, i));
    return refuse_unknown(&l);
}

enum { LAYER_MATRICES = 7 };

static void matrices_of(const layer_weights *w, kvt_matrix *out[LAYER_MATRICES]) {
    kvt_matrix *all[LAYER_MATRICES] = { w->q, w->k, w->v, w->attn_output, w->gate, w->up, w->down };
    memcpy(out, all, sizeof all);
}

static void products_add(model_products *p, const kvt_matrix *w) {
    p->n_weights += kvt_matrix_rows(w) * kvt_matrix_cols(w);
    p->packed_bytes += kvt_matrix_bytes(w);
}

model_products model_products_of(const model *m) {
    const model_weights *w = &m->weights;
    model_products p = { 0 };
    kvt_matrix *all[LAYER_MATRICES];
    products_add(&p, w->output);
    for (int i = 0; i < w->n_layers; i++) {
        matrices_of(&w->layer[i], all);
        for (int j = 0; j < LAYER_MATRICES; j++) products_add(&p, all[j]);
    }
    return p;
}

static void layer_free(layer_weights *w, size_t norm_bytes) {
    kvt_matrix *all[LAYER_MATRICES];
    mem_give(NULL, w->attn_norm, norm_bytes);
    mem_give(NULL, w->ffn_norm, norm_bytes);
    matrices_of(w, all);
    for (int i = 0; i < LAYER_MATRICES; i++) kvt_matrix_free(all[i]);
}

void weights_free(model_weights *w) {
    for (int i = 0; w->layer && i < w->n_layers; i++) layer_free(&w->layer[i], w->norm_bytes);
    if (w->output != w->embedding) kvt_matrix_free(w->output);
    kvt_matrix_free(w->embedding);
    mem_give(NULL, w->output_norm, w->norm_bytes);
    mem_give(NULL, w->layer, (size_t)w->n_layers * sizeof w->layer[0]);
}
