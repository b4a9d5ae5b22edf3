/* kernels.c - the table of kernels: one per instruction set, each filled scalar first and overwritten upward, and the
 * choice of the one this process runs on. Leaves arithmetic to the files it calls. */
#include "kernel.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "kvtile.h"

enum { PATH_SCALAR, PATH_AVX2, PATH_AVX512, PATH_AVX512BF16, N_PATHS };

static const char *const path_name[N_PATHS] = {"scalar", "avx2", "avx512", "avx512bf16"};
static kernels table[N_PATHS];
static int n_usable; /* the first n_usable tables are filled: what the machine can run */
static int chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int path_find(const char *name) {
    for (int i = 0; name && i < N_PATHS; i++) {
        if (strcmp(name, path_name[i]) == 0) return i;
    }
    return -1;
}

/* The highest path that the machine can run. */
static int path_highest(void) {
    if (sys_has_avx512bf16()) return PATH_AVX512BF16;
    return sys_has_avx512() ? PATH_AVX512 : sys_has_avx2() ? PATH_AVX2 : PATH_SCALAR;
}

/* The fastest, up to the one that KVTILE_CPU names. */
static int path_choose(int highest) {
    int limit = path_find(getenv("KVTILE_CPU"));
    if (limit >= 0) return limit < highest ? limit : highest;
    return highest == PATH_AVX512BF16 && !sys_bf16_is_fast() ? PATH_AVX512 : highest;
}

static void table_fill(kernels *k, int path) {
    attn_scalar(k);
    rows_scalar(k);
    matmul_scalar(k);
    seal_scalar(k);
    codes_scalar(k);
#if defined(__x86_64__)
    if (path >= PATH_AVX2) {
        attn_avx2(k);
        codes_avx2(k);
        code_rows_avx2(k);
        float8_avx2(k);
        rows_avx2(k);
        matmul_int8_avx2(k);
        matmul_int16_avx2(k);
        matmul_f32_avx2(k);
        seal_avx2(k);
    }
    if (path >= PATH_AVX512) {
        attn_avx512(k);
        codes_avx512(k);
        code_rows_avx512(k);
        float8_avx512(k);
        rows_avx512(k);
        matmul_int8_avx512(k);
        matmul_int16_avx512(k);
        matmul_f32_avx512(k);
        seal_avx512(k);
    }
    if (path >= PATH_AVX512BF16) attn_avx512bf16(k);
#endif
    k->cpu = path_name[path];
}

static void tables_make(void) {
    int highest = path_highest();
    n_usable = highest + 1;
    chosen = path_choose(highest);
    for (int i = 0; i < n_usable; i++) table_fill(&table[i], i);
}

const kernels *kernels_get(void) {
    pthread_once(&once, tables_make);
    return &table[chosen];
}

const kernels *kernels_of(const char *cpu) {
    pthread_once(&once, tables_make);
    int path = path_find(cpu);
    return path >= 0 && path < n_usable ? &table[path] : NULL;
}

const char *kvt_cpu(void) { return kernels_get()->cpu; }

/* ---------------------------------------------------------------------------------------- what a format runs on */

/* The lowest path that has the function at this place of the table: it was written there, whoever else uses it. */
static int path_of(size_t at) {
    int path = 0;
    while (memcmp((char *)&table[path] + at, (char *)&table[chosen] + at, sizeof(attn_qk_fn)) != 0) path++;
    return path;
}

/* The lowest of the functions that attention over a format is made of. */
static int path_lowest(int format, kv_kind kind) {
    size_t f = (size_t)format;
    const size_t plain[] = {offsetof(kernels, attn_qk) + f * sizeof(attn_qk_fn),
                            offsetof(kernels, attn_pv) + f * sizeof(attn_pv_fn)},
                 float8[] = {offsetof(kernels, widen_k) + f * sizeof(float8_widen_fn),
                             offsetof(kernels, widen_v) + f * sizeof(float8_widen_fn)},
                 codes[] = {offsetof(kernels, code_qk) + f * sizeof(code_qk_fn),
                            offsetof(kernels, code_pv) + f * sizeof(code_pv_fn)};
    const size_t *const places[] = {plain, float8, codes};
    int qk = path_of(places[kind][0]), pv = path_of(places[kind][1]);
    return qk < pv ? qk : pv;
}

const char *kvt_format_path(kvt_format format) {
    static const char *const text[][N_PATHS] = {
        [KV_PLAIN] = {"scalar float32", "avx2 float32", "avx512 float32", "avx512bf16 float32"},
        [KV_FLOAT8] = {"scalar, widened", "avx2, widened", "avx512, widened", "avx512bf16, widened"},
        [KV_CODES] = {"scalar integers", "avx2 integers", "avx512 vnni", "avx512bf16 vnni"},
    };
    const kv_format *f = kv_format_of((int)format);
    const kernels *k = kernels_get();
    if (!f) return NULL;
    if (format == KVT_BF16 && k->attn_qk_pairs) return "avx512bf16 pairs";
    return text[f->kind][path_lowest((int)format, f->kind)];
}
