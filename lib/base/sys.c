/* sys.c - see sys.h. */
#include "base/sys.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int sys_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

void sys_thread_background(void) {
    enum { NICE = 15 }; /* a thirtieth of a processor that computing threads want too */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); /* Linux: of this thread alone */
}

/* A number alone in a file; SIZE_MAX where there is none ("max"). */
static size_t number_in(const char *path) {
    FILE *f = fopen(path, "r");
    unsigned long long n;
    int got = f ? fscanf(f, "%llu", &n) : 0;
    if (f) fclose(f);
    return got == 1 && n < SIZE_MAX ? (size_t)n : SIZE_MAX;
}

size_t sys_memory_total(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX;
    size_t group = number_in("/sys/fs/cgroup/memory.max");
    return group < machine ? group : machine;
}

/* The number behind a word at the start of a line, times `unit`; 0 where there is none. */
static size_t number_behind(const char *path, const char *word, size_t unit) {
    char line[256];
    size_t n = strlen(word);
    unsigned long long v = 0;
    FILE *f = fopen(path, "r");
    while (f && v == 0 && fgets(line, sizeof line, f))
        if (strncmp(line, word, n) == 0) v = strtoull(line + n, NULL, 10);
    if (f) fclose(f);
    return v <= SIZE_MAX / unit ? (size_t)v * unit : 0;
}

size_t sys_memory_free(void) {
    size_t machine = number_behind("/proc/meminfo", "MemAvailable:", 1024), total = sys_memory_total();
    size_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
    size_t files = number_behind("/sys/fs/cgroup/memory.stat", "inactive_file ", 1);
    if (machine == 0 || machine > total) machine = total;
    if (limit == SIZE_MAX || used == SIZE_MAX) return machine;
    used = used > files ? used - files : 0;
    size_t group = limit > used ? limit - used : 0;
    return group < machine ? group : machine;
}

uint64_t sys_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* __builtin_cpu_supports asks the processor and the operating system (whose support for wide registers counts too). */
bool sys_has_avx2(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d; /* not every compiler's __builtin_cpu_supports knows f16c */
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#else
    return false;
#endif
}

bool sys_has_avx512(void) {
#if defined(__x86_64__)
    return sys_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

bool sys_has_avx512bf16(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return sys_has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & bit_AVX512BF16);
#else
    return false;
#endif
}

/* Measured: one a cycle on AMD's Zen 4, a quarter of that on Intel's Sapphire Rapids, which has AMX for the purpose. */
bool sys_bf16_is_fast(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0, &a, &b, &c, &d) && b == signature_AMD_ebx;
#else
    return false;
#endif
}
