/* stop.c - see stop.h. Knuth, Morris and Pratt (1977) for each text: a byte costs the same however long the texts are,
 * and what is met of a text is also what has to be held back. */
#include "stop.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

typedef struct stop_text {
    const char *at; /* [n] */
    size_t n;
    size_t *border; /* [n + 1] of its first i bytes: the most bytes, fewer than i, that they both begin and end with */
} stop_text;

struct stop_list {
    int n;
    stop_text text[STOP_TEXTS_MAX];
};

/* One byte more: how much of the text is met now. */
static size_t meet(const stop_text *t, size_t n_met, char byte) {
    if (n_met == t->n) n_met = t->border[n_met];
    while (n_met > 0 && t->at[n_met] != byte) n_met = t->border[n_met];
    return t->at[n_met] == byte ? n_met + 1 : 0;
}

static kvt_status text_take(stop_text *t, const char *text) {
    size_t bytes;
    t->n = strlen(text);
    if (t->n == 0) return KVT_E_ARGUMENT;
    if (!mem_mul(t->n + 1, sizeof(size_t), &bytes)) return KVT_E_MEMORY;
    t->at = strdup(text);
    t->border = malloc(bytes);
    if (!t->at || !t->border) return KVT_E_MEMORY;
    t->border[0] = t->border[1] = 0;
    for (size_t i = 2; i <= t->n; i++) t->border[i] = meet(t, t->border[i - 1], text[i - 1]);
    return KVT_OK;
}

kvt_status stop_list_new(stop_list **out, const char *const *texts, int n) {
    *out = NULL;
    if (n < 0 || n > STOP_TEXTS_MAX) return KVT_E_ARGUMENT;
    stop_list *l = calloc(1, sizeof *l);
    if (!l) return KVT_E_MEMORY;
    kvt_status status = KVT_OK;
    for (; l->n < n && status == KVT_OK; l->n++) status = text_take(&l->text[l->n], texts[l->n]);
    if (status != KVT_OK) {
        stop_list_free(l);
        return status;
    }
    *out = l;
    return KVT_OK;
}

void stop_list_free(stop_list *l) {
    for (int i = 0; l && i < l->n; i++) {
        free((char *)l->text[i].at);
        free(l->text[i].border);
    }
    free(l);
}

size_t stop_scan_read(stop_scan *s, const stop_list *l, const char *bytes, size_t n, size_t *n_read) {
    for (*n_read = 0; *n_read < n;) {
        size_t whole = 0;
        char byte = bytes[(*n_read)++];
        for (int i = 0; i < l->n; i++) {
            const stop_text *t = &l->text[i];
            s->n_met[i] = meet(t, s->n_met[i], byte);
            if (s->n_met[i] == t->n && t->n > whole) whole = t->n;
        }
        if (whole > 0) return whole;
    }
    return 0;
}

size_t stop_scan_held(const stop_scan *s, const stop_list *l) {
    size_t held = 0;
    for (int i = 0; i < l->n; i++)
        if (s->n_met[i] > held) held = s->n_met[i];
    return held;
}
