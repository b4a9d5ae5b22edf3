/* plan_json.c - a plan as one JSON object. Bytes are whole numbers; what is not known is null. */
#include "plan.h"

#include <string.h>

/* Above 2^53 a reader that has doubles alone would round; up to 2^63 they are written out. */
static json_t *bytes_json(double bytes) {
    return json_integer((json_int_t)bytes);
}

static json_t *known(double v) {
    return v >= 0 ? json_real(v) : json_null();
}

static json_t *count_or_null(int64_t n) {
    return n >= 0 ? json_integer(n) : json_null();
}

static json_t *group_json(const planning *p, const shape_group *g) {
    const kvt_layer *l = &g->layer;
    capacity_bytes b;
    kvt_layer_use use;
    const capacity_options *opt = &p->options;
    capacity_group(g, opt, opt->tokens, opt->sequences, &b);
    kvt_layer_bytes(l, opt->k_format, opt->v_format, opt->block_tokens, (size_t)opt->tokens, &use);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I}", "kind", plan_kind(l),
                     "n_layers", g->n_layers, "n_heads", l->n_heads_q, "n_heads_kv", l->n_heads_kv, "dim_k", l->dim_k,
                     "dim_v", l->dim_v, "window", l->window, "dim_index", l->dim_index, "state_bytes",
                     (json_int_t)l->state_bytes, "tokens_kept", (json_int_t)use.tokens_kept, "bytes_per_token",
                     (json_int_t)b.per_token, "bytes_total", (json_int_t)b.all, "bytes_reserved",
                     (json_int_t)b.reserved);
}

/* What differs between formats, or between kinds of attention. */
static json_t *row_json(const planning *p, const plan_row *r, const char *what) {
    const capacity *c = &r->is;
    json_t *o = json_pack("{s:s, s:f, s:I, s:I, s:I, s:b}", what, r->name, "bits_per_element", r->bits,
                          "bytes_per_token", (json_int_t)c->bytes.per_token, "bytes_total", (json_int_t)c->bytes.all,
                          "bytes_reserved", (json_int_t)c->bytes.reserved, "fits", c->spare >= 0);
    if (!o) return NULL;
    json_object_set_new(o, "max_sequences", count_or_null(c->sequences_max));
    json_object_set_new(o, "max_tokens", count_or_null(c->tokens_max));
    json_object_set_new(o, "decode_ms_per_token_floor", known(c->step_ms));
    json_object_set_new(o, "k_format", json_string(kvt_format_name(r->options.k_format)));
    json_object_set_new(o, "v_format", json_string(kvt_format_name(r->options.v_format)));
    if (p->mha_per_token > 0)
        json_object_set_new(o, "share_of_mha", json_real((double)c->bytes.per_token / p->mha_per_token));
    return o;
}

static void model_fields(json_t *o, const planning *p) {
    const shape *s = &p->shape;
    json_object_set_new(o, "model", json_bytes(s->name, strlen(s->name)));
    json_object_set_new(o, "source", json_bytes(s->source, strlen(s->source)));
    json_object_set_new(o, "n_layers", json_integer(s->n_layers));
    json_object_set_new(o, "context_train", s->context ? json_integer(s->context) : json_null());
    json_object_set_new(o, "as", p->opt->as.n == 1 && !p->n_kinds ? json_string(p->opt->as.text[0]) : json_null());
    json_t *layers = json_array();
    for (int i = 0; i < s->n_groups; i++) json_array_append_new(layers, group_json(p, &s->group[i]));
    json_object_set_new(o, "layers", layers);
}

static void cache_fields(json_t *o, const planning *p) {
    const capacity_options *opt = &p->options;
    const capacity_bytes *b = &p->is.bytes;
    json_object_set_new(o, "k_format", json_string(kvt_format_name(opt->k_format)));
    json_object_set_new(o, "v_format", json_string(kvt_format_name(opt->v_format)));
    json_object_set_new(o, "block_tokens", json_integer(opt->block_tokens));
    json_object_set_new(o, "tokens", json_integer(opt->tokens));
    json_object_set_new(o, "sequences", json_integer(opt->sequences));
    json_object_set_new(o, "bytes_per_token", json_integer((json_int_t)b->per_token));
    json_object_set_new(o, "bytes_per_token_beyond_window", json_integer((json_int_t)b->per_token_long));
    json_object_set_new(o, "bytes_state", json_integer((json_int_t)b->fixed));
    json_object_set_new(o, "bytes_per_sequence", json_integer((json_int_t)b->sequence));
    json_object_set_new(o, "bytes_total", json_integer((json_int_t)b->all));
    json_object_set_new(o, "bytes_reserved", json_integer((json_int_t)b->reserved));
}

static void room_fields(json_t *o, const planning *p) {
    const capacity *c = &p->is;
    json_object_set_new(o, "weights_bytes", bytes_json(c->weights));
    json_object_set_new(o, "weights_estimated", json_boolean(p->shape.weights_estimated));
    json_object_set_new(o, "scratch_bytes", bytes_json(c->scratch));
    json_object_set_new(o, "bytes_needed", bytes_json(c->needed));
    json_object_set_new(o, "memory", bytes_json(p->options.memory));
    json_object_set_new(o, "memory_from", json_string(p->memory_given ? "given" : "free"));
    json_object_set_new(o, "fits", json_boolean(c->spare >= 0));
    json_object_set_new(o, "bytes_spare", bytes_json(c->spare));
    json_object_set_new(o, "max_sequences", count_or_null(c->sequences_max));
    json_object_set_new(o, "max_tokens", count_or_null(c->tokens_max));
    json_object_set_new(o, "tokens_outweigh", c->tokens_outweigh ? json_integer(c->tokens_outweigh) : json_null());
    json_object_set_new(o, "command", p->advice ? json_bytes(p->advice, strlen(p->advice)) : json_null());
}

static void work_fields(json_t *o, const planning *p) {
    const capacity *c = &p->is;
    const capacity_options *opt = &p->options;
    json_object_set_new(o, "answer", json_integer(opt->answer));
    json_object_set_new(o, "positions_cached", json_integer(c->positions_cached));
    json_object_set_new(o, "positions_recomputed", json_integer(c->positions_recomputed));
    json_object_set_new(o, "bandwidth", opt->bandwidth > 0 ? json_real(opt->bandwidth) : json_null());
    json_object_set_new(o, "bandwidth_from", json_string(p->bandwidth_given ? "given" : "measured"));
    json_object_set_new(o, "decode_bytes_read", bytes_json(c->step_bytes));
    json_object_set_new(o, "decode_ms_per_token_floor", known(c->step_ms));
    json_object_set_new(o, "flops", opt->flops > 0 ? json_real(opt->flops) : json_null());
    json_object_set_new(o, "prefill_flop", known(c->prefill_flop));
    json_object_set_new(o, "prefill_ms_floor", known(c->prefill_ms));
}

int plan_json(const planning *p) {
    json_t *o = json_object(), *formats = json_array(), *kinds = json_array();
    if (!o || !formats || !kinds) return cli_fail("no memory for the JSON text");
    model_fields(o, p);
    cache_fields(o, p);
    room_fields(o, p);
    work_fields(o, p);
    for (int i = 0; i < p->n_formats; i++) json_array_append_new(formats, row_json(p, &p->format[i], "format"));
    for (int i = 0; i < p->n_kinds; i++) json_array_append_new(kinds, row_json(p, &p->kind[i], "as"));
    json_object_set_new(o, "formats", formats);
    json_object_set_new(o, "kinds", kinds);
    return json_print(o);
}
