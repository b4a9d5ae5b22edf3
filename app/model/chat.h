/* chat.h - messages to token ids, by the template that the model file carries.
 *
 *     chat *c;
 *     chat_open(&c, file, tokenizer, &why);               why.text is "" where the template is known
 *     chat_render(c, messages, n, true, &ids);            everything, and the opening of an answer
 *     ...                                                 the answer becomes messages[n], the next question n + 1
 *     chat_continue(c, messages, n + 2, n + 1, ended, true, &ids);
 *
 * Templates are recognised by what their text contains, not interpreted: chat_form.c has a row for each, and
 * docs/chat-templates.md says what is known and where a row departs from the template. A file whose template is
 * unknown or missing gets plain text ("User: ...").
 *
 * Control tokens come from the template only: whatever a message says, it stays text, so nobody can end a turn by
 * typing its end token. A mark of the template that the vocabulary has no control token for is text as well. */
#ifndef CHAT_H
#define CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "file/file.h"
#include "tokenizer.h"

typedef struct chat_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text; /* [n] bytes, no 0 needed behind them */
    size_t n;
} chat_message;

typedef struct chat chat;

/* t must outlive it. Only memory fails: a file without a template, or with an unknown one, gives plain text, and `why`
 * (which may be NULL) says so in a sentence. */
kvt_status chat_open(chat **out, const model_file *f, const tokenizer *t, error_text *why);
void chat_close(chat *c); /* NULL is fine */

const char *chat_name(const chat *c); /* "ChatML", "Llama 3", ..., "plain text" */
bool chat_known(const chat *c);       /* false: plain text, because the template is unknown or missing */

/* The text that ends an answer where no end token does, "\nUser:"; NULL: end tokens do. */
const char *chat_stop(const chat *c);

/* The system message that the template puts first where the caller's messages begin otherwise; "" if none. */
const char *chat_default_system(const chat *c);

/* Append all of a conversation from nothing, with the start token where template or tokenizer want one, and with
 * `answer` the opening of the assistant's next message. A system message that the template has no place for goes in
 * front of the next user message's text. Messages may follow in any order. KVT_E_ARGUMENT: a role that is none of
 * the three. On failure out is as it was. */
kvt_status chat_render(const chat *c, const chat_message *messages, size_t n, bool answer, token_list *out);

/* Go on after an answer: messages[first - 1] is the assistant's and its tokens already stand in the sequence; `ended`:
 * the last of them was the end token. Appends what closes it, messages first .. n - 1, and with `answer` the opening of
 * the next. The tokens before are not touched, so that they are reused.
 *
 * Where turns meet at control tokens the sequence is then what chat_render would give for all messages; where they meet
 * in plain text it is the same text, cut into tokens at the seam. A template that takes earlier thoughts out (Qwen3,
 * DeepSeek R1) would do so here only at the price of computing the answer again: they stay. An answer is kept as a
 * message without the blanks around it: some templates write a blank in front by themselves. */
kvt_status chat_continue(const chat *c, const chat_message *messages, size_t n, size_t first, bool ended, bool answer,
                         token_list *out);

#endif
