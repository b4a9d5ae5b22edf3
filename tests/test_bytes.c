/* test_bytes.c - what a layer keeps, against numbers worked out elsewhere and against what a cache really takes. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kvtile.h"

static kvt_layer full(int n_heads_q, int n_heads_kv, int dim) {
    return (kvt_layer){ .n_heads_q = n_heads_q, .n_heads_kv = n_heads_kv, .dim_k = dim, .dim_v = dim };
}

static kvt_layer_use use_of(kvt_layer layer, size_t n_tokens) {
    kvt_layer_use u;
    assert_int_equal(kvt_layer_bytes(&layer, KVT_BF16, KVT_BF16, 32, n_tokens, &u), KVT_OK);
    return u;
}

enum { KIB = 1024, MIB = 1024 * KIB };
static const size_t GIB = 1024 * (size_t)MIB;

static void known_models_take_what_is_known(void **state) {
    (void)state;
    /* Llama 3 8B and 70B, as they are and with a key/value head for each query head */
    assert_int_equal(32 * use_of(full(32, 8, 128), 1).bytes, 128 * KIB);
    assert_int_equal(32 * use_of(full(32, 32, 128), 1).bytes, 512 * KIB);
    assert_int_equal(80 * use_of(full(64, 8, 128), 1).bytes, 320 * KIB);
    assert_int_equal(80 * use_of(full(64, 64, 128), 1).bytes, 2 * MIB + 512 * KIB);
    assert_int_equal(32 * use_of(full(32, 8, 128), 8 * KIB).bytes, GIB);
    assert_int_equal(32 * use_of(full(32, 8, 128), 128 * KIB).bytes, 16 * GIB);
    /* DeepSeek-V3: 3.81 MiB, 244 KiB, 30.5 KiB, 68.6 KiB */
    kvt_layer mla = { .kind = KVT_LAYER_LATENT, .dim_k = 64, .dim_v = 512 };
    assert_int_equal(61 * use_of(full(128, 128, 128), 1).bytes, 3997696);
    assert_int_equal(61 * use_of(full(128, 8, 128), 1).bytes, 244 * KIB);
    assert_int_equal(61 * use_of(full(128, 1, 128), 1).bytes, 31232);
    assert_int_equal(61 * use_of(mla, 1).bytes, 70272);
    /* Jamba: 4 of 32 layers attend; Mixtral 8x7B: all 32 */
    assert_int_equal(4 * use_of(full(32, 8, 128), 256 * KIB).bytes, 4 * GIB);
    assert_int_equal(32 * use_of(full(32, 8, 128), 256 * KIB).bytes, 32 * GIB);
}

static void a_window_keeps_its_tokens(void **state) {
    (void)state;
    kvt_layer window = full(32, 8, 128);
    window.kind = KVT_LAYER_WINDOW;
    window.window = 4096;
    assert_int_equal(use_of(window, 32 * KIB).bytes * 8, use_of(full(32, 8, 128), 32 * KIB).bytes);
    assert_int_equal(use_of(window, 4096).tokens_kept, 4096);
    assert_int_equal(use_of(window, 4095).tokens_kept, 4095);
    assert_int_equal(use_of(window, 1 << 20).tokens_kept, 4096);
    /* in whole blocks: 128 of 32 tokens where they begin at a block's start, one more anywhere else */
    size_t block = 32 * use_of(window, 1).bytes_per_token;
    assert_int_equal(use_of(window, 4096).bytes_reserved, 128 * block);
    assert_int_equal(use_of(window, 5000).bytes_reserved, 129 * block);
    assert_int_equal(use_of(window, 1).bytes_reserved, block);
    assert_int_equal(use_of(window, 0).bytes_reserved, 0);
}

static void a_state_is_as_large_at_any_length(void **state) {
    (void)state;
    kvt_layer layer = { .kind = KVT_LAYER_STATE, .state_bytes = 12345 };
    assert_int_equal(use_of(layer, 0).bytes, 12345);
    assert_int_equal(use_of(layer, 1 << 30).bytes_reserved, 12345);
    assert_int_equal(use_of(layer, 7).tokens_kept, 0);
    /* whatever stands in the fields that it has no use for */
    layer.dim_k = layer.dim_v = layer.dim_index = INT_MAX;
    assert_int_equal(use_of(layer, 7).bytes, 12345);
    kvt_layer full_layer = full(32, 8, 128);
    full_layer.dim_index = INT_MAX;
    assert_int_equal(use_of(full_layer, 1).bytes, 4 * KIB);
}

static void an_index_key_comes_on_top_of_the_latent(void **state) {
    (void)state;
    kvt_layer sparse = { .kind = KVT_LAYER_SPARSE, .dim_k = 64, .dim_v = 512, .dim_index = 128 };
    assert_int_equal(use_of(sparse, 10).bytes, 10 * (64 + 512 + 128) * 2);
}

static void a_cache_takes_what_its_layers_say(void **state) {
    (void)state;
    static const struct {
        int n_heads_q, n_heads_kv, dim_k, dim_v;
    } shapes[] = { { 9, 3, 64, 64 }, { 5, 1, 48, 80 }, { 7, 7, 33, 1 }, { 1024, 1024, 512, 512 } };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int format = 0; format < 9; format++) {
            kvt_layer layer = { .n_heads_q = shapes[i].n_heads_q, .n_heads_kv = shapes[i].n_heads_kv,
                                .dim_k = shapes[i].dim_k, .dim_v = shapes[i].dim_v };
            kvt_options opt = kvt_options_default();
            opt.layers = &layer;
            opt.n_layers = 1;
            opt.k_format = (kvt_format)(format / 3);
            opt.v_format = (kvt_format)(format % 3);
            opt.sequences_max = 1;
            opt.tokens_max = 1000;
            kvt_bytes_info info;
            kvt_layer_use u;
            assert_int_equal(kvt_bytes(&opt, &info), KVT_OK);
            assert_int_equal(kvt_layer_bytes(&layer, opt.k_format, opt.v_format, 32, 1000, &u), KVT_OK);
            assert_int_equal(u.bytes_per_token, info.bytes_per_token);
            assert_int_equal(u.bytes_reserved, info.bytes_cache);
        }
}

static void bad_layers_are_refused(void **state) {
    (void)state;
    kvt_layer window = full(8, 8, 64), sparse = { .kind = KVT_LAYER_SPARSE, .dim_k = 64, .dim_v = 512 };
    window.kind = KVT_LAYER_WINDOW;
    const kvt_layer bad[] = { { 0 }, full(8, 3, 64), full(8, 8, 513), full(0, 8, 64), window, sparse, { .kind = 9 } };
    kvt_layer_use u;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(kvt_layer_bytes(&bad[i], KVT_BF16, KVT_BF16, 32, 1, &u) < 0);
    kvt_layer none = { .kind = (kvt_layer_kind)9 };
    assert_int_equal(kvt_layer_bytes(&none, KVT_BF16, KVT_BF16, 32, 1, &u), KVT_E_UNSUPPORTED);
    kvt_layer good = full(8, 8, 64);
    assert_int_equal(kvt_layer_bytes(&good, KVT_BF16, KVT_BF16, 32, SIZE_MAX, &u), KVT_E_LIMIT);
    assert_int_equal(kvt_layer_bytes(&good, KVT_BF16, KVT_BF16, 31, 1, &u), KVT_E_ARGUMENT);
    assert_int_equal(kvt_layer_bytes(&good, (kvt_format)77, KVT_BF16, 32, 1, &u), KVT_E_UNSUPPORTED);
    assert_int_equal(kvt_layer_bytes(NULL, KVT_BF16, KVT_BF16, 32, 1, &u), KVT_E_ARGUMENT);
    /* and a cache that could not hold them is not opened */
    kvt_layer state_layer = { .kind = KVT_LAYER_STATE, .state_bytes = 1 };
    kvt_options opt = kvt_options_default();
    kvt_cache *cache;
    opt.layers = &state_layer;
    opt.n_layers = 1;
    assert_int_equal(kvt_open(&cache, &opt), KVT_E_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_models_take_what_is_known),
        cmocka_unit_test(a_window_keeps_its_tokens),
        cmocka_unit_test(a_state_is_as_large_at_any_length),
        cmocka_unit_test(an_index_key_comes_on_top_of_the_latent),
        cmocka_unit_test(a_cache_takes_what_its_layers_say),
        cmocka_unit_test(bad_layers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
