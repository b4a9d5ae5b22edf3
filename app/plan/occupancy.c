/* occupancy.c - see occupancy.h. */
#include "occupancy.h"

#include <stdio.h>

const reserve_scheme reserves[N_RESERVES] = {
    { "contiguous", RESERVE_LONGEST, 0 }, { "buddy", RESERVE_BUDDY, 0 },        { "paged 16", RESERVE_BLOCKS, 16 },
    { "paged 32", RESERVE_BLOCKS, 32 },   { "paged 64", RESERVE_BLOCKS, 64 },
};

/* A request's life. */
typedef struct life {
    double start_ms, read_ms, end_ms;
} life;

static life life_of(const trace_request *r, const occupancy_options *opt) {
    life l = { .start_ms = r->time_ms };
    l.read_ms = l.start_ms + 1e3 * (double)r->n_input / opt->prefill_per_s;
    l.end_ms = l.read_ms + opt->token_ms * (double)r->n_output;
    return l;
}

static kvt_status check(const trace *t, int64_t longest, error_text *err) {
    for (size_t i = 0; i < t->n_requests; i++) {
        const trace_request *r = &t->request[i];
        const char *lacks = r->time_ms < 0 ? "no time" : r->n_input < 0 || r->n_output < 0 ? "no lengths" : NULL;
        if (lacks && err)
            snprintf(err->text, sizeof err->text,
                     "request %zu has %s, and how much memory is in use when depends on it", i + 1, lacks);
        if (lacks) return KVT_E_ARGUMENT;
        if (longest == 0 || r->n_input + r->n_output <= longest) continue;
        if (err)
            snprintf(err->text, sizeof err->text, "request %zu has %lld tokens, more than the longest of %lld", i + 1,
                     (long long)(r->n_input + r->n_output), (long long)longest);
        return KVT_E_ARGUMENT;
    }
    return KVT_OK;
}

/* Tokens of a sequence in memory at a moment of its life: all of the prompt from its start on. */
static int64_t tokens_at(const trace_request *r, const life *l, double at_ms, double token_ms) {
    if (at_ms <= l->read_ms || token_ms <= 0) return r->n_input;
    double n = (at_ms - l->read_ms) / token_ms;
    return r->n_input + (n < (double)r->n_output ? (int64_t)n : r->n_output);
}

static int64_t reserved_for(const reserve_scheme *s, int64_t n_tokens, int64_t longest) {
    int64_t room = 1;
    switch (s->kind) {
    case RESERVE_LONGEST: return longest;
    case RESERVE_BUDDY:
        while (room < n_tokens) room *= 2;
        return room;
    default: return (n_tokens + s->block_tokens - 1) / s->block_tokens * s->block_tokens;
    }
}

static void add(occupancy *o, const trace_request *r, const occupancy_options *opt, double first_ms, double step_ms) {
    life l = life_of(r, opt);
    int from = (int)((l.start_ms - first_ms) / step_ms);
    for (int m = from > 0 ? from : 0; m < OCCUPANCY_MOMENTS; m++) {
        double at_ms = first_ms + m * step_ms;
        if (at_ms < l.start_ms) continue;
        if (at_ms > l.end_ms) break;
        int64_t n = tokens_at(r, &l, at_ms, opt->token_ms);
        o->held[m] += (double)n;
        o->alive[m]++;
        for (int s = 0; s < N_RESERVES; s++)
            o->reserved[s][m] += (double)reserved_for(&reserves[s], n, o->tokens_longest);
    }
}

kvt_status occupancy_of(const trace *t, const occupancy_options *opt, occupancy *out, error_text *err) {
    *out = (occupancy){ .tokens_longest = opt->tokens_longest };
    kvt_status status = check(t, opt->tokens_longest, err);
    if (status != KVT_OK) return status;
    double first_ms = t->request[0].time_ms, last_ms = first_ms;
    for (size_t i = 0; i < t->n_requests; i++) {
        const trace_request *r = &t->request[i];
        double end_ms = life_of(r, opt).end_ms;
        if (r->time_ms < first_ms) first_ms = r->time_ms;
        if (end_ms > last_ms) last_ms = end_ms;
        if (opt->tokens_longest == 0 && r->n_input + r->n_output > out->tokens_longest)
            out->tokens_longest = r->n_input + r->n_output;
    }
    out->span_ms = last_ms - first_ms;
    double step_ms = out->span_ms > 0 ? out->span_ms / (OCCUPANCY_MOMENTS - 1) : 1;
    for (size_t i = 0; i < t->n_requests; i++) add(out, &t->request[i], opt, first_ms, step_ms);
    return KVT_OK;
}

double occupancy_mean(const double moments[OCCUPANCY_MOMENTS]) {
    double sum = 0;
    for (int m = 0; m < OCCUPANCY_MOMENTS; m++) sum += moments[m];
    return sum / OCCUPANCY_MOMENTS;
}

double occupancy_most(const double moments[OCCUPANCY_MOMENTS]) {
    double most = 0;
    for (int m = 0; m < OCCUPANCY_MOMENTS; m++)
        if (moments[m] > most) most = moments[m];
    return most;
}
