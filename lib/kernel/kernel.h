/* kernel.h - the door of the kernels: one table of functions, filled scalar first and overwritten upward.
 *
 * A kernel takes pointers, strides and counts: no malloc, lock, file or sequence. The caller has set
 * the floating-point mode (base/fp.h). docs/numeric-contract.md fixes the order of every sum; the scalar
 * files are the definition, every other one gives the same bits.
 *
 * Tiles. A tile is 16 tokens of one head, in lines of 64 bytes; w = 4 / bytes per element:
 *
 *     keys    [dim/w] lines of [16 tokens][w dims]        lane = token
 *     values  [16/w][dim/16] lines of [16 dims][w tokens] lane = dim
 *
 * dim is a multiple of 16 here: the caller pads.
 */
#ifndef KVT_KERNEL_H
#define KVT_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "format/format.h"

enum {
    TILE = 16,          /* tokens of a tile, rows of a panel, lanes of a line */
    ATTN_SEGMENT = 1024, /* numeric contract: split of a sequence, absolute positions */
    ATTN_STEP = 256,     /* numeric contract: tokens of one softmax step */
    ATTN_ROWS = 16,      /* query rows that one call takes at most */
    ATTN_DIM_MAX = 512,
    STEP_TILES = ATTN_STEP / TILE,
    SEGMENT_TILES = ATTN_SEGMENT / TILE
};

/* ------------------------------------------------------------------------------------------ attention */

/* Tiles that will be read soon. While a kernel works on its tile i it prefetches about the first `bytes` bytes of
 * tile[i], a line at a time; never NULL (a tile that is in the cache already costs next to nothing). */
typedef struct attn_ahead {
    const void *const *tile;
    size_t bytes;
} attn_ahead;

/* Scores of pairs of tiles (32 tokens each): s[tile][r][t] = q[r] . k[t] for n_rows (1 .. ATTN_ROWS) rows. */
typedef struct attn_qk_args {
    const void *const *k_tile; /* [2 * n_pairs] */
    int n_pairs, dim, n_rows;
    const float *q;            /* [dim/2][ATTN_ROWS][2]: pairs of elements, as they are used. Of the kernel on bf16:
                                  [dim/4][ATTN_ROWS][2] dwords, see attn_pair */
    float *s;                  /* [2 * n_pairs][ATTN_ROWS][16] */
    attn_ahead ahead;          /* [2 * n_pairs] */
} attn_qk_args;
typedef void (*attn_qk_fn)(const attn_qk_args *a);

/* o[r] += p[r] . v, pair by pair. */
typedef struct attn_pv_args {
    const void *const *v_tile; /* [2 * n_pairs] */
    int n_pairs, dim, n_rows;
    const float *p;            /* [2 * n_pairs][ATTN_ROWS][16]. Of the kernel on bf16: of these 16 the first 8 are
                                  dwords, even and odd tokens of four in turn, see attn_pair */
    float *o;                  /* [n_rows][dim] */
    attn_ahead ahead;          /* [2 * n_pairs] */
} attn_pv_args;
typedef void (*attn_pv_fn)(const attn_pv_args *a);

/* One row of one step: scores to weights in place, lazy maximum, sum.
 * s: the row inside the first tile's scores; tile j's are at s + j * ATTN_ROWS * 16. n_visible: 1 .. ATTN_STEP tokens
 * of the step that the row sees; weights of the rest of n_pairs * 32 tokens become 0. narrow: round weights to bf16
 * values after they were summed. m, l[16], o[dim]: the row's running state. */
typedef struct attn_row {
    float *s;
    int n_visible, n_pairs, narrow;
    float c;
    float *m, *l, *o;
    int dim;
    /* [2 * n_pairs] bf16 [16] by which a tile's scores are multiplied first, and its weights when they were summed and
     * before they are narrowed; NULL: by 1. */
    const uint16_t *const *k_scale, *const *v_scale;
} attn_row;
typedef void (*attn_softmax_fn)(const attn_row *row);

/* Two steps of one chain as the instruction vdpbf16ps takes them: the upper half of a dword first, then the lower.
 * Elements 4i and 4i + 2 are two steps of the even chain, 4i + 1 and 4i + 3 of the odd one. Inputs are bf16 values. */
static inline uint32_t attn_pair(float first, float second) {
    uint32_t upper, lower;
    memcpy(&upper, &first, sizeof upper);
    memcpy(&lower, &second, sizeof lower);
    return upper | lower >> 16;
}

/* Fold a segment's (m, l, o) into the running (M, L, O), in segment order; they start as -inf, 0, 0. A segment whose l
 * is 0 is one that the row does not see. */
typedef void (*attn_merge_fn)(int dim, float *M, float *L, float *O, float m, float l, const float *o);

/* out[0 .. dim-1] = O * (1 / L). */
typedef void (*attn_finish_fn)(int dim, float L, const float *O, float *out);

/* ------------------------------------------------------------------------- attention over sealed blocks
 *
 * Codes meet queries and weights as integers, exactly, so how a path multiplies them is its own affair: each has its
 * own layout of query rows and weights, which the functions here make and read. Numeric contract, section 8. */

enum {
    CODE_QUERY_MAX = 32512, /* of a query's codes: 127 * 256, so that both bytes of one have a sign */
    CODE_WEIGHT_MAX = 32767 /* of a weight's codes */
};

/* Rows of queries as integers. */
typedef struct code_queries {
    _Alignas(64) uint8_t q[ATTN_DIM_MAX * ATTN_ROWS * 2]; /* layout of the path */
    int32_t sum[ATTN_ROWS][2];                            /* what the path wants to know of a row's codes */
    float scale[ATTN_ROWS];
} code_queries;

/* Rows of weights of a step's tiles as integers. */
typedef struct code_weights {
    _Alignas(64) uint8_t p[STEP_TILES * ATTN_ROWS * TILE * 2]; /* layout of the path */
    float scale[ATTN_ROWS];
} code_weights;

/* Put one query q[dim] into row `row`. */
typedef void (*code_query_fn)(const float *q, int dim, int row, code_queries *to);

/* centre[block][r] = centroid[block] . q[r] for n_rows rows q[n_rows][dim]; centre has ATTN_ROWS places per block. */
typedef void (*code_centre_fn)(const uint16_t *const *centroid, int n_blocks, int dim, const float *q, int n_rows,
                               float *centre);

/* s[tile][h * n_rows + r][t] of n_tiles tiles of each of n_heads heads, with row `row` + h * n_rows + r of q. `group`
 * tiles are read of every head in turn, then the next ones; so lie the tiles ahead. */
typedef struct code_qk_args {
    const void *const *k_tile;       /* [n_heads][SEGMENT_TILES] code lines */
    const uint16_t *const *k_scale;  /* [n_heads][SEGMENT_TILES] bf16 [16] */
    const float *const *centre;      /* [n_tiles] [n_heads * n_rows] what centroids of the tile's
                                        block add to scores */
    int n_heads, n_tiles, group, dim, row, n_rows;
    const code_queries *q;
    float *s;                        /* [n_tiles][ATTN_ROWS][16] */
    attn_ahead ahead;                /* [n_heads * n_tiles] */
} code_qk_args;
typedef void (*code_qk_fn)(const code_qk_args *a);

/* Row `row` of the weights of n_tiles tiles: p at p + tile * ATTN_ROWS * 16, values' scales bf16 [n_tiles][16]. */
typedef void (*code_weigh_fn)(const float *p, const uint16_t *const *v_scale, int n_tiles, int row, code_weights *to);

/* o[h * n_rows + r] += p[row + h * n_rows + r] . v over all n_tiles tiles (at most STEP_TILES) of each of n_heads
 * heads, read in groups likewise. */
typedef struct code_pv_args {
    const void *const *v_tile; /* [n_heads][SEGMENT_TILES] code lines */
    int n_heads, n_tiles, group, dim, row, n_rows;
    const code_weights *p;
    float *o;                  /* [n_heads * n_rows][dim] */
    attn_ahead ahead;          /* [n_heads * n_tiles] */
} code_pv_args;
typedef void (*code_pv_fn)(const code_pv_args *a);

/* Code lines of a float8 tile as a tile of bf16. */
typedef void (*float8_widen_fn)(const void *tile, int dim, void *bf16);

/* ---------------------------------------------------------------------------------------------- sealing */

/* One key/value head of a block that is full: hot tiles in, a record out, all of it written. Every finite element has
 * a finite code; scales are finite and above 0. */
typedef struct seal_args {
    const void *const *tile; /* [n_tiles] hot tiles: keys or values in the format's hot_k or hot_v */
    int n_tiles, dim;
    uint8_t *record;
} seal_args;
typedef void (*seal_fn)(const seal_args *a);

/* Walsh-Hadamard transform without a factor, in place, of each run of n elements of x[dim], n the largest power of two
 * that divides dim; dim is a multiple of 16. Element i of a run and element i ^ h become their sum and difference, for
 * h = 1, 2, 4, ... in this order. */
typedef void (*rows_rotate_fn)(float *x, int dim);

/* -------------------------------------------------------------------------------- rows and activations */

/* Activations as codes, per row: q [n_cols padded to 64 with zero codes], per block of 32: s, fs = s * sum, sum, half.
 * Codes are int8 in the order of the columns, or int16 at act16_place(column): of four neighbours first the even two,
 * then the odd two, as they meet the even and the odd bytes of a line of weights, each widened to 16 bits. */
typedef struct act_rows {
    const void *q;
    const float *s, *fs;
    const int32_t *sum, *half; /* half: of the first 16 codes of the block alone */
    size_t q_stride;     /* between rows, in bytes */
    size_t block_stride; /* between rows, in blocks */
} act_rows;

static inline int act16_place(int column) { return (column & ~3) | (column & 1) << 1 | (column >> 1 & 1); }

typedef void (*rows_norm_fn)(const float *x, const float *weight, float eps, int n, float *y);
typedef void (*rows_add_fn)(float *x, const float *y, size_t n);
typedef void (*rows_add_scaled_fn)(float *x, const float *y, float s, size_t n);
typedef void (*rows_scale_fn)(float *x, float s, size_t n);
typedef void (*rows_silu_mul_fn)(float *gate, const float *up, size_t n);
typedef void (*rows_rope_fn)(float *x, const float *turns, int dim, int halves); /* one head */
typedef void (*rows_narrow_fn)(float *x, size_t n);                               /* round to bf16 values, in place */
/* One row of activations to codes of the function's width; n a multiple of 32. */
typedef void (*rows_quantise_fn)(const float *x, int n, void *q, float *s, float *fs, int32_t *sum, int32_t *half);

/* -------------------------------------------------------------------------------------- matrix products */

/* Panels of packed weights: 16 rows each, layout of format.h. */
typedef struct mm_panels {
    const uint8_t *data;
    size_t panel_bytes;
    int n_panels; /* computed by this call */
    int n_k;
} mm_panels;

/* y[r][16 * panel + lane] for n_rows rows (any number). The caller gives y room for whole panels.
 * Integer dots with activations of the function's width. */
typedef void (*mm_int_fn)(const mm_panels *w, const act_rows *a, int n_rows, float *y, size_t y_stride);
/* float32 activations x [n_rows][x_stride] against weights widened exactly. */
typedef void (*mm_f32_fn)(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y, size_t y_stride);

/* ----------------------------------------------------------------------------------------- binary64 (math.c)
 *
 * Of our own, because the C library chooses its code by the CPU. Denormals are zeros, as operands and as results. */

double math_exp(double x); /* within 2 ulp */
double math_log(double x); /* within 2 ulp; 0 gives -inf, below 0 NaN */
/* Within 2 ulp for |x| up to 2^27, beyond only as good as x times 2^-53. */
void math_sincos(double x, double *sine, double *cosine);

/* ------------------------------------------------------------------------------------------- the table */

typedef struct kernels {
    const char *cpu; /* "scalar", "avx2", "avx512", "avx512bf16" */
    attn_qk_fn attn_qk[N_ELEMENT_FORMATS];
    attn_pv_fn attn_pv[N_ELEMENT_FORMATS];
    attn_softmax_fn attn_softmax;
    /* Over bf16 tiles, with queries and weights that are bf16 values. NULL: the ones above do it. */
    attn_qk_fn attn_qk_pairs;
    attn_softmax_fn attn_softmax_pairs; /* narrows, and leaves weights as attn_pv_pairs takes them */
    attn_pv_fn attn_pv_pairs;
    attn_merge_fn attn_merge;
    attn_finish_fn attn_finish;
    code_query_fn code_query;
    code_centre_fn code_centre;
    code_qk_fn code_qk[N_KV_FORMATS]; /* of KV_CODES; NULL for others */
    code_weigh_fn code_weigh;
    code_pv_fn code_pv[N_KV_FORMATS];
    float8_widen_fn widen_k[N_KV_FORMATS], widen_v[N_KV_FORMATS]; /* of KV_FLOAT8 */
    seal_fn seal_k[N_KV_FORMATS], seal_v[N_KV_FORMATS];           /* NULL for KV_PLAIN: tiles are copied */
    rows_rotate_fn rotate;
    rows_norm_fn norm;
    rows_add_fn add;
    rows_add_scaled_fn add_scaled;
    rows_scale_fn scale;
    rows_silu_mul_fn silu_mul;
    rows_rope_fn rope;
    rows_narrow_fn narrow;
    rows_quantise_fn quantise8, quantise16;
    mm_int_fn mm_int8[N_WEIGHT_FORMATS], mm_int16[N_WEIGHT_FORMATS]; /* NULL for float weights */
    mm_f32_fn mm_f32[N_WEIGHT_FORMATS];
} kernels;

/* The fastest table of this machine, or the one that KVTILE_CPU names; made once, thread-safe. */
const kernels *kernels_get(void);

/* The table of one path by name for checks; NULL: unknown, or this machine cannot run it. */
const kernels *kernels_of(const char *cpu);

/* Each file's part of the table. */
void attn_scalar(kernels *k);
void rows_scalar(kernels *k);
void matmul_scalar(kernels *k);
void seal_scalar(kernels *k);
void codes_scalar(kernels *k);
#if defined(__x86_64__)
void attn_avx2(kernels *k);
void codes_avx2(kernels *k);
void code_rows_avx2(kernels *k);
void float8_avx2(kernels *k);
void rows_avx2(kernels *k);
void matmul_int8_avx2(kernels *k);
void matmul_int16_avx2(kernels *k);
void matmul_f32_avx2(kernels *k);
void seal_avx2(kernels *k);
void attn_avx512(kernels *k);
void codes_avx512(kernels *k);
void code_rows_avx512(kernels *k);
void float8_avx512(kernels *k);
void rows_avx512(kernels *k);
void matmul_int8_avx512(kernels *k);
void matmul_int16_avx512(kernels *k);
void matmul_f32_avx512(kernels *k);
void seal_avx512(kernels *k);
void attn_avx512bf16(kernels *k);
#endif

/* ------------------------------------------------------------- one segment, on any table (attn.c) */

/* One segment for up to ATTN_ROWS query rows: n_rows of each of n_heads key/value heads. Values that one of the rows
 * does not see are finite: they meet a weight of 0. */
typedef struct attn_segment {
    const void *const *k_tile; /* [n_heads][SEGMENT_TILES] tiles of the segment, of which n_tokens tokens are used */
    const void *const *v_tile; /* [n_heads][SEGMENT_TILES] */
    int sealed_from, sealed_to; /* tokens of the segment that lie in sealed records, whole blocks of block_tiles
                                   tiles: there k_tile and v_tile are tiles of the records. Others are hot tiles */
    int block_tiles;
    const void *zero_tile; /* a hot tile of values that are 0 */
    int n_tokens;              /* tokens of the segment that exist, up to ATTN_SEGMENT; below 1: the rows see none */
    int first;                 /* absolute position of the segment's first token */
    int k_format, v_format;    /* kv formats; of hot tiles the element formats that go with them */
    int dim_k, dim_v;
    int n_heads, n_rows; /* n_heads * n_rows is at most ATTN_ROWS */
    const int *position; /* [n_rows] absolute position of each row, the same for all heads */
    const float *q;      /* [n_heads][n_rows][dim_k], rotated where keys are; o is, where values are */
    float c;
    int narrow_q; /* q holds bf16 values, and so do all keys; not with KV_CODES */
    int narrow;   /* round weights to bf16; all values are bf16 values; not with KV_CODES */
} attn_segment;

enum {
    /* Tiles are read in one order. Prefetching runs this many of 16 bits ahead, and of shorter ones as many more as
     * keep the distance: half of it does not hide the memory's latency, twice of it is more than can be under way at
     * once. */
    ATTN_AHEAD = 4,
    ATTN_AHEAD_MAX = 32,
    ATTN_STREAM = ATTN_ROWS * 2 * (SEGMENT_TILES + 4) + ATTN_AHEAD_MAX,
    ATTN_WIDENED_BYTES = 2 * TILE * ATTN_DIM_MAX * 2,
};

/* Scratch of one worker. */
typedef struct attn_scratch {
    _Alignas(64) float s[STEP_TILES][ATTN_ROWS * TILE];
    _Alignas(64) float l[ATTN_ROWS][TILE];
    _Alignas(64) float q[ATTN_DIM_MAX / 2][ATTN_ROWS][2];
    _Alignas(64) uint8_t widened[ATTN_WIDENED_BYTES]; /* tiles of float8 as tiles of bf16 */
    const void *widened_tile[STEP_TILES];
    code_queries code_q;
    code_weights code_p;
    float centre[SEGMENT_TILES][ATTN_ROWS];                    /* of each block, rows of all heads */
    const float *centre_of[ATTN_ROWS][SEGMENT_TILES];          /* of each head's tile */
    const uint16_t *k_scale[ATTN_ROWS * SEGMENT_TILES], *v_scale[ATTN_ROWS * SEGMENT_TILES];
    const void *stream[ATTN_STREAM];
} attn_scratch;

/* Partial result per row, heads outside: m, l [n_heads * n_rows], o [n_heads * n_rows][dim_v]. A row that sees none of
 * the segment: m = -inf, l = 0, o = 0. */
void attn_segment_run(const kernels *k, const attn_segment *seg, attn_scratch *scratch, float *m, float *l, float *o);

#endif
