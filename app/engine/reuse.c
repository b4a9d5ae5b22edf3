/* reuse.c - what is not computed a second time: a new sequence takes what the cache knows of its beginning, and waits
 * for what is on its way from a tier, or for another sequence that is computing it.
 *
 * A sequence waits before it has a place, and only for older ones that may go on: so the oldest of those that may go on
 * never waits. Leaves computing to engine.c. */
#include <string.h>

#include "base/sys.h"
#include "inside.h"

/* So long a step that has nothing to compute waits for tiers: then its caller looks whether it is to stop. */
enum { WAIT_MS = 20 };

/* A tier that brings nothing for so long is not waited for: computing goes on with what there is. */
static const uint64_t PATIENCE_NS = 2000000000;

/* ---------------------------------------------------------------------------------------- what others compute */

/* Tokens of whole blocks with which both begin. The last token of s is computed in any case. */
static int common_of(const engine *e, const sequence *s, const sequence *other) {
    int block = e->opt.block_tokens, most = other->n_tokens < s->n_tokens ? other->n_tokens : s->n_tokens - 1, n = 0;
    size_t bytes = (size_t)block * sizeof s->tokens[0];
    while (n + block <= most && memcmp(s->tokens + n, other->tokens + n, bytes) == 0) n += block;
    return n;
}

void reuse_begin(engine *e, sequence *s) {
    s->follows = NOBODY;
    s->n_common = 0;
    if (!e->shares || !e->opt.wait) return;
    for (int i = 0; i < e->opt.sequences_max; i++) {
        const sequence *other = &e->seqs[i];
        if (other->born >= s->born || !sequence_waits(other)) continue;
        int n = common_of(e, s, other);
        if (n <= s->n_common) continue;
        s->follows = i;
        s->follows_born = other->born;
        s->n_common = n;
    }
}

bool reuse_follows(const engine *e, sequence *s) {
    if (s->follows == NOBODY) return false;
    const sequence *other = &e->seqs[s->follows];
    bool reads_on = other->born == s->follows_born && sequence_waits(other) && other->set_aside == NEVER &&
                    other->n_tokens >= s->n_common && sequence_held(e, other) < s->n_common;
    if (!reads_on) s->follows = NOBODY;
    return reads_on;
}

/* ------------------------------------------------------------------------------------------ what the cache knows */

static void count(engine *e, const sequence *s, const kvt_match_result *r) {
    e->count.tokens_found += (uint64_t)(r->n_found - r->n_fetched);
    e->count.tokens_fetched += (uint64_t)r->n_fetched;
    if (s->resumed) e->count.tokens_resumed += (uint64_t)r->n_found;
}

bool reuse_take(engine *e, sequence *s) {
    if (!s->asks) return true;
    kvt_match_result r;
    kvt_match_options opt = { .resumed = s->resumed };
    bool first = s->n_coming == 0;
    s->asks = false;
    s->n_coming = 0;
    if (kvt_match(e->cache, s->cached, s->tokens, s->n_tokens, &opt, &r) != KVT_OK) return true;
    count(e, s, &r);
    if (r.n_coming == 0) return true;
    uint64_t now = sys_now_ns();
    if (first || r.n_found > 0) s->came_ns = now;
    if (now - s->came_ns > PATIENCE_NS) return true;
    s->asks = true;
    s->n_coming = r.n_coming;
    return false;
}

bool reuse_coming(const engine *e) {
    for (int i = 0; i < e->opt.sequences_max; i++)
        if (e->seqs[i].alive && e->seqs[i].n_coming > 0) return true;
    return false;
}

kvt_status reuse_wait(engine *e) {
    kvt_status status = kvt_wait(e->cache, WAIT_MS);
    return status < 0 ? status : KVT_OK;
}
