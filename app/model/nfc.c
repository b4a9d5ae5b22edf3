/* nfc.c - see nfc.h. The text is taken in stretches that can be normalised by themselves. */
#include "nfc.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/log.h"
#include "base/mem.h"

void nfc_scratch_free(nfc_scratch *s) {
    free(s->rune);
    *s = (nfc_scratch){0};
}

/* The first byte of a character from U+0300 up, where combining marks begin, is at least 0xCC, and no other byte is. */
bool nfc_plain(const char *text, size_t n) {
    unsigned char most = 0;
    for (size_t i = 0; i < n; i++) most = (unsigned char)text[i] > most ? (unsigned char)text[i] : most;
    return most < 0xCC;
}

/* The character does not change by itself and nothing before it joins with it, or changes places with it: a text may be
 * cut in front of it. Not all of these, but those that long texts are made of: Latin letters; Chinese and Japanese but
 * for their marks; Korean syllables. U+11A7 is one letter before the first that ends a syllable: versions of utf8proc
 * take it for one, and it would vanish. */
static bool cut_before(int32_t c) {
    if (c < 0x300 || c == 0x11A7) return true;
    if (c >= 0x2E80 && c < 0xA4D0) return !(c >= 0x302A && c <= 0x302F) && c != 0x3099 && c != 0x309A;
    return c >= 0xAC00 && c <= 0xD7A3;
}

static int32_t rune_at(const char *text, size_t n, size_t *length) {
    int32_t c;
    *length = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)(n < 4 ? n : 4), &c);
    return c;
}

/* Append the canonical decomposition of one character, four code points at most. */
static kvt_status add_decomposed(nfc_scratch *s, int32_t c) {
    enum { MOST = 8 };
    if (s->room - s->n < MOST) {
        size_t room = s->room ? 2 * s->room : 256, bytes;
        if (!mem_mul(room, 2 * sizeof *s->rune, &bytes)) return KVT_E_MEMORY;
        int32_t *grown = realloc(s->rune, bytes);
        if (!grown) return KVT_E_MEMORY;
        s->rune = grown;
        s->room = room;
    }
    utf8proc_ssize_t n = utf8proc_decompose_char(c, s->rune + s->n, MOST, UTF8PROC_DECOMPOSE, NULL);
    if (n < 0 || n > MOST) return KVT_E_MEMORY;
    s->n += (size_t)n;
    return KVT_OK;
}

static unsigned class_of(int32_t c) {
    return (unsigned)utf8proc_get_property(c)->combining_class;
}

/* Marks of a run by class, those of one class in the order they have: counted, then put where they belong. */
static void sort_run(int32_t *run, size_t n, int32_t *spare) {
    size_t place[257] = {0};
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = class_of(run[i - 1]) <= class_of(run[i]);
    if (sorted) return;
    for (size_t i = 0; i < n; i++) place[class_of(run[i]) + 1]++;
    for (int c = 0; c < 256; c++) place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++) spare[place[class_of(run[i])]++] = run[i];
    memcpy(run, spare, n * sizeof *run);
}

static void sort_marks(nfc_scratch *s) {
    for (size_t i = 0, end; i < s->n; i = end + 1) {
        for (end = i; end < s->n && class_of(s->rune[end]);) end++;
        if (end - i > 1) sort_run(s->rune + i, end - i, s->rune + s->room);
    }
}

static kvt_status add_stretch(byte_list *out, const char *text, size_t n, nfc_scratch *s) {
    s->n = 0;
    for (size_t at = 0, length; at < n; at += length) TRY(add_decomposed(s, rune_at(text + at, n - at, &length)));
    sort_marks(s);
    utf8proc_option_t how = UTF8PROC_COMPOSE | UTF8PROC_STABLE;
    utf8proc_ssize_t count = utf8proc_normalize_utf32(s->rune, (utf8proc_ssize_t)s->n, how);
    if (count < 0) return KVT_E_MEMORY;
    for (utf8proc_ssize_t i = 0; i < count; i++) {
        utf8proc_uint8_t bytes[4];
        TRY(byte_list_add(out, bytes, (size_t)utf8proc_encode_char(s->rune[i], bytes)));
    }
    return KVT_OK;
}

/* Is the character at `at`, or the end, a place to cut? */
static bool cut_at(const char *text, size_t n, size_t at, size_t *length) {
    return at >= n || cut_before(rune_at(text + at, n - at, length));
}

kvt_status nfc_add(byte_list *out, const char *text, size_t n, nfc_scratch *s) {
    size_t same = 0; /* what is as it was and not yet appended begins here */
    for (size_t at = 0, length; at < n;) {
        size_t first = at, next;
        bool alone = cut_at(text, n, at, &length);
        at += length;
        if (cut_at(text, n, at, &next) && alone) continue;
        while (!cut_at(text, n, at, &next)) at += next;
        TRY(byte_list_add(out, text + same, first - same));
        TRY(add_stretch(out, text + first, at - first, s));
        same = at;
    }
    return byte_list_add(out, text + same, n - same);
}
