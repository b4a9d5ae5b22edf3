/* matmul_int8_avx2.c - products with activations of 8 bits in AVX2: matmul_int.h in its words. */
#include "kernel.h"

#include "matmul_formats.h"
#include "tiles_avx2.h"
#include "words_int_avx2.h"

enum { BITS = 8 };

#include "matmul_int.h"

EACH_QUANTISED(INT)

void matmul_int8_avx2(kernels *k) {
#define FILL(NAME, FORMAT) k->mm_int8[FORMAT] = int_##NAME;
    EACH_QUANTISED(FILL)
}
