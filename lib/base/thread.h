/* thread.h - the worker pool behind kvt_workers: items handed out by a ticket, a run ends when its items are done
 * (never by waiting for every thread to arrive: a thread that the system has taken away must not hold the rest).
 * The public calls are in kvtile_ops.h; this door is for the rooms that need no more than to run something. */
#ifndef KVT_THREAD_H
#define KVT_THREAD_H

#include "kvtile_ops.h"

/* Run on a pool that may be absent (NULL: on the caller alone, as worker 0). */
void thread_run(kvt_workers *team, int n_items, kvt_work_fn fn, void *ctx);

/* Runs so far that were offered to other threads. Wraps around at 2^32: the difference of two calls is what counts. */
uint32_t thread_runs(const kvt_workers *team);

#endif
