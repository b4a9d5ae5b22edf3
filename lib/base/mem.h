/* mem.h - memory: checked sizes, allocation through the caller's hooks or in huge pages, and the guard that
 * turns an allocation in the wrong place into a crash with a name. */
#ifndef KVT_MEM_H
#define KVT_MEM_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtile.h"

/* *out = a * b, a + b; false on overflow (and *out is SIZE_MAX). */
bool mem_mul(size_t a, size_t b, size_t *out);
bool mem_add(size_t a, size_t b, size_t *out);
/* n rounded up to a multiple of to (a power of two); n is far from SIZE_MAX. */
static inline size_t mem_round(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }

/* Where memory comes from: the hooks of kvt_options, or neither. */
typedef struct mem_source {
    kvt_alloc_fn alloc;
    kvt_release_fn release;
    void *ctx;
} mem_source;

/* Zeroed memory aligned to 64 bytes; from 2 MiB on aligned to 2 MiB and in huge pages where the system offers them.
 * source NULL or without hooks: anonymous memory, whose untouched pages cost nothing. NULL: not to be had; n = 0 gives
 * NULL too. */
void *mem_take(const mem_source *source, size_t n);
void mem_give(const mem_source *source, void *p, size_t n); /* n as taken; NULL is fine */

/* From mem_guard("decode") to mem_guard(NULL) any mem_take on this thread aborts, and so does any malloc in the tests
 * that wrap it. The value is the guard's name. */
void mem_guard(const char *where);
const char *mem_guarded(void);

#endif
