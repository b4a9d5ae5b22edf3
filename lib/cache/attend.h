/* attend.h - storing keys and values into a layer and attending over them. */
#ifndef KVT_ATTEND_H
#define KVT_ATTEND_H

#include <stdatomic.h>
#include <stdint.h>

#include "carve.h"
#include "kernel/kernel.h"
#include "kvtile.h"
#include "layer.h"

enum { ATTEND_ALL = -1, ATTEND_WHOLE = -1 };

/* A piece of attention: query rows of one or several key/value heads. Row r of an entry and head is query head
 * r % group of the new token r / group. Either several heads of one entry with up to ATTN_ROWS rows in all, or one
 * head. */
typedef struct attend_item {
    int place, n_entries; /* entries step.by_prefix[place ..]; several share the blocks of the segment */
    int head, n_heads;
    int row, n_rows; /* of each entry and head; where there are several entries: all rows of each */
    int segment;     /* the only one, whose results go into the entries' splits; ATTEND_ALL: rows are finished here */
} attend_item;

/* A head of an entry that was cut at its segments: whoever finishes the last piece of it merges all. */
typedef struct attend_split {
    atomic_int n_left; /* pieces */
    int n_rows, n_segments;
    float *partial; /* per segment: m [n_rows], l [n_rows], o [n_rows][pad_v] */
} attend_split;

/* A query row that a worker has gathered. */
typedef struct attend_row {
    int entry, head, row; /* as in an item */
    size_t at;            /* which of the step's n_rows * n_heads_q query rows */
} attend_row;

/* What one thread works in. */
typedef struct attend_worker {
    attn_scratch scratch;
    const void *k_tile[ATTN_ROWS * SEGMENT_TILES], *v_tile[ATTN_ROWS * SEGMENT_TILES]; /* per head of the piece */
    int first, n_tokens; /* of the segment: its first token, and those that a row of the piece sees */
    int tiles_end;       /* k_tile and v_tile are for rows whose sealed range ends here, in tokens of the segment */
    char *cut_tile; /* values of a tile without those that a row does not see */
    int n_rows;     /* gathered: heads outside, rows inside */
    attend_row row[LAYER_ROWS_MAX];
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
    attend_split *split;   /* [n_splits] */
    int32_t *split_of;     /* [n_entries] the first head's split; ATTEND_WHOLE: not cut */
    int32_t *shared;       /* [n_entries] segments that by_prefix[i] shares with the cut entry before it */
    float *partial;        /* [partial_floats] */
    char *zero_tile;       /* stands in for the missing second value tile of a pair */
    int n_items, n_splits;
    size_t partial_used;
} attend;

void attend_carve(attend *a, carve *c, const layout *l);

/* Floats of one segment's results of n_rows rows. */
static inline size_t partial_floats(const layer_shape *l, int n_rows) {
    return (size_t)n_rows * (2 + (size_t)l->pad_v);
}

/* List the pieces of a layer's attention, and its splits. apart: each piece is of one head and one entry. */
void plan_layer(kvt_cache *c, const layer_shape *l, bool apart);

/* Write the step's keys and values into the layer's blocks, and seal those that are full. KVT_E_ARGUMENT: the cache
 * seals and one of them is not finite; nothing was written. */
kvt_status encode_layer(kvt_cache *c, int layer, const float *k, const float *v, const char *call);

#endif
