/* simulate.h - what the parts of kvtile simulate share: its options, and the pictures it draws. */
#ifndef APP_SIMULATE_H
#define APP_SIMULATE_H

#include "cli.h"
#include "plan/plan.h"

typedef struct simulate_options {
    common_options common;
    const char *trace, *blocks, *policy, *plot, *name;
    size_t memory;
    int block_tokens;
    double prefill_per_s, token_ms;
} simulate_options;

/* One policy at one capacity. */
typedef struct simulate_row {
    const policy *policy;
    int capacity;
    policy_counts counts;
    double hit_rate;
} simulate_row;

typedef struct simulation {
    const simulate_options *opt;
    trace trace;
    int block_tokens;
    size_t bytes_per_token; /* of the model that was named; 0: none was */
    int capacity[SWEEP_MAX], n_capacities;
    const policy *policy[16];
    int n_policies;
    simulate_row row[16 * SWEEP_MAX]; /* [n_policies][n_capacities] */
    int knee; /* place among the capacities, of the first policy; -1: none */
} simulation;

/* Hit rate against capacity; memory over time. CLI_DONE, or CLI_FAILED told on stderr. */
int simulate_plot_hits(const simulation *s);
int simulate_plot_memory(const simulation *s, const occupancy *o);

/* The command for a trace that has lengths alone. */
int simulate_lengths(const simulation *s);

#endif
