/* score.h - a model reads a known text: the logits behind every token of it, in one precision and one format of the
 * cache; and what two such readings tell of each other. */
#ifndef APP_SCORE_H
#define APP_SCORE_H

#include "cli.h"
#include "formats.h"

typedef struct score_setup {
    kvt_math math;
    kvt_format k_format, v_format;
    int block_tokens, hot_tokens;
    int context;  /* most tokens read in a row, no more than the model's limit */
    int rows_max; /* most of one step */
} score_setup;

typedef struct score_reader {
    const model *model;
    kvt_workers *team;
    kvt_cache *cache;
    model_state *state;
    kvt_seq seq;
    int block_tokens, rows_max;
    int *rows;     /* [rows_max] 0, 1, 2, ... */
    float *logits; /* [rows_max][n_vocab] of the last step */
    format_cost cost; /* of the cache */
} score_reader;

/* CLI_DONE, or CLI_FAILED told on stderr; score_close in either case. */
int score_open(score_reader *r, const loaded *l, const score_setup *s);
void score_close(score_reader *r);

/* Go back to where the first n tokens were read; 0: to the beginning. */
int score_seek(score_reader *r, int n);
/* Up to rows_max tokens more, with a row of logits behind each of them, or behind the last alone. */
int score_read(score_reader *r, const int32_t *tokens, int n);
int score_read_last(score_reader *r, const int32_t *tokens, int n);

/* Of one position. */
typedef struct score_row {
    double nll; /* -ln of the probability of the token that came */
    double kl;  /* KL divergence from the other reading's distribution to this one's, in nats */
    bool top_agrees;
} score_row;

/* Rows 0 .. n - 1 of a step against the tokens that came next, next[i] behind row i; below 0: none did, and nll
 * stays 0. With `other`, against its rows too. On all threads. */
void score_rows(const score_reader *r, const score_reader *other, const int32_t *next, int n, score_row *out);

#endif
