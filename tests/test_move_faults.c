/* test_move_faults.c - tiers that fail, stall, tear, lie and forget: each failure has its status, and what is said to
 * be there is what was put. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "yard.h"

static void each_failure_has_its_status(void **state) {
    static const size_t damages[] = {0, 8, 30, 400, 511, 512, 2000};
    (void)state;
    yard *y = yard_of(true);
    kvt_tier_key key = yard_key(4);
    int a = block_new(y->c, false, 1);
    uint64_t n;
    assert_int_equal(yard_get(y, 0, a, 4), KVT_MISS);
    yard_put(y, 0, a, 4);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        uint8_t *bytes = faulty_record(y->faulty[0], &key, &n);
        assert_true(damages[i] < n);
        bytes[damages[i]] ^= 2;
        assert_int_equal(yard_get(y, 0, a, 4), KVT_E_CORRUPT);
        bytes[damages[i]] ^= 2;
        assert_int_equal(yard_get(y, 0, a, 4), KVT_OK);
    }
    /* one that this version has not written */
    uint8_t *bytes = faulty_record(y->faulty[0], &key, &n);
    bytes[8] ^= 2;
    bytes[511] ^= 2;
    assert_int_equal(yard_get(y, 0, a, 4), KVT_E_UNSUPPORTED);
    bytes[8] ^= 2;
    bytes[511] ^= 2;
    /* a good record, but of other tokens */
    move_job other = yard_job(MOVE_GET, 0, a, 4);
    other.what.tokens[15]++;
    assert_true(move_add(y->c, &other));
    assert_done(y, 4, KVT_E_CORRUPT);
    faulty_set(y->faulty[0], (faults){.fail = 1});
    assert_int_equal(yard_get(y, 0, a, 4), KVT_E_IO);
    yard_add(y, MOVE_PUT, 0, a, 5);
    assert_copied(y, 5);
    assert_done(y, 5, KVT_E_IO);
    yard_close(y);
}

static void a_record_larger_than_the_tier_is_refused(void **state) {
    (void)state;
    yard *y = yard_open(toy_options(), (faulty_options){.bytes_max = 1000}, false);
    int a = block_new(y->c, false, 1);
    yard_add(y, MOVE_PUT, 0, a, 1);
    assert_copied(y, 1);
    assert_done(y, 1, KVT_FULL);
    assert_int_equal(yard_get(y, 0, a, 1), KVT_MISS);
    yard_close(y);
}

/* Each record is always of the same bytes, so whatever is said to be there must be those. */
enum { N_RECORDS = 12, N_BLOCKS = 8 };

typedef struct traffic {
    yard *y;
    uint64_t random, digest;
    int block[N_BLOCKS];
    bool busy[N_BLOCKS];
    int n_puts_ok, n_gets_ok, n_failed, n_cancelled;
} traffic;

static void traffic_add(traffic *t) {
    static const move_kind kinds[] = {MOVE_PUT, MOVE_PUT, MOVE_GET, MOVE_GET, MOVE_GET, MOVE_DROP};
    uint32_t number = random_below(&t->random, N_RECORDS), i = random_below(&t->random, N_BLOCKS);
    move_kind kind = kinds[random_below(&t->random, 6)];
    int tier = (int)random_below(&t->random, N_TIERS);
    if (kind != MOVE_DROP && t->busy[i]) return;
    move_job job = yard_job(kind, tier, kind == MOVE_DROP ? MOVE_NONE : t->block[i], number);
    if (kind == MOVE_PUT) block_fill(t->y->c, t->block[i], false, number);
    if (kind == MOVE_GET) block_fill(t->y->c, t->block[i], false, ~(uint64_t)number);
    if (move_add(t->y->c, &job) && kind != MOVE_DROP) t->busy[i] = true;
}

static void traffic_take(traffic *t) {
    move_result r;
    while (move_take(t->y->c, &r)) {
        int i = 0;
        while (i + 1 < N_BLOCKS && t->block[i] != r.job.block) i++;
        uint64_t what = r.job.tag ^ (uint64_t)(r.job.status + 16) << 8 ^ (uint64_t)r.copied << 16;
        t->digest = (t->digest ^ what) * 0x100000001b3u;
        if (r.job.kind == MOVE_DROP) continue;
        if (r.copied) block_fill(t->y->c, t->block[i], false, 99); /* it is the owner's, whatever becomes of the put */
        if (r.copied || r.cancelled || r.job.kind == MOVE_GET) {
            assert_true(t->busy[i]);
            t->busy[i] = false;
        }
        if (r.cancelled) t->n_cancelled++;
        else if (r.copied) continue;
        else if (r.job.status != KVT_OK) t->n_failed++;
        else if (r.job.kind == MOVE_PUT) t->n_puts_ok++;
        else if (block_holds(t->y->c, r.job.block, false, r.job.tag)) t->n_gets_ok++;
        else fail_msg("record %d came back as something else", (int)r.job.tag);
    }
}

static void traffic_step(traffic *t) {
    traffic_add(t);
    uint32_t what = random_below(&t->random, 16);
    if (what == 0) move_cancel_puts(t->y->c, 1 + (int)random_below(&t->random, 3));
    if (what == 1) move_cancel_get(t->y->c, t->block[random_below(&t->random, N_BLOCKS)]);
    if (what == 2) move_wait(t->y->c, 1, random_below(&t->random, 2));
    if (what < 8) traffic_take(t);
}

static const faulty_options all_faults = {
    .seed = 77, .bytes_max = 20000, .stall_ns = 20000,
    .faults = {.fail = 0.05, .stall = 0.1, .tear = 0.1, .lie = 0.1, .forget = 0.05}};

static traffic traffic_run(bool moves_inline, int n_steps) {
    kvt_options opt = toy_options();
    opt.moves_max = 6;
    yard *y = yard_open(opt, all_faults, moves_inline);
    traffic t = {.y = y, .random = 5};
    for (int i = 0; i < N_BLOCKS; i++) t.block[i] = block_new(y->c, false, 0);
    for (int i = 0; i < n_steps; i++) {
        traffic_step(&t);
        if (moves_inline) move_run_one(y->c, (int)random_below(&t.random, N_TIERS));
    }
    while (move_n_open(y->c) > 0) {
        assert_true(move_wait(y->c, -1, true));
        traffic_take(&t);
    }
    for (int i = 0; i < N_BLOCKS; i++) assert_false(t.busy[i]);
    assert_nothing_open(y);
    for (int i = 0; moves_inline && i < N_TIERS; i++) { /* threads have their own speed, and with it their own luck */
        faulty_counts n = faulty_counts_of(y->faulty[i]);
        assert_true(n.fails > 0 && n.stalls > 0 && n.tears > 0 && n.lies > 0 && n.forgets > 0 && n.evicted > 0);
    }
    int least = moves_inline ? 25 : 1;
    assert_true(t.n_puts_ok >= least && t.n_gets_ok >= least && t.n_failed >= least);
    yard_close(y);
    return t;
}

static void nothing_wrong_comes_from_a_tier(void **state) {
    (void)state;
    traffic_run(false, 4000);
}

static void without_threads_every_run_is_the_same(void **state) {
    (void)state;
    traffic a = traffic_run(true, 3000), b = traffic_run(true, 3000);
    assert_int_equal(a.digest, b.digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_has_its_status),
        cmocka_unit_test(a_record_larger_than_the_tier_is_refused),
        cmocka_unit_test(nothing_wrong_comes_from_a_tier),
        cmocka_unit_test(without_threads_every_run_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
