/* pretokenize.c - see pretokenize.h: PCRE2 over the steps of a row. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pretokenize.h"

#include <pcre2.h>
#include <stdlib.h>

#include "base/log.h"

struct pretokenizer {
    const pattern_row *row;
    int n_steps;
    pcre2_code *code[PATTERN_STEPS_MAX];
    pcre2_match_context *limits;
};

/* -------------------------------------------------------------------------------------------- opening */

static kvt_status find_row(const model_file *f, const pattern_row **row, error_text *err) {
    file_text name = {"default", 7};
    if (file_has(f, "tokenizer.ggml.pre")) TRY(file_string(f, "tokenizer.ggml.pre", &name, err));
    *row = pattern_find(name);
    if (*row) return KVT_OK;
    return file_fail(f, err, KVT_E_UNSUPPORTED,
                     "its text is cut up by \"%.*s\" (tokenizer.ggml.pre), which this version does not know",
                     FILE_SHOW(name));
}

static kvt_status compile(pretokenizer *p, const model_file *f, error_text *err) {
    p->limits = pcre2_match_context_create(NULL);
    if (!p->limits) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    /* PCRE2 counts steps back and gives up at ten million: fewer than a long run of blanks takes, which is linear. */
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    for (; p->row->step[p->n_steps]; p->n_steps++) {
        int error;
        PCRE2_SIZE where;
        pcre2_code **code = &p->code[p->n_steps];
        *code = pcre2_compile((PCRE2_SPTR)p->row->step[p->n_steps], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                              &error, &where, NULL);
        if (!*code)
            return file_fail(f, err, KVT_E_UNSUPPORTED,
                             "this system's PCRE2 does not take the tokenizer's pattern (error %d at %zu)", error,
                             (size_t)where);
        /* Where machine code is forbidden, the interpreter gives the same pieces. */
        pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    }
    return KVT_OK;
}

kvt_status pretokenizer_open(pretokenizer **out, const model_file *f, error_text *err) {
    *out = NULL;
    const pattern_row *row;
    TRY(find_row(f, &row, err));
    pretokenizer *p = calloc(1, sizeof *p);
    if (!p) return file_fail(f, err, KVT_E_MEMORY, "no memory for the tokenizer");
    p->row = row;
    kvt_status st = compile(p, f, err);
    if (st == KVT_OK) *out = p;
    else pretokenizer_close(p);
    return st;
}

void pretokenizer_close(pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < p->n_steps; i++) pcre2_code_free(p->code[i]);
    pcre2_match_context_free(p->limits);
    free(p);
}

const pattern_row *pretokenizer_row(const pretokenizer *p) { return p->row; }

/* -------------------------------------------------------------------------------------------- walking */

kvt_status piece_walk_open(piece_walk *w, const pretokenizer *p) {
    *w = (piece_walk){.p = p, .match = pcre2_match_data_create(1, NULL), .options = PCRE2_NO_UTF_CHECK};
    return w->match ? KVT_OK : KVT_E_MEMORY;
}

void piece_walk_close(piece_walk *w) {
    pcre2_match_data_free(w->match);
    w->match = NULL;
}

static piece_level level_of(size_t first, size_t end) {
    return (piece_level){.first = first, .end = end, .at = first, .match_first = first, .match_end = first};
}

void piece_walk_start(piece_walk *w, const char *text, size_t n) {
    w->text = text;
    w->at = 0;
    for (int i = 0; i < w->p->n_steps; i++) w->level[i] = level_of(0, i == 0 ? n : 0);
}

/* The text was checked once; PCRE2 would check all of it again for every piece. The compiled program may run out of the
 * stack it has, where the interpreter takes memory from the heap. */
static kvt_status search(piece_walk *w, int step, piece_level *l) {
    PCRE2_SPTR text = (PCRE2_SPTR)w->text + l->first;
    size_t n = l->end - l->first, at = l->at - l->first;
    const pcre2_code *code = w->p->code[step];
    int rc = pcre2_match(code, text, n, at, w->options, w->match, w->p->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code, text, n, at, w->options | PCRE2_NO_JIT, w->match, w->p->limits);
    if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) return KVT_E_LIMIT;
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(w->match);
    l->match_first = rc < 0 ? l->end : l->first + found[0];
    l->match_end = rc < 0 ? l->end : l->first + found[1];
    return KVT_OK;
}

/* The next piece of a step's text: up to where the next match begins, or else that match. */
static kvt_status cut(piece_walk *w, int step, size_t *first, size_t *end) {
    piece_level *l = &w->level[step];
    if (l->at == l->match_end) TRY(search(w, step, l));
    *first = l->at;
    *end = l->at = l->at < l->match_first ? l->match_first : l->match_end;
    return KVT_OK;
}

kvt_status piece_next(piece_walk *w, size_t *first) {
    int last = w->p->n_steps - 1, step = last;
    *first = w->at;
    while (step > 0 && w->level[step].at == w->level[step].end) step--;
    if (w->level[step].at == w->level[step].end) return KVT_OK;
    for (;; step++) {
        size_t end;
        TRY(cut(w, step, first, &end));
        if (step == last) {
            w->at = end;
            return KVT_OK;
        }
        w->level[step + 1] = level_of(*first, end);
    }
}
