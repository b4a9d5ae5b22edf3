/* cli.h - what the commands of the program share: options that several have, the model they run,
 * how work is shown.
 *
 * A command is a row of commands.c's table and a file of its own. It prints its result on stdout and everything else on
 * stderr. */
#ifndef APP_CLI_H
#define APP_CLI_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "command/command.h"
#include "engine/engine.h"
#include "model/model.h"

/* ---------------------------------------------------------------------------------- models and machines */

/* Options that several commands offer, with their defaults. */
typedef struct common_options {
    const char *model; /* NULL: the default model */
    int threads;
    int math;               /* place among the words of --math, see common_math */
    int kind;               /* kvt_cache_kind */
    int kv;                 /* place among the words of formats.h */
    int k, v;               /* kvt_format; -1: not given */
    int hot;
    int block;              /* 0, 1, 2 for 16, 32, 64 */
    int ctx;                /* 0: not given */
    int chunk;
    size_t cache_bytes;
    bool json;
} common_options;

common_options common_options_default(void);
kvt_math common_math(const common_options *c);
/* What is said of an answer in texts. */
typedef struct sampling_texts {
    option_texts bias, stop;
} sampling_texts;

/* Rows for the table of a command whose struct T has `common_options common`, and where it samples `sample_options
 * sampling` and `sampling_texts texts`; written down in rows.c. */
extern const option_rows rows_model, rows_sampling, rows_sampling_texts, rows_cache, rows_blocks, rows_formats,
    rows_machine, rows_threads, rows_chunk, rows_json;
#define OPTION_MODEL(T) OPTION_ROWS_OF(rows_model, T, common)
#define OPTION_SAMPLING(T) OPTION_ROWS_OF(rows_sampling, T, sampling)
#define OPTION_SAMPLING_TEXTS(T) OPTION_ROWS_OF(rows_sampling_texts, T, texts)
#define OPTION_BLOCKS(T) OPTION_ROWS_OF(rows_blocks, T, common)
#define OPTION_FORMATS(T) OPTION_BLOCKS(T), OPTION_ROWS_OF(rows_formats, T, common)
#define OPTION_CACHE_ALL(T) OPTION_ROWS_OF(rows_cache, T, common), OPTION_FORMATS(T)
#define OPTION_MACHINE(T) OPTION_ROWS_OF(rows_machine, T, common), OPTION_ROWS_OF(rows_threads, T, common)
#define OPTION_THREADS(T) OPTION_ROWS_OF(rows_threads, T, common)
#define OPTION_CHUNK(T) OPTION_ROWS_OF(rows_chunk, T, common)
#define OPTION_JSON(T) OPTION_ROWS_OF(rows_json, T, common)

/* Engine options from common ones; the context and the number of sequences are the command's. */
engine_options common_engine_options(const common_options *c);

/* The biases of a sample_options, which points at them. */
enum { BIASES_MAX = 1024 };
typedef struct bias_list {
    sample_bias at[BIASES_MAX];
    int n;
} bias_list;
/* Read what the rows of OPTION_SAMPLING_TEXTS cannot check; OPTIONS_GO, or CLI_USAGE after telling what is wrong. */
int sampling_texts_read(const char *name, const sampling_texts *texts, bias_list *biases);

/* A model and the pool it runs on. */
typedef struct loaded {
    kvt_workers *team;
    model *model;
    const char *path; /* of the model file */
    double load_ms;
} loaded;

/* CLI_DONE, or CLI_FAILED told on stderr in the words of the command line. */
int loaded_engine(engine **out, const loaded *l, const engine_options *opt);
/* CLI_DONE, or the status to exit with, told on stderr. Then loaded_close. */
int loaded_open(loaded *l, const common_options *c);
void loaded_close(loaded *l);
/* CLI_DONE, or CLI_FAILED told on stderr. n_threads 0: the processors of this process. */
int team_open(kvt_workers **out, int n_threads);
/* The model's path: as given, or the default model's. NULL, told on stderr: there is none. */
const char *model_path(const char *given);

/* -------------------------------------------------------------------------------------------- signals */

/* Not 0 once Ctrl-C was pressed (or SIGTERM came); the second time ends the process at once. */
extern volatile sig_atomic_t cli_stop;
void cli_catch_interrupt(void);

/* ------------------------------------------------------------------------------------------- showing */

/* A bar on stderr, if that is a terminal and the work has taken a second. */
typedef struct progress {
    const char *what;
    uint64_t start_ns;
    bool shown;
} progress;
progress progress_of(const char *what);
void progress_show(progress *p, int64_t done, int64_t total);
void progress_clear(progress *p);

/* A JSON string of bytes that may not be UTF-8: what is no character becomes U+FFFD. */
json_t *json_bytes(const char *bytes, size_t n);
/* Print an object on stdout, one line, and let go of it; CLI_DONE or CLI_FAILED. */
int json_print(json_t *object);

/* "1.5 MB" in powers of 1000, "3,072" with commas, "1 token" and "3,072 tokens"; text lives in the buffer. */
typedef struct show_text {
    char text[40];
} show_text;
show_text show_bytes(double bytes);
show_text show_count(uint64_t n);
show_text show_counted(uint64_t n, const char *one);

/* What a run did, for the table on stderr and for --json; what went to its store is written. */
typedef struct run_report {
    const loaded *loaded;
    const engine *engine;
    const prompt *prompts;
    int n_prompts, n_samples;
    const answer *answers; /* [n_prompts * n_samples] */
    const struct block_store *store; /* block_store.h */
} run_report;
void report_table(const run_report *r);
int report_json(const run_report *r);

/* ------------------------------------------------------------------------------------------- commands */

extern const command command_run, command_chat, command_inspect, command_perplexity, command_plan, command_simulate;

#endif
