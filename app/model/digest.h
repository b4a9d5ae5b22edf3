/* digest.h - a hash over named fields: BLAKE2b-256, in which each field stands with the length of its name, its name,
 * the length of its value and its value, so that no two lists of fields are the same bytes. */
#ifndef APP_DIGEST_H
#define APP_DIGEST_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32 };

typedef struct digest {
    crypto_generichash_state state;
} digest;

void digest_begin(digest *d, const char *what); /* what the fields are of */
void digest_bytes(digest *d, const char *name, const void *bytes, size_t n);
void digest_text(digest *d, const char *name, const char *text);
void digest_number(digest *d, const char *name, uint64_t v);
void digest_real(digest *d, const char *name, float v); /* its 32 bits */
void digest_end(digest *d, uint8_t out[DIGEST_BYTES]);

/* Lower-case, and a 0 behind it. */
enum { DIGEST_HEX = 2 * DIGEST_BYTES + 1 };
void digest_hex(const uint8_t bytes[DIGEST_BYTES], char out[DIGEST_HEX]);

#endif
