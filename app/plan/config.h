/* config.h - the keys of a Hugging Face config.json, inside the room: read, checked, and told of by name where they are
 * wrong. What they mean is shape_config.c's and shape_weights.c's. */
#ifndef PLAN_CONFIG_H
#define PLAN_CONFIG_H

#include <jansson.h>
#include <stdint.h>

#include "shape.h"

enum { LAYERS_MAX = 4096, WIDTH_MAX = 1 << 22, HEADS_MAX = 1024, DIM_MAX = 512 };

/* How a family's layers remember. */
typedef enum family_kind {
    FAMILY_HEADS,  /* keys and values of heads */
    FAMILY_LATENT, /* MLA, with an index key where tokens are chosen */
    FAMILY_MAMBA,  /* heads in some layers, a Mamba state in the others */
    FAMILY_DELTA   /* heads in some layers, a gated delta net's state in the others */
} family_kind;

typedef struct family {
    const char *type;     /* model_type */
    family_kind kind;
    int full_every;       /* of those with a window, of how many layers one is full; 0: none, 1: all */
    int matrices;         /* of a feed-forward part: 3 with a gate, else 2 */
    bool learned;         /* positions are learned rows */
    const char *defaults; /* JSON: what published files leave out, as the family's own code has it; NULL: nothing */
} family;

typedef struct config {
    const char *path;
    const family *family;
    const json_t *root;     /* of a model with several parts, the one that makes text */
    const json_t *defaults; /* NULL: none */
    error_text *err;
} config;

/* What most families have; the rest is asked for where it matters. */
typedef struct config_sizes {
    int n_layers, width, heads, heads_kv, dim, ffn, vocab, context, window;
} config_sizes;

/* "FILE: sentence" */
kvt_status config_fail(const config *c, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same thing has a name in each family: names are "a|b|c", the first that is there counts. What is null is not
 * there, and has no default either. NULL: none is. */
const json_t *config_value(const config *c, const char *names);

enum { CONFIG_REQUIRED = -1 };
/* A whole number, least .. most; otherwise >= 0 stands for a key that is missing. */
kvt_status config_number(const config *c, const char *names, int64_t least, int64_t most, int64_t otherwise, int *out);
bool config_flag(const config *c, const char *names, bool otherwise);
/* NULL: there is none, or it is no string. */
const char *config_text(const config *c, const char *names);

/* The weights of those layers, and what of them a token meets, into `out`. */
kvt_status config_weights(const config *c, const config_sizes *s, shape *out);

#endif
