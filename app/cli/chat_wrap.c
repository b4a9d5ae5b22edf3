/* chat_wrap.c - see chat_wrap.h. */
#include "chat_wrap.h"

#include <string.h>
#include <wchar.h>

#include "base/log.h"

enum { TAB_COLUMNS = 4 };

wrap wrap_of(int columns) {
    return (wrap){ .columns = columns };
}

void wrap_free(wrap *w) {
    byte_list_free(&w->word);
}

static kvt_status line_end(wrap *w, byte_list *out) {
    w->at = 0;
    w->n_blanks = 0;
    w->goes_on = false;
    return byte_list_add(out, "\n", 1);
}

/* Put the word where it fits, on this line or the next. */
static kvt_status word_end(wrap *w, byte_list *out) {
    if (w->word_width == 0) return KVT_OK;
    bool fits = w->goes_on || w->at + w->n_blanks + w->word_width <= w->columns;
    if (!fits && w->at > 0) TRY(line_end(w, out));
    for (; w->n_blanks > 0; w->n_blanks--, w->at++) TRY(byte_list_add(out, " ", 1));
    TRY(byte_list_add(out, w->word.at, w->word.n));
    w->at += w->word_width;
    while (w->at > w->columns) w->at -= w->columns;
    w->word_width = 0;
    w->word.n = 0;
    w->goes_on = false;
    return KVT_OK;
}

/* One character of `width` columns; what has no width goes with what stands before it. */
static kvt_status add_character(wrap *w, const char *bytes, size_t n, int width, byte_list *out) {
    if (width > 1) {
        TRY(word_end(w, out));
        w->goes_on = false;
    }
    TRY(byte_list_add(&w->word, bytes, n));
    w->word_width += width;
    if (width > 1) return word_end(w, out);
    if (w->word_width < w->columns) return KVT_OK;
    TRY(word_end(w, out));
    w->goes_on = true;
    return KVT_OK;
}

static kvt_status add_blanks(wrap *w, int n, byte_list *out) {
    TRY(word_end(w, out));
    w->goes_on = false;
    w->n_blanks += n;
    return KVT_OK;
}

kvt_status wrap_add(wrap *w, const char *bytes, size_t n, byte_list *out) {
    for (size_t i = 0, length; i < n; i += length) {
        wchar_t c;
        length = mbrtowc(&c, bytes + i, n - i, &(mbstate_t){ 0 });
        bool known = length > 0 && length <= n - i;
        int width = known ? wcwidth(c) : -1;
        if (!known) length = 1;
        if (bytes[i] == '\n') {
            TRY(word_end(w, out));
            TRY(line_end(w, out));
        } else if (bytes[i] == ' ' || bytes[i] == '\t') {
            TRY(add_blanks(w, bytes[i] == ' ' ? 1 : TAB_COLUMNS, out));
        } else if (width < 0) {
            TRY(add_character(w, "?", 1, 1, out));
        } else {
            TRY(add_character(w, bytes + i, length, width, out));
        }
    }
    return KVT_OK;
}

kvt_status wrap_end(wrap *w, byte_list *out) {
    return word_end(w, out);
}
