/* test_mem.c - checked sizes, where memory comes from and goes to, the guard against it, and bounded reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "guard.h"

/* ----------------------------------------------------------------------------------------------- sizes */

static void test_sizes_overflow_to_the_largest(void **state) {
    (void)state;
    size_t n;
    assert_true(mem_mul(3, 5, &n) && n == 15);
    assert_true(mem_mul(0, SIZE_MAX, &n) && n == 0);
    assert_true(mem_mul(SIZE_MAX, 1, &n) && n == SIZE_MAX);
    assert_false(mem_mul(SIZE_MAX / 2 + 1, 2, &n));
    assert_true(n == SIZE_MAX);
    assert_true(mem_add(3, 5, &n) && n == 8);
    assert_false(mem_add(SIZE_MAX, 1, &n));
    assert_true(n == SIZE_MAX);
    assert_true(mem_round(0, 64) == 0 && mem_round(1, 64) == 64 && mem_round(64, 64) == 64 && mem_round(65, 64) == 128);
}

/* ---------------------------------------------------------------------------------------------- memory */

static int all_zero(const unsigned char *p, size_t n) {
    size_t i = 0;
    while (i < n && p[i] == 0) i++;
    return i == n;
}

static void test_memory_is_zero_and_aligned(void **state) {
    (void)state;
    const size_t sizes[] = {1, 63, 64, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20};
    for (int round = 0; round < 3; round++) /* the second time over what the first left dirty */
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            unsigned char *p = mem_take(NULL, sizes[i]);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % (sizes[i] >= 2 << 20 ? 2 << 20 : 64), 0);
            assert_true(all_zero(p, sizes[i]));
            memset(p, 0xff, sizes[i]);
            mem_give(NULL, p, sizes[i]);
        }
    mem_give(NULL, NULL, 7);
}

static void test_what_cannot_be_had_is_null(void **state) {
    (void)state;
    assert_null(mem_take(NULL, 0));
    assert_null(mem_take(NULL, SIZE_MAX));
    assert_null(mem_take(NULL, SIZE_MAX - (2 << 20)));
    assert_null(mem_take(NULL, SIZE_MAX / 2 - 1));
}

/* Hooks that count, and hand out dirty memory. */
typedef struct hooks {
    size_t n_bytes, n_live, align_last;
    int refuse;
} hooks;

static void *hook_alloc(void *ctx, size_t bytes, size_t align) {
    hooks *h = ctx;
    h->align_last = align;
    if (h->refuse) return NULL;
    h->n_bytes += bytes;
    h->n_live++;
    void *p = aligned_alloc(align, mem_round(bytes, align));
    return p ? memset(p, 0xee, bytes) : NULL;
}

static void hook_release(void *ctx, void *p, size_t bytes) {
    hooks *h = ctx;
    h->n_bytes -= bytes;
    h->n_live--;
    free(p);
}

static void test_the_callers_hooks_are_used(void **state) {
    (void)state;
    hooks h = {0};
    mem_source source = {hook_alloc, hook_release, &h};
    unsigned char *small = mem_take(&source, 100);
    assert_int_equal(h.align_last, 64);
    unsigned char *large = mem_take(&source, 3 << 20);
    assert_int_equal(h.align_last, 2 << 20);
    assert_true(all_zero(small, 100) && all_zero(large, 3 << 20));
    assert_int_equal(h.n_bytes, 100 + (3 << 20));
    mem_give(&source, small, 100);
    mem_give(&source, large, 3 << 20);
    mem_give(&source, NULL, 1);
    assert_int_equal(h.n_bytes + h.n_live, 0);
    h.refuse = 1;
    assert_null(mem_take(&source, 100));
}

/* ----------------------------------------------------------------------------------------------- guard */

/* How a child ends that asks for memory, inside the guard or behind it. */
static int child_ends(int inside) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        mem_guard("step");
        if (!inside) mem_guard(NULL);
        _exit(mem_take(NULL, 100) ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static void test_the_guard_aborts(void **state) {
    (void)state;
    assert_null(mem_guarded());
    mem_guard("here");
    assert_string_equal(mem_guarded(), "here");
    mem_guard(NULL);
    assert_null(mem_guarded());
    int inside = child_ends(1), behind = child_ends(0);
    assert_true(WIFSIGNALED(inside) && WTERMSIG(inside) == SIGABRT);
    assert_true(WIFEXITED(behind) && WEXITSTATUS(behind) == 0);
}

/* ---------------------------------------------------------------------------------------------- cursor */

static void test_a_cursor_reads_little_endian_anywhere(void **state) {
    (void)state;
    uint8_t *data = guard_alloc(17, 1);
    for (int i = 0; i < 17; i++) data[i] = (uint8_t)(0xf0 + i);
    cursor c = cursor_of(data, 17);
    assert_true(cursor_u8(&c) == 0xf0);
    assert_true(cursor_u16(&c) == 0xf2f1);
    assert_true(cursor_u32(&c) == 0xf6f5f4f3);
    assert_true(cursor_offset(&c) == 7 && cursor_left(&c) == 10);
    assert_true(cursor_u64(&c) == 0xfefdfcfbfaf9f8f7);
    assert_true(cursor_bytes(&c, 2) == data + 15);
    assert_true(cursor_left(&c) == 0 && !c.failed);
    assert_true(cursor_bytes(&c, 0) == data + 17 && !c.failed);
    guard_free(data);
}

static void test_a_cursor_that_failed_stays_failed(void **state) {
    (void)state;
    uint8_t *data = guard_alloc(7, 1);
    memset(data, 0xff, 7);
    cursor c = cursor_of(data, 7);
    assert_true(cursor_u64(&c) == 0 && c.failed);
    assert_true(cursor_u8(&c) == 0 && c.failed); /* though a byte is there */
    assert_null(cursor_bytes(&c, 0));
    cursor huge = cursor_of(data, 7);
    assert_null(cursor_bytes(&huge, UINT64_MAX));
    assert_true(huge.failed);
    cursor none = cursor_of(NULL, 0);
    assert_true(cursor_u8(&none) == 0 && none.failed);
    guard_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_overflow_to_the_largest),
        cmocka_unit_test(test_memory_is_zero_and_aligned),
        cmocka_unit_test(test_what_cannot_be_had_is_null),
        cmocka_unit_test(test_the_callers_hooks_are_used),
        cmocka_unit_test(test_the_guard_aborts),
        cmocka_unit_test(test_a_cursor_reads_little_endian_anywhere),
        cmocka_unit_test(test_a_cursor_that_failed_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
