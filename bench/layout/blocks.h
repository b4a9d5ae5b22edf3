/* blocks.h - the memory that the bench reads. Everything here ends the program where there is no memory. */
#ifndef BENCH_LAYOUT_BLOCKS_H
#define BENCH_LAYOUT_BLOCKS_H

#include <stdbool.h>

#include "layout.h"

enum {
    BLOCK = 32, /* tokens */
    DIM_MAX = 128,
    STEP_PAIRS = ATTN_STEP / BLOCK,
    SEGMENT_PAIRS = ATTN_SEGMENT / BLOCK,
    AHEAD_MAX = 64
};

/* n_heads heads of keys and values, each read by `sets` sets of n_rows query rows. */
typedef struct shape {
    int n_heads, n_rows, dim, n_tokens, sets;
} shape;

static inline size_t piece_bytes(const shape *s) { return (size_t)s->dim * TILE * 2; }
static inline size_t block_bytes(const shape *s) { return (size_t)s->n_heads * 4 * piece_bytes(s); }

/* The same number between -1 and 1 for the same n. */
float noise(uint32_t n);

/* Blocks for all tokens, as tiles or as rows, with the same numbers. In a block, together: the keys of all heads, then
 * their values; else head by head, keys and values. Given back by mem_give. */
uint8_t *arena_make(const shape *s, bool tiles, bool together);

/* Blocks of a sequence: all of them in disorder, or so few again and again that `resident` bytes hold them. */
int *table_make(const shape *s, size_t resident);

/* Pieces of all tokens in the order of reading, all heads (together) or one in a walk: per segment, then per walk, then
 * per step the keys pair by pair, in a pair head by head, and the values likewise. Behind the end, the last again. */
const void **stream_make(const shape *s, const uint8_t *arena, const int *table, bool together);

#endif
