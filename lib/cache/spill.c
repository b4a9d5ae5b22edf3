/* spill.c - see spill.h. Leaves to match.c what becomes of sequences that wait. */
#include "spill.h"

#include <stdio.h>
#include <string.h>

#include "cache.h"

/* --------------------------------------------------------------------------------- what a tier's spaces are */

static kvt_tier_key about_key(const block_key *root) {
    kvt_tier_key key;
    memcpy(key.space, root->byte, sizeof key.space);
    memcpy(key.name, root->byte, sizeof key.name);
    return key;
}

static record about_record(const kvt_tier_key *key) {
    record r = {.kind = RECORD_ABOUT, .payload_bytes = RECORD_ABOUT_BYTES};
    memcpy(r.space, key->space, sizeof r.space);
    memcpy(r.key, key->name, sizeof r.key);
    return r;
}

static record_about about_of(const kvt_cache *c, const kvt_options *opt) {
    block_key shape = key_layout(opt, &c->layout);
    record_about a = {
        .contract = KVT_NUMERIC_CONTRACT,
        .n_layers = (uint32_t)c->n_layers,
        .k_format = (uint32_t)c->k_number,
        .v_format = (uint32_t)c->v_number,
        .block_tokens = (uint32_t)c->layout.block_tokens,
        .hot_blocks = (uint32_t)c->layout.n_first,
        .math = (uint32_t)c->math,
        .bytes_per_block = c->layout.bytes_per_block,
    };
    if (opt->identity) memcpy(a.identity, opt->identity, sizeof a.identity);
    memcpy(a.layout, shape.byte, sizeof a.layout);
    const char *name = opt->label ? opt->label : "";
    snprintf(a.text, sizeof a.text, "%.64s%s%d layers, keys %s, values %s, blocks of %d tokens, %zu bytes each%s", name,
             *name ? ": " : "", c->n_layers, c->k_format->name, c->v_format->name, c->layout.block_tokens,
             c->layout.bytes_per_block, c->math == KVT_MATH_FAST ? "" : ", exact attention");
    return a;
}

/* Damaged ones are written anew, those of another version are left alone. */
static bool about_is_there(kvt_tier *tier, const kvt_tier_key *key) {
    uint8_t header[RECORD_HEADER], payload[RECORD_ABOUT_BYTES];
    kvt_piece pieces[] = {{header, sizeof header}, {payload, sizeof payload}};
    record expected = about_record(key);
    kvt_status status = tier->ops.get(tier->ctx, key, pieces, 2);
    if (status == KVT_OK) status = record_check(pieces, 2, &expected);
    return status == KVT_OK || status == KVT_E_UNSUPPORTED;
}

/* A tier that cannot take it will not take blocks either, and says so then. */
static void about_put(kvt_tier *tier, const kvt_tier_key *key, const record_about *about) {
    uint8_t header[RECORD_HEADER], payload[RECORD_ABOUT_BYTES];
    if (about_is_there(tier, key)) return;
    about_write(about, payload);
    record r = about_record(key);
    kvt_piece pieces[] = {{header, sizeof header}, {payload, sizeof payload}};
    record_write(&r, record_hash(&pieces[1], 1), header);
    tier->ops.put(tier->ctx, key, pieces, 2);
}

typedef struct others {
    kvt_cache *c;
    kvt_tier *tier;
    const record_about *own;
} others;

static bool is_listed(const spill *s, const uint8_t *root) {
    for (int i = 0; i < s->n_others; i++)
        if (memcmp(s->other[i].root.byte, root, KEY_BYTES) == 0) return true;
    return false;
}

static kvt_status others_add(void *ctx, const kvt_tier_entry *entry) {
    others *o = ctx;
    spill *s = &o->c->spill;
    uint8_t header[RECORD_HEADER], payload[RECORD_ABOUT_BYTES];
    record_about a;
    const kvt_tier_key *key = &entry->key;
    if (memcmp(key->space, key->name, sizeof key->space) != 0) return KVT_OK;
    if (memcmp(key->space, o->c->prefix.root.byte, sizeof key->space) == 0 || is_listed(s, key->space)) return KVT_OK;
    if (s->n_others == SPILL_OTHERS_MAX) return KVT_MISS; /* ends the walk */
    kvt_piece pieces[] = {{header, sizeof header}, {payload, sizeof payload}};
    record expected = about_record(key);
    if (o->tier->ops.get(o->tier->ctx, key, pieces, 2) != KVT_OK) return KVT_OK;
    if (record_check(pieces, 2, &expected) != KVT_OK) return KVT_OK;
    if (about_read(payload, sizeof payload, &a) != KVT_OK) return KVT_OK;
    spill_other *other = &s->other[s->n_others++];
    memcpy(other->root.byte, key->space, sizeof other->root.byte);
    other->block_tokens = (int)a.block_tokens;
    other->same_model = a.contract == o->own->contract && memcmp(a.identity, o->own->identity, KEY_BYTES) == 0;
    return KVT_OK;
}

void spill_open(kvt_cache *c, const kvt_options *opt) {
    spill *s = &c->spill;
    s->n_tiers = c->prefix.on ? opt->n_tiers : 0;
    s->write = opt->write;
    if (s->n_tiers == 0) return;
    kvt_tier_key key = about_key(&c->prefix.root);
    record_about about = about_of(c, opt);
    for (int i = 0; i < s->n_tiers; i++) {
        s->tier[i] = opt->tiers[i];
        about_put(s->tier[i], &key, &about);
        s->tier[i]->ops.walk(s->tier[i]->ctx, others_add, &(others){c, s->tier[i], &about});
    }
}

/* --------------------------------------------------------------------------------------------- writing */

static kvt_tier_key address_of(const kvt_cache *c, const block_key *root, const block_key *key) {
    block_key name = key_cut(key, c->prefix.key_bits);
    kvt_tier_key address;
    memcpy(address.space, root->byte, sizeof address.space);
    memcpy(address.name, name.byte, sizeof address.name);
    return address;
}

kvt_tier_key spill_key(const kvt_cache *c, const block_key *key) {
    return address_of(c, &c->prefix.root, key);
}

bool spill_has(const kvt_cache *c, const block_key *root, const block_key *key) {
    kvt_tier_key address = address_of(c, root, key);
    for (int i = 0; i < c->spill.n_tiers; i++)
        if (c->spill.tier[i]->ops.has(c->spill.tier[i]->ctx, &address)) return true;
    return false;
}

static const block_key *parent_key(const kvt_cache *c, int block) {
    int parent = c->prefix.parent[block];
    return parent == POOL_NONE ? &c->prefix.root : &c->prefix.key[parent];
}

record spill_record(const kvt_cache *c, int block) {
    const prefix *p = &c->prefix;
    size_t n = (size_t)c->layout.block_tokens;
    record r = {.kind = RECORD_BLOCK, .index = (uint32_t)p->depth[block], .n_tokens = (uint32_t)n};
    memcpy(r.space, p->root.byte, sizeof r.space);
    memcpy(r.key, p->key[block].byte, sizeof r.key);
    memcpy(r.parent, parent_key(c, block)->byte, sizeof r.parent);
    memcpy(r.tokens, pool_tokens(&c->pool, block), n * sizeof r.tokens[0]);
    return r;
}

/* A move of a known block. */
static move_job job_of(const kvt_cache *c, move_kind kind, int block, int tier) {
    const prefix *p = &c->prefix;
    return (move_job){
        .kind = kind,
        .tier = tier,
        .block = block,
        .hot = c->layout.sealing && p->depth[block] < c->layout.n_first,
        .key = spill_key(c, &p->key[block]),
        .what = spill_record(c, block),
    };
}

/* What is about to be dropped is not there any more. */
static bool is_there(const kvt_cache *c, int tier, const kvt_tier_key *address) {
    kvt_tier *t = c->spill.tier[tier];
    return t->ops.has(t->ctx, address) && !move_has(c, MOVE_DROP, tier, address);
}

static bool put_to(kvt_cache *c, int block, int tier) {
    move_job job = job_of(c, MOVE_PUT, block, tier);
    if (!move_add(c, &job)) return false;
    c->prefix.state[block] |= (uint8_t)(PREFIX_PUT << tier);
    pool_lease(&c->pool, block);
    return true;
}

static void put(kvt_cache *c, int block, bool anew) {
    kvt_tier_key key = spill_key(c, &c->prefix.key[block]);
    c->prefix.state[block] |= PREFIX_WRITTEN;
    for (int i = 0; i < c->spill.n_tiers; i++)
        if ((anew || !is_there(c, i, &key)) && !put_to(c, block, i))
            c->prefix.state[block] &= (uint8_t)~PREFIX_WRITTEN;
}

void spill_put(kvt_cache *c, int block) {
    put(c, block, false);
}

void spill_put_anew(kvt_cache *c, int block) {
    put(c, block, true);
}

static move_job drop_of(int tier, const kvt_tier_key *address) {
    return (move_job){.kind = MOVE_DROP, .tier = tier, .block = MOVE_NONE, .key = *address};
}

/* Behind what writes it. Where so many drops are on their way that one more has no room, it is done here. */
static void drop_from(kvt_cache *c, int tier, const kvt_tier_key *address) {
    kvt_tier *t = c->spill.tier[tier];
    move_job job = drop_of(tier, address);
    if (move_add(c, &job)) return;
    while (move_has(c, MOVE_PUT, tier, address) && move_wait(c, -1, true)) spill_drain(c);
    t->ops.drop(t->ctx, address);
}

void spill_drop(kvt_cache *c, int block) {
    kvt_tier_key address = spill_key(c, &c->prefix.key[block]);
    for (int i = 0; i < c->spill.n_tiers; i++)
        if (c->prefix.state[block] & PREFIX_PUT << i) drop_from(c, i, &address);
}

/* -------------------------------------------------------------------------------------------- fetching */

void spill_learn(kvt_cache *c, int n_rows, uint64_t ns) {
    uint64_t row = ns / (uint64_t)n_rows;
    if (n_rows < c->layout.block_tokens) return; /* a step of few rows reads the weights for little */
    c->spill.row_ns = c->spill.row_ns ? (3 * c->spill.row_ns + row) / 4 : row;
}

/* Now and then a slow tier is asked all the same: it may have become faster. */
static bool is_slow(spill *s, const kvt_cache *c, int tier) {
    enum { ASK_AGAIN = 32 };
    uint64_t get = move_get_ns(c, tier), compute = s->row_ns * (uint64_t)c->layout.block_tokens;
    if (get == 0 || compute == 0 || get < compute) return false;
    return ++s->n_slow % ASK_AGAIN != 0;
}

int spill_find(kvt_cache *c, const block_key *key, kvt_miss *why) {
    spill *s = &c->spill;
    kvt_tier_key address = spill_key(c, key);
    for (int i = 0; i < s->n_tiers; i++) {
        if (!is_there(c, i, &address)) continue;
        if (!is_slow(s, c, i)) return i;
        *why = KVT_MISS_TIER_SLOW;
    }
    return MOVE_NONE;
}

bool spill_get(kvt_cache *c, int block, int tier) {
    move_job job = job_of(c, MOVE_GET, block, tier);
    job.counts_time = true;
    if (!move_add(c, &job)) return false;
    pool_lease(&c->pool, block);
    return true;
}

void spill_give_up(kvt_cache *c, int block) {
    if (move_cancel_get(c, block)) block_forget(c, block);
}

/* ------------------------------------------------------------------------------------- what movers have done */

/* It was in the way, and is not queued again until all is to be written. */
static void taken_back(kvt_cache *c, int block) {
    c->prefix.state[block] |= PREFIX_LAST;
    c->prefix.state[block] &= (uint8_t)~PREFIX_WRITTEN;
}

static void put_done(kvt_cache *c, const move_result *r) {
    spill_counts *n = &c->spill.counts;
    if (r->cancelled && prefix_knows(&c->prefix, r->job.block)) taken_back(c, r->job.block);
    if (r->copied || r->cancelled) block_unlease(c, r->job.block);
    if (r->copied || r->cancelled) return;
    if (r->job.status != KVT_OK) {
        n->n_puts_failed++;
        return;
    }
    n->n_puts++;
    n->bytes_put += r->job.bytes;
}

/* Was the record written anew since it was asked for? */
static bool is_rewritten(const kvt_cache *c, const move_job *job) {
    block_key key;
    memcpy(key.byte, job->what.key, sizeof key.byte);
    int entry = prefix_entry(c, &key);
    int block = entry == INDEX_NONE ? POOL_NONE : c->prefix.index.entry[entry].block;
    if (block == POOL_NONE || !key_is(&c->prefix.key[block], &key)) return false;
    return c->prefix.state[block] & PREFIX_PUT << job->tier;
}

/* Nobody is to try it again. If moves are all open it may be tried. */
static void drop_bad(kvt_cache *c, const move_job *job) {
    if (is_rewritten(c, job)) return;
    move_job drop = drop_of(job->tier, &job->key);
    move_add(c, &drop);
}

/* A record that is no longer there has left; whatever else is wrong with it, the tier is bad. */
static void get_failed(kvt_cache *c, const move_job *job) {
    c->spill.counts.n_gets_failed++;
    match_failed(c, job->block, job->status == KVT_MISS ? KVT_MISS_EVICTED : KVT_MISS_TIER_BAD);
}

static void get_done(kvt_cache *c, const move_result *r) {
    spill_counts *n = &c->spill.counts;
    int block = r->job.block;
    bool wanted = prefix_knows(&c->prefix, block); /* nothing else can have happened to a block with a lease */
    if (wanted && r->cancelled) block_forget(c, block);
    else if (wanted && r->job.status != KVT_OK) get_failed(c, &r->job);
    else if (wanted) prefix_arrive(c, block);
    if (!r->cancelled && r->job.status == KVT_E_CORRUPT) drop_bad(c, &r->job);
    if (!r->cancelled && r->job.status == KVT_OK) {
        n->n_gets++;
        n->bytes_got += r->job.bytes;
        if (wanted) spill_put(c, block); /* into nearer tiers */
    }
    block_unlease(c, block);
}

void spill_drain(kvt_cache *c) {
    move_result r;
    if (c->spill.n_tiers == 0) return;
    while (move_take(c, &r)) {
        if (r.job.kind == MOVE_PUT) put_done(c, &r);
        if (r.job.kind == MOVE_GET) get_done(c, &r);
    }
}

bool spill_take_back(kvt_cache *c) {
    enum { A_FEW = 4 };
    if (c->spill.n_tiers == 0) return false;
    int n_idle = c->pool.n_idle, n_cancelled;
    do { /* the newest may be of blocks that sequences use */
        n_cancelled = move_cancel_puts(c, A_FEW);
        spill_drain(c);
        if (c->pool.n_idle > n_idle) return true;
    } while (n_cancelled > 0);
    return move_wait_copied(c) && (spill_drain(c), c->pool.n_idle > n_idle);
}

/* --------------------------------------------------------------------------------------------- all of it */

static void moves_end(kvt_cache *c) {
    for (spill_drain(c); move_n_open(c) > 0; spill_drain(c)) move_wait(c, -1, true);
}

/* To each tier that has not got it, though only one move should be free at a time; a tier that does not take it is not
 * asked for ever. What arrives meanwhile may forget it. */
static void put_surely(kvt_cache *c, int block) {
    const prefix *p = &c->prefix;
    for (int i = 0; i <= c->spill.n_tiers && prefix_knows(p, block) && !(p->state[block] & PREFIX_COMING); i++) {
        spill_put(c, block);
        if (p->state[block] & PREFIX_WRITTEN) return;
        moves_end(c);
    }
}

/* What no tier was given, all of it. */
static void put_all(kvt_cache *c) {
    for (int b = 0; b < c->pool.n_blocks; b++)
        if (!(c->prefix.state[b] & PREFIX_WRITTEN)) put_surely(c, b);
    moves_end(c);
}

void spill_close(kvt_cache *c) {
    if (c->spill.n_tiers == 0) return;
    for (int i = 0; i < c->seqs.n_slots; i++) {
        seq *s = &c->seqs.slot[i];
        if (!s->alive) continue;
        match_abandon(c, s, 0);
        if (s->away) swap_drop(c, s, s->away - 1, seq_blocks_of(c, s->length));
    }
    put_all(c);
}

kvt_status kvt_wait(kvt_cache *c, int timeout_ms) {
    if (!c) return KVT_E_ARGUMENT;
    spill_drain(c);
    if (c->spill.n_tiers == 0 || move_n_gets(c) == 0) return KVT_OK;
    if (!move_wait(c, timeout_ms, false)) return KVT_MISS;
    spill_drain(c);
    return KVT_OK;
}

kvt_status kvt_flush(kvt_cache *c) {
    if (!c) return KVT_E_ARGUMENT;
    if (c->spill.n_tiers == 0) return KVT_OK;
    if (c->spill.write == KVT_WRITE_THROUGH) put_all(c);
    else moves_end(c);
    return KVT_OK;
}
