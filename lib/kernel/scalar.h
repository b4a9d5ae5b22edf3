/* scalar.h - the arithmetic of the numeric contract on single floats: fma, exp2, tree16, narrowing to bf16.
 *
 * The scalar kernels are written in it; the vector ones use it for what a row has only one of. The caller has set the
 * floating-point mode (base/fp.h). Needs no C library: neither fmaf nor floorf are instructions on every x86-64. */
#ifndef KVT_SCALAR_H
#define KVT_SCALAR_H

#include <stdint.h>
#include <string.h>

/* a * b + c, rounded once. */
static inline float scalar_fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    /* The product is exact in binary64. The sum is made odd where it was rounded (its error is known exactly), so that
     * rounding it a second time, to binary32, gives what rounding the exact sum would (Boldo and Melquiond 2008). */
    double p = (double)a * b, s = p + c;
    double c_part = s - p, error = (p - (s - c_part)) + (c - c_part);
    if (error < 0 || error > 0) { /* not where s is infinite or NaN */
        uint64_t bits;
        memcpy(&bits, &s, sizeof bits);
        if (!(bits & 1)) bits += (error > 0) == (s > 0) ? 1 : (uint64_t)-1;
        memcpy(&s, &bits, sizeof bits);
    }
    return (float)s;
#endif
}

/* exp2 of the numeric contract, section 3. */
static inline float scalar_exp2(float t) {
    if (t != t) return t;
    if (t < -126.f) return 0.f;
    if (t > 127.f) t = 127.f;
    int n = (int)t;
    if ((float)n > t) n--; /* the conversion cuts towards zero */
    float f = t - (float)n, p = 1.867138582e-03f, scale;
    p = scalar_fma(p, f, 9.017012227e-03f);
    p = scalar_fma(p, f, 5.579992612e-02f);
    p = scalar_fma(p, f, 2.401644466e-01f);
    p = scalar_fma(p, f, 6.931513121e-01f);
    p = scalar_fma(p, f, 1.f);
    uint32_t bits = (uint32_t)(n + 127) << 23;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* tree16 of the numeric contract, section 1. */
static inline float scalar_tree16(const float *a /* [16] */) {
    float sum[16];
    memcpy(sum, a, sizeof sum);
    for (int w = 8; w > 0; w /= 2) {
        for (int i = 0; i < w; i++) sum[i] = sum[i] + sum[i + w];
    }
    return sum[0];
}

/* Nearest even bf16 value; denormals to a zero of their sign, NaN quiet. */
static inline float scalar_narrow(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) bits |= 0x00400000u;
    else if (!(bits & 0x7f800000u)) bits &= 0x80000000u;
    else bits += 0x7fffu + (bits >> 16 & 1);
    bits &= 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
