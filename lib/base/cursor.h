/* cursor.h - bounded reads of bytes from outside: a cursor knows its end and, once it was asked for more than there is,
 * stays failed and gives zeros. Little-endian, no alignment needed. */
#ifndef KVT_CURSOR_H
#define KVT_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cursor {
    const uint8_t *start, *at, *end;
    bool failed;
} cursor;

cursor cursor_of(const void *data, size_t n);
/* The next n bytes, or NULL (and failed). */
const uint8_t *cursor_bytes(cursor *c, uint64_t n);
uint8_t cursor_u8(cursor *c);
uint16_t cursor_u16(cursor *c);
uint32_t cursor_u32(cursor *c);
uint64_t cursor_u64(cursor *c);
static inline size_t cursor_left(const cursor *c) { return (size_t)(c->end - c->at); }
static inline size_t cursor_offset(const cursor *c) { return (size_t)(c->at - c->start); }

#endif
