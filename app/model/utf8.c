/* utf8.c - see utf8.h. The parts are those of the Unicode standard, section 3.9, "U+FFFD substitution of maximal
 * subparts", which Python's and Rust's decoders follow. */
#include "utf8.h"

#include <string.h>

#include "base/log.h"

/* How many bytes a character has that begins with `first` (0: none does), and what its second byte may be: the narrower
 * ranges keep out overlong spellings, surrogates and whatever is above U+10FFFF. */
static size_t length_of(unsigned char first, unsigned char *second_min, unsigned char *second_max) {
    *second_min = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    *second_max = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (first < 0xF0) return 3;
    return first < 0xF5 ? 4 : 0;
}

size_t utf8_part(const char *text, size_t n, bool *whole) {
    unsigned char min, max;
    size_t length = length_of((unsigned char)text[0], &min, &max), have = 1;
    while (have < length && have < n) {
        unsigned char c = (unsigned char)text[have];
        if (c < min || c > max) break;
        min = 0x80;
        max = 0xBF;
        have++;
    }
    *whole = have == length;
    return have;
}

bool utf8_valid(const char *text, size_t n) {
    bool whole = true;
    for (size_t at = 0; at < n && whole;) at += utf8_part(text + at, n - at, &whole);
    return whole;
}

kvt_status utf8_repair(const char *text, size_t n, byte_list *out) {
    for (size_t at = 0, length; at < n; at += length) {
        bool whole;
        length = utf8_part(text + at, n - at, &whole);
        if (whole) TRY(byte_list_add(out, text + at, length));
        else TRY(byte_list_add(out, "\xEF\xBF\xBD", 3));
    }
    return KVT_OK;
}

size_t utf8_unfinished(const char *text, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const char *first = text + n - back;
        if (((unsigned char)*first & 0xC0) == 0x80) continue; /* inside a character: its first byte is further back */
        unsigned char min, max;
        bool whole;
        size_t length = length_of((unsigned char)*first, &min, &max);
        return back < length && utf8_part(first, back, &whole) == back ? back : 0;
    }
    return 0;
}

static size_t blank_at(const char *text, size_t n) {
    static const char *const BLANKS[] = {"\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x80\xA8", "\xE2\x80\xA9",
                                         "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
    if (n && (*text == ' ' || (*text >= '\t' && *text <= '\r'))) return 1;
    if (n >= 3 && memcmp(text, "\xE2\x80", 2) == 0 && (unsigned char)text[2] <= 0x8A) return 3; /* U+2000 to U+200A */
    for (size_t i = 0; i < sizeof BLANKS / sizeof *BLANKS; i++) {
        size_t length = strlen(BLANKS[i]);
        if (n >= length && memcmp(text, BLANKS[i], length) == 0) return length;
    }
    return 0;
}

size_t utf8_blanks(const char *text, size_t n) {
    size_t at = 0;
    for (size_t length; (length = blank_at(text + at, n - at)) > 0;) at += length;
    return at;
}
