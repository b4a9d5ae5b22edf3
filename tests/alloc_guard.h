/* alloc_guard.h - proof that code allocates nothing: malloc and its kin are replaced in every test program, and count
 * the calls of all threads while the guard is on. */
#ifndef TESTS_ALLOC_GUARD_H
#define TESTS_ALLOC_GUARD_H

#include <stdbool.h>

/* False where a sanitizer has replaced malloc already: then nothing is counted. */
bool alloc_guard_works(void);

void alloc_guard_on(void);
/* Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and mmap since. */
long alloc_guard_off(void);

#endif
