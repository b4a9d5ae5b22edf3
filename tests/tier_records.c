/* tier_records.c - see tier_records.h. A record of n bytes is a hash of the rest, its number, its version, and words
 * that follow from both; it comes and goes in three pieces. */
#include "tier_records.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "random.h"
#include "tier/tier.h"

enum { HEAD = 24 };

kvt_tier_key records_key(uint64_t number) {
    kvt_tier_key key;
    uint64_t state = number / 1000 + 1;
    for (size_t i = 0; i < sizeof key.space; i++) key.space[i] = (uint8_t)random_bits(&state);
    state = ~number;
    for (size_t i = 0; i < sizeof key.name; i++) key.name[i] = (uint8_t)random_bits(&state);
    return key;
}

static size_t pieces_of(uint8_t *bytes, size_t n, kvt_piece out[3]) {
    size_t first = n < HEAD ? n : HEAD, second = (n - first) / 3;
    out[0] = (kvt_piece){bytes, first};
    out[1] = (kvt_piece){bytes + first, second};
    out[2] = (kvt_piece){bytes + first + second, n - first - second};
    return 3;
}

static void fill(uint8_t *bytes, size_t n, uint64_t number, uint32_t version) {
    uint64_t state = number << 32 | version, words[3] = {0, number, version};
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = random_bits(&state);
        memcpy(bytes + i, &word, n - i < 8 ? n - i : 8);
    }
    memcpy(bytes, words, n < HEAD ? n : HEAD);
    if (n < HEAD) return;
    words[0] = XXH3_64bits(bytes + 8, n - 8);
    memcpy(bytes, words, 8);
}

kvt_status records_put(kvt_tier *tier, uint64_t number, uint32_t version, size_t n) {
    kvt_tier_key key = records_key(number);
    kvt_piece pieces[3];
    uint8_t *bytes = malloc(n + 1);
    fill(bytes, n, number, version);
    kvt_status status = tier->ops.put(tier->ctx, &key, pieces, (int)pieces_of(bytes, n, pieces));
    free(bytes);
    return status;
}

static bool whole(const uint8_t *bytes, size_t n, uint64_t number, uint32_t *version) {
    uint64_t words[3];
    if (n < HEAD) return true;
    memcpy(words, bytes, HEAD);
    if (version) *version = (uint32_t)words[2];
    return words[1] == number && words[0] == XXH3_64bits(bytes + 8, n - 8);
}

kvt_status records_get(kvt_tier *tier, uint64_t number, size_t n, uint32_t *version) {
    kvt_tier_key key = records_key(number);
    kvt_piece pieces[3];
    uint8_t *bytes = calloc(1, n + 1);
    kvt_status status = tier->ops.get(tier->ctx, &key, pieces, (int)pieces_of(bytes, n, pieces));
    if (status == KVT_OK && !whole(bytes, n, number, version)) abort();
    free(bytes);
    return status;
}

int records_has(kvt_tier *tier, uint64_t number) {
    kvt_tier_key key = records_key(number);
    return tier->ops.has(tier->ctx, &key);
}

void records_drop(kvt_tier *tier, uint64_t number) {
    kvt_tier_key key = records_key(number);
    kvt_tier_drop(tier, &key);
}

uint64_t records_bytes(kvt_tier *tier) {
    kvt_tier_usage usage;
    kvt_tier_usage_get(tier, &usage);
    return usage.bytes;
}

uint64_t records_count(kvt_tier *tier) {
    kvt_tier_usage usage;
    kvt_tier_usage_get(tier, &usage);
    return usage.n_records;
}
