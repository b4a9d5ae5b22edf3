/* numbers.h - any whole numbers numbered anew, 0, 1, 2, ..., in order of first appearance. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>

/* {0} is empty. */
typedef struct numbers {
    int64_t *key;  /* [n_slots] */
    int32_t *slot; /* [n_slots] the number of each key, -1: empty */
    uint32_t n_slots;
    int32_t n;
} numbers;

/* The number of a key, a new one where it has none; -1: no memory. */
int32_t numbers_of(numbers *t, int64_t key);
void numbers_free(numbers *t);

#endif
