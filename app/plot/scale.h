/* scale.h - one axis worked out: its range and its ticks. */
#ifndef PLOT_SCALE_H
#define PLOT_SCALE_H

#include "plot.h"

enum { SCALE_TICKS_MAX = 96, SCALE_TEXT = 32 };

typedef struct scale_tick {
    double at;             /* the value */
    char text[SCALE_TEXT]; /* "": a faint line without a number */
} scale_tick;

typedef struct scale {
    bool log;
    double first, last; /* of the axis: values, or their logarithms to base 10 */
    int n_ticks;
    scale_tick ticks[SCALE_TICKS_MAX]; /* those with a text ascend */
} scale;

/* Whether a value has a place on the axis. */
bool scale_holds(const plot_axis *axis, double v);
/* least > most: nothing is drawn on it. Both have places on the axis otherwise. */
scale scale_of(const plot_axis *axis, double least, double most);
/* 0 at the beginning of the axis, 1 at its end, beyond them outside. */
double scale_place(const scale *s, double v);

#endif
