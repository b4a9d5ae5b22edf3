/* subject.h - a model and a cache to push tokens through, one sequence at a time, and what is compared with the logits:
 * recorded numbers of tests/vectors. */
#ifndef SUBJECT_H
#define SUBJECT_H

#include <jansson.h>

#include "model/model.h"

typedef struct subject {
    kvt_workers *team;
    model *model;
    model_state *state;
    kvt_cache *cache;
    int rows_max, n_vocab;
} subject;

/* A model that has to be good. */
model *model_good(const char *path, kvt_workers *team);

/* Model and team stay the caller's. */
subject subject_of(model *m, kvt_workers *team, kvt_math math, kvt_format format, int tokens_max, int rows_max);
void subject_free(subject *s);

/* Logits [n_wanted][n_vocab] of the positions wanted (ascending; NULL: all n), computed in chunks. */
void subject_forward(subject *s, const int32_t *ids, int n, int chunk, const int *wanted, int n_wanted, float *logits);

/* Files of tests/vectors; the caller frees. floats_load: exactly n of them. */
json_t *vectors_load(const char *name);
float *floats_load(const char *name, size_t n);
int32_t *ids_load(const json_t *list, int *n);

/* The largest difference; NaN counts as wrong. */
double worst(const float *a, const float *b, size_t n);

#endif
