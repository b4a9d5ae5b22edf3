/* matmul.c - matrix products: activations made ready, and all products of a call as one set of work items.
 * Owns how the work is cut. kernel/ owns the arithmetic, matrix.c the weights.
 *
 * A cut never changes a bit: an output is one chain over k inside one item. */
#include <assert.h>
#include <string.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/thread.h"
#include "kernel/kernel.h"
#include "matrix.h"

enum {
    LINE = 64,
    BLOCK = 32,        /* activations that share a scale */
    QUANTISE_ROWS = 8, /* of an item */
    ITEM_ROWS = 96,    /* rows of an item at most: their activations stay in the second-level cache */
    ITEM_PANELS = 4,   /* an item's panels are a multiple of this, and so few tickets are spent on little work */
    ITEM_PANELS_MAX = 64,
    ITEMS_PER_THREAD = 3 /* more cost tickets, fewer leave threads waiting for the last one */
};

/* ------------------------------------------------------------------------------------------- activations */

struct kvt_input {
    int rows_max, cols_max;
    const float *x; /* [n_rows][x_stride], the caller's */
    size_t x_stride;
    int n_rows, n_cols;
    /* Where activations become codes and n_cols is whole blocks; strides fit n_cols, room is for cols_max. */
    size_t code_bytes; /* 1, 2; 0: they stay as they are */
    uint8_t *q;
    float *s, *fs;
    int32_t *sum, *half;
    size_t q_stride, block_stride;
    size_t bytes; /* of all this */
};

static size_t code_bytes_of(kvt_math math) {
    return math == KVT_MATH_FAST ? sizeof(int8_t) : math == KVT_MATH_ACCURATE ? sizeof(int16_t) : 0;
}

/* Bytes of codes between rows: whole lines of 64 and an odd number of them, or rows of 4096 columns would meet in one
 * set of the cache. */
static size_t q_stride_of(int n_cols, size_t code_bytes) {
    return mem_round((size_t)n_cols * code_bytes, LINE) | LINE;
}

static size_t block_stride_of(int n_cols) {
    return mem_round((size_t)n_cols, LINE) / BLOCK;
}

/* Bytes of the struct, the codes, and one array of a number per block, each starting a line. */
static bool input_sizes(int rows_max, int cols_max, size_t code_bytes, size_t *codes, size_t *numbers, size_t *all) {
    size_t rows = (size_t)rows_max;
    return mem_mul(rows, q_stride_of(cols_max, code_bytes), codes) &&
           mem_mul(rows, mem_round(4 * block_stride_of(cols_max), LINE), numbers) && mem_mul(*numbers, 4, all) &&
           mem_add(*all, *codes, all) && mem_add(*all, mem_round(sizeof(kvt_input), LINE), all);
}

kvt_status kvt_input_new(kvt_input **out, int rows_max, int cols_max, kvt_math math) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (rows_max < 1 || cols_max < 1) return KVT_E_ARGUMENT;
    if (math != KVT_MATH_FAST && math != KVT_MATH_ACCURATE && math != KVT_MATH_EXACT) return KVT_E_ARGUMENT;
    size_t code_bytes = code_bytes_of(math), codes, numbers, bytes;
    if (!input_sizes(rows_max, cols_max, code_bytes, &codes, &numbers, &bytes)) return KVT_E_MEMORY;
    if (code_bytes == 0) bytes = sizeof(kvt_input);
    kvt_input *in = mem_take(NULL, bytes);
    if (!in) return KVT_E_MEMORY;
    *in = (kvt_input){.rows_max = rows_max, .cols_max = cols_max, .code_bytes = code_bytes, .bytes = bytes};
    if (code_bytes > 0) {
        uint8_t *p = (uint8_t *)in + mem_round(sizeof *in, LINE);
        in->q = p;
        in->s = (float *)(p + codes);
        in->fs = (float *)(p + codes + numbers);
        in->sum = (int32_t *)(p + codes + 2 * numbers);
        in->half = (int32_t *)(p + codes + 3 * numbers);
    }
    *out = in;
    return KVT_OK;
}

void kvt_input_free(kvt_input *in) {
    if (in) mem_give(NULL, in, in->bytes);
}

static void quantise_item(void *ctx, int item, int worker) {
    (void)worker;
    kvt_input *in = ctx;
    rows_quantise_fn quantise = in->code_bytes == 1 ? kernels_get()->quantise8 : kernels_get()->quantise16;
    size_t row_bytes = (size_t)in->n_cols * in->code_bytes;
    int first = item * QUANTISE_ROWS, end = first + QUANTISE_ROWS < in->n_rows ? first + QUANTISE_ROWS : in->n_rows;
    for (size_t r = (size_t)first; r < (size_t)end; r++) {
        uint8_t *q = in->q + r * in->q_stride;
        size_t b = r * in->block_stride;
        quantise(in->x + r * in->x_stride, in->n_cols, q, in->s + b, in->fs + b, in->sum + b, in->half + b);
        memset(q + row_bytes, 0, in->q_stride - row_bytes);
    }
}

void kvt_input_set(kvt_input *in, kvt_workers *team, const float *x, size_t x_stride, int n_rows, int n_cols) {
    assert(n_rows >= 0 && n_rows <= in->rows_max && n_cols > 0 && n_cols <= in->cols_max);
    in->x = x;
    in->x_stride = x_stride;
    in->n_rows = n_rows;
    in->n_cols = n_cols;
    in->q_stride = q_stride_of(n_cols, in->code_bytes);
    in->block_stride = block_stride_of(n_cols);
    /* Only quantised weights ask for codes, and their columns are whole blocks. */
    if (in->code_bytes == 0 || n_cols % BLOCK) return;
    uint64_t callers = fp_enter();
    thread_run(team, (n_rows + QUANTISE_ROWS - 1) / QUANTISE_ROWS, quantise_item, in);
    fp_leave(callers);
}

/* ---------------------------------------------------------------------------------------------- products */

/* One call: row_items ranges of rows, each by the panel ranges of all products in turn. */
typedef struct matmul_work {
    const kernels *k;
    const kvt_input *in;
    const kvt_product *products;
    int row_items, panels_per_item;
    int items_per_rows; /* panel ranges of all products together */
    int n_threads;
} matmul_work;

/* What one item computes: rows row .. row + n_rows - 1 by panels panel .. panel + n_panels - 1. */
typedef struct piece {
    const kvt_product *product;
    int row, n_rows, panel, n_panels;
} piece;

static int panel_items(const kvt_product *p, int panels_per_item) {
    return ((int)p->w->n_panels + panels_per_item - 1) / panels_per_item;
}

/* NULL: activations stay as they are. */
static mm_int_fn kernel_of(const kernels *k, size_t code_bytes, int format) {
    if (code_bytes == 0) return NULL;
    return code_bytes == 1 ? k->mm_int8[format] : k->mm_int16[format];
}

static void piece_run(const matmul_work *work, const piece *c, float *y, size_t y_stride) {
    const kvt_input *in = work->in;
    const kvt_matrix *w = c->product->w;
    mm_panels panels = {w->data + (size_t)c->panel * w->panel_bytes, w->panel_bytes, c->n_panels, (int)w->n_cols};
    mm_int_fn by_codes = kernel_of(work->k, in->code_bytes, w->format);
    size_t row = (size_t)c->row;
    if (by_codes) {
        size_t b = row * in->block_stride;
        act_rows act = {in->q + row * in->q_stride, in->s + b, in->fs + b, in->sum + b, in->half + b,
                        in->q_stride, in->block_stride};
        by_codes(&panels, &act, c->n_rows, y, y_stride);
    } else {
        work->k->mm_f32[w->format](&panels, in->x + row * in->x_stride, in->x_stride, c->n_rows, y, y_stride);
    }
}

/* The last panel of a matrix whose rows are not a multiple of 16: only what exists is written. */
static void piece_run_partial(const matmul_work *work, const piece *c, float *y, size_t n_valid) {
    float whole[ITEM_ROWS * TILE];
    piece_run(work, c, whole, TILE);
    for (int r = 0; r < c->n_rows; r++, y += c->product->y_stride) memcpy(y, whole + r * TILE, n_valid * sizeof *y);
}

/* Range `item` of n_total cut into n_items that differ by one unit at most. */
static int cut(int n_total, int n_items, int item) {
    return (int)((int64_t)n_total * item / n_items);
}

/* Threads take items in turn. So that each reads one stretch of weights, what one has prefetched behind its last item
 * being its next one, every n_threads-th item continues the one before it. */
static int item_in_stretches(const matmul_work *work, int item) {
    int n = work->row_items * work->items_per_rows, each = n / work->n_threads;
    if (work->row_items > 1 || item >= each * work->n_threads) return item;
    return item % work->n_threads * each + item / work->n_threads;
}

static piece piece_of(const matmul_work *work, int item) {
    piece c = {.product = work->products};
    int rows = item / work->items_per_rows, range = item % work->items_per_rows, n;
    for (; range >= (n = panel_items(c.product, work->panels_per_item)); c.product++) range -= n;
    c.row = cut(work->in->n_rows, work->row_items, rows);
    c.n_rows = cut(work->in->n_rows, work->row_items, rows + 1) - c.row;
    c.panel = range * work->panels_per_item;
    int left = (int)c.product->w->n_panels - c.panel;
    c.n_panels = left < work->panels_per_item ? left : work->panels_per_item;
    return c;
}

static void matmul_item(void *ctx, int item, int worker) {
    (void)worker;
    const matmul_work *work = ctx;
    piece c = piece_of(work, item_in_stretches(work, item));
    const kvt_matrix *w = c.product->w;
    float *y = c.product->y + (size_t)c.row * c.product->y_stride + (size_t)c.panel * TILE;
    size_t end = (size_t)(c.panel + c.n_panels) * TILE;
    if (end <= w->n_rows) {
        piece_run(work, &c, y, c.product->y_stride);
        return;
    }
    c.n_panels--;
    if (c.n_panels > 0) piece_run(work, &c, y, c.product->y_stride);
    c.panel += c.n_panels;
    y += c.n_panels * TILE;
    c.n_panels = 1;
    piece_run_partial(work, &c, y, w->n_rows % TILE);
}

void kvt_matmul(kvt_workers *team, const kvt_input *in, const kvt_product *products, int n_products) {
    matmul_work work = {.k = kernels_get(), .in = in, .products = products};
    int64_t n_panels = 0;
    for (int i = 0; i < n_products; i++) {
        assert(products[i].w->n_cols == (size_t)in->n_cols && products[i].y_stride >= products[i].w->n_rows);
        n_panels += (int64_t)products[i].w->n_panels;
    }
    if (in->n_rows == 0 || n_panels == 0) return;
    work.row_items = (in->n_rows + ITEM_ROWS - 1) / ITEM_ROWS;
    work.n_threads = team ? kvt_workers_count(team) : 1;
    int64_t wanted = (int64_t)ITEMS_PER_THREAD * work.n_threads;
    int64_t per_item = (n_panels * work.row_items + wanted - 1) / wanted;
    if (per_item > ITEM_PANELS_MAX) per_item = ITEM_PANELS_MAX;
    work.panels_per_item = (int)mem_round((size_t)per_item, ITEM_PANELS);
    for (int i = 0; i < n_products; i++) work.items_per_rows += panel_items(&products[i], work.panels_per_item);
    uint64_t callers = fp_enter();
    thread_run(team, work.row_items * work.items_per_rows, matmul_item, &work);
    fp_leave(callers);
}
