/* fp.h - the floating-point mode of the numeric contract (section 1).
 * Each public call that computes brackets itself: unsigned fp = fp_enter(); ... fp_leave(fp); */
#ifndef KVT_FP_H
#define KVT_FP_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
/* Nearest even, FTZ, DAZ, all exceptions masked. */
static inline uint64_t fp_enter(void) {
    uint64_t callers = _mm_getcsr();
    _mm_setcsr(0x9FC0);
    return callers;
}
/* The whole register goes back, so the caller's sticky exception flags stay as they were too. */
static inline void fp_leave(uint64_t callers) {
    _mm_setcsr((unsigned)callers);
}
#elif defined(__aarch64__)
static inline uint64_t fp_enter(void) {
    uint64_t callers;
    __asm__ volatile("mrs %0, fpcr" : "=r"(callers));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)1 << 24)); /* FZ; nearest even, nothing trapped */
    return callers;
}
static inline void fp_leave(uint64_t callers) {
    __asm__ volatile("msr fpcr, %0" : : "r"(callers));
}
#else
static inline uint64_t fp_enter(void) { return 0; }
static inline void fp_leave(uint64_t callers) { (void)callers; }
#endif

#endif
