/* stop.h - texts that end an answer, found byte by byte as it comes.
 *
 * Owns the search. Leaves to others what the bytes are and what happens then. */
#ifndef APP_STOP_H
#define APP_STOP_H

#include <stddef.h>

#include "kvtile.h"

enum { STOP_TEXTS_MAX = 20 }; /* 16 of a user, and what a chat template adds */

/* The texts, for any number of answers. */
typedef struct stop_list stop_list;

/* The texts are copied. KVT_E_ARGUMENT: one is empty, or there are more than STOP_TEXTS_MAX. */
kvt_status stop_list_new(stop_list **out, const char *const *texts, int n);
void stop_list_free(stop_list *l); /* NULL is fine */

/* How much of each text the answer ends with; {0} at its beginning. */
typedef struct stop_scan {
    size_t n_met[STOP_TEXTS_MAX];
} stop_scan;

/* Read n bytes of the answer up to the end of the first text that is whole; of two that end there, the longer one.
 * Returns its length and sets *n_read to the bytes read, its last one included. 0: none. */
size_t stop_scan_read(stop_scan *s, const stop_list *l, const char *bytes, size_t n, size_t *n_read);
/* The bytes at the answer's end that may be the beginning of a text. */
size_t stop_scan_held(const stop_scan *s, const stop_list *l);

#endif
