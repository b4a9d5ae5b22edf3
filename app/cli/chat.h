/* chat.h - what the files of kvtile chat share: the session, what is told around the answers, commands, saved chats.
 *
 * Answers go to stdout, everything else to stderr. */
#ifndef CHAT_H_CLI
#define CHAT_H_CLI

#include "base/path.h"
#include "chat_lines.h"
#include "chat_wrap.h"
#include "cli.h"
#include "block_store.h"

typedef struct chat_options {
    common_options common;
    sample_options sampling;
    sampling_texts texts;
    block_store_options store;
    const char *system, *load;
    const char *session; /* NULL: the conversation is not kept */
    int tokens_max; /* 0: what fits */
} chat_options;

/* How things may be shown. */
typedef struct chat_screen {
    bool terminal; /* somebody types and reads */
    bool colour;   /* escapes for bold, dim and colours */
    bool wide;     /* characters beyond ASCII */
    bool tame;     /* stdout is a terminal: lines are broken for it, control characters are not for it to obey */
    int columns;
} chat_screen;

/* Which file a session was last read from or written to; zeros: none. */
typedef struct session_stamp {
    uint64_t inode;
    int64_t seconds, nanoseconds;
} session_stamp;

typedef struct chat_session {
    const chat_options *opt;
    bias_list biases;
    loaded loaded;
    block_store store;
    char folder[PATH_BYTES]; /* of the store, where it is nobody's option */
    char kept[PATH_BYTES];   /* the session's file; "": there is none */
    session_stamp stamp;
    engine *engine;
    talk *talk;
    lines *lines;
    chat_screen screen;
    byte_list message; /* the one that is being read */
    progress progress;
    char last;         /* byte of the answer that was printed, 0: none yet */
    wrap wrap;         /* of the answer */
    byte_list wrapped; /* what it gives */
    bool leave;        /* /quit */
    bool reader_gone;  /* nobody reads stdout any more */
    int failed;        /* CLI_FAILED once something was not done */
} chat_session;

/* --------------------------------------------------------------------------------------------- chat.c */

/* Answer the last message, print the answer and what it took. */
void chat_answer(chat_session *s);
/* What a change cost, where it cost something. */
void chat_tell_change(chat_session *s, const talk_change *change);

/* --------------------------------------------------------------------------------------- chat_command.c */

/* Carry out "/name argument"; blanks at its end are cut off. */
void chat_command(chat_session *s, char *line);

/* ---------------------------------------------------------------------------------------- chat_message.c */

/* One message, of one or several lines; literal: it was written as a block, and is no command. */
lines_status message_read(lines *l, byte_list *out, bool *literal);

/* ----------------------------------------------------------------------------------------- chat_screen.c */

chat_screen screen_find(void);
int screen_columns(void); /* now */

/* A line on stderr: plain; the same in a dim voice. No newline in it. */
void screen_say(const chat_screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_dim(const chat_screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A failure, in a line as other commands tell theirs; returns CLI_FAILED. */
void chat_banner(const chat_session *s);
void chat_cost(const chat_session *s, const talk_cost *cost);
void chat_totals(const chat_session *s);
/* Text of an answer on stdout, and the line break behind it. On a terminal lines are broken between words. */
void chat_print_begin(chat_session *s);
void chat_print_end(chat_session *s);
void chat_print(chat_session *s, const char *bytes, size_t n);

/* ---------------------------------------------------------------------------------------- chat_context.c */

/* The blocks of the cache, message by message. */
void chat_context(const chat_session *s);

/* ------------------------------------------------------------------------------------------- chat_file.c */

/* CLI_DONE, or CLI_FAILED told on stderr; replaced: there was a file of that name. */
int chat_save(const chat_session *s, const char *path, bool *replaced);
int chat_load(chat_session *s, const char *path, talk_change *change);

/* ------------------------------------------------------------------------------------------ chat_store.c */

/* OPTIONS_GO, or CLI_USAGE told on stderr. */
int session_options_check(const chat_options *o);
/* Open the store and find the session's file, before the engine. CLI_DONE, or CLI_FAILED told on stderr. */
int session_open(chat_session *s);
/* The conversation as it was kept, if it was, and how much of it there is. CLI_DONE, or CLI_FAILED told on stderr. */
int session_restore(chat_session *s);
/* Keep it as it is now. What goes wrong is told, and the chat goes on. */
void session_keep(chat_session *s);

#endif
