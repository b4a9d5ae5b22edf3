/* test_sample.c - the sampler: what each rule keeps, where the random number comes from, logits that are no numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"

enum { N = 8, DRAWS = 20000 };

/* Probabilities 1/2, 1/4, 1/8, ... in mixed order of id; ids 2 and 5 share the last place. */
static const float LOGITS[N] = { -1.3862944f, 0.0f,        -4.1588831f, -0.6931472f,
                                 -2.7725887f, -4.1588831f, -2.0794415f, -3.4657359f };
static const int RANKED[N] = { 1, 3, 0, 6, 4, 7, 2, 5 };

/* No penalties, so what stands before is only how much it is. */
static int draw(sampler *s, const sample_options *opt, const float *logits, uint64_t which, int position) {
    sample_history history = { NULL, position, position };
    return sampler_pick(s, opt, logits, &history, which);
}

static void draw_many(const sample_options *opt, const float *logits, int n, int count[]) {
    sampler *s = sampler_new(n);
    memset(count, 0, (size_t)n * sizeof count[0]);
    for (int i = 0; i < DRAWS; i++) count[draw(s, opt, logits, 0, i)]++;
    sampler_free(s);
}

static int pick(const sample_options *opt, const float *logits, int n, uint64_t which, int position) {
    sampler *s = sampler_new(n);
    int token = draw(s, opt, logits, which, position);
    sampler_free(s);
    return token;
}

/* How often each rank came, for options on LOGITS. */
static void ranks(const sample_options *opt, int by_rank[N]) {
    int count[N];
    draw_many(opt, LOGITS, N, count);
    for (int r = 0; r < N; r++) by_rank[r] = count[RANKED[r]];
}

static sample_options hot(void) {
    sample_options opt = sample_options_default();
    opt.temp = 1;
    return opt;
}

static void test_greedy_takes_the_lowest_id_among_equals(void **state) {
    (void)state;
    const float logits[] = { 1, 3, -2, 3, 3, 0 };
    sample_options greedy = sample_options_default();
    assert_int_equal(pick(&greedy, logits, 6, 0, 0), 1);
    assert_int_equal(pick(&greedy, logits + 2, 4, 7, 9), 1);
}

static void test_temperature_one_draws_by_probability(void **state) {
    (void)state;
    sample_options opt = hot();
    int n[N];
    ranks(&opt, n);
    /* Four deviations of a binomial count. */
    for (int r = 0; r < 4; r++) {
        double p = 0.5 / (double)(1 << r);
        assert_true(fabs(n[r] - DRAWS * p) < 4 * sqrt(DRAWS * p * (1 - p)));
    }
    assert_true(n[6] > 0 && n[7] > 0);
}

static void test_low_temperature_comes_to_greedy(void **state) {
    (void)state;
    sample_options opt = hot();
    int n[N];
    opt.temp = 0.01;
    ranks(&opt, n);
    assert_int_equal(n[0], DRAWS);
}

static void test_top_k_keeps_k_ranks(void **state) {
    (void)state;
    sample_options opt = hot();
    int n[N];
    for (opt.top_k = 1; opt.top_k <= N + 2; opt.top_k++) {
        ranks(&opt, n);
        for (int r = 0; r < N; r++) assert_int_equal(n[r] > 0, r < opt.top_k);
    }
    opt.top_k = 7; /* ids 2 and 5 are equal: the lower one is kept */
    ranks(&opt, n);
    assert_true(n[6] > 0 && n[7] == 0);
}

static void test_top_p_keeps_the_fewest_that_reach_p(void **state) {
    (void)state;
    static const struct {
        double p;
        int kept;
    } cases[] = { { 0, 1 }, { 0.45, 1 }, { 0.55, 2 }, { 0.7, 2 }, { 0.8, 3 }, { 0.9, 4 }, { 1, N } };
    sample_options opt = hot();
    int n[N];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        opt.top_p = cases[i].p;
        ranks(&opt, n);
        for (int r = 0; r < N; r++) assert_int_equal(n[r] > 0, r < cases[i].kept);
    }
}

static void test_top_p_is_a_share_of_what_top_k_left(void **state) {
    (void)state;
    sample_options opt = hot();
    int n[N];
    opt.top_k = 2; /* 2/3 and 1/3 */
    opt.top_p = 0.65;
    ranks(&opt, n);
    assert_true(n[0] == DRAWS);
    opt.top_p = 0.7;
    ranks(&opt, n);
    assert_true(n[0] > 0 && n[1] > 0 && n[0] + n[1] == DRAWS);
}

static void test_min_p_is_relative_to_the_likeliest(void **state) {
    (void)state;
    sample_options opt = hot();
    int n[N];
    opt.min_p = 0.2;
    ranks(&opt, n);
    for (int r = 0; r < N; r++) assert_int_equal(n[r] > 0, r < 3);
    opt.min_p = 1;
    ranks(&opt, n);
    assert_int_equal(n[0], DRAWS);
}

static void test_a_draw_depends_on_seed_answer_and_position_alone(void **state) {
    (void)state;
    sample_options opt = hot();
    sampler *s = sampler_new(N);
    int differ[3] = { 0 };
    for (int i = 0; i < 200; i++) {
        opt.seed = 5;
        int token = draw(s, &opt, LOGITS, 1, i);
        assert_int_equal(token, pick(&opt, LOGITS, N, 1, i));
        differ[0] += token != draw(s, &opt, LOGITS, 2, i);
        differ[1] += token != draw(s, &opt, LOGITS, 1, i + 1000);
        opt.seed = 6;
        differ[2] += token != draw(s, &opt, LOGITS, 1, i);
    }
    for (int i = 0; i < 3; i++) assert_in_range(differ[i], 60, 180);
    sampler_free(s);
}

/* Recorded once: the same on every machine and build. */
static void test_known_draws(void **state) {
    (void)state;
    static const int expected[] = { 1, 1, 5, 3, 4, 3, 6, 3, 1, 1, 1, 1, 1, 3, 1, 3, 1, 1, 1, 1, 1, 4, 1, 1 };
    sample_options opt = hot();
    opt.seed = 42;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(pick(&opt, LOGITS, N, 3, (int)i), expected[i]);
}

static void test_many_equal_logits_are_drawn_evenly(void **state) {
    (void)state;
    enum { MANY = 1000 };
    static float logits[MANY];
    int count[MANY], least = DRAWS, most = 0;
    sample_options opt = hot();
    opt.top_p = 0.999; /* through the ranking */
    draw_many(&opt, logits, MANY, count);
    for (int i = 0; i < MANY - 1; i++) {
        if (count[i] < least) least = count[i];
        if (count[i] > most) most = count[i];
    }
    assert_int_equal(count[MANY - 1], 0); /* the highest id is the last rank, outside 0.999 */
    assert_true(least > 0 && most < 60);
}

static void test_what_is_no_number_is_an_error(void **state) {
    (void)state;
    float logits[4] = { 1, NAN, 2, 3 };
    sample_options greedy = sample_options_default(), opt = hot();
    assert_int_equal(pick(&greedy, logits, 4, 0, 0), -1);
    assert_int_equal(pick(&opt, logits, 4, 0, 0), -1);
    logits[1] = INFINITY;
    assert_int_equal(pick(&opt, logits, 4, 0, 0), -1);
    for (int i = 0; i < 4; i++) logits[i] = -INFINITY;
    assert_int_equal(pick(&opt, logits, 4, 0, 0), -1);
    logits[2] = -50; /* the only one that is possible */
    assert_int_equal(pick(&opt, logits, 4, 0, 0), 2);
}

/* The same tokens before give the same token, whatever the sampler did in between. */
static void test_penalties_leave_nothing_behind(void **state) {
    (void)state;
    const int32_t tokens[] = { 1, 3, 3, 0, 1, 6, 4, 1 };
    sampler *s = sampler_new(N), *other = sampler_new(N);
    sample_options opt = hot();
    opt.repeat_penalty = 1.5;
    opt.frequency_penalty = 0.7;
    opt.presence_penalty = -0.3;
    for (int round = 0; round < 2; round++)
        for (int n = 0; n <= 8; n++) {
            sample_history history = { tokens, n, n / 2 };
            sampler_free(other);
            other = sampler_new(N);
            int expected = sampler_pick(other, &opt, LOGITS, &history, 0);
            assert_int_equal(sampler_pick(s, &opt, LOGITS, &history, 0), expected);
        }
    sampler_free(s);
    sampler_free(other);
}

static void test_penalties_and_biases_move_the_greedy_choice(void **state) {
    (void)state;
    const int32_t tokens[] = { 1, 1, 1, 3 };
    const sample_bias never[] = { { 1, -INFINITY }, { 3, -INFINITY } }, wanted[] = { { 5, 50 }, { 5, 50 } };
    sample_history all_answer = { tokens, 4, 0 }, all_prompt = { tokens, 4, 4 };
    sampler *s = sampler_new(N);
    sample_options opt = sample_options_default();
    opt.frequency_penalty = 0.4; /* 1 comes to -1.2, 3 to -1.09, 0 stays at -1.38 */
    assert_int_equal(sampler_pick(s, &opt, LOGITS, &all_answer, 0), 3);
    assert_int_equal(sampler_pick(s, &opt, LOGITS, &all_prompt, 0), 1);

    opt = sample_options_default();
    opt.bias = never;
    opt.n_bias = 2;
    assert_int_equal(sampler_pick(s, &opt, LOGITS, &all_answer, 0), 0);
    opt.bias = wanted; /* both count */
    assert_int_equal(sampler_pick(s, &opt, (const float[N]){ 99 }, &all_answer, 0), 5);

    const sample_bias none[N] = { { 0, -INFINITY }, { 1, -INFINITY }, { 2, -INFINITY }, { 3, -INFINITY },
                                  { 4, -INFINITY }, { 5, -INFINITY }, { 6, -INFINITY }, { 7, -INFINITY } };
    opt.bias = none;
    opt.n_bias = N;
    assert_int_equal(sampler_pick(s, &opt, LOGITS, &all_answer, 0), -1);
    sampler_free(s);
}

/* Every rule at once still leaves a token. */
static void test_one_token_is_always_left(void **state) {
    (void)state;
    sample_options opt = hot();
    opt.top_k = 3;
    opt.top_p = opt.typical = 0;
    opt.min_p = 1;
    int n[N];
    ranks(&opt, n);
    assert_int_equal(n[0], DRAWS);
}

static void test_numbers_out_of_range_are_named(void **state) {
    (void)state;
    error_text err;
    sample_options opt = sample_options_default();
    assert_int_equal(sample_options_check(&opt, N, &err), KVT_OK);
    opt.repeat_penalty = 0;
    assert_int_equal(sample_options_check(&opt, N, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, "repetition penalty"));
    opt = sample_options_default();
    opt.top_p = NAN;
    assert_int_equal(sample_options_check(&opt, N, &err), KVT_E_ARGUMENT);
    opt = sample_options_default();
    opt.n_bias = 1;
    static const sample_bias bad[] = { { N, 0 }, { -1, 0 }, { 0, 100.5 }, { 0, NAN }, { 0, INFINITY } };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        opt.bias = &bad[i];
        assert_int_equal(sample_options_check(&opt, N, &err), KVT_E_ARGUMENT);
        assert_non_null(strstr(err.text, "logit bias"));
    }
    opt.bias = &(sample_bias){ N - 1, -INFINITY };
    assert_int_equal(sample_options_check(&opt, N, &err), KVT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_takes_the_lowest_id_among_equals),
        cmocka_unit_test(test_temperature_one_draws_by_probability),
        cmocka_unit_test(test_low_temperature_comes_to_greedy),
        cmocka_unit_test(test_top_k_keeps_k_ranks),
        cmocka_unit_test(test_top_p_keeps_the_fewest_that_reach_p),
        cmocka_unit_test(test_top_p_is_a_share_of_what_top_k_left),
        cmocka_unit_test(test_min_p_is_relative_to_the_likeliest),
        cmocka_unit_test(test_a_draw_depends_on_seed_answer_and_position_alone),
        cmocka_unit_test(test_known_draws),
        cmocka_unit_test(test_many_equal_logits_are_drawn_evenly),
        cmocka_unit_test(test_what_is_no_number_is_an_error),
        cmocka_unit_test(test_penalties_leave_nothing_behind),
        cmocka_unit_test(test_penalties_and_biases_move_the_greedy_choice),
        cmocka_unit_test(test_one_token_is_always_left),
        cmocka_unit_test(test_numbers_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
