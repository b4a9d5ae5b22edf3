/* memory.c - records in this process's memory: a table by key, a list by use, one lock.
 *
 * Bytes are copied and memory is given back outside the lock, or `has`, which the owner of a cache calls, would wait
 * for as long as a record takes. A record is found when all of it is there; one that leaves while it is read stays,
 * counted and found by nobody, until its last reader is through. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "tier.h"

/* A chain for each 4 KiB of the limit: records are hardly ever smaller, so chains are short and the table, an eighth of
 * a percent of the limit, need never grow. */
enum { CHAIN_BYTES = 4096, CHAINS_LEAST = 64, CHAINS_MOST = 1 << 26 };

typedef struct entry {
    kvt_tier_key key;
    struct entry *next;           /* of its chain */
    struct entry *older, *newer;  /* of all */
    uint64_t used_ns;
    size_t n, taken;
    int n_readers;
    bool gone;
    uint8_t bytes[]; /* [n] */
} entry;

typedef struct memory {
    pthread_mutex_t lock;
    pthread_cond_t came_free; /* bytes, or a record that may leave: it is written, its last reader is through */
    entry **chains;           /* [n_chains], a power of two */
    size_t n_chains;
    entry *oldest, *newest;
    uint64_t bytes, bytes_max, n_records;
} memory;

/* What malloc takes for n bytes, at most: 16 more, in steps of 16; large ones are pages of their own. */
static size_t taken_for(size_t n) {
    size_t with_head;
    if (!mem_add(n, 16, &with_head) || with_head > SIZE_MAX / 2) return SIZE_MAX;
    return mem_round(with_head, n < (128 << 10) - 64 ? 16 : 4096);
}

/* What is taken while there is no record. */
static size_t taken_empty(const memory *m) {
    return taken_for(sizeof(kvt_tier)) + taken_for(sizeof *m) + taken_for(m->n_chains * sizeof *m->chains);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---------------------------------------------------------------------------- table and list, locked */

/* Where in its chain the entry of a key hangs, or would. */
static entry **place_of(memory *m, const kvt_tier_key *key) {
    const uint64_t hash = record_hash(&(kvt_piece){(void *)key, sizeof *key}, 1);
    entry **at = &m->chains[hash & (m->n_chains - 1)];
    while (*at && memcmp(&(*at)->key, key, sizeof *key) != 0) at = &(*at)->next;
    return at;
}

static void list_leave(memory *m, entry *e) {
    *(e->older ? &e->older->newer : &m->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &m->newest) = e->older;
}

static void list_join_newest(memory *m, entry *e) {
    e->older = m->newest;
    e->newer = NULL;
    *(m->newest ? &m->newest->newer : &m->oldest) = e;
    m->newest = e;
}

static void list_join_oldest(memory *m, entry *e) {
    e->older = NULL;
    e->newer = m->oldest;
    *(m->oldest ? &m->oldest->older : &m->newest) = e;
    m->oldest = e;
}

static void use(memory *m, entry *e) {
    e->used_ns = now_ns();
    list_leave(m, e);
    list_join_newest(m, e);
}

/* The lock is let go of meanwhile. */
static void entry_free(memory *m, entry *e) {
    const size_t taken = e->taken;
    pthread_mutex_unlock(&m->lock);
    free(e);
    pthread_mutex_lock(&m->lock);
    m->bytes -= taken;
    pthread_cond_broadcast(&m->came_free);
}

/* Nobody finds the entry at that place any more; the lock may have been let go of. */
static void entry_remove(memory *m, entry **place) {
    entry *e = *place;
    *place = e->next;
    list_leave(m, e);
    m->n_records--;
    e->gone = true;
    if (e->n_readers == 0) entry_free(m, e);
}

/* Count n more bytes, for which the least recently used leave. What is being read cannot leave and what is being
 * written is not there yet: that is waited for. n and the table are within the limit. */
static void room_make(memory *m, size_t n) {
    while (m->bytes + n > m->bytes_max) {
        entry *e = m->oldest;
        while (e && e->n_readers > 0) e = e->newer;
        if (e)
            entry_remove(m, place_of(m, &e->key));
        else
            pthread_cond_wait(&m->came_free, &m->lock);
    }
    m->bytes += n;
}

/* ------------------------------------------------------------------------------------- the functions */

static size_t pieces_bytes(const kvt_piece *pieces, int n_pieces) {
    size_t n = 0;
    for (int i = 0; i < n_pieces; i++) mem_add(n, pieces[i].n, &n);
    return n;
}

static entry *entry_of(const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces, size_t n, size_t taken) {
    entry *e = malloc(sizeof *e + n);
    if (!e) return NULL;
    *e = (entry){.key = *key, .n = n, .taken = taken, .used_ns = now_ns()};
    uint8_t *to = e->bytes;
    for (int i = 0; i < n_pieces; to += pieces[i++].n)
        if (pieces[i].n) memcpy(to, pieces[i].at, pieces[i].n);
    return e;
}

static void join(memory *m, entry *e) {
    entry **place = place_of(m, &e->key), *old = *place;
    e->next = old;
    *place = e;
    list_join_newest(m, e);
    m->n_records++;
    if (old) entry_remove(m, &e->next);
    pthread_cond_broadcast(&m->came_free); /* the new one may leave for who waits */
}

static kvt_status memory_put(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    memory *m = ctx;
    size_t n = pieces_bytes(pieces, n_pieces), all;
    size_t taken = mem_add(sizeof(entry), n, &all) ? taken_for(all) : SIZE_MAX;
    if (taken > m->bytes_max - taken_empty(m)) return KVT_FULL;

    pthread_mutex_lock(&m->lock);
    entry *old = *place_of(m, key);
    if (old) {
        list_leave(m, old);
        list_join_oldest(m, old); /* if something has to leave, then what is replaced anyway */
    }
    room_make(m, taken);
    pthread_mutex_unlock(&m->lock);
    entry *e = entry_of(key, pieces, n_pieces, n, taken);
    pthread_mutex_lock(&m->lock);
    if (e)
        join(m, e);
    else {
        m->bytes -= taken;
        pthread_cond_broadcast(&m->came_free);
    }
    pthread_mutex_unlock(&m->lock);
    return e ? KVT_OK : KVT_E_MEMORY;
}

static void copy_out(const entry *e, const kvt_piece *pieces, int n_pieces) {
    const uint8_t *from = e->bytes;
    for (int i = 0; i < n_pieces; from += pieces[i++].n)
        if (pieces[i].n) memcpy(pieces[i].at, from, pieces[i].n);
}

static void read_end(memory *m, entry *e) {
    if (--e->n_readers > 0) return;
    if (e->gone)
        entry_free(m, e);
    else
        pthread_cond_broadcast(&m->came_free);
}

static kvt_status memory_get(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces) {
    memory *m = ctx;
    kvt_status status = KVT_OK;
    pthread_mutex_lock(&m->lock);
    entry *e = *place_of(m, key);
    if (!e)
        status = KVT_MISS;
    else if (e->n != pieces_bytes(pieces, n_pieces))
        status = KVT_E_CORRUPT;
    else {
        use(m, e);
        e->n_readers++;
        pthread_mutex_unlock(&m->lock);
        copy_out(e, pieces, n_pieces);
        pthread_mutex_lock(&m->lock);
        read_end(m, e);
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

static int memory_has(void *ctx, const kvt_tier_key *key) {
    memory *m = ctx;
    pthread_mutex_lock(&m->lock);
    const int there = *place_of(m, key) != NULL;
    pthread_mutex_unlock(&m->lock);
    return there;
}

static void memory_drop(void *ctx, const kvt_tier_key *key) {
    memory *m = ctx;
    pthread_mutex_lock(&m->lock);
    entry **place = place_of(m, key);
    if (*place) entry_remove(m, place);
    pthread_mutex_unlock(&m->lock);
}

/* What there is now, for free(); the list is the walker's, and not counted. */
static kvt_status snapshot(memory *m, kvt_tier_entry **out, size_t *n_out) {
    kvt_status status = KVT_OK;
    pthread_mutex_lock(&m->lock);
    size_t n = 0;
    *out = m->n_records ? malloc(m->n_records * sizeof **out) : NULL;
    if (m->n_records && !*out) status = KVT_E_MEMORY;
    for (const entry *e = m->oldest; *out && e; e = e->newer)
        (*out)[n++] = (kvt_tier_entry){.key = e->key, .length = e->n, .bytes = e->taken, .used_ns = e->used_ns};
    pthread_mutex_unlock(&m->lock);
    *n_out = n;
    return status;
}

static kvt_status memory_walk(void *ctx, kvt_tier_fn fn, void *fn_ctx) {
    kvt_tier_entry *entries;
    size_t n;
    kvt_status status = snapshot(ctx, &entries, &n);
    for (size_t i = 0; status == KVT_OK && i < n; i++) status = fn(fn_ctx, &entries[i]);
    free(entries);
    return status;
}

static void memory_usage(void *ctx, kvt_tier_usage *out) {
    memory *m = ctx;
    pthread_mutex_lock(&m->lock);
    *out = (kvt_tier_usage){.bytes = m->bytes, .bytes_max = m->bytes_max, .n_records = m->n_records};
    pthread_mutex_unlock(&m->lock);
}

static void memory_close(void *ctx) {
    memory *m = ctx;
    for (entry *e = m->oldest, *newer; e; e = newer) {
        newer = e->newer;
        free(e);
    }
    pthread_cond_destroy(&m->came_free);
    pthread_mutex_destroy(&m->lock);
    free(m->chains);
    free(m);
}

static size_t chains_for(uint64_t bytes_max) {
    uint64_t n = CHAINS_LEAST;
    while (n < CHAINS_MOST && n * 2 * CHAIN_BYTES <= bytes_max) n *= 2;
    return (size_t)n;
}

kvt_status kvt_tier_memory(kvt_tier **out, uint64_t bytes_max) {
    static const kvt_tier_ops ops = {"memory",    memory_put,  memory_get,   memory_has,
                                     memory_drop, memory_walk, memory_usage, memory_close};
    if (!out) return KVT_E_ARGUMENT;
    *out = NULL;
    if (bytes_max < 4096) return KVT_E_ARGUMENT;
    const size_t n_chains = chains_for(bytes_max);
    memory *m = calloc(1, sizeof *m);
    if (!m) return KVT_E_MEMORY;
    m->chains = calloc(n_chains, sizeof(entry *));
    m->n_chains = n_chains;
    m->bytes_max = bytes_max;
    m->bytes = taken_empty(m);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->came_free, NULL);
    kvt_status status = m->chains ? kvt_tier_new(out, &ops, m) : KVT_E_MEMORY;
    if (status != KVT_OK) memory_close(m);
    return status;
}
