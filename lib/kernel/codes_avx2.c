/* codes_avx2.c - scores and values over codes in AVX2: the words of it; the rest is codes_body.h.
 *
 * vpmaddwd multiplies codes that were widened to 16 bits by queries and weights of 16 bits. A word's even and odd bytes
 * are widened apart. Layouts, elements of four in the order 0 2 1 3:
 *
 *     queries  [dim/4][ATTN_ROWS][4 elements] of 16 bits
 *     weights  [tile][ATTN_ROWS][16 tokens] of 16 bits */
#include <string.h>

#include "kernel.h"
#include "words_int_avx2.h"

enum {
    ROWS = 4, /* 16 registers: 4 rows by two words, two words' codes, and a factor */
    COLUMNS_MOST = 2,
    PV_ROWS = 4,
    PV_TILES = 4
};
#define QK_COLUMNS(rows) 2
#define PV_COLUMNS(rows) 2
#define QK_EACH EACH4
#define PV_EACH EACH4

typedef mi table;
typedef mi dots;
typedef struct factor {
    mi even, odd;
} key_factor, value_factor;

WORD mi mi_add(mi x, mi y) { return _mm256_add_epi32(x, y); }
WORD void mi_store(void *p, mi x) { _mm256_storeu_si256(p, x); }
WORD mi mi_shift_right(mi x, int n) { return _mm256_srl_epi16(x, _mm_cvtsi32_si128(n)); }
/* LANES bf16. */
WORD mf mf_load_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

WORD table table_of(const int8_t *level, const int keys) {
    (void)keys;
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)level));
}
WORD code code8_key(mi x) { return wide8(x); }
WORD code code8_value(mi x) { return wide8(x); }
WORD code code_key(table t, mi x) { return wide8(_mm256_shuffle_epi8(t, x)); }
WORD code code_value(table t, mi x) { return wide8(_mm256_shuffle_epi8(t, x)); }

WORD dots dots_start(const int32_t *sum) {
    (void)sum;
    return mi_zero();
}
WORD dots dots_zero(void) { return mi_zero(); }
WORD mi dots_end(dots d) { return d; }

WORD key_factor key_factor_of(const uint8_t *q) { return (key_factor){mi_set4(q), mi_set4(q + 4)}; }
WORD dots dots_key(dots d, code w, key_factor f) {
    d = dot_step(mi_add(d, _mm256_madd_epi16(w.a, f.even)));
    return dot_step(mi_add(d, _mm256_madd_epi16(w.b, f.odd)));
}
WORD value_factor value_factor_of(const uint8_t *p) { return key_factor_of(p); }
WORD dots dots_value(dots d, code w, value_factor f) { return dots_key(d, w, f); }

#include "codes_body.h"

void codes_avx2(kernels *k) { codes_fill(k); }
