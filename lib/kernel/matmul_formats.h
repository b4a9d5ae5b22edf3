/* matmul_formats.h - X(NAME, FORMAT) for each weight format, for files that make a function of each. */
#ifndef KVT_MATMUL_FORMATS_H
#define KVT_MATMUL_FORMATS_H

#define EACH_FLOAT(X) X(f32, WEIGHT_F32) X(f16, WEIGHT_F16) X(bf16, WEIGHT_BF16)
/* The plain ones, whose blocks of 32 have a half or two beside codes of whole bytes or nibbles; then the others. */
#define EACH_PLAIN(X) X(q4_0, WEIGHT_Q4_0) X(q4_1, WEIGHT_Q4_1) X(q8_0, WEIGHT_Q8_0)
#define EACH_OTHER(X)                                                                                              \
    X(q5_0, WEIGHT_Q5_0) X(q5_1, WEIGHT_Q5_1) X(iq4_nl, WEIGHT_IQ4_NL) X(iq4_xs, WEIGHT_IQ4_XS)                    \
    X(q2_k, WEIGHT_Q2_K) X(q3_k, WEIGHT_Q3_K) X(q4_k, WEIGHT_Q4_K) X(q5_k, WEIGHT_Q5_K) X(q6_k, WEIGHT_Q6_K)
#define EACH_QUANTISED(X) EACH_PLAIN(X) EACH_OTHER(X)

#endif
