/* capacity.c - see capacity.h. */
#include "capacity.h"

#include <stdio.h>

#include "base/log.h"

enum { TOKENS_MOST = 1 << 30 }; /* of a sequence; more is no plan */

static const double BYTES_MOST = 0x1p62;

kvt_status capacity_group(const shape_group *g, const capacity_options *opt, int64_t n_tokens, kvt_layer_use *out) {
    return kvt_layer_bytes(&g->layer, opt->k_format, opt->v_format, opt->block_tokens, (size_t)n_tokens, out);
}

double capacity_sequence_bytes(const shape *s, const capacity_options *opt, int64_t n_tokens) {
    double sum = 0;
    for (int i = 0; i < s->n_groups; i++) {
        kvt_layer_use use;
        if (capacity_group(&s->group[i], opt, n_tokens, &use) != KVT_OK) return -1;
        sum += (double)use.bytes_reserved * s->group[i].n_layers;
    }
    return sum <= BYTES_MOST ? sum : -1;
}

/* -------------------------------------------------------------------------------------------------- the cache */

static kvt_status sizes(const shape *s, const capacity_options *opt, capacity *out, error_text *err) {
    for (int i = 0; i < s->n_groups; i++) {
        kvt_layer_use use;
        double n = s->group[i].n_layers;
        kvt_status status = capacity_group(&s->group[i], opt, opt->tokens, &use);
        if (status != KVT_OK) {
            if (err) snprintf(err->text, sizeof err->text, "a group of %d layers: %s", s->group[i].n_layers, kvt_status_text(status));
            return status;
        }
        if (s->group[i].layer.kind != KVT_LAYER_WINDOW) out->bytes_per_token += n * (double)use.bytes_per_token;
        out->bytes_fixed += n * (double)use.bytes_fixed;
        out->bytes_sequence += n * (double)use.bytes;
        out->bytes_cache += n * (double)use.bytes_reserved;
    }
    out->bytes_cache *= (double)opt->sequences;
    if (out->bytes_cache <= BYTES_MOST) return KVT_OK;
    if (err)
        snprintf(err->text, sizeof err->text, "%lld sequences of %lld tokens take more than 2^62 bytes",
                 (long long)opt->sequences, (long long)opt->tokens);
    return KVT_E_LIMIT;
}

/* Rows of float32 that a step of `chunk` tokens holds: its way in and out of a layer, the queries, keys and values, the
 * feed-forward part, and a row of logits for each sequence (kvtile's own engine; others are of that order). */
static double scratch_of(const shape *s, const capacity_options *opt) {
    double attention = 3.0 * s->n_heads_q * s->dim_head, row = 2.0 * s->width + attention + 2.0 * s->width_ffn;
    return 4 * (opt->chunk * row + (double)opt->sequences * s->n_vocab);
}

/* The most tokens for which bytes(tokens) stays within `room`; bytes grow with tokens. */
static double tokens_within(const shape *s, const capacity_options *opt, double room, double sequences) {
    int64_t low = 0, high = TOKENS_MOST;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        double bytes = capacity_sequence_bytes(s, opt, middle);
        if (bytes >= 0 && bytes * sequences <= room) low = middle;
        else high = middle - 1;
    }
    return (double)low;
}

static void fits(const shape *s, const capacity_options *opt, capacity *out) {
    double one = out->bytes_cache / (double)opt->sequences, room = opt->memory - out->bytes_weights - out->bytes_scratch;
    out->sequences_max = out->tokens_max = -1;
    if (opt->memory <= 0) return;
    out->sequences_max = one > 0 && room > 0 ? (double)(int64_t)(room / one) : 0;
    out->tokens_max = room > 0 ? tokens_within(s, opt, room, (double)opt->sequences) : 0;
}

static void outweigh(const shape *s, const capacity_options *opt, capacity *out) {
    double tokens = out->bytes_weights > 0 ? tokens_within(s, opt, out->bytes_weights, 1) : 0;
    out->tokens_outweigh = tokens > 0 && tokens < TOKENS_MOST ? tokens + 1 : 0;
}

/* --------------------------------------------------------------------------------------------------- the work */

/* Prompt P, answer N: P + N - 1 positions with a cache, the sum of P .. P + N - 1 without. */
static void positions(const capacity_options *opt, capacity *out) {
    double p = (double)(opt->tokens - opt->answer), n = (double)opt->answer;
    out->positions_cached = n > 0 ? p + n - 1 : p;
    out->positions_recomputed = n > 0 ? n * p + n * (n - 1) / 2 : p;
}

/* Multiplications and additions of a prompt's attention: every token with all before it, in a window with those in it.
 * */
static double attention_flop(const shape *s, double n) {
    double sum = 0;
    for (int i = 0; i < s->n_groups; i++) {
        const kvt_layer *l = &s->group[i].layer;
        double seen = n * (n + 1) / 2, w = l->window;
        if (l->kind == KVT_LAYER_STATE) continue;
        if (l->kind == KVT_LAYER_WINDOW && n > w) seen = w * (w + 1) / 2 + (n - w) * w;
        sum += 2 * seen * s->group[i].n_layers * s->n_heads_q * 2.0 * s->dim_head;
    }
    return sum;
}

static void floors(const shape *s, const capacity_options *opt, capacity *out) {
    double prompt = (double)(opt->tokens - opt->answer);
    out->step_bytes = out->step_ms = out->prefill_flop = out->prefill_ms = -1;
    if (s->active_bytes > 0) out->step_bytes = s->active_bytes + out->bytes_sequence * (double)opt->sequences;
    if (out->step_bytes > 0 && opt->bandwidth > 0) out->step_ms = 1e3 * out->step_bytes / opt->bandwidth;
    if (s->n_weights_active > 0) out->prefill_flop = 2 * s->n_weights_active * prompt + attention_flop(s, prompt);
    if (out->prefill_flop > 0 && opt->flops > 0) out->prefill_ms = 1e3 * out->prefill_flop / opt->flops;
}

kvt_status capacity_of(const shape *s, const capacity_options *opt, capacity *out, error_text *err) {
    *out = (capacity){ .bytes_weights = s->weights_bytes };
    TRY(sizes(s, opt, out, err));
    out->bytes_scratch = scratch_of(s, opt);
    out->bytes_total = out->bytes_weights + out->bytes_cache + out->bytes_scratch;
    fits(s, opt, out);
    outweigh(s, opt, out);
    positions(opt, out);
    floors(s, opt, out);
    return KVT_OK;
}
