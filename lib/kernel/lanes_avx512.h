/* lanes_avx512.h - what attn_body.h asks of an instruction set, for all kernels of AVX-512: a line is one register. */
#ifndef KVT_LANES_AVX512_H
#define KVT_LANES_AVX512_H

#include "words_avx512.h"

typedef __m512 lanes;
#define LANES 16
/* 32 registers: 8 rows of two chains and their sums, and the operands. */
#define ROWS 8
#define STEPS 4
#define PV_ROWS ROWS
/* All that registers hold, but for the widest blocks, whose sums need them. */
#define PV_COLUMNS(rows) ((rows) <= 3 ? 4 : (rows) == 4 ? 2 : 1)
#define COLUMNS_MOST 4
#define PV_PAIRS 2

WORD lanes lanes_zero(void) { return _mm512_setzero_ps(); }
WORD lanes lanes_load(const void *p) { return _mm512_loadu_ps(p); }
WORD void lanes_store(float *p, lanes x) { _mm512_storeu_ps(p, x); }
WORD lanes lanes_add(lanes x, lanes y) { return _mm512_add_ps(x, y); }

#endif
