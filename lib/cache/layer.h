/* layer.h - what the options come to: the shape of each layer and every size that follows from them. */
#ifndef KVT_LAYER_H
#define KVT_LAYER_H

#include <stddef.h>

#include "base/log.h"
#include "kvtile.h"

enum {
    LAYER_ROWS_MAX = 128 /* query rows that one piece of attention walks a segment with: the segment's keys and values
                            (256 KiB at 64 dims in bf16) are read from L2 for all but the first 16 of them */
};

/* One layer. A block holds the key tiles of all key/value heads, then their value tiles, so that a step of attention
 * over several heads reads long stretches of memory:
 *
 *     block  | head 0: K K | head 1: K K | ... | head 0: V V | head 1: V V | ...      (two tiles of 16 tokens: a
 *                                                                                      block of 32) */
typedef struct layer_shape {
    int n_heads_q, n_heads_kv, group; /* group: query heads of one key/value head */
    int dim_k, dim_v;
    int pad_k, pad_v; /* dims as kept: multiples of 16 */
    float c;          /* numeric contract: scale * log2(e) */
    size_t k_tile_bytes, v_tile_bytes;
    size_t k_head_bytes, v_head_bytes; /* of one head in a block */
    size_t v_offset;                   /* of the values in a block */
    size_t block_bytes;
    size_t region; /* offset of the layer's blocks in the store */
} layer_shape;

/* Sizes of a cache. */
typedef struct layout {
    int block_tokens, block_tiles;
    int seq_blocks;       /* blocks of a sequence of tokens_max tokens */
    int seq_blocks_least; /* blocks a sequence always holds: all of them where the kind is contiguous, else none */
    int n_blocks;
    int n_entries; /* most sequences in one step */
    int n_threads;
    int n_segments; /* of a sequence of tokens_max tokens */
    size_t bytes_per_token, bytes_per_block, bytes_cache;

    /* the most that any layer asks of a step's scratch */
    int pad_k, pad_v;
    int item_rows;        /* rows of a piece of attention */
    size_t n_items;        /* pieces, */
    size_t n_items_cut;    /* and as many more where some are cut at segments */
    size_t n_splits;       /* heads of entries that are cut */
    size_t partial_floats; /* results of their segments */
} layout;

/* Check the options, field by field, and derive the sizes. On KVT_E_LIMIT n_blocks is what bytes_max would hold. */
kvt_status layout_of(const kvt_options *opt, const log_sink *log, layout *out);

/* A layer of any kind; `of` names it in the log ("layers[3].", or ""). */
kvt_status layer_check(const kvt_layer *l, const char *of, const log_sink *log);
/* Elements of a head as kept: in whole tiles. */
int layer_pad(int dim);

/* The shape of a layer that was checked; region is left 0. */
layer_shape layer_shape_of(const kvt_options *opt, int layer);

#endif
