/* turns.c - see turns.h. */
#include "turns.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void reply_free(reply *r) {
    byte_list_free(&r->text);
    token_list_free(&r->said);
    *r = (reply){ 0 };
}

static void turn_free(turn *u) {
    byte_list_free(&u->user);
    token_list_free(&u->head);
    reply_free(&u->reply);
}

void turns_free(turn_list *list) {
    for (int i = 0; i < list->n; i++) turn_free(&list->at[i]);
    free(list->at);
    *list = (turn_list){ 0 };
}

turn *turns_add(turn_list *list) {
    if (list->n == list->room) {
        int room = list->room ? 2 * list->room : 8;
        turn *at = realloc(list->at, (size_t)room * sizeof *at);
        if (!at) return NULL;
        list->at = at;
        list->room = room;
    }
    list->at[list->n] = (turn){ 0 };
    return &list->at[list->n++];
}

void turns_drop_last(turn_list *list) {
    turn_free(&list->at[--list->n]);
}

void turns_drop_first(turn_list *list, int n) {
    for (int i = 0; i < n; i++) turn_free(&list->at[i]);
    list->n -= n;
    memmove(list->at, list->at + n, (size_t)list->n * sizeof *list->at);
}

int turns_tokens(const turn_list *list, int first, int n) {
    size_t sum = 0;
    for (int i = first; i < first + n; i++) sum += list->at[i].head.n + list->at[i].reply.said.n;
    return (int)sum;
}

kvt_status tokens_put(token_list *list, const int32_t *id, size_t n) {
    for (size_t i = 0; i < n; i++) TRY(token_list_add(list, id[i]));
    return KVT_OK;
}
