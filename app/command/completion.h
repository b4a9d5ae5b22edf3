/* completion.h - what the writers of completion scripts, one file for each shell, share. All of them walk the table of
 * commands; the words of a script are the names, choices and endings that stand there. */
#ifndef APP_COMPLETION_H
#define APP_COMPLETION_H

#include "command.h"

void completion_bash(FILE *to);
void completion_zsh(FILE *to);
void completion_fish(FILE *to);

/* Does a value follow this option? */
bool completion_takes_value(const option *o);
/* "a|b|c" or "a b c" with another sign between the words. */
void completion_words(FILE *to, const char *words, const char *between);
/* Are there words that it offers? */
bool completion_has_words(const option *o);
/* These, with spaces between them, and a backslash before each of some letters. */
void completion_offer(FILE *to, const option *o, const char *escaped);
/* A text with a backslash before each of some letters. */
void completion_escaped(FILE *to, const char *text, const char *letters);

#endif
