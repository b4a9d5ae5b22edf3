/* layout.h - what the rivals of the library's attention kernels offer, and what they share.
 *
 * A piece is 16 tokens of one head: a tile, or as many bytes of rows, [token][dim] in bf16. Kernels take the arguments
 * of lib/kernel/kernel.h with pieces for tiles; a row's query and its sums lie in an order of their own. */
#ifndef BENCH_LAYOUT_H
#define BENCH_LAYOUT_H

#include "kernel/kernel.h"

typedef struct rival {
    attn_qk_fn qk;
    attn_pv_fn pv;
    void (*put_q)(const float *x, int dim, int row, void *q); /* x[dim] as row `row` of queries */
    void (*get_o)(const float *o, int dim, float *out);       /* a row's sums in the order of dims */
    /* A piece of rows into a tile; NULL: not offered. */
    void (*turn_k)(const void *piece, int dim, void *tile);
    void (*turn_v)(const void *piece, int dim, void *tile);
} rival;

extern const rival rival_rows_avx2, rival_rows_avx512;
extern const rival rival_rows_bf16_avx512, rival_tiles_bf16_avx512; /* products by vdpbf16ps */

/* x is in a register from here on: GCC loads what it can find in memory anew for each use. */
#define KEEP(x) __asm__("" : "+v"(x))

#endif
