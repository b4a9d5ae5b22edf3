/* kvtile_ops.h - the arithmetic an engine wants beside its cache: a worker pool, packed weights, matrix
 * products, norm, rotary position encoding, activation functions.
 *
 * The same promise as kvtile.h: the result for a row does not depend, in a single bit, on the rows
 * it is computed with, on threads or on the instruction set (docs/numeric-contract.md).
 *
 *     kvt_workers *team;
 *     kvt_workers_open(&team, 0);
 *     kvt_matrix *w;                                            weights, packed once into tiles
 *     kvt_matrix_pack(&w, &(kvt_matrix_source){ KVT_W_Q4_1, 576, 576, data, bytes }, team);
 *     kvt_input *in;                                            activations, prepared once per use
 *     kvt_input_new(&in, 512, 1536, KVT_MATH_FAST);
 *
 *     kvt_input_set(in, team, x, 576, n_rows, 576);
 *     kvt_matmul(team, in, &(kvt_product){ w, y, 576 }, 1);     y = x w^T
 *
 * All data is float32, row-major unless said otherwise. Strides count elements. A pool may be NULL: the caller's
 * thread works alone. These calls trust their sizes and pointers: a mistake is at best caught by an assertion (none
 * under NDEBUG), except where a status is returned.
 */
#ifndef KVTILE_OPS_H
#define KVTILE_OPS_H

#include "kvtile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------- worker pool */

typedef struct kvt_workers kvt_workers;

/* n_threads threads in all, the caller's among them; 0: the processors this process may use, at most 256.
 * KVT_E_ARGUMENT: below 0 or above 256. KVT_E_MEMORY: threads cannot be had. Where a status is not KVT_OK, *out of
 * this and the calls below is NULL. */
KVT_API kvt_status kvt_workers_open(kvt_workers **out, int n_threads);
KVT_API void kvt_workers_close(kvt_workers *team); /* NULL is fine */
KVT_API int kvt_workers_count(const kvt_workers *team);

/* item 0 .. n_items - 1, each once, on any thread in any order; worker is 0 .. count - 1 and no two calls
 * with the same number run at once (so it can name scratch memory). */
typedef void (*kvt_work_fn)(void *ctx, int item, int worker);

/* Run all items and return when the last is finished, in the floating-point mode of the contract. One caller at a
 * time, caches that share the pool among them; not from inside a work_fn.
 * n_items of 1 runs on the caller. Workers spin for a while after the last call, then sleep. */
KVT_API void kvt_workers_run(kvt_workers *team, int n_items, kvt_work_fn fn, void *ctx);

/* ---------------------------------------------------------------------------------- packed weights */

/* Element types of weights, numbered as GGUF numbers tensor types. */
typedef enum kvt_weight_type {
    KVT_W_F32 = 0,
    KVT_W_F16 = 1,
    KVT_W_Q4_0 = 2,
    KVT_W_Q4_1 = 3,
    KVT_W_Q5_0 = 6,
    KVT_W_Q5_1 = 7,
    KVT_W_Q8_0 = 8,
    KVT_W_Q2_K = 10, /* _K: rows are a multiple of 256 long */
    KVT_W_Q3_K = 11,
    KVT_W_Q4_K = 12,
    KVT_W_Q5_K = 13,
    KVT_W_Q6_K = 14,
    KVT_W_IQ4_NL = 20,
    KVT_W_IQ4_XS = 23, /* likewise */
    KVT_W_BF16 = 30
} kvt_weight_type;

/* Name ("Q4_1"); NULL for a type that is not offered. */
KVT_API const char *kvt_weight_name(kvt_weight_type type);

/* Bytes of n_elements consecutive elements of a row. 0: the type is not offered, or a row of that length is not a
 * whole number of its blocks. */
KVT_API size_t kvt_weight_bytes(kvt_weight_type type, size_t n_elements);

typedef struct kvt_matrix kvt_matrix;

/* A matrix as a GGUF file stores it: n_rows outputs, each a run of n_cols weights. */
typedef struct kvt_matrix_source {
    kvt_weight_type type;
    size_t n_rows, n_cols;
    const void *data; /* read during the call only */
    size_t data_bytes;
} kvt_matrix_source;

/* Copy a matrix into panels of 16 rows (docs/design.md), in parallel.
 * KVT_E_UNSUPPORTED: type. KVT_E_ARGUMENT: sizes do not fit each other. KVT_E_MEMORY. */
KVT_API kvt_status kvt_matrix_pack(kvt_matrix **out, const kvt_matrix_source *src, kvt_workers *team);
KVT_API void kvt_matrix_free(kvt_matrix *w); /* NULL is fine */
KVT_API size_t kvt_matrix_bytes(const kvt_matrix *w);
KVT_API size_t kvt_matrix_rows(const kvt_matrix *w);
KVT_API size_t kvt_matrix_cols(const kvt_matrix *w);

/* Row `row` widened to float32 (what an embedding table is asked for): out [n_cols]. */
KVT_API void kvt_matrix_row(const kvt_matrix *w, size_t row, float *out);

/* ---------------------------------------------------------------------------------- matrix products */

/* Activations made ready for products: in KVT_MATH_FAST also rounded to 8 bits, in KVT_MATH_ACCURATE to 16, one scale
 * per 32. */
typedef struct kvt_input kvt_input;

KVT_API kvt_status kvt_input_new(kvt_input **out, int rows_max, int cols_max, kvt_math math);
KVT_API void kvt_input_free(kvt_input *in); /* NULL is fine */

/* x [n_rows][x_stride], n_cols of each row used; x must stay as it is until the last product with it. */
KVT_API void kvt_input_set(kvt_input *in, kvt_workers *team, const float *x, size_t x_stride, int n_rows, int n_cols);

typedef struct kvt_product {
    const kvt_matrix *w; /* kvt_matrix_cols(w) equals the input's n_cols */
    float *y;            /* [n_rows][y_stride], the first kvt_matrix_rows(w) of each row are written */
    size_t y_stride;
} kvt_product;

/* y = x w^T for each product, as one piece of parallel work.
 * KVT_MATH_FAST, KVT_MATH_ACCURATE: quantised weights meet 8-bit or 16-bit activations, with exact integer dots per
 * 32; F32, F16 and BF16 weights meet float32 activations. KVT_MATH_EXACT: float32 activations meet the weights widened
 * exactly. */
KVT_API void kvt_matmul(kvt_workers *team, const kvt_input *in, const kvt_product *products, int n_products);

/* ---------------------------------------------------------------------------------------------- rows */

/* y = x / sqrt(mean(x^2) + eps) * weight, per row of n_cols. x and y may be the same. */
KVT_API void kvt_rmsnorm(kvt_workers *team, const float *x, const float *weight, float eps, int n_rows, int n_cols,
                         float *y);

/* x += y over n elements. */
KVT_API void kvt_add(kvt_workers *team, float *x, const float *y, size_t n);
/* x += s * y over n elements, one fma each. */
KVT_API void kvt_add_scaled(kvt_workers *team, float *x, const float *y, float s, size_t n);
/* x *= s over n elements. */
KVT_API void kvt_scale(kvt_workers *team, float *x, float s, size_t n);
/* Add a row to each row: x [n_rows][n_cols] += bias [n_cols]. */
KVT_API void kvt_add_row(kvt_workers *team, float *x, const float *bias, int n_rows, int n_cols);

/* gate = silu(gate) * up over n elements; silu(x) = x / (1 + e^-x). */
KVT_API void kvt_silu_mul(kvt_workers *team, float *gate, const float *up, size_t n);

/* Rotary position encoding (Su et al. 2021, RoFormer). Every way of stretching it to longer contexts (linear, NTK by
 * parts, YaRN, per-frequency factors) is a list of frequencies and a magnitude. */
typedef struct kvt_rope {
    int dim;     /* elements of a head that turn, even, at most the head's; the rest stay */
    float base;  /* theta, e.g. 10000 */
    int halves;  /* 0: pairs (2i, 2i+1), as GGUF's llama; 1: pairs (i, i + dim/2), as Hugging Face's */
    const float *freqs; /* [dim/2] angle per position of pair i, the caller's; NULL: base^(-2i/dim) */
    float magnitude;    /* the cosine and sine are multiplied by it; 0 stands for 1 */
} kvt_rope;

/* cos and sin of position * frequency for each row, times the magnitude: turns [n_rows][dim/2][2]. Once per step, for
 * all layers. */
KVT_API void kvt_rope_turns(const kvt_rope *rope, const int32_t *positions, int n_rows, float *turns);

/* Turn x [n_rows][x_stride], each row n_heads heads of dim_head, in place. */
KVT_API void kvt_rope_apply(kvt_workers *team, const kvt_rope *rope, const float *turns, float *x, size_t x_stride,
                            int n_rows, int n_heads, int dim_head);

/* ------------------------------------------------------------------------------ the same on every CPU */

/* e^x and ln x, without the C library, whose choice of code depends on the CPU. Within 2 ulp of a double; denormals are
 * zeros, as operands and as results. */
KVT_API double kvt_exp(double x);
KVT_API double kvt_log(double x);

#ifdef __cplusplus
}
#endif
#endif
