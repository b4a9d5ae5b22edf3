/* spelling.h - how byte-level BPE writes bytes down: each as one printable character (GPT-2's table). */
#ifndef SPELLING_H
#define SPELLING_H

#include "file/file.h"

/* The spelling of a byte as UTF-8: 1 or 2 bytes; returns which. */
int spelling_of_byte(unsigned char byte, char out[2]);
/* The bytes that a text spells, at most as many as it has itself; false: a character of it spells none. */
bool spelling_to_bytes(file_text text, char *out, size_t *n);

#endif
