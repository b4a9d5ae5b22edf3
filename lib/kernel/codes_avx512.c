/* codes_avx512.c - scores and values over codes in AVX-512 with VNNI: the words of it; the rest is codes_body.h.
 *
 * vpdpbusd adds four products of an unsigned and a signed byte to each sum of 32 bits. Codes of keys come with 128
 * added, as unsigned bytes, and a query's element is 256 times one signed byte plus another; weights are two unsigned
 * bytes, and codes of values signed. So there are two sums of each row. Layouts:
 *
 *     queries  [dim/4][ATTN_ROWS][2: high, low][4 elements]; sum: less 128 times those of high and of low ones
 *     weights  [tile][ATTN_ROWS][4 quads of tokens][2: high, low][4 tokens] */
#include <string.h>

#include "kernel.h"
#include "words_int_avx512.h"

enum {
    ROWS = 8, /* 32 registers: 8 rows of two sums by one word, or 4 by two */
    COLUMNS_MOST = 4,
    PV_ROWS = 4, /* by two words: more rows and words than this were slower on Zen 4 */
    PV_TILES = 4
};
#define QK_COLUMNS(rows) ((rows) <= 4 ? 2 : 1)
#define PV_COLUMNS(rows) ((rows) <= 2 ? 4 : 2)
#define QK_EACH EACH8
#define PV_EACH EACH4

typedef mi table;
typedef struct dots {
    mi high, low;
} dots;
typedef const uint8_t *key_factor;
typedef struct value_factor {
    mi high, low;
} value_factor;

WORD mi mi_add(mi x, mi y) { return _mm512_add_epi32(x, y); }
WORD void mi_store(void *p, mi x) { _mm512_storeu_si512(p, x); }
WORD mi mi_shift_right(mi x, int n) { return _mm512_srl_epi16(x, _mm_cvtsi32_si128(n)); }
/* LANES bf16. */
WORD mf mf_load_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

WORD table table_of(const int8_t *level, const int keys) {
    const mi x = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)level));
    return keys ? code8(x).a : x;
}
WORD code code8_key(mi x) { return code8(x); }
WORD code code8_value(mi x) { return (code){.a = x}; }
WORD code code_key(table t, mi x) { return (code){.a = _mm512_shuffle_epi8(t, x)}; }
WORD code code_value(table t, mi x) { return (code){.a = _mm512_shuffle_epi8(t, x)}; }

WORD dots dots_start(const int32_t *sum) { return (dots){_mm512_set1_epi32(sum[0]), _mm512_set1_epi32(sum[1])}; }
WORD dots dots_zero(void) { return (dots){mi_zero(), mi_zero()}; }
WORD mi dots_end(dots d) { return _mm512_add_epi32(_mm512_slli_epi32(d.high, 8), d.low); }

WORD key_factor key_factor_of(const uint8_t *q) { return q; }
/* The factor comes from memory within the instruction; compilers fetch it into a register, and then lack those.
 * Volatile, so that prefetches stay between them. */
WORD mi dot_memory(mi d, mi w, const uint8_t *q) {
    __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(d) : "v"(w), "m"(*(const uint8_t(*)[4])q));
    return d;
}
WORD dots dots_key(dots d, code w, key_factor f) {
    return (dots){dot_memory(d.high, w.a, f), dot_memory(d.low, w.a, f + 4)};
}
WORD value_factor value_factor_of(const uint8_t *p) { return (value_factor){mi_set4(p), mi_set4(p + 4)}; }
WORD dots dots_value(dots d, code w, value_factor f) {
    return (dots){_mm512_dpbusd_epi32(d.high, f.high, w.a), _mm512_dpbusd_epi32(d.low, f.low, w.a)};
}

#include "codes_body.h"

void codes_avx512(kernels *k) { codes_fill(k); }
