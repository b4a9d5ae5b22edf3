/* scale.c - an axis: which range shows the data, which round values get a tick, how their numbers are written. */
#include "scale.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvtile_ops.h"

static const double LN_10 = 2.302585092994046, LARGEST = 1e300, SMALLEST = 1e-300;

/* A range narrower than this share of its values would need numbers longer than an axis has room for. */
static const double NARROWEST = 1e-6;

/* Share of the range that stays free at both ends: a label has place above the highest line. */
static const double ROOM = 1.0 / 12;

static double log10_of(double v) {
    return kvt_log(v) / LN_10;
}

static int whole_below(double v) {
    int n = (int)v;
    return n > v ? n - 1 : n;
}

static double size_of(double a, double b) {
    return fabs(a) > fabs(b) ? fabs(a) : fabs(b);
}

/* digits * 10^power, rounded once, so that three steps of 0.1 are 0.3. */
static double decimal(double digits, int power) {
    char text[40];
    snprintf(text, sizeof text, "%.0fe%d", digits, power);
    return strtod(text, NULL);
}

/* The power of ten at or below a positive value. */
static int power_of(double v) {
    int power = whole_below(log10_of(v));
    if (decimal(1, power + 1) <= v) power++; /* the logarithm of 1000 may lie a bit below 3 */
    return power;
}

bool scale_holds(const plot_axis *axis, double v) {
    return isfinite(v) && fabs(v) <= LARGEST && (!axis->log || v >= SMALLEST);
}

double scale_place(const scale *s, double v) {
    return ((s->log ? log10_of(v) : v) - s->first) / (s->last - s->first);
}

/* ------------------------------------------------------------------------------------------------- range */

static void range_linear(scale *s, double least, double most) {
    double span = most - least, size = size_of(least, most);
    double room = span > size * NARROWEST ? span * ROOM : size > 0 ? size / 2 : 1;
    /* Zero belongs to the picture where the values are not far from it compared with what they differ by. */
    s->first = least >= 0 && least < most / 3 ? 0 : least - room;
    s->last = most + room;
}

static void range_log(scale *s, double least, double most) {
    double first = log10_of(least), last = log10_of(most);
    double room = last - first > NARROWEST ? (last - first) * ROOM : 0.5;
    s->first = first - room;
    s->last = last + room;
}

static bool range_given(const plot_axis *axis) {
    return axis->most - axis->least > NARROWEST * size_of(axis->least, axis->most) &&
           scale_holds(axis, axis->least) && scale_holds(axis, axis->most);
}

static void range_set(scale *s, const plot_axis *axis, double least, double most) {
    if (range_given(axis)) {
        s->first = axis->log ? log10_of(axis->least) : axis->least;
        s->last = axis->log ? log10_of(axis->most) : axis->most;
    } else if (least > most) s->last = 1;
    else if (axis->log) range_log(s, least, most);
    else range_linear(s, least, most);
}

/* ----------------------------------------------------------------------------------------------- numbers */

/* "1234567.5" becomes "1,234,567.5". */
static void commas(const char *digits, char out[SCALE_TEXT]) {
    size_t whole = strcspn(digits, "."), sign = digits[0] == '-', at = 0;
    for (size_t i = 0; digits[i] && at + 2 < SCALE_TEXT; i++) {
        if (i > sign && i < whole && (whole - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
}

/* What all numbers of an axis agree upon. */
typedef struct spelling {
    const char *unit;
    int step;    /* power of ten of the last digit that matters */
    int largest; /* power of ten of the largest number */
} spelling;

/* "15 MB": the prefix of the largest number, so that the ticks of a linear axis share it. */
static void spell_unit(double v, const spelling *how, char out[SCALE_TEXT]) {
    static const char *const prefixes[] = { "f", "p", "n", "\u00b5", "m", "", "k", "M", "G", "T", "P", "E" };
    enum { ONE = 5, N_PREFIXES = sizeof prefixes / sizeof prefixes[0] };
    int third = whole_below(how->largest / 3.0);
    third = third < -ONE ? -ONE : third >= N_PREFIXES - ONE ? N_PREFIXES - ONE - 1 : third;
    int decimals = 3 * third - how->step;
    snprintf(out, SCALE_TEXT, "%.*f %s%.12s", decimals > 0 ? decimals : 0, v / decimal(1, 3 * third),
             prefixes[ONE + third], how->unit);
}

/* "1.5e9" */
static void spell_power(double v, const spelling *how, char out[SCALE_TEXT]) {
    char text[40];
    int own = power_of(fabs(v)), decimals = own - how->step;
    snprintf(text, sizeof text, "%.*e", decimals < 0 ? 0 : decimals > 12 ? 12 : decimals, v);
    char *e = strchr(text, 'e');
    if (!e) return;
    snprintf(out, SCALE_TEXT, "%.*se%d", (int)(e - text), text, atoi(e + 1));
}

static void spell(double v, const spelling *how, char out[SCALE_TEXT]) {
    char text[40];
    bool far = how->largest > (how->unit ? 20 : 6) || how->step < (how->unit ? -18 : -5);
    if (v == 0) snprintf(out, SCALE_TEXT, "0");
    else if (far) spell_power(v, how, out);
    else if (how->unit) spell_unit(v, how, out);
    else {
        snprintf(text, sizeof text, "%.*f", how->step < 0 ? -how->step : 0, v);
        commas(text, out);
    }
}

/* ------------------------------------------------------------------------------------------------- ticks */

static bool tick_add(scale *s, double v, const spelling *how) {
    double place = scale_place(s, v);
    if (!(place > -1e-9 && place < 1 + 1e-9) || s->n_ticks == SCALE_TICKS_MAX) return false;
    scale_tick *tick = &s->ticks[s->n_ticks++];
    *tick = (scale_tick){ .at = v };
    if (how) spell(v, how, tick->text);
    return true;
}

/* About six steps of 1, 2 or 5 times a power of ten. */
static void ticks_linear(scale *s, const char *unit, double first, double last) {
    double least_step = (last - first) / 8;
    int power = power_of(least_step), digit = 1;
    if (decimal(1, power) < least_step) digit = 2;
    if (decimal(2, power) < least_step) digit = 5;
    if (decimal(5, power) < least_step) {
        digit = 1;
        power++;
    }
    int from = whole_below(first / decimal(digit, power)), to = whole_below(last / decimal(digit, power)) + 1;
    spelling how = { unit, power, power_of(size_of(first, last)) };
    for (int i = from; i <= to; i++) tick_add(s, decimal((double)i * digit, power), &how);
}

enum { LOG_TICKS = 9 };

/* Ticks at a digit of every stride-th decade, with or without numbers; how many there are. */
static int ticks_decades(scale *s, const char *unit, int digit, int stride, bool numbered) {
    int n = 0, first = whole_below(s->first), last = whole_below(s->last) + 1;
    for (int power = whole_below((double)first / stride) * stride; power <= last; power += stride) {
        spelling how = { unit, power, power };
        n += tick_add(s, decimal(digit, power), numbered ? &how : NULL);
    }
    return n;
}

static int by_value(const void *a, const void *b) {
    double x = ((const scale_tick *)a)->at, y = ((const scale_tick *)b)->at;
    return (x > y) - (x < y);
}

static void ticks_log(scale *s, const char *unit) {
    static const int strides[] = { 1, 2, 3, 5, 10, 20, 50, 100 };
    int n = 0, stride = 0;
    do {
        s->n_ticks = 0;
        n = ticks_decades(s, unit, 1, strides[stride], true);
    } while (n > LOG_TICKS && ++stride < 8);
    if (stride > 0) return;
    int tens = n;
    n += ticks_decades(s, unit, 2, 1, true) + ticks_decades(s, unit, 5, 1, true);
    if (n < 3) { /* less than a decade: round values are denser than round logarithms */
        s->n_ticks = 0;
        ticks_linear(s, unit, kvt_exp(s->first * LN_10), kvt_exp(s->last * LN_10));
        return;
    }
    if (n > LOG_TICKS)
        for (int i = tens; i < s->n_ticks; i++) s->ticks[i].text[0] = 0;
    for (int digit = 3; digit < 10; digit++)
        if (digit != 5) ticks_decades(s, unit, digit, 1, false);
    qsort(s->ticks, (size_t)s->n_ticks, sizeof *s->ticks, by_value);
}

scale scale_of(const plot_axis *axis, double least, double most) {
    scale s = { .log = axis->log };
    range_set(&s, axis, least, most);
    if (s.log) ticks_log(&s, axis->unit);
    else ticks_linear(&s, axis->unit, s.first, s.last);
    return s;
}
