/* faulty_tier.c - see faulty_tier.h. */
#include "faulty_tier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random.h"

enum { N_BUCKETS = 1024 };

typedef struct kept {
    kvt_tier_key key;
    uint8_t *bytes;
    size_t n;
    uint64_t used; /* number of the call that last wrote or read it */
    struct kept *chain;
    struct kept *older, *newer;
} kept;

struct faulty_tier {
    faulty_options opt;
    faulty_counts counts;
    uint64_t random, random_has, n_calls;
    kept *bucket[N_BUCKETS];
    kept *oldest, *newest;
    uint64_t n_records, bytes;
    pthread_mutex_t lock;
    pthread_cond_t gate;
    bool shut;
    int n_waiting;
};

/* ---------------------------------------------------------------------------------------------- records */

/* Names are hashes, or short ones: their first bytes do. */
static kept **bucket_of(faulty_tier *f, const kvt_tier_key *key) {
    return &f->bucket[(key->name[0] | key->name[1] << 8) % N_BUCKETS];
}

static kept *find(faulty_tier *f, const kvt_tier_key *key) {
    kept *r = *bucket_of(f, key);
    while (r && memcmp(&r->key, key, sizeof *key) != 0) r = r->chain;
    return r;
}

static void list_remove(faulty_tier *f, kept *r) {
    *(r->older ? &r->older->newer : &f->oldest) = r->newer;
    *(r->newer ? &r->newer->older : &f->newest) = r->older;
}

static void list_add(faulty_tier *f, kept *r) {
    r->older = f->newest;
    r->newer = NULL;
    *(f->newest ? &f->newest->newer : &f->oldest) = r;
    f->newest = r;
    r->used = f->n_calls;
}

static void record_remove(faulty_tier *f, kept *r) {
    kept **at = bucket_of(f, &r->key);
    while (*at != r) at = &(*at)->chain;
    *at = r->chain;
    list_remove(f, r);
    f->n_records--;
    f->bytes -= r->n;
    free(r->bytes);
    free(r);
}

/* A record of n bytes, empty; memory of one of the same length is used again. */
static kept *record_make(faulty_tier *f, const kvt_tier_key *key, size_t n) {
    kept *r = find(f, key);
    if (r && r->n == n) {
        list_remove(f, r);
        list_add(f, r);
        return r;
    }
    if (r) record_remove(f, r);
    r = calloc(1, sizeof *r);
    *r = (kept){.key = *key, .bytes = calloc(1, n + 1), .n = n, .chain = *bucket_of(f, key)};
    *bucket_of(f, key) = r;
    list_add(f, r);
    f->n_records++;
    f->bytes += n;
    for (; f->opt.bytes_max && f->bytes > f->opt.bytes_max; f->counts.evicted++) record_remove(f, f->oldest);
    return r;
}

/* Any; NULL: there is none. */
static kept *record_any(faulty_tier *f) {
    uint32_t start = random_below(&f->random, N_BUCKETS);
    for (uint32_t i = 0; i < N_BUCKETS; i++)
        if (f->bucket[(start + i) % N_BUCKETS]) return f->bucket[(start + i) % N_BUCKETS];
    return NULL;
}

/* --------------------------------------------------------------------------------------------- schedule */

typedef struct fate {
    bool fail, tear, lie;
} fate;

static bool chance(uint64_t *random, double p) {
    return random_between(random, 0, 1) < p;
}

/* Without the lock, so that others are not held up. */
static void stall(faulty_tier *f) {
    uint64_t ns = f->opt.stall_ns;
    f->counts.stalls++;
    if (f->opt.clock) {
        *f->opt.clock += ns;
        return;
    }
    pthread_mutex_unlock(&f->lock);
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
    pthread_mutex_lock(&f->lock);
}

static void forget(faulty_tier *f) {
    kept *r = record_any(f);
    if (!r) return;
    record_remove(f, r);
    f->counts.forgets++;
}

/* Into a put, get or drop: past the gate, under the lock. Each draws as often, whatever becomes of it. */
static fate enter(faulty_tier *f) {
    pthread_mutex_lock(&f->lock);
    f->n_waiting++;
    pthread_cond_broadcast(&f->gate);
    while (f->shut) pthread_cond_wait(&f->gate, &f->lock);
    f->n_waiting--;
    f->n_calls++;
    const faults *p = &f->opt.faults;
    fate out;
    out.fail = chance(&f->random, p->fail);
    out.tear = chance(&f->random, p->tear);
    out.lie = chance(&f->random, p->lie);
    bool stalls = chance(&f->random, p->stall), forgets = chance(&f->random, p->forget);
    if (forgets) forget(f);
    if (stalls) stall(f);
    return out;
}

/* Count a fault that happens. */
static bool happens(bool fault, uint64_t *count) {
    *count += fault;
    return fault;
}

/* ------------------------------------------------------------------------------------------------ calls */

static size_t length_of(const kvt_piece *pieces, int n_pieces) {
    size_t n = 0;
    for (int i = 0; i < n_pieces; i++) n += pieces[i].n;
    return n;
}

/* Pieces to bytes, or bytes to pieces, at most n. */
static void copy(const kvt_piece *pieces, int n_pieces, uint8_t *bytes, size_t n, bool to_pieces) {
    for (int i = 0; i < n_pieces; i++) {
        size_t part = pieces[i].n < n ? pieces[i].n : n;
        memcpy(to_pieces ? pieces[i].at : bytes, to_pieces ? bytes : pieces[i].at, part);
        bytes += part;
        n -= part;
    }
}

static void put_torn(faulty_tier *f, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    size_t n = length_of(pieces, n_pieces);
    uint32_t way = random_below(&f->random, 3), at = random_below(&f->random, (uint32_t)n);
    kept *r = record_make(f, key, way == 0 ? at : n);
    copy(pieces, n_pieces, r->bytes, r->n, false);
    if (way == 1) memset(r->bytes + at, 0, n - at);
    if (way == 2) r->bytes[at] ^= (uint8_t)(1 << random_below(&f->random, 8));
}

static kvt_status put_under_lock(faulty_tier *f, fate drawn, const kvt_tier_key *key, const kvt_piece *pieces, int n) {
    size_t bytes = length_of(pieces, n);
    f->counts.puts++;
    if (f->opt.bytes_max && bytes > f->opt.bytes_max) return KVT_FULL;
    if (happens(drawn.fail, &f->counts.fails)) return KVT_E_IO;
    if (happens(drawn.tear && bytes > 0, &f->counts.tears)) put_torn(f, key, pieces, n);
    else copy(pieces, n, record_make(f, key, bytes)->bytes, bytes, false);
    return KVT_OK;
}

static kvt_status put(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    faulty_tier *f = ctx;
    kvt_status status = put_under_lock(f, enter(f), key, pieces, n_pieces);
    pthread_mutex_unlock(&f->lock);
    return status;
}

static void get_lie(faulty_tier *f, const kvt_piece *pieces, int n_pieces) {
    kept *other = record_any(f);
    if (other) copy(pieces, n_pieces, other->bytes, other->n, true);
    for (int i = 0; !other && i < n_pieces; i++) memset(pieces[i].at, (int)random_below(&f->random, 256), pieces[i].n);
}

static kvt_status get_under_lock(faulty_tier *f, fate drawn, const kvt_tier_key *key, const kvt_piece *pieces, int n) {
    f->counts.gets++;
    if (happens(drawn.fail, &f->counts.fails)) return KVT_E_IO;
    if (happens(drawn.lie, &f->counts.lies)) {
        get_lie(f, pieces, n);
        return KVT_OK;
    }
    kept *r = find(f, key);
    if (!r) return KVT_MISS;
    if (r->n != length_of(pieces, n)) return KVT_E_CORRUPT;
    copy(pieces, n, r->bytes, r->n, true);
    list_remove(f, r);
    list_add(f, r);
    return KVT_OK;
}

static kvt_status get(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    faulty_tier *f = ctx;
    kvt_status status = get_under_lock(f, enter(f), key, pieces, n_pieces);
    pthread_mutex_unlock(&f->lock);
    return status;
}

static int has(void *ctx, const kvt_tier_key *key) {
    faulty_tier *f = ctx;
    pthread_mutex_lock(&f->lock);
    f->counts.has++;
    bool lies = happens(chance(&f->random_has, f->opt.faults.lie), &f->counts.lies), there = find(f, key) != NULL;
    pthread_mutex_unlock(&f->lock);
    return there != lies;
}

static void drop(void *ctx, const kvt_tier_key *key) {
    faulty_tier *f = ctx;
    enter(f);
    f->counts.drops++;
    kept *r = find(f, key);
    if (r) record_remove(f, r);
    pthread_mutex_unlock(&f->lock);
}

/* Over a copy, so that fn may call what it likes. */
static kvt_status walk(void *ctx, kvt_tier_fn fn, void *fn_ctx) {
    faulty_tier *f = ctx;
    pthread_mutex_lock(&f->lock);
    size_t n = 0;
    kvt_tier_entry *entries = calloc((size_t)f->n_records + 1, sizeof *entries);
    for (kept *r = f->oldest; r; r = r->newer) entries[n++] = (kvt_tier_entry){r->key, r->n, r->used};
    pthread_mutex_unlock(&f->lock);
    kvt_status status = KVT_OK;
    for (size_t i = 0; i < n && status == KVT_OK; i++) status = fn(fn_ctx, &entries[i]);
    free(entries);
    return status;
}

static void usage(void *ctx, kvt_tier_usage *out) {
    faulty_tier *f = ctx;
    pthread_mutex_lock(&f->lock);
    *out = (kvt_tier_usage){f->bytes, f->opt.bytes_max, f->n_records};
    pthread_mutex_unlock(&f->lock);
}

static void close_it(void *ctx) {
    faulty_tier *f = ctx;
    while (f->oldest) record_remove(f, f->oldest);
    pthread_cond_destroy(&f->gate);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

kvt_tier *faulty_tier_new(faulty_tier **out, const faulty_options *opt) {
    static const kvt_tier_ops ops = {"faulty", put, get, has, drop, walk, usage, close_it};
    kvt_tier *tier = NULL;
    faulty_tier *f = *out = calloc(1, sizeof *f);
    f->opt = *opt;
    f->random = opt->seed;
    f->random_has = ~opt->seed;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->gate, NULL);
    if (kvt_tier_new(&tier, &ops, f) != KVT_OK) abort();
    return tier;
}

/* ------------------------------------------------------------------------------------- from the outside */

void faulty_set(faulty_tier *f, faults from_now) {
    pthread_mutex_lock(&f->lock);
    f->opt.faults = from_now;
    pthread_mutex_unlock(&f->lock);
}

faulty_counts faulty_counts_of(faulty_tier *f) {
    pthread_mutex_lock(&f->lock);
    faulty_counts counts = f->counts;
    pthread_mutex_unlock(&f->lock);
    return counts;
}

uint8_t *faulty_record(faulty_tier *f, const kvt_tier_key *key, uint64_t *n) {
    pthread_mutex_lock(&f->lock);
    kept *r = find(f, key);
    *n = r ? r->n : 0;
    uint8_t *bytes = r ? r->bytes : NULL;
    pthread_mutex_unlock(&f->lock);
    return bytes;
}

void faulty_shut(faulty_tier *f) {
    pthread_mutex_lock(&f->lock);
    f->shut = true;
    pthread_mutex_unlock(&f->lock);
}

void faulty_let_in(faulty_tier *f) {
    pthread_mutex_lock(&f->lock);
    f->shut = false;
    pthread_cond_broadcast(&f->gate);
    pthread_mutex_unlock(&f->lock);
}

void faulty_wait_for_one(faulty_tier *f) {
    pthread_mutex_lock(&f->lock);
    while (!f->shut || f->n_waiting == 0) pthread_cond_wait(&f->gate, &f->lock);
    pthread_mutex_unlock(&f->lock);
}
