/* plan_table.c - a plan for people: a line for each answer, below it the formula where --explain asks for that, then
 * the formats, and the kinds of attention, side by side. */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "formats.h"

/* The second line of an answer, where it is asked for. */
static void explain(const planning *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void explain(const planning *p, const char *format, ...) {
    va_list args;
    if (!p->opt->explain) return;
    va_start(args, format);
    printf("              = ");
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

static show_text count(int64_t n) {
    show_text out = show_count((uint64_t)n);
    if (n >= CAPACITY_MOST) snprintf(out.text, sizeof out.text, "any number of");
    return out;
}

/* "131,072 B (128 KiB)" where that is a round number too. */
static show_text per_token(size_t bytes) {
    show_text out = plan_exact((double)bytes);
    size_t n = strlen(out.text);
    double kib = (double)bytes / 1024;
    if (bytes >= 10240 && bytes * 10 % 1024 == 0)
        snprintf(out.text + n, sizeof out.text - n, kib >= 1024 ? " (%.4g MiB)" : " (%.4g KiB)",
                 kib >= 1024 ? kib / 1024 : kib);
    return out;
}

/* ------------------------------------------------------------------------------------------------ the model */

static void print_head(const planning *p) {
    const shape *s = &p->shape;
    const capacity_options *o = &p->options;
    printf("%s: %d layers", s->name, s->n_layers);
    if (s->n_heads_q) printf(", %d query heads of %d", s->n_heads_q, s->dim_head);
    if (s->context) printf(", trained on %s tokens", show_count((uint64_t)s->context).text);
    if (p->opt->as.n == 1 && p->n_kinds == 0) printf("; its attention as %s", p->opt->as.text[0]);
    if (s->source[0]) printf(" (%s)", s->source);
    printf("\n%s sequence%s of %s tokens; keys %s, values %s, blocks of %d\n\n",
           show_count((uint64_t)o->sequences).text, o->sequences > 1 ? "s" : "", show_count((uint64_t)o->tokens).text,
           kvt_format_name(o->k_format), kvt_format_name(o->v_format), o->block_tokens);
}

/* Bytes of a token in a layer of one head. */
static size_t head_bytes(const planning *p, int dim_k, kvt_format k, int dim_v, kvt_format v) {
    const kvt_layer one = { .n_heads_q = 1, .n_heads_kv = 1, .dim_k = dim_k, .dim_v = dim_v };
    kvt_layer_use use;
    kvt_layer_bytes(&one, k, v, p->options.block_tokens, 1, &use);
    return use.bytes_per_token;
}

/* Bytes of an element as they stand in a formula; of codes there is no such number. */
static double element_bytes(const planning *p, kvt_format format) {
    return (double)head_bytes(p, 16, format, 16, format) / 32;
}

static int padded(int dim) {
    return (dim + 15) / 16 * 16;
}

static void explain_heads(const planning *p, const shape_group *g, size_t bytes) {
    const kvt_layer *l = &g->layer;
    double k = element_bytes(p, p->options.k_format), v = element_bytes(p, p->options.v_format);
    int dim_k = padded(l->dim_k), dim_v = padded(l->dim_v);
    show_text sum = plan_exact((double)bytes);
    if (dim_k == dim_v && k == v)
        explain(p, "2 x %d layers x %d heads x %d x %g B = %s a token%s", g->n_layers, l->n_heads_kv, dim_k, k,
                sum.text, dim_k != l->dim_k ? " (heads are padded to a multiple of 16)" : "");
    else
        explain(p, "%d layers x %d heads x (%d x %g B + %d x %g B) = %s a token", g->n_layers, l->n_heads_kv, dim_k, k,
                dim_v, v, sum.text);
}

/* A head of codes has scales, of keys a centroid too. */
static void explain_codes(const planning *p, const shape_group *g, size_t bytes) {
    const kvt_layer *l = &g->layer;
    const capacity_options *o = &p->options;
    size_t both = head_bytes(p, l->dim_k, o->k_format, l->dim_v, o->v_format);
    size_t k = head_bytes(p, l->dim_k, o->k_format, 16, KVT_BF16) - 32;
    show_text sum = plan_exact((double)bytes);
    if (l->kind == KVT_LAYER_FULL || l->kind == KVT_LAYER_WINDOW)
        explain(p, "%d layers x %d heads x (%zu B of a key + %zu B of a value) = %s a token, with scales and centroids",
                g->n_layers, l->n_heads_kv, k, both - k, sum.text);
    else explain(p, "%d layers, with scales and centroids = %s a token", g->n_layers, sum.text);
}

static void explain_group(const planning *p, const shape_group *g, size_t bytes) {
    const kvt_layer *l = &g->layer;
    bool codes = format_is_coded(p->options.k_format) || format_is_coded(p->options.v_format);
    if (codes && l->kind != KVT_LAYER_STATE) {
        explain_codes(p, g, bytes);
        return;
    }
    double k = element_bytes(p, p->options.k_format);
    show_text sum = plan_exact((double)bytes);
    switch (l->kind) {
    case KVT_LAYER_STATE:
        explain(p, "%d layers x %s, however long", g->n_layers, plan_exact((double)l->state_bytes).text);
        return;
    case KVT_LAYER_LATENT:
        explain(p, "%d layers x (%d + %d) x %g B = %s a token, key and value at once", g->n_layers, l->dim_v, l->dim_k,
                k, sum.text);
        return;
    case KVT_LAYER_SPARSE:
        explain(p, "%d layers x (%d + %d + %d) x %g B = %s a token, the last an index key", g->n_layers, l->dim_v,
                l->dim_k, l->dim_index, k, sum.text);
        return;
    default: explain_heads(p, g, bytes);
    }
}

/* "8 heads of 128", "latent 512 + 64" */
static show_text geometry(const kvt_layer *l) {
    show_text out = { "" };
    char *t = out.text;
    size_t n = sizeof out.text;
    if (l->kind == KVT_LAYER_LATENT) snprintf(t, n, "%d + %d", l->dim_v, l->dim_k);
    if (l->kind == KVT_LAYER_SPARSE) snprintf(t, n, "%d + %d + %d", l->dim_v, l->dim_k, l->dim_index);
    if (l->kind != KVT_LAYER_FULL && l->kind != KVT_LAYER_WINDOW) return out;
    int used = snprintf(t, n, "%d head%s of %d", l->n_heads_kv, l->n_heads_kv > 1 ? "s" : "", l->dim_k);
    if (l->dim_v != l->dim_k) snprintf(t + used, n - (size_t)used, " + %d", l->dim_v);
    return out;
}

static void print_groups(const planning *p) {
    const capacity_options *o = &p->options;
    for (int i = 0; i < p->shape.n_groups; i++) {
        const shape_group *g = &p->shape.group[i];
        capacity_bytes b;
        kvt_layer_use use;
        capacity_group(g, o, o->tokens, o->sequences, &b);
        kvt_layer_bytes(&g->layer, o->k_format, o->v_format, o->block_tokens, (size_t)o->tokens, &use);
        printf("  %-10s  %3d %-7s %-18s", i ? "" : "layers", g->n_layers, plan_kind(&g->layer),
               geometry(&g->layer).text);
        if (use.tokens_kept)
            printf(" %12s tokens kept, %s a token", show_count(use.tokens_kept).text, per_token(b.per_token).text);
        else printf(" %12s however long", "");
        printf(": %s\n", plan_size((double)b.all).text);
        explain_group(p, g, b.per_token);
    }
}

/* --------------------------------------------------------------------------------------------- the memory */

static void print_cache(const planning *p) {
    const capacity_bytes *b = &p->is.bytes;
    const capacity_options *o = &p->options;
    printf("  cache       %s a token", per_token(b->per_token).text);
    if (b->per_token_long < b->per_token) printf(", %s beyond the window", per_token(b->per_token_long).text);
    printf("; %s in all (%s)\n", plan_size((double)b->all).text, plan_exact((double)b->all).text);
    if (b->per_token_long == b->per_token)
        explain(p, "%s x (%s tokens x %s%s%s)", count(o->sequences).text, count(o->tokens).text,
                plan_exact((double)b->per_token).text, b->fixed ? " + states of " : "",
                b->fixed ? plan_exact((double)b->fixed).text : "");
    else
        explain(p, "%s x %s, which is tokens kept x bytes a token, summed over the layers", count(o->sequences).text,
                plan_exact((double)b->sequence).text);
    if (p->mha_per_token > (double)b->per_token && b->per_token)
        printf("              %.2f %% of what a key/value head for each query head would take\n",
               100 * (double)b->per_token / p->mha_per_token);
}

static void print_weights(const planning *p) {
    const shape *s = &p->shape;
    if (p->is.weights <= 0) {
        printf("  weights     not known (--weights says what they take)\n");
        return;
    }
    printf("  weights     %s%s (%s)\n", s->weights_estimated ? "about " : "", plan_size(p->is.weights).text,
           plan_exact(p->is.weights).text);
    if (s->n_weights > 0)
        explain(p, "%s weights x %.3g B%s", show_count((uint64_t)s->n_weights).text, p->is.weights / s->n_weights,
                s->weights_estimated ? ", counted from the sizes of the matrices, norms and biases left out" : "");
}

static void print_room(const planning *p) {
    const capacity *c = &p->is;
    const shape *s = &p->shape;
    printf("  scratch     %s\n", plan_size(c->scratch).text);
    explain(p, "4 B x (%d rows x (2 x %d + 4 x %d x %d + 2 x %d) + %" PRId64 " x %d logits) + tables, %s",
            p->options.chunk, s->width, s->n_heads_q, s->dim_head, s->width_ffn, p->options.sequences, s->n_vocab,
            plan_exact(c->tables).text);
    printf("  needed      %s (%s)\n", plan_size(c->needed).text, plan_exact(c->needed).text);
    explain(p, "weights + scratch + the cache in whole blocks, %s", plan_exact((double)c->bytes.reserved).text);
    printf("  memory      %s %s: ", plan_size(p->options.memory).text, p->memory_given ? "given" : "free here");
    if (c->spare >= 0)
        printf("fits, with %s to spare%s\n", plan_size(c->spare).text, c->weights > 0 ? "" : " for the weights");
    else printf("does not fit, %s are missing\n", plan_size(-c->spare).text);
}

static void print_most(const planning *p) {
    const capacity *c = &p->is;
    const capacity_options *o = &p->options;
    if (o->memory <= c->weights + c->scratch) {
        printf("  at most     nothing: weights and scratch alone take more\n");
        return;
    }
    printf("  at most     %s sequence%s of %s tokens, or %s sequence%s of %s tokens\n", count(c->sequences_max).text,
           c->sequences_max == 1 ? "" : "s", show_count((uint64_t)o->tokens).text,
           show_count((uint64_t)o->sequences).text, o->sequences == 1 ? "" : "s", count(c->tokens_max).text);
    explain(p, "(%s - weights - scratch) / %s a sequence", plan_exact(o->memory).text,
            plan_exact((double)c->bytes.sequence_reserved).text);
    if (c->tokens_outweigh)
        printf("  outweighs   the cache is larger than the weights from %s tokens in all on\n",
               show_count((uint64_t)c->tokens_outweigh).text);
}

/* ------------------------------------------------------------------------------------------------- the work */

static void print_positions(const planning *p) {
    const capacity *c = &p->is;
    const capacity_options *o = &p->options;
    show_text n_prompt = show_count((uint64_t)(o->tokens - o->answer)), n_answer = show_count((uint64_t)o->answer);
    printf("  computed    %s positions for a prompt of %s and an answer of %s; without a cache %s\n",
           show_count((uint64_t)c->positions_cached).text, n_prompt.text, n_answer.text,
           show_count((uint64_t)c->positions_recomputed).text);
    if (o->answer)
        explain(p, "%s + %s - 1, against the sum of %s .. %s", n_prompt.text, n_answer.text, n_prompt.text,
                show_count((uint64_t)o->tokens - 1).text);
}

static void print_floors(const planning *p) {
    const capacity *c = &p->is;
    const capacity_options *o = &p->options;
    if (c->step_ms >= 0) {
        printf("  decode      %s a token at least, at %s/s %s\n", plan_time(c->step_ms).text,
               plan_size(o->bandwidth).text, p->bandwidth_given ? "given" : "measured here");
        explain(p, "(%s of weights + %s of caches) / %s/s, for every sequence a token",
                plan_exact(c->step_weights).text, plan_exact(c->step_bytes - c->step_weights).text,
                plan_size(o->bandwidth).text);
    } else printf("  decode      reads %s a step (--bandwidth says how fast)\n", plan_size(c->step_bytes).text);
    if (c->prefill_ms >= 0)
        printf("  prefill     %s at least for the prompt, %s at %s/s\n", plan_time(c->prefill_ms).text,
               plan_amount(c->prefill_flop, "FLOP").text, plan_amount(o->flops, "FLOP").text);
    else if (c->prefill_flop >= 0)
        printf("  prefill     %s for the prompt (--flops says how fast)\n", plan_amount(c->prefill_flop, "FLOP").text);
    if (c->prefill_flop >= 0)
        explain(p, "2 for each weight and token + 4 for each element of the keys that a token sees");
}

/* ------------------------------------------------------------------------------------------ side by side */

static void print_row(const planning *p, const plan_row *r, bool kinds) {
    const capacity *c = &r->is;
    printf("  %-8s", r->name);
    if (!kinds) printf(" %13.2f", r->bits);
    else if (p->mha_per_token > 0) printf(" %11.2f %%", 100 * (double)c->bytes.per_token / p->mha_per_token);
    else printf(" %13s", "");
    printf(" %15s %10s", show_count(c->bytes.per_token).text, plan_size((double)c->bytes.all).text);
    printf(" %14s %15s\n", c->sequences_max >= CAPACITY_MOST ? "any" : show_count((uint64_t)c->sequences_max).text,
           c->tokens_max >= CAPACITY_MOST ? "any" : show_count((uint64_t)c->tokens_max).text);
}

static void print_rows(const planning *p, const plan_row *rows, int n, bool kinds) {
    if (n == 0) return;
    printf("\n  %-8s %13s %15s %10s %14s %15s\n", kinds ? "as" : "format", kinds ? "of mha" : "bits/element",
           "bytes/token", "in all", "most sequences", "longest context");
    for (int i = 0; i < n; i++) print_row(p, &rows[i], kinds);
}

/* No latent has a window. */
static void print_note(const planning *p) {
    bool asked = p->n_kinds == 0 && p->opt->as.n == 1 && strcmp(p->opt->as.text[0], "mla") == 0;
    for (int i = 0; i < p->n_kinds; i++) asked = asked || strcmp(p->kind[i].name, "mla") == 0;
    if (asked && shape_has_window(&p->shape)) printf("  as mla, the layers with a window stay as they are\n");
}

static void print_advice(const planning *p) {
    if (p->advice) printf("\n%s\n", p->advice);
    if (p->shape.context && p->options.tokens > p->shape.context)
        printf("\n%s tokens are more than the %s that the model was trained on.\n",
               show_count((uint64_t)p->options.tokens).text, show_count((uint64_t)p->shape.context).text);
}

int plan_print(const planning *p) {
    print_head(p);
    print_groups(p);
    print_cache(p);
    print_weights(p);
    print_room(p);
    print_most(p);
    print_positions(p);
    print_floors(p);
    print_rows(p, p->format, p->n_formats, false);
    print_rows(p, p->kind, p->n_kinds, true);
    print_note(p);
    print_advice(p);
    return cli_flush();
}
