/* matrix.c - packed weights: from the rows of a file into panels of 16 rows, and single rows back.
 * Owns their memory and sizes. format/ owns the layouts; matmul.c computes with them. */
#include "matrix.h"

#include <assert.h>
#include <limits.h>

#include "base/fp.h"
#include "base/mem.h"
#include "base/thread.h"

enum { PANEL_ROWS = 16 };

/* ------------------------------------------------------------------------------------------ weight types */

static const weight_format *format_of_type(kvt_weight_type type) {
    return weight_format_of(weight_format_find((int)type));
}

const char *kvt_weight_name(kvt_weight_type type) {
    const weight_format *f = format_of_type(type);
    return f ? f->name : NULL;
}

size_t kvt_weight_bytes(kvt_weight_type type, size_t n_elements) {
    const weight_format *f = format_of_type(type);
    return f ? weight_row_bytes(f, n_elements) : 0;
}

/* ------------------------------------------------------------------------------------------------ packing */

/* One parallel run: an item is a run of panels, long enough to be worth a ticket. */
enum { PACK_PANELS = 8 };

typedef struct pack_work {
    const weight_format *format;
    const uint8_t *rows; /* [n_rows][row_bytes] */
    size_t row_bytes;
    kvt_matrix *w;
} pack_work;

static void pack_item(void *ctx, int item, int worker) {
    (void)worker;
    const pack_work *work = ctx;
    const kvt_matrix *w = work->w;
    size_t first = (size_t)item * PACK_PANELS;
    for (size_t p = first; p < w->n_panels && p < first + PACK_PANELS; p++) {
        size_t row = p * PANEL_ROWS, left = w->n_rows - row;
        work->format->pack(work->rows + row * work->row_bytes, work->row_bytes,
                           left < PANEL_ROWS ? (int)left : PANEL_ROWS, w->n_cols, w->data + p * w->panel_bytes);
    }
}

/* Sizes that fit each other and the kernels, which count columns and panels in int. */
static kvt_status matrix_plan(kvt_matrix *w, const kvt_matrix_source *src, size_t *row_bytes) {
    const weight_format *f = format_of_type(src->type);
    if (!f) return KVT_E_UNSUPPORTED;
    size_t bytes;
    *row_bytes = weight_row_bytes(f, src->n_cols);
    if (src->n_rows == 0 || *row_bytes == 0 || !src->data) return KVT_E_ARGUMENT;
    if (src->n_cols > INT_MAX / 2 || src->n_rows > INT_MAX / 2) return KVT_E_ARGUMENT;
    if (!mem_mul(src->n_rows, *row_bytes, &bytes) || bytes != src->data_bytes) return KVT_E_ARGUMENT;
    w->format = weight_format_find((int)src->type);
    w->n_rows = src->n_rows;
    w->n_cols = src->n_cols;
    w->n_panels = (src->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    w->panel_bytes = weight_panel_bytes(f, src->n_cols);
    return mem_mul(w->n_panels, w->panel_bytes, &w->data_bytes) ? KVT_OK : KVT_E_MEMORY;
}

kvt_status kvt_matrix_pack(kvt_matrix **out, const kvt_matrix_source *src, kvt_workers *team) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (!src) return KVT_E_ARGUMENT;
    kvt_matrix plan = {0};
    size_t row_bytes;
    kvt_status status = matrix_plan(&plan, src, &row_bytes);
    if (status != KVT_OK) return status;
    kvt_matrix *w = mem_take(NULL, sizeof *w);
    plan.data = mem_take(NULL, plan.data_bytes);
    if (!w || !plan.data) {
        mem_give(NULL, w, sizeof *w);
        mem_give(NULL, plan.data, plan.data_bytes);
        return KVT_E_MEMORY;
    }
    *w = plan;
    pack_work work = {weight_format_of(w->format), src->data, row_bytes, w};
    thread_run(team, (int)((w->n_panels + PACK_PANELS - 1) / PACK_PANELS), pack_item, &work);
    *out = w;
    return KVT_OK;
}

void kvt_matrix_free(kvt_matrix *w) {
    if (!w) return;
    mem_give(NULL, w->data, w->data_bytes);
    mem_give(NULL, w, sizeof *w);
}

/* ------------------------------------------------------------------------------------------------ looking */

size_t kvt_matrix_bytes(const kvt_matrix *w) { return w->data_bytes; }
size_t kvt_matrix_rows(const kvt_matrix *w) { return w->n_rows; }
size_t kvt_matrix_cols(const kvt_matrix *w) { return w->n_cols; }

void kvt_matrix_row(const kvt_matrix *w, size_t row, float *out) {
    assert(row < w->n_rows);
    uint64_t callers = fp_enter();
    weight_format_of(w->format)->panel_row(w->data + row / PANEL_ROWS * w->panel_bytes, (int)(row % PANEL_ROWS),
                                           w->n_cols, out);
    fp_leave(callers);
}
