/* ggml.h - inside the room: the quantised weight formats, for the table that ggml.c makes of them. */
#ifndef KVT_GGML_H
#define KVT_GGML_H

#include "format.h"

enum { ROWS = WEIGHT_ROWS, LINE = WEIGHT_LINE }; /* rows of a panel, bytes of a line */

static inline uint16_t u16_at(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

extern const weight_format weight_q4_0, weight_q4_1, weight_q5_0, weight_q5_1, weight_q8_0, weight_iq4_nl;
extern const weight_format weight_q2_k, weight_q3_k, weight_q4_k, weight_q5_k, weight_q6_k, weight_iq4_xs;

#endif
