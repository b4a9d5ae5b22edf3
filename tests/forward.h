/* forward.h - a transformer too small to mean anything, for tests of what caches keep: three layers of different shape,
 * each of which reads what the one before has made, so that one wrong key or value moves every number behind it. A
 * row's arithmetic is its own: the same bits in any step and any company. */
#ifndef TESTS_FORWARD_H
#define TESTS_FORWARD_H

#include <stdint.h>

#include "kvtile.h"

enum { FORWARD_LAYERS = 3, FORWARD_WIDTH = 16, FORWARD_ROWS_MAX = 512 };

/* Paged, one thread, 6 sequences of up to FORWARD_ROWS_MAX tokens. */
kvt_options forward_options(void);
/* Set bytes_max so that the pool has so many blocks; fails the test where it cannot. */
void forward_blocks(kvt_options *opt, int n_blocks);

/* A sequence of a step. */
typedef struct forward_part {
    kvt_seq seq;
    const int32_t *tokens; /* the whole text */
    int n_new;             /* of it, behind what the sequence has */
    float *rows;           /* [..][FORWARD_WIDTH] by position: what comes of the new ones */
} forward_part;

/* How a step ends. Nameless: committed, and nobody says which tokens they were. */
typedef enum forward_end { FORWARD_COMMIT, FORWARD_NAMELESS, FORWARD_ABORT } forward_end;

/* One step. KVT_FULL: of kvt_reserve. Everything else has to succeed. */
kvt_status forward_step(kvt_cache *c, const forward_part *parts, int n, forward_end end);
/* Steps of one sequence, `chunk` tokens each, until it has n_tokens of the text. */
kvt_status forward_run(kvt_cache *c, kvt_seq seq, const int32_t *tokens, int n_tokens, int chunk, float *rows);

#endif
