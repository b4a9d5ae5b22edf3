/* test_evict.c - what may leave, and in which order: by hand, and in lock step with a reference that looks at every
 * block. The score itself is test_index.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cache/evict.h"
#include "random.h"

typedef struct scene {
    void *memory;
    index_table table;
    evict evict;
} scene;

static void carve_all(scene *s, carve *a, int n_blocks, int n_entries) {
    index_carve(&s->table, a, n_entries);
    evict_carve(&s->evict, a, n_blocks);
}

static scene *scene_new(int n_blocks, int n_entries) {
    carve size = { 0 };
    scene *s = calloc(1, sizeof *s);
    carve_all(s, &size, n_blocks, n_entries);
    s->memory = calloc(1, size.used);
    carve_all(s, &(carve){ .base = s->memory }, n_blocks, n_entries);
    index_open(&s->table);
    evict_open(&s->evict, &s->table);
    return s;
}

static void scene_free(scene *s) {
    free(s->memory);
    free(s);
}

/* The entry of a key, with its key as its block where it has none. */
static int bring(scene *s, uint64_t key, int parent) {
    int entry = index_find(&s->table, key);
    if (entry == INDEX_NONE) entry = index_add(&s->table, key);
    if (s->table.entry[entry].block == INDEX_NONE) evict_adopt(&s->evict, entry, parent, (int32_t)key);
    return entry;
}

/* One request reads one block, the first of its prefix. */
static int read_one(scene *s, uint64_t key, int priority, uint64_t expires_ns) {
    evict_reader r = evict_begin(&s->evict, 0, 0);
    r.priority = priority;
    r.expires_ns = expires_ns;
    int entry = bring(s, key, INDEX_NONE);
    evict_hold(&s->evict, entry, 0, false, &r);
    evict_release(&s->evict, entry);
    return entry;
}

static int next_block(scene *s) {
    int32_t block = INDEX_NONE;
    evict_next(&s->evict, &block);
    assert_true(evict_sound(&s->evict));
    return block;
}

static int expired_block(scene *s, uint64_t now_ns) {
    int32_t block = INDEX_NONE;
    evict_expired(&s->evict, now_ns, &block);
    assert_true(evict_sound(&s->evict));
    return block;
}

/* ------------------------------------------------------------------------------------------------ by hand */

static void a_lower_priority_leaves_first_whatever_the_score(void **state) {
    (void)state;
    scene *s = scene_new(4, 8);
    read_one(s, 1, 1, 0);
    read_one(s, 2, -1, 0);
    for (int i = 0; i < 5; i++) read_one(s, 3, 0, 0); /* the best score of all */
    read_one(s, 4, 1, 0);
    read_one(s, 4, -9, 0); /* the highest of its readers counts */
    assert_int_equal(next_block(s), 2);
    assert_int_equal(next_block(s), 3);
    assert_int_equal(next_block(s), 1);
    assert_int_equal(next_block(s), 4);
    assert_int_equal(next_block(s), INDEX_NONE);
    scene_free(s);
}

static void what_is_alike_leaves_by_key(void **state) {
    (void)state;
    scene *s = scene_new(5, 5);
    const uint64_t keys[] = { 4, 2, 5, 1, 3 };
    evict_reader r = evict_begin(&s->evict, 5, 0);
    r.expires_ns = 10;
    for (int i = 0; i < 5; i++) evict_hold(&s->evict, bring(s, keys[i], INDEX_NONE), 0, false, &r);
    for (int i = 0; i < 5; i++) evict_release(&s->evict, index_find(&s->table, keys[i]));
    assert_int_equal(next_block(s), 1);
    assert_int_equal(expired_block(s, 10), 2);
    assert_int_equal(next_block(s), 3);
    assert_int_equal(expired_block(s, 10), 4);
    assert_int_equal(next_block(s), 5);
    scene_free(s);
}

static void a_pinned_block_stays_until_it_is_unpinned_as_often(void **state) {
    (void)state;
    scene *s = scene_new(2, 4);
    int a = read_one(s, 1, 0, 5);
    evict_pin(&s->evict, a);
    evict_pin(&s->evict, a);
    read_one(s, 1, 0, 5); /* somebody reads it meanwhile */
    assert_int_equal(next_block(s), INDEX_NONE);
    evict_unpin(&s->evict, a);
    assert_int_equal(next_block(s), INDEX_NONE);
    assert_int_equal(expired_block(s, 100), INDEX_NONE);
    evict_unpin(&s->evict, a);
    assert_int_equal(next_block(s), 1);
    scene_free(s);
}

static void time_is_over_when_it_was_over_for_all_readers(void **state) {
    (void)state;
    scene *s = scene_new(4, 8);
    read_one(s, 1, 0, 50);
    read_one(s, 1, 0, 30);
    read_one(s, 2, 9, 40); /* its priority does not keep it */
    read_one(s, 3, 0, 20);
    read_one(s, 3, 0, 0); /* one who set no limit */
    read_one(s, 3, 0, 10);
    int d = read_one(s, 4, 0, 5);
    evict_extend(&s->evict, d, 45);
    evict_extend(&s->evict, d, 7);
    assert_int_equal(expired_block(s, 39), INDEX_NONE);
    assert_int_equal(expired_block(s, 40), 2);
    assert_int_equal(expired_block(s, 44), INDEX_NONE);
    assert_int_equal(expired_block(s, UINT64_MAX), 4);
    assert_int_equal(expired_block(s, UINT64_MAX), 1);
    assert_int_equal(expired_block(s, UINT64_MAX), INDEX_NONE);
    assert_int_equal(next_block(s), 3);
    scene_free(s);
}

static void a_block_without_limit_has_none_even_if_it_is_extended(void **state) {
    (void)state;
    scene *s = scene_new(2, 2);
    int a = read_one(s, 1, 0, 5), b = read_one(s, 2, 0, 0);
    evict_extend(&s->evict, a, 0);
    evict_extend(&s->evict, b, 9);
    assert_int_equal(expired_block(s, UINT64_MAX), INDEX_NONE);
    scene_free(s);
}

static void a_ghost_comes_back_with_its_uses_and_nothing_else(void **state) {
    (void)state;
    scene *s = scene_new(2, 4);
    for (int i = 0; i < 3; i++) read_one(s, 1, 7, 0);
    assert_int_equal(next_block(s), 1);
    int a = read_one(s, 1, -7, 60);
    assert_int_equal(s->table.entry[a].n_uses, 4);
    read_one(s, 2, -6, 0);
    assert_int_equal(s->table.n_ghosts, 0);
    assert_int_equal(expired_block(s, 60), 1);
    scene_free(s);
}

static void what_is_forgotten_was_never_here(void **state) {
    (void)state;
    scene *s = scene_new(3, 3);
    evict_reader r = evict_begin(&s->evict, 2, 0);
    int a = bring(s, 1, INDEX_NONE);
    evict_hold(&s->evict, a, 0, false, &r);
    int b = bring(s, 2, a);
    /* given a block that nobody has read yet, and its parent, which waits for it */
    evict_release(&s->evict, a);
    assert_int_equal(next_block(s), INDEX_NONE);
    evict_forget(&s->evict, b);
    assert_int_equal(index_find(&s->table, 2), INDEX_NONE);
    assert_int_equal(s->table.n_ghosts, 0);
    evict_forget(&s->evict, a);
    assert_int_equal(next_block(s), INDEX_NONE);
    /* then there is room for as many entries as before */
    for (uint64_t key = 11; key < 14; key++) read_one(s, key, 0, 0);
    for (int block = 11; block < 14; block++) assert_int_equal(next_block(s), block);
    scene_free(s);
}

static void a_block_nobody_read_leaves_first_and_has_no_time(void **state) {
    (void)state;
    scene *s = scene_new(2, 2);
    read_one(s, 1, -EVICT_PRIORITY, 1);
    evict_release(&s->evict, bring(s, 2, INDEX_NONE));
    assert_int_equal(next_block(s), 2);
    assert_int_equal(expired_block(s, 1), 1);
    scene_free(s);
}

/* --------------------------------------------------------------------------------------------- in lock step
 *
 * The keys are the nodes of a tree, key k's parent is (k - 1) / 3. Requests hold paths from the root, several at once;
 * all else that can happen to a block happens in between. */

enum { KEYS = 364, BLOCKS = 60, DEPTH_MAX = 8, OPEN_MAX = 5, PINS_MAX = 12 };

typedef struct model {
    scene *s;
    uint64_t seed, clock_ns;
    int n_entries, n_known, n_in, n_left;
    long n_evicted, n_expired, n_forgotten;
    struct model_block {
        bool known, in;
        int n_children, n_holders, n_pins, n_uses, priority;
        uint64_t expires_ns;
        double score;
        int left; /* of a ghost: its number among those that left */
    } block[KEYS];
    struct model_request {
        int n, key[DEPTH_MAX];
    } open[OPEN_MAX];
    int pin[PINS_MAX]; /* keys, -1: none */
} model;

static int parent_of(int key) {
    return key > 0 ? (key - 1) / 3 : -1;
}

static int entry_of(const model *m, int key) {
    return key < 0 ? INDEX_NONE : index_find(&m->s->table, (uint64_t)key);
}

static bool model_may_leave(const struct model_block *b) {
    return b->in && b->n_holders == 0 && b->n_pins == 0 && b->n_children == 0;
}

static int model_next(const model *m) {
    int victim = -1;
    for (int k = 0; k < KEYS; k++) {
        const struct model_block *b = &m->block[k], *v = &m->block[victim < 0 ? k : victim];
        if (!model_may_leave(b)) continue;
        if (victim < 0 || b->priority < v->priority || (b->priority == v->priority && b->score < v->score)) victim = k;
    }
    return victim;
}

static int model_expired(const model *m) {
    int victim = -1;
    for (int k = 0; k < KEYS; k++) {
        const struct model_block *b = &m->block[k];
        if (!model_may_leave(b) || b->expires_ns == 0 || b->expires_ns > m->clock_ns) continue; /* 0: nobody read it */
        if (victim < 0 || b->expires_ns < m->block[victim].expires_ns) victim = k;
    }
    return victim;
}

static void model_detach(model *m, int key) {
    struct model_block *b = &m->block[key];
    b->in = false;
    m->n_in--;
    if (key > 0) m->block[parent_of(key)].n_children--;
    b->left = ++m->n_left;
}

/* The oldest ghost makes room for a new entry. */
static void model_know(model *m, int key) {
    if (m->n_known == m->n_entries) {
        int oldest = -1;
        for (int k = 0; k < KEYS; k++)
            if (m->block[k].known && !m->block[k].in && (oldest < 0 || m->block[k].left < m->block[oldest].left))
                oldest = k;
        m->block[oldest] = (struct model_block){ 0 };
        m->n_known--;
    }
    m->block[key].known = true;
    m->n_known++;
}

static bool evict_one(model *m) {
    int32_t block;
    int expected = model_next(m), entry = evict_next(&m->s->evict, &block);
    assert_int_equal(entry == INDEX_NONE, expected < 0);
    if (expected < 0) return false;
    assert_int_equal(block, expected);
    assert_int_equal(m->s->table.entry[entry].key, expected);
    model_detach(m, expected);
    m->n_evicted++;
    return true;
}

static void let_expire(model *m) {
    m->clock_ns += random_below(&m->seed, 6);
    int32_t block;
    int expected = model_expired(m), entry = evict_expired(&m->s->evict, m->clock_ns, &block);
    assert_int_equal(entry == INDEX_NONE, expected < 0);
    if (expected < 0) return;
    assert_int_equal(block, expected);
    model_detach(m, expected);
    m->n_expired++;
}

static bool room_for(model *m, const struct model_request *r) {
    for (;;) {
        int missing = 0;
        for (int i = 0; i < r->n; i++) missing += !m->block[r->key[i]].in;
        if (m->n_in + missing <= BLOCKS) return true;
        if (!evict_one(m)) return false;
    }
}

static void adopt_one(model *m, int key) {
    struct model_block *b = &m->block[key];
    if (!b->known) model_know(m, key);
    bring(m->s, (uint64_t)key, entry_of(m, parent_of(key)));
    if (b->in) return;
    b->in = true;
    b->priority = INT8_MIN;
    b->expires_ns = 0;
    m->n_in++;
    if (key > 0) m->block[parent_of(key)].n_children++;
}

static void extend_one(struct model_block *b, uint64_t expires_ns) {
    uint64_t time = expires_ns ? expires_ns : INDEX_NEVER;
    if (b->expires_ns < time) b->expires_ns = time;
}

static void hold_one(model *m, int key, int depth, const evict_reader *reader) {
    struct model_block *b = &m->block[key];
    adopt_one(m, key);
    evict_hold(&m->s->evict, entry_of(m, key), depth, random_below(&m->seed, 4) == 0, reader);
    if (reader->priority > b->priority) b->priority = reader->priority;
    extend_one(b, reader->expires_ns);
    b->n_holders++;
    if (b->n_uses < INDEX_USES) b->n_uses++;
    b->score = m->s->table.entry[entry_of(m, key)].score;
}

static void begin(model *m) {
    struct model_request *r = &m->open[random_below(&m->seed, OPEN_MAX)];
    if (r->n > 0) return;
    int key = (int)random_below(&m->seed, KEYS), path[DEPTH_MAX], n = 0;
    for (int k = key; k >= 0; k = parent_of(k)) path[n++] = k;
    for (r->n = 0; r->n < n; r->n++) r->key[r->n] = path[n - 1 - r->n];
    if (!room_for(m, r)) {
        r->n = 0;
        return;
    }
    evict_reader reader = evict_begin(&m->s->evict, n, random_below(&m->seed, 50));
    reader.priority = (int)random_below(&m->seed, 4) - 1;
    reader.expires_ns = random_below(&m->seed, 3) ? m->clock_ns + random_below(&m->seed, 200) : 0;
    for (int i = 0; i < n; i++) hold_one(m, r->key[i], i, &reader);
}

/* A block that comes behind one that is there, and that nobody reads. */
static void fetch(model *m) {
    int key = (int)random_below(&m->seed, KEYS), parent = parent_of(key);
    if (m->block[key].in || m->n_in == BLOCKS || (parent >= 0 && !m->block[parent].in)) return;
    adopt_one(m, key);
    assert_int_equal(m->s->table.entry[entry_of(m, key)].place[0], INDEX_NONE);
    evict_release(&m->s->evict, entry_of(m, key));
}

static void release_one(model *m, int key) {
    if (--m->block[key].n_holders == 0) evict_release(&m->s->evict, entry_of(m, key));
}

static void end(model *m, struct model_request *r) {
    bool from_root = random_below(&m->seed, 2);
    for (int i = 0; i < r->n; i++) release_one(m, r->key[from_root ? i : r->n - 1 - i]);
    r->n = 0;
}

static void end_one(model *m) {
    end(m, &m->open[random_below(&m->seed, OPEN_MAX)]);
}

static void pin_or_unpin(model *m) {
    int *pin = &m->pin[random_below(&m->seed, PINS_MAX)], key = (int)random_below(&m->seed, KEYS);
    if (*pin >= 0) {
        m->block[*pin].n_pins--;
        evict_unpin(&m->s->evict, entry_of(m, *pin));
        *pin = -1;
    } else if (m->block[key].in) {
        *pin = key;
        m->block[key].n_pins++;
        evict_pin(&m->s->evict, entry_of(m, key));
    }
}

static void extend(model *m) {
    int key = (int)random_below(&m->seed, KEYS);
    struct model_block *b = &m->block[key];
    if (!b->in) return;
    uint64_t time = random_below(&m->seed, 8) ? m->clock_ns + random_below(&m->seed, 100) : 0;
    evict_extend(&m->s->evict, entry_of(m, key), time);
    extend_one(b, time);
}

/* Its holders lose it: without children it is the end of all their paths. */
static void forget(model *m) {
    int key = (int)random_below(&m->seed, KEYS);
    struct model_block *b = &m->block[key];
    if (!b->in || b->n_children > 0 || b->n_pins > 0) return;
    evict_forget(&m->s->evict, entry_of(m, key));
    for (int i = 0; i < OPEN_MAX; i++) {
        struct model_request *r = &m->open[i];
        if (r->n > 0 && r->key[r->n - 1] == key) r->n--;
    }
    model_detach(m, key);
    *b = (struct model_block){ 0 };
    m->n_known--;
    m->n_forgotten++;
}

static void evict_some(model *m) {
    for (int n = (int)random_below(&m->seed, 4); n > 0; n--) evict_one(m);
}

static void compare(const model *m) {
    assert_true(evict_sound(&m->s->evict));
    assert_int_equal(m->s->table.n_ghosts, m->n_known - m->n_in);
    for (int k = 0; k < KEYS; k++) {
        const struct model_block *b = &m->block[k];
        int entry = entry_of(m, k);
        assert_int_equal(entry != INDEX_NONE, b->known);
        if (!b->known) continue;
        const index_entry *e = &m->s->table.entry[entry];
        assert_int_equal(e->block, b->in ? k : INDEX_NONE);
        assert_int_equal(e->n_uses, b->n_uses);
        assert_int_equal(e->place[0] != INDEX_NONE, model_may_leave(b));
        if (!b->in) continue;
        assert_int_equal(e->n_children, b->n_children);
        assert_int_equal(e->priority, b->priority);
        assert_true(e->expires_ns == b->expires_ns);
        assert_true(k == 0 || m->block[parent_of(k)].in);
    }
}

static model *model_new(uint64_t seed, int n_ghosts) {
    model *m = calloc(1, sizeof *m);
    m->s = scene_new(BLOCKS, BLOCKS + n_ghosts);
    m->seed = seed;
    m->clock_ns = 1;
    m->n_entries = BLOCKS + n_ghosts;
    for (int i = 0; i < PINS_MAX; i++) m->pin[i] = -1;
    return m;
}

/* When all holders and pins are gone, everything leaves, in order. */
static void drain(model *m) {
    for (int i = 0; i < OPEN_MAX; i++) end(m, &m->open[i]);
    for (int i = 0; i < PINS_MAX; i++)
        if (m->pin[i] >= 0) {
            m->block[m->pin[i]].n_pins--;
            evict_unpin(&m->s->evict, entry_of(m, m->pin[i]));
        }
    while (evict_one(m)) compare(m);
    assert_int_equal(m->n_in, 0);
}

static void what_leaves_is_what_a_look_at_every_block_finds(void **state) {
    (void)state;
    enum { STEPS = 20000, SEEDS = 6 };
    static void (*const act[])(model *) = {
        begin,      begin,      begin,        end_one, end_one, evict_some,
        let_expire, let_expire, pin_or_unpin, extend,  forget,  fetch,
    };
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        model *m = model_new(seed, seed % 2 ? KEYS : 10);
        mem_guard("eviction");
        for (int i = 0; i < STEPS; i++) {
            act[random_below(&m->seed, sizeof act / sizeof act[0])](m);
            compare(m);
        }
        drain(m);
        mem_guard(NULL);
        assert_true(m->n_evicted > STEPS / 10 && m->n_expired > STEPS / 50 && m->n_forgotten > STEPS / 500);
        scene_free(m->s);
        free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lower_priority_leaves_first_whatever_the_score),
        cmocka_unit_test(what_is_alike_leaves_by_key),
        cmocka_unit_test(a_pinned_block_stays_until_it_is_unpinned_as_often),
        cmocka_unit_test(time_is_over_when_it_was_over_for_all_readers),
        cmocka_unit_test(a_block_without_limit_has_none_even_if_it_is_extended),
        cmocka_unit_test(a_ghost_comes_back_with_its_uses_and_nothing_else),
        cmocka_unit_test(what_is_forgotten_was_never_here),
        cmocka_unit_test(a_block_nobody_read_leaves_first_and_has_no_time),
        cmocka_unit_test(what_leaves_is_what_a_look_at_every_block_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
