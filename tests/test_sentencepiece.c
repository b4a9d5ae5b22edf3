/* test_sentencepiece.c - SentencePiece's two kinds where files say more, or less, or nothing right; test_vocabularies.c
 * compares them with the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "handmade.h"

enum { UNK, BOS, EOS, BYTE_41, BYTE_C3, BLANK, A, B, AB, BLANK_A, BLANK_AB, BB, WORD, END };

/* ---------------------------------------------------------------------------------------------- encoding */

static void merges_go_by_score_and_then_from_the_left(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "ab", false, BLANK_AB);        /* a b first, then the blank */
    ENCODES(t, "abb", false, BLANK_A, BB);    /* the best score is that of bb */
    ENCODES(t, "bbb", false, BLANK, BB, B);   /* of two places the left */
    ENCODES(t, "", false, -1);
    tokenizer_close(t);
}

static void characters_without_a_token_become_bytes_or_the_unknown_token(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "A", false, BLANK, BYTE_41);
    ENCODES(t, "aAA", false, BLANK_A, BYTE_41, BYTE_41);
    ENCODES(t, "a\xC3\xA9\xC3\xA9" "b", false, BLANK_A, UNK, B); /* one of the two bytes has a token: neither is used */
    ENCODES(t, "cdAe", false, BLANK, UNK, BYTE_41, UNK);
    tokenizer_close(t);
    const int32_t no_unknown[] = {3, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 4, 3};
    h.types = no_unknown;
    t = handmade_tokenizer(&h);
    ENCODES(t, "acAb", false, BLANK_A, BYTE_41, B); /* nothing stands for c */
    tokenizer_close(t);
}

static void blanks_are_added_and_removed_as_the_file_says(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, " a  b ", false, BLANK, BLANK_A, BLANK, BLANK, B, BLANK);
    ENCODES(t, "\xE2\x96\x81" "a", false, BLANK, BLANK_A); /* U+2581 in a text is a blank */
    tokenizer_close(t);
    h.flags = "!add_space_prefix";
    t = handmade_tokenizer(&h);
    ENCODES(t, "ab", false, AB);
    tokenizer_close(t);
    h.flags = "add_space_prefix remove_extra_whitespaces";
    t = handmade_tokenizer(&h);
    ENCODES(t, "  a  b ", false, BLANK_A, BLANK, B);
    ENCODES(t, "   ", false, -1);
    tokenizer_close(t);
}

static void words_of_the_user_and_control_tokens_are_found(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "a<w>ab", false, BLANK_A, WORD, AB); /* the same text goes on */
    ENCODES(t, "a<|end|>ab", true, BLANK_A, END, BLANK_AB); /* another text begins */
    ENCODES(t, "<|b|>", false, BLANK, UNK, B, UNK);
    tokenizer_close(t);
}

static void phi_3_strips_what_is_right_of_control_tokens(void **state) {
    (void)state;
    handmade h = handmade_spm();
    h.architecture = "phi3";
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "<|end|> \n\xE3\x80\x80" "a", true, END, BLANK_A);
    ENCODES(t, "<s> a</s> a", true, BOS, BLANK, BLANK_A, EOS, BLANK_A); /* not behind the first of all */
    ENCODES(t, "<|end|> <|end|> ", true, END, END);
    tokenizer_close(t);
}

/* The blank that encoding puts in front, and no other, is taken away; each byte comes as it is. */
static void decoding_takes_the_first_blank_away(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    const struct {
        int32_t id[4];
        const char *text;
    } cases[] = {
        {{BLANK_A, BLANK_A, -1}, "a a"}, {{BLANK, BLANK, A, -1}, " a"},     {{A, BLANK, -1}, "a "},
        {{BOS, BLANK_A, -1}, "a"},       {{END, UNK, BLANK_AB, -1}, "ab"},  {{BYTE_41, BLANK_A, -1}, "A a"},
        {{-1}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        byte_list out = {0};
        size_t n = 0;
        while (cases[i].id[n] >= 0) n++;
        assert_int_equal(tokenizer_decode(t, cases[i].id, n, false, &out), KVT_OK);
        if (out.n != strlen(cases[i].text) || (out.n && memcmp(out.at, cases[i].text, out.n) != 0))
            fail_msg("case %zu: \"%.*s\"", i, (int)out.n, out.at);
        byte_list_free(&out);
    }
    byte_list out = {0};
    tokenizer_decoder d = tokenizer_decoder_of(t, false);
    d.at_start = false;
    assert_int_equal(tokenizer_push(&d, BLANK_A, &out), KVT_OK);
    assert_int_equal(out.n, 2);
    byte_list_free(&out);
    tokenizer_close(t);
}

/* U+00E9 from its two bytes. */
static void bytes_join_to_characters(void **state) {
    (void)state;
    const char *const tokens[] = {"<unk>", "<0xC3>", "<0xa9>"};
    const int32_t types[] = {2, 6, 6};
    const float scores[] = {0, 0, 0};
    handmade h = {.model = "llama", .tokens = tokens, .n_tokens = 3, .types = types, .n_types = 3, .scores = scores,
                  .n_scores = 3};
    tokenizer *t = handmade_tokenizer(&h);
    tokenizer_decoder d = tokenizer_decoder_of(t, false);
    byte_list out = {0};
    ENCODES(t, "\xC3\xA9", false, 0, 1, 2); /* the blank in front has no token either */
    assert_int_equal(tokenizer_push(&d, 1, &out), KVT_OK);
    assert_int_equal(out.n, 0);
    assert_int_equal(tokenizer_push(&d, 2, &out), KVT_OK);
    assert_int_equal(out.n, 2);
    byte_list_free(&out);
    tokenizer_close(t);
}

static void bos_comes_in_front_unless_the_file_says_otherwise(void **state) {
    (void)state;
    handmade h = handmade_spm();
    tokenizer *t = handmade_tokenizer(&h);
    assert_true(tokenizer_about(t)->add_bos);
    assert_int_equal(tokenizer_about(t)->bos, BOS);
    assert_true(tokenizer_is_end(t, EOS) && tokenizer_is_end(t, END) && !tokenizer_is_end(t, BOS));
    assert_true(tokenizer_is_control(t, UNK) && tokenizer_is_control(t, BOS) && !tokenizer_is_control(t, WORD));
    tokenizer_close(t);
    h.flags = "!add_bos_token";
    t = handmade_tokenizer(&h);
    assert_false(tokenizer_about(t)->add_bos);
    tokenizer_close(t);
    h = handmade_spm();
    h.model = "t5";
    t = handmade_tokenizer(&h);
    assert_false(tokenizer_about(t)->add_bos);
    ENCODES(t, "ab", false, AB);
    ENCODES(t, "abb", false, A, BB);
    tokenizer_close(t);
}

/* --------------------------------------------------------------------------------------------- bad files */

static void bad_files_are_refused_by_name(void **state) {
    (void)state;
    float scores[14] = {0};
    int32_t types[14];
    handmade h = handmade_spm();
    memcpy(types, h.types, sizeof types);
    h.scores = NULL;
    handmade_refused(h, KVT_E_CORRUPT, "tokenizer.ggml.scores is missing");
    h = handmade_spm();
    h.n_scores = 13;
    handmade_refused(h, KVT_E_CORRUPT, "scores has 13 entries for 14 tokens");
    h = handmade_spm();
    h.scores = scores;
    scores[7] = NAN;
    handmade_refused(h, KVT_E_CORRUPT, "entry 7 of tokenizer.ggml.scores");
    scores[7] = -INFINITY;
    handmade_refused(h, KVT_E_CORRUPT, "entry 7 of tokenizer.ggml.scores");
    h = handmade_spm();
    h.types = NULL;
    handmade_refused(h, KVT_E_CORRUPT, "tokenizer.ggml.token_type is missing");
    h = handmade_spm();
    types[6] = 6;
    h.types = types;
    handmade_refused(h, KVT_E_CORRUPT, "token 6, \"a\", is a byte but not spelled as one");
}

static void a_token_that_is_too_long_is_refused(void **state) {
    (void)state;
    char *text = malloc(1000);
    assert_non_null(text);
    memset(text, 'a', 999);
    text[999] = 0;
    const char *const tokens[] = {"<unk>", text};
    const int32_t types[] = {2, 1};
    const float scores[] = {0, 0};
    handmade h = {.model = "llama", .tokens = tokens, .n_tokens = 2, .types = types, .n_types = 2, .scores = scores,
                  .n_scores = 2};
    handmade_refused(h, KVT_E_UNSUPPORTED, "token 1 has 999 bytes");
    h.model = "t5";
    handmade_refused(h, KVT_E_UNSUPPORTED, "token 1 has 999 bytes");
    const int32_t special[] = {3, 4};
    for (size_t i = 0; i < 2; i++) {
        h.types = (const int32_t[]){2, special[i]};
        handmade_refused(h, KVT_E_UNSUPPORTED, "token 1, a special one, has 999 bytes");
    }
    free(text);
}

static void empty_and_double_tokens_do_no_harm(void **state) {
    (void)state;
    const char *const tokens[] = {"<unk>", "", "a", "a", "", "<s>", "<s>", "aa", "aa"};
    const int32_t types[] = {2, 1, 1, 1, 3, 3, 3, 1, 1};
    const float scores[] = {0, 0, -1, -2, 0, 0, 0, -1, -1};
    handmade h = {.model = "llama", .tokens = tokens, .n_tokens = 9, .types = types, .n_types = 9, .scores = scores,
                  .n_scores = 9, .flags = "!add_space_prefix"};
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "a<s>aaa", true, 3, 6, 8, 3); /* of two the last counts */
    tokenizer_close(t);
}

static void put_little(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> 8 * i);
}

/* What may be wrong: no room for its length, longer than there is, half a unit; units and replacements outside. */
static void a_table_is_used_and_never_left(void **state) {
    (void)state;
    enum { UNITS = 256, N = 4 + 4 * UNITS + 4 };
    uint8_t table[N] = {0};
    put_little(table, 4 * UNITS);
    put_little(table + 4, 0x80u << 10);                        /* the root: children at 0x80 ^ byte */
    put_little(table + 4 + 4 * (0x80 ^ 'c'), 'c' | 1 << 8 | 3 << 10); /* c has a value, at 0xE3 ^ 3 */
    put_little(table + 4 + 4 * (0x80 ^ 'c' ^ 3), 1u << 31 | 1);       /* the replacement at 1 */
    memcpy(table + 4 + 4 * UNITS, "\0ab", 4);
    handmade h = handmade_spm();
    h.table = table, h.n_table = N;
    tokenizer *t = handmade_tokenizer(&h);
    ENCODES(t, "c", false, BLANK_AB);
    ENCODES(t, "d", false, BLANK, UNK);
    tokenizer_close(t);
    const uint32_t outside[] = {1u << 31 | 4, 1u << 31 | 0x7FFFFFFF}; /* replacements behind the end */
    for (size_t i = 0; i < 2; i++) {
        put_little(table + 4 + 4 * (0x80 ^ 'c' ^ 3), outside[i]);
        t = handmade_tokenizer(&h);
        ENCODES(t, "c", false, BLANK, UNK);
        tokenizer_close(t);
    }
    put_little(table + 4 + 4 * (0x80 ^ 'c'), 'c' | 1 << 8 | 1u << 30); /* the value is a unit behind the end */
    t = handmade_tokenizer(&h);
    ENCODES(t, "c", false, BLANK, UNK);
    tokenizer_close(t);
    put_little(table + 4, 0x1FFFFFu << 10); /* and so are all children */
    t = handmade_tokenizer(&h);
    ENCODES(t, "c", false, BLANK, UNK);
    tokenizer_close(t);
    h.n_table = 3;
    handmade_refused(h, KVT_E_CORRUPT, "precompiled_charsmap has 3 bytes");
    h.n_table = 100;
    handmade_refused(h, KVT_E_CORRUPT, "precompiled_charsmap has 100 bytes, its array 1024");
    put_little(table, 1022);
    h.n_table = N;
    handmade_refused(h, KVT_E_CORRUPT, "its array 1022");
}

/* A table that makes much out of little, and one whose way for "cccc..." goes round without an end. */
static void a_table_takes_no_more_time_or_memory_than_its_text(void **state) {
    (void)state;
    enum { UNITS = 256, LONG = 1 << 20, N = 4 + 4 * UNITS + 200 };
    uint8_t table[N] = {0};
    put_little(table, 4 * UNITS);
    memset(table + 4 + 4 * UNITS, 'a', 129);
    handmade h = handmade_spm();
    h.table = table, h.n_table = N;
    handmade_refused(h, KVT_E_UNSUPPORTED, "precompiled_charsmap has a replacement of 129 bytes");
    table[4 + 4 * UNITS + 128] = 0;
    put_little(table + 4, 0x80u << 10);
    put_little(table + 4 + 4 * (0x80 ^ 'c'), 'c' | 'c' << 10); /* its child by c is itself */
    tokenizer *t = handmade_tokenizer(&h);
    char *text = malloc(LONG);
    token_list ids = {0};
    assert_non_null(text);
    memset(text, 'c', LONG);
    double start = fixture_cpu_seconds();
    assert_int_equal(tokenizer_encode(t, text, LONG, false, &ids), KVT_OK);
    assert_true(fixture_cpu_seconds() - start < 20); /* round and round: minutes */
    token_list_free(&ids);
    free(text);
    tokenizer_close(t);
}

/* ------------------------------------------------------------------------------------------------ length */

/* Sixteen times the text: a quadratic way takes 256 times as long. */
static void long_texts_take_linear_time(void **state) {
    (void)state;
    enum { LONG = 1 << 20, SHORT = 1 << 16 };
    const char *const parts[] = {" ", "a", "ab", "A", "\xC3\xA9", "b a", "<w>", "<", "\xE2\x96\x81"};
    const char *const kinds[] = {"llama", "t5"};
    char *text = malloc(LONG);
    assert_non_null(text);
    for (size_t k = 0; k < 2; k++) {
        handmade h = handmade_spm();
        h.model = kinds[k];
        tokenizer *t = handmade_tokenizer(&h);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            size_t part = strlen(parts[i]), n[2] = {SHORT / part * part, LONG / part * part};
            double seconds[2];
            for (size_t at = 0; at < n[1]; at += part) memcpy(text + at, parts[i], part);
            for (int j = 0; j < 2; j++) {
                double start = fixture_cpu_seconds();
                token_list ids = {0};
                assert_int_equal(tokenizer_encode(t, text, n[j], false, &ids), KVT_OK);
                seconds[j] = fixture_cpu_seconds() - start;
                token_list_free(&ids);
            }
            if (!(seconds[1] < 100 * (seconds[0] + 0.001)))
                fail_msg("%s, \"%s\": %g s, %g s", kinds[k], parts[i], seconds[0], seconds[1]);
        }
        tokenizer_close(t);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_go_by_score_and_then_from_the_left),
        cmocka_unit_test(characters_without_a_token_become_bytes_or_the_unknown_token),
        cmocka_unit_test(blanks_are_added_and_removed_as_the_file_says),
        cmocka_unit_test(words_of_the_user_and_control_tokens_are_found),
        cmocka_unit_test(phi_3_strips_what_is_right_of_control_tokens),
        cmocka_unit_test(decoding_takes_the_first_blank_away),
        cmocka_unit_test(bytes_join_to_characters),
        cmocka_unit_test(bos_comes_in_front_unless_the_file_says_otherwise),
        cmocka_unit_test(bad_files_are_refused_by_name),
        cmocka_unit_test(a_token_that_is_too_long_is_refused),
        cmocka_unit_test(empty_and_double_tokens_do_no_harm),
        cmocka_unit_test(a_table_is_used_and_never_left),
        cmocka_unit_test(a_table_takes_no_more_time_or_memory_than_its_text),
        cmocka_unit_test(long_texts_take_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
