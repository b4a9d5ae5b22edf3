/* test_tokenizer.c - text to ids and back, against ids that Hugging Face tokenizers gave
 * (tests/vectors/tokenizer.json). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "fixture.h"
#include "handmade.h"
#include "model/tokenizer.h"
#include "random.h"

/* ------------------------------------------------------------------------------------------- helpers */

static tokenizer *smollm2(void) {
    if (!fixture_model()) fixture_skip("the default model is not there (make model)");
    return handmade_open(fixture_model());
}

/* 256 bytes, 17 control tokens, some merges: any text comes back whole. */
static tokenizer *tiny(void) { return handmade_open("tests/vectors/tiny-a.gguf"); }

static byte_list from_hex(const char *hex) {
    byte_list out = {0};
    for (unsigned byte; *hex; hex += 2) {
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        assert_int_equal(byte_list_add(&out, &(unsigned char){(unsigned char)byte}, 1), KVT_OK);
    }
    return out;
}

static token_list ids_of(const json_t *array) {
    token_list out = {0};
    for (size_t i = 0; i < json_array_size(array); i++)
        assert_int_equal(token_list_add(&out, (int32_t)json_integer_value(json_array_get(array, i))), KVT_OK);
    return out;
}

static json_t *load_vectors(const char *part, size_t at_least) {
    json_error_t error;
    json_t *all = json_load_file("tests/vectors/tokenizer.json", 0, &error);
    if (!all) fail_msg("tests/vectors/tokenizer.json: %s, line %d", error.text, error.line);
    json_t *list = json_incref(json_object_get(all, part));
    json_decref(all);
    assert_true(json_array_size(list) >= at_least);
    return list;
}

static bool same_bytes(const byte_list *a, const byte_list *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->at, b->at, a->n) == 0);
}

static token_list encode(const tokenizer *t, const char *text, size_t n) {
    token_list out = {0};
    assert_int_equal(tokenizer_encode(t, text, n, false, &out), KVT_OK);
    return out;
}

static byte_list decode(const tokenizer *t, const token_list *ids, bool show_control) {
    byte_list out = {0};
    assert_int_equal(tokenizer_decode(t, ids->id, ids->n, show_control, &out), KVT_OK);
    return out;
}

/* --------------------------------------------------------------------------------------------- vectors */

static void encodes_as_the_reference(void **state) {
    (void)state;
    tokenizer *t = smollm2();
    json_t *cases = load_vectors("encode", 300);
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *hex = json_string_value(json_object_get(c, "hex"));
        byte_list text = from_hex(hex);
        token_list want = ids_of(json_object_get(c, "ids")), got = {0};
        bool special = json_is_true(json_object_get(c, "special"));
        assert_int_equal(tokenizer_encode(t, text.at, text.n, special, &got), KVT_OK);
        if (!ids_same(&want, &got)) {
            wrong++;
            print_message("case %zu, bytes %.200s\n", i, hex);
            ids_show("reference", &want);
            ids_show("here", &got);
        }
        token_list_free(&want);
        token_list_free(&got);
        byte_list_free(&text);
    }
    json_decref(cases);
    tokenizer_close(t);
    assert_int_equal(wrong, 0);
}

static void decodes_as_the_reference(void **state) {
    (void)state;
    tokenizer *t = smollm2();
    json_t *cases = load_vectors("decode", 100);
    size_t wrong = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        byte_list want = from_hex(json_string_value(json_object_get(c, "hex")));
        token_list ids = ids_of(json_object_get(c, "ids"));
        byte_list got = decode(t, &ids, true);
        if (!same_bytes(&want, &got)) {
            wrong++;
            print_message("case %zu: %.*s\n", i, (int)got.n, got.at);
        }
        token_list_free(&ids);
        byte_list_free(&want);
        byte_list_free(&got);
    }
    json_decref(cases);
    tokenizer_close(t);
    assert_int_equal(wrong, 0);
}

static void pieces_of_text_come_in_whole_characters(void **state) {
    (void)state;
    tokenizer *t = smollm2();
    json_t *cases = load_vectors("encode", 300);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        token_list ids = ids_of(json_object_get(c, "ids"));
        byte_list whole = decode(t, &ids, true), part = {0};
        tokenizer_decoder d = tokenizer_decoder_of(t, true);
        json_t *valid = json_stringn(whole.n ? whole.at : "", whole.n); /* NULL if it is not UTF-8 */
        for (size_t k = 0; k < ids.n; k++) {
            assert_int_equal(tokenizer_push(&d, ids.id[k], &part), KVT_OK);
            json_t *so_far = json_stringn(part.n ? part.at : "", part.n);
            assert_true(so_far != NULL || valid == NULL);
            json_decref(so_far);
        }
        assert_int_equal(tokenizer_flush(&d, &part), KVT_OK);
        assert_true(same_bytes(&part, &whole));
        json_decref(valid);
        token_list_free(&ids);
        byte_list_free(&whole);
        byte_list_free(&part);
    }
    json_decref(cases);
    tokenizer_close(t);
}

/* The ids of single bytes, whatever they are. */
static void push_bytes(const tokenizer *t, tokenizer_decoder *d, const char *bytes, size_t n, byte_list *out) {
    for (size_t i = 0; i < n; i++) {
        int32_t id = -1;
        for (int32_t k = 0; k < tokenizer_about(t)->n_vocab; k++) {
            size_t length;
            const char *b = tokenizer_bytes(t, k, &length);
            if (length == 1 && *b == bytes[i]) id = k;
        }
        assert_int_equal(tokenizer_push(d, id, out), KVT_OK);
    }
}

static void what_is_no_character_passes_unchanged(void **state) {
    (void)state;
    tokenizer *t = tiny();
    /* The bytes, and how many of them have come out after each. */
    const struct {
        const char *bytes;
        size_t out[8];
    } cases[] = {
        {"a\xEA\xB0\x80z", {1, 1, 1, 4, 5}},             /* a character of three bytes */
        {"\xF0\x9F\x98\x80", {0, 0, 0, 4}},              /* of four */
        {"\xEA\xB0z", {0, 0, 3}},                        /* one that breaks off */
        {"\xEA\xEA\xB0\x80", {0, 1, 1, 4}},              /* one that begins again */
        {"\x80\xFF\xC0\x80", {1, 2, 3, 4}},              /* bytes that begin none */
        {"\xED\xA0\x80", {0, 2, 3}},                     /* a surrogate: over at its second byte */
        {"\xE0\x80\xF4\x90", {0, 2, 2, 4}},              /* too long, too large */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        tokenizer_decoder d = tokenizer_decoder_of(t, false);
        byte_list out = {0};
        size_t n = strlen(cases[c].bytes);
        for (size_t i = 0; i < n; i++) {
            push_bytes(t, &d, cases[c].bytes + i, 1, &out);
            if (out.n != cases[c].out[i]) fail_msg("case %zu: %zu bytes after byte %zu", c, out.n, i);
        }
        assert_int_equal(tokenizer_flush(&d, &out), KVT_OK);
        assert_int_equal(out.n, n);
        assert_memory_equal(out.at, cases[c].bytes, n);
        byte_list_free(&out);
    }
    tokenizer_close(t);
}

static void the_unfinished_end_comes_with_the_flush(void **state) {
    (void)state;
    tokenizer *t = tiny();
    tokenizer_decoder d = tokenizer_decoder_of(t, false);
    byte_list out = {0};
    push_bytes(t, &d, "a\xF0\x9F\x98", 4, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(tokenizer_flush(&d, &out), KVT_OK);
    assert_int_equal(out.n, 4);
    assert_int_equal(tokenizer_flush(&d, &out), KVT_OK);
    assert_int_equal(out.n, 4);
    byte_list_free(&out);
    tokenizer_close(t);
}

/* -------------------------------------------------------------------------------------------- round trip */

/* The list it would go to has no memory yet. */
static void a_control_token_alone_gives_nothing(void **state) {
    (void)state;
    handmade h = handmade_good();
    tokenizer *t = handmade_tokenizer(&h);
    tokenizer_decoder d = tokenizer_decoder_of(t, false);
    byte_list out = {0};
    assert_int_equal(tokenizer_push(&d, tokenizer_control(t, "<|im_end|>"), &out), KVT_OK);
    assert_int_equal(tokenizer_flush(&d, &out), KVT_OK);
    assert_int_equal(out.n, 0);
    byte_list_free(&out);
    tokenizer_close(t);
}

static void add_character(byte_list *text, uint32_t c) {
    unsigned char b[4] = {(unsigned char)c};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; n > 1 && i-- > 0; c >>= 6) b[i] = (unsigned char)(0x80 | (c & 0x3F));
    if (n > 1) b[0] |= (unsigned char)(0xF00 >> n); /* its continuation bit is in there already */
    assert_int_equal(byte_list_add(text, b, n), KVT_OK);
}

static void any_text_comes_back(void **state) {
    (void)state;
    tokenizer *t = tiny();
    uint64_t seed = 1;
    const uint32_t below[] = {0x80, 0x800, 0x10000, 0x110000};
    for (int round = 0; round < 2000; round++) {
        byte_list text = {0};
        for (uint32_t n = random_below(&seed, 100); n > 0; n--) {
            uint32_t c = random_below(&seed, below[random_below(&seed, 4)]);
            if (c < 0xD800 || c > 0xDFFF) add_character(&text, c);
        }
        token_list ids = encode(t, text.at, text.n);
        byte_list back = decode(t, &ids, false);
        assert_true(same_bytes(&text, &back));
        token_list_free(&ids);
        byte_list_free(&text);
        byte_list_free(&back);
    }
    tokenizer_close(t);
}

/* ---------------------------------------------------------------------------------------- control tokens */

static void typed_control_tokens_stay_text(void **state) {
    (void)state;
    tokenizer *t = tiny();
    const char text[] = "a<|im_end|>b";
    token_list plain = encode(t, text, strlen(text)), parsed = {0};
    assert_int_equal(tokenizer_encode(t, text, strlen(text), true, &parsed), KVT_OK);
    int32_t end = tokenizer_control(t, "<|im_end|>");
    assert_true(end >= 0 && tokenizer_is_control(t, end) && tokenizer_is_end(t, end));
    assert_int_equal(parsed.n, 3);
    assert_int_equal(parsed.id[1], end);
    for (size_t i = 0; i < plain.n; i++) assert_false(tokenizer_is_control(t, plain.id[i]));
    byte_list hidden = decode(t, &parsed, false), shown = decode(t, &parsed, true);
    assert_int_equal(hidden.n, 2);
    assert_int_equal(shown.n, strlen(text));
    assert_memory_equal(shown.at, text, shown.n);
    byte_list_free(&hidden);
    byte_list_free(&shown);
    token_list_free(&plain);
    token_list_free(&parsed);
    tokenizer_close(t);
}

static void ids_outside_the_vocabulary_are_refused(void **state) {
    (void)state;
    tokenizer *t = tiny();
    byte_list out = {0};
    const int32_t ids[] = {30, 300, -1};
    size_t n;
    tokenizer_decoder d = tokenizer_decoder_of(t, false);
    assert_int_equal(tokenizer_decode(t, ids, 2, false, &out), KVT_E_ARGUMENT);
    assert_int_equal(out.n, 0);
    assert_int_equal(tokenizer_push(&d, ids[2], &out), KVT_E_ARGUMENT);
    assert_int_equal(out.n, 0);
    assert_null(tokenizer_bytes(t, 300, &n));
    assert_false(tokenizer_is_control(t, -1));
    assert_false(tokenizer_is_end(t, -1));
    byte_list_free(&out);
    tokenizer_close(t);
}

/* --------------------------------------------------------------------------------------- handmade files */

static void merges_go_by_their_order_not_by_place(void **state) {
    (void)state;
    handmade h = handmade_good();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "abc", false, 5); /* bc first, then a bc; a b first would leave ab, c */
    ENCODES(t, "ab", false, 3);
    ENCODES(t, "abbc", false, 3, 4);
    ENCODES(t, "a.bc", false, 0, 4); /* the dot has no token, but it ends the piece */
    tokenizer_close(t);
}

static void user_defined_tokens_are_always_words(void **state) {
    (void)state;
    handmade h = handmade_good();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "a<w>b", false, 0, 8, 1);
    ENCODES(t, "a<ww>b", false, 0, 6, 12, 12, 7, 1);
    ENCODES(t, "a<ww>b<w>", true, 0, 9, 1, 8);
    ENCODES(t, "<<w>", true, 6, 8);
    ENCODES(t, "<|im_end|", true, 6); /* only the < has a token, and the end is missing */
    tokenizer_close(t);
}

static void the_longest_special_token_counts(void **state) {
    (void)state;
    const char *const tokens[] = {"x", "<", "<a", "<ab>", "<abc", "a", "b", "c"};
    const int32_t types[] = {1, 3, 3, 3, 3, 1, 1, 1};
    handmade h = handmade_good();
    h.tokens = tokens, h.n_tokens = 8, h.types = types, h.n_types = 8, h.n_merges = 0, h.eos = 0;
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "<abc<ab<ab>", true, 4, 2, 6, 3);
    ENCODES(t, "<", true, 1);
    ENCODES(t, "x<x", true, 0, 1, 0);
    tokenizer_close(t);
}

/* Half a character as a special token must not cut one in two: what is left of it is no text. */
static void half_a_character_is_no_special_token(void **state) {
    (void)state;
    const char *const tokens[] = {"x", "\xC3", "\xA9", "\xC3\xA9", "a"};
    const int32_t types[] = {1, 3, 4, 3, 1};
    handmade h = handmade_good();
    h.tokens = tokens, h.n_tokens = 5, h.types = types, h.n_types = 5, h.n_merges = 0, h.eos = 0;
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "x\xC3\xA9x", true, 0, 3, 0);
    ENCODES(t, "x\xC3\xAAx", true, 0, 0); /* another character that begins with the same byte */
    ENCODES(t, "x\xC4\xA9", true, 0);     /* one that ends with the same byte */
    tokenizer_close(t);
}

static void bad_tokenizers_are_refused_by_name(void **state) {
    (void)state;
    handmade h = handmade_good();
    h.pre = "a-new-one";
    handmade_refused(h, KVT_E_UNSUPPORTED, "\"a-new-one\" (tokenizer.ggml.pre)");
    h = handmade_good();
    h.model = "wordpiece";
    handmade_refused(h, KVT_E_UNSUPPORTED, "\"wordpiece\"");
    h = handmade_good();
    h.model = NULL;
    handmade_refused(h, KVT_E_CORRUPT, "tokenizer.ggml.model is missing");
    h = handmade_good();
    h.n_types = 12;
    handmade_refused(h, KVT_E_CORRUPT, "token_type has 12 entries for 13 tokens");
    h = handmade_good();
    h.eos = 13;
    handmade_refused(h, KVT_E_CORRUPT, "eos_token_id is 13, but there are 13 tokens");
    h = handmade_good();
    h.n_tokens = h.n_types = 0;
    handmade_refused(h, KVT_E_CORRUPT, "tokenizer.ggml.tokens has 0 entries");
    const char *const merges[] = {"a b", "a c"}, *const blank[] = {"ab"}, *const empty[] = {" ab"};
    h = handmade_good();
    h.merges = merges, h.n_merges = 2;
    handmade_refused(h, KVT_E_CORRUPT, "entry 1 of tokenizer.ggml.merges, \"a c\"");
    h.merges = blank, h.n_merges = 1;
    handmade_refused(h, KVT_E_CORRUPT, "entry 0 of tokenizer.ggml.merges, \"ab\"");
    const char *const with_nothing[] = {"", "ab"};
    h.merges = empty;
    h.tokens = with_nothing, h.n_tokens = 2, h.types = NULL, h.eos = 0;
    handmade_refused(h, KVT_E_CORRUPT, "entry 0 of tokenizer.ggml.merges, \" ab\"");
}

static void ends_are_known_by_their_text(void **state) {
    (void)state;
    const char *tokens[] = {"a", "<|end|>", "<|im_end|>", "<|end_of_role|>", "<|eot_id|>", "<|end_header_id|>",
                            "<\xEF\xBD\x9C" "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
                            "<end_of_turn>", "<|start|>"};
    const int32_t types[] = {1, 3, 4, 3, 3, 3, 3, 3, 3};
    const char ends[] = "111010110"; /* the first is what the file names */
    handmade h = handmade_good();
    h.tokens = tokens, h.n_tokens = 9, h.types = types, h.n_types = 9, h.n_merges = 0, h.eos = 0;
    tokenizer *t = handmade_tokenizer(&h);
    for (int32_t id = 0; id < 9; id++) assert_int_equal(tokenizer_is_end(t, id), ends[id] == '1');
    tokenizer_close(t);
    tokens[8] = "<|return|>"; /* then <|end|> is the end of a thought */
    t = handmade_tokenizer(&h);
    assert_true(tokenizer_is_end(t, 8));
    assert_false(tokenizer_is_end(t, 1));
    tokenizer_close(t);
}

static void the_kind_says_whether_bos_comes_first(void **state) {
    (void)state;
    handmade h = handmade_good();
    const struct {
        const char *pre, *flags;
        bool add;
    } cases[] = {{"gpt-2", "", false},
                 {"llama-bpe", "", true},
                 {"tekken", "!add_bos_token", false},
                 {"qwen2", "add_bos_token", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        h.pre = cases[i].pre, h.flags = cases[i].flags, h.bos = 1 + 10;
        tokenizer *t = handmade_tokenizer(&h);
        assert_int_equal(tokenizer_about(t)->add_bos, cases[i].add);
        tokenizer_close(t);
        h.bos = 0;
        t = handmade_tokenizer(&h);
        assert_false(tokenizer_about(t)->add_bos); /* there is none */
        tokenizer_close(t);
    }
}

/* ------------------------------------------------------------------------------------------------ length */

enum { MEGABYTE = 1 << 20 };

/* A tokenizer that is quadratic anywhere takes minutes; five seconds leave room for a busy machine and sanitizers. */
static void in_time(const tokenizer *t, const char *what, const char *text) {
    double start = fixture_cpu_seconds();
    token_list ids = encode(t, text, MEGABYTE);
    double seconds = fixture_cpu_seconds() - start;
    byte_list back = decode(t, &ids, false);
    if (back.n != MEGABYTE || memcmp(back.at, text, MEGABYTE) != 0) fail_msg("%s did not come back", what);
    if (!(seconds < 5)) fail_msg("%s: %.1f s", what, seconds);
    byte_list_free(&back);
    token_list_free(&ids);
}

static void a_megabyte_takes_linear_time(void **state) {
    (void)state;
    tokenizer *t = smollm2();
    char *text = malloc(MEGABYTE);
    uint64_t seed = 3;
    assert_non_null(text);
    memset(text, ' ', MEGABYTE);
    in_time(t, "spaces", text);
    memset(text, '\n', MEGABYTE);
    in_time(t, "newlines", text);
    memset(text, '<', MEGABYTE);
    in_time(t, "brackets", text);
    memset(text, 'a', MEGABYTE);
    in_time(t, "one letter", text);
    for (size_t i = 0; i < MEGABYTE; i++) text[i] = "aeinorst"[random_below(&seed, 8)];
    in_time(t, "one word", text);
    for (size_t i = 0; i < MEGABYTE; i++) text[i] = "  etaoinshrdlu.,\n1"[random_below(&seed, 18)];
    in_time(t, "words", text);
    free(text);
    tokenizer_close(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_as_the_reference),
        cmocka_unit_test(decodes_as_the_reference),
        cmocka_unit_test(pieces_of_text_come_in_whole_characters),
        cmocka_unit_test(what_is_no_character_passes_unchanged),
        cmocka_unit_test(the_unfinished_end_comes_with_the_flush),
        cmocka_unit_test(a_control_token_alone_gives_nothing),
        cmocka_unit_test(any_text_comes_back),
        cmocka_unit_test(typed_control_tokens_stay_text),
        cmocka_unit_test(ids_outside_the_vocabulary_are_refused),
        cmocka_unit_test(merges_go_by_their_order_not_by_place),
        cmocka_unit_test(user_defined_tokens_are_always_words),
        cmocka_unit_test(the_longest_special_token_counts),
        cmocka_unit_test(half_a_character_is_no_special_token),
        cmocka_unit_test(bad_tokenizers_are_refused_by_name),
        cmocka_unit_test(ends_are_known_by_their_text),
        cmocka_unit_test(the_kind_says_whether_bos_comes_first),
        cmocka_unit_test(a_megabyte_takes_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
