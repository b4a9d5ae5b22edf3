/* ints.h - the smaller, the larger, and division rounded up. */
#ifndef KVT_INTS_H
#define KVT_INTS_H

#include <stddef.h>

static inline int int_least(int a, int b) { return a < b ? a : b; }
static inline int int_most(int a, int b) { return a > b ? a : b; }
static inline size_t size_least(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t size_most(size_t a, size_t b) { return a > b ? a : b; }
/* n 0 or more, n + by an int. */
static inline int int_ceil_div(int n, int by) { return (n + by - 1) / by; }

#endif
