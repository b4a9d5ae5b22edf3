/* sheet.c - where everything of a chart goes: ranges of the axes, the frame in its margins, labels, legend. */
#include "sheet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool text_there(const char *text) {
    return text && text[0];
}

size text_size(cairo_t *cr, const char *text, double font_size) {
    cairo_text_extents_t extents;
    cairo_set_font_size(cr, font_size);
    cairo_text_extents(cr, text, &extents);
    return (size){ extents.x_advance, font_size };
}

/* ------------------------------------------------------------------------------------------------ ranges */

typedef struct range {
    double least, most;
} range;

static const range NO_RANGE = { 1, 0 };

static void range_add(range *r, double v) {
    bool none = r->least > r->most;
    if (none || v < r->least) r->least = v;
    if (none || v > r->most) r->most = v;
}

static bool drawable(const plot_chart *chart, double x, double y) {
    return scale_holds(&chart->x, x) && scale_holds(&chart->y, y);
}

static void scales_set(sheet *s) {
    const plot_chart *chart = s->chart;
    range x = NO_RANGE, y = NO_RANGE;
    for (int i = 0; i < chart->n_series; i++) {
        const plot_series *series = &chart->series[i];
        for (int j = 0; j < series->n_points; j++) {
            if (!drawable(chart, series->x[j], series->y[j])) continue;
            range_add(&x, series->x[j]);
            range_add(&y, series->y[j]);
        }
    }
    for (int i = 0; i < chart->n_rules; i++) {
        const plot_rule *rule = &chart->rules[i];
        if (!scale_holds(rule->vertical ? &chart->x : &chart->y, rule->at)) continue;
        range_add(rule->vertical ? &x : &y, rule->at);
    }
    for (int i = 0; i < chart->n_notes; i++) {
        if (!drawable(chart, chart->notes[i].x, chart->notes[i].y)) continue;
        range_add(&x, chart->notes[i].x);
        range_add(&y, chart->notes[i].y);
    }
    s->x = scale_of(&chart->x, x.least, x.most);
    s->y = scale_of(&chart->y, y.least, y.most);
}

/* ------------------------------------------------------------------------------------- values become pixels */

/* A place far outside the frame stays far outside, and its pixels stay numbers. */
static double near_enough(double place) {
    return place < -1e6 ? -1e6 : place > 1e6 ? 1e6 : place;
}

static double x_of(const sheet *s, double v) {
    return s->frame.x0 + (s->frame.x1 - s->frame.x0) * near_enough(scale_place(&s->x, v));
}

static double y_of(const sheet *s, double v) {
    return s->frame.y1 - (s->frame.y1 - s->frame.y0) * near_enough(scale_place(&s->y, v));
}

static bool inside(box b, double x, double y) {
    return x >= b.x0 - 0.5 && x <= b.x1 + 0.5 && y >= b.y0 - 0.5 && y <= b.y1 + 0.5;
}

static bool place_of(const sheet *s, double vx, double vy, double *x, double *y) {
    if (!drawable(s->chart, vx, vy)) return false;
    *x = x_of(s, vx);
    *y = y_of(s, vy);
    return inside(s->frame, *x, *y);
}

bool sheet_point(const sheet *s, const plot_series *series, int i, double *x, double *y) {
    return place_of(s, series->x[i], series->y[i], x, y);
}

bool sheet_segment(const sheet *s, const plot_series *series, int *i, segment *out) {
    const double *x = series->x, *y = series->y;
    while (series->line && *i < series->n_points - 1) {
        int from = (*i)++, to = from + 1;
        if (!drawable(s->chart, x[from], y[from]) || !drawable(s->chart, x[to], y[to])) continue;
        *out = (segment){ x_of(s, x[from]), y_of(s, y[from]), x_of(s, x[to]), y_of(s, y[to]) };
        if (segment_clip(out, s->frame)) return true;
    }
    return false;
}

bool sheet_rule(const sheet *s, const plot_rule *rule, segment *out) {
    if (!scale_holds(rule->vertical ? &s->chart->x : &s->chart->y, rule->at)) return false;
    box f = s->frame;
    double at = rule->vertical ? x_of(s, rule->at) : y_of(s, rule->at);
    *out = rule->vertical ? (segment){ at, f.y1, at, f.y0 } : (segment){ f.x0, at, f.x1, at };
    return rule->vertical ? inside(f, at, f.y0) : inside(f, f.x0, at);
}

/* ----------------------------------------------------------------------------------------------- margins */

enum { LINE = 30, LEGEND_GAP = 28, AXIS_GAP = 10 };

static double numbers_width(sheet *s) {
    double most = 0;
    for (int i = 0; i < s->y.n_ticks; i++) {
        double w = text_size(s->cr, s->y.ticks[i].text, SIZE_TEXT).w;
        if (w > most) most = w;
    }
    return most;
}

bool sheet_legend_next(const sheet *s, int series, legend_place *at, double *x, double *y) {
    const plot_series *one = &s->chart->series[series];
    if (!s->in_legend[series]) return false;
    double w = LEGEND_SAMPLE + text_size(s->cr, one->label, SIZE_TEXT).w, room = PLOT_WIDTH - 2 * SHEET_MARGIN;
    if (at->x > 0 && at->x + w > room) *at = (legend_place){ 0, at->row + 1 };
    *x = SHEET_MARGIN + at->x;
    *y = s->y_legend + at->row * LINE;
    at->x += w + LEGEND_GAP;
    return at->row < LEGEND_ROWS_MAX;
}

static int legend_rows(const sheet *s) {
    legend_place at = { 0 };
    double x, y;
    for (int i = 0; i < s->chart->n_series; i++) sheet_legend_next(s, i, &at, &x, &y);
    int rows = at.row + (at.x > 0);
    return rows < LEGEND_ROWS_MAX ? rows : LEGEND_ROWS_MAX;
}

/* Lines of text from the top, the frame, numbers and a line of text below it. */
static void frame_set(sheet *s) {
    const plot_chart *chart = s->chart;
    double top = SHEET_MARGIN, bottom = PLOT_HEIGHT - SHEET_MARGIN;
    s->y_title = top + SIZE_TITLE / 2.0;
    if (text_there(chart->title)) top += SIZE_TITLE + 12;
    s->y_subtitle = top + SIZE_TEXT / 2.0;
    if (text_there(chart->subtitle)) top += LINE;
    s->y_legend = top + LINE / 2.0;
    top += legend_rows(s) * LINE;
    s->y_axis = top + LINE / 2.0;
    if (text_there(chart->y.label)) top += LINE + 12;
    bottom -= LINE + (text_there(chart->x.label) ? LINE : 0);
    s->frame = (box){ SHEET_MARGIN + numbers_width(s) + AXIS_GAP, top, PLOT_WIDTH - 2 * SHEET_MARGIN, bottom };
}

/* ------------------------------------------------------------------------------------------------ labels */

static void crowd_fill(sheet *s) {
    const plot_chart *chart = s->chart;
    segment piece;
    double x, y;
    crowd_free(&s->crowd);
    s->crowd.frame = s->frame;
    for (int i = 0; i < chart->n_rules; i++)
        if (sheet_rule(s, &chart->rules[i], &piece)) crowd_add_segment(&s->crowd, piece);
    for (int i = 0; i < chart->n_series; i++) {
        const plot_series *series = &chart->series[i];
        for (int j = 0; sheet_segment(s, series, &j, &piece);) crowd_add_segment(&s->crowd, piece);
        for (int j = 0; series->marks && j < series->n_points; j++)
            if (sheet_point(s, series, j, &x, &y))
                crowd_add_box(&s->crowd, (box){ x - MARK_RADIUS, y - MARK_RADIUS, x + MARK_RADIUS, y + MARK_RADIUS });
    }
}

static bool label_put(sheet *s, label l) {
    if (!spot_found(&l.spot)) return false;
    crowd_take(&s->crowd, &l.spot, l.size);
    if (l.spot.apart) crowd_add_segment(&s->crowd, (segment){ l.x, l.y, l.spot.x, l.spot.y });
    s->labels[s->n_labels++] = l;
    return true;
}

static bool label_beside(sheet *s, const char *text, int series, double x, double y, double gap) {
    label l = { text, text_size(s->cr, text, SIZE_TEXT), SPOT_NONE, x, y, series };
    crowd_try_beside(&s->crowd, x, y, gap, l.size, &l.spot);
    return label_put(s, l);
}

static void rule_label(sheet *s, const plot_rule *rule) {
    segment whole;
    if (!text_there(rule->label) || !sheet_rule(s, rule, &whole)) return;
    label l = { rule->label, text_size(s->cr, rule->label, SIZE_TEXT), SPOT_NONE, whole.x0, whole.y0, -1 };
    crowd_try_along(&s->crowd, whole, l.size, &l.spot);
    label_put(s, l);
}

/* Try a place for a series' label at its last, first and middle visible point. */
static void try_ends(sheet *s, const plot_series *series, label *l) {
    int first = -1, last = -1;
    double x, y, gap = MARK_RADIUS;
    for (int i = 0; i < series->n_points; i++) {
        if (!sheet_point(s, series, i, &x, &y)) continue;
        if (first < 0) first = i;
        last = i;
    }
    const int ends[] = { last, first, first + (last - first) / 2 };
    for (int i = 0; i < 3 && first >= 0; i++) {
        if (!sheet_point(s, series, ends[i], &x, &y)) continue;
        double before = l->spot.cost;
        crowd_try_beside(&s->crowd, x, y, gap, l->size, &l->spot);
        if (l->spot.cost == before) continue;
        l->x = x;
        l->y = y;
    }
}

/* What a series' label may cost where it stands: a stroke across other series says less than a legend. */
enum { SERIES_COST_MOST = 14 };

/* A line's label runs along it, the label of marks stands at an end. Whether there was a place. */
static bool series_label(sheet *s, int i) {
    const plot_series *series = &s->chart->series[i];
    label l = { series->label, text_size(s->cr, series->label, SIZE_TEXT), SPOT_NONE, 0, 0, i };
    segment piece;
    for (int j = 0; !series->marks && sheet_segment(s, series, &j, &piece);)
        crowd_try_along(&s->crowd, piece, l.size, &l.spot);
    if (!spot_found(&l.spot)) try_ends(s, series, &l);
    return l.spot.cost < SERIES_COST_MOST && label_put(s, l);
}

static bool visible(const sheet *s, const plot_series *series) {
    segment piece;
    double x, y;
    int from = 0;
    for (int i = 0; i < series->n_points; i++)
        if (sheet_point(s, series, i, &x, &y)) return true;
    return sheet_segment(s, series, &from, &piece);
}

/* Labels of series, of bounds or of the others; how many of them went to the legend. */
static int series_labels(sheet *s, bool bounds) {
    int n = 0;
    for (int i = 0; i < s->chart->n_series; i++) {
        const plot_series *series = &s->chart->series[i];
        if (series->bound != bounds || s->in_legend[i] || !text_there(series->label) || !visible(s, series)) continue;
        s->in_legend[i] = !series_label(s, i);
        n += s->in_legend[i];
    }
    return n;
}

/* A visible point that has a name. */
static bool named(const sheet *s, const plot_series *series, int i, double *x, double *y) {
    return text_there(series->names[i]) && sheet_point(s, series, i, x, y);
}

/* Points whose marks lie on each other, one after the other in their series, are named together: where they end, how
 * many they are, and the place of the last. */
static int bunch(const sheet *s, const plot_series *series, int first, int *n, double *x, double *y) {
    int last = first;
    *n = 1;
    for (int i = first + 1; i < series->n_points; i++) {
        double x1, y1;
        if (!named(s, series, i, &x1, &y1)) continue;
        if (fabs(x1 - *x) > 1.5 * MARK_RADIUS || fabs(y1 - *y) > 1.5 * MARK_RADIUS) break;
        last = i;
        ++*n;
        *x = x1;
        *y = y1;
    }
    return last;
}

static void names(sheet *s, int i) {
    const plot_series *series = &s->chart->series[i];
    double x, y;
    int last, n;
    for (int j = 0; series->names && j < series->n_points; j = last + 1) {
        last = j;
        if (!named(s, series, j, &x, &y)) continue;
        last = bunch(s, series, j, &n, &x, &y);
        if (n == 1) label_beside(s, series->names[j], i, x, y, MARK_RADIUS);
        else if (asprintf(&s->made[s->n_made], "%s %s %s", series->names[j], n == 2 ? "and" : "\u2026",
                          series->names[last]) >= 0)
            label_beside(s, s->made[s->n_made++], i, x, y, MARK_RADIUS);
        else s->crowd.failed = true;
    }
}

static void made_free(sheet *s) {
    while (s->n_made > 0) free(s->made[--s->n_made]);
}

/* All labels, the more important ones first; how many series went to the legend, for which the frame has to shrink. */
static int labels_place(sheet *s) {
    const plot_chart *chart = s->chart;
    double x, y;
    s->n_labels = 0;
    made_free(s);
    crowd_fill(s);
    for (int i = 0; i < chart->n_rules; i++) rule_label(s, &chart->rules[i]);
    int moved = series_labels(s, true) + series_labels(s, false);
    for (int i = 0; i < chart->n_notes; i++) {
        const plot_note *note = &chart->notes[i];
        if (text_there(note->text) && place_of(s, note->x, note->y, &x, &y)) label_beside(s, note->text, -1, x, y, 2);
    }
    for (int i = 0; i < chart->n_series; i++) names(s, i);
    return moved;
}

static bool labels_take(sheet *s) {
    const plot_chart *chart = s->chart;
    size_t n = (size_t)chart->n_series + (size_t)chart->n_rules + (size_t)chart->n_notes, n_names = 0;
    for (int i = 0; i < chart->n_series; i++)
        if (chart->series[i].names) n_names += (size_t)chart->series[i].n_points;
    s->in_legend = calloc((size_t)chart->n_series + 1, sizeof *s->in_legend);
    s->labels = calloc(n + n_names + 1, sizeof *s->labels);
    s->made = calloc(n_names + 1, sizeof *s->made);
    return s->in_legend && s->labels && s->made;
}

bool sheet_arrange(sheet *s, cairo_t *cr, const plot_chart *chart) {
    *s = (sheet){ .cr = cr, .chart = chart };
    if (!labels_take(s)) return false;
    scales_set(s);
    do {
        frame_set(s);
    } while (labels_place(s) > 0 && !s->crowd.failed);
    return !s->crowd.failed;
}

void sheet_free(sheet *s) {
    crowd_free(&s->crowd);
    made_free(s);
    free(s->made);
    free(s->in_legend);
    free(s->labels);
}
