/* matrix.h - what a packed matrix is, for the files of this room. */
#ifndef KVT_MATRIX_H
#define KVT_MATRIX_H

#include "format/format.h"
#include "kvtile_ops.h"

struct kvt_matrix {
    int format; /* WEIGHT_... */
    size_t n_rows, n_cols;
    size_t n_panels, panel_bytes;
    size_t data_bytes;
    uint8_t *data; /* [n_panels][panel_bytes] */
};

#endif
