/* yard.c - see yard.h. */
#include "yard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

static const uint8_t identity[32] = "weights of a toy";

static uint64_t clock_of(void *ctx) {
    return *(uint64_t *)ctx;
}

kvt_options with_tiers(kvt_options opt, kvt_tier *const *tiers, int n_tiers) {
    opt.tiers = tiers;
    opt.n_tiers = n_tiers;
    opt.identity = identity;
    return opt;
}

yard *yard_open(kvt_options opt, faulty_options faulty, bool moves_inline) {
    yard *y = calloc(1, sizeof *y);
    if (moves_inline) faulty.clock = &y->clock;
    for (int i = 0; i < N_TIERS; i++, faulty.seed++) y->tier[i] = faulty_tier_new(&y->faulty[i], &faulty);
    opt = with_tiers(opt, y->tier, N_TIERS);
    opt.forget = 1;
    opt.clock = clock_of;
    opt.clock_ctx = &y->clock;
    cache_check check = {.poison = true, .moves_inline = moves_inline};
    assert_int_equal(cache_open(&y->c, &opt, &check), KVT_OK);
    return y;
}

yard *yard_of(bool moves_inline) {
    return yard_open(toy_options(), (faulty_options){.seed = 1}, moves_inline);
}

void yard_close(yard *y) {
    kvt_close(y->c);
    for (int i = 0; i < N_TIERS; i++) kvt_tier_close(y->tier[i]);
    free(y);
}

/* ----------------------------------------------------------------------------------------- blocks and jobs */

void block_fill(const kvt_cache *c, int block, bool hot, uint64_t seed) {
    kvt_piece pieces[TOY_LAYERS];
    move_pieces(c, block, hot, pieces);
    for (int i = 0; i < TOY_LAYERS; i++)
        for (size_t k = 0; k < pieces[i].n; k++) ((uint8_t *)pieces[i].at)[k] = (uint8_t)random_bits(&seed);
}

bool block_holds(const kvt_cache *c, int block, bool hot, uint64_t seed) {
    kvt_piece pieces[TOY_LAYERS];
    bool same = true;
    move_pieces(c, block, hot, pieces);
    for (int i = 0; i < TOY_LAYERS; i++)
        for (size_t k = 0; k < pieces[i].n; k++) same &= ((uint8_t *)pieces[i].at)[k] == (uint8_t)random_bits(&seed);
    return same;
}

int block_new(kvt_cache *c, bool hot, uint64_t seed) {
    int block = pool_take(&c->pool);
    if (hot && c->layout.sealing) hot_take(c, block);
    block_fill(c, block, hot, seed);
    return block;
}

kvt_tier_key yard_key(uint32_t number) {
    kvt_tier_key key = {"space", ""};
    memcpy(key.name, &number, sizeof number);
    return key;
}

move_job yard_job(move_kind kind, int tier, int block, uint32_t number) {
    move_job job = {.kind = kind, .tier = tier, .block = block, .key = yard_key(number), .tag = number};
    job.what = (record){.kind = RECORD_BLOCK, .index = number % 8, .n_tokens = 16};
    memcpy(job.what.space, job.key.space, sizeof job.what.space);
    memcpy(job.what.key, job.key.name, sizeof job.what.key);
    for (uint32_t i = 0; i < job.what.n_tokens; i++) job.what.tokens[i] = (int32_t)(number + i);
    return job;
}

void yard_add(yard *y, move_kind kind, int tier, int block, uint32_t number) {
    move_job job = yard_job(kind, tier, block, number);
    assert_true(move_add(y->c, &job));
}

move_result yard_taken(yard *y, uint32_t number) {
    move_result r;
    assert_true(move_wait(y->c, -1, true));
    assert_true(move_take(y->c, &r));
    assert_int_equal(r.job.tag, number);
    return r;
}

void assert_copied(yard *y, uint32_t number) {
    move_result r = yard_taken(y, number);
    assert_true(r.copied && !r.cancelled && r.job.kind == MOVE_PUT);
}

void assert_cancelled(yard *y, uint32_t number) {
    move_result r = yard_taken(y, number);
    assert_true(r.cancelled && !r.copied);
}

void assert_done(yard *y, uint32_t number, kvt_status status) {
    move_result r = yard_taken(y, number);
    assert_true(!r.copied && !r.cancelled);
    assert_int_equal(r.job.status, status);
}

void yard_put(yard *y, int tier, int block, uint32_t number) {
    yard_add(y, MOVE_PUT, tier, block, number);
    assert_copied(y, number);
    assert_done(y, number, KVT_OK);
}

kvt_status yard_get(yard *y, int tier, int block, uint32_t number) {
    yard_add(y, MOVE_GET, tier, block, number);
    return yard_taken(y, number).job.status;
}

void assert_nothing_open(yard *y) {
    move_result r;
    assert_int_equal(move_n_open(y->c), 0);
    assert_int_equal(move_n_gets(y->c), 0);
    assert_false(move_take(y->c, &r));
    assert_true(move_wait(y->c, -1, true));
}
