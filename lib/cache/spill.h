/* spill.h - blocks between memory and tiers, the owner's side: which are written and fetched, and what has come. The
 * threads are move.h's. */
#ifndef KVT_SPILL_H
#define KVT_SPILL_H

#include <stdbool.h>
#include <stdint.h>

#include "key.h"
#include "kvtile.h"
#include "move.h"

enum { SPILL_OTHERS_MAX = 32 };

/* Records in a tier that mean something else: why a prefix was not found. */
typedef struct spill_other {
    block_key root;
    int block_tokens;
    bool same_model; /* identity and contract */
} spill_other;

typedef struct spill_counts {
    uint64_t n_puts, n_gets, bytes_put, bytes_got, n_puts_failed, n_gets_failed, n_puts_skipped;
} spill_counts;

typedef struct spill {
    int n_tiers;
    kvt_tier *tier[MOVE_TIERS_MAX];
    kvt_write write;
    uint64_t row_ns; /* computing a token takes, learned from steps of many; 0: not known yet */
    uint32_t n_slow; /* fetches that were not worth it */
    int n_others;
    spill_other other[SPILL_OTHERS_MAX];
    spill_counts counts;
} spill;

/* Say in each tier what this cache's records are, read what others' are. */
void spill_open(kvt_cache *c, const kvt_options *opt);
/* Write what write-back has left; what is coming is given up, what is swapped out ends. */
void spill_close(kvt_cache *c);

/* A step of many rows took so long. */
void spill_learn(kvt_cache *c, int n_rows, uint64_t ns);

/* Where a record lies. */
kvt_tier_key spill_key(const kvt_cache *c, const block_key *key);
/* What the record of a known block says. */
record spill_record(const kvt_cache *c, int block);
/* Has a tier the record of a key in the space of a root? */
bool spill_has(const kvt_cache *c, const block_key *root, const block_key *key);
/* Write a known block to each tier that has not got it, as far as moves are free; PREFIX_WRITTEN says if they were. */
void spill_put(kvt_cache *c, int block);
/* The same, also where a tier has a record of it, which is not trusted. */
void spill_put_anew(kvt_cache *c, int block);
/* The nearest tier that has it and from where fetching is faster than computing; MOVE_NONE: none, and why. */
int spill_find(kvt_cache *c, const block_key *key, kvt_miss *why);
/* Fetch it into a block that is known as coming. False: too much is on its way. */
bool spill_get(kvt_cache *c, int block, int tier);
/* Nobody waits for a coming block: if its fetch has not begun, forget it. */
void spill_give_up(kvt_cache *c, int block);
/* Take a block out of the tiers that it was written to; a record that was there before is others'. */
void spill_drop(kvt_cache *c, int block);

/* Take over what movers have done. */
void spill_drain(kvt_cache *c);
/* Free blocks of writes that have not begun, or wait for one that is being copied. False: there is none. */
bool spill_take_back(kvt_cache *c);

#endif
