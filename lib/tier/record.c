/* record.c - headers field by field, little-endian, and what is hashed:
 *
 *     0     8     12    16     20        24     56   88      120            128           136     392    504   512
 *     magic version kind index n_tokens  space  key  parent  payload bytes  payload hash  tokens  zeros  hash
 *
 * The hash at the end is over all bytes before it, the one in the middle over the payload. Magic and version stay where
 * they are in every version, and are looked at before anything that another one may have moved. */
#include "record.h"

#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"

/* The state of a hash lies on the stack: movers hash while nothing may be allocated. Only the inlined library says how
 * large it is. */
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HASH_AT = RECORD_HEADER - 8 };

static const uint8_t magic[8] = {'k', 'v', 't', 'r', 0x89, '\r', '\n', 0x1a};

uint64_t record_hash(const kvt_piece *pieces, int n_pieces) {
    if (n_pieces == 1) return XXH3_64bits(pieces[0].at, pieces[0].n);
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    for (int i = 0; i < n_pieces; i++) XXH3_64bits_update(&state, pieces[i].at, pieces[i].n);
    return XXH3_64bits_digest(&state);
}

/* ------------------------------------------------------------------------------------------ writing */

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t n) {
    memcpy(at, bytes, n);
    return at + n;
}

static uint8_t *put_little(uint8_t *at, uint64_t v, int n) {
    for (int i = 0; i < n; i++) at[i] = (uint8_t)(v >> 8 * i);
    return at + n;
}

static uint8_t *put_u32(uint8_t *at, uint32_t v) { return put_little(at, v, 4); }
static uint8_t *put_u64(uint8_t *at, uint64_t v) { return put_little(at, v, 8); }

void record_write(const record *r, uint64_t payload_hash, uint8_t out[RECORD_HEADER]) {
    memset(out, 0, RECORD_HEADER);
    uint8_t *at = put_bytes(out, magic, sizeof magic);
    at = put_u32(at, RECORD_VERSION);
    at = put_u32(at, r->kind);
    at = put_u32(at, r->index);
    at = put_u32(at, r->n_tokens);
    at = put_bytes(at, r->space, sizeof r->space);
    at = put_bytes(at, r->key, sizeof r->key);
    at = put_bytes(at, r->parent, sizeof r->parent);
    at = put_u64(at, r->payload_bytes);
    at = put_u64(at, payload_hash);
    for (int i = 0; i < RECORD_TOKENS_MAX; i++) at = put_u32(at, (uint32_t)r->tokens[i]);
    put_u64(out + HASH_AT, XXH3_64bits(out, HASH_AT));
}

/* ------------------------------------------------------------------------------------------ reading */

static void get_bytes(cursor *c, void *out, size_t n) {
    const uint8_t *p = cursor_bytes(c, n);
    if (p) memcpy(out, p, n);
}

static int rest_is_zero(cursor *c) {
    uint8_t any = 0;
    while (cursor_left(c) > 0) any |= cursor_u8(c);
    return any == 0;
}

static int kind_is_known(uint32_t kind) { return kind >= RECORD_BLOCK && kind <= RECORD_PRIVATE; }

uint32_t record_version(const uint8_t header[RECORD_HEADER]) {
    cursor c = cursor_of(header + sizeof magic, 4);
    return memcmp(header, magic, sizeof magic) == 0 ? cursor_u32(&c) : 0;
}

static int hash_is_right(const uint8_t header[RECORD_HEADER]) {
    cursor end = cursor_of(header + HASH_AT, 8);
    return cursor_u64(&end) == XXH3_64bits(header, HASH_AT);
}

/* Another version is one where nothing else is known; with the hash of this one's header only its number is damaged. */
static kvt_status other_version(const uint8_t header[RECORD_HEADER]) {
    uint8_t own[RECORD_HEADER];
    memcpy(own, header, sizeof own);
    put_u32(own + sizeof magic, RECORD_VERSION);
    return hash_is_right(own) ? KVT_E_CORRUPT : KVT_E_UNSUPPORTED;
}

kvt_status record_read(const uint8_t header[RECORD_HEADER], record *out, uint64_t *payload_hash) {
    uint32_t version = record_version(header);
    if (version == 0) return KVT_E_CORRUPT;
    if (version != RECORD_VERSION) return other_version(header);
    if (!hash_is_right(header)) return KVT_E_CORRUPT;

    cursor c = cursor_of(header, HASH_AT);
    cursor_bytes(&c, sizeof magic + 4);
    out->kind = cursor_u32(&c);
    out->index = cursor_u32(&c);
    out->n_tokens = cursor_u32(&c);
    get_bytes(&c, out->space, sizeof out->space);
    get_bytes(&c, out->key, sizeof out->key);
    get_bytes(&c, out->parent, sizeof out->parent);
    out->payload_bytes = cursor_u64(&c);
    *payload_hash = cursor_u64(&c);
    for (int i = 0; i < RECORD_TOKENS_MAX; i++) out->tokens[i] = (int32_t)cursor_u32(&c);
    const int is_known = kind_is_known(out->kind) && out->n_tokens <= RECORD_TOKENS_MAX && rest_is_zero(&c);
    return is_known && !c.failed ? KVT_OK : KVT_E_CORRUPT;
}

int record_is(const record *got, const record *expected) {
    return got->kind == expected->kind && got->index == expected->index && got->n_tokens == expected->n_tokens &&
           got->payload_bytes == expected->payload_bytes &&
           memcmp(got->space, expected->space, sizeof got->space) == 0 &&
           memcmp(got->key, expected->key, sizeof got->key) == 0 &&
           memcmp(got->parent, expected->parent, sizeof got->parent) == 0 &&
           memcmp(got->tokens, expected->tokens, sizeof got->tokens) == 0;
}

kvt_status record_check(const kvt_piece *pieces, int n_pieces, const record *expected) {
    record got;
    uint64_t payload_hash;
    size_t n = 0;
    if (n_pieces < 1 || pieces[0].n != RECORD_HEADER) return KVT_E_CORRUPT;
    TRY(record_read(pieces[0].at, &got, &payload_hash));
    if (!record_is(&got, expected)) return KVT_E_CORRUPT;
    for (int i = 1; i < n_pieces; i++) mem_add(n, pieces[i].n, &n);
    if (n != got.payload_bytes) return KVT_E_CORRUPT;
    return record_hash(pieces + 1, n_pieces - 1) == payload_hash ? KVT_OK : KVT_E_CORRUPT;
}

/* ------------------------------------------------------------------------------------ about a space */

void about_write(const record_about *about, uint8_t out[RECORD_ABOUT_BYTES]) {
    memset(out, 0, RECORD_ABOUT_BYTES);
    uint8_t *at = put_u32(out, about->contract);
    at = put_u32(at, about->n_layers);
    at = put_u32(at, about->k_format);
    at = put_u32(at, about->v_format);
    at = put_u32(at, about->block_tokens);
    at = put_u32(at, about->hot_blocks);
    at = put_u32(at, about->math);
    at = put_u64(at, about->bytes_per_block);
    at = put_bytes(at, about->identity, sizeof about->identity);
    at = put_bytes(at, about->layout, sizeof about->layout);
    put_bytes(at, about->text, strnlen(about->text, RECORD_ABOUT_TEXT - 1));
}

kvt_status about_read(const uint8_t *payload, size_t n, record_about *out) {
    if (n != RECORD_ABOUT_BYTES) return KVT_E_CORRUPT;
    cursor c = cursor_of(payload, n);
    out->contract = cursor_u32(&c);
    out->n_layers = cursor_u32(&c);
    out->k_format = cursor_u32(&c);
    out->v_format = cursor_u32(&c);
    out->block_tokens = cursor_u32(&c);
    out->hot_blocks = cursor_u32(&c);
    out->math = cursor_u32(&c);
    out->bytes_per_block = cursor_u64(&c);
    get_bytes(&c, out->identity, sizeof out->identity);
    get_bytes(&c, out->layout, sizeof out->layout);
    get_bytes(&c, out->text, sizeof out->text);
    const int is_known = out->block_tokens >= 1 && out->block_tokens <= RECORD_TOKENS_MAX;
    return is_known && out->text[RECORD_ABOUT_TEXT - 1] == 0 ? KVT_OK : KVT_E_CORRUPT;
}
