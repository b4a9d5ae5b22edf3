/* plan_words.c - what the answers of kvtile plan are written with: sizes, kinds of layers, a command line that fits. */
#include "plan.h"

#include <string.h>

#include "formats.h"

show_text plan_amount(double n, const char *unit) {
    static const char *const letters[] = { "", "k", "M", "G", "T", "P", "E" };
    show_text out;
    int i = 0;
    for (; n >= 999.5 && i < 6; i++) n /= 1000;
    int digits = i == 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2;
    snprintf(out.text, sizeof out.text, "%.*f %s%s", digits, n, letters[i], unit);
    return out;
}

show_text plan_size(double bytes) {
    return plan_amount(bytes, "B");
}

show_text plan_exact(double bytes) {
    show_text out = show_count((uint64_t)bytes);
    strcat(out.text, " B"); /* 20 digits and 6 commas at most */
    return out;
}

show_text plan_time(double ms) {
    show_text out;
    if (ms >= 999.5) snprintf(out.text, sizeof out.text, "%.*f s", ms < 9995 ? 2 : 1, ms / 1e3);
    else snprintf(out.text, sizeof out.text, "%.3g ms", ms);
    return out;
}

const char *plan_kind(const kvt_layer *l) {
    static const char *const names[] = { "full", "window", "latent", "state", "sparse" };
    return names[l->kind];
}

int64_t plan_elements(const kvt_layer *l) {
    switch (l->kind) {
    case KVT_LAYER_STATE: return 0;
    case KVT_LAYER_LATENT: return l->dim_k + l->dim_v;
    case KVT_LAYER_SPARSE: return l->dim_k + l->dim_v + l->dim_index;
    default: return (int64_t)l->n_heads_kv * (l->dim_k + l->dim_v);
    }
}

/* ---------------------------------------------------------------------------------------- a line that fits */

/* Of the formats that the plan fits in the widest, which loses least; NULL: it fits in none. */
static const plan_row *row_that_fits(const planning *p) {
    const plan_row *best = NULL;
    for (int i = 0; i < p->n_formats; i++) {
        const plan_row *r = &p->format[i];
        if (r->is.spare >= 0 && (!best || r->is.bytes.reserved > best->is.bytes.reserved)) best = r;
    }
    return best;
}

/* "--kv k8v4" where there is a word for both. */
static show_text formats_text(kvt_format k, kvt_format v) {
    show_text out;
    for (int i = 0; format_pair_word(i); i++) {
        format_pair pair = format_pair_at(i);
        if (pair.k != k || pair.v != v) continue;
        snprintf(out.text, sizeof out.text, "--kv %s", pair.name);
        return out;
    }
    snprintf(out.text, sizeof out.text, "--k %s --v %s", kvt_format_name(k), kvt_format_name(v));
    return out;
}

/* A path as a shell reads it: in quotes, where it has more than plain letters. */
static void quoted(char *out, size_t n, const char *path) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=@,";
    size_t at = 0;
    bool quote = path[strspn(path, plain)] != 0;
    if (quote && n > 2) out[at++] = '\'';
    for (; *path && at + 6 < n; path++)
        if (quote && *path == '\'') at += (size_t)snprintf(out + at, n - at, "'\\''");
        else out[at++] = *path;
    if (quote) out[at++] = '\'';
    out[at] = 0;
}

bool plan_advice(const planning *p, char *out, size_t n) {
    char path[4096 + 16], samples[40] = "", hot[40] = "";
    const capacity_options *opt = &p->options;
    const capacity *is = &p->is;
    const plan_row *other = row_that_fits(p);
    if (!p->file || p->opt->as.n > 0) return false; /* that is not what the file holds */
    if (is->spare < 0 && other) {
        opt = &other->options;
        is = &other->is;
    }
    int64_t tokens = is->spare >= 0 ? opt->tokens : is->tokens_max;
    if (tokens < 1) return false;
    quoted(path, sizeof path, p->file);
    if (p->opt->common.hot != 1) snprintf(hot, sizeof hot, " --hot %d", p->opt->common.hot);
    if (opt->sequences > 1) snprintf(samples, sizeof samples, " --samples %lld", (long long)opt->sequences);
    snprintf(out, n, "kvtile run -m %s --ctx %lld %s --block %d%s%s -p TEXT", path, (long long)tokens,
             formats_text(opt->k_format, opt->v_format).text, opt->block_tokens, hot, samples);
    return true;
}
