/* bench.h - what the measurements share: the machine's own read bandwidth, medians, a cache filled without a model,
 * steps of a model over it. */
#ifndef APP_BENCH_H
#define APP_BENCH_H

#include "cli.h"

extern const command command_bench, command_bench_reuse, command_bench_memory, command_bench_decode,
    command_bench_prefill, command_bench_attend, command_bench_share, command_bench_step, command_bench_modes,
    command_bench_formats, command_bench_tier;

enum { BENCH_REPEATS = 32 };

/* Bytes per second that the pool reads from memory: loads over 512 MB in huge pages, the best of a few passes with
 * and without prefetches (which of the two is faster depends on the processor).
 * 0: there is no memory for it. */
double bench_bandwidth(kvt_workers *team);

double bench_median(double *x, int n); /* sorts x */
double bench_ms_since(uint64_t start_ns);

/* [n_tokens] of some text, over and over; the caller frees them. NULL: no memory. */
int32_t *bench_prompt(const model *m, int n_tokens);

/* {"command", "cpu", "threads", "bandwidth_read", "rows": []}; rows are appended to the array inside. */
json_t *bench_json(const char *name, const kvt_workers *team, double bandwidth, json_t *rows);

/* ------------------------------------------------------------------------------------------- a filled cache */

/* A cache of a model's layers with room for sequences of tokens_max tokens and steps of batch_max, and synthetic
 * rows to fill it with. */
typedef struct bench_cache {
    kvt_cache *cache;
    model_config config;
    kvt_seq seq; /* the first sequence; for most measurements the only one */
    int batch_max;
    float *q, *k, *v, *out; /* [batch_max][heads][dim], the same for all layers */
    size_t bytes_per_token;
} bench_cache;

typedef struct bench_room {
    int sequences_max, tokens_max, batch_max;
    bool read_apart; /* as kvt_options has it */
    kvt_tier *const *tiers; /* [n_tiers] */
    int n_tiers;
} bench_room;

/* CLI_DONE, or CLI_FAILED told on stderr; bench_cache_close in either case. */
int bench_cache_open_room(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                          const bench_room *room);
/* The same for one sequence. */
int bench_cache_open(bench_cache *b, const model_config *config, kvt_workers *team, const common_options *c,
                     int tokens_max, int batch_max);
void bench_cache_close(bench_cache *b);
/* Bring a sequence to n tokens, forwards by synthetic keys and values, backwards by truncation. */
int bench_seq_fill(bench_cache *b, kvt_seq seq, int n_tokens);
/* Add up to batch_max tokens; ids NULL: nobody is to find them. */
kvt_status bench_seq_append(bench_cache *b, kvt_seq seq, int n_tokens, const int32_t *ids);
int bench_cache_fill(bench_cache *b, int n_tokens); /* the first sequence */
/* Milliseconds of attention of a batch's new tokens in all layers; the step is dropped. Below 0: it failed. */
double bench_batch_attend_ms(bench_cache *b, const kvt_batch *batch);
double bench_attend_ms(bench_cache *b, int n_rows); /* of the first sequence */
/* Multiplications and additions of that in one layer, behind depth tokens. */
double bench_attend_flop(const model_config *c, int depth, int n_rows);

/* -------------------------------------------------------------------------------------------- batches of prompts */

/* Prompts that have their beginning in common. */
typedef struct bench_batch {
    int n_prompts, prefix, own, answer; /* tokens in common, of each behind them, of an answer */
} bench_batch;

/* Answer them with sharing and without; a line or a row for each. CLI_DONE, or CLI_FAILED told on stderr. */
int bench_reuse_batch(const bench_batch *b, const loaded *l, const common_options *c, json_t *rows);

/* ------------------------------------------------------------------------------------------ steps of a model */

/* A model and what decoding up to sequences_max sequences at once needs besides a cache. */
typedef struct bench_model {
    loaded loaded;
    const model_config *config;
    model_state *state;
    int32_t *tokens; /* [sequences_max] */
    int *ones;       /* [sequences_max] new tokens of each sequence */
    int *wanted;     /* [sequences_max] all rows */
    float *logits;   /* [sequences_max][n_vocab] */
    double bandwidth;
} bench_model;

/* Where the time of a step went. */
typedef struct bench_times {
    double reserve_ms, forward_ms, commit_ms;
} bench_times;

/* CLI_DONE, or CLI_FAILED told on stderr; bench_model_close in either case. */
int bench_model_open(bench_model *m, const common_options *c, int sequences_max);
void bench_model_close(bench_model *m);
/* One more token for each of the sequences, with logits of all, committed. */
int bench_model_step(const bench_model *m, kvt_cache *cache, const kvt_seq *seqs, int n_seqs, bench_times *out);

/* ------------------------------------------------------------------------------------ passes in one format */

/* Work, and how long it took. */
typedef struct bench_work {
    double flop, bytes, ms;
} bench_work;

/* A decoded token behind some others. */
typedef struct bench_token {
    int depth;
    bench_work step, attend; /* the whole forward pass, its attention alone */
} bench_token;

/* A cache of a model's layers, filled with synthetic keys and values, and what a step needs. */
typedef struct forward {
    const loaded *loaded;
    bench_cache cache;
    model_state *state;
    int chunk;
    int32_t *tokens; /* [chunk] */
    float *logits;   /* [n_vocab] */
} forward;

/* Room for sequences of tokens_max tokens; steps of c->chunk, attention alone of rows_max rows too. CLI_DONE, or
 * CLI_FAILED told on stderr; forward_close in either case. */
int forward_open(forward *f, const loaded *l, const common_options *c, int tokens_max, int rows_max);
void forward_close(forward *f);
/* Medians of so many steps: one more token behind `depth` others; a prompt, in chunks. */
int forward_decode(forward *f, int depth, int steps, bench_token *out);
int forward_prefill(forward *f, int n_tokens, int steps, double *median_ms);

/* ------------------------------------------------------------------------------------------------ roofline */

/* What decoding did beside what the machine can do. */
typedef struct bench_roofline {
    const char *model, *machine; /* lines of text above the picture */
    double bandwidth;            /* bytes per second read from memory; 0: not measured */
    int prefill_rows;
    bench_work prefill; /* attention of that many rows behind as many tokens, the best of some runs */
    int n_tokens;
    bench_token tokens[OPTION_LIST_MAX];
} bench_roofline;

/* Draw it to a .svg or .png file; CLI_DONE, or CLI_FAILED told on stderr. */
int bench_roofline_draw(const bench_roofline *r, const char *path);

#endif
