/* test_match.c - by hand: what kvt_match gives, what pins, priorities and time do, and each of their
 * wrong uses; swaps' too. That warm is cold to the bit is test_reuse.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "finds.h"

/* -------------------------------------------------------------------------------------------------- finding */

static void a_whole_prompt_is_found_but_for_its_last_token(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 64);
    assert_int_equal(found(c, 100, 64), 63);
    assert_int_equal(found(c, 100, 65), 64);
    assert_int_equal(found(c, 100, 100), 64);
    assert_int_equal(found(c, 100, 50), 49);
    assert_int_equal(found(c, 100, 1), 0);
    assert_int_equal(found(c, 101, 64), 0);
    kvt_close(c);
}

static void a_part_that_is_shared_is_copied_when_it_is_written_to(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 64);
    kvt_seq s = seq_new(c);
    int32_t tokens[64];
    kvt_match_result r;
    memcpy(tokens, from(100, 64), sizeof tokens);
    for (int i = 40; i < 64; i++) tokens[i] = 900 + i;
    assert_int_equal(kvt_match(c, s, tokens, 64, NULL, &r), KVT_OK);
    assert_int_equal(r.n_tokens, 40);
    assert_int_equal(r.n_partial, 8);
    assert_int_equal(r.reason, KVT_MISS_DIFFERS);
    assert_int_equal(toy_add(c, s, 940, 24), KVT_OK);
    assert_int_equal(stats_of(c).blocks_copied, 1);
    assert_true(toy_has(c, s, 39, 139) && toy_has(c, s, 40, 940) && toy_has(c, s, 63, 963));
    kvt_seq_free(c, s);
    assert_int_equal(found(c, 100, 64), 63);
    kvt_close(c);
}

/* What is truncated before others have found it never was; what they found stays. */
static void truncated_tokens_are_not_found(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 64), KVT_OK);
    assert_int_equal(kvt_seq_truncate(c, s, 40), KVT_OK);
    assert_int_equal(found(c, 100, 64), 32);
    assert_int_equal(toy_add(c, s, 140, 24), KVT_OK);
    assert_int_equal(found(c, 100, 64), 63);
    assert_int_equal(kvt_seq_truncate(c, s, 0), KVT_OK);
    assert_int_equal(found(c, 100, 64), 63);
    kvt_close(c);
}

static void what_is_computed_twice_is_kept_once(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    kvt_seq a = seq_new(c), b = seq_new(c);
    assert_int_equal(toy_add(c, a, 100, 40), KVT_OK);
    assert_int_equal(toy_add(c, b, 100, 30), KVT_OK);
    assert_int_equal(stats_of(c).blocks_used, 3 + 1);
    assert_int_equal(toy_add(c, b, 130, 10), KVT_OK);
    assert_int_equal(stats_of(c).blocks_used, 2 + 2);
    assert_int_equal(stats_of(c).blocks_merged, 2);
    assert_true(toy_holds(c, a, 100, 40) && toy_holds(c, b, 100, 40));
    assert_int_equal(kvt_check(c), KVT_OK);
    kvt_close(c);
}

/* Of what a sequence missed before it was forked, the fork knows nothing: it is counted where it was asked for. */
static void a_fork_counts_for_itself(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c), fork;
    assert_int_equal(match(c, s, 100, 40).reason, KVT_MISS_COLD);
    assert_int_equal(kvt_seq_fork(c, s, &fork), KVT_OK);
    leave_behind(c, 100, 40);
    assert_int_equal(match(c, s, 100, 40).n_found, 32);
    assert_int_equal(match(c, fork, 100, 40).n_found, 32);
    kvt_stats n = stats_of(c);
    assert_int_equal(n.tokens_missed[KVT_MISS_COLD], 0);
    assert_int_equal(n.tokens_missed[KVT_MISS_SHORT], 2 * 8);
    assert_int_equal(n.tokens_asked, 2 * 40);
    kvt_close(c);
}

static void a_cache_that_forgets_finds_nothing(void **state) {
    (void)state;
    kvt_options opt = finds_options(4, 0);
    opt.forget = 1;
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 64);
    kvt_seq s = seq_new(c);
    assert_int_equal(match(c, s, 100, 64).reason, KVT_MISS_DISABLED);
    assert_int_equal(stats_of(c).tokens_missed[KVT_MISS_DISABLED], 64);
    assert_int_equal(stats_of(c).blocks_idle, 0);
    kvt_close(c);
}

/* --------------------------------------------------------------------------------- who leaves, and who does not */

static void pins_hold_what_nobody_uses(void **state) {
    (void)state;
    int n;
    kvt_options opt = finds_options(2, 16);
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 48);
    assert_int_equal(kvt_pin(c, from(100, 60), 60, &n), KVT_OK);
    assert_int_equal(n, 48);
    for (int i = 0; i < 8; i++) leave_behind(c, 1000 * (i + 1), 112);
    assert_int_equal(found(c, 100, 60), 48);
    assert_int_equal(stats_of(c).blocks_pinned, 3);
    assert_int_equal(kvt_pin(c, from(100, 60), 60, &n), KVT_OK); /* both count */
    assert_int_equal(kvt_unpin(c, from(100, 60), 60), KVT_OK);
    for (int i = 0; i < 8; i++) leave_behind(c, 1000 * (i + 9), 112);
    assert_int_equal(found(c, 100, 60), 48);
    assert_int_equal(kvt_unpin(c, from(100, 60), 60), KVT_OK);
    assert_int_equal(stats_of(c).blocks_pinned, 0);
    for (int i = 0; i < 20; i++) leave_behind(c, 1000 * (i + 20), 112);
    assert_true(found(c, 100, 60) < 48);
    kvt_close(c);
}

static void pins_have_a_limit(void **state) {
    (void)state;
    int n = -1;
    kvt_options opt = finds_options(2, 16);
    kvt_bytes_info info;
    kvt_bytes(&opt, &info);
    opt.pinned_bytes_max = 3 * info.bytes_per_block + 1;
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 64);
    assert_int_equal(kvt_pin(c, from(100, 64), 64, &n), KVT_FULL);
    assert_int_equal(n, 0);
    assert_int_equal(stats_of(c).blocks_pinned, 0);
    assert_int_equal(kvt_pin(c, from(100, 48), 48, &n), KVT_OK);
    assert_int_equal(n, 48);
    kvt_close(c);
}

/* However much is pinned, one sequence of tokens_max tokens has room. */
static void pins_leave_room_for_a_sequence(void **state) {
    (void)state;
    int n;
    kvt_options opt = finds_options(2, 10);
    opt.pinned_bytes_max = SIZE_MAX;
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 64);
    assert_int_equal(kvt_pin(c, from(100, 64), 64, &n), KVT_FULL);
    assert_int_equal(kvt_pin(c, from(100, 32), 32, &n), KVT_OK);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 5000, 128), KVT_OK);
    kvt_close(c);
}

static void pins_outlast_a_truncation(void **state) {
    (void)state;
    int n;
    kvt_options opt = finds_options(4, 0);
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 64), KVT_OK);
    assert_int_equal(kvt_pin(c, from(100, 64), 64, &n), KVT_OK);
    assert_int_equal(n, 64);
    assert_int_equal(kvt_seq_truncate(c, s, 0), KVT_OK);
    assert_int_equal(stats_of(c).blocks_pinned, 4);
    assert_int_equal(match(c, s, 100, 64).n_tokens, 63);
    kvt_close(c);
}

/* A step that has no block for a copy does not take over a pinned one. */
static void pins_outlast_a_shortage(void **state) {
    (void)state;
    int n;
    kvt_options opt = finds_options(2, 9);
    kvt_cache *c = toy_open(&opt);
    leave_behind(c, 100, 16);
    assert_int_equal(kvt_pin(c, from(100, 16), 16, &n), KVT_OK);
    assert_int_equal(n, 16);
    kvt_seq s = seq_new(c), t = seq_new(c);
    assert_int_equal(match(c, s, 100, 11).n_tokens, 10);
    assert_int_equal(toy_add(c, t, 1000, 128), KVT_OK);
    assert_int_equal(toy_add(c, s, 110, 3), KVT_FULL);
    assert_int_equal(stats_of(c).blocks_pinned, 1);
    kvt_seq_free(c, t);
    assert_int_equal(toy_add(c, s, 110, 3), KVT_OK);
    kvt_close(c);
}

static void a_higher_priority_stays_longer(void **state) {
    (void)state;
    kvt_options opt = finds_options(2, 16);
    kvt_cache *c = toy_open(&opt);
    kvt_match_options high = {.priority = 7};
    kvt_match_result r;
    kvt_seq s = seq_new(c);
    assert_int_equal(kvt_match(c, s, from(100, 48), 48, &high, &r), KVT_OK);
    assert_int_equal(toy_add(c, s, 100, 48), KVT_OK);
    kvt_seq_free(c, s);
    for (int i = 0; i < 20; i++) leave_behind(c, 1000 * (i + 1), 112);
    assert_int_equal(found(c, 100, 49), 48);
    kvt_close(c);
}

static uint64_t clock_of(void *ctx) {
    return *(uint64_t *)ctx;
}

static void time_ends_what_nobody_reads(void **state) {
    (void)state;
    uint64_t now = 1000;
    kvt_options opt = finds_options(2, 0);
    opt.clock = clock_of;
    opt.clock_ctx = &now;
    kvt_cache *c = toy_open(&opt);
    kvt_match_options hour = {.ttl_ns = 60};
    kvt_match_result r;
    kvt_seq s = seq_new(c);
    assert_int_equal(kvt_match(c, s, from(100, 48), 48, &hour, &r), KVT_OK);
    assert_int_equal(toy_add(c, s, 100, 48), KVT_OK);
    now += 1000; /* it is still read */
    kvt_seq_free(c, s);
    now += 59;
    kvt_seq t = seq_new(c);
    assert_int_equal(kvt_match(c, t, from(100, 33), 33, &hour, &r), KVT_OK);
    assert_int_equal(r.n_tokens, 32);
    kvt_seq_free(c, t); /* and now two of its blocks once more */
    now += 59;
    assert_int_equal(stats_of(c).blocks_idle, 3);
    t = seq_new(c);
    assert_int_equal(kvt_match(c, t, from(100, 48), 48, &hour, &r), KVT_OK);
    assert_int_equal(r.n_tokens, 32);
    assert_int_equal(stats_of(c).blocks_expired, 1);
    assert_int_equal(r.reason, KVT_MISS_SHORT);
    kvt_seq_free(c, t);
    now += 1000;
    assert_int_equal(found(c, 100, 49), 0);
    assert_int_equal(stats_of(c).blocks_expired, 3);
    assert_int_equal(stats_of(c).blocks_idle, 0);
    kvt_close(c);
}

static void a_time_past_the_clocks_end_does_not_come(void **state) {
    (void)state;
    uint64_t now = 1000;
    kvt_options opt = finds_options(2, 0);
    opt.clock = clock_of;
    opt.clock_ctx = &now;
    kvt_cache *c = toy_open(&opt);
    kvt_match_options ever = {.ttl_ns = UINT64_MAX};
    kvt_match_result r;
    kvt_seq s = seq_new(c);
    assert_int_equal(kvt_match(c, s, from(100, 48), 48, &ever, &r), KVT_OK);
    assert_int_equal(toy_add(c, s, 100, 48), KVT_OK);
    kvt_seq_free(c, s);
    now += 1000;
    s = seq_new(c);
    assert_int_equal(match(c, s, 100, 48).n_tokens, 47);
    kvt_close(c);
}

/* In formats of codes first blocks have hot slots, of which there are few: a beginning leaves whole, and others stay
 * whole. */
static void beginnings_leave_whole_where_slots_are_short(void **state) {
    (void)state;
    kvt_options opt = finds_options(2, 200);
    kvt_cache *c = toy_open_sealing(&opt);
    int n_whole = 0, n_gone = 0;
    for (int i = 0; i < 20; i++) leave_behind(c, 1000 * (i + 1), 64);
    assert_int_equal(kvt_check(c), KVT_OK);
    for (int i = 19; i >= 0; i--) {
        kvt_seq s = seq_new(c);
        int n = match(c, s, 1000 * (i + 1), 65).n_tokens;
        n_whole += n == 64;
        n_gone += n == 0;
        kvt_seq_free(c, s);
    }
    assert_true(n_whole >= 2); /* as many as there are sequences, at least */
    assert_int_equal(n_whole + n_gone, 20);
    kvt_close(c);
}

/* ----------------------------------------------------------------------------------------------------- tiers */

static void write_back_waits_until_nobody_holds_a_block(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_BACK);
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 64), KVT_OK);
    kvt_flush(y.c);
    assert_int_equal(stats_of(y.c).n_puts, 0);
    kvt_seq_free(y.c, s);
    kvt_flush(y.c);
    assert_int_equal(stats_of(y.c).n_puts, 4);
    s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 500, 64), KVT_OK);
    kvt_close(y.c); /* what is still held is written too */
    y.c = toy_open(&y.opt);
    kvt_seq t = seq_new(y.c);
    assert_int_equal(match(y.c, t, 500, 65).n_coming, 64);
    tiered_close(&y);
}

static void what_says_what_records_are_is_written_anew(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    kvt_tier_entry entry = {0};
    memcpy(entry.key.space, y.c->prefix.root.byte, sizeof entry.key.space);
    memcpy(entry.key.name, y.c->prefix.root.byte, sizeof entry.key.name);
    for (int i = 0; i < 2; i++) {
        kvt_record_info info;
        kvt_close(y.c);
        uint8_t *bytes = faulty_record(y.faulty, &entry.key, &entry.length);
        assert_non_null(bytes);
        bytes[i ? 600 : 100] ^= 1;
        assert_int_equal(kvt_tier_verify(y.tier, &entry, &info), KVT_E_CORRUPT);
        y.c = toy_open(&y.opt);
        assert_int_equal(kvt_tier_verify(y.tier, &entry, &info), KVT_OK);
        assert_int_equal(info.kind, 2);
    }
    tiered_close(&y);
}

static void write_through_does_not(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 64), KVT_OK);
    kvt_flush(y.c);
    assert_int_equal(stats_of(y.c).n_puts, 4);
    assert_int_equal(kvt_seq_truncate(y.c, s, 20), KVT_OK); /* and what never was leaves the tier */
    kvt_flush(y.c);
    kvt_tier_usage usage;
    kvt_tier_usage_get(y.tier, &usage);
    assert_int_equal(usage.n_records, 1 + 1);
    tiered_close(&y);
}

static void what_found_no_room_on_its_way_is_flushed(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    y.opt.moves_max = 1;
    tiered_open(&y);
    kvt_seq s = seq_new(y.c);
    assert_int_equal(toy_add(y.c, s, 100, 64), KVT_OK); /* four blocks in one step */
    assert_int_equal(kvt_flush(y.c), KVT_OK);
    assert_int_equal(stats_of(y.c).n_puts, 4);
    kvt_flush(y.c);
    assert_int_equal(stats_of(y.c).n_puts, 4);
    tiered_close(&y);
}

/* However few moves there are. */
static void closing_writes_to_every_tier(void **state) {
    (void)state;
    kvt_options opt = finds_options(3, 12);
    faulty_tier *f;
    kvt_tier *tiers[2] = {faulty_tier_new(&f, &(faulty_options){.seed = 1}),
                          faulty_tier_new(&f, &(faulty_options){.seed = 2})};
    opt.n_tiers = 2;
    opt.tiers = tiers;
    opt.write = KVT_WRITE_BACK;
    opt.moves_max = 1;
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 120), KVT_OK);
    kvt_close(c);
    for (int i = 0; i < 2; i++) {
        kvt_tier_usage usage;
        kvt_tier_usage_get(tiers[i], &usage);
        assert_int_equal(usage.n_records, 1 + 7);
        kvt_tier_close(tiers[i]);
    }
}

static void closing_ends_where_a_tier_fails(void **state) {
    (void)state;
    kvt_options opt = finds_options(3, 12);
    faulty_tier *failing, *other;
    kvt_tier *tiers[2] = {faulty_tier_new(&failing, &(faulty_options){.seed = 1}),
                          faulty_tier_new(&other, &(faulty_options){.seed = 2})};
    opt.n_tiers = 2;
    opt.tiers = tiers;
    opt.write = KVT_WRITE_BACK;
    opt.moves_max = 1;
    kvt_cache *c = toy_open(&opt);
    kvt_seq s = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 120), KVT_OK);
    faulty_set(failing, (faults){.fail = 1});
    kvt_close(c);
    assert_true(faulty_counts_of(failing).puts <= 1 + 3 * 7);
    for (int i = 0; i < 2; i++) kvt_tier_close(tiers[i]);
}

static void closing_reads_nothing(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    leave_behind(y.c, 100, 64);
    kvt_close(y.c);
    assert_int_equal(cache_open(&y.c, &y.opt, &(cache_check){.poison = true, .moves_inline = true}), KVT_OK);
    uint64_t n_gets = faulty_counts_of(y.faulty).gets;
    kvt_seq s = seq_new(y.c);
    assert_int_equal(match(y.c, s, 100, 65).n_coming, 64);
    kvt_close(y.c);
    assert_int_equal(faulty_counts_of(y.faulty).gets, n_gets);
    kvt_tier_close(y.tier);
}

/* A step does not wait for blocks that are on their way. */
static void a_step_goes_on_without_what_is_coming(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    leave_behind(y.c, 100, 64);
    kvt_close(y.c);
    y.c = toy_open(&y.opt);
    faulty_shut(y.faulty);
    kvt_seq s = seq_new(y.c), other = seq_new(y.c);
    assert_int_equal(match(y.c, s, 100, 65).n_coming, 64);
    assert_int_equal(match(y.c, other, 100, 65).n_coming, 64);
    assert_int_equal(toy_add(y.c, s, 100, 20), KVT_OK);
    assert_int_equal(kvt_check(y.c), KVT_OK);
    assert_int_equal(kvt_wait(y.c, 0), KVT_MISS);
    faulty_let_in(y.faulty);
    kvt_match_result r = match(y.c, other, 100, 65);
    while (r.n_coming > 0) {
        assert_int_equal(kvt_wait(y.c, -1), KVT_OK);
        r = match(y.c, other, 100, 65);
    }
    assert_int_equal(r.n_tokens, 64);
    assert_true(toy_holds(y.c, other, 100, 64) && toy_holds(y.c, s, 100, 20));
    tiered_close(&y);
}

static void a_block_that_could_not_be_read_ends_no_other(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    leave_behind(y.c, 100, 64);
    kvt_close(y.c);
    y.c = toy_open(&y.opt);
    kvt_seq s = seq_new(y.c);
    faulty_set(y.faulty, (faults){.fail = 1});
    kvt_match_result r = match_all(y.c, s, 100, 65);
    assert_int_equal(r.n_tokens, 0);
    assert_int_equal(r.reason, KVT_MISS_TIER_BAD);
    faulty_set(y.faulty, (faults){0});
    assert_int_equal(toy_add(y.c, s, 100, 16), KVT_OK);
    assert_int_equal(match_all(y.c, s, 100, 65).n_tokens, 64);
    tiered_close(&y);
}

static void a_truncated_sequence_asks_anew(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    leave_behind(y.c, 100, 64);
    leave_behind(y.c, 500, 64);
    kvt_close(y.c);
    y.c = toy_open(&y.opt);
    kvt_seq s = seq_new(y.c);
    faulty_set(y.faulty, (faults){.fail = 1});
    match_all(y.c, s, 100, 65);
    faulty_set(y.faulty, (faults){0});
    assert_int_equal(kvt_seq_truncate(y.c, s, 0), KVT_OK);
    assert_int_equal(match_all(y.c, s, 500, 65).n_tokens, 64);
    tiered_close(&y);
}

/* Blocks that wait to be written leave for a step that needs them, and a slow tier holds up nobody. */
static void a_slow_tier_holds_up_no_step(void **state) {
    (void)state;
    tiered y = tiered_of(10, KVT_WRITE_THROUGH);
    tiered_open(&y);
    faulty_shut(y.faulty);
    for (int i = 0; i < 6; i++) leave_behind(y.c, 1000 * (i + 1), 128);
    assert_int_equal(kvt_check(y.c), KVT_OK);
    faulty_let_in(y.faulty);
    tiered_close(&y);
}

/* ------------------------------------------------------------------------------------------------------- misuse */

static void wrong_uses_are_refused(void **state) {
    (void)state;
    tiered y = tiered_of(0, KVT_WRITE_THROUGH);
    tiered_open(&y);
    kvt_cache *c = y.c;
    kvt_match_result r;
    int n;
    kvt_seq s = seq_new(c), away = seq_new(c);
    assert_int_equal(toy_add(c, s, 100, 20), KVT_OK);
    assert_int_equal(toy_add(c, away, 300, 20), KVT_OK);
    assert_int_equal(kvt_match(NULL, s, from(100, 30), 30, NULL, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, NULL, 30, NULL, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 30), 30, NULL, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 30), 0, NULL, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 129), 129, NULL, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 20), 20, NULL, &r), KVT_E_ARGUMENT); /* it has all of them */
    assert_int_equal(kvt_match(c, s, from(101, 30), 30, NULL, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 30), 30, &(kvt_match_options){.priority = 101}, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, s, from(100, 30), 30, &(kvt_match_options){.priority = -101}, &r), KVT_E_ARGUMENT);
    assert_int_equal(kvt_match(c, 12345, from(100, 30), 30, NULL, &r), KVT_E_SEQUENCE);
    assert_int_equal(kvt_pin(c, NULL, 4, &n), KVT_E_ARGUMENT);
    assert_int_equal(kvt_pin(c, from(100, 4), -1, &n), KVT_E_ARGUMENT);
    assert_int_equal(kvt_pin(c, from(100, 4), 4, NULL), KVT_E_ARGUMENT);
    assert_int_equal(kvt_unpin(c, from(7, 40), 40), KVT_OK); /* nothing of it is known */
    assert_int_equal(kvt_seq_swap_out(c, s, 1), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_swap_out(c, s, -1), KVT_E_ARGUMENT);
    assert_int_equal(kvt_seq_swap_in(c, s), KVT_E_STATE);
    assert_int_equal(kvt_seq_swap_in(c, 12345), KVT_E_SEQUENCE);

    assert_int_equal(kvt_seq_swap_out(c, away, 0), KVT_OK);
    kvt_seq other;
    int32_t id;
    assert_int_equal(kvt_seq_swap_out(c, away, 0), KVT_E_STATE);
    assert_int_equal(kvt_match(c, away, from(300, 30), 30, NULL, &r), KVT_E_STATE);
    assert_int_equal(kvt_seq_fork(c, away, &other), KVT_E_STATE);
    assert_int_equal(kvt_seq_truncate(c, away, 3), KVT_E_STATE);
    assert_int_equal(kvt_seq_tokens(c, away, 0, 1, &id), KVT_E_STATE);
    assert_int_equal(kvt_reserve(c, &(kvt_batch){1, &away, (const int[]){1}}), KVT_E_STATE);

    kvt_batch batch = {1, &s, (const int[]){1}};
    assert_int_equal(kvt_reserve(c, &batch), KVT_OK);
    assert_int_equal(kvt_match(c, s, from(100, 30), 30, NULL, &r), KVT_E_STATE);
    assert_int_equal(kvt_pin(c, from(100, 16), 16, &n), KVT_E_STATE);
    assert_int_equal(kvt_unpin(c, from(100, 16), 16), KVT_E_STATE);
    assert_int_equal(kvt_seq_swap_out(c, s, 0), KVT_E_STATE);
    assert_int_equal(kvt_seq_swap_in(c, away), KVT_E_STATE);
    assert_int_equal(kvt_abort(c, &batch), KVT_OK);
    assert_int_equal(kvt_seq_free(c, away), KVT_OK);
    assert_int_equal(kvt_check(c), KVT_OK);
    assert_int_equal(kvt_wait(NULL, 0), KVT_E_ARGUMENT);
    assert_int_equal(kvt_flush(NULL), KVT_E_ARGUMENT);
    tiered_close(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_prompt_is_found_but_for_its_last_token),
        cmocka_unit_test(a_part_that_is_shared_is_copied_when_it_is_written_to),
        cmocka_unit_test(truncated_tokens_are_not_found),
        cmocka_unit_test(what_is_computed_twice_is_kept_once),
        cmocka_unit_test(a_fork_counts_for_itself),
        cmocka_unit_test(a_cache_that_forgets_finds_nothing),
        cmocka_unit_test(pins_hold_what_nobody_uses),
        cmocka_unit_test(pins_have_a_limit),
        cmocka_unit_test(pins_leave_room_for_a_sequence),
        cmocka_unit_test(pins_outlast_a_truncation),
        cmocka_unit_test(pins_outlast_a_shortage),
        cmocka_unit_test(a_higher_priority_stays_longer),
        cmocka_unit_test(time_ends_what_nobody_reads),
        cmocka_unit_test(beginnings_leave_whole_where_slots_are_short),
        cmocka_unit_test(a_time_past_the_clocks_end_does_not_come),
        cmocka_unit_test(write_back_waits_until_nobody_holds_a_block),
        cmocka_unit_test(what_says_what_records_are_is_written_anew),
        cmocka_unit_test(write_through_does_not),
        cmocka_unit_test(what_found_no_room_on_its_way_is_flushed),
        cmocka_unit_test(closing_writes_to_every_tier),
        cmocka_unit_test(closing_ends_where_a_tier_fails),
        cmocka_unit_test(closing_reads_nothing),
        cmocka_unit_test(a_step_goes_on_without_what_is_coming),
        cmocka_unit_test(a_block_that_could_not_be_read_ends_no_other),
        cmocka_unit_test(a_truncated_sequence_asks_anew),
        cmocka_unit_test(a_slow_tier_holds_up_no_step),
        cmocka_unit_test(wrong_uses_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
