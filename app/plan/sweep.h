/* sweep.h - policies against capacities: one row for each pair. */
#ifndef SWEEP_H
#define SWEEP_H

#include "policy.h"

enum { SWEEP_MAX = 32 };

/* Capacities worth looking at: 1, 2, 5, 10, ... up to all different blocks of the trace. How many. */
int sweep_capacities(const trace *t, int out[SWEEP_MAX]);

/* The place on a curve of hit rates behind which more capacity brings clearly less: the farthest from the straight line
 * between its ends, capacity on a logarithmic scale (Satopaa et al. 2011, Kneedle). -1: the curve has none. */
int sweep_knee(const int *capacity, const double *hit_rate, int n);

#endif
