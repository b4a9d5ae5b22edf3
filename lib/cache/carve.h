/* carve.h - cut one region of memory into arrays. The same cuts run twice: without a base they only add up
 * (kvt_bytes), with one they assign (kvt_open), so the plan and the allocation cannot disagree. */
#ifndef KVT_CARVE_H
#define KVT_CARVE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct carve {
    char *base;  /* NULL: measure only */
    size_t used; /* SIZE_MAX once a size has overflowed */
} carve;

/* n elements of `each` bytes, aligned to 64. */
static inline void *carve_take(carve *c, size_t n, size_t each) {
    enum { LINE = 64 };
    size_t bytes, end;
    if (!mem_mul(n, each, &bytes) || bytes > SIZE_MAX - LINE || !mem_add(c->used, mem_round(bytes, LINE), &end)) {
        c->used = SIZE_MAX;
        return NULL;
    }
    void *p = c->base ? c->base + c->used : NULL;
    c->used = end;
    return p;
}

#endif
