/* lists.c - the growable lists of tokenizer.h. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "tokenizer.h"

/* Room for `more` items behind n: at least doubled, so that appending one by one stays linear. */
static kvt_status grow(void **items, size_t n, size_t more, size_t item_bytes, size_t *room) {
    size_t need, bytes;
    if (!mem_add(n, more, &need)) return KVT_E_MEMORY;
    if (need <= *room) return KVT_OK;
    if (need < 2 * *room) need = 2 * *room;
    if (need < 64) need = 64;
    if (!mem_mul(need, item_bytes, &bytes)) return KVT_E_MEMORY;
    void *grown = realloc(*items, bytes);
    if (!grown) return KVT_E_MEMORY;
    *items = grown;
    *room = need;
    return KVT_OK;
}

kvt_status token_list_add(token_list *list, int32_t id) {
    void *items = list->id;
    TRY(grow(&items, list->n, 1, sizeof *list->id, &list->room));
    list->id = items;
    list->id[list->n++] = id;
    return KVT_OK;
}

void token_list_free(token_list *list) {
    free(list->id);
    *list = (token_list){0};
}

kvt_status byte_list_add(byte_list *list, const void *bytes, size_t n) {
    void *items = list->at;
    TRY(grow(&items, list->n, n, 1, &list->room));
    list->at = items;
    if (n) memcpy(list->at + list->n, bytes, n);
    list->n += n;
    return KVT_OK;
}

void byte_list_free(byte_list *list) {
    free(list->at);
    *list = (byte_list){0};
}
