/* mem.c - see mem.h. */
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

static _Thread_local const char *guard;

bool mem_mul(size_t a, size_t b, size_t *out) {
    if (!__builtin_mul_overflow(a, b, out)) return true;
    *out = SIZE_MAX;
    return false;
}

bool mem_add(size_t a, size_t b, size_t *out) {
    if (!__builtin_add_overflow(a, b, out)) return true;
    *out = SIZE_MAX;
    return false;
}

void mem_guard(const char *where) {
    guard = where;
}

const char *mem_guarded(void) {
    return guard;
}

/* Anonymous memory whose start is a huge page's: map one page more and give the ends back. */
static void *map_huge(size_t n) {
    size_t size = mem_round(n, HUGE_PAGE), all;
    if (size < n || !mem_add(size, HUGE_PAGE, &all)) return NULL;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    char *start = (char *)mem_round((uintptr_t)p, HUGE_PAGE);
    if (start > p) munmap(p, (size_t)(start - p));
    munmap(start + size, (size_t)(p + all - (start + size)));
    madvise(start, size, MADV_HUGEPAGE); /* a wish: refused, the pages are small and all still works */
    return start;
}

static bool hooked(const mem_source *source) {
    return source && source->alloc;
}

void *mem_take(const mem_source *source, size_t n) {
    if (guard) {
        fprintf(stderr, "kvtile: memory asked for inside %s\n", guard);
        abort();
    }
    if (n == 0 || n > SIZE_MAX / 2) return NULL;
    if (hooked(source)) {
        void *p = source->alloc(source->ctx, n, n >= HUGE_PAGE ? HUGE_PAGE : LINE);
        return p ? memset(p, 0, n) : NULL;
    }
    if (n >= HUGE_PAGE) return map_huge(n);
    void *p = aligned_alloc(LINE, mem_round(n, LINE));
    return p ? memset(p, 0, n) : NULL;
}

void mem_give(const mem_source *source, void *p, size_t n) {
    if (!p) return;
    if (hooked(source)) source->release(source->ctx, p, n);
    else if (n >= HUGE_PAGE) munmap(p, mem_round(n, HUGE_PAGE));
    else free(p);
}
