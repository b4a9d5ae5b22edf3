/* attend.h - storing keys and values into a layer and attending over them. */
#ifndef KVT_ATTEND_H
#define KVT_ATTEND_H

#include <stdatomic.h>
#include <stdint.h>

#include "carve.h"
#include "kernel/kernel.h"
#include "kvtile.h"
#include "layer.h"

enum { ATTEND_ALL = -1 };

/* A piece of attention: some query rows over one key/value head of one sequence. Row r is query head r % group of the
 * new token r / group. */
typedef struct attend_item {
    int entry, head;
    int row, n_rows; /* up to LAYER_ROWS_MAX */
    int segment;     /* the only one, whose result goes into split; ATTEND_ALL: the rows are finished here */
    int split;
} attend_item;

/* A piece that was cut at its segments: whoever finishes the last of them merges all. */
typedef struct attend_split {
    atomic_int n_left;
    int n_segments;
    float *partial; /* per segment: m [ATTN_ROWS], l [ATTN_ROWS], o [n_rows][pad_v] */
} attend_split;

/* What one thread works in. */
typedef struct attend_worker {
    attn_scratch scratch;
    const void *k_tile[SEGMENT_TILES], *v_tile[SEGMENT_TILES];
    char *cut_tile; /* values of a tile without those that a row does not see */
    int position[LAYER_ROWS_MAX];
    float M[LAYER_ROWS_MAX], L[LAYER_ROWS_MAX]; /* merged so far */
    float *O;                                   /* [item_rows][pad_v] */
    float *q;                                   /* [item_rows][pad_k] */
    float m[ATTN_ROWS], l[ATTN_ROWS];           /* of one segment */
    float *o;                                   /* [ATTN_ROWS][pad_v] */
} attend_worker;

typedef struct attend {
    attend_worker *worker; /* [n_threads] */
    attend_item *item;     /* [n_items] of the layer that is computed */
    attend_split *split;   /* [2 * n_threads] */
    float *partial;        /* [partial_floats] */
    char *zero_tile;       /* stands in for the missing second value tile of a pair */
    int n_items, n_splits;
    size_t partial_used;
} attend;

void attend_carve(attend *a, carve *c, const layout *l);

/* Write the step's keys and values into the layer's blocks. */
void encode_layer(kvt_cache *c, int layer, const float *k, const float *v);

#endif
