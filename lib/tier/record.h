/* record.h - the envelope of what goes to a tier: a header of 512 bytes that says what the payload is, and checksums of
 * both. docs/format.md has every byte. What does not prove to be what was asked for is a miss. */
#ifndef KVT_RECORD_H
#define KVT_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "kvtile.h"

enum { RECORD_VERSION = 1, RECORD_HEADER = 512, RECORD_TOKENS_MAX = 64 };

typedef enum record_kind {
    RECORD_BLOCK = 1,   /* a full block, found by its key */
    RECORD_ABOUT = 2,   /* what all records of a space have in common; its name is the space itself */
    RECORD_PRIVATE = 3, /* a block of one sequence of one cache, full or not: swapped out */
} record_kind;

/* What a header says, and what a reader expects it to say. */
typedef struct record {
    uint32_t kind, index, n_tokens; /* index: number of the block in its sequence */
    uint8_t space[32], key[32], parent[32]; /* keys in full, also where a check addresses records by less */
    int32_t tokens[RECORD_TOKENS_MAX];      /* those behind n_tokens are 0 */
    uint64_t payload_bytes;
} record;

/* Hash of pieces, one behind the other. */
uint64_t record_hash(const kvt_piece *pieces, int n_pieces);
/* Bytes of a header; payload_hash of record_hash. */
void record_write(const record *r, uint64_t payload_hash, uint8_t out[RECORD_HEADER]);
/* What a header says; payload_hash is what the payload's hash should be.
 * KVT_E_UNSUPPORTED: of another version. KVT_E_CORRUPT: no header, or a damaged one. Then *out is undefined. */
kvt_status record_read(const uint8_t header[RECORD_HEADER], record *out, uint64_t *payload_hash);
/* Is it in every field the record that was expected? */
int record_is(const record *got, const record *expected);

/* Of which version a header is; 0: it is none. Magic and version stay where they are in every version. */
uint32_t record_version(const uint8_t header[RECORD_HEADER]);

/* A header and its payload: KVT_OK, and the pieces hold the payload, only if all of it is as expected.
 * pieces[0] is the header's: { header, RECORD_HEADER }. */
kvt_status record_check(const kvt_piece *pieces, int n_pieces, const record *expected);

/* Payload of RECORD_ABOUT: what the keys of a space were made of, so that a miss can say what was different, and a line
 * for people. */
enum { RECORD_ABOUT_TEXT = 160, RECORD_ABOUT_BYTES = 7 * 4 + 8 + 2 * 32 + RECORD_ABOUT_TEXT };
typedef struct record_about {
    uint32_t contract, n_layers, k_format, v_format, block_tokens, hot_blocks, math;
    uint64_t bytes_per_block;
    uint8_t identity[32], layout[32];
    char text[RECORD_ABOUT_TEXT]; /* UTF-8, ends with 0 */
} record_about;

void about_write(const record_about *about, uint8_t out[RECORD_ABOUT_BYTES]);
/* KVT_E_CORRUPT: of another length, of blocks that there are not, or its text does not end. */
kvt_status about_read(const uint8_t *payload, size_t n, record_about *out);

#endif
