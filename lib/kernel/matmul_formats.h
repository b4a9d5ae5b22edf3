/* matmul_formats.h - products for every weight format in the words of one instruction set, and their part of the table.
 * Included by matmul_avx2.c and matmul_avx512.c behind INT and F32, which make a format's functions. */

INT(8, q4_0, WEIGHT_Q4_0)
INT(8, q4_1, WEIGHT_Q4_1)
INT(8, q8_0, WEIGHT_Q8_0)
INT(16, q4_0, WEIGHT_Q4_0)
INT(16, q4_1, WEIGHT_Q4_1)
INT(16, q8_0, WEIGHT_Q8_0)

F32(f32, WEIGHT_F32)
F32(f16, WEIGHT_F16)
F32(bf16, WEIGHT_BF16)
F32(q4_0, WEIGHT_Q4_0)
F32(q4_1, WEIGHT_Q4_1)
F32(q8_0, WEIGHT_Q8_0)

static void matmul_fill(kernels *k) {
    k->mm_int8[WEIGHT_Q4_0] = int8_q4_0;
    k->mm_int8[WEIGHT_Q4_1] = int8_q4_1;
    k->mm_int8[WEIGHT_Q8_0] = int8_q8_0;
    k->mm_int16[WEIGHT_Q4_0] = int16_q4_0;
    k->mm_int16[WEIGHT_Q4_1] = int16_q4_1;
    k->mm_int16[WEIGHT_Q8_0] = int16_q8_0;
    k->mm_f32[WEIGHT_F32] = f32_f32;
    k->mm_f32[WEIGHT_F16] = f32_f16;
    k->mm_f32[WEIGHT_BF16] = f32_bf16;
    k->mm_f32[WEIGHT_Q4_0] = f32_q4_0;
    k->mm_f32[WEIGHT_Q4_1] = f32_q4_1;
    k->mm_f32[WEIGHT_Q8_0] = f32_q8_0;
}
