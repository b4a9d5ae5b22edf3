/* tier.h - the door of the tier room: keys and bytes. A tier knows no blocks, formats or sequences; what a record looks
 * like is record.h's, which kind of tier there is `ls` says: memory.c, disk.c. */
#ifndef KVT_TIER_H
#define KVT_TIER_H

#include "kvtile.h"
#include "record.h"

struct kvt_tier {
    kvt_tier_ops ops;
    void *ctx;
};

#endif
