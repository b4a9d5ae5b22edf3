/* prefix.h - full blocks found by what they are: which key a block has, which blocks go on from it, which leaves.
 * Entries by key are index.h's, the order of leaving is evict.h's; a block and its entry know each other here.
 *
 *     root -> block 7 -> block 3 -> block 12           a block goes on from its parent; the beginnings of prefixes
 *                    `-> block 9                       go on from the root
 *
 * A parent is here as long as its children are. */
#ifndef KVT_PREFIX_H
#define KVT_PREFIX_H

#include <stdbool.h>
#include <stdint.h>

#include "carve.h"
#include "evict.h"
#include "key.h"
#include "kvtile.h"
#include "layer.h"

/* Of a block that has an entry. */
enum {
    PREFIX_COMING = 1, /* its bytes are on their way from a tier */
    PREFIX_PROVEN = 2, /* a sequence that held it has ended, another one found it, or it was pinned: it is no longer
                          one's own to take back by truncating */
    PREFIX_WRITTEN = 4, /* it was handed to the tiers: not again, whatever became of it */
    PREFIX_LAST = 8,    /* or it was tried a second time, when nobody used it any more, or was in the way: not before
                           all is to be written. In a tier that is smaller than memory records push each other out:
                           without an end it would be written for ever */
    PREFIX_PUT = 16     /* << number of a tier: its record there is this block's; it is not one that was there before */
};

typedef struct prefix_counts {
    uint64_t found, fetched, resumed, missed[KVT_N_MISSES]; /* tokens */
    uint64_t evicted, expired, merged; /* blocks */
    uint64_t unwritten;                /* of those that were evicted, not handed to the tiers */
} prefix_counts;

typedef struct prefix {
    bool on;
    int key_bits, block_tokens;
    index_table index;
    evict evict;
    uint8_t secret[KEY_BYTES];
    block_key root;
    int32_t *entry_of; /* [n_blocks] INDEX_NONE: the block is not known */
    block_key *key;    /* [n_blocks] */
    uint8_t *state;    /* [n_blocks] */
    int32_t *depth;    /* [n_blocks] its number in sequences */
    int32_t *parent;   /* [n_blocks] the block before it; POOL_NONE: none */
    int32_t *child;    /* [n_blocks + 1] the newest that goes on from a block, from the root; POOL_NONE: none */
    int32_t *elder, *younger; /* [n_blocks] siblings */
    int n_coming, n_pinned, n_pinned_hot;
    block_key *path; /* [seq_blocks] of the call that looks */
    prefix_counts counts;
} prefix;

void prefix_carve(prefix *p, carve *a, const kvt_options *opt, const layout *l);
void prefix_open(kvt_cache *c, const kvt_options *opt, int key_bits);

/* Key of what goes on from a block (POOL_NONE: from the root) with these tokens, a block of them. */
block_key prefix_key(const kvt_cache *c, int parent, const int32_t *tokens);

/* The block that goes on from `parent` with these tokens, coming ones included; POOL_NONE: none. */
int prefix_find(const kvt_cache *c, int parent, const block_key *key, const int32_t *tokens);
/* Of those, or parts of them, that go on from `parent` the one that begins as the most of n tokens; *n_same of them.
 * Only the newest few dozen are looked at. */
int prefix_find_part(const kvt_cache *c, int parent, const int32_t *tokens, int n, int *n_same);
/* The entry of a key, of a block that is here or was. INDEX_NONE: nobody remembers. */
int prefix_entry(const kvt_cache *c, const block_key *key);
bool prefix_was_here(const kvt_cache *c, const block_key *key);

/* Let the block, whose tokens are in place, be found behind its parent. False: something else is found there. */
bool prefix_add(kvt_cache *c, int block, int parent, const block_key *key, uint8_t state);
/* What was coming has come. */
void prefix_arrive(kvt_cache *c, int block);
/* Forget what goes on from it last, the block itself where nothing does; which one that is. */
int prefix_forget_last(kvt_cache *c, int block);
/* One more reader. */
void prefix_read(kvt_cache *c, int block, const evict_reader *reader);

/* Nobody uses a known block any more: it may leave. */
void prefix_release(kvt_cache *c, int block);
/* The idle block that leaves next, which is known no more; POOL_NONE: none may leave. */
int prefix_leave(kvt_cache *c);
/* The same of those behind the first block that is worth least: where hot slots are short, a beginning leaves whole. */
int prefix_leave_hot(kvt_cache *c);
/* The same of those whose time is over. */
int prefix_leave_expired(kvt_cache *c);

/* Hold a block here though nobody uses it, and no longer. */
void prefix_pin(kvt_cache *c, int block);
void prefix_unpin(kvt_cache *c, int block);

/* Is something known that goes on from it? */
static inline bool prefix_goes_on(const prefix *p, int block) {
    return p->child[block] != -1;
}
static inline bool prefix_is_pinned(const prefix *p, int block) {
    return p->index.entry[p->entry_of[block]].n_pins > 0;
}
static inline bool prefix_knows(const prefix *p, int block) {
    return p->on && p->entry_of[block] != INDEX_NONE;
}

#endif
