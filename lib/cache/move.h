/* move.h - movers: a thread for each tier, jobs that the owner of the cache hands over, results that it takes between
 * steps. Nothing else is shared between them.
 *
 * A job names a block. Its bytes are read (put) or written (get) by the mover while the job is open, so the owner holds
 * the block for as long (a lease: a reference of the pool), and nobody else touches those bytes: a block that is put is
 * full and never written again, one that is fetched is known to nobody until it has come.
 *
 * A put copies the block into the tier's own buffer first; from then on the block is free of it, and the write takes as
 * long as it takes: the owner never waits for a write. Writing takes memory's bandwidth from who computes, so a mover
 * rests behind each put for some times as long as it took, unless there is much to do or somebody waits. */
#ifndef KVT_MOVE_H
#define KVT_MOVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "carve.h"
#include "kvtile.h"
#include "layer.h"
#include "tier/tier.h"

enum { MOVE_TIERS_MAX = 4, MOVE_NONE = -1 };

typedef enum move_kind { MOVE_PUT, MOVE_GET, MOVE_DROP } move_kind;

typedef struct move_job {
    move_kind kind;
    int tier;
    int block;        /* MOVE_DROP: MOVE_NONE */
    bool hot;         /* the payload is the block's hot tiles, not its records */
    bool counts_time; /* of a get: part of what a tier's speed is learned from */
    kvt_tier_key key; /* address in the tier */
    record what;      /* of a put what to write, of a get what is expected. payload_bytes 0: move.c fills it in */
    uint64_t tag;     /* the owner's */

    kvt_status status; /* of a finished job */
    uint64_t bytes;    /* header and payload */
} move_job;

/* Numbers of slots, one behind the other. */
typedef struct move_list {
    int32_t first, last;
} move_list;

/* A job from move_add until its last result is taken. */
typedef struct move_slot {
    move_job job;
    uint64_t number;      /* of all jobs, in the order they came */
    int32_t older, newer; /* neighbours in the one list it is in */
    bool copied, done, cancelled; /* what is to be told of it */
    bool open;                    /* the owner's */
} move_slot;

/* What one mover works on. */
typedef struct move_lane {
    kvt_cache *cache;
    kvt_tier *tier;
    char *buffer;      /* a whole record: the header, and of a put the payload */
    kvt_piece *pieces; /* [n_layers + 1] */
    move_list queue, gets; /* what somebody waits for goes first */
    int n_queued; /* in queue */
    bool copying; /* a put's block */
    pthread_t thread;
    pthread_cond_t work; /* there is a job, or the end is near */
    _Atomic uint64_t get_ns;
} move_lane;

typedef struct mover {
    int n_tiers, n_moves, n_slots, n_started; /* n_moves: gets and puts that may be open */
    bool inline_, is_open;
    kvt_clock_fn clock; /* of jobs that run on the owner's thread; NULL: the system's */
    void *clock_ctx;
    move_slot *slot; /* [n_slots] */
    move_lane lane[MOVE_TIERS_MAX];
    /* The owner's. */
    move_list unused;
    int n_open, n_gets, n_drops;
    uint64_t n_added;
    /* Under the lock, as the queues and what is to be told of a job. It is held only to move a job from one list to
     * another, so the owner may take it at any time. */
    pthread_mutex_t lock;
    pthread_cond_t result;
    move_list results;
    int n_results_get; /* finished gets among them */
    bool hurry;        /* the owner waits for whatever comes next */
    bool closing;
} mover;

/* Room for moves_max jobs, a buffer of a whole record for each tier. Nothing where there are no tiers. */
void move_carve(mover *m, carve *a, const kvt_options *opt, const layout *l);

/* Threads are started; `inline_` (for checks): there are none, jobs run where move_run_one says, and where move_wait
 * would wait. */
kvt_status move_open(kvt_cache *c, bool inline_);
/* What is queued to be written or dropped is, what is to be read is not; threads end. Half-open is fine. */
void move_close(kvt_cache *c);

/* Hand a job over; it is copied. False: moves_max are open, of drops as many again. Jobs of one tier run in this order,
 * but gets before all others. */
bool move_add(kvt_cache *c, const move_job *job);
/* The next job that is through: its block is the owner's again. A put comes back twice: first with `copied` set, which
 * ends its hold of the block, then when it is written. Until the last result is taken the job is open. */
typedef struct move_result {
    move_job job;
    bool copied;    /* the block is free of the put, which goes on */
    bool cancelled; /* by move_cancel_*; nothing was read or written */
} move_result;
bool move_take(kvt_cache *c, move_result *out);

/* Take back up to n puts that have not begun, the newest first; how many were. They come out of move_take as
 * cancelled. */
int move_cancel_puts(kvt_cache *c, int n);
/* Take back the get of a block, if it has not begun. */
bool move_cancel_get(kvt_cache *c, int block);

/* Wait for a result of a get (any: of any job) to take; below 0: however long. True: there is one, or no get (any: no
 * job) is open. */
bool move_wait(kvt_cache *c, int timeout_ms, bool any);
/* Wait until no block is being copied for a put; false: none was. */
bool move_wait_copied(kvt_cache *c);
int move_n_open(const kvt_cache *c);
int move_n_gets(const kvt_cache *c);
/* Is such a job open for this record? Until a drop is through, what is there is not to be found. */
bool move_has(const kvt_cache *c, move_kind kind, int tier, const kvt_tier_key *key);
bool move_is_full(const kvt_cache *c); /* moves_max gets and puts are open */

/* Run the oldest job of a tier here and now, where there are no threads; false: it has none. */
bool move_run_one(kvt_cache *c, int tier);

/* Nanoseconds that a get of one block takes, learned; 0: not known yet. Smoothed over the last few. */
uint64_t move_get_ns(const kvt_cache *c, int tier);

/* The pieces of a block's payload, [n_layers]: of its records, or of its hot tiles. */
void move_pieces(const kvt_cache *c, int block, bool hot, kvt_piece *out);

#endif
