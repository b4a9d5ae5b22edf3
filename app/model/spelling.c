/* spelling.c - see spelling.h, and the hash of spellings declared in vocab.h. */
#include "spelling.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "vocab.h"

/* --------------------------------------------------------------------------------------- byte spelling */

/* Printable Latin-1 characters spell themselves ... */
static bool spells_itself(unsigned c) {
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

/* ... and the 68 other bytes, in order, are U+0100 and up: 33 below '!', 34 from DEL to U+00A0, and U+00AD. */
static unsigned code_of(unsigned char byte) {
    if (spells_itself(byte)) return byte;
    if (byte < 0x21) return 0x100u + byte;
    return byte == 0xAD ? 0x143 : 0x121u + byte - 0x7F;
}

static int byte_of(unsigned code) {
    if (code <= 0xFF) return spells_itself(code) ? (int)code : -1;
    if (code <= 0x120) return (int)(code - 0x100);
    if (code <= 0x142) return (int)(code - 0x121 + 0x7F);
    return code == 0x143 ? 0xAD : -1;
}

int spelling_of_byte(unsigned char byte, char out[2]) {
    unsigned code = code_of(byte);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3F));
    return 2;
}

bool spelling_to_bytes(file_text text, char *out, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < text.n;) {
        unsigned char first = (unsigned char)text.at[i++];
        unsigned code = first;
        if (first >= 0x80) {
            if ((first & 0xE0) != 0xC0 || i == text.n || ((unsigned char)text.at[i] & 0xC0) != 0x80) return false;
            code = (first & 0x1Fu) << 6 | ((unsigned char)text.at[i++] & 0x3Fu);
        }
        int byte = byte_of(code);
        if (byte < 0) return false;
        out[(*n)++] = (char)byte;
    }
    return true;
}

size_t spelling_to_blanks(file_text text, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < text.n; n++) {
        bool blank = text.n - i >= 3 && memcmp(text.at + i, "\xE2\x96\x81", 3) == 0;
        out[n] = blank ? ' ' : text.at[i];
        i += blank ? 3 : 1;
    }
    return n;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool spelling_to_byte(file_text text, char *out) {
    if (text.n != 6 || memcmp(text.at, "<0x", 3) != 0 || text.at[5] != '>') return false;
    int high = digit_of(text.at[3]), low = digit_of(text.at[4]);
    if (high < 0 || low < 0) return false;
    *out = (char)(high * 16 + low);
    return true;
}

/* --------------------------------------------------------------------------------------- spelling to id */

/* FNV-1a, its upper half folded in: the slots take the low bits. */
size_t spelling_hash(const char *at, size_t n) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)at[i]) * 0x100000001b3;
    return (size_t)(h ^ h >> 32);
}

static bool same(file_text a, const char *at, size_t n) {
    return a.n == n && memcmp(a.at, at, n) == 0;
}

/* The slot that holds this text, or the empty one where it belongs; a quarter full at most, there is always one. */
static size_t slot_of(const spellings *s, const char *at, size_t n) {
    size_t i = spelling_hash(at, n) & (s->n_slots - 1);
    while (s->slot[i] >= 0 && !same(s->of[s->slot[i]], at, n)) i = (i + 1) & (s->n_slots - 1);
    return i;
}

kvt_status spellings_open(spellings *s, const model_file *f, int32_t *n, error_text *err) {
    file_array list;
    *s = (spellings){0};
    TRY(file_array_of(f, "tokenizer.ggml.tokens", FILE_STRING, &list, err));
    if (list.n == 0 || list.n > INT32_MAX / 4)
        return file_fail(f, err, KVT_E_CORRUPT, "tokenizer.ggml.tokens has %zu entries", list.n);
    *n = (int32_t)list.n;
    for (s->n_slots = 1; s->n_slots < 4 * list.n;) s->n_slots *= 2;
    s->of = malloc(list.n * sizeof *s->of);
    s->slot = malloc(s->n_slots * sizeof *s->slot);
    if (!s->of || !s->slot) {
        spellings_close(s);
        return file_fail(f, err, KVT_E_MEMORY, "no memory for a vocabulary of %" PRId32 " tokens", *n);
    }
    memset(s->slot, 0xFF, s->n_slots * sizeof *s->slot);
    for (int32_t id = 0; id < *n; id++) {
        s->of[id] = file_take_string(&list);
        s->slot[slot_of(s, s->of[id].at, s->of[id].n)] = id; /* of two that are spelled alike the last counts */
    }
    return KVT_OK;
}

void spellings_close(spellings *s) {
    free(s->of);
    free(s->slot);
    *s = (spellings){0};
}

int32_t spellings_find(const spellings *s, const char *at, size_t n) {
    return s->slot[slot_of(s, at, n)];
}

int32_t spellings_byte(const spellings *s, unsigned char byte) {
    char spelled[2];
    return spellings_find(s, spelled, (size_t)spelling_of_byte(byte, spelled));
}
