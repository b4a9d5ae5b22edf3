/* vocab.c - see vocab.h. spellings.c has the byte spelling and the hash. */
#include "vocab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "spelling.h"

enum { TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4 }; /* of tokenizer.ggml.token_type */

static const char TYPES[] = "tokenizer.ggml.token_type";

/* ------------------------------------------------------------------------------------------- reading */

static int64_t type_of(const file_array *types, int32_t id) {
    int64_t type = 0;
    return file_item_i64(types, (size_t)id, &type) ? type : 0;
}

static bool is_special(int64_t type) {
    return type == TYPE_CONTROL || type == TYPE_USER_DEFINED;
}

/* Where the file gives no types, no token is special. */
static kvt_status read_types(const model_file *f, int32_t n, file_array *types, error_text *err) {
    *types = (file_array){0};
    if (!file_has(f, TYPES)) return KVT_OK;
    TRY(file_array_any(f, TYPES, types, err));
    if (types->n != (size_t)n)
        return file_fail(f, err, KVT_E_CORRUPT, "%s has %zu entries for %" PRId32 " tokens", TYPES, types->n, n);
    int64_t first;
    if (!file_item_i64(types, 0, &first)) return file_fail(f, err, KVT_E_CORRUPT, "%s holds no integers", TYPES);
    return KVT_OK;
}

static kvt_status take_memory(vocab *v, const spellings *s, const file_array *types) {
    size_t n_bytes = 0;
    for (int32_t id = 0; id < v->n; id++) {
        n_bytes += s->of[id].n; /* bytes are never more than their spelling, and all of these lie in the file */
        v->n_special += is_special(type_of(types, id));
    }
    v->bytes = malloc(n_bytes + 1);
    v->start = malloc(((size_t)v->n + 1) * sizeof *v->start);
    v->control = calloc((size_t)v->n, sizeof *v->control);
    v->special = calloc(v->n_special + 1, sizeof *v->special);
    return v->bytes && v->start && v->control && v->special ? KVT_OK : KVT_E_MEMORY;
}

/* Special tokens stand in the file as they are typed, and so does a token with a character that spells no byte. */
static size_t write_bytes(char *to, file_text text, bool special) {
    size_t n;
    if (!special && spelling_to_bytes(text, to, &n)) return n;
    memcpy(to, text.at, text.n);
    return text.n;
}

static int compare(const vocab_special *a, const char *at, size_t n) {
    int order = memcmp(a->at, at, a->n < n ? a->n : n);
    return order ? order : (a->n > n) - (a->n < n);
}

static int by_bytes(const void *a, const void *b) {
    const vocab_special *y = b;
    return compare(a, y->at, y->n);
}

kvt_status vocab_open(vocab *v, const model_file *f, const spellings *s, int32_t n, error_text *err) {
    file_array types;
    v->n = n;
    TRY(read_types(f, n, &types, err));
    if (take_memory(v, s, &types) != KVT_OK)
        return file_fail(f, err, KVT_E_MEMORY, "no memory for a vocabulary of %" PRId32 " tokens", n);
    size_t used = 0, k = 0;
    for (int32_t id = 0; id < n; id++) {
        int64_t type = type_of(&types, id);
        v->start[id] = used;
        used += write_bytes(v->bytes + used, s->of[id], is_special(type));
        v->control[id] = type == TYPE_CONTROL;
        size_t length = used - v->start[id];
        if (!is_special(type) || length == 0) continue; /* an empty one would be found everywhere */
        v->special[k++] = (vocab_special){v->bytes + v->start[id], length, id, type == TYPE_CONTROL};
        v->special_first[(unsigned char)v->bytes[v->start[id]]] = true;
    }
    v->start[n] = used;
    v->n_special = k;
    qsort(v->special, k, sizeof *v->special, by_bytes);
    return KVT_OK;
}

void vocab_close(vocab *v) {
    free(v->bytes);
    free(v->start);
    free(v->control);
    free(v->special);
    *v = (vocab){0};
}

/* --------------------------------------------------------------------------------------- special tokens */

/* First of special[first .. last - 1], which are longer than depth, whose byte at depth is not below `byte`. */
static size_t lower_bound(const vocab *v, size_t first, size_t last, size_t depth, int byte) {
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if ((unsigned char)v->special[middle].at[depth] < byte) first = middle + 1;
        else last = middle;
    }
    return first;
}

/* Sorted names are a tree: [first, last) are those that agree with the text so far, the shortest in front. */
const vocab_special *vocab_special_at(const vocab *v, const char *text, size_t n, bool control) {
    const vocab_special *longest = NULL;
    if (n == 0 || !v->special_first[(unsigned char)text[0]]) return NULL;
    size_t first = 0, last = v->n_special;
    for (size_t depth = 0;; depth++) {
        for (; first < last && v->special[first].n == depth; first++)
            if (control || !v->special[first].control) longest = &v->special[first];
        if (first == last || depth == n) return longest;
        int byte = (unsigned char)text[depth];
        first = lower_bound(v, first, last, depth, byte);
        last = lower_bound(v, first, last, depth, byte + 1);
    }
}

const vocab_special *vocab_special_find(const vocab *v, const char *text, size_t n) {
    for (size_t i = 0; i < v->n_special; i++)
        if (compare(&v->special[i], text, n) == 0) return &v->special[i];
    return NULL;
}
