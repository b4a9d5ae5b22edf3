/* chat_lines.h - lines that somebody types, or that come through a pipe.
 *
 * On a terminal they are edited (libedit) and remembered from one day to the next; text that is pasted stays one line,
 * whatever line breaks it holds. Owns the terminal while a line is typed. Knows nothing of what the lines say. */
#ifndef CHAT_LINES_H
#define CHAT_LINES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum lines_status {
    LINES_ONE,     /* here is a line */
    LINES_END,     /* of the input, or Ctrl-D on an empty line */
    LINES_CLEARED, /* Ctrl-C: what was typed is gone */
    LINES_REFUSED, /* Ctrl-C on an empty line */
    LINES_STOPPED, /* a signal asks the program to end */
    LINES_MEMORY   /* there is none for so long a line */
} lines_status;

typedef struct lines lines;

/* terminal: stdin and stderr are one, so there is somebody to prompt. NULL: no memory. */
lines *lines_open(bool terminal);
void lines_close(lines *l); /* NULL is fine */

/* *text [*n], without its line break and with a 0 behind it, is good until the next call. */
lines_status lines_next(lines *l, const char *prompt, const char **text, size_t *n);
/* Keep it in the history. */
void lines_remember(lines *l, const char *text);

/* While an answer is printed nothing that is typed is to appear in it; it is there for the next line. */
void lines_quiet(lines *l, bool quiet);

#endif
