/* sheet.h - a chart on its way to the paper: where everything goes is decided (sheet.c), then it is drawn (draw.c). */
#ifndef PLOT_SHEET_H
#define PLOT_SHEET_H

#include <cairo.h>
#include <stdio.h>

#include "crowd.h"
#include "plot.h"
#include "scale.h"

enum { SIZE_TITLE = 28, SIZE_TEXT = 20, SHEET_MARGIN = 22, MARK_RADIUS = 8, LEGEND_ROWS_MAX = 4 };

typedef struct colour {
    double r, g, b;
} colour;

/* A text that has found its place in the frame. */
typedef struct label {
    const char *text;
    size size;
    spot spot;
    double x, y; /* the point it names */
    int series;  /* whose colour it has; -1: grey */
} label;

typedef struct sheet {
    cairo_t *cr;
    const plot_chart *chart;
    scale x, y;
    double y_title, y_subtitle, y_legend, y_axis; /* middles of the lines of text above the frame */
    box frame;                                    /* where values are */
    crowd crowd;
    bool *in_legend; /* [n_series] no room beside the series itself */
    label *labels;   /* [n_labels] */
    int n_labels;
    char **made; /* [n_made] texts of labels that are not the chart's own */
    int n_made;
} sheet;

/* false: no memory. sheet_free in either case. */
bool sheet_arrange(sheet *s, cairo_t *cr, const plot_chart *chart);
void sheet_free(sheet *s);

/* Pixels of a point; false: it is left out, or lies outside the frame. */
bool sheet_point(const sheet *s, const plot_series *series, int i, double *x, double *y);
/* The visible pieces of a series' line: *i from 0 on, false: there are no more. */
bool sheet_segment(const sheet *s, const plot_series *series, int *i, segment *out);
/* A rule across the frame; false: it is outside. */
bool sheet_rule(const sheet *s, const plot_rule *rule, segment *out);
/* Where an entry of the legend begins, its middle; false: there is no entry, or no row left for it. *at from {0} on. */
typedef struct legend_place {
    double x;
    int row;
} legend_place;
enum { LEGEND_SAMPLE = 46 }; /* pixels of the line or mark before an entry's text */
bool sheet_legend_next(const sheet *s, int series, legend_place *at, double *x, double *y);

/* Measured in the size, which the text keeps. */
size text_size(cairo_t *cr, const char *text, double font_size);
bool text_there(const char *text);

/* Draw what was arranged. Every text that is not a tick's number is also written to `told`, one a line. */
void draw_sheet(const sheet *s, FILE *told);

#endif
