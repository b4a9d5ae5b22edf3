/* chat_form.h - the form of a chat template as data: what its turns look like, and by what its text is known.
 *
 * A form is text in which {} stands for the message, {bos} and {eos} for the tokens that the file names so (nothing
 * where it names none), and each of the row's control spellings for that control token where the vocabulary has it. */
#ifndef CHAT_FORM_H
#define CHAT_FORM_H

#include "chat.h"

/* What is trimmed of the blanks around it before it is written, as Python's str.strip does it. */
enum {
    TRIM_SYSTEM = 1,
    TRIM_USER = 2,
    TRIM_ASSISTANT = 4,
    TRIM_FOLD = 8, /* a user's message together with the system message put in front of it, not before */
};

enum { CHAT_MARKS = 4, CHAT_LACKS = 3, CHAT_CONTROLS = 6 };

typedef struct chat_form {
    const char *name;
    const char *mark[CHAT_MARKS];  /* all of them stand in the template's text, */
    const char *lacks[CHAT_LACKS]; /* and none of these */
    const char *control[CHAT_CONTROLS];
    unsigned trim;
    /* The default system message stands in the template in one string literal, up to `default_close`: behind
     * `default_open` and a line break, or, where that begins with the quote, from there on. */
    const char *default_open, *default_close;
    const char *system_first; /* a system turn that is always there, even of an empty message; NULL: none is */
    const char *system;       /* NULL: there are none, the message is put in front of the next user's as `fold` */
    const char *fold;
    const char *user;
    const char *open; /* of an assistant's turn, up to where the model writes */
    const char *assistant;
    const char *end; /* what the model itself ends with, and what closes an answer that was cut short */
    const char *after;
    const char *answer;  /* opens the turn to be written, where that is not `open` */
    const char *thought; /* an answer is left out up to the last of these; "...\n": and the line breaks behind it */
    const char *stop;    /* see chat_stop */
} chat_form;

/* The row of this template text; NULL: none. */
const chat_form *chat_form_of(file_text text);
/* For files whose template is unknown or missing. */
extern const chat_form CHAT_PLAIN;

struct chat {
    const tokenizer *t;
    const chat_form *form;
    int32_t control[CHAT_CONTROLS];   /* ids of form->control, -1: text in this vocabulary */
    bool takes_blanks[CHAT_CONTROLS]; /* white space behind it belongs to it */
    bool begins;                      /* the start token stands in front */
    char *default_system;
};

#endif
