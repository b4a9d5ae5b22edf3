/* chat.h - messages to token ids, by the template that the model file carries.
 *
 * A template here is an array of pieces: control tokens, fixed text, the role, the message. Control tokens come from
 * the template only: whatever a message says, it stays text, so nobody can end a turn by typing its end token.
 * Templates are recognised, not interpreted: ChatML is known so far. */
#ifndef CHAT_H
#define CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "file/file.h"
#include "tokenizer.h"

typedef struct chat_message {
    const char *role; /* "system", "user", "assistant", ... */
    const char *text; /* [n] bytes, no 0 needed behind them */
    size_t n;
} chat_message;

typedef struct chat chat;

/* t must outlive it. KVT_E_UNSUPPORTED: the file has no template, or none that this version knows. */
kvt_status chat_open(chat **out, const model_file *f, const tokenizer *t, error_text *err);
void chat_close(chat *c); /* NULL is fine */

/* The system message that the template puts first where the caller's messages begin otherwise; "" if none. */
const char *chat_default_system(const chat *c);

/* Append n messages and, with answer, the opening of the assistant's. On failure out is as it was. */
kvt_status chat_render(const chat *c, const chat_message *messages, size_t n, bool answer, token_list *out);

#endif
