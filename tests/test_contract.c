/* test_contract.c - the library against the words of docs/numeric-contract.md, bit by bit: vectors/contract.json was
 * computed by vectors/contract.py, a second implementation of them that shares no code with the library. Every
 * instruction set in turn, each in a process of its own, since a process chooses once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/bits.h"
#include "base/fp.h"
#include "kernel/kernel.h"
#include "kernel/scalar.h"
#include "kvtile_ops.h"
#include "problem.h"
#include "random.h"

static json_t *vectors;

static const char *const math_name[] = {
    [KVT_MATH_FAST] = "fast", [KVT_MATH_EXACT] = "exact", [KVT_MATH_ACCURATE] = "accurate"};

static kvt_math math_of(const char *name) {
    int math = KVT_MATH_FAST;
    while (strcmp(math_name[math], name)) math++;
    return (kvt_math)math;
}

/* ----------------------------------------------------------------------------------------------- reading */

static int int_of(const json_t *one, const char *key) {
    return (int)json_integer_value(json_object_get(one, key));
}

static float float_of(const json_t *one, const char *key) {
    return (float)json_number_value(json_object_get(one, key));
}

static const char *text_of(const json_t *one, const char *key) {
    return json_string_value(json_object_get(one, key));
}

/* The bits of numbers, eight hexadecimal digits each. Static memory, of the latest call with this `which`. */
typedef struct words {
    const uint32_t *at;
    size_t n;
} words;

static words words_of(const json_t *one, const char *key, int which) {
    static uint32_t at[3][8192];
    const char *text = text_of(one, key);
    size_t n = strlen(text) / 8;
    assert_in_range(n, 1, sizeof at[0] / sizeof at[0][0]);
    for (size_t i = 0; i < n; i++) assert_int_equal(sscanf(text + 8 * i, "%8x", &at[which][i]), 1);
    return (words){at[which], n};
}

static void floats_random(uint64_t *seed, float *x, int n, double size) {
    for (int i = 0; i < n; i++) x[i] = (float)random_between(seed, -size, size);
}

/* NaN is NaN; every other number has its bits. */
static void assert_bits(const float *got, words expected, const char *what) {
    for (size_t i = 0; i < expected.n; i++) {
        float e = bits_to_f32(expected.at[i]);
        if (e != e ? got[i] == got[i] : bits_of_f32(got[i]) != expected.at[i])
            fail_msg("%s: number %zu is %08x, %.9g, expected is %08x, %.9g", what, i, bits_of_f32(got[i]),
                     (double)got[i], expected.at[i], (double)e);
    }
}

/* ------------------------------------------------------------------------------------- sections 2, 3 and 4 */

/* By way of the softmax: with c = 1 and m = 0 a score's weight is its exp2, as long as no score is above 8. */
static void exp2_is_the_polynomial(void **state) {
    static _Alignas(64) float s[STEP_TILES][ATTN_ROWS * TILE];
    float l[TILE] = {0}, o[TILE] = {0}, m = 0, weight[ATTN_STEP], one[ATTN_STEP];
    const json_t *vector = json_object_get(vectors, "exp2");
    words t = words_of(vector, "t", 0), out = words_of(vector, "out", 1);
    (void)state;
    assert_in_range(t.n, 1, ATTN_STEP);
    uint64_t fp = fp_enter();
    for (size_t i = 0; i < t.n; i++) {
        float x = bits_to_f32(t.at[i]);
        one[i] = scalar_exp2(x);
        s[i / TILE][i % TILE] = x > 8 ? 0 : x;
    }
    kernels_get()->attn_softmax(&(attn_row){
        .s = s[0], .n_visible = (int)t.n, .n_pairs = STEP_TILES / 2, .c = 1, .m = &m, .l = l, .o = o, .dim = TILE});
    for (size_t i = 0; i < t.n; i++) weight[i] = bits_to_f32(t.at[i]) > 8 ? one[i] : s[i / TILE][i % TILE];
    fp_leave(fp);
    assert_bits(one, out, "one by one");
    assert_bits(weight, out, "softmax");
}

static void numbers_are_narrowed(void **state) {
    static float bf16[4096], f16[4096];
    const json_t *vector = json_object_get(vectors, "narrow");
    words x = words_of(vector, "x", 0);
    (void)state;
    for (size_t i = 0; i < x.n; i++) {
        bf16[i] = bf16_to_f32(f32_to_bf16(bits_to_f32(x.at[i])));
        f16[i] = f16_to_f32(f32_to_f16(bits_to_f32(x.at[i])));
    }
    assert_bits(bf16, words_of(vector, "bf16", 1), "bf16");
    assert_bits(f16, words_of(vector, "f16", 2), "f16");
}

static void rows_are_the_contracts(void **state) {
    static float x[1024], y[1024];
    const json_t *vector;
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "rmsnorm"), i, vector) {
        int n = int_of(vector, "n");
        uint64_t seed = (uint64_t)n;
        floats_random(&seed, x, n, json_number_value(json_object_get(vector, "size")));
        floats_random(&seed, y, n, 2);
        kvt_rmsnorm(NULL, x, y, bits_to_f32(words_of(vector, "eps", 0).at[0]), 1, n, x);
        assert_bits(x, words_of(vector, "out", 0), "rmsnorm");
    }
    json_array_foreach(json_object_get(vectors, "scaled"), i, vector) {
        int n = int_of(vector, "n");
        uint64_t seed = (uint64_t)n;
        float s = bits_to_f32(words_of(vector, "s", 0).at[0]);
        floats_random(&seed, x, n, 30);
        floats_random(&seed, y, n, 2);
        kvt_add_scaled(NULL, x, y, s, (size_t)n);
        kvt_scale(NULL, x, s, (size_t)n);
        assert_bits(x, words_of(vector, "out", 0), "x + s y, times s");
    }
    json_array_foreach(json_object_get(vectors, "silu"), i, vector) {
        int n = int_of(vector, "n");
        uint64_t seed = (uint64_t)n;
        floats_random(&seed, x, n, json_number_value(json_object_get(vector, "size")));
        floats_random(&seed, y, n, 2);
        kvt_silu_mul(NULL, x, y, (size_t)n);
        assert_bits(x, words_of(vector, "out", 0), "silu");
    }
}

static void positions_are_encoded(void **state) {
    static float x[512], turns[512];
    const json_t *vector;
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "rope"), i, vector) {
        kvt_rope rope = {int_of(vector, "dim"), float_of(vector, "base"), int_of(vector, "halves")};
        int32_t position = int_of(vector, "position");
        uint64_t seed = (uint64_t)rope.dim;
        floats_random(&seed, x, rope.dim, 3);
        kvt_rope_turns(&rope, &position, 1, turns);
        assert_bits(turns, words_of(vector, "turns", 0), "turns");
        kvt_rope_apply(NULL, &rope, turns, x, (size_t)rope.dim, 1, 1, rope.dim);
        assert_bits(x, words_of(vector, "out", 0), "rope");
    }
    json_array_foreach(json_object_get(vectors, "freqs"), i, vector) {
        words freqs = words_of(vector, "freqs", 0);
        for (size_t j = 0; j < freqs.n; j++) x[j] = bits_to_f32(freqs.at[j]);
        kvt_rope rope = {.dim = int_of(vector, "dim"), .freqs = x};
        rope.magnitude = bits_to_f32(words_of(vector, "magnitude", 1).at[0]);
        int32_t position = int_of(vector, "position");
        kvt_rope_turns(&rope, &position, 1, turns);
        assert_bits(turns, words_of(vector, "turns", 0), "turns of given frequencies");
    }
}

/* --------------------------------------------------------------------------------------------- section 5 */

static uint8_t *put16(uint8_t *at, uint16_t h) {
    memcpy(at, &h, 2);
    return at + 2;
}

/* One block of weights as a file has it: scale and minimum are drawn first. Q8_0, Q4_0 and Q4_1 draw their codes one by
 * one, the others all their bytes. */
static uint8_t *put_block(uint8_t *at, int format, uint64_t *seed) {
    const block_shape *shape = block_shape_of(format);
    const int code = shape->code, n_bytes = (int)weight_format_of(format)->block_bytes;
    const bool nibbles = format == WEIGHT_Q4_0 || format == WEIGHT_Q4_1;
    float d, m = 0;
    floats_random(seed, &d, 1, 0.1);
    if (shape->m >= 0) floats_random(seed, &m, 1, 0.5);
    if (format == WEIGHT_Q8_0 || nibbles) {
        for (int i = 0; i < 32; i++) {
            uint8_t q = (uint8_t)random_below(seed, nibbles ? 16 : 256);
            if (!nibbles) at[code + i] = q ^ 0x80;
            else if (i < 16) at[code + i] = q;
            else at[code + i - 16] |= (uint8_t)(q << 4);
        }
    } else {
        for (int i = 0; i < n_bytes; i++) at[i] = (uint8_t)random_below(seed, 256);
    }
    put16(at + shape->d, f32_to_f16(d));
    if (shape->m >= 0) put16(at + shape->m, f32_to_f16(m));
    return at + n_bytes;
}

static uint8_t *put_float(uint8_t *at, kvt_weight_type type, uint64_t *seed) {
    float w;
    floats_random(seed, &w, 1, 1);
    if (type != KVT_W_F32) return put16(at, type == KVT_W_F16 ? f32_to_f16(w) : f32_to_bf16(w));
    memcpy(at, &w, 4);
    return at + 4;
}

static kvt_matrix *matrix_of(kvt_weight_type type, int n_rows, int n_cols, uint64_t *seed) {
    static uint8_t file[1 << 16];
    const int format = weight_format_find((int)type);
    const bool blocks = block_shape_of(format);
    kvt_matrix_source source = {type, (size_t)n_rows, (size_t)n_cols, file, 0};
    kvt_matrix *w;
    uint8_t *at = file;
    for (int i = 0; i < n_rows * n_cols; i += weight_format_of(format)->block)
        at = blocks ? put_block(at, format, seed) : put_float(at, type, seed);
    source.data_bytes = (size_t)(at - file);
    assert_in_range(source.data_bytes, 1, sizeof file);
    assert_int_equal(kvt_matrix_pack(&w, &source, NULL), KVT_OK);
    return w;
}

static kvt_weight_type type_of(const char *name) {
    for (int i = 0; i < N_WEIGHT_FORMATS; i++)
        if (!strcmp(weight_format_of(i)->name, name)) return (kvt_weight_type)weight_format_of(i)->ggml_type;
    fail_msg("no weights are called %s", name);
    return KVT_W_F32;
}

/* The second block zeros, the third as near as can be to halves of the fast mode's codes. */
static void activations_bend(float *x) {
    memset(x + 32, 0, 32 * sizeof *x);
    for (int i = 0; i < 31; i++) x[64 + i] = (float)((i + 0.5) * 3.8 / 127);
    x[95] = 3.8f;
}

/* Nine rows of the same activations, so that kernels of several rows have their turn. */
static void products_are_the_contracts(void **state) {
    enum { ROWS = 9, COLS = 512 };
    static float x[ROWS][COLS], y[ROWS][COLS];
    const json_t *vector;
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "matmul"), i, vector) {
        int n_rows = int_of(vector, "n_rows"), n_cols = int_of(vector, "n_cols");
        kvt_weight_type type = type_of(text_of(vector, "type"));
        uint64_t seed = (uint64_t)n_cols;
        floats_random(&seed, x[0], n_cols, 4);
        if (block_shape_of(weight_format_find((int)type))) activations_bend(x[0]);
        for (int r = 1; r < ROWS; r++) memcpy(x[r], x[0], sizeof x[0]);
        kvt_matrix *w = matrix_of(type, n_rows, n_cols, &seed);
        for (int math = KVT_MATH_FAST; math <= KVT_MATH_ACCURATE; math++) {
            kvt_input *in;
            assert_int_equal(kvt_input_new(&in, ROWS, n_cols, (kvt_math)math), KVT_OK);
            kvt_input_set(in, NULL, x[0], COLS, ROWS, n_cols);
            kvt_matmul(NULL, in, &(kvt_product){w, y[0], COLS}, 1);
            for (int r = 0; r < ROWS; r++)
                assert_bits(y[r], words_of(vector, math_name[math], 0), kvt_weight_name(type));
            kvt_input_free(in);
        }
        kvt_matrix_free(w);
    }
}

/* --------------------------------------------------------------------------------------------- section 6 */

/* Two query heads on one key/value head, and the whole text. Blocks are of 16 tokens; the first stays hot. */
typedef struct text {
    kvt_layer layer;
    float *q, *k, *v, *out; /* [n_tokens][heads][dim] */
    int n_tokens;
} text;

static float *floats_new(int n) {
    float *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

static const float *balance_of(int dim) {
    static float balance[ATTN_DIM_MAX];
    for (int d = 0; d < dim; d++) balance[d] = 0.5f + (float)(d % 7) * 0.375f;
    return balance;
}

static text text_read(const json_t *vector, int n_tokens) {
    text t = {.n_tokens = n_tokens};
    int dim_k = int_of(vector, "dim_k"), dim_v = int_of(vector, "dim_v");
    uint64_t seed = (uint64_t)dim_k;
    t.layer = (kvt_layer){
        .n_heads_q = 2, .n_heads_kv = 1, .dim_k = dim_k, .dim_v = dim_v, .scale = float_of(vector, "scale")};
    if (int_of(vector, "balance")) t.layer.k_balance = balance_of(dim_k);
    t.k = floats_new(n_tokens * dim_k);
    t.v = floats_new(n_tokens * dim_v);
    t.q = floats_new(n_tokens * 2 * dim_k);
    t.out = floats_new(n_tokens * 2 * dim_v);
    for (int i = 0; i < n_tokens; i++) {
        floats_random(&seed, t.k + i * dim_k, dim_k, 2);
        floats_random(&seed, t.v + i * dim_v, dim_v, 2);
        floats_random(&seed, t.q + i * 2 * dim_k, 2 * dim_k, 6);
    }
    return t;
}

static void text_free(text t) {
    free(t.q);
    free(t.k);
    free(t.v);
    free(t.out);
}

static kvt_cache *cache_for(const json_t *vector, const kvt_layer *layer, int n_tokens) {
    kvt_options opt = kvt_options_default();
    kvt_cache *c;
    opt.layers = layer;
    opt.block_tokens = 16;
    opt.n_layers = 1;
    opt.sequences_max = 1;
    opt.tokens_max = opt.batch_tokens_max = n_tokens;
    opt.n_threads = 2;
    opt.math = math_of(text_of(vector, "math"));
    assert_int_equal(kvt_format_parse(&opt.k_format, text_of(vector, "k_format")), KVT_OK);
    assert_int_equal(kvt_format_parse(&opt.v_format, text_of(vector, "v_format")), KVT_OK);
    assert_int_equal(kvt_open(&c, &opt), KVT_OK);
    return c;
}

/* Tokens first .. end - 1 as one step, with attention or without. */
static void text_feed(kvt_cache *c, kvt_seq seq, const text *t, int first, int end, bool attend) {
    const kvt_layer *l = &t->layer;
    int n = end - first;
    kvt_batch batch = {1, &seq, &n};
    const float *k = t->k + first * l->dim_k, *v = t->v + first * l->dim_v;
    if (n == 0) return;
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    if (attend)
        assert_int_equal(kvt_attend(c, 0, &batch, t->q + first * 2 * l->dim_k, k, v, t->out + first * 2 * l->dim_v),
                         KVT_OK);
    else assert_int_equal(kvt_append(c, 0, &batch, k, v), KVT_OK);
    assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
}

/* Up to three tokens before each position that the vector has are a step with it; the others are only stored. */
static void attention_is(const char *section) {
    const json_t *vector;
    size_t i;
    json_array_foreach(json_object_get(vectors, section), i, vector) {
        const json_t *positions = json_object_get(vector, "positions");
        size_t n = json_array_size(positions);
        int n_tokens = (int)json_integer_value(json_array_get(positions, n - 1)) + 1, done = 0;
        text t = text_read(vector, n_tokens);
        kvt_cache *c = cache_for(vector, &t.layer, n_tokens);
        kvt_seq seq;
        words out = words_of(vector, "out", 0);
        const size_t width = 2 * (size_t)t.layer.dim_v;
        assert_int_equal(out.n, n * width);
        assert_int_equal(kvt_seq_new(c, &seq), KVT_OK);
        for (size_t j = 0; j < n; j++, out.at += width) {
            int position = (int)json_integer_value(json_array_get(positions, j)), first = position - position % 4;
            char what[128];
            if (first < done) first = done;
            text_feed(c, seq, &t, done, first, false);
            text_feed(c, seq, &t, first, position + 1, true);
            done = position + 1;
            snprintf(what, sizeof what, "%s: vector %zu, position %d", section, i, position);
            assert_bits(t.out + (size_t)position * width, (words){out.at, width}, what);
        }
        kvt_close(c);
        text_free(t);
    }
}

static void attention_is_the_contracts(void **state) {
    (void)state;
    attention_is("attend");
}

/* --------------------------------------------------------------------------------------------- section 8 */

static void rotation_is_the_contracts(void **state) {
    const json_t *vector;
    float x[ATTN_DIM_MAX];
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "rotate"), i, vector) {
        int dim = int_of(vector, "dim");
        uint64_t seed = (uint64_t)dim, fp = fp_enter();
        floats_random(&seed, x, dim, 3);
        kernels_get()->rotate(x, dim);
        fp_leave(fp);
        assert_bits(x, words_of(vector, "out", 0), "rotated");
    }
}

/* A block of up to two tiles that is to be sealed, and its record. */
enum { BLOCK_TOKENS = 2 * TILE, BLOCK_DIM = 80 };

typedef struct sealable {
    int format, keys, dim, n_tokens;
    float x[BLOCK_TOKENS][BLOCK_DIM];
    _Alignas(64) uint8_t tile[2][TILE * BLOCK_DIM * 4];
    _Alignas(64) uint8_t record[BLOCK_TOKENS * BLOCK_DIM + 1024];
} sealable;

/* Tokens of every size, and one that is not finite. */
static void block_bend(sealable *b) {
    static const struct {
        int token;
        float by;
    } sizes[] = {{1, 0}, {2, 0x1p-110f}, {3, 1e30f}, {6, 0x1p-100f}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 0; d < b->dim; d++) b->x[sizes[i].token][d] *= sizes[i].by;
    b->x[4][5] = bits_to_f32(0x7f800000);
    for (int d = 0; d < b->dim; d++) {
        if (d != 7) b->x[5][d] = 0;
        b->x[7][d] = (float)(d - b->dim / 2) * 0.5f; /* many halves between codes */
    }
}

static void block_seal(sealable *b, bool bent, uint64_t *seed) {
    const kv_format *f = kv_format_of(b->format);
    const element_format *hot = element_format_of(b->keys ? f->hot_k : f->hot_v);
    const seal_args args = {(const void *const[]){b->tile[0], b->tile[1]}, b->n_tokens / TILE, b->dim, b->record};
    const uint64_t fp = fp_enter();
    for (int t = 0; t < b->n_tokens; t++) floats_random(seed, b->x[t], b->dim, 2);
    if (bent) block_bend(b);
    for (int t = 0; t < b->n_tokens; t++) {
        if (b->keys) hot->put_k(b->tile[t / TILE], t % TILE, b->x[t], b->dim);
        else hot->put_v(b->tile[t / TILE], t % TILE, b->x[t], b->dim, b->dim);
    }
    (b->keys ? kernels_get()->seal_k : kernels_get()->seal_v)[b->format](&args);
    fp_leave(fp);
}

static void records_are_the_contracts(void **state) {
    const json_t *vector;
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "seal"), i, vector) {
        static sealable b;
        b.format = kv_format_find(text_of(vector, "format")), b.keys = int_of(vector, "keys");
        b.dim = int_of(vector, "dim"), b.n_tokens = int_of(vector, "n_tokens");
        const char *digits = text_of(vector, "record");
        uint64_t seed = (uint64_t)b.dim;
        block_seal(&b, int_of(vector, "bent"), &seed);
        assert_int_equal(strlen(digits),
                         2 * kv_record_bytes(kv_format_of(b.format), b.dim, b.n_tokens / TILE, b.keys));
        for (size_t j = 0; digits[2 * j]; j++) {
            unsigned expected;
            assert_int_equal(sscanf(digits + 2 * j, "%2x", &expected), 1);
            if (b.record[j] != expected)
                fail_msg("%s, keys %d, dim %d: byte %zu of the record is %02x, expected is %02x",
                         text_of(vector, "format"), b.keys, b.dim, j, b.record[j], expected);
        }
    }
}

enum { ROWS_MET = 3 };
static const float size_met[ROWS_MET] = {6, 1e20f, 1e-31f};

static const void *const *tiles_in(const sealable *b, const void *tile[2]) {
    for (int i = 0; i < 2; i++) tile[i] = b->record + (size_t)i * kv_tile_bytes(kv_format_of(b->format), b->dim);
    return tile;
}

static const uint16_t *scales_in(const sealable *b) {
    return (const void *)(b->record + kv_scales_at(kv_format_of(b->format), b->dim, 2));
}

static void scores_meet(const json_t *vector, const sealable *b, uint64_t *seed) {
    static code_queries whole;
    static float q[ROWS_MET * BLOCK_DIM], s[2][ATTN_ROWS][TILE], out[ROWS_MET][BLOCK_TOKENS];
    const kernels *k = kernels_get();
    const void *tile[2];
    const uint16_t *scales = scales_in(b), *centroid = (const void *)(b->record + kv_centroid_at(
                                                           kv_format_of(b->format), b->dim, 2));
    float centre[ATTN_ROWS];
    for (int r = 0; r < ROWS_MET; r++) floats_random(seed, q + r * b->dim, b->dim, (double)size_met[r]);
    const uint64_t fp = fp_enter();
    for (int r = 0; r < ROWS_MET; r++) k->code_query(q + r * b->dim, b->dim, r, &whole);
    k->code_centre(&centroid, 1, b->dim, q, ROWS_MET, centre);
    k->code_qk[b->format](&(code_qk_args){.k_tile = tiles_in(b, tile),
                                          .k_scale = (const uint16_t *const[]){scales, scales + TILE},
                                          .centre = (const float *const[]){centre, centre},
                                          .n_heads = 1,
                                          .n_tiles = 2,
                                          .group = 2,
                                          .dim = b->dim,
                                          .n_rows = ROWS_MET,
                                          .q = &whole,
                                          .s = s[0][0],
                                          .ahead = {tile, 0}});
    fp_leave(fp);
    for (int r = 0; r < ROWS_MET; r++)
        for (int t = 0; t < BLOCK_TOKENS; t++) out[r][t] = s[t / TILE][r][t % TILE];
    assert_bits(whole.scale, words_of(vector, "q_scale", 0), "scale of a query's integers");
    assert_bits(centre, words_of(vector, "centre", 0), "centre");
    assert_bits(out[0], words_of(vector, "scores", 0), "scores of keys in codes");
}

static void values_meet(const json_t *vector, const sealable *b, uint64_t *seed) {
    static code_weights whole;
    static float p[2][ATTN_ROWS][TILE], o[ROWS_MET * BLOCK_DIM];
    const kernels *k = kernels_get();
    const void *tile[2];
    const uint16_t *const scale[2] = {scales_in(b), scales_in(b) + TILE};
    for (int i = 0; i < ROWS_MET * BLOCK_TOKENS; i++) {
        float *to = &p[i / TILE % 2][i / BLOCK_TOKENS][i % TILE];
        floats_random(seed, to, 1, (double)size_met[i / BLOCK_TOKENS]);
        if (*to < 0) *to = -*to;
    }
    floats_random(seed, o, ROWS_MET * b->dim, 1);
    const uint64_t fp = fp_enter();
    for (int r = 0; r < ROWS_MET; r++) k->code_weigh(p[0][r], scale, 2, r, &whole);
    k->code_pv[b->format](&(code_pv_args){.v_tile = tiles_in(b, tile),
                                          .n_heads = 1,
                                          .n_tiles = 2,
                                          .group = 2,
                                          .dim = b->dim,
                                          .n_rows = ROWS_MET,
                                          .p = &whole,
                                          .o = o,
                                          .ahead = {tile, 0}});
    fp_leave(fp);
    assert_bits(whole.scale, words_of(vector, "p_scale", 0), "scale of a row's weights");
    assert_bits(o, words_of(vector, "values", 0), "values in codes");
}

static void queries_and_weights_meet_codes(void **state) {
    const json_t *vector;
    size_t i;
    (void)state;
    json_array_foreach(json_object_get(vectors, "products"), i, vector) {
        static sealable k, v;
        k.format = v.format = kv_format_find(text_of(vector, "format"));
        k.dim = v.dim = int_of(vector, "dim"), k.n_tokens = v.n_tokens = BLOCK_TOKENS, k.keys = 1;
        uint64_t seed = (uint64_t)k.dim;
        block_seal(&k, false, &seed);
        block_seal(&v, false, &seed);
        scores_meet(vector, &k, &seed);
        values_meet(vector, &v, &seed);
    }
}

static void attention_over_sealed_blocks_is_the_contracts(void **state) {
    (void)state;
    attention_is("sealed");
}

/* ------------------------------------------------------------------------------------------------------ */

static int run(const char *cpu) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp2_is_the_polynomial),
        cmocka_unit_test(numbers_are_narrowed),
        cmocka_unit_test(rows_are_the_contracts),
        cmocka_unit_test(positions_are_encoded),
        cmocka_unit_test(products_are_the_contracts),
        cmocka_unit_test(attention_is_the_contracts),
        cmocka_unit_test(rotation_is_the_contracts),
        cmocka_unit_test(records_are_the_contracts),
        cmocka_unit_test(queries_and_weights_meet_codes),
        cmocka_unit_test(attention_over_sealed_blocks_is_the_contracts),
    };
    setenv("KVTILE_CPU", cpu, 1);
    if (strcmp(kvt_cpu(), cpu)) return 0; /* this machine cannot */
    vectors = json_load_file("tests/vectors/contract.json", 0, NULL);
    int n_failed = vectors ? cmocka_run_group_tests_name(cpu, tests, NULL, NULL) : 1;
    json_decref(vectors);
    return n_failed;
}

int main(void) {
    static const char *const cpus[] = {"scalar", "avx2", "avx512", "avx512bf16"};
    int n_failed = 0;
    for (size_t i = 0; i < sizeof cpus / sizeof *cpus; i++) {
        pid_t child = fork();
        int status = 1;
        if (child == 0) exit(run(cpus[i]));
        if (child < 0 || waitpid(child, &status, 0) < 0 || status) n_failed++;
    }
    return n_failed;
}
