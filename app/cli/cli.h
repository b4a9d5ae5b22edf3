/* cli.h - what the commands of the program share: how options are read, how failures are told, how work is shown.
 *
 * A command is a row of main.c's table and a file of its own. It prints its result on stdout and everything else on
 * stderr. */
#ifndef APP_CLI_H
#define APP_CLI_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/engine.h"
#include "model/model.h"

/* ------------------------------------------------------------------------------------------ exit statuses */

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* "kvtile: ..." on stderr; returns CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and where to look; returns CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, and work goes on. */
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --------------------------------------------------------------------------------------------- options */

typedef enum option_kind {
    OPTION_FLAG,   /* bool: given or not */
    OPTION_TEXT,   /* const char * */
    OPTION_FILE,   /* const char *, not empty */
    OPTION_INT,    /* int, least .. most */
    OPTION_REAL,   /* double, least .. most */
    OPTION_SEED,   /* uint64_t */
    OPTION_BYTES,  /* size_t, at least 1: 512M, 4GiB */
    OPTION_CHOICE, /* int: the place among the words of `value`, "a|b|c" */
    OPTION_LIST    /* const char *: up to OPTION_LIST_MAX numbers separated by commas, each least .. most */
} option_kind;

typedef struct option {
    const char *name;  /* "--ctx" or "-n" */
    const char *value; /* what the help calls its value, the words of a choice; NULL: a flag */
    option_kind kind;
    void *out; /* left as it was where the option is not given */
    const char *help;
    double least, most;
} option;

/* A command's line: its options, and the arguments that are not options. */
typedef struct option_set {
    const char *command; /* "run", "bench decode" */
    const char *usage;   /* what follows the command in the usage line */
    const char *about;   /* sentences at the top of the help */
    const option *options;
    int n_options;
    const char **operands; /* [operands_max], what is no option goes here in order */
    int operands_max, *n_operands;
} option_set;

enum { OPTIONS_GO = -1 };

/* OPTIONS_GO, or the status to exit with: CLI_DONE after --help, CLI_USAGE after telling what is wrong. */
int options_parse(const option_set *set, int argc, char **argv);

/* "512M", "4GiB", "1.5G" (powers of 1024; KB, MB, GB are powers of 1000); false: no size, below 1, or too large. */
bool option_bytes(const char *text, size_t *out);
/* Numbers of an OPTION_LIST; how many. */
enum { OPTION_LIST_MAX = 16 };
int option_list(const char *text, int out[OPTION_LIST_MAX]);

/* ---------------------------------------------------------------------------------- models and machines */

/* Options that several commands offer, with their defaults. */
typedef struct common_options {
    const char *model; /* NULL: the default model */
    int threads;
    int math;               /* place in OPTION_MATH, see common_math */
    int kind;               /* kvt_cache_kind */
    int kv, k, v;           /* kvt_format; -1: not given */
    int block;              /* 0, 1, 2 for 16, 32, 64 */
    int ctx;                /* 0: not given */
    int chunk;
    size_t cache_bytes;
    bool json;
} common_options;

common_options common_options_default(void);
kvt_math common_math(const common_options *c);
/* Rows for a command's table, each with its place in a common_options. */
#define OPTION_MODEL(c)                                                                                                \
    { "-m", "MODEL", OPTION_FILE, &(c).model, "a .gguf file (default: the one that `make model` fetches)" }
#define OPTION_THREADS(c)                                                                                              \
    { "--threads", "N", OPTION_INT, &(c).threads, "threads (default: processors of this process)", 1, 256 }
#define OPTION_MATH(c)                                                                                                 \
    {                                                                                                                  \
        "--math", "fast|accurate|exact", OPTION_CHOICE, &(c).math,                                                     \
            "precision: 8-bit activations (default), 16-bit, or float32"                                               \
    }
#define OPTION_CACHE(c)                                                                                                \
    { "--cache", "paged|contiguous|none", OPTION_CHOICE, &(c).kind, "how the cache is kept (default: paged)" }
#define OPTION_KV(c) { "--kv", "bf16|f16|f32", OPTION_CHOICE, &(c).kv, "format of keys and values (default: bf16)" }
#define OPTION_K(c) { "--k", "bf16|f16|f32", OPTION_CHOICE, &(c).k, "format of keys alone" }
#define OPTION_V(c) { "--v", "bf16|f16|f32", OPTION_CHOICE, &(c).v, "format of values alone" }
#define OPTION_BLOCK(c) { "--block", "16|32|64", OPTION_CHOICE, &(c).block, "tokens of a block (default: 32)" }
#define OPTION_CHUNK(c)                                                                                                \
    { "--chunk", "TOKENS", OPTION_INT, &(c).chunk, "most tokens of one step (default: 512)", 1, 65536 }
#define OPTION_CACHE_SIZE(c)                                                                                           \
    { "--cache-size", "BYTES", OPTION_BYTES, &(c).cache_bytes, "limit of the cache, e.g. 512M, 4GiB" }
#define OPTION_JSON(c) { "--json", NULL, OPTION_FLAG, &(c).json, "one JSON object on stdout" }

/* Engine options from common ones; the context and the number of sequences are the command's. */
engine_options common_engine_options(const common_options *c);

/* A model and the pool it runs on. */
typedef struct loaded {
    kvt_workers *team;
    model *model;
    const char *path; /* of the model file */
    double load_ms;
} loaded;

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
/* Flush stdout. CLI_DONE: written, or nobody reads any more (a closed pipe is no failure); CLI_FAILED: told. */
int cli_flush(void);

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

/* "1.5 MB" in powers of 1000, "3,072" with commas; text lives in the buffer. */
typedef struct show_text {
    char text[40];
} show_text;
show_text show_bytes(double bytes);
show_text show_count(uint64_t n);

/* What a run did, for the table on stderr and for --json. */
typedef struct run_report {
    const loaded *loaded;
    const engine *engine;
    const prompt *prompts;
    int n_prompts, n_samples;
    const answer *answers;  /* [n_prompts * n_samples] */
    const byte_list *texts; /* [n_prompts * n_samples] */
} run_report;
void report_table(const run_report *r);
int report_json(const run_report *r);

/* ------------------------------------------------------------------------------------------- commands */

int cmd_run(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
