/* match.h - what a sequence takes of what is known, and what becomes known of what it computes. */
#ifndef KVT_MATCH_H
#define KVT_MATCH_H

#include "kvtile.h"
#include "seq.h"

/* The step has committed blocks first .. last - 1 of the sequence: let them be found, or take what is there. */
void match_commit(kvt_cache *c, seq *s, int first, int last);
/* Give up blocks that are on their way to a sequence; from the one at place n of those that are coming on. */
void match_abandon(kvt_cache *c, seq *s, int n);
/* The sequence is computed from where it is, without those that are coming. */
void match_go_on(kvt_cache *c, seq *s);
/* A block did not come, for this reason: nobody waits for it any more, or for what goes on from it. */
void match_failed(kvt_cache *c, int block, kvt_miss reason);

#endif
