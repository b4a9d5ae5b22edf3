/* test_pretokenize.c - where texts are cut, and that every character is classed as the reference classes it. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "handmade.h"
#include "model/pretokenize.h"

static pretokenizer *open_row(const char *name) {
    handmade h = handmade_good();
    gguf_writer w;
    h.pre = name;
    model_file *f = handmade_file(&h, &w);
    pretokenizer *p;
    error_text err;
    if (pretokenizer_open(&p, f, &err) != KVT_OK) fail_msg("%s", err.text);
    file_close(f);
    free(w.at);
    return p;
}

/* The text with a bar between pieces. */
static void cut(piece_walk *w, const char *text, size_t n, char *out) {
    size_t first;
    piece_walk_start(w, text, n);
    for (*out = 0;; strcat(out, "|"), strncat(out, text + first, w->at - first)) {
        assert_int_equal(piece_next(w, &first), KVT_OK);
        if (first == w->at) return;
    }
}

static void cuts_as_the_reference(void **state) {
    (void)state;
    const struct {
        const char *text, *smollm, *gpt_2;
    } cases[] = {
        {"Hello  world 42", "|Hello| | world| |4|2", "|Hello| | world| 42"},
        {"it's  1", "|it|'s|  |1", "|it|'s| | 1"},
        {"IT'S \n\n x", "|IT|'|S| \n\n| x", "|IT|'|S| \n\n| x"},
        {"a  ", "|a|  ", "|a|  "},
        {"(x)\t9.5%", "|(|x|)|\t|9|.|5|%", "|(|x|)|\t|9|.|5|%"},
        {"x\xC2\xB2y", "|x|\xC2\xB2|y", "|x|\xC2\xB2|y"},
    };
    const char *const rows[] = {"smollm", "gpt-2", NULL};
    for (int r = 0; r < 3; r++) {
        pretokenizer *p = open_row(rows[r]);
        piece_walk w;
        char got[64];
        assert_int_equal(piece_walk_open(&w, p), KVT_OK);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            cut(&w, cases[i].text, strlen(cases[i].text), got);
            assert_string_equal(got, r == 0 ? cases[i].smollm : cases[i].gpt_2);
        }
        piece_walk_close(&w);
        pretokenizer_close(p);
    }
}

static size_t put_character(char *to, uint32_t c) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    to[0] = (char)c;
    for (size_t i = n; n > 1 && i-- > 0; c >>= 6) to[i] = (char)(0x80 | (c & 0x3F));
    if (n > 1) to[0] = (char)(to[0] | 0xF00 >> n);
    return n;
}

/* Does the character stay in one piece with those around it? */
static bool joins(piece_walk *w, char before, uint32_t c, char after) {
    char text[8] = {before};
    size_t n = 1 + put_character(text + 1, c), first;
    if (after) text[n++] = after;
    piece_walk_start(w, text, n);
    assert_int_equal(piece_next(w, &first), KVT_OK);
    return w->at == n;
}

static void classes_every_character_as_the_reference(void **state) {
    (void)state;
    char unicode[24];
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    if (atoi(unicode) > 16) {
        print_message("skipped: this PCRE2 knows letters of Unicode %s, the reference those of 16\n", unicode);
        skip();
    }
    pretokenizer *p = open_row("smollm");
    piece_walk w;
    size_t letters = 0, spaces = 0, others = 0, digits = 0;
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a of the classes in order; the reference's was computed the same way */
    assert_int_equal(piece_walk_open(&w, p), KVT_OK);
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        char class = joins(&w, 'a', c, 0) ? 'L' : joins(&w, '\n', c, '\n') ? 'S' : joins(&w, '.', c, 0) ? 'O' : 'D';
        *(class == 'L' ? &letters : class == 'S' ? &spaces : class == 'O' ? &others : &digits) += 1;
        hash = (hash ^ (unsigned char)class) * 0x100000001b3;
    }
    piece_walk_close(&w);
    pretokenizer_close(p);
    assert_int_equal(letters, 141028);
    assert_int_equal(digits, 1924);
    assert_int_equal(spaces, 25);
    assert_int_equal(others, 969087);
    assert_true(hash == 0xd458459bd35da4bb);
}

/* The other classes: which characters a row leaves in one piece with those around. */
static void joins_what_the_reference_joins(void **state) {
    (void)state;
    const struct {
        const char *row;
        char before, after;
        size_t count;
        uint64_t hash; /* FNV-1a of '1' where it does and '0' where not, in order */
    } cases[] = {
        {"qwen35", 'a', 0, 143529, 0xf74e4ac8fc14b4e2},         /* letters and marks */
        {"deepseek-coder", '.', 0, 448, 0xe2156c472802b431},    /* punctuation that is not Asian */
        {"deepseek-v3", '+', 0, 9419, 0x888ae74a07e1d6aa},      /* and symbols, but kana; line ends, ASCII letters */
        {"tekken", 'a', 0, 141640, 0xa37e3619f1f8f051},         /* what goes on with a word */
        {"tekken", 'A', 'A', 1889, 0xd9f9cedc2bfc5b6a},         /* upper and title case */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pretokenizer *p = open_row(cases[i].row);
        piece_walk w;
        size_t count = 0;
        uint64_t hash = 0xcbf29ce484222325;
        assert_int_equal(piece_walk_open(&w, p), KVT_OK);
        for (uint32_t c = 0; c < 0x110000; c++) {
            if (c >= 0xD800 && c <= 0xDFFF) continue;
            bool joined = joins(&w, cases[i].before, c, cases[i].after);
            count += joined;
            hash = (hash ^ (joined ? '1' : '0')) * 0x100000001b3;
        }
        piece_walk_close(&w);
        pretokenizer_close(p);
        if (count != cases[i].count || hash != cases[i].hash) fail_msg("case %zu: %zu characters", i, count);
    }
}

/* A megabyte of one kind of character, or of two in turn, is cut in linear time, compiled or interpreted, and no limit
 * of PCRE2's is met: sixteen times the text takes about sixteen times as long, where a quadratic way takes 256. */
static double seconds_to_cut(piece_walk *w, const char *text, size_t n) {
    double start = fixture_cpu_seconds();
    size_t first, at = 0;
    piece_walk_start(w, text, n);
    for (;; at = w->at) {
        assert_int_equal(piece_next(w, &first), KVT_OK);
        assert_int_equal(first, at);
        if (first == w->at) break;
    }
    assert_int_equal(at, n);
    return fixture_cpu_seconds() - start;
}

enum { LONG = 1 << 20, SHORT = 1 << 16 };

/* The part over and over, and a digit at the end: of a run of blanks every one is stepped back over. */
static void cut_in_time(piece_walk *w, char *text, const char *part) {
    double seconds[2];
    size_t n_part = strlen(part), n[2] = {SHORT / n_part * n_part, LONG / n_part * n_part};
    for (size_t at = 0; at < n[1]; at += n_part) memcpy(text + at, part, n_part);
    for (int i = 0; i < 2; i++) {
        char was = text[n[i]];
        text[n[i]] = '7';
        seconds[i] = seconds_to_cut(w, text, n[i] + 1);
        text[n[i]] = was;
    }
    if (!(seconds[1] < 100 * (seconds[0] + 0.001))) fail_msg("\"%s\": %g s, %g s", part, seconds[0], seconds[1]);
}

static void long_texts_are_cut_in_linear_time(void **state) {
    (void)state;
    const char *const rows[] = {"llama-bpe", "tekken", "deepseek-llm", "deepseek-v3"};
    const char *const parts[] = {" ", "\n", "a", "A", "'s", "\xCC\x81", "\xEA\xB0\x80", "\xE3\x80\x80", " x"};
    char *text = calloc(1, LONG + 8);
    assert_non_null(text);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        pretokenizer *p = open_row(rows[r]);
        piece_walk w;
        assert_int_equal(piece_walk_open(&w, p), KVT_OK);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) cut_in_time(&w, text, parts[i]);
        w.options |= PCRE2_NO_JIT;
        cut_in_time(&w, text, " ");
        cut_in_time(&w, text, "A");
        piece_walk_close(&w);
        pretokenizer_close(p);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joins_what_the_reference_joins),
        cmocka_unit_test(long_texts_are_cut_in_linear_time),
        cmocka_unit_test(cuts_as_the_reference),
        cmocka_unit_test(classes_every_character_as_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
