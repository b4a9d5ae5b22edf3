/* matmul_f32_avx512.c - products with float32 activations in AVX-512 with VNNI: matmul_f32.h in its words. */
#include "kernel.h"

#include "matmul_formats.h"
#include "tiles_avx512.h"
#include "words_int_avx512.h"

#include "matmul_f32.h"

EACH_FLOAT(F32_OWN)
EACH_PLAIN(F32_OWN)
EACH_OTHER(F32_WIDENED)

void matmul_f32_avx512(kernels *k) {
#define FILL(NAME, FORMAT) k->mm_f32[FORMAT] = f32_##NAME;
    EACH_FLOAT(FILL)
    EACH_QUANTISED(FILL)
}
