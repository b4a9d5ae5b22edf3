/* key.c - owns how a block's key is made. A field is a tag, the length of what follows in 32 bits, and that: no two
 * lists of fields have the same bytes. Numbers are little-endian. */
#include "key.h"

#include <sodium.h>
#include <string.h>

#include "base/bits.h"

enum { TAG_WHAT = 1, TAG_NUMBER, TAG_BYTES, TAG_PARENT, TAG_TOKENS };

/* Longest text: parent and tokens of a block of 64, with room for what says what it is. */
enum { TEXT_MAX = 64 + KEY_BYTES + 64 * 4 };

void key_open(void) {
    if (sodium_init() < 0) return; /* it chooses the instruction set; without it the portable one is in use */
}

/* ---------------------------------------------------------------------------------------------- fields */

typedef struct text {
    crypto_generichash_state hash;
} text;

static void put_u32(uint8_t *at, uint32_t x) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(x >> 8 * i);
}

static void put(text *t, int tag, const void *data, size_t n) {
    uint8_t head[5] = {(uint8_t)tag};
    put_u32(head + 1, (uint32_t)n);
    crypto_generichash_update(&t->hash, head, sizeof head);
    crypto_generichash_update(&t->hash, data, n);
}

static void put_number(text *t, uint64_t x) {
    uint8_t bytes[8];
    put_u32(bytes, (uint32_t)x);
    put_u32(bytes + 4, (uint32_t)(x >> 32));
    put(t, TAG_NUMBER, bytes, sizeof bytes);
}

static void begin(text *t, const uint8_t *secret, const char *what) {
    crypto_generichash_init(&t->hash, secret, secret ? KEY_BYTES : 0, KEY_BYTES);
    put(t, TAG_WHAT, what, strlen(what));
}

static block_key end(text *t) {
    block_key key;
    crypto_generichash_final(&t->hash, key.byte, sizeof key.byte);
    return key;
}

/* ------------------------------------------------------------------------------------------------ keys */

static void put_layer(text *t, const kvt_layer *l) {
    const uint64_t numbers[] = {(uint64_t)l->kind,  (uint64_t)l->n_heads_q, (uint64_t)l->n_heads_kv,
                                (uint64_t)l->dim_k, (uint64_t)l->dim_v,     bits_of_f32(l->scale),
                                (uint64_t)l->window, (uint64_t)l->dim_index, l->state_bytes};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) put_number(t, numbers[i]);
    size_t n = l->k_balance ? (size_t)l->n_heads_kv * (size_t)l->dim_k : 0;
    put_number(t, n);
    for (size_t i = 0; i < n; i++) put_number(t, bits_of_f32(l->k_balance[i]));
}

block_key key_layout(const kvt_options *opt, const layout *l) {
    text t;
    begin(&t, NULL, "kvtile layout");
    put_number(&t, *(const uint8_t *)&(const uint16_t){1}); /* 1: bytes of a number are in memory the lowest first */
    put_number(&t, (uint64_t)opt->k_format);
    put_number(&t, (uint64_t)opt->v_format);
    put_number(&t, (uint64_t)opt->block_tokens);
    put_number(&t, l->sealing ? (uint64_t)l->n_first : 0);
    put_number(&t, (uint64_t)opt->n_layers);
    for (int i = 0; i < opt->n_layers; i++) put_layer(&t, &opt->layers[i]);
    return end(&t);
}

block_key key_root(const kvt_options *opt, const layout *l, const uint8_t *secret) {
    static const uint8_t none[KEY_BYTES];
    block_key shape = key_layout(opt, l);
    text t;
    begin(&t, secret, "kvtile root");
    put_number(&t, KVT_NUMERIC_CONTRACT);
    put_number(&t, opt->math == KVT_MATH_FAST ? 0 : 1); /* attention knows two modes */
    put(&t, TAG_BYTES, opt->identity ? opt->identity : none, KEY_BYTES);
    put(&t, TAG_BYTES, shape.byte, sizeof shape.byte);
    return end(&t);
}

/* The one that is made for every block, so its fields are laid out in one piece. */
block_key key_next(const uint8_t *secret, const block_key *parent, const int32_t *tokens, int n_tokens) {
    static const uint8_t head[] = {TAG_WHAT, 5, 0, 0, 0, 'b', 'l', 'o', 'c', 'k', TAG_PARENT, KEY_BYTES, 0, 0, 0};
    uint8_t bytes[TEXT_MAX], *at = bytes + sizeof head;
    block_key key;
    memcpy(bytes, head, sizeof head);
    memcpy(at, parent->byte, KEY_BYTES);
    at += KEY_BYTES;
    *at = TAG_TOKENS;
    put_u32(at + 1, (uint32_t)n_tokens * 4);
    at += 5;
    for (int i = 0; i < n_tokens; i++, at += 4) put_u32(at, (uint32_t)tokens[i]);
    crypto_generichash(key.byte, sizeof key.byte, bytes, (size_t)(at - bytes), secret, KEY_BYTES);
    return key;
}

block_key key_private(const uint8_t *secret, const uint8_t *nonce, kvt_seq seq, int index) {
    text t;
    begin(&t, secret, "kvtile private");
    put(&t, TAG_BYTES, nonce, 16);
    put_number(&t, seq);
    put_number(&t, (uint64_t)(int64_t)index);
    return end(&t);
}

block_key key_cut(const block_key *key, int bits) {
    block_key cut = *key;
    for (int i = bits / 8; i < KEY_BYTES; i++) cut.byte[i] &= (uint8_t)(i == bits / 8 ? (1 << bits % 8) - 1 : 0);
    return cut;
}

uint64_t key_number(const block_key *key) {
    uint64_t x = 0;
    for (int i = 8; i-- > 0;) x = x << 8 | key->byte[i];
    return x;
}

bool key_is(const block_key *a, const block_key *b) {
    return memcmp(a->byte, b->byte, KEY_BYTES) == 0;
}
