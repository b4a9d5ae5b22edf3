/* test_stop.c - texts that end an answer: found at their first end, however the bytes come in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/stop.h"
#include "random.h"

static stop_list *list_of(const char *const *texts, int n) {
    stop_list *l;
    assert_int_equal(stop_list_new(&l, texts, n), KVT_OK);
    return l;
}

/* The bytes of `text` that lie before the first stop text, -1: there is none in it; read in pieces of n_piece. */
static int cut_of(const stop_list *l, const char *text, size_t n_piece) {
    stop_scan scan = { { 0 } };
    size_t n = strlen(text), n_read;
    for (size_t at = 0; at < n; at += n_piece) {
        size_t n_whole = stop_scan_read(&scan, l, text + at, n - at < n_piece ? n - at : n_piece, &n_read);
        if (n_whole > 0) return (int)(at + n_read - n_whole);
    }
    return -1;
}

/* How much of the text's end is held back. */
static int held_of(const stop_list *l, const char *text) {
    stop_scan scan = { { 0 } };
    size_t n_read;
    assert_int_equal(stop_scan_read(&scan, l, text, strlen(text), &n_read), 0);
    assert_int_equal(n_read, strlen(text));
    return (int)stop_scan_held(&scan, l);
}

static void a_text_is_found_wherever_it_is_cut(void **state) {
    (void)state;
    static const struct {
        const char *stop, *text;
        int cut;
    } cases[] = {
        { "aab", "aaab", 1 },      { "abab", "ababab", 0 },    { "a", "a", 0 },
        { "x", "yyy", -1 },        { "abac", "abababac", 4 },  { "\n\nUser:", "ok\n\n\nUser: hi", 3 },
        { "ab", "a", -1 },         { "é", "caf\xC3\xA9", 3 }, { "日本", "日日本", 3 },
        { "\xA9", "\xC3\xA9", 1 }, { "aaa", "aabaaaa", 3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stop_list *l = list_of(&cases[i].stop, 1);
        for (size_t n_piece = 1; n_piece <= strlen(cases[i].text); n_piece++)
            assert_int_equal(cut_of(l, cases[i].text, n_piece), cases[i].cut);
        stop_list_free(l);
    }
}

static void what_may_become_a_text_is_held(void **state) {
    (void)state;
    stop_list *l = list_of((const char *const[]){ "aab", "bcd" }, 2);
    assert_int_equal(held_of(l, ""), 0);
    assert_int_equal(held_of(l, "xa"), 1);
    assert_int_equal(held_of(l, "aaaa"), 2);
    assert_int_equal(held_of(l, "aax"), 0);
    assert_int_equal(held_of(l, "abc"), 2);
    assert_int_equal(held_of(l, "abca"), 1);
    stop_list_free(l);
}

/* Of several the one that is whole first counts, the longer one where two end at the same byte. */
static void the_first_whole_text_counts(void **state) {
    (void)state;
    stop_list *l = list_of((const char *const[]){ "abcd", "bc", "xbc" }, 3);
    for (size_t n_piece = 1; n_piece <= 6; n_piece++) {
        assert_int_equal(cut_of(l, "zabcd", n_piece), 2);
        assert_int_equal(cut_of(l, "zaxbcd", n_piece), 2);
    }
    stop_list_free(l);
    l = list_of(NULL, 0);
    assert_int_equal(cut_of(l, "abc", 1), -1);
    stop_list_free(l);
}

/* By trying every end and every text. */
static int cut_by_trial(const char *const *texts, int n, const char *text) {
    for (int end = 1; end <= (int)strlen(text); end++) {
        int first = -1;
        for (int i = 0; i < n; i++) {
            int length = (int)strlen(texts[i]), at = end - length;
            if (at >= 0 && memcmp(text + at, texts[i], (size_t)length) == 0 && (first < 0 || at < first)) first = at;
        }
        if (first >= 0) return first;
    }
    return -1;
}

static void random_text(uint64_t *seed, char *out, int n_min, int n_max) {
    int n = n_min + (int)random_below(seed, (uint32_t)(n_max - n_min + 1));
    for (int i = 0; i < n; i++) out[i] = "ab"[random_below(seed, 2)];
    out[n] = 0;
}

static void the_search_agrees_with_trying(void **state) {
    (void)state;
    uint64_t seed = 1;
    int n_found = 0;
    for (int round = 0; round < 20000; round++) {
        char stops[STOP_TEXTS_MAX][12], text[40];
        const char *texts[STOP_TEXTS_MAX];
        int n = 1 + (int)random_below(&seed, round % 2 ? 3 : STOP_TEXTS_MAX);
        for (int i = 0; i < n; i++) {
            random_text(&seed, stops[i], 3, 11);
            texts[i] = stops[i];
        }
        random_text(&seed, text, 0, 39);
        stop_list *l = list_of(texts, n);
        int cut = cut_of(l, text, 1 + random_below(&seed, 7));
        assert_int_equal(cut, cut_by_trial(texts, n, text));
        n_found += cut >= 0;
        stop_list_free(l);
    }
    assert_in_range(n_found, 5000, 19000);
}

static void empty_texts_and_too_many_are_refused(void **state) {
    (void)state;
    stop_list *l;
    const char *const texts[STOP_TEXTS_MAX + 1] = { "a", "" };
    assert_int_equal(stop_list_new(&l, texts, 2), KVT_E_ARGUMENT);
    assert_null(l);
    assert_int_equal(stop_list_new(&l, texts, STOP_TEXTS_MAX + 1), KVT_E_ARGUMENT);
    assert_int_equal(stop_list_new(&l, texts, -1), KVT_E_ARGUMENT);
    stop_list_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_found_wherever_it_is_cut), cmocka_unit_test(what_may_become_a_text_is_held),
        cmocka_unit_test(the_first_whole_text_counts),        cmocka_unit_test(the_search_agrees_with_trying),
        cmocka_unit_test(empty_texts_and_too_many_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
