/* math.c - e^x, ln x, sine and cosine in binary64: range reduction, then a Taylor series cut where its next term no
 * longer counts. Additions, multiplications, divisions and integer operations only, in the order written. */
#include "kernel.h"

#include <float.h>

#include "base/bits.h"

/* x + ROUND has the nearest even integer of x in its low bits; less ROUND it is that integer. For |x| < 2^51. */
#define ROUND 0x1.8p52

#define NAN_BITS 0x7ff8000000000000u
#define INF_BITS 0x7ff0000000000000u

/* ln 2: a leading part with so many zeros behind it that its product with an exponent is exact, and the rest. */
#define LN2_A 0x1.62e42fefa2p-1
#define LN2_B 0x1.9ef35793c7673p-41

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) by Horner's rule. */
static inline double series(const double *c, int n, double x) {
    double sum = c[n - 1];
    for (int i = n - 2; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}

/* 2^n for n in -1022 .. 1023. */
static double power2(int n) {
    return bits_to_f64((uint64_t)(n + 1023) << 52);
}

/* x = n ln2 + r with |r| <= ln2 / 2; e^x = 2^n e^r. */
double math_exp(double x) {
    static const double c[] = {/* 1 / (i + 2)! */
                               1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    if (x != x) return x;
    if (x > 709.782712893384) return bits_to_f64(INF_BITS); /* ln of the largest double */
    if (x < -708.3964185322641) return 0;                   /* ln of the least normal one */
    double n = x * 0x1.71547652b82fep+0 + ROUND - ROUND;
    double r = x - n * LN2_A - n * LN2_B;
    double e = 1 + (r + r * r * series(c, 12, r));
    int whole = (int)n, half = whole / 2; /* in two steps: 2^1024 is no double, and times 2^-1022 e may be below 1 */
    return e * power2(half) * power2(whole - half);
}

/* x = 2^n m with m in [sqrt(1/2), sqrt(2)); with f = m - 1 and s = f / (2 + f)
 *     ln m = 2 artanh(s) = 2s + s (2/3 s^2 + 2/5 s^4 + ...),     2s = f - (f^2/2 - s f^2/2)
 * where the second form of 2s keeps f, which is exact, out of every rounding. */
double math_log(double x) {
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    uint64_t bits = bits_of_f64(x);
    if (x != x || x == bits_to_f64(INF_BITS)) return x;
    if (bits << 1 < 2 * bits_of_f64(DBL_MIN)) return -bits_to_f64(INF_BITS);
    if (bits >> 63) return bits_to_f64(NAN_BITS);
    /* Counted from sqrt(1/2), the exponent is n and what is left of the bits is m's distance from there. */
    const uint64_t root = 0x3fe6a09e667f3bcdu, fraction = 0x000fffffffffffffu;
    uint64_t from_root = bits - root;
    double n = (double)((int64_t)from_root >> 52);
    double f = bits_to_f64((from_root & fraction) + root) - 1;
    double s = f / (2 + f), z = s * s, square = f * f * 0.5;
    double rest = s * (square + z * series(c, 10, z)) + n * LN2_B;
    return n * LN2_A - ((square - rest) - f);
}

/* x = n pi/2 + r with |r| <= pi/4, r as the sum of two doubles. pi/2 comes in parts of 26 bits, so that their products
 * with n are exact. */
static int quarter(double x, double *r, double *r_low) {
    static const double part[] = {0x1.921fb5p+0, 0x1.110b46p-26, 0x1.1a6263p-54, 0x1.8a2e03707344ap-81};
    double shifted = x * 0x1.45f306dc9c883p-1 + ROUND, n = shifted - ROUND;
    double high = x - n * part[0] - n * part[1], last = n * part[2];
    double low = n * part[3], sum = high - last;
    low = (high - sum - last) - low;
    *r = sum + low;
    *r_low = low - (*r - sum);
    return (int)(bits_of_f64(shifted) & 3);
}

void math_sincos(double x, double *sine, double *cosine) {
    static const double sine_c[] = {/* (-1)^(i+1) / (2i + 3)! */
                                    -1.0 / 6,
                                    1.0 / 120,
                                    -1.0 / 5040,
                                    1.0 / 362880,
                                    -1.0 / 39916800,
                                    1.0 / 6227020800.0,
                                    -1.0 / 1307674368000.0,
                                    1.0 / 355687428096000.0};
    static const double cosine_c[] = {/* (-1)^i / (2i + 4)! */
                                      1.0 / 24,
                                      -1.0 / 720,
                                      1.0 / 40320,
                                      -1.0 / 3628800,
                                      1.0 / 479001600,
                                      -1.0 / 87178291200.0,
                                      1.0 / 20922789888000.0};
    double r, low;
    int q = quarter(x, &r, &low);
    double z = r * r, half = z * 0.5, most = 1 - half;
    double s = r + (r * z * series(sine_c, 8, z) + low * most);
    double c = most + (((1 - most) - half) + (z * z * series(cosine_c, 7, z) - r * low));
    double sines[] = {s, c, -s, -c};
    *sine = sines[q];
    *cosine = sines[(q + 1) & 3];
}
