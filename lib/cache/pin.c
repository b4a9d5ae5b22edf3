/* pin.c - owns kvt_pin and kvt_unpin: blocks of a beginning that stay though nobody uses them. */
#include "cache.h"

/* Known blocks of a beginning into path order: fn for each, until one is not there. */
typedef void (*block_fn)(kvt_cache *c, int block);

typedef struct beginning {
    int n_blocks, n_new, n_new_hot; /* new: not pinned yet */
} beginning;

static int next_known(const kvt_cache *c, int parent, const int32_t *tokens) {
    block_key key = prefix_key(c, parent, tokens);
    int block = prefix_find(c, parent, &key, tokens);
    return block != POOL_NONE && c->prefix.state[block] & PREFIX_COMING ? POOL_NONE : block;
}

static beginning walk(kvt_cache *c, const int32_t *tokens, int n_tokens, block_fn fn) {
    beginning b = {0};
    int size = c->layout.block_tokens, block = POOL_NONE;
    for (int at = 0; c->prefix.on && at + size <= n_tokens; at += size, b.n_blocks++) {
        block = next_known(c, block, tokens + at);
        if (block == POOL_NONE) break;
        bool is_new = !prefix_is_pinned(&c->prefix, block);
        b.n_new += is_new;
        b.n_new_hot += is_new && c->layout.sealing && c->hot.of[block] != HOT_NONE;
        if (fn) fn(c, block);
    }
    return b;
}

static void unpin(kvt_cache *c, int block) {
    if (prefix_is_pinned(&c->prefix, block)) prefix_unpin(c, block);
}

static kvt_status check(const kvt_cache *c, const char *call, const int32_t *tokens, int n_tokens) {
    if (!tokens || n_tokens < 0) return log_fail(&c->log, KVT_E_ARGUMENT, "%s: %d tokens", call, n_tokens);
    if (c->step.open) return log_fail(&c->log, KVT_E_STATE, "%s: a step is open, commit or abort it first", call);
    return KVT_OK;
}

kvt_status kvt_pin(kvt_cache *c, const int32_t *tokens, int n_tokens, int *n_pinned) {
    if (!c || !n_pinned) return KVT_E_ARGUMENT;
    *n_pinned = 0;
    TRY(check(c, "kvt_pin", tokens, n_tokens));
    beginning b = walk(c, tokens, n_tokens, NULL);
    const prefix *p = &c->prefix;
    if (b.n_new > c->layout.n_pins - p->n_pinned) return KVT_FULL;
    if (b.n_new_hot > c->layout.n_idle_hot - p->n_pinned_hot) return KVT_FULL;
    walk(c, tokens, n_tokens, prefix_pin);
    *n_pinned = b.n_blocks * c->layout.block_tokens;
    return KVT_OK;
}

kvt_status kvt_unpin(kvt_cache *c, const int32_t *tokens, int n_tokens) {
    if (!c) return KVT_E_ARGUMENT;
    TRY(check(c, "kvt_unpin", tokens, n_tokens));
    walk(c, tokens, n_tokens, unpin);
    return KVT_OK;
}
