/* verify.c - one record of any tier, read as a whole and checked: for tools, not for caches, which know what they
 * expect. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tier.h"

static kvt_status info_of_about(const uint8_t *payload, size_t n, kvt_record_info *out) {
    record_about about;
    TRY(about_read(payload, n, &about));
    memcpy(out->about, about.text, sizeof out->about);
    return KVT_OK;
}

/* The n bytes at `bytes` are the whole record, at least a header. */
static kvt_status whole_check(uint8_t *bytes, size_t n, const kvt_tier_key *key, kvt_record_info *out) {
    const size_t payload_n = n - RECORD_HEADER;
    uint8_t *payload = bytes + RECORD_HEADER;
    record r;
    uint64_t payload_hash;
    out->version = record_version(bytes);
    TRY(record_read(bytes, &r, &payload_hash));
    if (memcmp(r.space, key->space, sizeof r.space) != 0 || memcmp(r.key, key->name, sizeof r.key) != 0)
        return KVT_E_CORRUPT;
    if (r.payload_bytes != payload_n || record_hash(&(kvt_piece){payload, payload_n}, 1) != payload_hash)
        return KVT_E_CORRUPT;
    out->kind = r.kind;
    out->n_tokens = r.n_tokens;
    out->index = r.index;
    out->bytes = n;
    return r.kind == RECORD_ABOUT ? info_of_about(payload, payload_n, out) : KVT_OK;
}

kvt_status kvt_tier_verify(kvt_tier *tier, const kvt_tier_entry *entry, kvt_record_info *out) {
    if (!tier || !entry || !out) return KVT_E_ARGUMENT;
    *out = (kvt_record_info){0};
    if (entry->length < RECORD_HEADER) return KVT_E_CORRUPT;
    if (entry->length > SIZE_MAX / 2) return KVT_E_MEMORY;
    kvt_piece whole = {.at = malloc((size_t)entry->length), .n = (size_t)entry->length};
    if (!whole.at) return KVT_E_MEMORY;
    kvt_status status = tier->ops.get(tier->ctx, &entry->key, &whole, 1);
    if (status == KVT_OK) status = whole_check(whole.at, whole.n, &entry->key, out);
    free(whole.at);
    return status;
}
