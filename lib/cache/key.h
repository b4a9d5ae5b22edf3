/* key.h - what a block is, as a hash: keyed BLAKE2b of 256 bits over tagged fields, each with its length. */
#ifndef KVT_KEY_H
#define KVT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtile.h"
#include "layer.h"

enum { KEY_BYTES = 32 };

typedef struct block_key {
    uint8_t byte[KEY_BYTES];
} block_key;

/* Once in a process, before the others; any thread. */
void key_open(void);

/* Shape of the layers, formats, blocks: what a block's bytes depend on besides identity, tokens and arithmetic. */
block_key key_layout(const kvt_options *opt, const layout *l);
/* The parent of all first blocks: everything that bytes depend on but the tokens. secret: [32]. */
block_key key_root(const kvt_options *opt, const layout *l, const uint8_t *secret);
/* n_tokens tokens behind what `parent` stands for. */
block_key key_next(const uint8_t *secret, const block_key *parent, const int32_t *tokens, int n_tokens);
/* Number `index` among the blocks of one sequence of one cache: nobody else's. nonce: [16] of the cache. */
block_key key_private(const uint8_t *secret, const uint8_t *nonce, kvt_seq seq, int index);

/* The first bits of a key, 1 .. 256, the others 0: what a record or an entry is looked up by. */
block_key key_cut(const block_key *key, int bits);
/* The first 64 as a number. */
uint64_t key_number(const block_key *key);
bool key_is(const block_key *a, const block_key *b);

#endif
