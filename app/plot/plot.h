/* plot.h - the door of the charts: a description in plain numbers becomes a picture, SVG or PNG by the file's name.
 *
 *     static const double x[] = { 1, 10, 100 }, y[] = { 3, 25, 70 };
 *     plot_series line = { .label = "measured", .x = x, .y = y, .n_points = 3, .line = true, .marks = true };
 *     plot_chart chart = { .title = "Throughput", .x = { .label = "requests", .log = true },
 *                          .y = { .label = "tokens/s" }, .series = &line, .n_series = 1 };
 *     const char *wrong = plot_write(&chart, "throughput.svg");
 *
 * Ranges, ticks and the places of labels are found here. A label stands beside what it names; where there is no room
 * for a series' one, the series goes to a legend. Points that lie on each other are named together, by the first and
 * the last; where there is no room for a name, it is left out.
 * Knows nothing of caches and models. */
#ifndef PLOT_H
#define PLOT_H

#include <stdbool.h>

typedef struct plot_axis {
    const char *label;  /* "time per token (ms)" */
    bool log;           /* else linear */
    const char *unit;   /* NULL: ticks are plain numbers; "B": 5 kB, 20 MB; "": 5 k, 20 M */
    double least, most; /* the range where least < most (by more than a millionth); else what is drawn needs */
} plot_axis;

/* Points that belong together. One whose x or y is no number, beyond 1e300 or, on a logarithmic axis, below 1e-300 is
 * left out, and the line has a gap there. */
typedef struct plot_series {
    const char *label;        /* NULL: none */
    const double *x, *y;      /* [n_points] */
    const char *const *names; /* [n_points], said beside the points; NULL, as a whole or in it: none */
    int n_points;
    bool line, marks; /* joined in order, a mark at each point */
    bool bound;       /* what others are held against: grey instead of a colour of its own */
} plot_series;

/* A dashed line across the chart, at a y or, where it is vertical, at an x. */
typedef struct plot_rule {
    const char *label; /* NULL: none */
    double at;
    bool vertical;
} plot_rule;

/* A text that points at a place. */
typedef struct plot_note {
    const char *text;
    double x, y;
} plot_note;

typedef struct plot_chart {
    const char *title, *subtitle; /* NULL: none */
    plot_axis x, y;
    const plot_series *series; /* [n_series] */
    int n_series;
    const plot_rule *rules; /* [n_rules] */
    int n_rules;
    const plot_note *notes; /* [n_notes] */
    int n_notes;
} plot_chart;

/* Pixels of a picture. Letters are large enough to be read at half of that. */
enum { PLOT_WIDTH = 1200, PLOT_HEIGHT = 750 };

/* Whether a file's name says which kind of picture is wanted: it ends in .svg or .png. */
bool plot_named(const char *path);

/* Draw the chart and write the file, over one that is there. NULL: done. Else what is wrong, without the file's name;
 * a file that could not be written to its end is removed, and before the drawing is whole none is touched. Texts are
 * UTF-8. */
const char *plot_write(const plot_chart *chart, const char *path);

#endif
