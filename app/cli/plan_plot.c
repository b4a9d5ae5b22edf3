/* plan_plot.c - the pictures of kvtile plan: what a cache takes, and how long a token takes at least, against the
 * tokens of a sequence. A line for each kind of attention where --as asks for several, else for each format. */
#include "plan.h"

#include <string.h>

#include "plot/plot.h"

enum { EACH = 8, OCTAVES_MAX = 22, POINTS = EACH * OCTAVES_MAX + 1, TOKENS_LEAST = 256 };

typedef struct drawing {
    double x[POINTS], y[PLAN_KINDS_MAX][POINTS];
    char label[PLAN_KINDS_MAX][80], note[PLAN_KINDS_MAX][80];
    plot_series series[PLAN_KINDS_MAX];
    plot_note notes[PLAN_KINDS_MAX];
    const plan_row *row[PLAN_KINDS_MAX]; /* of each series */
    int n, n_notes, n_points;
    char title[200], subtitle[200], rule[80];
} drawing;

/* Up to past what was asked for, and past where the weights are outweighed. */
static void points_lay(drawing *d, const planning *p) {
    static const double step = 1.0905077326652577; /* 2^(1/8) */
    double most = 1 << 20, x = TOKENS_LEAST;
    double asked = 2 * (double)p->options.tokens, outweigh = 4 * (double)p->is.tokens_outweigh;
    if (asked > most) most = asked;
    if (outweigh > most) most = outweigh;
    for (d->n_points = 0; d->n_points < POINTS && x <= most * step; x *= step) d->x[d->n_points++] = x;
}

/* Rows that take the same share a line: it is named after all of them. */
static void rows_lay(drawing *d, const planning *p) {
    const plan_row *rows = p->n_kinds ? p->kind : p->format;
    int n = p->n_kinds ? p->n_kinds : p->n_formats;
    for (int i = 0; i < n; i++) {
        int same = 0;
        while (same < d->n && (d->row[same]->is.bytes.all != rows[i].is.bytes.all ||
                               d->row[same]->is.bytes.per_token != rows[i].is.bytes.per_token)) same++;
        char *label = d->label[same];
        size_t used = strlen(label);
        snprintf(label + used, sizeof d->label[0] - used, "%s%s", used ? ", " : "", rows[i].name);
        if (same == d->n) d->row[d->n++] = &rows[i];
    }
    for (int i = 0; i < d->n; i++)
        d->series[i] = (plot_series){ .label = d->label[i], .x = d->x, .y = d->y[i], .n_points = d->n_points,
                                      .line = true };
}

static void texts_lay(drawing *d, const planning *p, const char *what) {
    const capacity_options *o = &p->options;
    int64_t n = o->sequences;
    snprintf(d->title, sizeof d->title, "%s: %s", p->shape.name, what);
    snprintf(d->subtitle, sizeof d->subtitle, "%s sequence%s", show_count((uint64_t)n).text, n > 1 ? "s" : "");
    if (p->n_kinds)
        snprintf(d->subtitle + strlen(d->subtitle), sizeof d->subtitle - strlen(d->subtitle), ", keys %s, values %s",
                 kvt_format_name(o->k_format), kvt_format_name(o->v_format));
}

static int draw(const drawing *d, plot_axis y, double rule, const char *path) {
    const plot_rule line = { d->rule, rule, false };
    const plot_chart chart = { .title = d->title, .subtitle = d->subtitle,
                               .x = { .label = "tokens of a sequence", .log = true, .unit = "" }, .y = y,
                               .series = d->series, .n_series = d->n, .rules = &line, .n_rules = rule > 0,
                               .notes = d->notes, .n_notes = d->n_notes };
    const char *wrong = plot_write(&chart, path);
    return wrong ? cli_fail("%s: %s", path, wrong) : CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------ the cache */

static double cache_bytes(const plan_row *r, double tokens) {
    capacity_bytes b;
    return capacity_bytes_of(&r->shape, &r->options, (int64_t)tokens, r->options.sequences, &b) == KVT_OK
               ? (double)b.all
               : 0; /* not drawn */
}

/* Where a line meets the weights, if that is in the picture. */
static void crossing_note(drawing *d, const plan_row *r, double weights) {
    int64_t tokens = capacity_tokens_within(&r->shape, &r->options, r->options.sequences, weights) + 1;
    if (tokens <= TOKENS_LEAST || (double)tokens > d->x[d->n_points - 1]) return;
    char *text = d->note[d->n_notes];
    snprintf(text, sizeof d->note[0], "%stokens", plan_amount((double)tokens, " ").text);
    d->notes[d->n_notes++] = (plot_note){ .text = text, .x = (double)tokens, .y = weights };
}

int plan_plot_cache(const planning *p, const char *path) {
    static drawing d;
    double weights = p->is.weights;
    d = (drawing){ 0 };
    points_lay(&d, p);
    rows_lay(&d, p);
    texts_lay(&d, p, "what the cache takes");
    for (int s = 0; s < d.n; s++) {
        for (int i = 0; i < d.n_points; i++) d.y[s][i] = cache_bytes(d.row[s], d.x[i]);
        if (weights > 0) crossing_note(&d, d.row[s], weights);
    }
    snprintf(d.rule, sizeof d.rule, "weights: %s", plan_size(weights).text);
    return draw(&d, (plot_axis){ .label = "bytes of cache", .log = true, .unit = "B" }, weights, path);
}

/* ------------------------------------------------------------------------------------------------ the time */

int plan_plot_decode(const planning *p, const char *path) {
    static drawing d;
    double rate = p->options.bandwidth, alone = capacity_read_weights(&p->shape);
    if (rate <= 0) return cli_fail("%s: how fast memory is read is not known (--bandwidth)", path);
    d = (drawing){ 0 };
    points_lay(&d, p);
    rows_lay(&d, p);
    texts_lay(&d, p, "a token takes at least");
    for (int s = 0; s < d.n; s++)
        for (int i = 0; i < d.n_points; i++) {
            double cache = capacity_read_bytes(&d.row[s]->shape, &d.row[s]->options, (int64_t)d.x[i]);
            d.y[s][i] = cache >= 0 ? (alone + cache) / rate : 0;
        }
    size_t used = strlen(d.subtitle);
    snprintf(d.subtitle + used, sizeof d.subtitle - used, ", read at %s/s", plan_size(rate).text);
    snprintf(d.rule, sizeof d.rule, "weights alone: %s", plan_time(1e3 * alone / rate).text);
    return draw(&d, (plot_axis){ .label = "time of a token", .log = true, .unit = "s" }, alone / rate, path);
}
