/* test_tier.c - what any tier promises, one table of checks over each kind; and what only memory does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "random.h"
#include "tier/tier.h"

enum { LENGTH = 8192, FEW = 20 };
static const uint64_t ROOM = (uint64_t)FEW * LENGTH; /* for some less than FEW records of LENGTH */

typedef struct tier_kind {
    const char *name;
    kvt_status (*open)(kvt_tier **out, uint64_t bytes_max);
    void (*clean)(void); /* behind close */
} tier_kind;

static void nothing(void) {}

static char folder[] = "/tmp/kvtile-test-XXXXXX";

static kvt_status disk_open_fresh(kvt_tier **out, uint64_t bytes_max) {
    assert_non_null(mkdtemp(strcpy(folder, "/tmp/kvtile-test-XXXXXX")));
    return kvt_tier_disk(out, folder, bytes_max, NULL, NULL);
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *walk) {
    (void)st, (void)what, (void)walk;
    return remove(path);
}
static void disk_clean(void) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static const tier_kind kinds[] = {
    {"memory", kvt_tier_memory, nothing},
    {"disk", disk_open_fresh, disk_clean},
};
static const tier_kind *kind;

static kvt_tier *tier_open(uint64_t bytes_max) {
    kvt_tier *t;
    assert_int_equal(kind->open(&t, bytes_max), KVT_OK);
    return t;
}

static void tier_close(kvt_tier *t) {
    kvt_tier_close(t);
    kind->clean();
}

static kvt_tier_key key_of(int space, int name) {
    kvt_tier_key key;
    memset(key.space, space, sizeof key.space);
    memset(key.name, name, sizeof key.name);
    key.name[0] = (uint8_t)(name >> 8);
    return key;
}

static kvt_status put(kvt_tier *t, kvt_tier_key key, const void *bytes, size_t n) {
    return t->ops.put(t->ctx, &key, &(kvt_piece){(void *)bytes, n}, 1);
}

static kvt_status get(kvt_tier *t, kvt_tier_key key, void *bytes, size_t n) {
    return t->ops.get(t->ctx, &key, &(kvt_piece){bytes, n}, 1);
}

static int has(kvt_tier *t, kvt_tier_key key) { return t->ops.has(t->ctx, &key); }

static void put_some(kvt_tier *t, int first, int n) {
    uint8_t bytes[LENGTH];
    for (int i = first; i < first + n; i++) {
        memset(bytes, i, sizeof bytes);
        assert_int_equal(put(t, key_of(1, i), bytes, sizeof bytes), KVT_OK);
    }
}

static kvt_tier_usage usage_of(kvt_tier *t) {
    kvt_tier_usage u;
    assert_int_equal(kvt_tier_usage_get(t, &u), KVT_OK);
    return u;
}

/* --------------------------------------------------------------------------------------- of any kind */

static void what_is_put_is_got(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 512, 513, 4096, 100000};
    static uint8_t in[100000], out[100000];
    kvt_tier *t = tier_open(1 << 20);
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof in; i++) in[i] = (uint8_t)random_bits(&seed);
    for (int i = 0; i < 5; i++) {
        const size_t n = lengths[i];
        kvt_tier_key key = key_of(1, i);
        kvt_piece parts[] = {{in, n / 3}, {in + n / 3, 0}, {in + n / 3, n - n / 3}};
        assert_int_equal(t->ops.put(t->ctx, &key, parts, 3), KVT_OK);
    }
    for (int i = 0; i < 5; i++) {
        const size_t n = lengths[i], a = n / 2;
        kvt_tier_key key = key_of(1, i);
        memset(out, 0, sizeof out);
        kvt_piece parts[] = {{out, a}, {out + a, n - a}};
        assert_int_equal(t->ops.get(t->ctx, &key, parts, 2), KVT_OK);
        assert_memory_equal(in, out, n);
    }
    assert_int_equal(usage_of(t).n_records, 5);
    tier_close(t);
}

static void a_record_is_replaced_whole(void **state) {
    (void)state;
    uint8_t old[LENGTH], new[LENGTH / 2], out[LENGTH];
    kvt_tier *t = tier_open(ROOM);
    memset(old, 1, sizeof old);
    memset(new, 2, sizeof new);
    assert_int_equal(put(t, key_of(1, 1), old, sizeof old), KVT_OK);
    uint64_t bytes = usage_of(t).bytes;
    assert_int_equal(put(t, key_of(1, 1), new, sizeof new), KVT_OK);
    assert_int_equal(get(t, key_of(1, 1), out, sizeof old), KVT_E_CORRUPT);
    assert_int_equal(get(t, key_of(1, 1), out, sizeof new), KVT_OK);
    assert_memory_equal(out, new, sizeof new);
    assert_int_equal(usage_of(t).n_records, 1);
    assert_true(usage_of(t).bytes < bytes);
    tier_close(t);
}

static void what_is_not_there_is_a_miss(void **state) {
    (void)state;
    uint8_t bytes[LENGTH + 1];
    kvt_tier *t = tier_open(ROOM);
    assert_int_equal(get(t, key_of(1, 1), bytes, LENGTH), KVT_MISS);
    assert_int_equal(has(t, key_of(1, 1)), 0);
    put_some(t, 1, 1);
    assert_int_equal(get(t, key_of(1, 2), bytes, LENGTH), KVT_MISS);
    assert_int_equal(get(t, key_of(2, 1), bytes, LENGTH), KVT_MISS);
    assert_int_equal(has(t, key_of(2, 1)), 0);
    assert_int_equal(has(t, key_of(1, 1)), 1);
    assert_int_equal(get(t, key_of(1, 1), bytes, LENGTH - 1), KVT_E_CORRUPT);
    assert_int_equal(get(t, key_of(1, 1), bytes, LENGTH + 1), KVT_E_CORRUPT);
    assert_int_equal(get(t, key_of(1, 1), bytes, 0), KVT_E_CORRUPT);
    assert_int_equal(get(t, key_of(1, 1), bytes, LENGTH), KVT_OK);
    tier_close(t);
}

static void what_is_dropped_takes_nothing(void **state) {
    (void)state;
    kvt_tier *t = tier_open(ROOM);
    uint64_t empty = usage_of(t).bytes;
    put_some(t, 0, 5);
    assert_true(usage_of(t).bytes >= empty + 5 * LENGTH);
    for (int i = 0; i < 5; i++) {
        kvt_tier_key key = key_of(1, i);
        kvt_tier_drop(t, &key);
        assert_int_equal(has(t, key), 0);
        kvt_tier_drop(t, &key);
    }
    assert_int_equal(usage_of(t).bytes, empty);
    assert_int_equal(usage_of(t).n_records, 0);
    tier_close(t);
}

static void the_limit_holds_whatever_is_put(void **state) {
    (void)state;
    static uint8_t bytes[3 * LENGTH];
    kvt_tier *t = tier_open(ROOM);
    uint64_t seed = 4;
    assert_int_equal(usage_of(t).bytes_max, ROOM);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(put(t, key_of(1, i), bytes, 1 + random_below(&seed, sizeof bytes)), KVT_OK);
        assert_int_equal(has(t, key_of(1, i)), 1);
        assert_true(usage_of(t).bytes <= ROOM);
    }
    assert_true(usage_of(t).n_records >= FEW / 3 - 2);
    tier_close(t);
}

static void what_is_larger_than_the_limit_changes_nothing(void **state) {
    (void)state;
    static uint8_t bytes[FEW * LENGTH + 1];
    uint8_t out[LENGTH];
    kvt_tier *t = tier_open(ROOM);
    put_some(t, 0, 10);
    kvt_tier_usage before = usage_of(t);
    assert_int_equal(put(t, key_of(1, 3), bytes, sizeof bytes), KVT_FULL);
    kvt_piece huge[] = {{bytes, SIZE_MAX / 2}, {bytes, SIZE_MAX / 2}, {bytes, LENGTH}};
    kvt_tier_key key = key_of(1, 3);
    assert_int_equal(t->ops.put(t->ctx, &key, huge, 3), KVT_FULL);
    assert_int_equal(usage_of(t).bytes, before.bytes);
    assert_int_equal(usage_of(t).n_records, 10);
    assert_int_equal(get(t, key_of(1, 3), out, LENGTH), KVT_OK);
    assert_int_equal(out[0], 3);
    tier_close(t);
}

typedef struct walked {
    kvt_tier *tier;
    int n, names[64], drops;
    kvt_status answer;
    uint64_t used_last, bytes;
} walked;

static kvt_status note(void *ctx, const kvt_tier_entry *e) {
    walked *w = ctx;
    assert_int_equal(e->key.space[0], 1);
    assert_int_equal(e->length, LENGTH);
    assert_true(e->bytes >= e->length && e->used_ns >= w->used_last);
    w->used_last = e->used_ns;
    w->bytes += e->bytes;
    w->names[w->n++] = e->key.name[31];
    if (w->drops) kvt_tier_drop(w->tier, &e->key);
    return w->n == 3 ? w->answer : KVT_OK;
}

static void a_walk_goes_from_the_least_recent_on(void **state) {
    (void)state;
    uint8_t bytes[LENGTH];
    kvt_tier *t = tier_open(ROOM);
    uint64_t empty = usage_of(t).bytes;
    put_some(t, 0, 5);
    assert_int_equal(get(t, key_of(1, 1), bytes, LENGTH), KVT_OK);
    put_some(t, 0, 1);
    walked w = {.tier = t};
    assert_int_equal(kvt_tier_walk(t, note, &w), KVT_OK);
    assert_int_equal(w.n, 5);
    static const int order[] = {2, 3, 4, 1, 0};
    assert_memory_equal(w.names, order, sizeof order);
    assert_true(w.bytes + empty <= usage_of(t).bytes); /* a folder may have grown */

    w = (walked){.tier = t, .answer = KVT_E_STATE};
    assert_int_equal(kvt_tier_walk(t, note, &w), KVT_E_STATE);
    assert_int_equal(w.n, 3);
    w = (walked){.tier = t, .drops = 1};
    assert_int_equal(kvt_tier_walk(t, note, &w), KVT_OK);
    assert_int_equal(w.n, 5);
    assert_int_equal(usage_of(t).n_records, 0);
    w = (walked){.tier = t};
    assert_int_equal(kvt_tier_walk(t, note, &w), KVT_OK);
    assert_int_equal(w.n, 0);
    tier_close(t);
}

static void the_least_recently_used_leave(void **state) {
    (void)state;
    uint8_t bytes[LENGTH];
    kvt_tier *t = tier_open(ROOM);
    put_some(t, 0, 10);
    assert_int_equal(get(t, key_of(1, 0), bytes, LENGTH), KVT_OK);
    assert_int_equal(has(t, key_of(1, 1)), 1); /* no use */
    for (int i = 10; has(t, key_of(1, 1)); i++) {
        assert_true(i < FEW);
        put_some(t, i, 1);
    }
    assert_int_equal(has(t, key_of(1, 0)), 1);
    assert_int_equal(has(t, key_of(1, 3)), 1);
    tier_close(t);
}

/* ------------------------------------------------------------------------------------------- verify */

enum { PAYLOAD = 5000 };

/* A record of that kind under its key, 512 + n bytes. */
static kvt_tier_key record_make(uint32_t what, int name, uint8_t *bytes, size_t n) {
    kvt_tier_key key = key_of(1, name);
    record r = {.kind = what, .index = 3, .n_tokens = 32, .payload_bytes = n};
    memcpy(r.space, key.space, sizeof r.space);
    memcpy(r.key, key.name, sizeof r.key);
    record_write(&r, record_hash(&(kvt_piece){bytes + RECORD_HEADER, n}, 1), bytes);
    return key;
}

typedef struct verdict {
    kvt_tier *tier;
    kvt_record_info info;
    kvt_status status;
} verdict;

static kvt_status verify_it(void *ctx, const kvt_tier_entry *e) {
    verdict *v = ctx;
    v->status = kvt_tier_verify(v->tier, e, &v->info);
    return KVT_OK;
}

/* The verdict on the only record of a tier. */
static verdict verdict_on(kvt_tier *t, kvt_tier_key key, const uint8_t *bytes, size_t n) {
    verdict v = {.tier = t, .status = KVT_E_STATE};
    assert_int_equal(put(t, key, bytes, n), KVT_OK);
    assert_int_equal(kvt_tier_walk(t, verify_it, &v), KVT_OK);
    kvt_tier_drop(t, &key);
    return v;
}

static void whole_records_are_verified(void **state) {
    (void)state;
    uint8_t bytes[RECORD_HEADER + PAYLOAD] = {0};
    kvt_tier *t = tier_open(ROOM);
    kvt_tier_key key = record_make(RECORD_BLOCK, 1, bytes, PAYLOAD);
    verdict v = verdict_on(t, key, bytes, sizeof bytes);
    assert_int_equal(v.status, KVT_OK);
    assert_true(v.info.version == 1 && v.info.kind == 1 && v.info.n_tokens == 32 && v.info.index == 3);
    assert_true(v.info.bytes == sizeof bytes && v.info.about[0] == 0);
    record_make(RECORD_PRIVATE, 1, bytes, PAYLOAD);
    v = verdict_on(t, key, bytes, sizeof bytes);
    assert_true(v.status == KVT_OK && v.info.kind == 3);

    record_about about = {.n_layers = 8, .block_tokens = 32, .text = "8 layers, k8v8, blocks of 32"};
    about_write(&about, bytes + RECORD_HEADER);
    record_make(RECORD_ABOUT, 1, bytes, RECORD_ABOUT_BYTES);
    v = verdict_on(t, key, bytes, RECORD_HEADER + RECORD_ABOUT_BYTES);
    assert_true(v.status == KVT_OK && v.info.kind == 2);
    assert_string_equal(v.info.about, about.text);
    record_make(RECORD_ABOUT, 1, bytes, RECORD_ABOUT_BYTES - 1);
    v = verdict_on(t, key, bytes, RECORD_HEADER + RECORD_ABOUT_BYTES - 1);
    assert_int_equal(v.status, KVT_E_CORRUPT);
    about.block_tokens = RECORD_TOKENS_MAX + 1; /* more than a key's text has room for */
    about_write(&about, bytes + RECORD_HEADER);
    record_make(RECORD_ABOUT, 1, bytes, RECORD_ABOUT_BYTES);
    v = verdict_on(t, key, bytes, RECORD_HEADER + RECORD_ABOUT_BYTES);
    assert_int_equal(v.status, KVT_E_CORRUPT);
    tier_close(t);
}

static void damaged_records_are_told(void **state) {
    (void)state;
    uint8_t bytes[RECORD_HEADER + PAYLOAD] = {0};
    kvt_tier *t = tier_open(ROOM);
    uint64_t seed = 9;
    kvt_tier_key key = record_make(RECORD_BLOCK, 1, bytes, PAYLOAD);
    for (int i = 0; i < 100; i++) {
        const size_t bit = random_below(&seed, sizeof bytes * 8);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(verdict_on(t, key, bytes, sizeof bytes).status, KVT_E_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 1; n < sizeof bytes; n += n < 500 ? 97 : n < 530 ? 1 : 397)
        assert_int_equal(verdict_on(t, key, bytes, n).status, KVT_E_CORRUPT);
    assert_int_equal(verdict_on(t, key_of(1, 2), bytes, sizeof bytes).status, KVT_E_CORRUPT);
    assert_int_equal(verdict_on(t, key_of(2, 1), bytes, sizeof bytes).status, KVT_E_CORRUPT);
    assert_int_equal(verdict_on(t, key, bytes, sizeof bytes).status, KVT_OK);
    bytes[8] = 2, bytes[300] ^= 1;
    verdict v = verdict_on(t, key, bytes, sizeof bytes);
    assert_true(v.status == KVT_E_UNSUPPORTED && v.info.version == 2);
    kvt_record_info info;
    assert_int_equal(kvt_tier_verify(t, &(kvt_tier_entry){.key = key, .length = sizeof bytes}, &info), KVT_MISS);
    assert_int_equal(kvt_tier_verify(t, &(kvt_tier_entry){.key = key, .length = UINT64_MAX}, &info), KVT_E_MEMORY);
    tier_close(t);
}

/* ------------------------------------------------------------------------------------------ threads */

/* Large enough to be replaced and dropped while they are read. */
enum { THREADS = 4, ROUNDS = 200, NAMES = 24, LARGE = 256 << 10 };

typedef struct worker {
    kvt_tier *tier;
    uint64_t seed;
    int n_got, n_bad;
} worker;

/* Every record is one byte, LARGE times. */
static void *put_get_drop(void *ctx) {
    worker *w = ctx;
    uint8_t *bytes = malloc(LARGE);
    for (int i = 0; i < ROUNDS; i++) {
        kvt_tier_key key = key_of(1, (int)random_below(&w->seed, NAMES));
        const uint32_t what = random_below(&w->seed, 8);
        if (what < 3) {
            memset(bytes, (int)random_below(&w->seed, 256), LARGE);
            if (put(w->tier, key, bytes, LARGE) != KVT_OK) w->n_bad++;
        } else if (what < 7) {
            kvt_status status = get(w->tier, key, bytes, LARGE);
            if (status == KVT_OK) w->n_got++;
            if (status == KVT_OK && memcmp(bytes, bytes + 1, LARGE - 1) != 0) w->n_bad++;
            if (status != KVT_OK && status != KVT_MISS) w->n_bad++;
        } else
            kvt_tier_drop(w->tier, &key);
        kvt_tier_usage u;
        kvt_tier_usage_get(w->tier, &u);
        if (u.bytes > u.bytes_max) w->n_bad++;
    }
    free(bytes);
    return NULL;
}

static void records_are_whole_under_many_threads(void **state) {
    (void)state;
    worker w[THREADS];
    pthread_t threads[THREADS];
    kvt_tier *t = tier_open((uint64_t)FEW * LARGE);
    uint64_t empty = usage_of(t).bytes;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.tier = t, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, put_get_drop, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(w[i].n_bad, 0);
        assert_true(w[i].n_got > 0);
    }
    for (int i = 0; i < NAMES; i++) kvt_tier_drop(t, &(kvt_tier_key[]){key_of(1, i)}[0]);
    assert_int_equal(usage_of(t).bytes, empty);
    tier_close(t);
}

/* ---------------------------------------------------------------------------------- arguments, memory */

static void fake_close(void *ctx) { ++*(int *)ctx; }

static void what_cannot_be_a_tier_is_refused(void **state) {
    (void)state;
    kvt_tier *t = tier_open(ROOM), *own = t;
    int n_closed = 0;
    kvt_tier_ops whole = t->ops;
    whole.close = fake_close;
    assert_int_equal(kvt_tier_new(NULL, &whole, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_new(&own, NULL, NULL), KVT_E_ARGUMENT);
    assert_null(own);
    kvt_tier_ops lacking[8];
    for (int i = 0; i < 8; i++) lacking[i] = whole;
    lacking[0].name = NULL, lacking[1].put = NULL, lacking[2].get = NULL, lacking[3].has = NULL;
    lacking[4].drop = NULL, lacking[5].walk = NULL, lacking[6].usage = NULL, lacking[7].close = NULL;
    for (int i = 0; i < 8; i++) assert_int_equal(kvt_tier_new(&own, &lacking[i], &n_closed), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_new(&own, &whole, &n_closed), KVT_OK);
    kvt_tier_close(own);
    assert_int_equal(n_closed, 1);
    kvt_tier_close(NULL);

    kvt_tier_usage u;
    kvt_record_info info;
    kvt_tier_entry entry = {.length = 600};
    assert_int_equal(kvt_tier_usage_get(NULL, &u), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_usage_get(t, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_walk(NULL, note, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_walk(t, NULL, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_verify(NULL, &entry, &info), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_verify(t, NULL, &info), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_verify(t, &entry, NULL), KVT_E_ARGUMENT);
    kvt_tier_drop(NULL, &entry.key);
    kvt_tier_drop(t, NULL);
    assert_int_equal(kvt_tier_memory(NULL, ROOM), KVT_E_ARGUMENT);
    assert_int_equal(kvt_tier_memory(&own, 4095), KVT_E_ARGUMENT);
    assert_null(own);
    assert_int_equal(kvt_tier_memory(&own, 4096), KVT_OK);
    assert_true(usage_of(own).bytes <= 4096);
    kvt_tier_close(own);
    tier_close(t);
}

/* What malloc says it has given away grows by no more than is counted. 0 where a sanitizer has replaced it. */
static size_t malloc_given(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void memory_counts_all_it_takes(void **state) {
    (void)state;
    static const size_t lengths[] = {1, 8, 9, 600, 5000, 131000, 131072, 140000};
    static uint8_t bytes[140000];
    const size_t before = malloc_given();
    kvt_tier *t;
    assert_int_equal(kvt_tier_memory(&t, 8 << 20), KVT_OK);
    for (int i = 0; i < 400; i++) {
        assert_int_equal(put(t, key_of(1, i), bytes, lengths[i % 8]), KVT_OK);
        assert_true(malloc_given() - before <= usage_of(t).bytes);
    }
    kvt_tier_close(t);
}

/* There is no room for both, so the old one leaves first. */
static void memory_replaces_a_record_that_fills_it(void **state) {
    (void)state;
    static uint8_t bytes[FEW * LENGTH - 16384], out[sizeof bytes];
    kvt_tier *t;
    assert_int_equal(kvt_tier_memory(&t, ROOM), KVT_OK);
    for (int i = 0; i < 3; i++) {
        memset(bytes, i + 1, sizeof bytes);
        assert_int_equal(put(t, key_of(1, 1), bytes, sizeof bytes), KVT_OK);
        assert_int_equal(get(t, key_of(1, 1), out, sizeof out), KVT_OK);
        assert_memory_equal(out, bytes, sizeof out);
        assert_true(usage_of(t).bytes <= ROOM);
    }
    kvt_tier_close(t);
}

enum { TALL = 4 << 20, TRIES = 20 };

typedef struct writer {
    kvt_tier *tier;
    int name;
    const uint8_t *bytes; /* [TALL] */
    kvt_status status;
} writer;

static void *put_tall(void *arg) {
    writer *w = arg;
    w->status = put(w->tier, key_of(1, w->name), w->bytes, TALL);
    return NULL;
}

/* A writer that comes while another one fills the tier waits for that record, which then leaves for its own. */
static void memory_wakes_who_waits_for_a_record(void **state) {
    (void)state;
    uint8_t *bytes = calloc(1, TALL);
    for (int i = 0; i < TRIES; i++) {
        kvt_tier *t;
        pthread_t threads[2];
        writer w[2];
        assert_int_equal(kvt_tier_memory(&t, TALL + (64 << 10)), KVT_OK);
        for (int k = 0; k < 2; k++) {
            w[k] = (writer){.tier = t, .name = k, .bytes = bytes};
            assert_int_equal(pthread_create(&threads[k], NULL, put_tall, &w[k]), 0);
        }
        for (int k = 0; k < 2; k++) {
            pthread_join(threads[k], NULL);
            assert_int_equal(w[k].status, KVT_OK);
        }
        assert_int_equal(usage_of(t).n_records, 1);
        kvt_tier_close(t);
    }
    free(bytes);
}

/* Under 0.3 microseconds where the machine is at rest: here, the best of many, with room for a sanitizer. */
static void memory_has_an_answer_at_once(void **state) {
    (void)state;
    kvt_tier *t;
    uint8_t bytes[600] = {0};
    assert_int_equal(kvt_tier_memory(&t, 64 << 20), KVT_OK);
    for (int i = 0; i < 10000; i++) assert_int_equal(put(t, key_of(1, i), bytes, sizeof bytes), KVT_OK);
    uint64_t best = UINT64_MAX;
    for (int round = 0, n = 0; round < 50; round++) {
        uint64_t start = sys_now_ns();
        for (int i = 0; i < 400; i++) n += has(t, key_of(1, i * 29));
        uint64_t took = (sys_now_ns() - start) / 400;
        if (took < best) best = took;
        assert_true(n > 0);
    }
    print_message("has: %d ns\n", (int)best);
    assert_true(best < 3000);
    kvt_tier_close(t);
}

int main(void) {
    const struct CMUnitTest any[] = {
        cmocka_unit_test(what_is_put_is_got),
        cmocka_unit_test(a_record_is_replaced_whole),
        cmocka_unit_test(what_is_not_there_is_a_miss),
        cmocka_unit_test(what_is_dropped_takes_nothing),
        cmocka_unit_test(the_limit_holds_whatever_is_put),
        cmocka_unit_test(what_is_larger_than_the_limit_changes_nothing),
        cmocka_unit_test(a_walk_goes_from_the_least_recent_on),
        cmocka_unit_test(the_least_recently_used_leave),
        cmocka_unit_test(whole_records_are_verified),
        cmocka_unit_test(damaged_records_are_told),
        cmocka_unit_test(records_are_whole_under_many_threads),
        cmocka_unit_test(what_cannot_be_a_tier_is_refused),
    };
    const struct CMUnitTest memory[] = {
        cmocka_unit_test(memory_counts_all_it_takes),
        cmocka_unit_test(memory_replaces_a_record_that_fills_it),
        cmocka_unit_test(memory_wakes_who_waits_for_a_record),
        cmocka_unit_test(memory_has_an_answer_at_once),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        kind = &kinds[i];
        failed += cmocka_run_group_tests_name(kind->name, any, NULL, NULL);
    }
    return failed + cmocka_run_group_tests_name("memory alone", memory, NULL, NULL);
}
