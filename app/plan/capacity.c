/* capacity.c - see capacity.h. Bytes of caches are whole numbers, checked at every product and sum; weights, which may
 * be estimates, and what is worked out from rates are doubles. */
#include "capacity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

/* -------------------------------------------------------------------------------------------------- the cache */

static kvt_status times(size_t a, size_t b, size_t *out) {
    return mem_mul(a, b, out) && *out <= INT64_MAX ? KVT_OK : KVT_E_LIMIT;
}

static kvt_status plus(size_t *sum, size_t b) {
    return mem_add(*sum, b, sum) && *sum <= INT64_MAX ? KVT_OK : KVT_E_LIMIT;
}

kvt_status capacity_group(const shape_group *g, const capacity_options *opt, int64_t tokens, int64_t sequences,
                          capacity_bytes *out) {
    kvt_layer_use use;
    size_t n = (size_t)g->n_layers;
    *out = (capacity_bytes){ 0 };
    TRY(kvt_layer_bytes(&g->layer, opt->k_format, opt->v_format, opt->block_tokens, (size_t)tokens, &use));
    TRY(times(use.bytes_per_token, n, &out->per_token));
    TRY(times(use.bytes_fixed, n, &out->fixed));
    TRY(times(use.bytes, n, &out->sequence));
    TRY(times(use.bytes_reserved, n, &out->sequence_reserved));
    TRY(times(out->sequence, (size_t)sequences, &out->all));
    TRY(times(out->sequence_reserved, (size_t)sequences, &out->reserved));
    if (g->layer.kind != KVT_LAYER_WINDOW) out->per_token_long = out->per_token;
    return KVT_OK;
}

kvt_status capacity_bytes_of(const shape *s, const capacity_options *opt, int64_t tokens, int64_t sequences,
                             capacity_bytes *out) {
    *out = (capacity_bytes){ 0 };
    for (int i = 0; i < s->n_groups; i++) {
        capacity_bytes g;
        TRY(capacity_group(&s->group[i], opt, tokens, sequences, &g));
        TRY(plus(&out->per_token, g.per_token));
        TRY(plus(&out->per_token_long, g.per_token_long));
        TRY(plus(&out->fixed, g.fixed));
        TRY(plus(&out->sequence, g.sequence));
        TRY(plus(&out->sequence_reserved, g.sequence_reserved));
        TRY(plus(&out->all, g.all));
        TRY(plus(&out->reserved, g.reserved));
    }
    return KVT_OK;
}

/* ----------------------------------------------------------------------------------------------- what fits */

/* Do sequences of so many tokens stay within `room`? */
static bool within(const shape *s, const capacity_options *opt, int64_t tokens, int64_t sequences, double room) {
    capacity_bytes b;
    return capacity_bytes_of(s, opt, tokens, sequences, &b) == KVT_OK && (double)b.reserved <= room;
}

/* Bytes grow with tokens. */
int64_t capacity_tokens_within(const shape *s, const capacity_options *opt, int64_t sequences, double room) {
    int64_t low = 0, high = CAPACITY_MOST;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (within(s, opt, middle, sequences, room)) low = middle;
        else high = middle - 1;
    }
    return low;
}

double capacity_rows_bytes(const shape *s, const capacity_options *opt) {
    double row = 2.0 * s->width + 4.0 * s->n_heads_q * s->dim_head + 2.0 * s->width_ffn;
    return 4 * (opt->chunk * row + (double)opt->sequences * s->n_vocab);
}

/* What the library asks for beside `reserved` bytes of keys and values, if it opens such a cache; 0: it does not know
 * these layers, or so many sequences. */
static double beside_cache(const shape *s, const capacity_options *opt, size_t reserved) {
    kvt_options o = kvt_options_default();
    kvt_bytes_info info = { 0 };
    kvt_layer *layers = s->n_groups == 1 ? calloc((size_t)s->n_layers, sizeof *layers) : NULL;
    for (int i = 0; layers && i < s->n_layers; i++) layers[i] = s->group[0].layer;
    o.layers = layers;
    o.n_layers = s->n_layers;
    o.k_format = opt->k_format;
    o.v_format = opt->v_format;
    o.block_tokens = opt->block_tokens;
    o.hot_tokens = opt->hot_tokens;
    o.sequences_max = opt->sequences < INT32_MAX ? (int)opt->sequences : INT32_MAX;
    o.tokens_max = (int)opt->tokens;
    o.batch_tokens_max = opt->chunk;
    kvt_status status = layers ? kvt_bytes(&o, &info) : KVT_E_UNSUPPORTED;
    free(layers);
    return status == KVT_OK ? (double)info.bytes_total - (double)reserved : 0;
}

/* The plan's numbers that are bytes, for so many tokens and sequences. */
static kvt_status needed(const shape *s, const capacity_options *opt, int64_t tokens, int64_t sequences,
                         capacity *out) {
    capacity_options o = *opt;
    o.tokens = tokens;
    o.sequences = sequences;
    TRY(capacity_bytes_of(s, opt, tokens, sequences, &out->bytes));
    out->weights = s->weights_bytes;
    out->tables = beside_cache(s, &o, out->bytes.reserved);
    out->scratch = capacity_rows_bytes(s, &o) + out->tables;
    out->needed = out->weights + out->scratch + (double)out->bytes.reserved;
    return KVT_OK;
}

/* The most tokens, or sequences, with the other as planned. */
static int64_t most(const shape *s, const capacity_options *opt, bool tokens) {
    int64_t low = 0, high = CAPACITY_MOST;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        capacity c;
        kvt_status status = needed(s, opt, tokens ? middle : opt->tokens, tokens ? opt->sequences : middle, &c);
        if (status == KVT_OK && c.needed <= opt->memory) low = middle;
        else high = middle - 1;
    }
    return low;
}

static void fits(const shape *s, const capacity_options *opt, capacity *out) {
    bool told = opt->memory > 0;
    out->spare = told ? opt->memory - out->needed : 0;
    out->sequences_max = told ? most(s, opt, false) : -1;
    out->tokens_max = told ? most(s, opt, true) : -1;
}

static int64_t tokens_outweigh(const shape *s, const capacity_options *opt) {
    int64_t tokens = s->weights_bytes > 0 ? capacity_tokens_within(s, opt, 1, s->weights_bytes) : 0;
    return tokens > 0 && tokens < CAPACITY_MOST ? tokens + 1 : 0;
}

/* --------------------------------------------------------------------------------------------------- the work */

/* Prompt P, answer N: P + N - 1 positions with a cache, the sum of P .. P + N - 1 without. At most 2^60. */
static void positions(const capacity_options *opt, capacity *out) {
    int64_t p = opt->tokens - opt->answer, n = opt->answer;
    out->positions_cached = n > 0 ? p + n - 1 : p;
    out->positions_recomputed = n > 0 ? n * p + n * (n - 1) / 2 : p;
}

/* The embedding, of which a token meets one row. */
static double embedding_weights(const shape *s) {
    return (double)s->width * s->n_vocab;
}

double capacity_read_weights(const shape *s) {
    return s->active_bytes > s->unread_bytes ? s->active_bytes - s->unread_bytes : 0;
}

double capacity_read_bytes(const shape *s, const capacity_options *opt, int64_t tokens) {
    double sum = 0;
    for (int i = 0; i < s->n_groups; i++) {
        shape_group g = s->group[i];
        capacity_bytes all, rest;
        bool chooses = g.layer.kind == KVT_LAYER_SPARSE && s->tokens_chosen > 0 && tokens > s->tokens_chosen;
        if (capacity_group(&g, opt, tokens, opt->sequences, &all) != KVT_OK) return -1;
        sum += (double)all.all;
        if (!chooses) continue;
        g.layer.kind = KVT_LAYER_LATENT; /* what stays unread of the tokens that were not chosen */
        if (capacity_group(&g, opt, tokens - s->tokens_chosen, opt->sequences, &rest) != KVT_OK) return -1;
        sum -= (double)rest.all;
    }
    return sum;
}

/* Tokens that n tokens see, all together: each those before it and itself, as many as a window or a choice lets it. */
static double seen(double n, double most) {
    if (most <= 0 || n <= most) return n * (n + 1) / 2;
    return most * (most + 1) / 2 + (n - most) * most;
}

/* Multiplications and additions of a prompt's attention: 2 for each element of a key and of a value. */
static double attention_flop(const shape *s, double n) {
    double sum = 0;
    for (int i = 0; i < s->n_groups; i++) {
        const kvt_layer *l = &s->group[i].layer;
        double most = l->kind == KVT_LAYER_WINDOW ? l->window : l->kind == KVT_LAYER_SPARSE ? s->tokens_chosen : 0;
        if (l->kind == KVT_LAYER_STATE) continue;
        sum += seen(n, most) * s->group[i].n_layers * s->n_heads_q * 4.0 * s->dim_head;
    }
    return sum;
}

/* 2 for each weight of the layers and token; the output matrix is for the last token alone. */
static double prefill_flop(const shape *s, double n) {
    double table = embedding_weights(s), layers = s->n_weights_active - (s->tied ? 1 : 2) * table;
    if (layers <= 0) return 2 * s->n_weights_active * n + attention_flop(s, n);
    return 2 * (layers * n + table) + attention_flop(s, n);
}

static void floors(const shape *s, const capacity_options *opt, capacity *out) {
    double prompt = (double)(opt->tokens - opt->answer), cache = capacity_read_bytes(s, opt, opt->tokens);
    out->step_ms = out->prefill_flop = out->prefill_ms = -1;
    out->step_weights = capacity_read_weights(s);
    out->step_bytes = out->step_weights + cache;
    if (opt->bandwidth > 0) out->step_ms = 1e3 * out->step_bytes / opt->bandwidth;
    if (s->n_weights_active > 0) out->prefill_flop = prefill_flop(s, prompt);
    if (out->prefill_flop > 0 && opt->flops > 0) out->prefill_ms = 1e3 * out->prefill_flop / opt->flops;
}

kvt_status capacity_of(const shape *s, const capacity_options *opt, capacity *out, error_text *err) {
    *out = (capacity){ 0 };
    kvt_status status = needed(s, opt, opt->tokens, opt->sequences, out);
    if (status != KVT_OK && err)
        snprintf(err->text, sizeof err->text, "the cache of %" PRId64 " sequences of %" PRId64 " tokens: %s",
                 opt->sequences, opt->tokens,
                 status == KVT_E_LIMIT ? "more than 2^63 bytes" : kvt_status_text(status));
    TRY(status);
    fits(s, opt, out);
    out->tokens_outweigh = tokens_outweigh(s, opt);
    positions(opt, out);
    floors(s, opt, out);
    return KVT_OK;
}
