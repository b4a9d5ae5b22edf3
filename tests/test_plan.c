/* test_plan.c - plans: published models against what transformers makes of their configurations, numbers known from
 * papers, what fits against trying it, bad configurations, and the cache that the library really opens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "plan/plan.h"

static const int64_t KIB = 1024, GIB = 1024 * 1024 * 1024;

static capacity_options options(int64_t tokens, int64_t sequences) {
    return (capacity_options){ .block_tokens = 32, .tokens = tokens, .sequences = sequences, .chunk = 512 };
}

static shape named(const char *name) {
    shape s;
    if (!shape_of_name(&s, name)) fail_msg("no model is called %s", name);
    return s;
}

static shape named_as(const char *name, const char *as) {
    shape s = named(name);
    error_text err = { "" };
    if (shape_as(&s, as, &err) != KVT_OK) fail_msg("%s as %s: %s", name, as, err.text);
    return s;
}

static capacity_bytes bytes_of(const shape *s, int64_t tokens, int64_t sequences) {
    const capacity_options opt = options(tokens, sequences);
    capacity_bytes b;
    assert_int_equal(capacity_bytes_of(s, &opt, tokens, sequences, &b), KVT_OK);
    return b;
}

static capacity planned(const shape *s, const capacity_options *opt) {
    capacity c;
    error_text err = { "" };
    if (capacity_of(s, opt, &c, &err) != KVT_OK) fail_msg("%s", err.text);
    return c;
}

static void assert_near(double got, double wanted, double share) {
    if (!(got >= wanted * (1 - share) && got <= wanted * (1 + share))) fail_msg("%.12g, not %.12g", got, wanted);
}

/* ------------------------------------------------------------------------------------- numbers that are known */

static void known_models_take_what_is_known(void **state) {
    (void)state;
    static const struct {
        const char *name, *as;
        int64_t tokens, sequences, bytes;
    } rows[] = {
        { "llama-3-8b", NULL, 1, 1, 128 * 1024 },
        { "llama-3-8b", "mha", 1, 1, 512 * 1024 },
        { "llama-3-70b", NULL, 1, 1, 320 * 1024 },
        { "llama-3-70b", "mha", 1, 1, 2560 * 1024 },
        { "llama-3-8b", NULL, 8192, 1, INT64_C(1) << 30 },
        { "llama-3-8b", NULL, 8192, 16, INT64_C(16) << 30 },
        { "llama-3-8b", NULL, 131072, 1, INT64_C(16) << 30 },
        { "deepseek-v3", "mha", 1, 1, 61 * 2 * 128 * 128 * 2 }, /* 3.81 MiB */
        { "deepseek-v3", "gqa:8", 1, 1, 244 * 1024 },
        { "deepseek-v3", "mqa", 1, 1, 31232 },                  /* 30.5 KiB */
        { "deepseek-v3", "mla", 1, 1, 70272 },                  /* 68.6 KiB */
        { "deepseek-v3", NULL, 1, 1, 70272 },
        { "mistral-7b", NULL, 32768, 1, INT64_C(4294967296) / 8 },
        { "mixtral-8x7b", NULL, 262144, 1, INT64_C(32) << 30 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape s = rows[i].as ? named_as(rows[i].name, rows[i].as) : named(rows[i].name);
        int64_t got = (int64_t)bytes_of(&s, rows[i].tokens, rows[i].sequences).all;
        if (got != rows[i].bytes) fail_msg("%s: %lld bytes", rows[i].name, (long long)got);
    }
    shape jamba = named("jamba-v0.1"); /* the states come on top */
    capacity_bytes b = bytes_of(&jamba, 256 * KIB, 1);
    assert_int_equal(b.all - b.fixed, 4 * GIB);
    assert_int_equal(b.fixed, 28 * 573440);
}

static void kinds_of_attention_have_the_known_shares(void **state) {
    (void)state;
    static const struct {
        const char *as;
        double share;
    } rows[] = { { "mha", 1 }, { "gqa:8", 0.0625 }, { "mqa", 0.0078125 }, { "mla", 0.0176 } };
    shape mha = named_as("deepseek-v3", "mha");
    for (size_t i = 0; i < 4; i++) {
        shape s = named_as("deepseek-v3", rows[i].as);
        double per_token = (double)bytes_of(&s, 1, 1).per_token;
        assert_near(per_token / (double)bytes_of(&mha, 1, 1).per_token, rows[i].share, 0.002);
    }
}

/* Widely copied as 0.6, 5 and 20 GB: half of it. */
static void the_copied_table_is_half_of_the_formula(void **state) {
    (void)state;
    shape s = named("llama-3-70b");
    assert_int_equal(bytes_of(&s, 4096, 1).all, INT64_C(1342177280));
    assert_int_equal(bytes_of(&s, 32000, 1).all, INT64_C(10485760000));
    assert_int_equal(bytes_of(&s, 128000, 1).all, INT64_C(41943040000));
}

static void positions_with_and_without_a_cache(void **state) {
    (void)state;
    shape s = named("llama-3-8b");
    capacity_options opt = options(2000, 1);
    opt.answer = 1000;
    capacity c = planned(&s, &opt);
    assert_int_equal(c.positions_recomputed, 1499500);
    assert_int_equal(c.positions_cached, 1999);
    opt.answer = 0;
    c = planned(&s, &opt);
    assert_true(c.positions_recomputed == 2000 && c.positions_cached == 2000);
    opt.answer = 1;
    c = planned(&s, &opt);
    assert_true(c.positions_recomputed == 1999 && c.positions_cached == 1999);
    opt.tokens = CAPACITY_MOST;
    opt.answer = CAPACITY_MOST - 1;
    c = planned(&s, &opt); /* n + n (n - 1) / 2 of the largest */
    assert_int_equal(c.positions_recomputed, INT64_C(1073741823) + INT64_C(1073741823) * 536870911);
}

/* -------------------------------------------------------------------------------------- published configurations */

static int kind_count(const shape *s, kvt_layer_kind kind) {
    int n = 0;
    for (int i = 0; i < s->n_groups; i++)
        if (s->group[i].layer.kind == kind) n += s->group[i].n_layers;
    return n;
}

static int64_t number_in(const json_t *row, const char *key) {
    const json_t *v = json_object_get(row, key);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static void check_layers(const char *name, const shape *s, const json_t *row) {
    static const char *const kinds[] = { "full", "window", "latent", "state", "sparse" };
    const json_t *wanted = json_object_get(row, "kinds");
    capacity_bytes b = bytes_of(s, number_in(row, "tokens"), 1);
    for (int k = 0; k < 5; k++) {
        int n = kind_count(s, (kvt_layer_kind)k);
        if (n != json_integer_value(json_object_get(wanted, kinds[k]))) fail_msg("%s: %d %s layers", name, n, kinds[k]);
    }
    if (s->n_layers != number_in(row, "n_layers")) fail_msg("%s: %d layers", name, s->n_layers);
    if ((int64_t)b.per_token != number_in(row, "bytes_per_token")) fail_msg("%s: %zu bytes a token", name, b.per_token);
    if ((int64_t)b.all != number_in(row, "bytes_total")) fail_msg("%s: %zu bytes", name, b.all);
}

static void check_weights(const char *name, const shape *s, const json_t *row, double share) {
    double all = s->n_weights / (double)number_in(row, "n_weights");
    double active = s->n_weights_active / (double)number_in(row, "n_weights_active");
    if (!(all >= 1 - share && all <= 1 && active >= 1 - share && active <= 1))
        fail_msg("%s: %.5f of its weights, %.5f of the active ones", name, all, active);
    if (s->tied != json_is_true(json_object_get(row, "tied"))) fail_msg("%s: tied %d", name, s->tied);
}

static void published_configurations_are_understood(void **state) {
    (void)state;
    json_t *rows = json_load_file("tests/vectors/configs.json", 0, NULL), *row;
    size_t i;
    assert_int_equal(json_array_size(rows), 30);
    json_array_foreach(rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        char path[128];
        error_text err = { "" };
        shape s;
        snprintf(path, sizeof path, "tests/vectors/configs/%s.json", name);
        if (shape_of_config(&s, path, &err) != KVT_OK) fail_msg("%s", err.text);
        check_layers(name, &s, row);
        check_weights(name, &s, row, 0.0015); /* norms and biases */
        assert_true(s.weights_estimated && s.n_heads_q > 0 && s.dim_head > 0);
    }
    json_decref(rows);
}

static void known_names_are_their_configurations(void **state) {
    (void)state;
    json_t *rows = json_load_file("tests/vectors/configs.json", 0, NULL), *row;
    size_t i, n = 0;
    json_array_foreach(rows, i, row) {
        const char *name = json_string_value(json_object_get(row, "name"));
        char path[128];
        shape s, c;
        if (!shape_of_name(&s, name)) continue;
        n++;
        snprintf(path, sizeof path, "tests/vectors/configs/%s.json", name);
        assert_int_equal(shape_of_config(&c, path, NULL), KVT_OK);
        check_layers(name, &s, row);
        check_weights(name, &s, row, 0);
        if (!strstr(s.source, json_string_value(json_object_get(row, "source")))) fail_msg("%s: %s", name, s.source);
        if (s.n_heads_q != c.n_heads_q || s.dim_head != c.dim_head || s.width != c.width ||
            s.width_ffn != c.width_ffn || s.n_vocab != c.n_vocab || s.context != c.context ||
            s.tokens_chosen != c.tokens_chosen)
            fail_msg("%s: the table and the configuration differ", name);
        double each = strcmp(name, "gpt2") == 0 ? 0.002 : 0.0015;
        assert_near(s.weights_bytes, c.weights_bytes, each);
        assert_near(s.active_bytes, c.active_bytes, each);
        assert_near(s.unread_bytes + 1, c.unread_bytes + 1, 0);
    }
    while (shape_name((int)n)) n = 1000; /* one that no vector is there for */
    assert_true(n >= 20 && n < 1000);
    json_decref(rows);
}

/* ------------------------------------------------------------------------------------------------- what fits */

static double needed(const shape *s, capacity_options opt, int64_t tokens, int64_t sequences) {
    opt.tokens = tokens;
    opt.sequences = sequences;
    return planned(s, &opt).needed;
}

static void the_most_that_fits_is_the_most(void **state) {
    (void)state;
    static const char *const names[] = { "llama-3-8b",    "mistral-7b", "gemma-3-27b",
                                         "deepseek-v3.2", "jamba-v0.1", "gpt2" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        shape s = named(names[i]);
        capacity_options opt = options(6000, 3);
        opt.memory = s.weights_bytes + 40e9 + 12345;
        capacity c = planned(&s, &opt);
        double sum = c.weights + c.scratch + (double)bytes_of(&s, 6000, 3).reserved;
        assert_true(c.needed == sum && c.spare == opt.memory - sum && c.spare > 0);
        assert_true(needed(&s, opt, 6000, c.sequences_max) <= opt.memory);
        assert_true(needed(&s, opt, 6000, c.sequences_max + 1) > opt.memory);
        if (c.tokens_max == CAPACITY_MOST) { /* all in a window: longer takes no more */
            assert_int_equal(kind_count(&s, KVT_LAYER_WINDOW), s.n_layers);
            continue;
        }
        assert_true(needed(&s, opt, c.tokens_max, 3) <= opt.memory);
        assert_true(needed(&s, opt, c.tokens_max + 1, 3) > opt.memory);
    }
}

static void without_room_nothing_fits(void **state) {
    (void)state;
    shape s = named("llama-3-8b");
    capacity_options opt = options(1, 1);
    opt.memory = s.weights_bytes - 1;
    capacity c = planned(&s, &opt);
    assert_true(c.sequences_max == 0 && c.tokens_max == 0 && c.spare < 0);
    opt.memory = 0; /* not told */
    c = planned(&s, &opt);
    assert_true(c.sequences_max == -1 && c.tokens_max == -1);
}

static void the_cache_outweighs_the_weights_from_there_on(void **state) {
    (void)state;
    shape s = named("llama-3-8b");
    capacity_options opt = options(100, 1);
    capacity c = planned(&s, &opt);
    assert_true((double)bytes_of(&s, c.tokens_outweigh - 1, 1).reserved <= s.weights_bytes);
    assert_true((double)bytes_of(&s, c.tokens_outweigh, 1).reserved > s.weights_bytes);
    assert_near((double)c.tokens_outweigh, 16060522496.0 / 131072, 0.001);
    s = named("mistral-7b"); /* a window never does */
    assert_int_equal(planned(&s, &opt).tokens_outweigh, 0);
}

static void nothing_overflows(void **state) {
    (void)state;
    shape s = named("llama-3-70b");
    capacity_options opt = options(CAPACITY_MOST, CAPACITY_MOST);
    capacity c;
    error_text err = { "" };
    assert_int_equal(capacity_of(&s, &opt, &c, &err), KVT_E_LIMIT);
    assert_non_null(strstr(err.text, "1073741824 sequences of 1073741824 tokens"));
    opt.sequences = 1;
    assert_int_equal(planned(&s, &opt).bytes.all, INT64_C(1073741824) * 327680);
    kvt_layer huge = { .n_heads_q = 1024, .n_heads_kv = 1024, .dim_k = 512, .dim_v = 512 };
    assert_int_equal(shape_of_numbers(&s, 4096, huge), KVT_OK);
    opt.k_format = opt.v_format = KVT_F32;
    assert_int_equal(capacity_of(&s, &opt, &c, &err), KVT_E_LIMIT); /* 2^64 */
    opt.tokens = CAPACITY_MOST / 4;
    assert_int_equal(planned(&s, &opt).bytes.all, INT64_C(1) << 62);
}

/* -------------------------------------------------------------------------------------------------- the floors */

static void a_token_takes_what_it_reads(void **state) {
    (void)state;
    shape s = named("llama-3-8b");
    capacity_options opt = options(8192, 4);
    opt.bandwidth = 1e12;
    opt.flops = 1e15;
    opt.answer = 8192 - 1000;
    capacity c = planned(&s, &opt);
    double embedding = 128256.0 * 4096; /* of which a token reads one row */
    double bytes = 2 * (8030261248.0 - embedding) + 4 * (double)GIB;
    assert_near(c.step_bytes, bytes, 1e-12);
    assert_near(c.step_ms, bytes / 1e9, 1e-12);
    /* the matrices of the layers once a token, the output matrix once; 32 heads of 128 over 1, 2, ... 1,000 tokens */
    double flop = 2 * ((8030261248.0 - 2 * embedding) * 1000 + embedding) + 32 * 4.0 * 32 * 128 * 500500;
    assert_near(c.prefill_flop, flop, 1e-12);
    assert_near(c.prefill_ms, flop / 1e12, 1e-12);
    s = named("gpt2"); /* tied: all of it is read */
    c = planned(&s, &opt);
    assert_near(c.step_weights, 2 * 124439808.0, 1e-12);
}

static void a_choice_of_tokens_reads_index_keys_and_the_chosen(void **state) {
    (void)state;
    shape s = named("deepseek-v3.2");
    capacity_options opt = options(100000, 1);
    assert_near(capacity_read_bytes(&s, &opt, 100000), 61 * 2.0 * (100000 * 128.0 + 2048 * 576.0), 1e-12);
    assert_near(capacity_read_bytes(&s, &opt, 2000), 61 * 2.0 * 2000 * 704, 1e-12);
    s = named("mistral-7b");
    assert_near(capacity_read_bytes(&s, &opt, 100000), 131072.0 * 4096, 1e-12);
}

static void given_weights_replace_the_known_ones(void **state) {
    (void)state;
    shape s = named("mixtral-8x7b");
    double share = s.active_bytes / s.weights_bytes;
    shape_weigh_all(&s, 26e9);
    assert_near(s.active_bytes, 26e9 * share, 1e-12);
    assert_near(s.unread_bytes, 2 * 32000.0 * 4096 * 26e9 / (2 * 46702792704.0), 1e-12);
    kvt_layer l = { .n_heads_q = 32, .n_heads_kv = 8, .dim_k = 128, .dim_v = 128 };
    assert_int_equal(shape_of_numbers(&s, 32, l), KVT_OK);
    assert_true(capacity_read_weights(&s) == 0);
    shape_weigh_all(&s, 5e9);
    assert_true(capacity_read_weights(&s) == 5e9);
}

/* ------------------------------------------------------------------------------------------ the real allocator */

/* The library opens what the plan says, to the byte: whole blocks of all sequences, in every format and block. */
static void a_plan_is_what_a_cache_takes(void **state) {
    (void)state;
    static const char *const files[] = { "tests/vectors/tiny-a.gguf", "tests/vectors/tiny-b.gguf",
                                         "tests/vectors/family-qwen3.gguf" };
    for (size_t i = 0; i < 3; i++)
        for (int f = 0; f < 9; f++)
            for (int block = 16; block <= 64; block *= 2) {
                shape s;
                error_text err = { "" };
                kvt_layer layers[64];
                kvt_options open = kvt_options_default();
                kvt_bytes_info info;
                capacity_options opt = options(100, 3);
                if (shape_of_file(&s, files[i], &err) != KVT_OK) fail_msg("%s", err.text);
                opt.block_tokens = open.block_tokens = block;
                opt.k_format = open.k_format = (kvt_format)(f / 3);
                opt.v_format = open.v_format = (kvt_format)(f % 3);
                for (int l = 0; l < s.n_layers; l++) layers[l] = s.group[0].layer;
                open.layers = layers;
                open.n_layers = s.n_layers;
                open.sequences_max = 3;
                open.tokens_max = 100;
                assert_int_equal(kvt_bytes(&open, &info), KVT_OK);
                capacity c = planned(&s, &opt);
                assert_int_equal(c.bytes.reserved, info.bytes_cache);
                assert_int_equal(c.bytes.per_token, info.bytes_per_token);
                assert_int_equal(c.bytes.all, 300 * info.bytes_per_token);
            }
}

/* ------------------------------------------------------------------------------------------ bad configurations */

static const char *file_with(const char *text) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/kvtile-config-%d.json", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return path;
}

#define LLAMA(rest) "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, " \
                    "\"vocab_size\": 100, " rest "}"
#define WITH(type, rest) "{\"model_type\": \"" type "\", \"num_hidden_layers\": 2, \"hidden_size\": 64, " \
                         "\"vocab_size\": 100, \"num_attention_heads\": 4, " rest "}"

static void a_bad_configuration_is_told_by_its_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *word;
    } rows[] = {
        { "", "line 1" },
        { "not JSON", "line 1" },
        { "[]", "no JSON object" },
        { "17", "line 1" },
        { "{}", "model_type" },
        { "{\"model_type\": 5}", "model_type" },
        { "{\"model_type\": \"unheard-of\"}", "unheard-of" },
        { "{\"model_type\": \"llama\"}", "num_hidden_layers" },
        { "{\"model_type\": \"llama\", \"model_type\": \"llama\"}", "duplicate" },
        { "{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma3_text\"}}", "num_hidden_layers" },
        { LLAMA("\"num_key_value_heads\": 1"), "num_attention_heads" },
        { LLAMA("\"num_attention_heads\": 0"), "num_attention_heads is 0" },
        { LLAMA("\"num_attention_heads\": -4"), "num_attention_heads is -4" },
        { LLAMA("\"num_attention_heads\": 4.0"), "num_attention_heads is not a whole number" },
        { LLAMA("\"num_attention_heads\": \"4\""), "num_attention_heads is not a whole number" },
        { LLAMA("\"num_attention_heads\": [4]"), "num_attention_heads is not a whole number" },
        { LLAMA("\"num_attention_heads\": null"), "num_attention_heads" },
        { LLAMA("\"num_attention_heads\": 1000000000000"), "num_attention_heads is 1000000000000" },
        { LLAMA("\"num_attention_heads\": 1e400"), "line 1" },
        { LLAMA("\"num_attention_heads\": NaN"), "line 1" },
        { LLAMA("\"num_attention_heads\": 99999999999999999999"), "line 1" },
        { LLAMA("\"num_attention_heads\": 4, \"num_key_value_heads\": 3"), "no multiple of num_key_value_heads, 3" },
        { LLAMA("\"num_attention_heads\": 4, \"num_key_value_heads\": 0"), "num_key_value_heads is 0" },
        { LLAMA("\"num_attention_heads\": 5"), "hidden_size is 64, no multiple" },
        { LLAMA("\"num_attention_heads\": 4, \"head_dim\": 513"), "head_dim is 513" },
        { LLAMA("\"num_attention_heads\": 4, \"max_position_embeddings\": 1000000000000"), "max_position_embeddings" },
        { LLAMA("\"num_attention_heads\": 4, \"intermediate_size\": -1"), "intermediate_size is -1" },
        { LLAMA("\"num_attention_heads\": 4, \"layer_types\": [\"full_attention\"]"), "layer_types" },
        { LLAMA("\"num_attention_heads\": 4, \"layer_types\": [1, 2]"), "layer_types" },
        { LLAMA("\"num_attention_heads\": 4, \"layer_types\": \"full\""), "layer_types" },
        { LLAMA("\"num_attention_heads\": 4, \"layer_types\": [\"full_attention\", \"odd\"]"), "\"odd\"" },
        { LLAMA("\"num_attention_heads\": 4, \"layer_types\": [\"full_attention\", \"sliding_attention\"]"),
          "no sliding_window" },
        { "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 4194304, \"vocab_size\": 100,"
          " \"num_attention_heads\": 4}", "hidden_size is 4194304" },
        { "{\"model_type\": \"llama\", \"num_hidden_layers\": 5000}", "num_hidden_layers is 5000" },
        { "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 4}",
          "vocab_size" },
        { WITH("mistral", "\"sliding_window\": -1"), "sliding_window is -1" },
        { WITH("gemma2", "\"sliding_window_pattern\": 0"), "sliding_window_pattern is 0" },
        { WITH("qwen3_moe", "\"use_sliding_window\": true, \"sliding_window\": 8"), "use_sliding_window" },
        { WITH("mixtral", "\"num_local_experts\": 8"), "num_experts_per_tok" },
        { WITH("mixtral", "\"num_local_experts\": -8"), "num_local_experts is -8" },
        { WITH("deepseek_v3", "\"qk_rope_head_dim\": 8"), "kv_lora_rank" },
        { WITH("deepseek_v3", "\"kv_lora_rank\": 600"), "kv_lora_rank is 600" },
        { WITH("deepseek_v3", "\"kv_lora_rank\": 32"), "qk_rope_head_dim" },
        { WITH("deepseek_v3", "\"kv_lora_rank\": 32, \"qk_rope_head_dim\": 8"), "v_head_dim" },
        { WITH("jamba", "\"attn_layer_period\": 0"), "attn_layer_period is 0" },
        { WITH("jamba", "\"attn_layer_period\": 2, \"attn_layer_offset\": 2"), "attn_layer_offset is 2" },
        { WITH("jamba", "\"mamba_d_state\": 0"), "mamba_d_state is 0" },
        { WITH("qwen3_next", "\"num_key_value_heads\": 1"), "linear_num_key_heads" },
        { WITH("mpt", "\"attn_config\": {\"kv_n_heads\": 0}"), "kv_n_heads is 0" },
        { WITH("mpt", "\"attn_config\": {\"kv_n_heads\": 3}"), "no multiple of num_key_value_heads, 3" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        shape s;
        error_text err = { "" };
        kvt_status status = shape_of_config(&s, file_with(rows[i].text), &err);
        if (status >= KVT_OK) fail_msg("taken: %s", rows[i].text);
        if (!strstr(err.text, rows[i].word)) fail_msg("%s\n%s\nlacks: %s", rows[i].text, err.text, rows[i].word);
        assert_null(strchr(err.text, '\n'));
    }
    unlink(file_with(""));
}

static void odd_files_are_refused(void **state) {
    (void)state;
    shape s;
    error_text err;
    char *deep = malloc(400001);
    assert_non_null(deep);
    memset(deep, '[', 400000);
    deep[400000] = 0;
    assert_int_equal(shape_of_config(&s, file_with(deep), &err), KVT_E_CORRUPT);
    free(deep);
    unlink(file_with(""));
    assert_int_equal(shape_of_config(&s, "/nowhere/config.json", &err), KVT_E_ARGUMENT);
    assert_int_equal(shape_of_config(&s, "tests", &err), KVT_E_ARGUMENT); /* a folder without one */
    assert_non_null(strstr(err.text, "tests/config.json"));
    assert_int_equal(shape_of_config(&s, "/dev/zero", &err), KVT_E_ARGUMENT);
    assert_int_equal(shape_of_config(&s, "tests/vectors/tiny-a.gguf", &err), KVT_E_CORRUPT);
    assert_int_equal(shape_of_config(&s, "/nowhere/config.json", NULL), KVT_E_ARGUMENT);
}

/* A key and its default; what is null has none. */
static void null_is_not_the_default(void **state) {
    (void)state;
    shape s;
    error_text err = { "" };
    assert_int_equal(shape_of_config(&s, file_with(WITH("mistral", "\"head_dim\": 16")), &err), KVT_OK);
    assert_true(s.group[0].layer.kind == KVT_LAYER_WINDOW && s.group[0].layer.window == 4096);
    assert_int_equal(shape_of_config(&s, file_with(WITH("mistral", "\"sliding_window\": null")), &err), KVT_OK);
    assert_true(s.group[0].layer.kind == KVT_LAYER_FULL && s.group[0].layer.dim_k == 16);
    assert_int_equal(shape_of_config(&s, file_with(WITH("mistral", "\"num_key_value_heads\": null")), &err), KVT_OK);
    assert_int_equal(s.group[0].layer.n_heads_kv, 4);
    static const char one[] = WITH("mpt", "\"attn_config\": {\"attn_type\": \"multiquery_attention\"}");
    assert_int_equal(shape_of_config(&s, file_with(one), &err), KVT_OK);
    assert_int_equal(s.group[0].layer.n_heads_kv, 1);
    unlink(file_with(""));
}

static void windows_of_qwen_are_behind_the_first_layers(void **state) {
    (void)state;
    shape s;
    static const char text[] = "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 10, \"hidden_size\": 64,"
                               " \"vocab_size\": 9, \"num_attention_heads\": 4, \"use_sliding_window\": true,"
                               " \"sliding_window\": 128, \"max_window_layers\": 7}";
    assert_int_equal(shape_of_config(&s, file_with(text), NULL), KVT_OK);
    assert_true(kind_count(&s, KVT_LAYER_FULL) == 7 && kind_count(&s, KVT_LAYER_WINDOW) == 3);
    unlink(file_with(""));
}

static void kinds_of_attention_that_cannot_be(void **state) {
    (void)state;
    static const char *const words[] = { "",       "mh",    "gqa",    "gqa:",           "gqa:0",
                                         "gqa:-8", "gqa:7", "gqa:8x", "gqa:99999999999" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        shape s = named("llama-3-8b");
        error_text err = { "" };
        if (shape_as(&s, words[i], &err) != KVT_E_ARGUMENT) fail_msg("taken: %s", words[i]);
        assert_non_null(strstr(err.text, words[i]));
    }
}

/* ------------------------------------------------------------------------------------------------------- rates */

static void rates_are_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double rate; /* 0: none */
    } rows[] = {
        { "3.35T", 3.35e12 }, { "50G", 50e9 }, { "50GB/s", 50e9 }, { "60 GB/s", 60e9 }, { "990TFLOP/s", 990e12 },
        { "2e12", 2e12 }, { "1P", 1e15 }, { "1500M", 1.5e9 }, { "7k", 7000 }, { "1", 1 }, { "1B", 1 },
        { "", 0 }, { "0", 0 }, { "-5G", 0 }, { "G", 0 }, { "5X", 0 }, { "5GG", 0 }, { "nan", 0 }, { "inf", 0 },
        { "1e400", 0 }, { "1e30", 0 }, { "5 G B", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double rate = 0;
        bool taken = option_rate(rows[i].text, &rate);
        if (taken != (rows[i].rate > 0)) fail_msg("\"%s\"", rows[i].text);
        if (taken) assert_near(rate, rows[i].rate, 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_models_take_what_is_known),
        cmocka_unit_test(kinds_of_attention_have_the_known_shares),
        cmocka_unit_test(the_copied_table_is_half_of_the_formula),
        cmocka_unit_test(positions_with_and_without_a_cache),
        cmocka_unit_test(published_configurations_are_understood),
        cmocka_unit_test(known_names_are_their_configurations),
        cmocka_unit_test(the_most_that_fits_is_the_most),
        cmocka_unit_test(without_room_nothing_fits),
        cmocka_unit_test(the_cache_outweighs_the_weights_from_there_on),
        cmocka_unit_test(nothing_overflows),
        cmocka_unit_test(a_token_takes_what_it_reads),
        cmocka_unit_test(a_choice_of_tokens_reads_index_keys_and_the_chosen),
        cmocka_unit_test(given_weights_replace_the_known_ones),
        cmocka_unit_test(a_plan_is_what_a_cache_takes),
        cmocka_unit_test(a_bad_configuration_is_told_by_its_key),
        cmocka_unit_test(odd_files_are_refused),
        cmocka_unit_test(null_is_not_the_default),
        cmocka_unit_test(windows_of_qwen_are_behind_the_first_layers),
        cmocka_unit_test(kinds_of_attention_that_cannot_be),
        cmocka_unit_test(rates_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
