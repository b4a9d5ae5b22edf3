/* simulate_plot.c - the pictures of kvtile simulate. */
#include "simulate.h"

#include <string.h>

#include "plot/plot.h"

static int draw(const plot_chart *chart, const char *path) {
    const char *wrong = plot_write(chart, path);
    return wrong ? cli_fail("%s: %s", path, wrong) : CLI_DONE;
}

/* Only the name of the file: pictures travel. */
static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int simulate_plot_hits(const simulation *s) {
    double x[SWEEP_MAX], y[16][SWEEP_MAX];
    char subtitle[200], label[80];
    plot_series series[16];
    for (int i = 0; i < s->n_capacities; i++) x[i] = s->capacity[i];
    for (int p = 0; p < s->n_policies; p++) {
        for (int i = 0; i < s->n_capacities; i++) y[p][i] = 100 * s->row[p * s->n_capacities + i].hit_rate;
        series[p] = (plot_series){ .label = s->policy[p]->name, .x = x, .y = y[p], .n_points = s->n_capacities,
                                   .line = true, .marks = !s->policy[p]->foresees, .bound = s->policy[p]->foresees };
    }
    snprintf(subtitle, sizeof subtitle, "%.60s: %s requests, %s blocks of %d tokens", name_of(s->opt->trace),
             show_count(s->trace.n_requests).text, show_count(s->trace.n_blocks).text, s->block_tokens);
    snprintf(label, sizeof label, "without bound: %.1f %%",
             100 * (1 - (double)s->trace.n_distinct / (double)s->trace.n_blocks));
    const plot_rule rule = { label, 100 * (1 - (double)s->trace.n_distinct / (double)s->trace.n_blocks), false };
    const plot_chart chart = { .title = "Hit rate against capacity", .subtitle = subtitle,
                               .x = { .label = "capacity (blocks)", .log = true },
                               .y = { .label = "blocks hit (%)" }, .series = series, .n_series = s->n_policies,
                               .rules = &rule, .n_rules = 1 };
    return draw(&chart, s->opt->plot);
}

/* Moments are averaged to so many: more are a thicket. */
enum { DRAWN = 64, MOMENTS_EACH = OCCUPANCY_MOMENTS / DRAWN };

static void average(const double *moments, double out[DRAWN]) {
    for (int i = 0; i < DRAWN; i++) {
        double sum = 0;
        for (int m = 0; m < MOMENTS_EACH; m++) sum += moments[i * MOMENTS_EACH + m];
        out[i] = sum / MOMENTS_EACH;
    }
}

/* One size of blocks stands for all: their lines would lie on each other. */
static bool is_drawn(const reserve_scheme *s) {
    return s->kind != RESERVE_BLOCKS || s->block_tokens == 32;
}

int simulate_plot_memory(const simulation *s, const occupancy *o) {
    double x[DRAWN], held[DRAWN], y[N_RESERVES][DRAWN];
    char subtitle[200];
    plot_series series[N_RESERVES + 1];
    int n = 0;
    for (int i = 0; i < DRAWN; i++) x[i] = o->span_ms / 60e3 * (i + 0.5) / DRAWN;
    for (int i = 0; i < N_RESERVES; i++) {
        if (!is_drawn(&reserves[i])) continue;
        average(o->reserved[i], y[i]);
        series[n++] = (plot_series){ .label = reserves[i].name, .x = x, .y = y[i], .n_points = DRAWN, .line = true };
    }
    average(o->held, held);
    series[n++] = (plot_series){ .label = "tokens there are", .x = x, .y = held, .n_points = DRAWN, .line = true,
                                 .bound = true };
    snprintf(subtitle, sizeof subtitle, "%.60s: %s requests, the longest of %s tokens", name_of(s->opt->trace),
             show_count(s->trace.n_requests).text, show_count((uint64_t)o->tokens_longest).text);
    const plot_chart chart = { .title = "Memory reserved over time", .subtitle = subtitle,
                               .x = { .label = "minutes" },
                               .y = { .label = "tokens reserved", .log = true, .unit = "" },
                               .series = series, .n_series = n };
    return draw(&chart, s->opt->plot);
}
