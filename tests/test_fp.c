/* test_fp.c - a hostile caller: rounding up, nothing flushed, every exception a trap. Each public call that computes
 * gives the bits it gives a friendly caller, and leaves the caller's mode, sticky flags included, as it was.
 *
 * So scenarios must not compute with floats themselves: it would trap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "kvtile.h"
#include "kvtile_ops.h"
#include "random.h"

#if defined(__x86_64__)

enum {
    FRIENDLY = 0x1f80,            /* as programs start */
    HOSTILE = 0x4000,             /* round up; no exception masked */
    ROWS = 60, WIDTH = 608, ALL = ROWS * WIDTH, /* enough for the workers to be asked, 608 is not whole chunks of 64 */
    OUTPUTS = 37                  /* rows of the matrices */
};

typedef struct inputs {
    float x[ALL], y[ALL], weight[WIDTH];
    double numbers[64];
    uint8_t bytes[OUTPUTS * WIDTH * 4];
} inputs;

static inputs in;

static void inputs_make(void) {
    uint64_t seed = 1;
    for (int i = 0; i < ALL; i++) {
        in.x[i] = (float)random_between(&seed, -2, 2);
        in.y[i] = i % 50 ? (float)random_between(&seed, -2, 2) : 1e-41f; /* a denormal now and then */
    }
    for (int i = 0; i < WIDTH; i++) in.weight[i] = (float)random_between(&seed, 0.5, 2);
    for (int i = 0; i < 64; i++) in.numbers[i] = random_between(&seed, 0.001, 600);
}

/* Weights of a type: any codes, with f16 scales of ordinary size in front of each block of that type's bytes. */
static void weights_make(kvt_weight_type type) {
    uint64_t seed = 2;
    size_t block = kvt_weight_bytes(type, 32), n = kvt_weight_bytes(type, WIDTH) * OUTPUTS;
    for (size_t i = 0; i < n; i++) in.bytes[i] = (uint8_t)random_bits(&seed);
    if (type == KVT_W_F32 || type == KVT_W_F16 || type == KVT_W_BF16) {
        size_t width = kvt_weight_bytes(type, 1);
        uint8_t exponent = type == KVT_W_F16 ? 0x2c : 0x3c;
        for (size_t i = width - 1; i < n; i += width) in.bytes[i] = (in.bytes[i] & 0x80) | exponent;
    } else {
        for (size_t i = 1; i < n; i += block) in.bytes[i] = 0x24;
        for (size_t i = 3; i < n && type == KVT_W_Q4_1; i += block) in.bytes[i] = 0xa8;
    }
}

/* What a scenario leaves behind, compared byte by byte. */
typedef struct results {
    float x[ALL], y[ALL];
    double numbers[128];
} results;

/* ------------------------------------------------------------------------------------------- scenarios */

static void rows_scenario(int variant, results *r) {
    kvt_workers *team = NULL;
    if (variant) kvt_workers_open(&team, 2);
    static const int32_t positions[ROWS] = {1, 2, 3, 1000, 77777, 5};
    static const kvt_rope rope = {32, 10000, 0}, halves = {32, 10000, 1};
    memcpy(r->x, in.x, sizeof r->x);
    kvt_rmsnorm(team, r->x, in.weight, in.weight[0], ROWS, WIDTH, r->x);
    kvt_add(team, r->x, in.y, ALL);
    kvt_silu_mul(team, r->x, in.y, ALL);
    kvt_rope_turns(&rope, positions, ROWS, r->y);
    kvt_rope_apply(team, &rope, r->y, r->x, WIDTH, ROWS, WIDTH / 32, 32);
    kvt_rope_apply(team, &halves, r->y, r->x, WIDTH, ROWS, WIDTH / 32, 32);
    kvt_workers_close(team);
}

static void numbers_scenario(int variant, results *r) {
    (void)variant;
    for (int i = 0; i < 64; i++) {
        r->numbers[i] = kvt_exp(in.numbers[i]);
        r->numbers[64 + i] = kvt_log(in.numbers[i]);
    }
}

static const kvt_weight_type weight_types[] = {KVT_W_F32, KVT_W_F16, KVT_W_BF16, KVT_W_Q4_0, KVT_W_Q4_1, KVT_W_Q8_0};
enum { N_TYPES = sizeof weight_types / sizeof *weight_types };

/* variant: type, math, and a bit for the team. */
static void matmul_scenario(int variant, results *r) {
    kvt_weight_type type = weight_types[variant / 6];
    kvt_workers *team = NULL;
    kvt_matrix *w;
    kvt_input *input;
    if (variant & 1) kvt_workers_open(&team, 2);
    weights_make(type);
    kvt_matrix_source source = {type, OUTPUTS, WIDTH, in.bytes, kvt_weight_bytes(type, WIDTH) * OUTPUTS};
    kvt_math math = (kvt_math)(variant / 2 % 3);
    if (kvt_matrix_pack(&w, &source, team) || kvt_input_new(&input, ROWS, WIDTH, math)) abort();
    kvt_input_set(input, team, in.y, WIDTH, ROWS, WIDTH);
    kvt_matmul(team, input, &(kvt_product){w, r->y, OUTPUTS + 3}, 1);
    kvt_matrix_row(w, 20, r->x);
    kvt_input_free(input);
    kvt_matrix_free(w);
    kvt_workers_close(team);
}

/* Two steps of a sequence and one of its fork; variant: kind of cache, format of keys, of values, math. */
static void cache_scenario(int variant, results *r) {
    static const kvt_layer layer = {KVT_LAYER_FULL, 4, 2, 48, 32, 0};
    kvt_options opt = kvt_options_default();
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.kind = variant / 18 % 2 ? KVT_CONTIGUOUS : KVT_PAGED;
    opt.k_format = (kvt_format)(variant % 3);
    opt.v_format = (kvt_format)(variant / 3 % 3);
    opt.math = variant / 9 % 2 ? KVT_MATH_EXACT : KVT_MATH_FAST;
    opt.tokens_max = 64;
    opt.n_threads = 2;
    kvt_cache *cache;
    kvt_seq seq, other;
    if (kvt_open(&cache, &opt) || kvt_seq_new(cache, &seq)) abort();
    for (int step = 0; step < 3; step++) {
        int n_new = step == 0 ? 35 : 1;
        if (step == 2) {
            if (kvt_seq_fork(cache, seq, &other)) abort();
            seq = other;
        }
        kvt_batch batch = {1, &seq, &n_new};
        if (kvt_reserve(cache, &batch)) abort();
        if (kvt_attend(cache, 0, &batch, in.x + step, in.y, in.y + 7000, r->x + 5000 * step)) abort();
        if (kvt_commit(cache, &batch, NULL)) abort();
    }
    kvt_close(cache);
}

/* ---------------------------------------------------------------------------------------------- judging */

typedef void (*scenario_fn)(int variant, results *r);

static void compare(const char *name, scenario_fn scenario, int n_variants) {
    static results friendly, hostile;
    for (int v = 0; v < n_variants; v++) {
        memset(&friendly, 0, sizeof friendly);
        memset(&hostile, 0, sizeof hostile);
        _mm_setcsr(FRIENDLY);
        scenario(v, &friendly);
        unsigned friendly_after = _mm_getcsr();
        _mm_setcsr(HOSTILE);
        scenario(v, &hostile);
        unsigned hostile_after = _mm_getcsr();
        _mm_setcsr(FRIENDLY);
        if (friendly_after != FRIENDLY || hostile_after != HOSTILE)
            fail_msg("%s %d leaves mode %04x and %04x", name, v, friendly_after, hostile_after);
        if (memcmp(&friendly, &hostile, sizeof friendly)) fail_msg("%s %d: other bits for a hostile caller", name, v);
        size_t n_set = 0;
        for (size_t i = 0; i < sizeof friendly; i++) n_set += ((unsigned char *)&friendly)[i] != 0;
        if (n_set < 500) fail_msg("%s %d computes next to nothing", name, v);
    }
}

static void test_rows(void **state) {
    (void)state;
    compare("rows", rows_scenario, 2);
}

static void test_numbers(void **state) {
    (void)state;
    compare("numbers", numbers_scenario, 1);
}

static void test_matmul(void **state) {
    (void)state;
    compare("matmul", matmul_scenario, 6 * N_TYPES);
}

static void test_cache(void **state) {
    (void)state;
    compare("cache", cache_scenario, 36);
}

/* The scenarios are worth something: without the bracket the mode does change bits. */
static void test_the_mode_matters(void **state) {
    (void)state;
    int n_other = 0;
    for (int i = 0; i < 32; i++) {
        volatile float a = in.x[i], b = in.weight[i], nearest, up; /* volatile: computed here, in this order */
        _mm_setcsr(FRIENDLY);
        nearest = a * b;
        _mm_setcsr(HOSTILE | FRIENDLY); /* rounding up without traps */
        up = a * b;
        _mm_setcsr(FRIENDLY);
        n_other += nearest != up;
    }
    assert_true(n_other > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_the_mode_matters),
    };
    inputs_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else
int main(void) {
    return 0; /* the mode is a register of x86-64; elsewhere fp.h is one line per call */
}
#endif
