/* chat_wrap.h - text that comes in pieces, broken between words into lines of a terminal, and with nothing in it that a
 * terminal would obey.
 *
 * A word is held until what follows shows where it ends; wide characters are words of their own. Blanks at the
 * beginning of a line stay, a word longer than a line is left to the terminal. */
#ifndef CHAT_WRAP_H
#define CHAT_WRAP_H

#include "model/model.h"

typedef struct wrap {
    int columns;
    int at;         /* the column that comes next */
    int n_blanks;   /* before the word */
    int word_width; /* columns */
    bool goes_on;   /* the word began in what was put out already: it is longer than a line */
    byte_list word;
} wrap;

wrap wrap_of(int columns);
void wrap_free(wrap *w);
/* Append to out what can be shown. The bytes are whole characters. KVT_E_MEMORY: some of it is missing. */
kvt_status wrap_add(wrap *w, const char *bytes, size_t n, byte_list *out);
/* The last word. */
kvt_status wrap_end(wrap *w, byte_list *out);

#endif
