/* occupancy.h - from the lengths of a trace alone: how much memory its requests would have reserved over time, and how
 * much of it held tokens, under several ways to reserve. */
#ifndef OCCUPANCY_H
#define OCCUPANCY_H

#include "trace.h"

/* How a sequence gets its memory. */
typedef enum reserve_kind {
    RESERVE_LONGEST, /* contiguous, as long as any sequence may become */
    RESERVE_BUDDY,   /* contiguous, the next power of two, doubled when it is full */
    RESERVE_BLOCKS   /* blocks as they are needed */
} reserve_kind;

typedef struct reserve_scheme {
    const char *name;
    reserve_kind kind;
    int block_tokens; /* of RESERVE_BLOCKS */
} reserve_scheme;

enum { N_RESERVES = 5 };
extern const reserve_scheme reserves[N_RESERVES];

/* How fast requests are served: a request reads its input, then gets a token every so often, and goes. */
typedef struct occupancy_options {
    double prefill_per_s; /* tokens a second */
    double token_ms;
    int64_t tokens_longest; /* that RESERVE_LONGEST reserves; 0: of the longest request */
} occupancy_options;

enum { OCCUPANCY_MOMENTS = 512 };

/* Tokens at so many moments, evenly spread from the first arrival to the last end. */
typedef struct occupancy {
    double span_ms;
    int64_t tokens_longest;
    double held[OCCUPANCY_MOMENTS]; /* tokens there are */
    double reserved[N_RESERVES][OCCUPANCY_MOMENTS];
    double alive[OCCUPANCY_MOMENTS]; /* requests */
} occupancy;

/* KVT_E_ARGUMENT: a request has no time, no lengths, or more tokens than tokens_longest; the error tells which. */
kvt_status occupancy_of(const trace *t, const occupancy_options *opt, occupancy *out, error_text *err);

double occupancy_mean(const double moments[OCCUPANCY_MOMENTS]);
double occupancy_most(const double moments[OCCUPANCY_MOMENTS]);

#endif
