/* test_sealed.c - what a cache of encoded formats keeps: a sealed block has the same bytes whoever wrote it and how,
 * and they are those of the keys and values that went in; what it takes, and that a bad number changes nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "reader.h"


static shape shape_of(int k, int v) {
    return (shape){"4 heads on two, 24 and 48 dims", {.n_heads_q = 4, .n_heads_kv = 2, .dim_k = 24, .dim_v = 48},
                   (kvt_format)k, (kvt_format)v, KVT_MATH_FAST, 150};
}

static bool seals(const shape *s) {
    return s->k_format > KVT_F32 || s->v_format > KVT_F32;
}

/* The next n tokens of a text, stored and not attended. */
static void store(kvt_cache *c, reader *r, int n, bool commit) {
    kvt_batch batch = {1, &r->seq, &n};
    rows x = rows_new(r->shape);
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        rows_fill(x, &r, &n, 1, layer);
        assert_int_equal(kvt_append(c, layer, &batch, x.k, x.v), KVT_OK);
    }
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(commit ? kvt_commit(c, &batch, NULL) : kvt_abort(c, &batch), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    if (commit) r->n_done += n;
    rows_free(x);
}

/* Text 0 up to n tokens, `chunk` at a time, and before each step one of text 9 that comes to nothing. */
static reader *stored(kvt_cache *c, const shape *s, int n, int chunk, bool aborts) {
    reader *r = reader_new(s, c, 0);
    while (r->n_done < n) {
        r->text = 9;
        if (aborts) store(c, r, 45, false);
        r->text = 0;
        store(c, r, r->n_done + chunk < n ? chunk : n - r->n_done, true);
    }
    return r;
}

/* Blocks of the first n tokens: the hot tiles of the first, the records of those behind it that are full. */
static void assert_same_blocks(const kvt_cache *a, kvt_seq x, const kvt_cache *b, kvt_seq y, int n, const char *how) {
    const int32_t *p = seq_of(a, x)->table, *q = seq_of(b, y)->table;
    for (int layer = 0; layer < N_LAYERS; layer++) {
        const layer_shape *l = &a->layers[layer], *m = &b->layers[layer];
        if (memcmp(hot_keys(a, l, p[0], 0), hot_keys(b, m, q[0], 0), l->hot.bytes))
            fail_msg("%s, %s: %s: the first block differs", a->k_format->name, a->v_format->name, how);
        for (int i = 1; i < n / a->layout.block_tokens; i++)
            if (memcmp(store_block(a, l, p[i]), store_block(b, m, q[i]), l->kept.bytes))
                fail_msg("%s, %s: %s: block %d differs", a->k_format->name, a->v_format->name, how, i);
    }
}

static void a_block_is_the_same_whoever_wrote_it(void **state) {
    static const struct {
        const char *how;
        int chunk, n_threads, kind;
        bool aborts;
        const char *cpu;
    } ways[] = {{"token by token", 1, 1, KVT_PAGED, false, NULL},      {"steps of 7", 7, 2, KVT_PAGED, false, NULL},
                {"steps of 32", 32, 4, KVT_PAGED, false, NULL},
                {"contiguous", 50, 1, KVT_CONTIGUOUS, false, NULL},
                {"after aborts", 13, 2, KVT_PAGED, true, NULL},        {"both", 40, 1, KVT_CONTIGUOUS, true, NULL},
                {"plain loops", 150, 1, KVT_PAGED, false, "scalar"},   {"avx2", 150, 1, KVT_PAGED, false, "avx2"},
                {"avx512", 150, 1, KVT_PAGED, false, "avx512"}};
    (void)state;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS; i++) {
        shape s = shape_of(i / N_KV_FORMATS, i % N_KV_FORMATS);
        if (!seals(&s)) continue;
        setup one = setup_of(&s);
        kvt_cache *c = cache_of(&one);
        reader *reference = stored(c, &s, s.n_tokens, s.n_tokens, false);
        for (size_t j = 0; j < sizeof ways / sizeof *ways; j++) {
            if (ways[j].cpu && !kernels_of(ways[j].cpu)) continue;
            if (j && j != 1 + (size_t)i % (sizeof ways / sizeof *ways - 1) && i % 8) continue; /* two for most */
            setup way = one;
            way.n_threads = ways[j].n_threads;
            way.kind = (kvt_cache_kind)ways[j].kind;
            way.cpu = ways[j].cpu;
            kvt_cache *d = cache_of(&way);
            reader *r = stored(d, &s, s.n_tokens, ways[j].chunk, ways[j].aborts);
            assert_same_blocks(c, reference->seq, d, r->seq, s.n_tokens, ways[j].how);
            /* and a fork that goes on by itself */
            kvt_seq other;
            assert_int_equal(kvt_seq_fork(d, r->seq, &other), KVT_OK);
            store(d, r, 30, true);
            r->seq = other;
            assert_same_blocks(c, reference->seq, d, other, s.n_tokens, "fork");
            reader_free(r);
            kvt_close(d);
        }
        reader_free(reference);
        kvt_close(c);
    }
}

/* ---------------------------------------------------------------------------------------- what is in a record */

/* Keys or values of one head and token as a record has them, turned back. */
static void record_get(const kvt_cache *c, const layer_shape *l, int block, int head, int slot, bool keys, float *x) {
    const kv_format *f = keys ? c->k_format : c->v_format;
    const uint8_t *sealed = (const uint8_t *)(keys ? store_keys(c, l, block, head) : store_values(c, l, block, head));
    int pad = keys ? l->pad_k : l->pad_v;
    uint16_t scale, centre = 0;
    memcpy(&scale, sealed + kv_scales_at(f, pad, c->layout.block_tiles) + (size_t)slot * sizeof scale, sizeof scale);
    assert_true(bf16_to_f32(scale) > 0 && isfinite(bf16_to_f32(scale)));
    for (int d = 0; d < pad; d++) {
        if (keys && f->kind == KV_CODES)
            memcpy(&centre, sealed + kv_centroid_at(f, pad, c->layout.block_tiles) + (size_t)d * sizeof centre,
                   sizeof centre);
        x[d] = kv_number(f, sealed, pad, keys, slot, d) * bf16_to_f32(scale) + bf16_to_f32(centre);
    }
    if (f->kind == KV_CODES) kernels_of("scalar")->rotate(x, pad);
}

/* Root of the mean square of what is lost, against that of what went in. */
static double loss_of(const kvt_cache *c, const reader *r, const float *balance, bool keys) {
    const layer_shape *l = &c->layers[1];
    const int width = width_of(r->shape, keys ? KEY : VALUE), dim = keys ? l->dim_k : l->dim_v;
    double lost = 0, all = 0;
    for (int t = c->layout.block_tokens; t < r->n_done / c->layout.block_tokens * c->layout.block_tokens; t++) {
        float text[2 * 48], x[48];
        text_fill(0, 1, t, keys ? KEY : VALUE, text, width);
        for (int head = 0; head < l->n_heads_kv; head++) {
            int block = seq_of(c, r->seq)->table[t / c->layout.block_tokens];
            record_get(c, l, block, head, t % c->layout.block_tokens, keys, x);
            for (int d = 0; d < dim; d++) {
                double want = (double)text[head * dim + d], got = (double)x[d];
                if (keys && balance && c->k_format->kind == KV_CODES) got *= (double)balance[head * dim + d];
                lost += (got - want) * (got - want);
                all += want * want;
            }
        }
    }
    return sqrt(lost / all);
}

static void a_record_has_what_went_in(void **state) {
    static const double most[N_KV_FORMATS] = {[KVT_E4M3] = 0.04, [KVT_E5M2] = 0.08, [KVT_INT8] = 0.012,
                                              [KVT_INT4] = 0.13, [KVT_INT3] = 0.23, [KVT_INT2] = 0.42};
    float balance[2 * 24];
    (void)state;
    for (int i = 0; i < 2 * 24; i++) balance[i] = 0.5f + (float)(i % 5) * 0.3f;
    for (int format = KVT_E4M3; format < N_KV_FORMATS; format++)
        for (int balanced = 0; balanced < 2; balanced++) {
            shape s = shape_of(format, format);
            if (balanced) s.layer.k_balance = balance;
            setup set = setup_of(&s);
            kvt_cache *c = cache_of(&set);
            reader *r = stored(c, &s, s.n_tokens, 11, false);
            for (int keys = 0; keys < 2; keys++) {
                double loss = loss_of(c, r, s.layer.k_balance, keys);
                if (!(loss < most[format]) || !(loss > most[format] / 10))
                    fail_msg("%s %s: lost %g", kvt_format_name((kvt_format)format), keys ? "keys" : "values", loss);
            }
            reader_free(r);
            kvt_close(c);
        }
}

/* -------------------------------------------------------------------------------------------------- bytes */

static kvt_bytes_info bytes_of(int k, int v, int block_tokens, int dim, kvt_layer_use *use) {
    kvt_layer layer = {.n_heads_q = 6, .n_heads_kv = 3, .dim_k = dim, .dim_v = dim};
    kvt_options opt = kvt_options_default();
    kvt_bytes_info info;
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.k_format = (kvt_format)k;
    opt.v_format = (kvt_format)v;
    opt.block_tokens = block_tokens;
    opt.sequences_max = 1;
    opt.tokens_max = 8192;
    assert_int_equal(kvt_bytes(&opt, &info), KVT_OK);
    assert_int_equal(kvt_layer_bytes(&layer, opt.k_format, opt.v_format, block_tokens, 8192, use), KVT_OK);
    return info;
}

/* Bits of an element, worked out by hand: codes, 16 / dim for a scale, 16 / block for a centroid's element. */
static void bits_are_counted_with_everything(void **state) {
    static const struct {
        int k, v, block_tokens, dim;
        double bits;
    } known[] = {
        {KVT_BF16, KVT_BF16, 32, 64, 16},
        {KVT_INT8, KVT_INT8, 32, 128, 8 + 16. / 128 + 0.5 * 16 / 32},
        {KVT_INT8, KVT_INT4, 32, 128, 6 + 16. / 128 + 0.5 * 16 / 32},
        {KVT_INT4, KVT_INT4, 32, 128, 4 + 16. / 128 + 0.5 * 16 / 32},
        {KVT_INT2, KVT_INT2, 32, 128, 2 + 16. / 128 + 0.5 * 16 / 32},
        {KVT_INT4, KVT_INT4, 64, 64, 4 + 16. / 64 + 0.5 * 16 / 64},
        {KVT_INT3, KVT_INT2, 64, 64, 2.5 + 16. / 64 + 0.5 * 16 / 64},
        {KVT_E4M3, KVT_E4M3, 32, 64, 8 + 16. / 64},
        {KVT_E4M3, KVT_E5M2, 16, 64, 8 + 32. / 64},          /* scales of 16 tokens are half a line */
        {KVT_INT8, KVT_BF16, 32, 80, 12 + 0.5 * 16 / 80 + 0.5 * 16 / 32 * 96 / 80}, /* a centroid of 2.5 lines */
        {KVT_F32, KVT_INT4, 32, 17, (32 * 32. + 4 * 32 + 16) / 2 / 17},              /* padding is counted */
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        kvt_layer_use use;
        kvt_bytes_info info = bytes_of(known[i].k, known[i].v, known[i].block_tokens, known[i].dim, &use);
        if (fabs(info.bits_per_element - known[i].bits) > 1e-9)
            fail_msg("row %zu: %.4f bits, not %.4f", i, info.bits_per_element, known[i].bits);
        assert_true(use.bits_per_element == info.bits_per_element);
    }
}

/* For all formats, blocks and dims: a layer, an estimate and a token's share of a block agree, and are whole. */
static void estimates_agree(void **state) {
    (void)state;
    for (int i = 0; i < N_KV_FORMATS * N_KV_FORMATS; i++)
        for (int block = 16; block <= 64; block *= 2)
            for (int dim = 1; dim <= 512; dim += 73) {
                kvt_layer_use use;
                kvt_bytes_info info = bytes_of(i / N_KV_FORMATS, i % N_KV_FORMATS, block, dim, &use);
                assert_int_equal(info.bytes_per_block, info.bytes_per_token * (size_t)block);
                assert_int_equal(use.bytes_per_token, info.bytes_per_token);
                assert_int_equal(use.bytes_reserved, info.bytes_cache + use.bytes_fixed);
                assert_int_equal(info.bytes_total,
                                 info.bytes_cache + info.bytes_hot + info.bytes_tables + info.bytes_scratch);
                assert_int_equal(use.bytes_fixed > 0, info.bytes_hot > 0);
            }
}

/* The limit holds for all memory of keys and values, and one block more would pass it. */
static void the_limit_includes_what_is_hot(void **state) {
    (void)state;
    for (int n_sequences = 1; n_sequences <= 64; n_sequences *= 8)
        for (int batch = 8; batch <= 512; batch *= 8) {
            shape s = shape_of(KVT_INT4, KVT_INT2);
            kvt_options opt = kvt_options_default();
            kvt_bytes_info info;
            opt.layers = &s.layer;
            opt.n_layers = 1;
            opt.k_format = s.k_format;
            opt.v_format = s.v_format;
            opt.sequences_max = n_sequences;
            opt.tokens_max = 320;
            opt.batch_tokens_max = batch;
            for (opt.bytes_max = 1000; opt.bytes_max < 4000000; opt.bytes_max += opt.bytes_max / 7) {
                kvt_status status = kvt_bytes(&opt, &info);
                if (status == KVT_E_LIMIT) assert_true(info.n_blocks < 10);
                if (status == KVT_E_LIMIT) continue;
                assert_int_equal(status, KVT_OK);
                size_t hot_block = 32 * 2 * (32 * 4 + 48 * 2), all = info.bytes_cache + info.bytes_hot;
                assert_true(info.n_blocks >= 10 && all <= opt.bytes_max);
                assert_true(all + info.bytes_per_block + hot_block > opt.bytes_max);
            }
        }
}

/* What a sequence of 8,192 tokens takes falls as the bits do; hot slots and staging are a small part. */
static void memory_falls_with_the_bits(void **state) {
    static const int formats[] = {KVT_BF16, KVT_INT8, KVT_INT4, KVT_INT3, KVT_INT2};
    size_t before = SIZE_MAX;
    (void)state;
    for (int i = 0; i < 5; i++) {
        kvt_layer layers[30];
        kvt_options opt = kvt_options_default();
        kvt_bytes_info info;
        for (int l = 0; l < 30; l++)
            layers[l] = (kvt_layer){.n_heads_q = 9, .n_heads_kv = 3, .dim_k = 64, .dim_v = 64};
        opt.layers = layers;
        opt.n_layers = 30;
        opt.sequences_max = 1;
        opt.tokens_max = 8192;
        opt.k_format = opt.v_format = (kvt_format)formats[i];
        assert_int_equal(kvt_bytes(&opt, &info), KVT_OK);
        size_t keys_and_values = info.bytes_cache + info.bytes_hot;
        assert_true(keys_and_values < before);
        assert_true((double)info.bytes_hot < 0.18 * (double)info.bytes_cache);
        before = keys_and_values;
    }
}

/* ------------------------------------------------------------------------------------------------- extremes */

static void extreme_numbers_have_finite_records(void **state) {
    static const float sizes[] = {0, 1e-40f, 1e-30f, 1, 1e30f, 1e36f};
    (void)state;
    for (int format = KVT_E4M3; format < N_KV_FORMATS; format++)
        for (int i = 0; i < 6; i++)
            for (int what = 0; what < 3; what++) { /* constant; one huge channel; random */
                shape s = shape_of(format, format);
                setup set = setup_of(&s);
                kvt_cache *c = cache_of(&set);
                kvt_seq id;
                int n = 64, seen = 0;
                float k[64 * 2 * 24], v[64 * 2 * 48], x[48];
                uint64_t seed = 5;
                for (int j = 0; j < 64 * 2 * 48; j++)
                    v[j] = what == 0 ? sizes[i] : what == 1 ? (j % 48 == 3 ? sizes[i] : 1e-3f)
                                                            : sizes[i] * (float)random_between(&seed, -1, 1);
                memcpy(k, v, sizeof k);
                assert_int_equal(kvt_seq_new(c, &id), KVT_OK);
                kvt_batch batch = {1, &id, &n};
                assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
                for (int layer = 0; layer < N_LAYERS; layer++)
                    assert_int_equal(kvt_append(c, layer, &batch, k, v), KVT_OK);
                assert_int_equal(kvt_commit(c, &batch, NULL), KVT_OK);
                for (int slot = 0; slot < 32; slot++)
                    for (int keys = 0; keys < 2; keys++, seen++) {
                        record_get(c, &c->layers[0], seq_of(c, id)->table[1], 1, slot, keys, x);
                        for (int d = 0; d < (keys ? 24 : 48); d++) assert_true(isfinite(x[d]));
                    }
                assert_int_equal(seen, 64);
                kvt_close(c);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_the_same_whoever_wrote_it),
        cmocka_unit_test(a_record_has_what_went_in),
        cmocka_unit_test(bits_are_counted_with_everything),
        cmocka_unit_test(estimates_agree),
        cmocka_unit_test(the_limit_includes_what_is_hot),
        cmocka_unit_test(memory_falls_with_the_bits),
        cmocka_unit_test(extreme_numbers_have_finite_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
