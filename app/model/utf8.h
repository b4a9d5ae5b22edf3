/* utf8.h - where characters begin and end in bytes from outside. */
#ifndef UTF8_H
#define UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "tokenizer.h"

/* At the first of n bytes (at least 1): length of the character there, or of the maximal part of one (whole false). */
size_t utf8_part(const char *text, size_t n, bool *whole);

bool utf8_valid(const char *text, size_t n);
/* Append the text with U+FFFD for every maximal part of a character, and for every byte that begins none. */
kvt_status utf8_repair(const char *text, size_t n, byte_list *out);
/* How many of the last bytes (0 .. 3) are the beginning of a character that more bytes could complete. */
size_t utf8_unfinished(const char *text, size_t n);
/* How many of the first bytes are white space (Unicode's White_Space). */
size_t utf8_blanks(const char *text, size_t n);

#endif
