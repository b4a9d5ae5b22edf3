/* plan.h - what the parts of kvtile plan share: its options, what was worked out, and how sizes are written. */
#ifndef APP_CLI_PLAN_H
#define APP_CLI_PLAN_H

#include "cli.h"
#include "plan/plan.h"

typedef struct plan_options {
    common_options common;
    const char *config, *name;
    int layers, heads, heads_kv, dim, window; /* 0: not given */
    option_texts as;
    int tokens, sequences, answer; /* tokens 0, answer -1: not given */
    size_t memory, weights;        /* 0: not given */
    double bandwidth, flops;       /* likewise */
    const char *plot, *plot_decode;
    bool explain;
} plan_options;

enum { PLAN_KINDS_MAX = OPTION_TEXTS_MAX, PLAN_FORMATS_MAX = 32 };

/* The same plan with another format, or another kind of attention. */
typedef struct plan_row {
    const char *name; /* "k8v4", "gqa:8" */
    shape shape;
    capacity_options options;
    capacity is;
    double bits; /* of an element, padding and scales counted; 0: no layer keeps tokens */
} plan_row;

typedef struct planning {
    const plan_options *opt;
    const char *file; /* the .gguf; NULL: the model came otherwise */
    shape shape;
    capacity_options options;
    capacity is;
    bool memory_given, bandwidth_given;
    plan_row format[PLAN_FORMATS_MAX]; /* in the order of formats.h */
    int n_formats;
    plan_row kind[PLAN_KINDS_MAX]; /* of --as, where there are several */
    int n_kinds;
    double mha_per_token; /* bytes of a token with a key/value head for each query head; 0: not known */
    const char *advice;   /* a command line that fits; NULL: there is none to offer */
} planning;

/* The model that the options name; CLI_DONE, or the status to exit with, told on stderr. */
int plan_shape(planning *p);
/* Words of --as one by one; NULL behind the last. */
const char *plan_kind_name(int i);
/* Everything else. */
int plan_work_out(planning *p);

int plan_print(const planning *p);
int plan_json(const planning *p);
/* Cache against tokens, time of a step against tokens; CLI_DONE, or CLI_FAILED told on stderr. */
int plan_plot_cache(const planning *p, const char *path);
int plan_plot_decode(const planning *p, const char *path);

/* The line that runs the plan, or comes nearest to it, for a .gguf file; false: nothing fits. */
bool plan_advice(const planning *p, char *out, size_t n);

/* "1.07 GB", "990 TFLOP": three digits, powers of 1000. */
show_text plan_amount(double n, const char *unit);
show_text plan_size(double bytes);
show_text plan_exact(double bytes); /* "1,073,741,824 B" */
show_text plan_time(double ms);     /* "9.61 ms", "1.23 s" */
/* Elements of keys and values of a token in a layer, without padding. */
int64_t plan_elements(const kvt_layer *l);
const char *plan_kind(const kvt_layer *l); /* "full" */

#endif
