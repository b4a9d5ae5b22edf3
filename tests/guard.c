/* guard.c - memory that ends at a page nobody may touch.
 *
 *     [ size, unreadable ][ data pages ........ n bytes ][ unreadable ]
 */
#include "guard.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

void *guard_alloc(size_t n, size_t align) {
    const size_t page = page_size(), data = (n + page - 1) / page * page, whole = data + 2 * page;
    char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (n == 0 || base == MAP_FAILED) abort();
    *(size_t *)base = whole;
    if (mprotect(base, page, PROT_NONE) || mprotect(base + page + data, page, PROT_NONE)) abort();
    uintptr_t start = ((uintptr_t)base + page + data - n) & ~(uintptr_t)(align - 1);
    return (void *)start;
}

void guard_free(void *p) {
    if (!p) return;
    /* p lies in the first page of data: only less than a page is left before it. */
    const size_t page = page_size();
    char *base = (char *)((uintptr_t)p & ~(uintptr_t)(page - 1)) - page;
    if (mprotect(base, page, PROT_READ) || munmap(base, *(size_t *)base)) abort();
}
