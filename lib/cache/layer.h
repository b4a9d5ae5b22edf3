/* layer.h - what the options come to: the shape of each layer and every size that follows from them. */
#ifndef KVT_LAYER_H
#define KVT_LAYER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "format/format.h"
#include "kvtile.h"

enum {
    LAYER_ROWS_MAX = 128 /* query rows that one piece of attention walks a segment with: the segment's keys and values
                            (256 KiB at 64 dims in bf16) are read from L2 for all but the first 16 of them */
};

/* Where a block of one layer keeps what: the key tiles of all key/value heads, then their value tiles, so that a step
 * of attention over several heads reads long stretches of memory. Records of a sealed block have scales behind their
 * tiles.
 *
 *     block  | head 0: K K | head 1: K K | ... | head 0: V V | head 1: V V | ...      (two tiles of 16 tokens: a
 *                                                                                      block of 32) */
typedef struct block_shape {
    size_t k_tile_bytes, v_tile_bytes;
    size_t k_head_bytes, v_head_bytes; /* of one head in a block */
    size_t v_offset;                   /* of the values in a block */
    size_t bytes;
    size_t region; /* offset of the layer's blocks in their store */
} block_shape;

/* One layer. */
typedef struct layer_shape {
    int n_heads_q, n_heads_kv, group; /* group: query heads of one key/value head */
    int dim_k, dim_v;
    int pad_k, pad_v; /* dims as kept: multiples of 16 */
    float c;          /* numeric contract: scale * log2(e) */
    float k_turn, v_turn; /* numeric contract, section 8: the factor 1 / run of what is rotated; 0: it is not */
    const float *k_balance; /* [n_heads_kv][dim_k]; NULL: none */
    block_shape kept; /* of the store: records where the cache seals blocks, else tiles */
    block_shape hot;  /* of hot slots; where nothing is sealed, as kept */
} layer_shape;

/* Sizes of a cache. */
typedef struct layout {
    int block_tokens, block_tiles;
    int seq_blocks;       /* blocks of a sequence of tokens_max tokens */
    int seq_blocks_least; /* blocks a sequence always holds: all of them where the kind is contiguous, else none */
    int n_blocks;
    int n_pins; /* blocks that may be pinned */
    int n_entries; /* most sequences in one step */
    int n_threads;
    int n_segments; /* of a sequence of tokens_max tokens */
    size_t bytes_per_token, bytes_per_block, bytes_cache;
    double bits_per_element;

    bool sealing; /* full blocks are encoded; if not, there are no slots and no staging places */
    int n_first;  /* blocks of a sequence, from its first on, that stay hot */
    int n_slots, n_stages;
    int n_idle_hot; /* slots that are there for first blocks nobody uses */
    size_t hot_block_bytes; /* of a slot, all layers together */
    size_t hot_layer_bytes; /* of a staging place: a block of the layer that has the largest */
    size_t bytes_hot;

    /* the most that any layer asks of a step's scratch */
    int pad_k, pad_v;
    int item_rows;        /* rows of a piece of attention */
    size_t n_items;        /* pieces, */
    size_t n_items_cut;    /* and as many more where some are cut at segments */
    size_t n_splits;       /* heads of entries that are cut */
    size_t partial_floats; /* results of their segments */
} layout;

/* Check the options, field by field, and derive the sizes. On KVT_E_LIMIT n_blocks is what bytes_max would hold. seal:
 * as if one of the formats were for sealed blocks. */
kvt_status layout_of(const kvt_options *opt, bool seal, const log_sink *log, layout *out);

/* A layer of any kind; `of` names it in the log ("layers[3].", or ""). */
kvt_status layer_check(const kvt_layer *l, const char *of, const log_sink *log);
/* Elements of a head as kept: in whole tiles. */
int layer_pad(int dim);
/* Bits of one of so many elements; 0: there are none. */
double layer_bits(size_t bytes, size_t n_elements);


/* n_heads heads, padded, in blocks of n_tiles tiles; region is left 0. */
block_shape layer_block_of(int n_heads, int pad_k, int pad_v, const kv_format *k, const kv_format *v, int n_tiles);

/* The shape of a layer that was checked; regions are left 0, k_balance NULL. */
layer_shape layer_shape_of(const kvt_options *opt, int layer);

/* Is one of them for sealed blocks? */
static inline bool formats_seal(const kv_format *k, const kv_format *v) {
    return k->kind != KV_PLAIN || v->kind != KV_PLAIN;
}

#endif
