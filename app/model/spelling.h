/* spelling.h - how files write tokens down: byte-level BPE each byte as one printable character (GPT-2's table),
 * SentencePiece a blank as U+2581 and a byte as <0x41>. */
#ifndef SPELLING_H
#define SPELLING_H

#include "file/file.h"

/* The spelling of a byte as UTF-8: 1 or 2 bytes; returns which. */
int spelling_of_byte(unsigned char byte, char out[2]);
/* The bytes that a text spells, at most as many as it has itself; false: a character of it spells none. */
bool spelling_to_bytes(file_text text, char *out, size_t *n);

/* The text with a blank for every U+2581; returns its length. */
size_t spelling_to_blanks(file_text text, char *out);
/* The byte that <0x41> spells; false: the text is not of that form. */
bool spelling_to_byte(file_text text, char *out);

size_t spelling_hash(const char *at, size_t n);

#endif
