/* story.h - what a random simulation of sharing computes: texts that begin alike and part, and keys and values that are
 * a function of all tokens up to theirs, so that whoever reads another's memory reads something else. */
#ifndef TESTS_STORY_H
#define TESTS_STORY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/cache.h"

enum { STORY_DIM = 16, STORY_MAX = 96, STORY_SEQS_MAX = 4, STORY_ROWS_MAX = STORY_SEQS_MAX * STORY_MAX };

typedef struct story {
    int n;
    int32_t token[STORY_MAX];
    uint64_t path[STORY_MAX + 1]; /* [i] stands for the first i tokens */
} story;

/* n tokens. Of the first ones there are few kinds, and they are often the same for long. */
void story_draw(story *s, int n, uint64_t *random);
/* Tokens n and on are drawn again. */
void story_turn(story *s, int n, uint64_t *random);

/* A cache for stories: one layer with one head, blocks of 16. */
typedef struct story_plan {
    kvt_format k, v;
    bool seal; /* formats that are not encoded are treated as if */
    int hot_tokens, key_bits, n_tiers, moves_max;
    kvt_write write;
} story_plan;

story_plan story_plan_draw(uint64_t *random, int tiers_max);
/* It is readable by story_has. */
bool story_readable(const story_plan *p);
/* Freed blocks are poisoned, moves run inline, the time is what *now says. */
kvt_cache *story_open(const story_plan *p, kvt_tier *const *tiers, uint64_t *now, int sequences_max, int n_blocks);
/* For one sequence, and nothing is ever found. */
kvt_cache *story_open_empty(const story_plan *p);

/* A sequence of a step: tokens of a story behind what the sequence has. */
typedef struct story_part {
    kvt_seq id;
    const story *s;
    int first, n_new;
    float *out; /* NULL, or [n_new][STORY_DIM] */
} story_part;

/* Keys and values of an open step; where a part has room for it, attention. wrong: of keys and values that nobody may
 * ever find. */
kvt_status story_store(kvt_cache *c, const kvt_batch *batch, const story_part *parts, bool wrong);

/* Are key and value of token `at` in the cache those of the story? Of a plan that is readable. */
bool story_has(kvt_cache *c, kvt_seq id, const story *s, int at);

/* What attention of token `at` gives where nothing is shared: computed in a cache that has nothing. */
void story_alone(kvt_cache *empty, const story *s, int at, float out[STORY_DIM]);

#endif
