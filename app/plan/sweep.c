/* sweep.c - see sweep.h. */
#include "sweep.h"

#include "kvtile_ops.h"

int sweep_capacities(const trace *t, int out[SWEEP_MAX]) {
    static const int steps[] = { 1, 2, 5 };
    int n = 0;
    for (int64_t ten = 1; n < SWEEP_MAX - 1; ten *= 10)
        for (int i = 0; i < 3; i++) {
            if (ten * steps[i] >= t->n_distinct || n == SWEEP_MAX - 1) {
                out[n++] = t->n_distinct;
                return n;
            }
            out[n++] = (int)(ten * steps[i]);
        }
    return n;
}

int sweep_knee(const int *capacity, const double *hit_rate, int n) {
    enum { NONE = -1 };
    if (n < 3) return NONE;
    double first = kvt_log(capacity[0]), width = kvt_log(capacity[n - 1]) - first;
    double low = hit_rate[0], height = hit_rate[n - 1] - low, most = 0;
    int knee = NONE;
    if (width <= 0 || height <= 0) return NONE;
    for (int i = 1; i < n - 1; i++) {
        double above = (hit_rate[i] - low) / height - (kvt_log(capacity[i]) - first) / width;
        if (above <= most) continue;
        most = above;
        knee = i;
    }
    return knee;
}
