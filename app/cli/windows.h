/* windows.h - how well a model foresees a text, and what a format of the cache changes in that.
 *
 * The text is read in windows of ctx tokens, each beginning `stride` tokens behind the one before. A window counts the
 * tokens that no window before it counted, so each token of the text but the first is foreseen once, from up to a whole
 * window before it. Where the model wants a start token every window begins with it. */
#ifndef APP_WINDOWS_H
#define APP_WINDOWS_H

#include "score.h"

enum { WINDOW_ROWS = 128, WINDOW_CTX = 2048 }; /* tokens of a step; of a window, where nothing else is said */

typedef struct window_text {
    const char *file;
    token_list ids;
    bool bos; /* windows begin with a start token */
} window_text;

/* CLI_DONE, or CLI_FAILED told on stderr; window_text_free in either case. */
int window_text_read(window_text *t, const char *file, const model *m);
void window_text_free(window_text *t);

typedef struct windows {
    int ctx, stride; /* stride: at most ctx, less the start token */
    int chunks;      /* only so many windows; 0: all */
    bool kl;         /* compare with the same model over a cache in float32 */
    const char *what; /* the progress bar's word */
} windows;

typedef struct windows_result {
    int64_t n;         /* tokens that were foreseen */
    double ppl, error; /* error: one standard error of the mean, in perplexity */
    double kl_mean, kl_p999, agree;
    format_cost cost;  /* of the cache */
} windows_result;

/* CLI_DONE, or the status to exit with, told on stderr. setup's context is how->ctx, its rows_max WINDOW_ROWS. */
int windows_read(const loaded *l, const window_text *text, const windows *how, const score_setup *setup,
                 windows_result *out);

#endif
