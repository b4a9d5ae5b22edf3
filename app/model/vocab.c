/* vocab.c - see vocab.h. spellings.c has the byte spelling and the hash of spellings. */
#include "vocab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "spelling.h"
#include "utf8.h"

static const char TYPES[] = "tokenizer.ggml.token_type";

/* ------------------------------------------------------------------------------------------- reading */

static vocab_type type_of(const file_array *types, int32_t id) {
    int64_t type = 0;
    if (!file_item_i64(types, (size_t)id, &type)) return VOCAB_NORMAL;
    return type >= VOCAB_NORMAL && type <= VOCAB_BYTE ? (vocab_type)type : VOCAB_NORMAL;
}

static bool is_special(vocab_type type) {
    return type == VOCAB_CONTROL || type == VOCAB_UNKNOWN || type == VOCAB_USER;
}

/* Where the file gives no types, no token is special; but which tokens are bytes has to be told. */
static kvt_status read_types(const model_file *f, int32_t n, vocab_style style, file_array *types, error_text *err) {
    *types = (file_array){0};
    if (!file_has(f, TYPES) && style == VOCAB_BYTES) return KVT_OK;
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
    v->type = malloc((size_t)v->n * sizeof *v->type);
    v->special = calloc(v->n_special + 1, sizeof *v->special);
    return v->bytes && v->start && v->type && v->special ? KVT_OK : KVT_E_MEMORY;
}

/* The bytes of a token, or -1 for one that is a byte and not spelled as such. */
static ptrdiff_t write_bytes(char *to, file_text text, vocab_style style, vocab_type *type) {
    size_t n;
    bool literal = *type == VOCAB_CONTROL || *type == VOCAB_UNKNOWN || (*type == VOCAB_USER && style == VOCAB_BYTES);
    if (!literal && style == VOCAB_SPACES) {
        if (*type == VOCAB_BYTE) return spelling_to_byte(text, to) ? 1 : -1;
        return (ptrdiff_t)spelling_to_blanks(text, to);
    }
    if (!literal && spelling_to_bytes(text, to, &n)) return (ptrdiff_t)n;
    if (!literal) *type = VOCAB_UNUSED;
    memcpy(to, text.at, text.n);
    return (ptrdiff_t)text.n;
}

static int by_bytes(const void *a, const void *b) {
    const vocab_special *x = a, *y = b;
    int order = memcmp(x->at, y->at, x->n < y->n ? x->n : y->n);
    if (order == 0) order = (x->n > y->n) - (x->n < y->n);
    return order ? order : (x->id > y->id) - (x->id < y->id); /* of two that are alike the last counts */
}

static kvt_status read_tokens(vocab *v, const model_file *f, const spellings *s, const file_array *types,
                              vocab_style style, error_text *err) {
    size_t used = 0, k = 0;
    for (int32_t id = 0; id < v->n; id++) {
        vocab_type type = type_of(types, id);
        ptrdiff_t n = write_bytes(v->bytes + used, s->of[id], style, &type);
        if (n < 0)
            return file_fail(f, err, KVT_E_CORRUPT, "token %" PRId32 ", \"%.*s\", is a byte but not spelled as one", id,
                             FILE_SHOW(s->of[id]));
        v->type[id] = (uint8_t)type;
        v->start[id] = used;
        used += (size_t)n;
        /* An empty one would be found everywhere, half a character inside others. */
        if (!is_special(type) || n == 0 || !utf8_valid(vocab_bytes(v, id), (size_t)n)) continue;
        if (n > VOCAB_BYTES_SOUGHT_MAX)
            return file_fail(f, err, KVT_E_UNSUPPORTED,
                             "token %" PRId32 ", a special one, has %td bytes; the longest have %d", id, n,
                             VOCAB_BYTES_SOUGHT_MAX);
        v->special[k++] = (vocab_special){vocab_bytes(v, id), (size_t)n, id, .user = type == VOCAB_USER};
        v->special_first[(unsigned char)*vocab_bytes(v, id)] = true;
    }
    v->start[v->n] = used;
    v->n_special = k;
    qsort(v->special, k, sizeof *v->special, by_bytes);
    return KVT_OK;
}

kvt_status vocab_open(vocab *v, const model_file *f, const spellings *s, int32_t n, vocab_style style,
                      error_text *err) {
    file_array types;
    v->n = n;
    TRY(read_types(f, n, style, &types, err));
    if (take_memory(v, s, &types) != KVT_OK)
        return file_fail(f, err, KVT_E_MEMORY, "no memory for a vocabulary of %" PRId32 " tokens", n);
    return read_tokens(v, f, s, &types, style, err);
}

void vocab_close(vocab *v) {
    free(v->bytes);
    free(v->start);
    free(v->type);
    free(v->special);
    free(v->slot);
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
const vocab_special *vocab_special_at(const vocab *v, const char *text, size_t n, unsigned wanted) {
    const vocab_special *longest = NULL;
    if (n == 0 || !v->special_first[(unsigned char)text[0]]) return NULL;
    size_t first = 0, last = v->n_special;
    for (size_t depth = 0;; depth++) {
        for (; first < last && v->special[first].n == depth; first++)
            if (wanted & (v->special[first].user ? SPECIAL_USER : SPECIAL_CONTROL)) longest = &v->special[first];
        if (first == last || depth == n) return longest;
        int byte = (unsigned char)text[depth];
        first = lower_bound(v, first, last, depth, byte);
        last = lower_bound(v, first, last, depth, byte + 1);
    }
}

const vocab_special *vocab_special_find(const vocab *v, const char *text, size_t n) {
    const vocab_special *longest = vocab_special_at(v, text, n, SPECIAL_CONTROL | SPECIAL_USER);
    return longest && longest->n == n ? longest : NULL;
}

/* ---------------------------------------------------------------------------------------- bytes to token */

/* The slot of the token of these bytes, or the empty one where it belongs; half full at most, there is always one. */
static size_t slot_of(const vocab *v, const char *bytes, size_t n) {
    size_t i = spelling_hash(bytes, n) & (v->n_slots - 1);
    for (;; i = (i + 1) & (v->n_slots - 1)) {
        int32_t id = v->slot[i];
        if (id < 0 || (vocab_length(v, id) == n && memcmp(vocab_bytes(v, id), bytes, n) == 0)) return i;
    }
}

kvt_status vocab_index(vocab *v) {
    for (v->n_slots = 2; v->n_slots < 2 * (size_t)v->n;) v->n_slots *= 2;
    v->slot = malloc(v->n_slots * sizeof *v->slot);
    if (!v->slot) return KVT_E_MEMORY;
    memset(v->slot, 0xFF, v->n_slots * sizeof *v->slot);
    for (int32_t id = 0; id < v->n; id++)
        if (v->type[id] == VOCAB_NORMAL && vocab_length(v, id))
            v->slot[slot_of(v, vocab_bytes(v, id), vocab_length(v, id))] = id; /* as above */
    return KVT_OK;
}

int32_t vocab_find(const vocab *v, const char *bytes, size_t n) {
    return v->slot[slot_of(v, bytes, n)];
}
