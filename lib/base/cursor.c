/* cursor.c - see cursor.h. */
#include "base/cursor.h"

#include <string.h>

cursor cursor_of(const void *data, size_t n) {
    static const uint8_t nothing;
    const uint8_t *p = data ? data : &nothing; /* an empty file may come as NULL, to which not even 0 may be added */
    return (cursor){p, p, p + n, false};
}

const uint8_t *cursor_bytes(cursor *c, uint64_t n) {
    if (c->failed || n > cursor_left(c)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *p = c->at;
    c->at += n;
    return p;
}

static uint64_t little(cursor *c, size_t n) {
    const uint8_t *p = cursor_bytes(c, n);
    uint64_t v = 0;
    for (size_t i = 0; p && i < n; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t cursor_u8(cursor *c) { return (uint8_t)little(c, 1); }
uint16_t cursor_u16(cursor *c) { return (uint16_t)little(c, 2); }
uint32_t cursor_u32(cursor *c) { return (uint32_t)little(c, 4); }
uint64_t cursor_u64(cursor *c) { return little(c, 8); }
