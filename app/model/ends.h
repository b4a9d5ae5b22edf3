/* ends.h - tokens that end an answer: those the file names, and those known by their text, because files name one or
 * two of the several that a model may write. */
#ifndef ENDS_H
#define ENDS_H

#include "vocab.h"

enum { ENDS_MAX = 20 };

typedef struct ends {
    int32_t id[ENDS_MAX];
    int n;
} ends;

/* id: one that the file names, or -1. */
void ends_add(ends *e, int32_t id);
void ends_add_known(ends *e, const vocab *v);
bool ends_has(const ends *e, int32_t id);

#endif
