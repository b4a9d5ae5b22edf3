/* matmul_avx512.c - matrix products in AVX-512 with VNNI: matmul_body.h in its words. */
#include "kernel.h"

#include "words_int_avx512.h"

enum {
    INT8_ROWS = 8,     /* rows of activations that the registers have room for beside one word of weights */
    INT8_TWO_ROWS = 2, /* up to so many go with two words */
    F32_ROWS = 12,
    DIRECT_ROWS = 4,
    AHEAD_ROWS = 4,      /* up to so many, memory is the limit: prefetch */
    AHEAD_BYTES = 4096,
};

#include "matmul_body.h"

F32_TILE(0, 1) F32_TILE(1, 1)
F32_TILE(0, 2) F32_TILE(1, 2)
F32_TILE(0, 3) F32_TILE(1, 3)
F32_TILE(0, 4) F32_TILE(1, 4)
F32_TILE(0, 5) F32_TILE(1, 5)
F32_TILE(0, 6) F32_TILE(1, 6)
F32_TILE(0, 7) F32_TILE(1, 7)
F32_TILE(0, 8) F32_TILE(1, 8)
F32_TILE(0, 9) F32_TILE(1, 9)
F32_TILE(0, 10) F32_TILE(1, 10)
F32_TILE(0, 11) F32_TILE(1, 11)
F32_TILE(0, 12) F32_TILE(1, 12)
static const f32_tile_fn f32_one[F32_ROWS] = {f32_0_1, f32_0_2, f32_0_3, f32_0_4, f32_0_5, f32_0_6, f32_0_7, f32_0_8, f32_0_9, f32_0_10, f32_0_11, f32_0_12};
static const f32_tile_fn f32_two[F32_ROWS] = {f32_1_1, f32_1_2, f32_1_3, f32_1_4, f32_1_5, f32_1_6, f32_1_7, f32_1_8, f32_1_9, f32_1_10, f32_1_11, f32_1_12};

#define FORMAT_INT8(NAME, FORMAT) \
    INT8_TILE(NAME, FORMAT, 0, 1) INT8_TILE(NAME, FORMAT, 0, 2) INT8_TILE(NAME, FORMAT, 0, 3) INT8_TILE(NAME, FORMAT, 0, 4) INT8_TILE(NAME, FORMAT, 0, 5) INT8_TILE(NAME, FORMAT, 0, 6) INT8_TILE(NAME, FORMAT, 0, 7) INT8_TILE(NAME, FORMAT, 0, 8) \
    INT8_TILE(NAME, FORMAT, 1, 1) INT8_TILE(NAME, FORMAT, 1, 2) \
    static void int8_##NAME(const mm_panels *w, const act_rows *act, int n_rows, float *y, size_t y_stride) { \
        static const int8_tile_fn one[] = {int8_##NAME##_0_1, int8_##NAME##_0_2, int8_##NAME##_0_3, int8_##NAME##_0_4, int8_##NAME##_0_5, int8_##NAME##_0_6, int8_##NAME##_0_7, int8_##NAME##_0_8}; \
        static const int8_tile_fn two[] = {int8_##NAME##_1_1, int8_##NAME##_1_2}; \
        int8_panels(one, two, w, act, n_rows, y, y_stride); \
    }
#define FORMAT_F32(NAME, FORMAT) \
    DIRECT(NAME, FORMAT, 1) DIRECT(NAME, FORMAT, 2) DIRECT(NAME, FORMAT, 3) DIRECT(NAME, FORMAT, 4) \
    static void mm_##NAME(const mm_panels *w, const float *x, size_t x_stride, int n_rows, float *y, size_t y_stride) { \
        if (n_rows == 1) direct_##NAME##_1(w, x, x_stride, y, y_stride); else \
        if (n_rows == 2) direct_##NAME##_2(w, x, x_stride, y, y_stride); else \
        if (n_rows == 3) direct_##NAME##_3(w, x, x_stride, y, y_stride); else \
        if (n_rows == 4) direct_##NAME##_4(w, x, x_stride, y, y_stride); else \
        f32_panels(FORMAT, f32_one, f32_two, w, x, x_stride, n_rows, y, y_stride); \
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

void matmul_avx512(kernels *k) {
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
