/* bench_roofline.c - what decoding reached as a roofline picture (Williams, Waterman, Patterson 2009): arithmetic per
 * second against arithmetic per byte, below what memory and arithmetic allow. Knows what the points mean; where they
 * stand on the paper is the plot room's. */
#include "bench.h"

#include "plot/plot.h"

enum { LABEL = 80 };

/* A point of the picture: x arithmetic per byte, y arithmetic per time. */
static double intensity(const bench_work *w) {
    return w->flop / w->bytes;
}

static double gflop_per_s(const bench_work *w) {
    return w->flop / w->ms / 1e6;
}

/* Points of some depths, what each is called. */
typedef struct points {
    double x[OPTION_LIST_MAX], y[OPTION_LIST_MAX];
    const char *names[OPTION_LIST_MAX];
    int n;
} points;

static void point_add(points *p, const bench_work *w, const char *name) {
    p->x[p->n] = intensity(w);
    p->y[p->n] = gflop_per_s(w);
    p->names[p->n++] = name;
}

static plot_series series_of(const points *p, const char *label) {
    return (plot_series){ .label = label, .x = p->x, .y = p->y, .names = p->names, .n_points = p->n, .marks = true };
}

static double least_of(const points *p, double least) {
    for (int i = 0; i < p->n; i++)
        if (p->x[i] < least) least = p->x[i];
    return least;
}

int bench_roofline_draw(const bench_roofline *r, const char *path) {
    points step = { 0 }, attend = { 0 };
    show_text depths[OPTION_LIST_MAX];
    char memory[LABEL], arithmetic[LABEL], prefill[LABEL];
    int n = r->n_tokens, n_series = 0;
    for (int i = 0; i < n; i++) {
        const bench_token *t = &r->tokens[i];
        depths[i] = show_count((uint64_t)t->depth);
        point_add(&step, &t->step, depths[i].text);
        if (t->depth > 0) point_add(&attend, &t->attend, depths[i].text); /* with nothing to read it says nothing */
    }
    double x = intensity(&r->prefill), peak = gflop_per_s(&r->prefill), slope = r->bandwidth / 1e9;
    double ridge = slope > 0 ? peak / slope : 0;
    double least = least_of(&step, least_of(&attend, ridge > 0 && ridge < x ? ridge : x)) / 16;
    const double slant_x[] = { least, ridge }, slant_y[] = { slope * least, peak };
    const double flat_x[] = { ridge > least ? ridge : least, 2 * x }, flat_y[] = { peak, peak };
    snprintf(memory, sizeof memory, "memory, measured: %.1f GB/s", slope);
    snprintf(arithmetic, sizeof arithmetic, "prefill attention, measured: %.0f GFLOP/s", peak);
    snprintf(prefill, sizeof prefill, "%d tokens behind %d", r->prefill_rows, r->prefill_rows);
    plot_series series[5];
    if (ridge > least)
        series[n_series++] = (plot_series){ .label = memory, .x = slant_x, .y = slant_y, .n_points = 2, .line = true,
                                            .bound = true };
    series[n_series++] = (plot_series){ .label = arithmetic, .x = flat_x, .y = flat_y, .n_points = 2, .line = true,
                                        .bound = true };
    series[n_series++] = series_of(&attend, "attention of one token");
    series[n_series++] = series_of(&step, "whole step");
    series[n_series++] = (plot_series){ .label = prefill, .x = &x, .y = &peak, .n_points = 1, .marks = true };
    const plot_chart chart = { .title = r->model, .subtitle = r->machine,
                         .x = { .label = "FLOP per byte read from memory", .log = true },
                         .y = { .label = "GFLOP/s", .log = true }, .series = series, .n_series = n_series };
    const char *wrong = plot_write(&chart, path);
    return wrong ? cli_fail("%s: %s", path, wrong) : CLI_DONE;
}
