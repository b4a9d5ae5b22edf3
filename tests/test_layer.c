/* test_layer.c - the formula of bytes, the check of the options, and that kvt_open asks for what kvt_bytes says. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sys.h"
#include "cache/cache.h"

enum { LAYERS_MAX = 80 };

/* n_layers equal layers, in static memory. */
static kvt_options model_of(int n_layers, int n_heads_q, int n_heads_kv, int dim) {
    static kvt_layer layers[LAYERS_MAX];
    for (int i = 0; i < n_layers; i++)
        layers[i] = (kvt_layer){.n_heads_q = n_heads_q, .n_heads_kv = n_heads_kv, .dim_k = dim, .dim_v = dim};
    kvt_options opt = kvt_options_default();
    opt.layers = layers;
    opt.n_layers = n_layers;
    return opt;
}

static kvt_bytes_info bytes_of(const kvt_options *opt) {
    kvt_bytes_info info;
    assert_int_equal(kvt_bytes(opt, &info), KVT_OK);
    return info;
}

static void known_models_have_their_known_sizes(void **state) {
    static const struct {
        int n_layers, n_heads_q, n_heads_kv, dim;
        size_t bytes_per_token;
    } models[] = {
        {32, 32, 8, 128, 128 << 10},  /* Llama 3 8B */
        {32, 32, 32, 128, 512 << 10}, /* the same with a key/value head per query head */
        {80, 64, 8, 128, 320 << 10},  /* Llama 3 70B */
        {30, 9, 3, 64, 23040},        /* SmolLM2 135M */
    };
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        kvt_options opt = model_of(models[i].n_layers, models[i].n_heads_q, models[i].n_heads_kv, models[i].dim);
        assert_int_equal(bytes_of(&opt).bytes_per_token, models[i].bytes_per_token);
    }
    /* one sequence of 8,192 tokens of Llama 3 8B is 1 GiB */
    kvt_options opt = model_of(32, 32, 8, 128);
    opt.sequences_max = 1;
    opt.tokens_max = 8192;
    assert_int_equal(bytes_of(&opt).bytes_cache, 1 << 30);
}

/* What a step needs is the most that any layer needs, whichever comes first. */
static void the_order_of_layers_does_not_matter(void **state) {
    (void)state;
    kvt_options opt = model_of(2, 64, 64, 64);
    kvt_layer few = {.n_heads_q = 64, .n_heads_kv = 1, .dim_k = 64, .dim_v = 64}, many = opt.layers[0];
    opt.sequences_max = 1;
    opt.tokens_max = 1 << 20;
    opt.n_threads = 2;
    opt.layers = (const kvt_layer[]){many, few};
    kvt_bytes_info info = bytes_of(&opt);
    opt.layers = (const kvt_layer[]){few, many};
    assert_int_equal(bytes_of(&opt).bytes_scratch, info.bytes_scratch);
    assert_int_equal(bytes_of(&opt).bytes_total, info.bytes_total);
}

static void dims_are_padded_and_formats_count(void **state) {
    (void)state;
    kvt_options opt = model_of(1, 6, 3, 0);
    kvt_layer layer = opt.layers[0];
    layer.dim_k = 17;
    layer.dim_v = 80;
    opt.layers = &layer;
    opt.k_format = KVT_F32;
    opt.v_format = KVT_F16;
    kvt_bytes_info info = bytes_of(&opt);
    assert_int_equal(info.bytes_per_token, 3 * (32 * 4 + 80 * 2));
    assert_int_equal(info.bytes_per_block, info.bytes_per_token * 32);
    assert_int_equal(info.n_blocks, 16 * 4096 / 32);
    assert_int_equal(info.bytes_cache, info.n_blocks * info.bytes_per_block);
    assert_int_equal(info.bytes_total, info.bytes_cache + info.bytes_tables + info.bytes_scratch);
}

/* The factor of the numeric contract, section 6: scale * log2(e), of the dimension before padding. */
static void the_softmax_constant_is_the_contracts(void **state) {
    (void)state;
    kvt_layer layer = {.n_heads_q = 1, .n_heads_kv = 1, .dim_k = 64, .dim_v = 64};
    kvt_options opt = kvt_options_default();
    opt.layers = &layer;
    opt.n_layers = 1;
    assert_true(layer_shape_of(&opt, 0).c == 0x1.715476p-3f);
    layer.dim_k = 17;
    assert_true(layer_shape_of(&opt, 0).c == (float)(1.4426950408889634 / sqrt(17)));
    layer.scale = 1;
    assert_true(layer_shape_of(&opt, 0).c == 0x1.715476p+0f);
}

static void blocks_follow_the_limit(void **state) {
    (void)state;
    kvt_options opt = model_of(2, 4, 2, 64);
    size_t block = bytes_of(&opt).bytes_per_block;
    kvt_bytes_info info;
    opt.tokens_max = 100; /* 4 blocks of 32 */
    opt.sequences_max = 3;
    assert_int_equal(bytes_of(&opt).n_blocks, 12);
    opt.bytes_max = 5 * block + block - 1;
    assert_int_equal(bytes_of(&opt).n_blocks, 5);
    opt.bytes_max = 4 * block;
    assert_int_equal(bytes_of(&opt).n_blocks, 4);
    opt.bytes_max = 4 * block - 1;
    assert_int_equal(kvt_bytes(&opt, &info), KVT_E_LIMIT);
    assert_int_equal(info.n_blocks, 3);
    opt.kind = KVT_CONTIGUOUS;
    opt.bytes_max = 11 * block;
    assert_int_equal(bytes_of(&opt).n_blocks, 8);
}

/* --------------------------------------------------------------------------------------------- mistakes */

static char said[512];

static void listen(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    (void)level;
    strncpy(said, message, sizeof said - 1);
}

/* The options are refused by both calls, and the log names the field and the number. */
static void assert_refused(kvt_options opt, kvt_status status, const char *field, const char *number) {
    kvt_bytes_info info;
    kvt_cache *c = (kvt_cache *)&info;
    opt.log = listen;
    said[0] = 0;
    assert_int_equal(kvt_bytes(&opt, &info), status);
    if (!strstr(said, field) || !strstr(said, number)) fail_msg("said \"%s\", not %s, %s", said, field, number);
    said[0] = 0;
    assert_int_equal(kvt_open(&c, &opt), status);
    assert_null(c);
    if (!strstr(said, field) || !strstr(said, number)) fail_msg("said \"%s\", not %s, %s", said, field, number);
}

#define REFUSED(set, status, field, number)       \
    do {                                          \
        kvt_options o = model_of(3, 4, 2, 64);    \
        kvt_layer l[3];                           \
        memcpy(l, o.layers, sizeof l);            \
        o.layers = l;                             \
        set;                                      \
        assert_refused(o, status, field, number); \
    } while (0)

static void a_bad_layer_is_refused(void **state) {
    (void)state;
    REFUSED(l[2].kind = (kvt_layer_kind)5, KVT_E_UNSUPPORTED, "layers[2].kind", "5");
    REFUSED(l[1].n_heads_q = 0, KVT_E_ARGUMENT, "layers[1].n_heads_q", "0");
    REFUSED(l[1].n_heads_q = 1025, KVT_E_ARGUMENT, "layers[1].n_heads_q", "1025");
    REFUSED(l[1].n_heads_q = 5, KVT_E_ARGUMENT, "layers[1].n_heads_q", "5");
    REFUSED(l[0].n_heads_kv = -2, KVT_E_ARGUMENT, "layers[0].n_heads_kv", "-2");
    REFUSED(l[0].dim_k = 0, KVT_E_ARGUMENT, "layers[0].dim_k", "0");
    REFUSED(l[0].dim_k = 513, KVT_E_ARGUMENT, "layers[0].dim_k", "513");
    REFUSED(l[0].dim_v = 513, KVT_E_ARGUMENT, "layers[0].dim_v", "513");
    REFUSED(l[0].scale = -1, KVT_E_ARGUMENT, "layers[0].scale", "-1");
    REFUSED(l[0].scale = INFINITY, KVT_E_ARGUMENT, "layers[0].scale", "inf");
    REFUSED(l[0].scale = NAN, KVT_E_ARGUMENT, "layers[0].scale", "nan");
    REFUSED(l[0].scale = FLT_MAX, KVT_E_ARGUMENT, "layers[0].scale", "3.4"); /* times log2(e) it is infinite */
    REFUSED(l[0].scale = 0x1p-127f, KVT_E_ARGUMENT, "layers[0].scale", "2^-126"); /* the library takes it for 0 */
}

/* The factors of keys are looked at one by one. */
static void bad_factors_are_refused(void **state) {
    static const float bad[] = {0, -1, 0x1p-127f, INFINITY, NAN};
    static const char *const said_as[] = {"is 0", "is -1", "2^-126", "is inf", "is nan"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        float balance[2 * 64];
        for (int j = 0; j < 2 * 64; j++) balance[j] = 1;
        balance[2 * 64 - 1] = bad[i];
        REFUSED(l[1].k_balance = balance, KVT_E_ARGUMENT, "layers[1].k_balance[127]", said_as[i]);
    }
}

static void *no_memory(void *ctx, size_t bytes, size_t align) {
    (void)ctx;
    (void)bytes;
    (void)align;
    return NULL;
}

static void bad_options_are_refused(void **state) {
    (void)state;
    REFUSED(o.kind = (kvt_cache_kind)3, KVT_E_UNSUPPORTED, "kind", "3");
    REFUSED(o.k_format = (kvt_format)99, KVT_E_UNSUPPORTED, "k_format", "99");
    REFUSED(o.v_format = (kvt_format)-1, KVT_E_UNSUPPORTED, "v_format", "-1");
    REFUSED(o.math = (kvt_math)3, KVT_E_UNSUPPORTED, "math", "3");
    REFUSED(o.block_tokens = 48, KVT_E_ARGUMENT, "block_tokens", "48");
    REFUSED(o.hot_tokens = -1, KVT_E_ARGUMENT, "hot_tokens", "-1");
    REFUSED(o.sequences_max = 0, KVT_E_ARGUMENT, "sequences_max", "0");
    REFUSED(o.sequences_max = 65536, KVT_E_ARGUMENT, "sequences_max", "65536");
    REFUSED(o.tokens_max = -5, KVT_E_ARGUMENT, "tokens_max", "-5");
    REFUSED(o.tokens_max = INT_MAX, KVT_E_ARGUMENT, "tokens_max", "2147483647");
    REFUSED(o.batch_tokens_max = 0, KVT_E_ARGUMENT, "batch_tokens_max", "0");
    REFUSED(o.n_threads = 257, KVT_E_ARGUMENT, "n_threads", "257");
    REFUSED(o.n_layers = 0, KVT_E_ARGUMENT, "n_layers", "0");
    REFUSED(o.n_layers = 4097, KVT_E_ARGUMENT, "n_layers", "4097");
    REFUSED(o.layers = NULL, KVT_E_ARGUMENT, "layers", "NULL");
    REFUSED(o.alloc = no_memory, KVT_E_ARGUMENT, "release", "NULL");
    REFUSED(o.bytes_max = 1000, KVT_E_LIMIT, "bytes_max", "1000");
    kvt_cache *c;
    assert_int_equal(kvt_open(&c, NULL), KVT_E_ARGUMENT);
    assert_null(c);
    kvt_options opt = model_of(1, 1, 1, 64);
    assert_int_equal(kvt_open(NULL, &opt), KVT_E_ARGUMENT);
    assert_int_equal(kvt_bytes(&opt, NULL), KVT_E_ARGUMENT);
}

static void the_largest_description_does_not_overflow(void **state) {
    static kvt_layer layers[4096];
    kvt_options opt = kvt_options_default();
    kvt_bytes_info info;
    (void)state;
    for (int i = 0; i < 4096; i++)
        layers[i] = (kvt_layer){.n_heads_q = 1024, .n_heads_kv = 1024, .dim_k = 512, .dim_v = 512};
    opt.layers = layers;
    opt.n_layers = 4096;
    opt.k_format = opt.v_format = KVT_F32;
    opt.block_tokens = 64;
    opt.sequences_max = 65535;
    opt.tokens_max = 1 << 30;
    opt.batch_tokens_max = 1 << 20;
    opt.n_threads = 256;
    assert_int_equal(kvt_bytes(&opt, &info), KVT_E_LIMIT);
    assert_int_equal(info.bytes_per_token, (size_t)4096 * 1024 * 1024 * 4);
    opt.sequences_max = 1;
    opt.bytes_max = SIZE_MAX;
    assert_int_equal(kvt_bytes(&opt, &info), KVT_E_LIMIT);
}

/* ------------------------------------------------------------------------------------------------ memory */

/* Hooks that count, and refuse the call that is number `fails`. */
typedef struct ledger {
    size_t bytes;
    int n_calls, fails;
} ledger;

static void *ledger_alloc(void *ctx, size_t bytes, size_t align) {
    ledger *l = ctx;
    if (++l->n_calls == l->fails) return NULL;
    l->bytes += bytes;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void ledger_release(void *ctx, void *p, size_t bytes) {
    ledger *l = ctx;
    l->bytes -= bytes;
    free(p);
}

static void open_asks_for_exactly_what_was_announced(void **state) {
    (void)state;
    for (int kind = KVT_PAGED; kind <= KVT_NONE; kind++)
        for (int n_threads = 1; n_threads <= 4; n_threads++) {
            ledger l = {0};
            kvt_options opt = model_of(4, 6, 2, 40);
            kvt_cache *c;
            opt.kind = (kvt_cache_kind)kind;
            opt.n_threads = n_threads;
            opt.alloc = ledger_alloc;
            opt.release = ledger_release;
            opt.alloc_ctx = &l;
            assert_int_equal(kvt_open(&c, &opt), KVT_OK);
            assert_int_equal(l.bytes, bytes_of(&opt).bytes_total);
            kvt_close(c);
            assert_int_equal(l.bytes, 0);
        }
}

static void a_refused_allocation_leaves_nothing_behind(void **state) {
    (void)state;
    for (int fails = 1; fails <= 3; fails++) {
        ledger l = {.fails = fails};
        kvt_options opt = model_of(4, 6, 2, 40);
        kvt_cache *c = (kvt_cache *)&l;
        opt.alloc = ledger_alloc;
        opt.release = ledger_release;
        opt.alloc_ctx = &l;
        opt.log = listen;
        assert_int_equal(kvt_open(&c, &opt), KVT_E_MEMORY);
        assert_null(c);
        assert_int_equal(l.bytes, 0);
        assert_non_null(strstr(said, "cannot be had"));
    }
}

static void more_than_the_machine_has_is_refused_at_open(void **state) {
    (void)state;
    kvt_options opt = model_of(80, 64, 8, 128);
    kvt_cache *c;
    opt.bytes_max = sys_memory_total() + ((size_t)1 << 30);
    opt.log = listen;
    assert_int_equal(kvt_open(&c, &opt), KVT_E_MEMORY);
    assert_null(c);
    assert_non_null(strstr(said, "this machine has"));
}

static void names_name_what_there_is(void **state) {
    (void)state;
    kvt_format f;
    int n = 0;
    for (; kvt_format_name((kvt_format)n); n++) {
        assert_int_equal(kvt_format_parse(&f, kvt_format_name((kvt_format)n)), KVT_OK);
        assert_int_equal(f, n);
    }
    assert_true(n > KVT_INT2);
    assert_int_equal(kvt_format_parse(&f, "int"), KVT_E_UNSUPPORTED);
    assert_int_equal(kvt_format_parse(&f, NULL), KVT_E_ARGUMENT);
    assert_null(kvt_format_name((kvt_format)-1));
    assert_string_equal(kvt_format_name(KVT_INT2), "int2");
    assert_string_equal(kvt_format_name(KVT_BF16), "bf16");
    assert_string_equal(kvt_cache_kind_name(KVT_PAGED), "paged");
    assert_string_equal(kvt_cache_kind_name(KVT_CONTIGUOUS), "contiguous");
    assert_string_equal(kvt_cache_kind_name(KVT_NONE), "none");
    assert_null(kvt_cache_kind_name((kvt_cache_kind)3));
    for (int i = KVT_E_UNSUPPORTED; i <= KVT_FULL; i++) assert_null(strstr(kvt_status_text((kvt_status)i), "unknown"));
    assert_non_null(strstr(kvt_status_text((kvt_status)99), "unknown"));
    assert_string_equal(kvt_version(), "0.1.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_models_have_their_known_sizes),
        cmocka_unit_test(the_order_of_layers_does_not_matter),
        cmocka_unit_test(dims_are_padded_and_formats_count),
        cmocka_unit_test(the_softmax_constant_is_the_contracts),
        cmocka_unit_test(blocks_follow_the_limit),
        cmocka_unit_test(a_bad_layer_is_refused),
        cmocka_unit_test(bad_factors_are_refused),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(the_largest_description_does_not_overflow),
        cmocka_unit_test(open_asks_for_exactly_what_was_announced),
        cmocka_unit_test(a_refused_allocation_leaves_nothing_behind),
        cmocka_unit_test(more_than_the_machine_has_is_refused_at_open),
        cmocka_unit_test(names_name_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
