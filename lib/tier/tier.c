/* tier.c - a tier of any kind: its functions and their context, and the calls that are the same for all. */
#include "tier.h"

#include <stdlib.h>

static int ops_are_whole(const kvt_tier_ops *ops) {
    return ops->name && ops->put && ops->get && ops->has && ops->drop && ops->walk && ops->usage && ops->close;
}

kvt_status kvt_tier_new(kvt_tier **out, const kvt_tier_ops *ops, void *ctx) {
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (!ops || !ops_are_whole(ops)) return KVT_E_ARGUMENT;
    kvt_tier *tier = malloc(sizeof *tier);
    if (!tier) return KVT_E_MEMORY;
    *tier = (kvt_tier){.ops = *ops, .ctx = ctx};
    *out = tier;
    return KVT_OK;
}

void kvt_tier_close(kvt_tier *tier) {
    if (!tier) return;
    tier->ops.close(tier->ctx);
    free(tier);
}

kvt_status kvt_tier_usage_get(kvt_tier *tier, kvt_tier_usage *out) {
    if (!tier || !out) return KVT_E_ARGUMENT;
    tier->ops.usage(tier->ctx, out);
    return KVT_OK;
}

kvt_status kvt_tier_walk(kvt_tier *tier, kvt_tier_fn fn, void *ctx) {
    if (!tier || !fn) return KVT_E_ARGUMENT;
    return tier->ops.walk(tier->ctx, fn, ctx);
}

void kvt_tier_drop(kvt_tier *tier, const kvt_tier_key *key) {
    if (tier && key) tier->ops.drop(tier->ctx, key);
}
