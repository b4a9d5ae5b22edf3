/* step.h - the step that is open: its sequences, the blocks its rows are written to, what undoes it. */
#ifndef KVT_STEP_H
#define KVT_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fp.h"
#include "carve.h"
#include "kvtile.h"
#include "layer.h"
#include "seq.h"

/* One sequence of the batch. */
typedef struct step_entry {
    kvt_seq handle;
    seq *seq;
    int length;   /* committed tokens */
    int n_new;    /* rows in this step, */
    int row;      /* the first of them */
    int n_blocks; /* of the table before the step */
    int tail;     /* shared last block that a copy stands in for; POOL_NONE: none */
} step_entry;

/* What a layer has of this step. A value that is infinite or NaN, beside others of its sequence, makes attend.c keep
 * rows apart that see it from rows that do not. */
enum { STORED_NOT, STORED, STORED_INFINITE };

/* Rows that go into one block. */
typedef struct step_write {
    int block, slot, n;
    int row;     /* of the batch */
    int n_stale; /* slots behind them with values that a truncated or aborted token left */
    bool seals;  /* they fill the block, and it is one that is sealed */
} step_write;

typedef struct step {
    bool open;
    uint64_t start_ns; /* where there are tiers */
    uint64_t number; /* of the last step that was tried */
    int n_entries, n_rows, n_writes, n_stored;
    int stored_last;     /* layer; -1: none */
    step_entry *entry;   /* [n_entries] */
    int32_t *by_length;  /* [n_entries] entries, the longest sequence first: they grow from the last on */
    int32_t *by_cost;    /* [n_entries] entries, the longest piece of attention first */
    int32_t *by_prefix;  /* [n_entries] entries, those next to each other that share blocks; */
    int32_t *place;      /* [n_entries] where an entry stands there, */
    int32_t *prefix;     /* [n_entries] and tokens in blocks that by_prefix[i] shares with by_prefix[i - 1] */
    step_write *write;   /* [n_writes] */
    uint8_t *stored;     /* [n_layers] STORED_... */
    int32_t *from, *to;  /* [n_entries] blocks to copy */
} step;

void step_carve(step *s, carve *a, const layout *l, int n_layers, int batch_tokens_max);

/* KVT_OK if batch is the one that was reserved. call: for the log. */
kvt_status step_check(const kvt_cache *c, const kvt_batch *batch, const char *call);

/* Around every public call of a step: the floating-point mode, and no allocation. */
typedef struct step_bracket {
    uint64_t fp;
    const char *guard;
} step_bracket;

static inline step_bracket step_enter(void) {
    step_bracket b = {fp_enter(), mem_guarded()};
    mem_guard("a step");
    return b;
}

static inline void step_leave(step_bracket b) {
    mem_guard(b.guard);
    fp_leave(b.fp);
}

#endif
