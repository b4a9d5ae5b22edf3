/* rows_f32.h - rows with products in float32: the words of rows_body.h from lanes_fma, lanes_set1 and
 * raw_widen(raw, &even, &odd) of one instruction set. */

typedef struct line32 {
    lanes even, odd;
} line32;
WORD line32 line32_of(raw x) {
    line32 wide;
    raw_widen(x, &wide.even, &wide.odd);
    return wide;
}
WORD line32 query32_load(const uint8_t *p) {
    line32 q = {lanes_load((const float *)p), lanes_load((const float *)p + LANES)};
    KEEP(q.even);
    KEEP(q.odd);
    return q;
}
WORD lanes line32_dot(line32 x, line32 q, lanes sum) {
    return lanes_fma(x.odd, q.odd, lanes_fma(x.even, q.even, sum));
}

typedef struct two32 {
    line32 a, b;
} two32;
typedef struct weight32 {
    lanes a, b;
} weight32;
typedef struct weights32 {
    const float *p;
} weights32;
WORD two32 two32_of(raw a, raw b) { return (two32){line32_of(a), line32_of(b)}; }
WORD void weights32_make(const int rows, const float *p, weights32 *w) {
    (void)rows;
    w->p = p;
}
WORD weight32 weight32_load(const weights32 *w, int row, int i) {
    const float *p = w->p + row * TILE + 2 * i;
    return (weight32){lanes_set1(p[0]), lanes_set1(p[1])};
}
WORD void two32_add(two32 x, weight32 w, lanes *o) {
    o[0] = lanes_fma(x.b.even, w.b, lanes_fma(x.a.even, w.a, o[0]));
    o[1] = lanes_fma(x.b.odd, w.b, lanes_fma(x.a.odd, w.a, o[1]));
}

/* Per line the even and the odd elements; where sums share a register, once more for the words two places off. */
static void put_q_32(const float *x, int dim, int row, void *q) {
    float *to = (float *)q + row * dim * SHARE;
    for (int d = 0; d < dim; d++) {
        const int i = d % (2 * LANES);
        for (int h = 0; h < SHARE; h++) to[(d - i) * SHARE + (2 * h + i % 2) * LANES + ((i / 2) ^ (2 * h))] = x[d];
    }
}

#define NAME(f) f##_32
#define line line32
#define line_of line32_of
#define LINE_Q (2 * LANES * 4 * SHARE)
#define line_dot line32_dot
#define query_load query32_load
#define two two32
#define two_of two32_of
#define two_add two32_add
#define weight weight32
#define weight_load weight32_load
#define weights weights32
#define weights_make weights32_make
#include "rows_body.h"
