/* room.h - who uses a block, what becomes of it when nobody does, and what leaves when there is too little room. */
#ifndef KVT_ROOM_H
#define KVT_ROOM_H

#include <stdbool.h>

#include "kvtile.h"

/* One name less for a block, one move less: what nobody uses any more stays idle if it is known, else it is free. */
void block_drop(kvt_cache *c, int block);
void block_unlease(kvt_cache *c, int block);
/* Forget a known block and all that goes on from it: what nobody uses of them is free. */
void block_forget(kvt_cache *c, int block);

/* Until so many blocks and hot slots are free, let idle blocks leave; then take back writes to tiers that have not
 * begun. False: there are not so many. */
bool room_make(kvt_cache *c, int n_blocks, int n_slots);
/* Blocks whose time is over are free. */
void room_expire(kvt_cache *c);

#endif
