/* seal_avx512.c - sealing and rotation in AVX-512: the words that only they need; the rest is seal_body.h. */
#include "kernel.h"

#include <string.h>

#include "base/unroll.h"
#include "seal.h"
#include "seal_turn_avx2.h"
#include "words_avx512.h"

WORD vf vf_sub(vf x, vf y) { return _mm512_sub_ps(x, y); }
WORD vi vf_bits(vf x) { return _mm512_castps_si512(x); }
WORD vf vf_abs(vf x) { return _mm512_abs_ps(x); }
/* x where a > b, otherwise y. */
WORD vf vf_if_above(vf a, vf b, vf x, vf y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}

WORD vi vi_zero(void) { return _mm512_setzero_si512(); }
WORD vi vi_set1(int x) { return _mm512_set1_epi32(x); }
WORD vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
WORD void vi_store(void *p, vi x) { _mm512_storeu_si512(p, x); }
WORD vi vi_add(vi x, vi y) { return _mm512_add_epi32(x, y); }
WORD vi vi_and(vi x, vi y) { return _mm512_and_si512(x, y); }
WORD vi vi_or(vi x, vi y) { return _mm512_or_si512(x, y); }
WORD vi vi_xor(vi x, vi y) { return _mm512_xor_si512(x, y); }
WORD vi vi_left(vi x, int n) { return _mm512_slli_epi32(x, (unsigned)n); }
WORD vi vi_right(vi x, int n) { return _mm512_srli_epi32(x, (unsigned)n); }
WORD vi vi_sign(vf x) { return _mm512_srai_epi32(vf_bits(x), 31); } /* all bits or none */
WORD vi vi_nearest(vf x) { return _mm512_cvtps_epi32(x); }
WORD vi vi_if_above(vi a, int b, vi x, vi y) {
    return _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, _mm512_set1_epi32(b)), y, x);
}
/* Bits of the larger size. */
WORD vi vi_most(vi most, vf x) { return _mm512_max_epi32(most, vf_bits(_mm512_abs_ps(x))); }
/* A lane is at least `from`. */
WORD int vi_any_from(vi x, int from) { return _mm512_cmpge_epi32_mask(x, _mm512_set1_epi32(from)) != 0; }

/* Thresholds in one register, those of the first questions in every lane of others. */
typedef struct sizer {
    vf level, threshold, each[6];
} sizer;

WORD sizer sizer_of(const seal_levels *l) {
    const __mmask16 low = 0xff;
    sizer s = {_mm512_maskz_loadu_ps(low, l->level), _mm512_maskz_loadu_ps(low, l->threshold)};
    UNROLL for (int i = 0; i < 6; i++) s.each[i] = vf_set1(l->threshold[i]);
    return s;
}

WORD __mmask16 at_least(vf z, vf threshold) { return _mm512_cmp_ps_mask(z, threshold, _CMP_GE_OQ); }

/* Number of thresholds that are at most z, by halving; the level of that size. */
WORD vi sizes_of(const sizer *s, const int bits, vf z, vf *level) {
    vi size = vi_zero();
    vf threshold = s->each[0];
    if (bits == 3) {
        __mmask16 upper = at_least(z, s->each[1]);
        size = _mm512_maskz_set1_epi32(upper, 2);
        threshold = _mm512_mask_blend_ps(upper, s->each[0], s->each[2]);
    } else if (bits == 4) {
        __mmask16 upper = at_least(z, s->each[3]);
        __mmask16 odd = at_least(z, _mm512_mask_blend_ps(upper, s->each[1], s->each[5]));
        size = _mm512_maskz_set1_epi32(upper, 4);
        size = _mm512_mask_or_epi32(size, odd, size, vi_set1(2));
        threshold = _mm512_permutexvar_ps(size, s->threshold);
    }
    size = _mm512_mask_or_epi32(size, at_least(z, threshold), size, vi_set1(1));
    *level = _mm512_permutexvar_ps(size, s->level);
    return size;
}

/* Sums and differences of lanes h apart, from the lanes and their partners. */
WORD vf fold(vf x, vf partner, __mmask16 upper) {
    __m512i bits = vf_bits(x);
    bits = _mm512_mask_xor_epi32(bits, upper, bits, vi_set1(INT32_MIN));
    return vf_add(partner, _mm512_castsi512_ps(bits));
}
WORD vf vf_rotate16(vf x) {
    x = fold(x, _mm512_permute_ps(x, 0xb1), 0xaaaa);
    x = fold(x, _mm512_permute_ps(x, 0x4e), 0xcccc);
    x = fold(x, _mm512_shuffle_f32x4(x, x, 0xb1), 0xf0f0);
    return fold(x, _mm512_shuffle_f32x4(x, x, 0x4e), 0xff00);
}

#include "seal_body.h"

void seal_avx512(kernels *k) {
    seal_fill(k);
}
