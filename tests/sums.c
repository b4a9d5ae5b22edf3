/* sums.c - see sums.h. */
#include "sums.h"

#include <stddef.h>
#include <stdio.h>

void sums_take(sums *to, const kvt_stats *from) {
    sums one = {
        .asked = from->tokens_asked,
        .found = from->tokens_found,
        .fetched = from->tokens_fetched,
        .resumed = from->tokens_resumed,
        .full = from->n_full,
        .evicted = from->blocks_evicted,
        .expired = from->blocks_expired,
        .merged = from->blocks_merged,
        .puts = from->n_puts,
        .gets = from->n_gets,
        .failed = from->n_puts_failed + from->n_gets_failed,
    };
    for (int i = 0; i < KVT_N_MISSES; i++) one.missed[i] = from->tokens_missed[i];
    sums_add(to, &one);
}

void sums_add(sums *to, const sums *from) {
    uint64_t *at = (uint64_t *)to;
    for (size_t i = 0; i < sizeof *to / sizeof *at; i++) at[i] += ((const uint64_t *)from)[i];
}

void sums_print(long n_ops, const sums *s, uint64_t hash) {
    const struct {
        uint64_t n;
        const char *what;
    } rows[] = {
        {s->asked, "tokens asked for"}, {s->found, "found"},     {s->fetched, "fetched"}, {s->resumed, "resumed"},
        {s->finished, "finished"},      {s->full, "times full"}, {s->merged, "merged"},   {s->evicted, "evicted"},
        {s->expired, "expired"},        {s->puts, "puts"},       {s->gets, "gets"},       {s->failed, "failed"},
    };
    printf("%ld operations:", n_ops);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        printf("%s %llu %s", i ? "," : "", (unsigned long long)rows[i].n, rows[i].what);
    printf("; missed:");
    for (int i = 0; i < KVT_N_MISSES; i++)
        if (s->missed[i]) printf(" %llu %s", (unsigned long long)s->missed[i], kvt_miss_name((kvt_miss)i));
    printf("; run %016llx\n", (unsigned long long)hash);
}
