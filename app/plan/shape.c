/* shape.c - groups of layers, shapes of model files, and what another kind of attention would make of a shape. */
#include "shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "model/model.h"

static bool same_layer(const kvt_layer *a, const kvt_layer *b) {
    return a->kind == b->kind && a->n_heads_q == b->n_heads_q && a->n_heads_kv == b->n_heads_kv &&
           a->dim_k == b->dim_k && a->dim_v == b->dim_v && a->window == b->window && a->dim_index == b->dim_index &&
           a->state_bytes == b->state_bytes;
}

bool shape_add(shape *s, kvt_layer layer) {
    s->n_layers++;
    for (int i = 0; i < s->n_groups; i++) {
        if (!same_layer(&s->group[i].layer, &layer)) continue;
        s->group[i].n_layers++;
        return true;
    }
    if (s->n_groups == SHAPE_GROUPS_MAX) return false;
    s->group[s->n_groups++] = (shape_group){ layer, 1 };
    return true;
}

void shape_weigh_all(shape *s, double bytes) {
    double share = s->n_weights > 0 ? s->n_weights_active / s->n_weights : 1;
    if (s->weights_bytes > 0) share = s->active_bytes / s->weights_bytes;
    if (s->weights_bytes > 0) s->unread_bytes *= bytes / s->weights_bytes;
    s->active_bytes = bytes * share;
    s->weights_bytes = bytes;
    s->weights_estimated = false;
}

kvt_status shape_of_numbers(shape *out, int n_layers, kvt_layer layer) {
    kvt_layer_use use;
    *out = (shape){ .n_heads_q = layer.n_heads_q, .dim_head = layer.dim_v, .width = layer.n_heads_q * layer.dim_v };
    if (n_layers < 1) return KVT_E_ARGUMENT;
    layer.kind = layer.window ? KVT_LAYER_WINDOW : KVT_LAYER_FULL;
    TRY(kvt_layer_bytes(&layer, KVT_BF16, KVT_BF16, 16, 1, &use));
    for (int i = 0; i < n_layers; i++) shape_add(out, layer); /* of one kind */
    return KVT_OK;
}

/* Is the output matrix the embedding, and how large is one that is not? */
static void tables_of_file(shape *out, const char *path) {
    model_file *f;
    if (file_open(&f, path, NULL) != KVT_OK) return;
    const file_tensor *embedding = file_tensor_find(f, "token_embd.weight");
    out->tied = file_tensor_find(f, "output.weight") == NULL;
    out->unread_bytes = embedding && !out->tied ? (double)embedding->bytes : 0;
    file_close(f);
}

kvt_status shape_of_file(shape *out, const char *path, error_text *err) {
    model_config c;
    model_info info;
    *out = (shape){ 0 };
    TRY(model_describe(path, &c, &info, err));
    kvt_layer *layers = calloc((size_t)c.n_layers, sizeof *layers);
    if (!layers) {
        if (err) snprintf(err->text, sizeof err->text, "no memory for %d layers", c.n_layers);
        return KVT_E_MEMORY;
    }
    model_layers(&c, layers);
    for (int i = 0; i < c.n_layers; i++) shape_add(out, layers[i]); /* of one kind */
    free(layers);
    snprintf(out->name, sizeof out->name, "%s", info.name[0] ? info.name : c.arch);
    snprintf(out->source, sizeof out->source, "%.150s", path);
    out->n_heads_q = c.n_heads_q;
    out->dim_head = c.dim_v;
    out->width = c.width;
    out->width_ffn = c.width_ffn;
    out->n_vocab = c.n_vocab;
    out->context = model_context(&c); /* what a run of it takes */
    tables_of_file(out, path);
    out->n_weights = out->n_weights_active = (double)info.n_weights;
    out->weights_bytes = out->active_bytes = (double)info.weights_bytes;
    return KVT_OK;
}

/* ------------------------------------------------------------------------------------- another kind of attention */

static bool attends(const kvt_layer *l) {
    return l->kind != KVT_LAYER_STATE;
}

/* Keys and values by heads; a window stays one. */
static void as_heads(shape *s, int n_heads_kv) {
    for (int i = 0; i < s->n_groups; i++) {
        kvt_layer *l = &s->group[i].layer;
        if (!attends(l)) continue;
        bool window = l->kind == KVT_LAYER_WINDOW;
        *l = (kvt_layer){ .kind = window ? KVT_LAYER_WINDOW : KVT_LAYER_FULL, .n_heads_q = s->n_heads_q,
                          .n_heads_kv = n_heads_kv, .dim_k = s->dim_head, .dim_v = s->dim_head, .window = l->window };
    }
}

/* DeepSeek-V2's sizes: a latent of 512 and a rotary key of 64. No kind of layer has a latent and a window: those with
 * one stay as they are. How many layers have a latent now. */
static int as_latent(shape *s) {
    int n = 0;
    for (int i = 0; i < s->n_groups; i++) {
        shape_group *g = &s->group[i];
        if (!attends(&g->layer) || g->layer.kind == KVT_LAYER_WINDOW) continue;
        g->layer = (kvt_layer){ .kind = KVT_LAYER_LATENT, .dim_k = 64, .dim_v = 512 };
        n += g->n_layers;
    }
    return n;
}

bool shape_has_window(const shape *s) {
    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].layer.kind == KVT_LAYER_WINDOW) return true;
    return false;
}

/* Groups that have become equal are joined. */
static void join(shape *s) {
    shape old = *s;
    s->n_groups = s->n_layers = 0;
    for (int i = 0; i < old.n_groups; i++)
        for (int j = 0; j < old.group[i].n_layers; j++) shape_add(s, old.group[i].layer);
}

static int heads_of(const char *as, int n_heads_q) {
    char more;
    int n;
    if (strcmp(as, "mha") == 0) return n_heads_q;
    if (strcmp(as, "mqa") == 0) return 1;
    return sscanf(as, "gqa:%4d%c", &n, &more) == 1 ? n : -1;
}

static kvt_status refuse(error_text *err, const char *format, const char *as, int n)
    __attribute__((format(printf, 2, 0)));
static kvt_status refuse(error_text *err, const char *format, const char *as, int n) {
    if (err) snprintf(err->text, sizeof err->text, format, as, n);
    return KVT_E_ARGUMENT;
}

kvt_status shape_as(shape *s, const char *as, error_text *err) {
    int n = heads_of(as, s->n_heads_q);
    bool latent = strcmp(as, "mla") == 0;
    if (s->n_heads_q < 1 || s->dim_head < 1)
        return refuse(err, "\"%.20s\": the number (%d) and size of the heads are not known", as, s->n_heads_q);
    if (!latent && n < 1)
        return refuse(err, "\"%.20s\" is none of mha, gqa:N, mqa and mla (%d query heads)", as, s->n_heads_q);
    if (!latent && s->n_heads_q % n != 0)
        return refuse(err, "\"%.20s\": the %d query heads are no multiple of that", as, s->n_heads_q);
    if (latent && as_latent(s) == 0 && shape_has_window(s))
        return refuse(err, "\"%.20s\": each layer (of %d) that attends has a window, and no latent has one", as,
                      s->n_layers);
    if (!latent) as_heads(s, n);
    join(s);
    return KVT_OK;
}
