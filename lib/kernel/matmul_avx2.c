/* matmul_avx2.c - matrix products in AVX2: matmul_body.h in its words. */
#include "kernel.h"

#include "words_int_avx2.h"

enum {
    INT8_ROWS = 4,
    INT8_TWO_ROWS = 2,
    F32_ROWS = 6,
    AHEAD_ROWS = 4,
    AHEAD_BYTES = 4096,
    WIDE_K = 128,
};

#include "matmul_body.h"

#define FORMAT_INT8(NAME, FORMAT) \
    INT8_TILE(NAME, FORMAT, 0, 1) INT8_TILE(NAME, FORMAT, 0, 2) INT8_TILE(NAME, FORMAT, 0, 3) INT8_TILE(NAME, FORMAT, 0, 4) \
    INT8_TILE(NAME, FORMAT, 1, 1) INT8_TILE(NAME, FORMAT, 1, 2) \
    static void int8_##NAME(const mm_panels *w, const act_rows *act, int n_rows, float *y, size_t y_stride) { \
        static const int8_tile_fn one[] = {int8_##NAME##_0_1, int8_##NAME##_0_2, int8_##NAME##_0_3, int8_##NAME##_0_4}; \
        static const int8_tile_fn two[] = {int8_##NAME##_1_1, int8_##NAME##_1_2}; \
        int8_panels(one, two, w, act, n_rows, y, y_stride); \
    }
#define FORMAT_F32(NAME, FORMAT) \
    F32_TILE(NAME, FORMAT, 1) F32_TILE(NAME, FORMAT, 2) F32_TILE(NAME, FORMAT, 3) F32_TILE(NAME, FORMAT, 4) F32_TILE(NAME, FORMAT, 5) F32_TILE(NAME, FORMAT, 6) \
    static const f32_tile_fn tile_##NAME[] = {f32_##NAME##_1, f32_##NAME##_2, f32_##NAME##_3, f32_##NAME##_4, f32_##NAME##_5, f32_##NAME##_6}; \
    static void mm_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y, size_t y_stride) { \
        f32_panels(FORMAT, tile_##NAME, tile_f32, w, x, x_stride, n_rows, y, y_stride); \
    }

FORMAT_INT8(q4_0, WEIGHT_Q4_0)
FORMAT_INT8(q4_1, WEIGHT_Q4_1)
FORMAT_INT8(q8_0, WEIGHT_Q8_0)
FORMAT_F32(f32, WEIGHT_F32)
FORMAT_F32(f16, WEIGHT_F16)
FORMAT_F32(bf16, WEIGHT_BF16)
FORMAT_F32(q4_0, WEIGHT_Q4_0)
FORMAT_F32(q4_1, WEIGHT_Q4_1)
FORMAT_F32(q8_0, WEIGHT_Q8_0)

void matmul_avx2(kernels *k) {
    k->mm_int8[WEIGHT_Q4_0] = int8_q4_0;
    k->mm_int8[WEIGHT_Q4_1] = int8_q4_1;
    k->mm_int8[WEIGHT_Q8_0] = int8_q8_0;
    k->mm_f32[WEIGHT_F32] = mm_f32;
    k->mm_f32[WEIGHT_F16] = mm_f16;
    k->mm_f32[WEIGHT_BF16] = mm_bf16;
    k->mm_f32[WEIGHT_Q4_0] = mm_q4_0;
    k->mm_f32[WEIGHT_Q4_1] = mm_q4_1;
    k->mm_f32[WEIGHT_Q8_0] = mm_q8_0;
}
