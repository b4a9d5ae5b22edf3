/* evict.h - which idle block leaves when room is needed. A block's children leave before it, so that what stays is
 * always the beginning of prefixes.
 *
 * The rule, found by replaying traces of serving (docs/eviction.md): the block with the lowest score leaves,
 *
 *     score = request that read it last + g * (uses / 2 - log2(1 + new) / 4 - log2(1 + depth) / 20 - late - open)
 *
 * g     the typical gap between two reads of one block, learned while running: everything else is in its units
 * uses  requests that read the block, up to ten, counted on over its absence: what came back once comes back again
 * new   blocks that its last request read for the first time: long new texts are rarely read again, a short addition to
 *       something known is a conversation going on
 * depth of the block in its prefix
 * late  log2 of how long what the request knows of the prefix had not been read, over 2 g, where that is above 0
 * open  a block that was not full when it was read, the end of a prompt: it is read again only by the very same prompt
 *
 * Whatever the score, a block leaves before all blocks of a higher priority, and a pinned one does not leave. A block
 * may have a time as well, which evict_expired asks for. Whoever reads a block reads all before it, so neither priority
 * nor time of a parent is less than a child's.
 *
 * One request costs O(log blocks) for each of its blocks. */
#ifndef KVT_EVICT_H
#define KVT_EVICT_H

#include "heap.h"

/* A reader of blocks: one request. */
typedef struct evict_reader {
    double bonus;        /* of its blocks, in typical gaps */
    int priority;        /* -EVICT_PRIORITY .. EVICT_PRIORITY */
    uint64_t expires_ns; /* when its blocks' time is over; 0: never */
} evict_reader;

enum { EVICT_PRIORITY = 100 };

typedef struct evict {
    index_table *index;
    heap idle;       /* what may leave: held by nobody, not pinned, without children; what leaves next is the first */
    heap timed;      /* those of them that have a time, the one that is over soonest is the first */
    uint64_t now;    /* requests so far */
    double gap_ln;   /* natural logarithm of g, in requests */
    uint32_t n_gaps; /* it was learned from, up to a limit */
} evict;

void evict_carve(evict *v, carve *a, int n_blocks);
void evict_open(evict *v, index_table *index);

/* A request begins: ages are counted in requests. Its priority is 0, its blocks have no time; the caller may change
 * that. n_new: blocks of it that are not known. gap: requests since the last one of its known blocks was read; 0: it
 * knows none, or only the first. */
evict_reader evict_begin(evict *v, int n_new, uint64_t gap);

/* A ghost gets a block and is one no more: it is in the cache, behind its parent, which is there (INDEX_NONE: the first
 * of its prefix). It is held, by whoever brings it, until evict_release. Uses are counted on; priority and time begin
 * anew. */
void evict_adopt(evict *v, int entry, int parent, int32_t block);
/* A request holds a block of the cache, which has `depth` blocks before it in its prefix: it cannot leave until
 * evict_release. Others may hold it already. The highest priority of all who did, and the latest time, are the block's.
 * open: the block is not full. */
void evict_hold(evict *v, int entry, int depth, bool open, const evict_reader *r);
/* Nobody holds it any more. */
void evict_release(evict *v, int entry);
/* Its time is not over before expires_ns (0: never), whoever holds it. */
void evict_extend(evict *v, int entry, uint64_t expires_ns);
/* It may not leave until it is unpinned as often. */
void evict_pin(evict *v, int entry);
void evict_unpin(evict *v, int entry);

/* The entry whose block leaves: its block's number is taken off it, and it is a ghost from here on. INDEX_NONE: none
 * may leave. */
int evict_next(evict *v, int32_t *block);
/* The same for one whose time is over at now_ns, whatever its priority. INDEX_NONE: there is none. */
int evict_expired(evict *v, uint64_t now_ns, int32_t *block);
/* The same for one that was chosen; false: it may not leave. */
bool evict_this(evict *v, int entry, int32_t *block);
/* Of two entries with blocks, the one that is worth less. */
int evict_lesser(const evict *v, int a, int b);
/* Its block is taken off it, and it is not even remembered. It has no children and no pins; it may be held. */
void evict_forget(evict *v, int entry);

/* Is the index sound, and do exactly those blocks that may leave stand in the heaps, in order? O(entries). */
bool evict_sound(const evict *v);

#endif
