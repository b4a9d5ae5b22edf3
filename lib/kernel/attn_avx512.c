/* attn_avx512.c - attention in AVX-512: a line is one register. */
#include <string.h>

#include "kernel.h"
#include "lanes_avx512.h"
#include "base/unroll.h"

/* x times *f. The factor comes from memory within the instruction; compilers fetch it once for several and then lack
 * registers. Volatile, so that prefetches stay between them. */
WORD lanes lanes_fma1(lanes x, const float *f, lanes z) {
    __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(z) : "v"(x), "m"(*f));
    return z;
}
WORD lanes lanes_fma(lanes x, lanes y, lanes z) { return _mm512_fmadd_ps(x, y, z); }
WORD void lanes_load_bf16(const void *p, lanes *even, lanes *odd) { vf_load_bf16(p, even, odd); }
WORD lanes lanes_load_f16(const void *p) { return vf_load_f16(p); }
/* f[0] and f[1] in turn. */
WORD lanes lanes_set2(const float *f) {
    double both;
    memcpy(&both, f, sizeof both);
    return _mm512_castpd_ps(_mm512_set1_pd(both));
}
/* x and y hold 32 sums, even and odd in turn: 16 sums of two. */
WORD lanes lanes_fold(lanes x, lanes y) {
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_add_ps(_mm512_permutex2var_ps(x, even, y), _mm512_permutex2var_ps(x, odd, y));
}

#include "attn_formats.h"

void attn_avx512(kernels *k) { attn_fill(k); }
