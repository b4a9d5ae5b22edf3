/* test_nonfinite.c - infinities and NaN in queries, keys and values: they reach the rows that see them and no other,
 * and every way of computing a row agrees on which numbers are none (numeric contract, section 6). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "reader.h"

/* One number of a text that is not what the text says. */
typedef struct poison {
    int position, what, at; /* what: QUERY, KEY or VALUE */
    float value;
} poison;

enum { POISONS_MAX = 16, LONG = 1100 };

typedef struct poisons {
    poison list[POISONS_MAX];
    int n;
} poisons;

static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};

static shape shape_of(kvt_format k, kvt_format v, kvt_math math) {
    return (shape){"2 heads on one, 17 and 24 dims", {.n_heads_q = 2, .n_heads_kv = 1, .dim_k = 17, .dim_v = 24},
                   k, v, math, LONG};
}

/* As feed_one, with the poisons of the first layer. */
static void feed_poisoned(kvt_cache *c, reader *r, int n_new, const poisons *p) {
    kvt_batch batch = {1, &r->seq, &n_new};
    rows x = rows_new(r->shape);
    float *const of[] = {x.q, x.k, x.v};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(x, &r, &n_new, 1, layer);
        for (int i = 0; layer == 0 && i < p->n; i++) {
            int row = p->list[i].position - r->n_done;
            if (row < 0 || row >= n_new) continue;
            of[p->list[i].what][row * width_of(r->shape, p->list[i].what) + p->list[i].at] = p->list[i].value;
        }
        assert_int_equal(kvt_attend(c, layer, &batch, x.q, x.k, x.v, x.out), KVT_OK);
        rows_keep(x, &r, &n_new, 1, layer);
    }
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
    r->n_done += n_new;
    rows_free(x);
}

/* Text 0 with poisons, `chunk` tokens a step, but the first n_first, which have none, in one and on the best path: the
 * scalar one is slow. */
static reader *read_poisoned(const setup *s, int n_tokens, int n_first, int chunk, const poisons *p) {
    setup best = *s;
    best.cpu = NULL;
    kvt_cache *c = cache_of(&best);
    reader *r = reader_new(s->shape, c, 0);
    if (n_first) feed_one(c, r, n_first);
    if (s->cpu) c->kernels = kernels_of(s->cpu);
    while (r->n_done < n_tokens) {
        int left = n_tokens - r->n_done;
        feed_poisoned(c, r, left < chunk ? left : chunk, p);
    }
    kvt_close(c);
    return r;
}

/* The same bits, or NaN in both: what a NaN carries is outside the contract. */
static void assert_agree(const reader *a, const reader *b, int n_tokens, const char *how) {
    int width = width_out(a->shape);
    for (int layer = 0; layer < N_LAYERS; layer++)
        for (int i = 0; i < n_tokens * width; i++) {
            float x = a->out[layer][i], y = b->out[layer][i];
            if (memcmp(&x, &y, sizeof x) && !(isnan(x) && isnan(y)))
                fail_msg("%s: layer %d, row %d, element %d: %g and %g", how, layer, i / width, i % width, x, y);
        }
}

/* ------------------------------------------------------------------------------------------- who sees it */

/* A value that is stored as an infinity or NaN, in the middle of a tile, of a block and of a step. */
static void a_later_token_does_not_reach_an_earlier_one(void **state) {
    static const struct {
        kvt_format format;
        float value;
    } values[] = {
        {KVT_BF16, NAN}, {KVT_BF16, INFINITY}, {KVT_BF16, 3.4e38f}, /* which bf16 rounds to infinity */
        {KVT_F16, NAN},  {KVT_F16, -65520},    {KVT_F32, -NAN},     {KVT_F32, -INFINITY},
    };
    static const int positions[] = {0, 1, 37, 63};
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int where = 0; where < 4; where++)
            for (int n_threads = 1; n_threads <= 2; n_threads++) {
                const int n = 64, at = positions[where];
                shape s = shape_of(values[i].format, values[i].format, KVT_MATH_FAST);
                setup one_step = setup_of(&s);
                one_step.n_threads = n_threads;
                poisons p = {{{at, VALUE, 5, values[i].value}}, 1};
                reader *clean = reference_of(&s, n);
                reader *poisoned = read_poisoned(&one_step, n, 0, n, &p), *slow = read_poisoned(&one_step, n, 0, 1, &p);
                assert_same(clean, poisoned, 0, at, "before the value");
                assert_agree(slow, poisoned, n, "token by token, and all at once");
                for (int row = at; row < n; row++) assert_false(isfinite(poisoned->out[0][row * width_out(&s) + 5]));
                reader_free(clean);
                reader_free(poisoned);
                reader_free(slow);
            }
}

/* A query or key that is no number: the rows that see it have no numbers either, the others are untouched. */
static void what_is_no_number_is_not_lost(void **state) {
    static const int positions[] = {0, 40, 255, 256, 1023, 1024, 1030};
    (void)state;
    for (int where = 0; where < 7; where++)
        for (int what = QUERY; what <= KEY; what++)
            for (size_t cpu = 0; cpu < sizeof cpus / sizeof *cpus; cpu++) {
                if (!kernels_of(cpus[cpu])) continue;
                const int n = positions[where] + 3, at = positions[where];
                shape s = shape_of(KVT_F32, KVT_BF16, KVT_MATH_FAST);
                setup set = setup_of(&s);
                set.cpu = cpus[cpu];
                poisons p = {{{at, what, 3, NAN}}, 1};
                reader *clean = reference_of(&s, n), *r = read_poisoned(&set, n, at - at % 32, n, &p);
                assert_same(clean, r, 0, at, "before");
                if (what == QUERY) assert_same(clean, r, at + 1, n, "after a query");
                int width = width_out(&s), last = what == KEY ? n : at + 1;
                int from = at * width, end = last * width;
                if (what == QUERY) end = from + s.layer.dim_v; /* of the first head */
                for (int i = from; i < end; i++)
                    if (!isnan(r->out[0][i])) fail_msg("%s: position %d: element %d is a number", cpus[cpu], at, i);
                reader_free(clean);
                reader_free(r);
            }
}

/* ---------------------------------------------------------------------------------- everybody agrees on it */

static poisons random_poisons(uint64_t *seed, int first, int n_tokens) {
    static const float values[] = {NAN, -NAN, INFINITY, -INFINITY, 3.4e38f, -3.4e38f, 65520, 1e-40f};
    poisons p = {.n = 1 + (int)random_below(seed, POISONS_MAX)};
    for (int i = 0; i < p.n; i++) {
        poison *one = &p.list[i];
        one->position = first + (int)random_below(seed, (uint32_t)(n_tokens - first));
        one->what = (int)random_below(seed, 3);
        one->at = (int)random_below(seed, 17);
        one->value = values[random_below(seed, sizeof values / sizeof *values)];
    }
    return p;
}

static void nonsense_is_the_same_everywhere(void **state) {
    static const int firsts[] = {0, 30, 250, 1015};
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < 48; round++) {
        shape s = shape_of((kvt_format)(round % 3), (kvt_format)(round / 3 % 3), (kvt_math)(round % 2));
        setup set = setup_of(&s);
        const int first = firsts[round % 4], n = first + 50;
        poisons p = random_poisons(&seed, first, n);
        reader *reference = read_poisoned(&set, n, first, 1, &p);
        for (size_t cpu = 0; cpu < sizeof cpus / sizeof *cpus; cpu++) {
            set.cpu = cpus[cpu];
            set.n_threads = 1 + round % 2;
            set.block_tokens = 16 << round % 3;
            if (!kernels_of(set.cpu)) continue;
            for (int chunk = 50; chunk > 1; chunk /= 3) {
                reader *r = read_poisoned(&set, n, first, chunk, &p);
                assert_agree(reference, r, n, set.cpu);
                reader_free(r);
            }
        }
        reader_free(reference);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_token_does_not_reach_an_earlier_one),
        cmocka_unit_test(what_is_no_number_is_not_lost),
        cmocka_unit_test(nonsense_is_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
