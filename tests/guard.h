/* guard.h - memory that ends at a page nobody may touch: a read or write past the end is a crash, not luck. */
#ifndef TESTS_GUARD_H
#define TESTS_GUARD_H

#include <stddef.h>

/* n bytes (at least 1), zeroed. They end at an unreadable page where n is a multiple of align (a power of two up to a
 * page), otherwise less than align bytes before it; another lies before them. Aborts where the system has no memory. */
void *guard_alloc(size_t n, size_t align);
void guard_free(void *p); /* NULL is fine */

#endif
