/* cohort.h - tiny models in engines: texts that are the same for the same seed, the logits behind them, and prompts
 * with a common beginning that go through an engine together. */
#ifndef TESTS_COHORT_H
#define TESTS_COHORT_H

#include "engine/engine.h"

enum { BLOCK = 16, N_PROMPT = 90, N_MORE = 3 };

extern model *cohort_models[3]; /* from cohort_begin to cohort_end, of a group of tests */
int cohort_begin(void **state);
int cohort_end(void **state);

typedef struct format_case {
    kvt_format k, v;
    bool codes; /* only whole blocks are found */
} format_case;
enum { N_FORMATS = 11 };
extern const format_case format_cases[N_FORMATS];

void cohort_ids(const model *m, uint64_t seed, int32_t *out, int n);

/* Blocks of BLOCK, a context of 8 of them; cold: without sharing. */
engine_options engine_plain(void);
engine_options engine_cold(void);
engine_options engine_in_format(engine_options opt, format_case f);
engine_options engine_with_tier(engine_options opt, kvt_tier *const *tier);
kvt_tier *cohort_tier(void); /* in memory */
size_t bytes_of_blocks(const model *m, int n);
int whole_blocks(int n); /* tokens of the whole blocks of n tokens */

engine *cohort_engine(const model *m, engine_options opt);
int cohort_add(engine *e, const int32_t *ids, int n);
void cohort_step_all(engine *e);

/* Logits behind a prompt and behind N_MORE tokens more. */
typedef struct rows {
    float *at; /* [1 + N_MORE][n_vocab] */
    size_t bytes, row;
} rows;

/* ids [n + N_MORE] */
rows run_in(engine *e, const int32_t *ids, int n);
rows run_alone(const model *m, engine_options opt, const int32_t *ids, int n);
void assert_same_rows(rows a, rows b, const char *what, int number); /* frees a */

enum { N_COMMON = 4 * BLOCK, N_SEQS = 4 };

/* Prompts of cohort_models[1] with a common beginning, and what each comes to alone. */
typedef struct cohort {
    int32_t ids[N_SEQS][N_PROMPT + N_MORE];
    rows expected[N_SEQS];
} cohort;

cohort cohort_of(const model *m);
void cohort_free(cohort *c);
/* All of them at once; the logits of each are looked at when they come, and if asked for each one ends then. */
engine_counters cohort_run(const cohort *c, engine_options opt, bool end_each);
/* A sequence has the logits of prompt number i. */
void assert_prompt_row(const cohort *c, const engine *e, int seq, int i);

#endif
