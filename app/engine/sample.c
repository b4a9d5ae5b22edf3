/* sample.c - see sample.h. Binary64 on one thread, kvt_exp for every exponential (docs/numeric-contract.md, section
 * 7). */
#include "sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine.h"
#include "penalty.h"

/* A token e^-40 times as likely as the best (4e-18) is never drawn: all of a vocabulary's together weigh less than
 * the rounding of the sum. */
static const double NEGLIGIBLE = -40.0;

struct sampler {
    int n_vocab;
    candidate *list, *scratch; /* [n_vocab] each */
    float *row;                /* [n_vocab] logits after penalties */
    int32_t *count;            /* [n_vocab] zeros */
    void *memory;
};

sample_options sample_options_default(void) {
    return (sample_options){ .top_p = 1, .typical = 1, .repeat_penalty = 1, .repeat_last = 64 };
}

/* ------------------------------------------------------------------------------------------------- options */

static kvt_status biases_check(const sample_options *opt, int n_vocab, error_text *err) {
    for (int i = 0; i < opt->n_bias; i++) {
        const sample_bias *b = &opt->bias[i];
        if (b->id < 0 || b->id >= n_vocab)
            return engine_fail(err, KVT_E_ARGUMENT, "logit bias: token %d is not one of the vocabulary's %d", b->id,
                               n_vocab);
        if (!(b->value <= 100 && (b->value >= -100 || b->value == -INFINITY)))
            return engine_fail(err, KVT_E_ARGUMENT, "logit bias: %g for token %d is not -100 .. 100 or -inf", b->value,
                               b->id);
    }
    return KVT_OK;
}

kvt_status sample_options_check(const sample_options *opt, int n_vocab, error_text *err) {
    const struct {
        const char *name;
        double value, least, most;
    } rows[] = {
        { "temperature", opt->temp, 0, 1e6 },
        { "top-k", opt->top_k, 0, INT32_MAX },
        { "top-p", opt->top_p, 0, 1 },
        { "min-p", opt->min_p, 0, 1 },
        { "typical p", opt->typical, 0, 1 },
        { "repetition penalty", opt->repeat_penalty, 1e-6, 1e6 },
        { "tokens looked at for repetition", opt->repeat_last, 0, INT32_MAX },
        { "frequency penalty", opt->frequency_penalty, -100, 100 },
        { "presence penalty", opt->presence_penalty, -100, 100 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!(rows[i].value >= rows[i].least && rows[i].value <= rows[i].most))
            return engine_fail(err, KVT_E_ARGUMENT, "%s: %g is not %g .. %g", rows[i].name, rows[i].value,
                               rows[i].least, rows[i].most);
    return biases_check(opt, n_vocab, err);
}

sampler *sampler_new(int n_vocab) {
    size_t n = (size_t)n_vocab, bytes;
    sampler *s = calloc(1, sizeof *s);
    if (s && mem_mul(n, 2 * sizeof(candidate) + sizeof(float) + sizeof(int32_t), &bytes)) s->memory = calloc(1, bytes);
    if (!s || !s->memory) {
        sampler_free(s);
        return NULL;
    }
    s->n_vocab = n_vocab;
    s->list = s->memory;
    s->scratch = s->list + n;
    s->row = (float *)(void *)(s->scratch + n);
    s->count = (int32_t *)(void *)(s->row + n);
    return s;
}

void sampler_free(sampler *s) {
    if (s) free(s->memory);
    free(s);
}

/* ------------------------------------------------------------------------------------------- random numbers */

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014): every input bit moves every output bit. */
static uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

/* Uniform in [0, 1), a multiple of 2^-53. */
static double uniform(uint64_t seed, uint64_t number, uint64_t position) {
    return (double)(mix(mix(mix(seed) ^ number) ^ position) >> 11) * 0x1p-53;
}

/* ------------------------------------------------------------------------------------------------- the rules */

/* The likeliest token, the lowest id among equals; -1: a NaN, or the largest is not finite. */
static int best_of(const float *logits, int n) {
    int best = 0;
    float largest = logits[0];
    bool all_numbers = true;
    for (int i = 0; i < n; i++) {
        all_numbers &= !isnan(logits[i]);
        if (logits[i] > largest) largest = logits[best = i];
    }
    return all_numbers && isfinite(largest) ? best : -1;
}

/* Logarithm of a candidate's weight, the likeliest token's being 1. Its key is the logit, negated. */
static double log_weight(const candidate *c, float largest, double temp) {
    return (-(double)c->key - (double)largest) / temp;
}

/* Tokens worth a look, in order of id; returns how many. */
static int gather(sampler *s, const float *logits, float largest, double temp) {
    int n = 0;
    for (int id = 0; id < s->n_vocab; id++) {
        candidate c = { 0, 0.0f - logits[id], id }; /* 0 - 0: no -0 */
        if (log_weight(&c, largest, temp) >= NEGLIGIBLE) s->list[n++] = c;
    }
    return n;
}

static double weigh(candidate *list, int n, float largest, double temp) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        list[i].weight = kvt_exp(log_weight(&list[i], largest, temp));
        sum += list[i].weight;
    }
    return sum;
}

/* The likeliest has weight 1 and stays. */
static int drop_unlikely(candidate *list, int n, double least) {
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (list[i].weight >= least) list[kept++] = list[i];
    return kept;
}

/* With p = w / sum of w, the surprise -ln p less its mean, the entropy, is the mean of ln w less ln w: the sum drops
 * out. */
static int keep_typical(sampler *s, int n, double share, float largest, double temp) {
    candidate *list = s->list;
    double sum = 0, mean = 0;
    for (int i = 0; i < n; i++) {
        sum += list[i].weight;
        mean += list[i].weight * log_weight(&list[i], largest, temp);
    }
    mean /= sum;
    for (int i = 0; i < n; i++) list[i].key = (float)fabs(mean - log_weight(&list[i], largest, temp));
    return rank_first(list, s->scratch, n, n, share * sum);
}

/* Top-k, top-p, min-p, typical. */
static int cut(sampler *s, const sample_options *opt, int n, float largest) {
    if (opt->top_k > 0) n = rank_first(s->list, s->scratch, n, opt->top_k, INFINITY);
    double mass = weigh(s->list, n, largest, opt->temp) * opt->top_p;
    /* The likeliest tokens by top-p's share of all, and those that min-p allows: both are a beginning of the same
     * order, so the cheaper rule may go first. */
    if (opt->min_p > 0) n = drop_unlikely(s->list, n, opt->min_p);
    if (opt->top_p < 1 || opt->min_p > 0) n = rank_first(s->list, s->scratch, n, n, opt->top_p < 1 ? mass : INFINITY);
    if (opt->typical < 1) n = keep_typical(s, n, opt->typical, largest, opt->temp);
    return n;
}

int sampler_kept(sampler *s, const sample_options *opt, const float *logits, const sample_history *history,
                 const candidate **kept) {
    if (penalty_wanted(opt)) {
        penalty_apply(opt, history, logits, s->n_vocab, s->count, s->row);
        logits = s->row;
    }
    int best = best_of(logits, s->n_vocab);
    *kept = s->list;
    if (best < 0) return -1;
    if (opt->temp > 0) return cut(s, opt, gather(s, logits, logits[best], opt->temp), logits[best]);
    s->list[0] = (candidate){ 1, 0.0f - logits[best], best };
    return 1;
}

/* The token at share u of the weights. */
static int draw(const candidate *list, int n, double u) {
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) total += list[i].weight;
    for (int i = 0; i < n; i++) {
        sum += list[i].weight;
        if (sum > u * total) return list[i].id;
    }
    return list[n - 1].id;
}

int sampler_pick(sampler *s, const sample_options *opt, const float *logits, const sample_history *history,
                 uint64_t number) {
    const candidate *kept;
    int n = sampler_kept(s, opt, logits, history, &kept);
    if (n <= 1) return n < 0 ? -1 : kept[0].id;
    return draw(kept, n, uniform(opt->seed, number, (uint64_t)history->n_tokens));
}
