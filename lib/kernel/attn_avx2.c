/* attn_avx2.c - attention in AVX2 with FMA and F16C: a line is two registers, taken one after the other. */
#include <string.h>

#include "kernel.h"
#include "base/unroll.h"
#include "words_avx2.h"

typedef __m256 lanes;
#define LANES 8
/* 16 registers: 4 rows of two chains and their sums, and the operands. */
#define ROWS 4
#define STEPS 1
#define PV_ROWS 2 /* by two columns: the factors, which are no operands from memory here, serve both */
#define PV_COLUMNS(rows) ((rows) == 1 ? 4 : 2)
#define COLUMNS_MOST 4
#define PV_PAIRS 2

WORD lanes lanes_zero(void) { return _mm256_setzero_ps(); }
WORD lanes lanes_load(const void *p) { return _mm256_loadu_ps(p); }
WORD void lanes_store(float *p, lanes x) { _mm256_storeu_ps(p, x); }
WORD lanes lanes_add(lanes x, lanes y) { return _mm256_add_ps(x, y); }
WORD lanes lanes_fma1(lanes x, const float *f, lanes z) { return _mm256_fmadd_ps(x, _mm256_set1_ps(*f), z); }
WORD lanes lanes_fma(lanes x, lanes y, lanes z) { return _mm256_fmadd_ps(x, y, z); }
WORD void lanes_load_bf16(const void *p, lanes *even, lanes *odd) {
    __m256i x = _mm256_loadu_si256(p);
    __asm__("" : "+x"(x)); /* used twice; without this GCC 12 loads it twice */
    *even = even8(x);
    *odd = odd8(x);
}
WORD lanes lanes_load_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
/* f[0] and f[1] in turn. */
WORD lanes lanes_set2(const float *f) {
    double both;
    memcpy(&both, f, sizeof both);
    return _mm256_castpd_ps(_mm256_set1_pd(both));
}
/* x and y hold 16 sums, even and odd in turn: 8 sums of two. */
WORD lanes lanes_fold(lanes x, lanes y) {
    __m256 even = _mm256_shuffle_ps(x, y, 0x88), odd = _mm256_shuffle_ps(x, y, 0xdd); /* quarters x y x y */
    __m256d sum = _mm256_castps_pd(_mm256_add_ps(even, odd));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(sum, 0xd8));
}

#include "attn_formats.h"

void attn_avx2(kernels *k) { attn_fill(k); }
