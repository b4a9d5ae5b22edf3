/* matmul_int16_avx2.c - products with activations of 16 bits in AVX2: matmul_int.h in its words. */
#include "kernel.h"

#include "matmul_formats.h"
#include "tiles_avx2.h"
#include "words_int_avx2.h"

enum { BITS = 16 };

#include "matmul_int.h"

EACH_QUANTISED(INT)

void matmul_int16_avx2(kernels *k) {
#define FILL(NAME, FORMAT) k->mm_int16[FORMAT] = int_##NAME;
    EACH_QUANTISED(FILL)
}
