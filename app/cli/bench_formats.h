/* bench_formats.h - what the parts of kvtile bench formats share: its options, and looking for a key in a long text. */
#ifndef APP_BENCH_FORMATS_H
#define APP_BENCH_FORMATS_H

#include "bench.h"
#include "formats.h"

enum { FORMATS_MAX = 32 };

typedef struct formats_options {
    common_options common;
    const char *file, *formats; /* formats NULL: every row */
    int depth, tokens, steps, chunks;
    bool needle;
    const char *lengths;
    int depths;
    uint64_t seed;
} formats_options;

/* Which formats, and on what. */
typedef struct formats_work {
    const formats_options *opt;
    const loaded *loaded;
    double bandwidth;
    int n_pairs;
    format_pair pair[FORMATS_MAX];
} formats_work;

/* The options of a cache in one of the formats. */
common_options formats_common(const formats_options *o, format_pair pair);

/* --needle, in every format; CLI_DONE, or the status to exit with, told on stderr. */
int needle_bench(const formats_work *w);

/* --------------------------------------------------------------------------------------- needle_text.c */

enum { NEEDLE_ANSWER = 12, NEEDLE_DIGITS = 5, NEEDLE_DEPTHS_MAX = 64 };

/* A prompt: filler up to `cut`, the sentence with the key, filler up to `end`, the question. */
typedef struct needle_case {
    int length, depth; /* places among the lengths and depths */
    int cut, end;
    char key[NEEDLE_DIGITS + 1];
} needle_case;

/* Sorted by cut, so that a sequence of filler that grows can be forked for each. */
typedef struct needle_text {
    token_list filler, question;
    bool bos;
    int n_lengths, n_depths, longest;
    int length[OPTION_LIST_MAX]; /* tokens of prompt and answer */
    int n_cases;
    needle_case *cases; /* [n_cases] */
} needle_text;

/* CLI_DONE, or CLI_FAILED told on stderr; needle_text_free in either case. */
int needle_text_make(needle_text *t, const formats_options *o, const model *m);
void needle_text_free(needle_text *t);
/* What follows the filler up to the case's cut: the sentence with its key, the rest, the question. */
kvt_status needle_rest(const needle_text *t, const needle_case *c, const model *m, token_list *out);

#endif
