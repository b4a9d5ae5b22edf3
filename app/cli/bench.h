/* bench.h - what the measurements share: the machine's own read bandwidth, medians, a cache filled without a model. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

#include "cli.h"

int bench_reuse(int argc, char **argv);
int bench_memory(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_prefill(int argc, char **argv);
int bench_attend(int argc, char **argv);

enum { BENCH_REPEATS = 32 };

/* Bytes per second that the pool reads from memory: plain loads over 512 MB in huge pages, the best of a few passes.
 * 0: there is no memory for it. */
double bench_bandwidth(kvt_workers *team);

double bench_median(double *x, int n); /* sorts x */
double bench_ms_since(uint64_t start_ns);

/* {"command", "cpu", "threads", "bandwidth_read", "rows": []}; rows are appended to the array inside. */
json_t *bench_json(const char *command, const kvt_workers *team, double bandwidth, json_t *rows);

/* A cache of a model's layers with room for one sequence of tokens_max tokens and steps of batch_max, and synthetic
 * rows to fill it with. */
typedef struct bench_cache {
    kvt_cache *cache;
    model_config config;
    kvt_seq seq;
    int batch_max;
    float *q, *k, *v, *out; /* [batch_max][heads][dim], the same for all layers */
    size_t bytes_per_token;
} bench_cache;

/* CLI_DONE, or CLI_FAILED told on stderr; bench_cache_close in either case. */
int bench_cache_open(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                     int tokens_max, int batch_max);
void bench_cache_close(bench_cache *b);
/* Bring the sequence to n tokens, forwards by synthetic keys and values, backwards by truncation. */
int bench_cache_fill(bench_cache *b, int n_tokens);
/* Milliseconds of attention of n_rows new tokens in all layers; the step is dropped. Below 0: it failed. */
double bench_attend_ms(bench_cache *b, int n_rows);

#endif
