/* seal_avx2.c - sealing and rotation in AVX2: the words that only they need; the rest is seal_body.h. */
#include "kernel.h"

#include <string.h>

#include "base/unroll.h"
#include "seal.h"
#include "seal_turn_avx2.h"
#include "words_avx2.h"

#define EACH(f, x, y) {f((x).a, (y).a), f((x).b, (y).b)}
#define EACH1(f, x, n) {f((x).a, n), f((x).b, n)}

WORD vf vf_sub(vf x, vf y) { return (vf)EACH(_mm256_sub_ps, x, y); }
WORD vi vf_bits(vf x) { return (vi){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
WORD vf vf_abs(vf x) {
    const __m256 sign = _mm256_set1_ps(-0.f);
    return (vf){_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
WORD __m256 if_above8(__m256 a, __m256 b, __m256 x, __m256 y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
/* x where a > b, otherwise y. */
WORD vf vf_if_above(vf a, vf b, vf x, vf y) {
    return (vf){if_above8(a.a, b.a, x.a, y.a), if_above8(a.b, b.b, x.b, y.b)};
}

WORD vi vi_set1(int x) { return (vi){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
WORD vi vi_zero(void) { return vi_set1(0); }
WORD vi vi_load(const void *p) {
    const __m256i *half = p;
    return (vi){_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
}
WORD void vi_store(void *p, vi x) {
    __m256i *half = p;
    _mm256_storeu_si256(half, x.a);
    _mm256_storeu_si256(half + 1, x.b);
}
WORD vi vi_add(vi x, vi y) { return (vi)EACH(_mm256_add_epi32, x, y); }
WORD vi vi_and(vi x, vi y) { return (vi)EACH(_mm256_and_si256, x, y); }
WORD vi vi_or(vi x, vi y) { return (vi)EACH(_mm256_or_si256, x, y); }
WORD vi vi_xor(vi x, vi y) { return (vi)EACH(_mm256_xor_si256, x, y); }
WORD vi vi_left(vi x, int n) { return (vi)EACH1(_mm256_slli_epi32, x, n); }
WORD vi vi_right(vi x, int n) { return (vi)EACH1(_mm256_srli_epi32, x, n); }
WORD vi vi_sign(vf x) { return (vi)EACH1(_mm256_srai_epi32, vf_bits(x), 31); } /* all bits or none */
WORD vi vi_nearest(vf x) { return (vi){_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
WORD vi vi_if_above(vi a, int b, vi x, vi y) {
    const __m256i than = _mm256_set1_epi32(b);
    return (vi){_mm256_blendv_epi8(y.a, x.a, _mm256_cmpgt_epi32(a.a, than)),
                _mm256_blendv_epi8(y.b, x.b, _mm256_cmpgt_epi32(a.b, than))};
}
/* Bits of the larger size. */
WORD vi vi_most(vi most, vf x) { return (vi)EACH(_mm256_max_epi32, most, vf_bits(vf_abs(x))); }
/* A lane is at least `from`. */
WORD int vi_any_from(vi x, int from) {
    __m256i most = _mm256_max_epi32(x.a, x.b);
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(most, _mm256_set1_epi32(from - 1))) != 0;
}

/* Thresholds in one register, those of the first questions in every lane of others. */
typedef struct sizer {
    __m256 level, threshold, each[6];
} sizer;

WORD sizer sizer_of(const seal_levels *l) {
    sizer s = {_mm256_loadu_ps(l->level), _mm256_loadu_ps(l->threshold)};
    UNROLL for (int i = 0; i < 6; i++) s.each[i] = _mm256_set1_ps(l->threshold[i]);
    return s;
}

WORD __m256 at_least(__m256 z, __m256 threshold) { return _mm256_cmp_ps(z, threshold, _CMP_GE_OQ); }
WORD __m256i one_bit(__m256 mask, int bit) {
    return _mm256_and_si256(_mm256_castps_si256(mask), _mm256_set1_epi32(bit));
}

/* Number of thresholds that are at most z, by halving; the level of that size. */
WORD __m256i sizes8(const sizer *s, const int bits, __m256 z, __m256 *level) {
    __m256i size = _mm256_setzero_si256();
    __m256 threshold = s->each[0];
    if (bits == 3) {
        __m256 upper = at_least(z, s->each[1]);
        size = one_bit(upper, 2);
        threshold = _mm256_blendv_ps(s->each[0], s->each[2], upper);
    } else if (bits == 4) {
        __m256 upper = at_least(z, s->each[3]);
        __m256 odd = at_least(z, _mm256_blendv_ps(s->each[1], s->each[5], upper));
        size = _mm256_or_si256(one_bit(upper, 4), one_bit(odd, 2));
        threshold = _mm256_permutevar8x32_ps(s->threshold, size);
    }
    size = _mm256_or_si256(size, one_bit(at_least(z, threshold), 1));
    *level = _mm256_permutevar8x32_ps(s->level, size);
    return size;
}
WORD vi sizes_of(const sizer *s, const int bits, vf z, vf *level) {
    vi size;
    size.a = sizes8(s, bits, z.a, &level->a);
    size.b = sizes8(s, bits, z.b, &level->b);
    return size;
}

/* Sums and differences of lanes h apart, from the lanes and their partners. */
WORD __m256 fold(__m256 x, __m256 partner, __m256 sign) {
    return _mm256_add_ps(partner, _mm256_xor_ps(x, sign));
}
WORD __m256 rotate8(__m256 x) {
    const float o = 0.f, n = -0.f;
    x = fold(x, _mm256_permute_ps(x, 0xb1), _mm256_setr_ps(o, n, o, n, o, n, o, n));
    x = fold(x, _mm256_permute_ps(x, 0x4e), _mm256_setr_ps(o, o, n, n, o, o, n, n));
    return fold(x, _mm256_permute2f128_ps(x, x, 1), _mm256_setr_ps(o, o, o, o, n, n, n, n));
}
WORD vf vf_rotate16(vf x) {
    __m256 a = rotate8(x.a), b = rotate8(x.b);
    return (vf){_mm256_add_ps(a, b), _mm256_sub_ps(a, b)};
}

#include "seal_body.h"

void seal_avx2(kernels *k) {
    seal_fill(k);
}
