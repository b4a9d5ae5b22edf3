/* test_wrap.c - answers on a terminal: lines broken between words, the same however the text is cut into pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <locale.h>

#include "cli/chat_wrap.h"

/* Wrapped in pieces of so many bytes, never within a character. */
static byte_list wrapped(const char *text, int columns, size_t piece) {
    byte_list out = { 0 };
    wrap w = wrap_of(columns);
    size_t n = strlen(text);
    for (size_t at = 0, end; at < n; at = end) {
        end = at + piece < n ? at + piece : n;
        while (end < n && ((unsigned char)text[end] & 0xC0) == 0x80) end++;
        assert_int_equal(wrap_add(&w, text + at, end - at, &out), KVT_OK);
    }
    assert_int_equal(wrap_end(&w, &out), KVT_OK);
    wrap_free(&w);
    byte_list_add(&out, "", 1);
    return out;
}

static void lines_break_between_words(void **state) {
    (void)state;
    static const struct {
        int columns;
        const char *text, *wanted;
    } cases[] = {
        { 10, "one two three four", "one two\nthree four" },
        { 9, "one two three four", "one two\nthree\nfour" },
        { 7, "one two three", "one two\nthree" },
        { 10, "one\n\n  two\nthree", "one\n\n  two\nthree" },
        { 10, "one  two   three", "one  two\nthree" },
        { 10, "ends in blanks   ", "ends in\nblanks" },
        { 10, "ends in blanks \nx", "ends in\nblanks\nx" },
        { 5, "a extraordinary b c", "a\nextraordinary b\nc" },
        { 5, "abcde fghij kl", "abcde\nfghij\nkl" },
        { 8, "\tcode\n\tmore", "    code\n    more" },
        { 6, "한국어 한국어", "한국어\n한국어" },
        { 7, "ab 한국어", "ab 한국\n어" },
        { 5, "e\xCC\x81\x65\xCC\x81 abc", "e\xCC\x81\x65\xCC\x81\nabc" },
        { 20, "a\033[2Jb\r\a\x7F\xC2\x9B", "a?[2Jb????" },
        { 20, "\xFF\xFE x", "?? x" },
        { 20, "", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 9; piece++) {
            byte_list got = wrapped(cases[i].text, cases[i].columns, piece);
            assert_string_equal(got.at, cases[i].wanted);
            byte_list_free(&got);
        }
}

int main(void) {
    if (!setlocale(LC_CTYPE, "C.UTF-8")) return 1;
    const struct CMUnitTest tests[] = { cmocka_unit_test(lines_break_between_words) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
