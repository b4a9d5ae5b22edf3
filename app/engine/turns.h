/* turns.h - the turns of a conversation in a list: messages, answers, and the token ids of both.
 *
 * Owns their memory. What the ids mean, and who leaves, is talk.c's. */
#ifndef TURNS_H
#define TURNS_H

#include "engine.h"

typedef struct reply {
    bool there;
    byte_list text;
    token_list said; /* as sampled, its end token included where it has one */
    finish_reason finish;
} reply;

typedef struct turn {
    byte_list user;
    token_list head; /* what is rendered before the answer: the end of the turn before, this message, the opening */
    reply reply;
    int n_again; /* how many answers to it were thrown away */
} turn;

typedef struct turn_list {
    turn *at; /* [n] */
    int n, room;
} turn_list;

void reply_free(reply *r);
void turns_free(turn_list *list);
/* An empty turn at the end; NULL: no memory. */
turn *turns_add(turn_list *list);
void turns_drop_last(turn_list *list);
void turns_drop_first(turn_list *list, int n);
/* Tokens of the turns first .. first + n - 1. */
int turns_tokens(const turn_list *list, int first, int n);

kvt_status tokens_put(token_list *list, const int32_t *id, size_t n);

#endif
