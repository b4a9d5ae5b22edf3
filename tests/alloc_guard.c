/* alloc_guard.c - see alloc_guard.h. Calls from the library and the test are counted, those inside shared libraries are
 * not: they reach the C library by themselves. */
#include "alloc_guard.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif

static atomic_bool guarding;
static atomic_long n_calls;

#if !defined(SANITIZED) && defined(__GLIBC__)

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t each);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);

static void count(void) {
    if (atomic_load_explicit(&guarding, memory_order_relaxed)) atomic_fetch_add(&n_calls, 1);
}

void *malloc(size_t n) {
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each) {
    count();
    return __libc_calloc(n, each);
}

void *realloc(void *p, size_t n) {
    count();
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n) {
    count();
    return __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n) {
    count();
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}

void *mmap(void *at, size_t n, int protection, int flags, int file, off_t offset) {
    count();
    return (void *)syscall(SYS_mmap, at, n, protection, flags, file, offset);
}

bool alloc_guard_works(void) {
    return true;
}

#else

bool alloc_guard_works(void) {
    return false;
}

#endif

void alloc_guard_on(void) {
    atomic_store(&n_calls, 0);
    atomic_store(&guarding, true);
}

long alloc_guard_off(void) {
    atomic_store(&guarding, false);
    return atomic_load(&n_calls);
}
