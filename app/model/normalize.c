/* normalize.c - see normalize.h. */
#include "normalize.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "utf8.h"

static const char TABLE[] = "tokenizer.ggml.precompiled_charsmap";

/* Characters that are replaced as one, and what they become, have some dozens of bytes at most; one word in Arabic,
 * U+FDFA, becomes 33. The limits are ones on time and on memory: an array can be made whose ways go round in circles,
 * and a text that grows a thousandfold. */
enum { KEY_BYTES_MAX = 128, REPLACEMENT_BYTES_MAX = 128 };

/* -------------------------------------------------------------------------------------------- opening */

static kvt_status check_replacements(const normalizer *n, const model_file *f, error_text *err) {
    for (size_t at = 0, length; at < n->n_replacement; at += length + 1) {
        length = strlen(n->replacement + at);
        if (length > REPLACEMENT_BYTES_MAX)
            return file_fail(f, err, KVT_E_UNSUPPORTED, "%s has a replacement of %zu bytes; the longest have %d", TABLE,
                             length, REPLACEMENT_BYTES_MAX);
    }
    return KVT_OK;
}

static kvt_status take_table(normalizer *n, const model_file *f, const file_array *bytes, error_text *err) {
    cursor c = cursor_of(bytes->data, bytes->bytes);
    size_t n_array = bytes->bytes < 4 ? 0 : cursor_u32(&c);
    if (bytes->bytes < 4 || n_array % 4 || n_array > bytes->bytes - 4)
        return file_fail(f, err, KVT_E_CORRUPT, "%s has %zu bytes, its array %zu", TABLE, bytes->bytes, n_array);
    n->n_units = n_array / 4;
    n->n_replacement = bytes->bytes - 4 - n_array;
    n->unit = malloc(n_array + 4);
    n->replacement = malloc(n->n_replacement + 1);
    if (!n->unit || !n->replacement) return file_fail(f, err, KVT_E_MEMORY, "no memory for %s", TABLE);
    for (size_t i = 0; i < n->n_units; i++) n->unit[i] = cursor_u32(&c);
    memcpy(n->replacement, bytes->data + 4 + n_array, n->n_replacement);
    n->replacement[n->n_replacement] = 0;
    return check_replacements(n, f, err);
}

static kvt_status read_flag(const model_file *f, const char *key, bool *flag, error_text *err) {
    return file_has(f, key) ? file_bool(f, key, flag, err) : KVT_OK;
}

kvt_status normalizer_open(normalizer *n, const model_file *f, const vocab *v, bool blank_first, error_text *err) {
    n->vocab = v;
    n->blank_first = blank_first;
    TRY(read_flag(f, "tokenizer.ggml.add_space_prefix", &n->blank_first, err));
    TRY(read_flag(f, "tokenizer.ggml.remove_extra_whitespaces", &n->blanks_single, err));
    if (!file_has(f, TABLE)) return KVT_OK;
    file_array bytes;
    TRY(file_array_any(f, TABLE, &bytes, err));
    if (bytes.item != FILE_U8 && bytes.item != FILE_I8)
        return file_fail(f, err, KVT_E_CORRUPT, "%s is no array of bytes", TABLE);
    return bytes.n ? take_table(n, f, &bytes, err) : KVT_OK;
}

void normalizer_close(normalizer *n) {
    free(n->unit);
    free(n->replacement);
    *n = (normalizer){0};
}

/* ----------------------------------------------------------------------------------------- the table
 *
 * A unit of 32 bits:   31      30 .. 10   9           8          7 .. 0
 *                      value   offset     offset*256  has value  label
 *
 * A node's child by a byte is at the node's place, xor its offset, xor the byte, if the label there is that byte. Where
 * a node has a value, it is at the node's place xor its offset. What points outside the array is not there. */

static uint32_t offset_of(uint32_t unit) {
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* How many bytes the longest entry takes that the text begins with; 0: there is none. */
static size_t find_replacement(const normalizer *n, const char *text, size_t n_text, const char **replacement) {
    if (n->n_units == 0) return 0;
    size_t longest = 0, at = offset_of(n->unit[0]);
    for (size_t i = 0; i < n_text && i < KEY_BYTES_MAX; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= n->n_units || (n->unit[at] & (1u << 31 | 0xFF)) != byte) break;
        bool has_value = n->unit[at] >> 8 & 1;
        at ^= offset_of(n->unit[at]);
        if (!has_value || at >= n->n_units) continue;
        uint32_t value = n->unit[at] & ~(1u << 31);
        if (value >= n->n_replacement) continue;
        *replacement = n->replacement + value;
        longest = i + 1;
    }
    return longest;
}

/* ------------------------------------------------------------------------------------------- the text */

/* Take what is replaced as one off the text: a user-defined token, an entry of the table, or a character. */
static size_t take(const normalizer *n, const char *text, size_t n_text, file_text *as) {
    *as = (file_text){text, 0};
    const vocab_special *word = vocab_special_at(n->vocab, text, n_text, SPECIAL_USER);
    if (word && !memchr(word->at, ' ', word->n)) return as->n = word->n;
    size_t length = find_replacement(n, text, n_text, &as->at);
    if (length) {
        as->n = strlen(as->at);
        return length;
    }
    bool whole;
    return as->n = utf8_part(text, n_text, &whole);
}

static kvt_status add(byte_list *out, file_text t) {
    for (size_t at = 0, length; at < t.n; at += length) {
        bool blank = t.n - at >= 3 && memcmp(t.at + at, "\xE2\x96\x81", 3) == 0, whole;
        length = blank ? 3 : utf8_part(t.at + at, t.n - at, &whole);
        TRY(byte_list_add(out, blank ? " " : t.at + at, blank ? 1 : length));
    }
    return KVT_OK;
}

kvt_status normalizer_add(const normalizer *n, const char *text, size_t n_text, byte_list *out) {
    size_t n_before = out->n;
    bool begun = false, after_blank = n->blanks_single;
    for (size_t at = 0; at < n_text;) {
        file_text as;
        at += take(n, text + at, n_text - at, &as);
        for (; after_blank && as.n && *as.at == ' '; as.n--) as.at++;
        if (as.n == 0) continue;
        if (!begun && n->blank_first) TRY(byte_list_add(out, " ", 1));
        begun = true;
        TRY(add(out, as));
        after_blank = n->blanks_single && as.at[as.n - 1] == ' ';
    }
    while (n->blanks_single && out->n > n_before && out->at[out->n - 1] == ' ') out->n--;
    return KVT_OK;
}
