/* problem.h - a random matrix product for tests: weights in the file's form and in panels, activations as floats and as
 * codes, each in memory that ends at an unreadable page; and what one kernel makes of it. */
#ifndef TESTS_PROBLEM_H
#define TESTS_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"
#include "kvtile_ops.h"

/* Arithmetic: activations as they are, as codes of 8 or of 16 bits. Numbered as kvt_math. */
enum { INT8 = KVT_MATH_FAST, FLOAT = KVT_MATH_EXACT, INT16 = KVT_MATH_ACCURATE, N_KINDS };

/* Activations as codes of one width; for FLOAT without memory. */
typedef struct codes {
    uint8_t *q;
    float *s, *fs;
    int32_t *sum, *half;
} codes;

typedef struct problem {
    int format, n, k, m, n_panels, n_blocks; /* n rows by k columns of weights, m rows of activations */
    size_t panel_bytes, row_bytes;
    uint8_t *file, *panels;
    float *x; /* [m][k] */
    codes codes[N_KINDS];
} problem;

/* Where a block of the file has what tests put there. */
typedef struct block_shape {
    int d, m;         /* halves; m -1: none */
    int code;         /* a byte that holds codes */
    int groups;       /* scales of groups ... */
    const char *unit; /* ... that are 1 each, with minima of 0; NULL: there are none */
    size_t n_unit;    /* bytes */
} block_shape;

/* NULL: a float format. */
const block_shape *block_shape_of(int format);

extern const char *const kind_name[N_KINDS];
int has_kind(int format, int kind); /* float weights know one arithmetic */

uint32_t rng(void);
float rng_float(float size); /* between -size and size */
void rng_start(void);        /* the same numbers from here on */

problem problem_make(int format, int n, int k, int m);
void problem_free(problem *p);
void problem_pack(problem *p);     /* panels from the file */
void problem_quantise(problem *p); /* codes from x, by the scalar path */

/* Code of activation i [m][k]. */
int act_at(const problem *p, int kind, int i);
void act_put(problem *p, int kind, int i, int code);

/* The first m rows on one path. y [m][16 * n_panels], for guard_free. */
float *problem_run(const problem *p, const char *path, int kind, int m);

/* Values that differ in a bit; any NaN is like any other. */
size_t n_different(const float *a, const float *b, size_t n);

#endif
