/* fuzz_record.c - any bytes as a record in a tier. The first byte chooses which checksums are made right, of header and
 * payload, so that what lies behind them is reached. What is read as a header is written as the same bytes; what is
 * verified has the length that was asked for; what is said about a space ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tier/tier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "fuzz_record: %s\n", what);
    abort();
}

static void put_u64(uint8_t *at, uint64_t v) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(v >> 8 * i);
}

static void repair(uint8_t *bytes, size_t n, int choice) {
    if (choice & 1) put_u64(bytes + 120, n - RECORD_HEADER);
    if (choice & 2) put_u64(bytes + 128, record_hash(&(kvt_piece){bytes + RECORD_HEADER, n - RECORD_HEADER}, 1));
    if (choice & 4) put_u64(bytes + RECORD_HEADER - 8, record_hash(&(kvt_piece){bytes, RECORD_HEADER - 8}, 1));
}

static void header_round(const uint8_t *bytes) {
    uint8_t again[RECORD_HEADER];
    record r;
    uint64_t hash;
    if (record_read(bytes, &r, &hash) != KVT_OK) return;
    check(r.n_tokens <= RECORD_TOKENS_MAX, "too many tokens");
    record_write(&r, hash, again);
    check(memcmp(bytes, again, sizeof again) == 0, "another header is written than was read");
}

static kvt_status verify(void *ctx, const kvt_tier_entry *entry) {
    kvt_record_info info;
    kvt_status status = kvt_tier_verify(ctx, entry, &info);
    check(status == KVT_OK || status == KVT_E_CORRUPT || status == KVT_E_UNSUPPORTED, "another status");
    check(status != KVT_OK || info.bytes == entry->length, "another length");
    check(memchr(info.about, 0, sizeof info.about) != NULL, "a text without an end");
    return KVT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    kvt_tier *tier;
    kvt_tier_key key = {{0}, {0}};
    if (n < 1 || n > 1 << 16) return 0;
    uint8_t *bytes = malloc(n);
    if (!bytes || kvt_tier_memory(&tier, 1 << 20) != KVT_OK) abort();
    memcpy(bytes, data + 1, n - 1);
    if (n > RECORD_HEADER) {
        repair(bytes, n - 1, data[0]);
        header_round(bytes);
        memcpy(key.space, bytes + 24, sizeof key.space);
        memcpy(key.name, bytes + 56, sizeof key.name);
    }
    kvt_piece piece = {bytes, n - 1};
    check(tier->ops.put(tier->ctx, &key, &piece, 1) == KVT_OK, "put");
    check(kvt_tier_walk(tier, verify, tier) == KVT_OK, "walk");
    kvt_tier_close(tier);
    free(bytes);
    return 0;
}
