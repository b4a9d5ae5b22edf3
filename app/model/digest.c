/* digest.c - see digest.h. */
#include "digest.h"

#include <string.h>

static void put(digest *d, const void *bytes, size_t n) {
    crypto_generichash_update(&d->state, bytes, n);
}

static void bytes_of(uint64_t v, uint8_t out[8]) {
    for (int i = 0; i < 8; i++) out[i] = (uint8_t)(v >> (8 * i));
}

static void put_length(digest *d, size_t n) {
    uint8_t bytes[8];
    bytes_of(n, bytes);
    put(d, bytes, sizeof bytes);
}

void digest_begin(digest *d, const char *what) {
    /* Chooses the code for this processor; more than once does nothing, and without it hashes are right but slow. */
    (void)(sodium_init() == 0);
    crypto_generichash_init(&d->state, NULL, 0, DIGEST_BYTES);
    digest_text(d, "of", what);
}

void digest_bytes(digest *d, const char *name, const void *bytes, size_t n) {
    put_length(d, strlen(name));
    put(d, name, strlen(name));
    put_length(d, n);
    if (n > 0) put(d, bytes, n);
}

void digest_text(digest *d, const char *name, const char *text) {
    digest_bytes(d, name, text, strlen(text));
}

void digest_number(digest *d, const char *name, uint64_t v) {
    uint8_t bytes[8];
    bytes_of(v, bytes);
    digest_bytes(d, name, bytes, sizeof bytes);
}

void digest_real(digest *d, const char *name, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    digest_number(d, name, bits);
}

void digest_end(digest *d, uint8_t out[DIGEST_BYTES]) {
    crypto_generichash_final(&d->state, out, DIGEST_BYTES);
}

void digest_hex(const uint8_t bytes[DIGEST_BYTES], char out[DIGEST_HEX]) {
    sodium_bin2hex(out, DIGEST_HEX, bytes, DIGEST_BYTES);
}
