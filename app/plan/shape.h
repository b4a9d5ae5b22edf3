/* shape.h - what a plan is about: the layers of a model as a cache sees them, in groups of equal ones, and its weights.
 *
 * It comes from a model file, from a config.json (shape_config.c), by name (shape_names.c), or from plain numbers. */
#ifndef SHAPE_H
#define SHAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "file/file.h"
#include "kvtile.h"

enum { SHAPE_GROUPS_MAX = 8 };

typedef struct shape_group {
    kvt_layer layer;
    int n_layers;
} shape_group;

typedef struct shape {
    char name[128], source[160]; /* where the numbers come from */
    shape_group group[SHAPE_GROUPS_MAX];
    int n_groups, n_layers;
    int n_heads_q, dim_head; /* of its attention, for `--as` */
    int width, width_ffn, n_vocab;
    int context;       /* tokens it was trained on; 0: not known */
    int tokens_chosen; /* of KVT_LAYER_SPARSE: how many tokens a token looks at; 0: not known */
    bool tied;         /* the output matrix is the embedding */
    double n_weights, n_weights_active; /* elements, and those that one token meets; 0: not known */
    double weights_bytes, active_bytes; /* likewise */
    double unread_bytes; /* of active_bytes: an embedding that is not the output matrix, a row of which is read */
    bool weights_estimated;             /* from the sizes of its matrices, not counted */
} shape;

/* One layer more; joins a group of equal ones. False: too many kinds. */
bool shape_add(shape *s, kvt_layer layer);

/* Equal layers, with a window where that is not 0; KVT_E_ARGUMENT: n_heads_q is no multiple of n_heads_kv, or a number
 * is out of its range. */
kvt_status shape_of_numbers(shape *out, int n_layers, kvt_layer layer);

/* The layers of a .gguf file (KVT_E_*: as model_describe), of a config.json or a folder with one.
 * KVT_E_ARGUMENT: no such file; KVT_E_CORRUPT: a key is missing or contradicts another; KVT_E_UNSUPPORTED: a kind of
 * model whose layers are not known. */
kvt_status shape_of_file(shape *out, const char *path, error_text *err);
kvt_status shape_of_config(shape *out, const char *path, error_text *err);

/* One of the table of known models; false: there is none of that name. */
bool shape_of_name(shape *out, const char *name);
/* Names of the table one by one; NULL behind the last. */
const char *shape_name(int i);

/* Has a layer of it a window? */
bool shape_has_window(const shape *s);

/* The attention layers as another kind would have them, head size kept: "mha", "gqa:8", "mqa", "mla". A window stays
 * one; as "mla" the layer with it stays as it is. KVT_E_ARGUMENT: another word, a number of heads that does not divide,
 * "mla" where all layers have a window; the error says which. */
kvt_status shape_as(shape *s, const char *as, error_text *err);

/* Weights of so many bytes in all; what of them a token meets, and does not read, shrinks or grows with them. */
void shape_weigh_all(shape *s, double bytes);

#endif
