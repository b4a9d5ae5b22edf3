/* simulate_lengths.c - kvtile simulate on a trace that has lengths alone: memory over time, by way of reserving it. */
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

enum { PREFILL_PER_S = 2000 };

typedef struct lengths_row {
    double mean, most, use; /* tokens reserved on average and at most; share of them that held one */
} lengths_row;

static lengths_row row_of(const occupancy *o, int scheme) {
    double mean = occupancy_mean(o->reserved[scheme]);
    return (lengths_row){ mean, occupancy_most(o->reserved[scheme]), mean > 0 ? occupancy_mean(o->held) / mean : 1 };
}

static int table_print(const simulation *s, const occupancy *o, double prefill_per_s) {
    printf("%s requests in %.0f s, %.1f alive on average; read at %.0f tokens/s, answered at one token every %g ms\n"
           "%-12s %16s %16s %9s%s\n",
           show_count(s->trace.n_requests).text, o->span_ms / 1e3, occupancy_mean(o->alive), prefill_per_s,
           s->opt->token_ms, "reserved", "tokens, mean", "tokens, most", "in use",
           s->bytes_per_token ? "      most" : "");
    for (int i = 0; i < N_RESERVES; i++) {
        lengths_row r = row_of(o, i);
        printf("%-12s %16s %16s %7.1f %%", reserves[i].name, show_count((uint64_t)r.mean).text,
               show_count((uint64_t)r.most).text, 100 * r.use);
        if (s->bytes_per_token) printf(" %9s", show_bytes(r.most * (double)s->bytes_per_token).text);
        putchar('\n');
    }
    return cli_flush();
}

static int json_all(const simulation *s, const occupancy *o) {
    json_t *rows = json_array();
    for (int i = 0; i < N_RESERVES; i++) {
        lengths_row r = row_of(o, i);
        json_t *row = json_pack("{s:s, s:f, s:f, s:f}", "reserved", reserves[i].name, "tokens_mean", r.mean,
                                "tokens_most", r.most, "use_share", r.use);
        if (row && s->bytes_per_token)
            json_object_set_new(row, "bytes_most", json_real(r.most * (double)s->bytes_per_token));
        json_array_append_new(rows, row);
    }
    return json_print(json_pack("{s:I, s:f, s:f, s:f, s:I, s:o}", "requests", (json_int_t)s->trace.n_requests, "span_s",
                                o->span_ms / 1e3, "alive_mean", occupancy_mean(o->alive), "tokens_held_mean",
                                occupancy_mean(o->held), "tokens_longest", (json_int_t)o->tokens_longest, "rows",
                                rows));
}

int simulate_lengths(const simulation *s) {
    const simulate_options *opt = s->opt;
    error_text err;
    if (opt->blocks || opt->memory) return cli_fail("%s: has no block ids to cache", opt->trace);
    if (strcmp(opt->policy, "default") != 0)
        cli_warn("%s: has no block ids to cache; --policy is not used", opt->trace);
    occupancy_options how = { .prefill_per_s = opt->prefill_per_s > 0 ? opt->prefill_per_s : PREFILL_PER_S,
                              .token_ms = opt->token_ms, .tokens_longest = opt->common.ctx };
    occupancy *o = malloc(sizeof *o);
    if (!o) return cli_fail("no memory for the moments");
    int status = CLI_FAILED;
    if (occupancy_of(&s->trace, &how, o, &err) != KVT_OK) cli_fail("%s: %s", opt->trace, err.text);
    else status = opt->common.json ? json_all(s, o) : table_print(s, o, how.prefill_per_s);
    if (status == CLI_DONE && opt->plot) status = simulate_plot_memory(s, o);
    free(o);
    return status;
}
