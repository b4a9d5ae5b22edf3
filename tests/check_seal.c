/* check_seal.c - sealing and rotation: every path against the scalar one bit by bit, the scalar one against doubles,
 * and what every record keeps to: bounds of its error, finite scales, bytes. Buffers end at an unreadable page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/fp.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "random.h"

static const char *const paths[] = {"scalar", "avx2", "avx512", "avx512bf16"};
enum { N_PATHS = sizeof paths / sizeof *paths, TILES_MAX = 4, TOKENS_MAX = TILES_MAX * TILE };

static const int pads[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 320, 512};
enum { N_PADS = sizeof pads / sizeof *pads };

/* --------------------------------------------------------------------------------------------- blocks */

/* One head of a block: what a record is made of. */
typedef struct block {
    const kv_format *f;
    int format, keys, pad, n_tiles;
    float *x; /* [tokens][pad], as hot tiles keep it */
    void *tile[TILES_MAX];
} block;

static const element_format *hot_of(const block *b) {
    return element_format_of(b->keys ? b->f->hot_k : b->f->hot_v);
}

typedef float (*element_fn)(uint64_t *seed, int token, int dim);

static float normal(uint64_t *seed, int token, int dim) {
    (void)token, (void)dim;
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += random_between(seed, 0, 1);
    return (float)sum;
}
static float channel(uint64_t *seed, int token, int dim) { /* one of them is huge */
    return normal(seed, token, dim) * (dim == 3 ? 1e6f : 1);
}
static float constant(uint64_t *seed, int token, int dim) {
    (void)seed, (void)token;
    return 100.f + (float)dim;
}
static float zero(uint64_t *seed, int token, int dim) {
    (void)seed, (void)dim;
    return token % 2 ? -0.f : 0;
}
static float denormal(uint64_t *seed, int token, int dim) {
    return bits_to_f32((uint32_t)random_bits(seed) & (dim % 2 ? 0x807fffff : 0x80ffffff)) * (token % 3 ? 1 : 0);
}
static float small(uint64_t *seed, int token, int dim) { /* about the least scale */
    return normal(seed, token, dim) * 0x1p-97f;
}
static float large(uint64_t *seed, int token, int dim) { return normal(seed, token, dim) * 1e30f; }
static float largest(uint64_t *seed, int token, int dim) {
    (void)token, (void)dim;
    return (random_below(seed, 2) ? 1 : -1) * (random_below(seed, 3) ? 3e38f : 0x1.fep127f);
}
static float any_finite(uint64_t *seed, int token, int dim) {
    (void)token, (void)dim;
    uint32_t bits = (uint32_t)random_bits(seed);
    return bits_to_f32((bits & 0x7f800000) == 0x7f800000 ? bits & 0xbfffffff : bits);
}
static float level(uint64_t *seed, int token, int dim) { /* on thresholds and halfway between codes */
    (void)token;
    return dim == 0 ? 127 : (float)random_below(seed, 510) * 0.25f * (random_below(seed, 2) ? 1 : -1);
}
static float wild(uint64_t *seed, int token, int dim) { /* infinite and NaN among the tokens */
    if (random_below(seed, 200) == 0) return bits_to_f32(0x7f800000 | (uint32_t)random_bits(seed) % 3 * 0x400001);
    return token % 5 == 0 ? largest(seed, token, dim) : normal(seed, token, dim);
}

static const struct {
    const char *name;
    element_fn element;
} kinds[] = {{"normal", normal},     {"one huge channel", channel}, {"constant", constant},     {"zero", zero},
             {"denormal", denormal}, {"small", small},              {"1e30", large},            {"3e38", largest},
             {"any finite", any_finite}, {"levels", level},         {"infinite and NaN", wild}};
enum { N_KINDS = sizeof kinds / sizeof *kinds, N_FINITE = N_KINDS - 1 };

static block block_new(int format, int keys, int pad, int n_tiles, element_fn element, uint64_t seed) {
    block b = {kv_format_of(format), format, keys, pad, n_tiles};
    const element_format *hot = hot_of(&b);
    b.x = guard_alloc((size_t)(n_tiles * TILE * pad) * sizeof(float), sizeof(float));
    for (int i = 0; i < n_tiles; i++) b.tile[i] = guard_alloc((size_t)pad * TILE * hot->bytes, 64);
    for (int t = 0; t < n_tiles * TILE; t++) {
        float *x = b.x + t * pad;
        for (int d = 0; d < pad; d++) x[d] = element(&seed, t, d);
        if (keys) {
            hot->put_k(b.tile[t / TILE], t % TILE, x, pad);
            hot->get_k(b.tile[t / TILE], t % TILE, x, pad);
        } else {
            hot->put_v(b.tile[t / TILE], t % TILE, x, pad, pad);
            hot->get_v(b.tile[t / TILE], t % TILE, x, pad, pad);
        }
    }
    return b;
}

static void block_free(block *b) {
    guard_free(b->x);
    for (int i = 0; i < b->n_tiles; i++) guard_free(b->tile[i]);
}

static size_t bytes_of(const block *b) {
    return kv_record_bytes(b->f, b->pad, b->n_tiles, b->keys);
}

/* Its record by one path, over memory that was something else before. */
static uint8_t *record_of(const char *path, const block *b) {
    const kernels *k = kernels_of(path);
    uint8_t *record = guard_alloc(bytes_of(b), 64);
    memset(record, 0xa5, bytes_of(b));
    seal_args a = {(const void *const *)b->tile, b->n_tiles, b->pad, record};
    (b->keys ? k->seal_k : k->seal_v)[b->format](&a);
    return record;
}

static float scale_of(const block *b, const uint8_t *record, int token) {
    return bf16_to_f32(((const uint16_t *)(record + kv_scales_at(b->f, b->pad, b->n_tiles)))[token]);
}

static float centre_of(const block *b, const uint8_t *record, int dim) {
    if (!b->keys || b->f->kind != KV_CODES) return 0;
    return bf16_to_f32(((const uint16_t *)(record + kv_centroid_at(b->f, b->pad, b->n_tiles)))[dim]);
}

/* ----------------------------------------------------------------------------------------------- judges */

/* Relative error of a block without a record's dimension `without`: root of the mean square. */
static double error_of(const block *b, const uint8_t *record, int without) {
    double error = 0, all = 0;
    for (int t = 0; t < b->n_tiles * TILE; t++)
        for (int d = 0; d < b->pad; d++) {
            if (d == without) continue;
            double want = b->x[t * b->pad + d], got = kv_number(b->f, record, b->pad, b->keys, t, d);
            double off = got * scale_of(b, record, t) + centre_of(b, record, d) - want;
            error += off * off;
            all += want * want;
        }
    return sqrt(error / all);
}

/* Scales that are not finite or not above 0, centroids that are not finite. */
static size_t bad_scales(const block *b, const uint8_t *record) {
    size_t bad = 0;
    for (int t = 0; t < b->n_tiles * TILE; t++) {
        float scale = scale_of(b, record, t);
        bad += !(scale >= 0x1p-100f && scale <= FLT_MAX);
    }
    for (int d = 0; d < b->pad; d++) bad += !(fabsf(centre_of(b, record, d)) <= FLT_MAX);
    return bad;
}

/* Bytes behind the last scale and the last element of the centroid that are not zero. */
static size_t bad_padding(const block *b, const uint8_t *record) {
    size_t bad = 0, scales = kv_scales_at(b->f, b->pad, b->n_tiles) + (size_t)b->n_tiles * TILE * 2;
    size_t centroid = kv_centroid_at(b->f, b->pad, b->n_tiles);
    for (size_t i = scales; i < centroid; i++) bad += record[i] != 0;
    for (size_t i = centroid + (size_t)b->pad * 2; i < bytes_of(b); i++) bad += record[i] != 0;
    return bad;
}

static void test_the_judges_see_planted_errors(void **state) {
    (void)state;
    block b = block_new(KV_INT4, 1, 48, 1, normal, 1);
    uint8_t *record = record_of("scalar", &b);
    double error = error_of(&b, record, -1);
    assert_true(error < 0.1 && bad_scales(&b, record) == 0 && bad_padding(&b, record) == 0);
    record[5] ^= 0x80; /* the upper bit of a code: another sign */
    assert_true(error_of(&b, record, -1) > 1.02 * error);
    uint16_t *scale = (uint16_t *)(record + kv_scales_at(b.f, b.pad, 1));
    scale[3] = 0x7f80;
    scale[4] = 0;
    scale[TILE] = 1;
    assert_int_equal(bad_scales(&b, record), 2);
    assert_int_equal(bad_padding(&b, record), 1);
    guard_free(record);
    block_free(&b);
}

/* ------------------------------------------------------------------------------------- paths and scalar */

static void paths_agree(const block *b, const char *kind) {
    uint8_t *want = record_of("scalar", b);
    for (int p = 0; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        uint8_t *got = record_of(paths[p], b);
        if (memcmp(got, want, bytes_of(b)) != 0)
            fail_msg("%s: %s of %s, %d dims, %d tiles, %s", paths[p], b->keys ? "keys" : "values", b->f->name, b->pad,
                     b->n_tiles, kind);
        guard_free(got);
    }
    guard_free(want);
}

static void test_paths_agree(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (int format = N_ELEMENT_FORMATS; format < N_KV_FORMATS; format++)
        for (int keys = 0; keys < 2; keys++)
            for (int p = 0; p < N_PADS; p++)
                for (int kind = 0; kind < N_KINDS; kind++) {
                    int n_tiles = 1 << (p + kind) % 3; /* 1, 2, 4 */
                    block b = block_new(format, keys, pads[p], n_tiles, kinds[kind].element, seed++);
                    paths_agree(&b, kinds[kind].name);
                    block_free(&b);
                }
}

/* Sums in another order differ in a last bit, which a scale of 8 bits shows once in about 100,000 tokens. */
static void test_paths_agree_on_many_tokens(void **state) {
    (void)state;
    uint64_t seed = 8;
    block b = block_new(KV_INT4, 1, 16, 4, normal, seed);
    for (int i = 0; i < 16000; i++) {
        for (int tile = 0; tile < 4; tile++) {
            uint32_t *x = b.tile[tile];
            for (int j = 0; j < 16 * TILE; j++) x[j] = ((uint32_t)(random_bits(&seed) >> 32) & 0x81ffffff) | 0x3e000000;
        }
        paths_agree(&b, "many tokens");
    }
    block_free(&b);
}

/* ------------------------------------------------------------------------------- the scalar one in doubles */

/* Numbers and scale of one token by section 8, from the levels alone; elements less the centroid. */
static double encoded(const kv_format *f, const double *x, int n, double *number) {
    static const double tries[8][3] = {[2] = {0.4, 0.5, 0.6}, [3] = {0.7, 0.8, 0.9}, [4] = {0.8, 0.9, 1}};
    double most = 0, best = INFINITY, best_scale = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    if (f->bits == 8) {
        for (int i = 0; i < n; i++) number[i] = rint(x[i] / (most / 127));
        return most / 127;
    }
    for (int j = 0; j < 3; j++) {
        double y[ATTN_DIM_MAX], xy = 0, yy = 0, error = 0, unit = most * tries[f->bits][j] / 127;
        for (int i = 0; i < n; i++) {
            y[i] = f->level[0];
            for (int c = 1; c < 1 << f->bits; c++)
                if (fabs(x[i] / unit - f->level[c]) < fabs(x[i] / unit - y[i])) y[i] = f->level[c];
            xy += x[i] * y[i];
            yy += y[i] * y[i];
        }
        for (int i = 0; i < n; i++) error += (x[i] - xy / yy * y[i]) * (x[i] - xy / yy * y[i]);
        if (error < best) {
            best = error;
            best_scale = xy / yy;
            memcpy(number, y, (size_t)n * sizeof *y);
        }
    }
    return best_scale;
}

/* The double arithmetic sees ties and near ties otherwise: few tokens may differ. */
static void against_doubles(int format, int keys, int pad) {
    block b = block_new(format, keys, pad, 2, normal, (uint64_t)(format * 1000 + pad));
    uint8_t *record = record_of("scalar", &b);
    int other_tokens = 0;
    double centre[ATTN_DIM_MAX] = {0}, x[ATTN_DIM_MAX], number[ATTN_DIM_MAX];
    for (int d = 0; keys && d < pad; d++) {
        for (int t = 0; t < 2 * TILE; t++) centre[d] += b.x[t * pad + d] / (2 * TILE);
        assert_true(fabs(centre[d] - centre_of(&b, record, d)) <= 0x1p-8 * fabs(centre[d]) + 1e-6);
        centre[d] = centre_of(&b, record, d);
    }
    for (int t = 0; t < 2 * TILE; t++) {
        for (int d = 0; d < pad; d++) x[d] = b.x[t * pad + d] - centre[d];
        double scale = encoded(b.f, x, pad, number), got = scale_of(&b, record, t);
        int other = 0;
        if (b.f->bits == 8) { /* rounded up, and codes are of that */
            assert_true(got >= scale * (1 - 1e-6) && got <= scale * (1 + 0x1p-7));
            for (int d = 0; d < pad; d++)
                other += !(fabs(kv_number(b.f, record, pad, keys, t, d) - x[d] / got) < 0.50001);
        } else {
            other += !(fabs(got - scale) <= 0x1.01p-8 * scale);
            for (int d = 0; d < pad; d++) other += kv_number(b.f, record, pad, keys, t, d) != (float)number[d];
        }
        other_tokens += other > 0;
    }
    if (other_tokens > 1)
        fail_msg("%s of %s, %d dims: %d tokens", keys ? "keys" : "values", b.f->name, pad, other_tokens);
    guard_free(record);
    block_free(&b);
}

static void test_codes_are_those_of_the_contract(void **state) {
    (void)state;
    for (int format = KV_INT8; format < N_KV_FORMATS; format++)
        for (int p = 0; p < N_PADS; p++) {
            against_doubles(format, 0, pads[p]);
            against_doubles(format, 1, pads[p]);
        }
}

/* Each code is the nearest number of the format to element / scale. */
static void test_float8_is_nearest(void **state) {
    (void)state;
    for (int format = KV_E4M3; format <= KV_E5M2; format++)
        for (int keys = 0; keys < 2; keys++) {
            const int pad = 112, fraction = format == KV_E4M3 ? 3 : 2;
            const double most = format == KV_E4M3 ? 448 : 57344, least = format == KV_E4M3 ? 0x1p-6 : 0x1p-14;
            block b = block_new(format, keys, pad, 2, channel, 5);
            uint8_t *record = record_of("scalar", &b);
            for (int t = 0; t < 2 * TILE; t++) {
                double scale = scale_of(&b, record, t), top = 0;
                for (int d = 0; d < pad; d++) {
                    double want = b.x[t * pad + d] / scale, size = fabs(want);
                    double step = ldexp(1, (int)floor(log2(fmax(size, least))) - fraction);
                    double got = kv_number(b.f, record, pad, keys, t, d);
                    assert_true(fabs(got - want) <= (size < least ? least / 2 : step / 2) * (1 + 1e-6));
                    top = fmax(top, fabs(got));
                }
                assert_true(top <= most && top >= most * (1 - 0x1p-3));
            }
            guard_free(record);
            block_free(&b);
        }
}

/* A code is made of a size and a sign, so the halves of a table are mirrored; the scales tried end at 127. */
static void test_levels_are_mirrored(void **state) {
    (void)state;
    for (int format = 0; format < N_KV_FORMATS; format++) {
        const kv_format *f = kv_format_of(format);
        const int n = f->level ? 1 << f->bits : 0;
        assert_true(n ? f->level[n - 1] == 127 : f->kind != KV_CODES || f->bits == 8);
        for (int i = 0; i < n; i++) {
            assert_true(i == 0 || f->level[i] > f->level[i - 1]);
            assert_int_equal(f->level[i], -f->level[n - 1 - i]);
        }
    }
}

/* ------------------------------------------------------------------------------------- what always holds */

/* Errors of normal numbers, at all dims: that of a best scale per token and a little more. */
static void test_errors_are_within_bounds(void **state) {
    (void)state;
    static const double bound[N_KV_FORMATS] = {[KV_E4M3] = 0.028, [KV_E5M2] = 0.056, [KV_INT8] = 0.008,
                                               [KV_INT4] = 0.101, [KV_INT3] = 0.195, [KV_INT2] = 0.36};
    for (int format = N_ELEMENT_FORMATS; format < N_KV_FORMATS; format++)
        for (int keys = 0; keys < 2; keys++)
            for (int p = 0; p < N_PADS; p++) {
                block b = block_new(format, keys, pads[p], 4, normal, 77);
                uint8_t *record = record_of("scalar", &b);
                double error = error_of(&b, record, -1);
                if (!(error <= bound[format]))
                    fail_msg("%s of %s, %d dims: error %.4f", keys ? "keys" : "values", b.f->name, pads[p], error);
                guard_free(record);
                block_free(&b);
            }
}

static void test_scales_are_finite_and_padding_is_zero(void **state) {
    (void)state;
    for (int format = N_ELEMENT_FORMATS; format < N_KV_FORMATS; format++)
        for (int keys = 0; keys < 2; keys++)
            for (int kind = 0; kind < N_FINITE; kind++) {
                if (!(keys && kv_format_of(format)->kind == KV_CODES) && kinds[kind].element == any_finite) continue;
                block b = block_new(format, keys, 80, 1 << kind % 3, kinds[kind].element, 9);
                uint8_t *record = record_of("scalar", &b);
                if (bad_scales(&b, record)) fail_msg("%s, %s", b.f->name, kinds[kind].name);
                assert_int_equal(bad_padding(&b, record), 0);
                for (int t = 0; t < b.n_tiles * TILE; t++)
                    for (int d = 0; d < 80; d++) {
                        float number = kv_number(b.f, record, 80, keys, t, d);
                        assert_true(isfinite(number) && (b.f->kind != KV_CODES || fabsf(number) <= 127));
                    }
                guard_free(record);
                block_free(&b);
            }
}

/* A channel that is huge and the same in all tokens is the centroid's affair alone. */
static float offset(uint64_t *seed, int token, int dim) {
    return normal(seed, token, dim) + (dim == 3 ? 512 : 0);
}

static void test_the_centroid_takes_what_tokens_share(void **state) {
    (void)state;
    block b = block_new(KV_INT4, 1, 64, 2, offset, 3), same = block_new(KV_INT8, 1, 64, 2, constant, 3);
    uint8_t *record = record_of("scalar", &b), *record_same = record_of("scalar", &same);
    assert_true(error_of(&b, record, 3) < 0.11);
    assert_true(error_of(&same, record_same, -1) < 0x1p-14); /* nothing but the centroid's own rounding is encoded */
    guard_free(record);
    guard_free(record_same);
    block_free(&b);
    block_free(&same);
}

/* What is not finite spoils its own token and no other. */
static void test_a_token_that_is_not_finite_stays_alone(void **state) {
    (void)state;
    const float bad[] = {INFINITY, -INFINITY, NAN};
    for (int format = N_ELEMENT_FORMATS; format < N_KV_FORMATS; format++)
        for (int keys = 0; keys < 2; keys++)
            for (int i = 0; i < 3; i++) {
                block b = block_new(format, keys, 64, 2, normal, 4);
                float x[64];
                memcpy(x, b.x + 20 * 64, sizeof x);
                x[7] = bad[i];
                if (keys) hot_of(&b)->put_k(b.tile[1], 4, x, 64);
                else hot_of(&b)->put_v(b.tile[1], 4, x, 64, 64);
                uint8_t *record = record_of("scalar", &b);
                for (int t = 0; t < 32; t++) assert_true(isnan(scale_of(&b, record, t)) == (t == 20));
                for (int d = 0; d < 64; d++) assert_true(isfinite(centre_of(&b, record, d)));
                memcpy(b.x + 20 * 64, b.x + 21 * 64, sizeof x);
                guard_free(record);
                block_free(&b);
            }
}

/* ------------------------------------------------------------------------------------------------- bytes */

static double bits_per_element(int k, int v, int dim, int n_tiles) {
    size_t bytes = kv_record_bytes(kv_format_of(k), dim, n_tiles, 1);
    bytes += kv_record_bytes(kv_format_of(v), dim, n_tiles, 0);
    return (double)bytes * 8 / (2.0 * dim * n_tiles * TILE);
}

static void test_bits_per_element(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int k, v;
        double most; /* head of 128, block of 32 */
    } pairs[] = {{"k8v8", KV_INT8, KV_INT8, 8.5}, {"k8v4", KV_INT8, KV_INT4, 6.5}, {"k4v4", KV_INT4, KV_INT4, 4.5},
                 {"k3v3", KV_INT3, KV_INT3, 3.5}, {"k4v2", KV_INT4, KV_INT2, 3.5}, {"k2v2", KV_INT2, KV_INT2, 2.5},
                 {"e4m3", KV_E4M3, KV_E4M3, 8.25}};
    print_message("bits per element      head 128, block 32   128, 16   128, 64    64, 16    64, 32    64, 64\n");
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        double bits = bits_per_element(pairs[i].k, pairs[i].v, 128, 2);
        print_message("    %-4s                        %10.4f", pairs[i].name, bits);
        print_message("%10.4f", bits_per_element(pairs[i].k, pairs[i].v, 128, 1));
        print_message("%10.4f", bits_per_element(pairs[i].k, pairs[i].v, 128, 4));
        for (int tiles = 1; tiles <= 4; tiles *= 2)
            print_message("%10.4f", bits_per_element(pairs[i].k, pairs[i].v, 64, tiles));
        print_message("\n");
        assert_true(bits <= pairs[i].most);
    }
}

/* ---------------------------------------------------------------------------------------------- rotation */

static void rotations_of(int dim, element_fn element, int exact) {
    uint64_t seed = (uint64_t)dim;
    float *x = guard_alloc((size_t)dim * sizeof *x, sizeof *x), *y = guard_alloc((size_t)dim * sizeof *y, sizeof *y);
    float first[ATTN_DIM_MAX];
    int run = dim & -dim;
    for (int d = 0; d < dim; d++) x[d] = first[d] = element(&seed, 0, d);
    kernels_of("scalar")->rotate(x, dim);
    for (int p = 0; p < N_PATHS; p++) {
        if (!kernels_of(paths[p])) continue;
        memcpy(y, first, (size_t)dim * sizeof *y);
        kernels_of(paths[p])->rotate(y, dim);
        for (int d = 0; d < dim; d++)
            assert_true(bits_of_f32(x[d]) == bits_of_f32(y[d]) || (isnan(x[d]) && isnan(y[d])));
    }
    for (int d = 0; exact && d < dim; d++) { /* row d % run of the Hadamard matrix: signs by the bits that both have */
        double want = 0, size = 0;
        for (int i = 0; i < run; i++) {
            double part = first[d / run * run + i];
            want += __builtin_popcount((unsigned)(d % run & i)) % 2 ? -part : part;
            size += fabs(part);
        }
        assert_true(fabs(x[d] - want) <= 1e-6 * size);
    }
    guard_free(x);
    guard_free(y);
}

static void test_rotation(void **state) {
    (void)state;
    for (int dim = 16; dim <= ATTN_DIM_MAX; dim += 16) {
        rotations_of(dim, normal, 1);
        rotations_of(dim, any_finite, 0);
        rotations_of(dim, wild, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_judges_see_planted_errors),
        cmocka_unit_test(test_paths_agree),
        cmocka_unit_test(test_paths_agree_on_many_tokens),
        cmocka_unit_test(test_codes_are_those_of_the_contract),
        cmocka_unit_test(test_float8_is_nearest),
        cmocka_unit_test(test_levels_are_mirrored),
        cmocka_unit_test(test_errors_are_within_bounds),
        cmocka_unit_test(test_scales_are_finite_and_padding_is_zero),
        cmocka_unit_test(test_the_centroid_takes_what_tokens_share),
        cmocka_unit_test(test_a_token_that_is_not_finite_stays_alone),
        cmocka_unit_test(test_bits_per_element),
        cmocka_unit_test(test_rotation),
    };
    uint64_t fp = fp_enter(); /* as kernels are always called */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fp_leave(fp);
    return failed;
}
