/* rows.c - the public row operations: norm, addition, activation, rotary encoding, and e^x and ln x. Cuts rows into
 * pieces for the workers and sets the floating-point mode; leaves arithmetic to kernel/. */
#include "kvtile_ops.h"

#include "base/fp.h"
#include "base/thread.h"
#include "kernel/kernel.h"

enum {
    INLINE_ELEMENTS = 32768, /* a few microseconds of work: below, waking the others costs more than they bring */
    PIECES_PER_THREAD = 4,   /* a thread that is late then holds up a quarter of its share */
    RUN = 4096               /* elements that count as a row where there are no rows */
};

/* One operation, as its pieces see it. */
typedef struct job {
    const kernels *k;
    float *x;
    const float *in, *by; /* second and third operand, or the weight, or the turns */
    size_t n_rows, row, stride; /* rows, elements of one, elements from one to the next */
    size_t n;                   /* elements in all, where there are no rows */
    size_t piece;               /* rows */
    float eps, s;               /* s: the factor of one that scales */
    const kvt_rope *rope;
    int n_heads, dim_head;
} job;

static void run(kvt_workers *team, job *j, kvt_work_fn fn) {
    size_t n_pieces = 1;
    if (team && j->n_rows > 1 && j->n_rows * j->row > INLINE_ELEMENTS)
        n_pieces = (size_t)kvt_workers_count(team) * PIECES_PER_THREAD;
    j->k = kernels_get();
    j->piece = (j->n_rows + n_pieces - 1) / n_pieces;
    if (j->piece) thread_run(team, (int)((j->n_rows + j->piece - 1) / j->piece), fn, j);
}

/* Rows of a piece: first .. end - 1. */
static size_t first_of(const job *j, int piece) {
    return (size_t)piece * j->piece;
}
static size_t end_of(const job *j, int piece) {
    size_t end = first_of(j, piece) + j->piece;
    return end < j->n_rows ? end : j->n_rows;
}

static void norm_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    for (size_t r = first_of(j, piece); r < end_of(j, piece); r++)
        j->k->norm(j->in + r * j->row, j->by, j->eps, (int)j->row, j->x + r * j->row);
}

void kvt_rmsnorm(kvt_workers *team, const float *x, const float *weight, float eps, int n_rows, int n_cols, float *y) {
    job j = {.x = y, .in = x, .by = weight, .n_rows = (size_t)n_rows, .row = (size_t)n_cols, .eps = eps};
    run(team, &j, norm_piece);
}

/* Elements without rows: runs of RUN, the last one shorter. */
static job elements(float *x, const float *y, size_t n) {
    return (job){.x = x, .in = y, .n_rows = (n + RUN - 1) / RUN, .row = RUN, .n = n};
}
static size_t elements_of(const job *j, int piece) {
    size_t end = end_of(j, piece) * RUN;
    return (end < j->n ? end : j->n) - first_of(j, piece) * RUN;
}

static void add_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    size_t first = first_of(j, piece) * RUN;
    j->k->add(j->x + first, j->in + first, elements_of(j, piece));
}

void kvt_add(kvt_workers *team, float *x, const float *y, size_t n) {
    job j = elements(x, y, n);
    run(team, &j, add_piece);
}

static void add_scaled_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    size_t first = first_of(j, piece) * RUN;
    j->k->add_scaled(j->x + first, j->in + first, j->s, elements_of(j, piece));
}

void kvt_add_scaled(kvt_workers *team, float *x, const float *y, float s, size_t n) {
    job j = elements(x, y, n);
    j.s = s;
    run(team, &j, add_scaled_piece);
}

static void scale_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    j->k->scale(j->x + first_of(j, piece) * RUN, j->s, elements_of(j, piece));
}

void kvt_scale(kvt_workers *team, float *x, float s, size_t n) {
    job j = elements(x, NULL, n);
    j.s = s;
    run(team, &j, scale_piece);
}

static void add_row_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    for (size_t r = first_of(j, piece); r < end_of(j, piece); r++) j->k->add(j->x + r * j->row, j->by, j->row);
}

void kvt_add_row(kvt_workers *team, float *x, const float *bias, int n_rows, int n_cols) {
    job j = {.x = x, .by = bias, .n_rows = (size_t)n_rows, .row = (size_t)n_cols};
    run(team, &j, add_row_piece);
}

static void silu_mul_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    size_t first = first_of(j, piece) * RUN;
    j->k->silu_mul(j->x + first, j->in + first, elements_of(j, piece));
}

void kvt_silu_mul(kvt_workers *team, float *gate, const float *up, size_t n) {
    job j = elements(gate, up, n);
    run(team, &j, silu_mul_piece);
}

/* Numeric contract, section 4: f and the angle in binary32, everything around them in binary64. A function of its own,
 * so that no arithmetic moves across the change of mode. */
__attribute__((noinline)) static void turns_fill(const kvt_rope *rope, const int32_t *positions, int n_rows,
                                                 float *turns) {
    double ln_base = rope->freqs ? 0 : math_log((double)rope->base);
    double magnitude = rope->magnitude == 0 ? 1 : (double)rope->magnitude; /* 1 changes no bit */
    for (int i = 0; i < rope->dim / 2; i++) {
        float f = rope->freqs ? rope->freqs[i] : (float)math_exp(-(2.0 * i / rope->dim) * ln_base);
        for (int r = 0; r < n_rows; r++) {
            float angle = (float)positions[r] * f, *turn = turns + (size_t)r * (size_t)rope->dim + 2 * (size_t)i;
            double sine, cosine;
            math_sincos((double)angle, &sine, &cosine);
            turn[0] = (float)(cosine * magnitude);
            turn[1] = (float)(sine * magnitude);
        }
    }
}

void kvt_rope_turns(const kvt_rope *rope, const int32_t *positions, int n_rows, float *turns) {
    uint64_t fp = fp_enter();
    turns_fill(rope, positions, n_rows, turns);
    fp_leave(fp);
}

static void rope_piece(void *ctx, int piece, int worker) {
    (void)worker;
    const job *j = ctx;
    for (size_t r = first_of(j, piece); r < end_of(j, piece); r++)
        for (int h = 0; h < j->n_heads; h++)
            j->k->rope(j->x + r * j->stride + (size_t)h * (size_t)j->dim_head, j->in + r * (size_t)j->rope->dim,
                       j->rope->dim, j->rope->halves);
}

void kvt_rope_apply(kvt_workers *team, const kvt_rope *rope, const float *turns, float *x, size_t x_stride, int n_rows,
                    int n_heads, int dim_head) {
    job j = {.x = x, .in = turns, .n_rows = (size_t)n_rows, .row = (size_t)n_heads * (size_t)dim_head};
    j.stride = x_stride;
    j.rope = rope;
    j.n_heads = n_heads;
    j.dim_head = dim_head;
    run(team, &j, rope_piece);
}

double kvt_exp(double x) {
    uint64_t fp = fp_enter();
    double y = math_exp(x);
    fp_leave(fp);
    return y;
}

double kvt_log(double x) {
    uint64_t fp = fp_enter();
    double y = math_log(x);
    fp_leave(fp);
    return y;
}
