/* talks.h - conversations as a service sees them, the same on every run: some begin with a system prompt that others
 * have too, each turn brings a message and an answer, most go on soon and some after long, and now and then one goes
 * back and on from there in another way. */
#ifndef TESTS_TALKS_H
#define TESTS_TALKS_H

#include <stdint.h>

enum {
    TALK_BLOCK = 16,        /* tokens */
    TALK_TOKENS_MAX = 2048, /* of a conversation */
    TALK_BLOCKS_MAX = TALK_TOKENS_MAX / TALK_BLOCK,
};

/* All that has been said, the new message, and the answer to come. */
typedef struct turn {
    const int32_t *tokens; /* [n_tokens] */
    int n_prompt;          /* of them, without the answer */
    int n_tokens;
    const int32_t *blocks; /* [n_tokens / TALK_BLOCK] full ones: equal numbers, equal tokens and equal blocks before */
} turn;

typedef struct talks talks;

talks *talks_new(uint64_t seed, int n_turns); /* so many may be asked for */
void talks_free(talks *t);

/* It is valid until the next one. */
turn talks_next(talks *t);

#endif
