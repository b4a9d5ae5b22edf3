/* layer.c - owns the check of the options and the sizes of a cache: how many blocks and hot slots there are, how large
 * a step can get. Leaves the bytes of a block to bytes.c; to cache.c the sizes of the tables and scratch (they are
 * measured by the code that lays them out) and all memory. */
#include "layer.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/ints.h"
#include "base/mem.h"
#include "base/sys.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "kvtile_ops.h"
#include "move.h"

enum {
    LAYERS_MAX = 4096,
    HEADS_MAX = 1024,
    SEQUENCES_MAX = 65535,
    TOKENS_MAX = 1 << 30, /* so that a position and its rounding to a segment stay an int */
    BATCH_MAX = 1 << 20,
    THREADS_MAX = 256,
    MOVES_MAX = 4096,
    CUTS_MAX = 8192,         /* pieces that come from cutting, and heads that are cut */
    PARTIAL_MAX = 4 << 20    /* floats of their results, 16 MiB, but always enough for one sequence's next token */
};

typedef struct range {
    const char *field;
    long long value, least, most;
} range;

static kvt_status range_check(const log_sink *log, const char *of, range r) {
    if (r.value >= r.least && r.value <= r.most) return KVT_OK;
    return log_fail(log, KVT_E_ARGUMENT, "%s%s is %lld, allowed are %lld to %lld", of, r.field, r.value, r.least,
                    r.most);
}

/* 0, or a factor that stays finite and normal times log2(e). Others are infinite or 0 in the library's mode, and a
 * negative one would turn the largest score into the smallest. */
static bool scale_is_good(float scale) {
    uint32_t bits = bits_of_f32(scale);
    return bits << 1 == 0 || (bits >= bits_of_f32(FLT_MIN) && bits <= bits_of_f32(0x1p127f));
}

/* The numbers of a layer that keeps keys and values by heads. */
static kvt_status heads_check(const kvt_layer *l, const char *of, const log_sink *log) {
    TRY(range_check(log, of, (range){"n_heads_q", l->n_heads_q, 1, HEADS_MAX}));
    TRY(range_check(log, of, (range){"n_heads_kv", l->n_heads_kv, 1, HEADS_MAX}));
    if (l->n_heads_q % l->n_heads_kv)
        return log_fail(log, KVT_E_ARGUMENT, "%sn_heads_q is %d, not a multiple of n_heads_kv, %d", of, l->n_heads_q,
                        l->n_heads_kv);
    if (!scale_is_good(l->scale))
        return log_fail(log, KVT_E_ARGUMENT, "%sscale is %g, allowed are 0 and 2^-126 to 2^127", of, (double)l->scale);
    return KVT_OK;
}

/* Dividing and multiplying by a factor has to be harmless. */
static kvt_status balance_check(const kvt_layer *l, const char *of, const log_sink *log) {
    size_t n = l->k_balance ? (size_t)l->n_heads_kv * (size_t)l->dim_k : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of_f32(l->k_balance[i]);
        if (bits < bits_of_f32(FLT_MIN) || bits > bits_of_f32(FLT_MAX))
            return log_fail(log, KVT_E_ARGUMENT, "%sk_balance[%zu] is %g, allowed are 2^-126 to 2^127", of, i,
                            (double)l->k_balance[i]);
    }
    return KVT_OK;
}

kvt_status layer_check(const kvt_layer *l, const char *of, const log_sink *log) {
    if (l->kind < KVT_LAYER_FULL || l->kind > KVT_LAYER_SPARSE)
        return log_fail(log, KVT_E_UNSUPPORTED, "%skind is %d, which is none", of, (int)l->kind);
    if (l->kind == KVT_LAYER_STATE) return KVT_OK;
    if (l->kind == KVT_LAYER_FULL || l->kind == KVT_LAYER_WINDOW) TRY(heads_check(l, of, log));
    if (l->kind == KVT_LAYER_WINDOW) TRY(range_check(log, of, (range){"window", l->window, 1, TOKENS_MAX}));
    if (l->kind == KVT_LAYER_SPARSE) TRY(range_check(log, of, (range){"dim_index", l->dim_index, 1, ATTN_DIM_MAX}));
    TRY(range_check(log, of, (range){"dim_k", l->dim_k, 1, ATTN_DIM_MAX}));
    TRY(range_check(log, of, (range){"dim_v", l->dim_v, 1, ATTN_DIM_MAX}));
    return l->kind == KVT_LAYER_FULL || l->kind == KVT_LAYER_WINDOW ? balance_check(l, of, log) : KVT_OK;
}

/* A layer that a cache can hold. */
static kvt_status layer_check_open(const kvt_layer *l, int i, const log_sink *log) {
    char of[32];
    snprintf(of, sizeof of, "layers[%d].", i);
    if (l->kind != KVT_LAYER_FULL)
        return log_fail(log, KVT_E_UNSUPPORTED, "%skind is %d, which is not offered", of, (int)l->kind);
    return layer_check(l, of, log);
}

static kvt_status choices_check(const kvt_options *o, const log_sink *log) {
    const struct {
        const char *field;
        int value, n;
    } choices[] = {
        {"kind", (int)o->kind, KVT_NONE + 1},
        {"k_format", (int)o->k_format, N_KV_FORMATS},
        {"v_format", (int)o->v_format, N_KV_FORMATS},
        {"math", (int)o->math, KVT_MATH_ACCURATE + 1},
        {"write", (int)o->write, KVT_WRITE_BACK + 1},
    };
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (choices[i].value < 0 || choices[i].value >= choices[i].n)
            return log_fail(log, KVT_E_UNSUPPORTED, "%s is %d, which is not offered", choices[i].field,
                            choices[i].value);
    return KVT_OK;
}

/* Records without an identity would be found by caches of other weights; blocks of the other kinds cannot be given
 * away one by one. */
static kvt_status tiers_check(const kvt_options *o, const log_sink *log) {
    TRY(range_check(log, "", (range){"n_tiers", o->n_tiers, 0, MOVE_TIERS_MAX}));
    TRY(range_check(log, "", (range){"moves_max", o->moves_max, 1, MOVES_MAX}));
    if (o->n_tiers == 0) return KVT_OK;
    if (!o->tiers) return log_fail(log, KVT_E_ARGUMENT, "tiers is NULL, n_tiers is %d", o->n_tiers);
    for (int i = 0; i < o->n_tiers; i++)
        if (!o->tiers[i]) return log_fail(log, KVT_E_ARGUMENT, "tiers[%d] is NULL", i);
    if (!o->identity) return log_fail(log, KVT_E_ARGUMENT, "identity is NULL, tiers need one");
    if (o->kind != KVT_PAGED) return log_fail(log, KVT_E_ARGUMENT, "kind is %d, tiers need KVT_PAGED", (int)o->kind);
    return KVT_OK;
}

static kvt_status options_check(const kvt_options *o, const log_sink *log) {
    TRY(choices_check(o, log));
    if (o->block_tokens != 16 && o->block_tokens != 32 && o->block_tokens != 64)
        return log_fail(log, KVT_E_ARGUMENT, "block_tokens is %d, allowed are 16, 32 and 64", o->block_tokens);
    TRY(range_check(log, "", (range){"hot_tokens", o->hot_tokens, 0, TOKENS_MAX}));
    TRY(range_check(log, "", (range){"sequences_max", o->sequences_max, 1, SEQUENCES_MAX}));
    TRY(range_check(log, "", (range){"tokens_max", o->tokens_max, 1, TOKENS_MAX}));
    TRY(range_check(log, "", (range){"batch_tokens_max", o->batch_tokens_max, 1, BATCH_MAX}));
    TRY(range_check(log, "", (range){"n_threads", o->n_threads, 0, THREADS_MAX}));
    TRY(range_check(log, "", (range){"n_layers", o->n_layers, 1, LAYERS_MAX}));
    TRY(tiers_check(o, log));
    if (!o->alloc != !o->release)
        return log_fail(log, KVT_E_ARGUMENT, "alloc and release: one is NULL, give both or neither");
    if (!o->layers) return log_fail(log, KVT_E_ARGUMENT, "layers is NULL, n_layers is %d", o->n_layers);
    for (int i = 0; i < o->n_layers; i++) TRY(layer_check_open(&o->layers[i], i, log));
    return KVT_OK;
}

static float softmax_constant(const kvt_layer *l) {
    double scale = l->scale != 0 ? (double)l->scale : 1 / sqrt((double)l->dim_k);
    return (float)(scale * 1.4426950408889634);
}

/* Numeric contract, section 8: 1 / run. */
static float turn_of(const kv_format *f, int pad) {
    return f->kind == KV_CODES ? 1 / (float)(pad & -pad) : 0;
}

layer_shape layer_shape_of(const kvt_options *opt, int layer) {
    const kvt_layer *l = &opt->layers[layer];
    layer_shape s = {
        .n_heads_q = l->n_heads_q,
        .n_heads_kv = l->n_heads_kv,
        .group = l->n_heads_q / l->n_heads_kv,
        .dim_k = l->dim_k,
        .dim_v = l->dim_v,
        .pad_k = layer_pad(l->dim_k),
        .pad_v = layer_pad(l->dim_v),
        .c = softmax_constant(l),
    };
    const kv_format *k = kv_format_of((int)opt->k_format), *v = kv_format_of((int)opt->v_format);
    const int n_tiles = opt->block_tokens / TILE;
    s.k_turn = turn_of(k, s.pad_k);
    s.v_turn = turn_of(v, s.pad_v);
    s.kept = layer_block_of(s.n_heads_kv, s.pad_k, s.pad_v, k, v, n_tiles);
    s.hot = layer_block_of(s.n_heads_kv, s.pad_k, s.pad_v, kv_format_of(k->hot_k), kv_format_of(v->hot_v), n_tiles);
    return s;
}

/* Room for pieces that are cut at segments: so that threads share a long sequence, and so that what sequences share is
 * read once for all of them. */
static void layout_cuts(layout *out, const layer_shape *s, size_t rows_most) {
    if (out->n_segments == 1 || (out->n_threads == 1 && out->n_entries == 1)) return; /* nothing is ever cut */
    size_t n_heads = (size_t)s->n_heads_kv, splits = (size_t)out->n_entries * n_heads;
    size_t per_row = n_heads * (size_t)out->n_segments * (2 + (size_t)s->pad_v);
    size_t one = (size_t)s->group * per_row, all;
    mem_mul(rows_most, per_row, &all);
    out->n_splits = size_most(out->n_splits, size_least(splits, size_most(CUTS_MAX, n_heads)));
    size_t items = size_least(splits, CUTS_MAX) * (size_t)out->n_segments;
    items = size_least(items, size_most(CUTS_MAX, n_heads * (size_t)out->n_segments));
    out->n_items_cut = size_most(out->n_items_cut, items);
    out->partial_floats = size_most(out->partial_floats, size_least(all, size_most(PARTIAL_MAX, one)));
}

/* What a step can need: plan.c stays within these numbers. */
static void layout_step(layout *out, const kvt_options *opt, const layer_shape *s) {
    size_t batch = (size_t)opt->batch_tokens_max, group = (size_t)s->group;
    size_t row_groups = batch * group / ATTN_ROWS + (size_t)out->n_entries;
    size_t rows_most = mem_round(batch * group, ATTN_ROWS);
    out->pad_k = (int)size_most((size_t)out->pad_k, (size_t)s->pad_k);
    out->pad_v = (int)size_most((size_t)out->pad_v, (size_t)s->pad_v);
    out->item_rows = (int)size_most((size_t)out->item_rows, rows_most < LAYER_ROWS_MAX ? rows_most : LAYER_ROWS_MAX);
    out->n_items = size_most(out->n_items, row_groups * (size_t)s->n_heads_kv);
    layout_cuts(out, s, size_least(rows_most, (size_t)out->n_entries * LAYER_ROWS_MAX));
}

/* ---------------------------------------------------------------------------------------- blocks and slots
 *
 * A sequence needs a hot slot for each of its first blocks and one for its open block; in a step also one for the open
 * block it had before, until the step ends. First blocks that are idle, for others to begin with, have as many again,
 * and those that a mover is at while nobody waits for them one for each way. Blocks that a step fills from their first
 * token on lie in staging places, which all layers use in turn. */

static void layout_hot(layout *out, const kvt_options *opt, bool seal) {
    out->sealing = seal || formats_seal(kv_format_of((int)opt->k_format), kv_format_of((int)opt->v_format));
    if (!out->sealing) return;
    out->n_first = int_least(int_ceil_div(opt->hot_tokens, opt->block_tokens), out->seq_blocks);
    out->n_stages = opt->batch_tokens_max / opt->block_tokens;
    for (int i = 0; i < opt->n_layers; i++) {
        size_t bytes = layer_shape_of(opt, i).hot.bytes;
        out->hot_block_bytes += bytes;
        out->hot_layer_bytes = size_most(out->hot_layer_bytes, bytes);
    }
}

static bool has_prefixes(const kvt_options *opt) {
    return opt->kind == KVT_PAGED && !opt->forget;
}

static size_t slots_idle(const layout *l, const kvt_options *opt) {
    return has_prefixes(opt) ? (size_t)opt->sequences_max * (size_t)l->n_first : 0;
}

static size_t slots_most(const layout *l, const kvt_options *opt) {
    if (!l->sealing) return 0;
    return (size_t)opt->sequences_max * ((size_t)l->n_first + 1) + (size_t)l->n_entries + slots_idle(l, opt) +
           2 * (size_t)opt->n_tiers;
}

/* All but what one sequence of tokens_max tokens takes, or less if that is the limit. */
static int pins_most(const layout *l, const kvt_options *opt) {
    size_t wanted = opt->pinned_bytes_max ? opt->pinned_bytes_max / l->bytes_per_block : (size_t)l->n_blocks / 4;
    return (int)size_least(wanted, (size_t)(l->n_blocks - l->seq_blocks));
}

/* Bytes of n blocks, their slots and the staging places; at most SIZE_MAX. */
static size_t bytes_of_blocks(const layout *l, const kvt_options *opt, size_t n) {
    size_t blocks, slots, all;
    mem_mul(n, l->bytes_per_block, &blocks);
    mem_mul(size_least(n, slots_most(l, opt)), l->hot_block_bytes, &slots);
    mem_add(blocks, slots, &all);
    mem_add(all, (size_t)l->n_stages * l->hot_layer_bytes, &all);
    return all;
}

/* The most blocks that with their slots fit into so many bytes: each has a slot of its own until there are enough. */
static size_t blocks_that_fit(const layout *l, const kvt_options *opt, size_t bytes) {
    size_t stages = (size_t)l->n_stages * l->hot_layer_bytes, slots = slots_most(l, opt);
    if (bytes <= stages) return 0;
    bytes -= stages;
    size_t n = bytes / (l->bytes_per_block + l->hot_block_bytes);
    return n <= slots ? n : (bytes - slots * l->hot_block_bytes) / l->bytes_per_block;
}

/* Enough for every sequence, or as many as bytes_max holds (contiguous: whole sequences of them). */
static kvt_status layout_blocks(layout *out, const kvt_options *opt, const log_sink *log) {
    size_t n = (size_t)opt->sequences_max * (size_t)out->seq_blocks;
    if (opt->bytes_max) n = blocks_that_fit(out, opt, opt->bytes_max);
    if (out->seq_blocks_least) n -= n % (size_t)out->seq_blocks_least;
    out->n_blocks = n > INT_MAX ? INT_MAX : (int)n;
    if (n < (size_t)out->seq_blocks)
        return log_fail(log, KVT_E_LIMIT, "bytes_max: one sequence of %d tokens needs %zu bytes, %zu are allowed",
                        opt->tokens_max, bytes_of_blocks(out, opt, (size_t)out->seq_blocks), opt->bytes_max);
    size_t all = bytes_of_blocks(out, opt, n);
    if (n > (size_t)(INT_MAX - out->n_stages) || all == SIZE_MAX)
        return log_fail(log, KVT_E_LIMIT, "%zu blocks of %zu bytes are more than can be counted", n,
                        out->bytes_per_block);
    out->n_slots = (int)size_least(n, slots_most(out, opt));
    out->n_idle_hot = (int)size_least((size_t)out->n_slots, slots_idle(out, opt));
    out->n_pins = pins_most(out, opt);
    out->bytes_cache = n * out->bytes_per_block;
    out->bytes_hot = all - out->bytes_cache;
    return KVT_OK;
}

kvt_status layout_of(const kvt_options *opt, bool seal, const log_sink *log, layout *out) {
    *out = (layout){0};
    TRY(options_check(opt, log));
    out->block_tokens = opt->block_tokens;
    out->block_tiles = opt->block_tokens / TILE;
    out->seq_blocks = int_ceil_div(opt->tokens_max, opt->block_tokens);
    out->seq_blocks_least = opt->kind == KVT_CONTIGUOUS ? out->seq_blocks : 0;
    out->n_segments = int_ceil_div(opt->tokens_max, ATTN_SEGMENT);
    out->n_entries = opt->sequences_max < opt->batch_tokens_max ? opt->sequences_max : opt->batch_tokens_max;
    out->n_threads = opt->workers ? kvt_workers_count(opt->workers) : opt->n_threads;
    if (out->n_threads == 0) out->n_threads = sys_processors();
    if (out->n_threads > THREADS_MAX) out->n_threads = THREADS_MAX;
    size_t n_elements = 0; /* of a token in all layers, without padding */
    for (int i = 0; i < opt->n_layers; i++) {
        layer_shape s = layer_shape_of(opt, i);
        n_elements += (size_t)s.n_heads_kv * ((size_t)s.dim_k + (size_t)s.dim_v);
        out->bytes_per_block += s.kept.bytes; /* at most 2^12 layers of 2^28 bytes */
        layout_step(out, opt, &s);
    }
    out->bytes_per_token = out->bytes_per_block / (size_t)out->block_tokens;
    out->bits_per_element = layer_bits(out->bytes_per_token, n_elements);
    out->n_items += out->n_items_cut;
    layout_hot(out, opt, seal);
    return layout_blocks(out, opt, log);
}
