/* scene.h - a conversation with a tiny model, and what has to be true of it at any time. */
#ifndef SCENE_H
#define SCENE_H

#include "engine/engine.h"

extern kvt_workers *team; /* of two */
extern model *tiny;       /* ChatML */

/* Of a group of tests. */
int scene_setup(void **state);
int scene_teardown(void **state);

/* A conversation, and what its last answer and change cost. */
typedef struct scene {
    engine *e;
    talk *t;
    talk_cost cost;
    talk_change change;
    byte_list heard;
    volatile sig_atomic_t stop;
    int stop_after; /* pieces of text; 0: never */
} scene;

/* Blocks of 16. */
engine_options options_of(int context);
/* The system message "Be brief.", greedy; tokens_max of an answer. */
talk_options saying(int tokens_max);

scene scene_open(engine_options e, talk_options o);
void scene_close(scene *s);

/* Say something; answer what waits; both. The last must succeed, and the first. */
void say_only(scene *s, const char *text);
kvt_status answer_it(scene *s);
void say(scene *s, const char *text);

uint64_t positions(const scene *s);

typedef struct ids {
    int32_t *id;
    int n;
} ids;

/* The sequence's tokens; free(id). */
ids ids_of(const scene *s);
void assert_same_ids(ids a, ids b);

/* The messages lie one behind the other and make up the sequence; every user message can be read in its place. */
void check_places(const scene *s);
/* The logits behind the conversation are those of an engine that has seen nothing but its tokens. */
void check_bits(scene *s);

/* More words than any context here has room for. */
char *long_text(void);

#endif
