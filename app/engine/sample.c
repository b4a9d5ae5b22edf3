/* sample.c - see sample.h. Binary64 on one thread, kvt_exp for every exponential (docs/numeric-contract.md, section 7).
 *
 * Order of the rules: temperature, then top-k, then top-p of what is left, then min-p. Tokens are ranked by logit, the
 * lower id first among equals; each rule keeps a beginning of that ranking, so all of them together do. */
#include "sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kvtile_ops.h"

/* A token e^-40 times as likely as the best (4e-18) is never drawn: all of a vocabulary's together weigh less than
 * the rounding of the sum. */
static const double NEGLIGIBLE = -40.0;

typedef struct candidate {
    double weight; /* e^((logit - largest) / temp) */
    float logit;
    int id;
} candidate;

struct sampler {
    int n_vocab;
    candidate list[]; /* [n_vocab] */
};

sample_options sample_options_default(void) {
    return (sample_options){ .temp = 0, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 0 };
}

sampler *sampler_new(int n_vocab) {
    sampler *s = malloc(sizeof *s + (size_t)n_vocab * sizeof s->list[0]);
    if (s) s->n_vocab = n_vocab;
    return s;
}

void sampler_free(sampler *s) {
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
static double uniform(uint64_t seed, uint64_t answer, uint64_t position) {
    return (double)(mix(mix(mix(seed) ^ answer) ^ position) >> 11) * 0x1p-53;
}

/* ------------------------------------------------------------------------------------------------- ranking */

/* The likeliest token, the lowest id among equals; -1: a NaN, or the largest is not finite. */
static int best_of(const float *logits, int n) {
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return isfinite(logits[best]) ? best : -1;
}

static bool ranks_before(const candidate *a, const candidate *b) {
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* The list is a heap with the highest rank on top; restore it below place i of n. */
static void heap_sink(candidate *list, int n, int i) {
    candidate moved = list[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && ranks_before(&list[child + 1], &list[child])) child++;
        if (!ranks_before(&list[child], &moved)) break;
        list[i] = list[child];
    }
    list[i] = moved;
}

/* Take the highest rank off a heap of n and put it behind the rest: list[n - 1]. */
static const candidate *heap_pop(candidate *list, int n) {
    candidate top = list[0];
    list[0] = list[n - 1];
    heap_sink(list, n - 1, 0);
    list[n - 1] = top;
    return &list[n - 1];
}

/* Tokens worth a look, in order of id; returns how many. */
static int gather(sampler *s, const float *logits, float largest, double temp) {
    int n = 0;
    for (int id = 0; id < s->n_vocab; id++) {
        double t = ((double)logits[id] - (double)largest) / temp;
        if (t >= NEGLIGIBLE) s->list[n++] = (candidate){ kvt_exp(t), logits[id], id };
    }
    return n;
}

static double weight_of(const candidate *list, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += list[i].weight;
    return sum;
}

/* Keep the beginning of the ranking that the options allow, ranked, at the end of the list (last = best): the number
 * kept. The heap gives one rank after the other, so only as many are sorted as are kept. */
static int rank(candidate *list, int n, const sample_options *opt) {
    int most = opt->top_k > 0 && opt->top_k < n ? opt->top_k : n, kept = 0;
    double total = most < n ? 0 : weight_of(list, n);
    for (int i = n / 2 - 1; i >= 0; i--) heap_sink(list, n, i);

    /* top-p is a share of what top-k leaves: where there is a top-k, its tokens are popped first and summed. */
    for (int i = 0; i < most && most < n; i++) total += heap_pop(list, n - i)->weight;
    double sum = 0;
    while (kept < most) {
        const candidate *c = most < n ? &list[n - 1 - kept] : heap_pop(list, n - kept);
        if (c->weight < opt->min_p) break; /* the best one's weight is 1 */
        kept++;
        sum += c->weight;
        if (sum >= opt->top_p * total) break;
    }
    return kept > 0 ? kept : 1;
}

/* The token at share u of the weights, walking from `from` by `step`. */
static int draw(const candidate *from, int step, int n, double u) {
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) total += from[i * step].weight;
    for (int i = 0; i < n; i++) {
        sum += from[i * step].weight;
        if (sum > u * total) return from[i * step].id;
    }
    return from[(n - 1) * step].id;
}

int sampler_pick(sampler *s, const sample_options *opt, const float *logits, uint64_t answer, uint64_t position) {
    int best = best_of(logits, s->n_vocab);
    if (best < 0 || opt->temp <= 0) return best;
    double u = uniform(opt->seed, answer, position);
    int n = gather(s, logits, logits[best], opt->temp);
    bool cut = opt->top_k > 0 || opt->top_p < 1 || opt->min_p > 0;
    if (!cut) return draw(s->list, 1, n, u);
    return draw(&s->list[n - 1], -1, rank(s->list, n, opt), u);
}
