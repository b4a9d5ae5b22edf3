/* check_math.c - e^x, ln x, sine and cosine against the C library's long double functions. The promise
 * is 2 ulp; these points keep within 1, and are held to it, so that a lost low part shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>

#include "base/bits.h"
#include "base/fp.h"
#include "kernel/kernel.h"
#include "kvtile_ops.h"
#include "random.h"

enum { POINTS = 200000 };

/* Distance in units of the last place of a double as large as `want`. NaN gives NaN. */
static double ulps(double got, long double want) {
    int exponent;
    frexpl(want, &exponent);
    if (exponent < DBL_MIN_EXP) exponent = DBL_MIN_EXP;
    return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - DBL_MANT_DIG));
}

/* Not more than 1 ulp off; NaN is wrong. The largest distance so far goes to *most. */
static void near(const char *what, double x, double got, long double want, double *most) {
    double off = ulps(got, want);
    if (!(off <= 1)) fail_msg("%s(%a) is %a, %.2f ulp from %La", what, x, got, off, want);
    if (off > *most) *most = off;
}

static void test_exp(void **state) {
    (void)state;
    uint64_t seed = 1;
    double most = 0;
    for (int i = 0; i < POINTS; i++) {
        double wide = random_between(&seed, -708.39, 709.78), narrow = random_between(&seed, -1, 1);
        double tiny = bits_to_f64(bits_of_f64(narrow) - ((uint64_t)random_below(&seed, 60) << 52));
        near("exp", wide, kvt_exp(wide), expl((long double)wide), &most);
        near("exp", narrow, kvt_exp(narrow), expl((long double)narrow), &most);
        near("exp", tiny, kvt_exp(tiny), expl((long double)tiny), &most);
    }
    print_message("exp: at most %.2f ulp\n", most);
}

static void test_exp_at_the_edges(void **state) {
    (void)state;
    double most = 0;
    assert_true(kvt_exp(0) == 1 && kvt_exp(-0.0) == 1 && kvt_exp(5e-324) == 1);
    assert_true(kvt_exp(INFINITY) == INFINITY && kvt_exp(710) == INFINITY && kvt_exp(DBL_MAX) == INFINITY);
    assert_true(kvt_exp(-INFINITY) == 0 && kvt_exp(-709) == 0 && kvt_exp(-DBL_MAX) == 0);
    assert_true(isnan(kvt_exp(NAN)));
    const double points[] = {709.78271289338, -708.3964, nextafter(0, 1), 0.34657359027997264, -0.34657359027997264};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        near("exp", points[i], kvt_exp(points[i]), expl((long double)points[i]), &most);
}

static void test_log(void **state) {
    (void)state;
    uint64_t seed = 2;
    double most = 0;
    for (int i = 0; i < POINTS; i++) {
        uint64_t exponent = 1 + random_below(&seed, 2046);
        double wide = bits_to_f64((random_bits(&seed) & 0x000fffffffffffffu) | exponent << 52);
        double beside_1 = 1 + random_between(&seed, -0.01, 0.01), middle = random_between(&seed, 0.5, 2);
        near("log", wide, kvt_log(wide), logl((long double)wide), &most);
        near("log", beside_1, kvt_log(beside_1), logl((long double)beside_1), &most);
        near("log", middle, kvt_log(middle), logl((long double)middle), &most);
    }
    print_message("log: at most %.2f ulp\n", most);
}

static void test_log_at_the_edges(void **state) {
    (void)state;
    double most = 0;
    assert_true(kvt_log(1) == 0);
    assert_true(kvt_log(0) == -INFINITY && kvt_log(-0.0) == -INFINITY);
    assert_true(kvt_log(INFINITY) == INFINITY);
    assert_true(isnan(kvt_log(-1)) && isnan(kvt_log(-INFINITY)) && isnan(kvt_log(NAN)) && isnan(kvt_log(-DBL_MIN)));
    assert_true(kvt_log(5e-324) == -INFINITY && kvt_log(-5e-324) == -INFINITY); /* denormals are zeros */
    const double points[] = {DBL_MIN, DBL_MAX, 0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1, 0x1.6a09e667f3bcdp0,
                             nextafter(1, 0), nextafter(1, 2), 2, 10000};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        near("log", points[i], kvt_log(points[i]), logl((long double)points[i]), &most);
}

static void near_sincos(double x, double *most) {
    double s, c;
    uint64_t fp = fp_enter();
    math_sincos(x, &s, &c);
    fp_leave(fp);
    near("sin", x, s, sinl((long double)x), most);
    near("cos", x, c, cosl((long double)x), most);
}

static void test_sine_and_cosine(void **state) {
    (void)state;
    uint64_t seed = 3;
    double most = 0;
    for (int i = 0; i < POINTS; i++) {
        near_sincos(random_between(&seed, -7, 7), &most);
        near_sincos(random_between(&seed, -1e6, 1e6), &most);
        near_sincos(random_between(&seed, -0x1p27, 0x1p27), &most);
        near_sincos(ldexp(random_between(&seed, -1, 1), -(int)random_below(&seed, 100)), &most);
        /* As near to a multiple of pi/2 as a double comes: where reducing the argument loses most. */
        double quarters = (double)random_below(&seed, i % 2 ? 640000 : 80000000);
        near_sincos((double)((long double)quarters * 1.5707963267948966192313216916398L), &most);
        near_sincos((double)(float)(quarters * 1.5707963267948966), &most);
    }
    print_message("sin, cos: at most %.2f ulp\n", most);
}

static void test_sine_and_cosine_at_the_edges(void **state) {
    (void)state;
    double s, c;
    math_sincos(0, &s, &c);
    assert_true(s == 0 && c == 1);
    math_sincos(INFINITY, &s, &c);
    assert_true(isnan(s) && isnan(c));
    math_sincos(NAN, &s, &c);
    assert_true(isnan(s) && isnan(c));
}

/* The judge above notices what it should: a step too many, and NaN. */
static void test_a_planted_error_is_seen(void **state) {
    (void)state;
    long double want = expl(1.5L);
    double good = (double)want, bad = bits_to_f64(bits_of_f64(good) + 2);
    assert_true(ulps(good, want) <= 0.5);
    assert_false(ulps(bad, want) <= 1);
    assert_false(ulps(NAN, want) <= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_exp_at_the_edges),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_log_at_the_edges),
        cmocka_unit_test(test_sine_and_cosine),
        cmocka_unit_test(test_sine_and_cosine_at_the_edges),
        cmocka_unit_test(test_a_planted_error_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
