/* windows.c - see windows.h. */
#include "windows.h"

#include <math.h>
#include <stdlib.h>

#include "prompts.h"

/* Sums over the tokens that were counted. */
typedef struct tally {
    double nll, nll_squared;
    int64_t n, n_agree;
    float *kl; /* [n] while there is room: all of them are sorted for the percentile */
    size_t room;
} tally;

typedef struct reading {
    const loaded *loaded;
    const window_text *text;
    const windows *how;
    score_reader reader, exact; /* exact: the same with keys and values in float32, for kl */
    tally tally;
    int64_t n_read, n_to_read;
} reading;

/* -------------------------------------------------------------------------------------------------- the tally */

static bool tally_add(tally *t, const score_row *row, bool kl) {
    t->nll += row->nll;
    t->nll_squared += row->nll * row->nll;
    if (kl && (size_t)t->n == t->room) {
        size_t room = t->room ? 2 * t->room : 4096;
        float *grown = realloc(t->kl, room * sizeof *grown);
        if (!grown) return false;
        t->kl = grown;
        t->room = room;
    }
    if (kl) {
        t->kl[t->n] = (float)row->kl;
        t->n_agree += row->top_agrees;
    }
    t->n++;
    return true;
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double mean_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    return sum / (double)n;
}

static windows_result result_of(tally *t, bool kl) {
    double n = (double)t->n, mean = t->nll / n, variance = t->nll_squared / n - mean * mean;
    windows_result r = { .n = t->n, .ppl = kvt_exp(mean) };
    r.error = r.ppl * sqrt(variance > 0 ? variance / n : 0);
    if (!kl) return r;
    qsort(t->kl, (size_t)t->n, sizeof *t->kl, by_size);
    r.kl_mean = mean_of(t->kl, t->n);
    r.kl_p999 = (double)t->kl[t->n - 1 - t->n / 1000];
    r.agree = (double)t->n_agree / n;
    return r;
}

/* ------------------------------------------------------------------------------------------------- the windows */

/* Tokens of the text that a window holds: its context, less the start token. */
static size_t span_of(const reading *p) {
    return (size_t)(p->how->ctx - p->text->bos);
}

/* Text token i of a window that begins at `first`; the start token is number -1. */
static int32_t token_at(const reading *p, size_t first, int i) {
    return p->text->bos && i == 0 ? tokenizer_about(model_tokenizer(p->loaded->model))->bos
                            : p->text->ids.id[first + (size_t)(i - p->text->bos)];
}

/* Rows at .. at + n - 1 of a window: those whose next token lies at counted_from or behind count. */
static int rows_count(reading *p, size_t first, int at, int n, int n_window, size_t counted_from) {
    int32_t next[WINDOW_ROWS];
    score_row rows[WINDOW_ROWS];
    for (int i = 0; i < n; i++) {
        int following = at + i + 1;
        size_t place = first + (size_t)(following - p->text->bos);
        next[i] = following < n_window && place >= counted_from ? token_at(p, first, following) : -1;
    }
    score_rows(&p->reader, p->how->kl ? &p->exact : NULL, next, n, rows);
    for (int i = 0; i < n; i++) {
        if (next[i] < 0) continue;
        if (!isfinite(rows[i].nll) || !isfinite(rows[i].kl))
            return cli_fail("the logits of token %zu are not numbers (a damaged model file)",
                            first + (size_t)(at + i + 1 - p->text->bos));
        if (!tally_add(&p->tally, &rows[i], p->how->kl)) return cli_fail("no memory for the divergences");
    }
    return CLI_DONE;
}

static int window_read(reading *p, size_t first, size_t counted_from, progress *bar) {
    size_t left = p->text->ids.n - first, span = span_of(p) < left ? span_of(p) : left;
    int n_window = (int)span + p->text->bos, status = score_seek(&p->reader, 0);
    if (status == CLI_DONE && p->how->kl) status = score_seek(&p->exact, 0);
    for (int at = 0; at < n_window && status == CLI_DONE && !cli_stop; at += WINDOW_ROWS) {
        int32_t tokens[WINDOW_ROWS];
        int n = n_window - at < WINDOW_ROWS ? n_window - at : WINDOW_ROWS;
        for (int i = 0; i < n; i++) tokens[i] = token_at(p, first, at + i);
        status = score_read(&p->reader, tokens, n);
        if (status == CLI_DONE && p->how->kl) status = score_read(&p->exact, tokens, n);
        if (status == CLI_DONE) status = rows_count(p, first, at, n, n_window, counted_from);
        p->n_read += n;
        progress_show(bar, p->n_read, p->n_to_read);
    }
    return cli_stop ? CLI_INTERRUPTED : status;
}

/* Where the window number i begins counting; false: there is none. */
static bool window_next(const reading *p, int i, size_t *first, size_t *counted_from) {
    size_t least = p->text->bos ? 0 : 1, behind = i > 0 ? *first + span_of(p) : least;
    *first = (size_t)i * (size_t)p->how->stride;
    if ((p->how->chunks > 0 && i == p->how->chunks) || *first >= p->text->ids.n || behind >= p->text->ids.n)
        return false;
    *counted_from = behind > *first + !p->text->bos ? behind : *first + !p->text->bos;
    return true;
}

static int all_read(reading *p) {
    progress bar = progress_of(p->how->what);
    size_t first = 0, from;
    int status = CLI_DONE;
    for (int i = 0; window_next(p, i, &first, &from); i++) {
        size_t left = p->text->ids.n - first;
        p->n_to_read += (int64_t)(left < span_of(p) ? left : span_of(p)) + p->text->bos;
    }
    for (int i = 0; status == CLI_DONE && window_next(p, i, &first, &from); i++)
        status = window_read(p, first, from, &bar);
    progress_clear(&bar);
    if (status == CLI_DONE && p->tally.n == 0) return cli_fail("%s: has no token to foresee", p->text->file);
    return status;
}

int windows_read(const loaded *l, const window_text *text, const windows *how, const score_setup *setup,
                 windows_result *out) {
    reading p = { .loaded = l, .text = text, .how = how };
    score_setup exact = *setup;
    exact.k_format = exact.v_format = KVT_F32;
    int status = score_open(&p.reader, l, setup);
    if (status == CLI_DONE && how->kl) status = score_open(&p.exact, l, &exact);
    if (status == CLI_DONE) status = all_read(&p);
    if (status == CLI_DONE) *out = result_of(&p.tally, how->kl);
    out->cost = p.reader.cost;
    score_close(&p.reader);
    score_close(&p.exact);
    free(p.tally.kl);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the text */

int window_text_read(window_text *t, const char *file, const model *m) {
    byte_list text = { 0 };
    const tokenizer *words = model_tokenizer(m);
    *t = (window_text){ .file = file, .bos = tokenizer_about(words)->add_bos };
    int status = prompts_read_file(file, &text);
    if (status == CLI_DONE && tokenizer_encode(words, text.at, text.n, false, &t->ids) != KVT_OK)
        status = cli_fail("%s: cannot be made tokens", file);
    byte_list_free(&text);
    return status;
}

void window_text_free(window_text *t) {
    token_list_free(&t->ids);
}
