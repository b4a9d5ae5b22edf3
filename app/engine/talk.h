/* talk.h - a conversation: what was said by whom, and one living sequence whose cache holds it.
 *
 *     talk *t;
 *     talk_open(&t, engine, &opt, &err);
 *     talk_say(t, text, n, &change, &err);         a message; change tells what it cost the conversation
 *     talk_answer(t, &listener, &cost, &err);      its answer, which stays in the conversation and in the cache
 *     talk_close(t);
 *
 * A turn is a message and its answer. What the template puts around them is rendered once, behind what is already
 * there, and an answer's tokens stay as they were sampled, so the sequence of one turn begins with that of the turn
 * before, and only what is new is computed. Every change of the conversation (a turn taken back, the oldest leaving,
 * another system message) is the same act: the sequence is cut where it begins to differ, and the rest is appended.
 *
 * Nothing is forgotten silently: what leaves to make room is reported, and what does not fit is refused.
 *
 * Owns messages, where they lie in the sequence, and who leaves. Knows no terminal and no files. */
#ifndef TALK_H
#define TALK_H

#include "engine.h"

typedef struct talk_options {
    const char *system;            /* NULL: the template's own, if it has one */
    int tokens_max;                /* most tokens of an answer; 0: as many as the context has room for */
    sample_options sampling;       /* its biases outlive the talk */
    const char *const *stop_texts; /* [n_stop_texts] that end an answer; copied but for the texts, which outlive it */
    int n_stop_texts;              /* below STOP_TEXTS_MAX: the template may have one of its own */
} talk_options;

typedef struct talk talk;

/* The engine stays the caller's, with room for one more sequence than the caller uses, and must outlive the talk.
 * KVT_E_LIMIT: the system message leaves no room; KVT_E_ARGUMENT: too many stop texts. */
kvt_status talk_open(talk **out, engine *e, const talk_options *opt, error_text *err);
void talk_close(talk *t); /* NULL is fine */

/* ------------------------------------------------------------------------------------------- changing it */

/* What a change cost the conversation: the oldest turns that left to make room, and the tokens of what stays that the
 * cache has to read again, because they stand elsewhere now, or in a block of codes that was cut. */
typedef struct talk_change {
    size_t n_turns;
    int n_tokens, n_again;
} talk_change;

/* Add a message, which is then answered or taken back. Bytes that are not UTF-8 become U+FFFD. Where it does not fit
 * with room for an answer (tokens_max, at most a quarter of the context), the oldest turns leave, and an eighth of the
 * context with them: what stays is read again, which is not to happen with each message from then on.
 * KVT_E_LIMIT: the message does not fit even alone; KVT_E_STATE: the last one has no answer yet. A call that fails has
 * changed nothing; but for want of memory, where turns that had to leave may be gone. */
kvt_status talk_say(talk *t, const char *text, size_t n, talk_change *change, error_text *err);
/* Forget the answer to the last message, for another one: a further draw. KVT_E_STATE: there is no message. */
kvt_status talk_again(talk *t, error_text *err);
/* Take back the last turn. KVT_E_STATE: there is none. */
kvt_status talk_undo(talk *t, error_text *err);
/* Another system message; NULL: the template's own. */
kvt_status talk_system(talk *t, const char *system, talk_change *change, error_text *err);

/* An answer while it comes, and how to end it. All may be NULL. */
typedef struct talk_listener {
    void (*on_text)(void *ctx, const char *bytes, size_t n);             /* whole characters */
    void (*on_progress)(void *ctx, int64_t done, int64_t total);         /* tokens, while they are read */
    void *ctx;
    const volatile sig_atomic_t *stop; /* not 0 ends the answer where it is */
} talk_listener;

/* What one answer took. read + reused is the length of the sequence before the answer's first token. */
typedef struct talk_cost {
    int read, reused, said;     /* tokens computed before the first word, found in the cache, and answered */
    int fetched;                /* of those found, the ones that came from a tier */
    uint64_t first_ns, rest_ns; /* until the first token; from there to the last */
    finish_reason finish;
    bool full; /* FINISH_LENGTH because the context is full, not because of tokens_max */
} talk_cost;

/* Answer the last message. Interrupted, what was said stays; where nothing was said yet, or a step fails, the message
 * is taken back. KVT_E_STATE: no message waits for an answer. */
kvt_status talk_answer(talk *t, const talk_listener *listener, talk_cost *cost, error_text *err);

/* ---------------------------------------------------------------------------------------------- looking */

typedef enum talk_role { TALK_SYSTEM, TALK_USER, TALK_ANSWER } talk_role;

const char *talk_role_name(talk_role role); /* "system", "user", "assistant" */

typedef struct talk_message {
    talk_role role;
    const char *text; /* [n] */
    size_t n;
    int first, n_tokens; /* its place in the sequence, with what the template puts around it */
    int turn;            /* 0: the oldest, which leaves first; -1: the system message, which stays */
    finish_reason finish;  /* of an answer */
    const int32_t *tokens; /* of an answer, [n_tokens] as sampled */
} talk_message;

int talk_n_messages(const talk *t);
talk_message talk_at(const talk *t, int i);
const char *talk_system_given(const talk *t); /* NULL: none was, the template's own is in use */
int talk_n_turns(const talk *t);
int talk_sequence(const talk *t); /* its number in the engine; -1: none yet */
int talk_length(const talk *t);   /* its tokens */
int talk_cached(const talk *t);   /* of them, those in the cache; the others are computed with the next answer */
int talk_room(const talk *t);     /* tokens kept free for an answer */

typedef struct talk_totals {
    int n_answers;
    uint64_t read, reused, said; /* sums of the costs */
    uint64_t first_ns, rest_ns;
} talk_totals;
talk_totals talk_counted(const talk *t);

/* --------------------------------------------------------------------------------------- from elsewhere */

/* A turn as it was kept in a file. tokens are what text was sampled as, if that is known: used where they spell the
 * text, and encoded anew where they do not. */
typedef struct talk_turn_given {
    const char *user, *answer;
    size_t n_user, n_answer;
    const int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    finish_reason finish;
} talk_turn_given;

/* Put another conversation in the place of this one. Where it is longer than the context its oldest turns leave.
 * A call that fails has changed nothing. */
kvt_status talk_load(talk *t, const char *system, const talk_turn_given *turns, size_t n_turns, talk_change *change,
                     error_text *err);

#endif
