/* blocks.c - the memory that the bench reads: blocks of keys and values as tiles or as rows, and orders of reading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "blocks.h"

enum { PATTERNS = 61 }; /* different blocks; the others are copies of them */

/* Where in a block a head's keys (v 0) or values (v 1) begin. */
static size_t head_at(const shape *s, bool together, int head, int v) {
    const size_t n = (size_t)(together ? v * s->n_heads + head : 2 * head + v);
    return n * 2 * piece_bytes(s);
}

static void out_of_memory(void) {
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}
float noise(uint32_t n) { return (float)(int32_t)mix(n) * 0x1p-31f; }

static void fill_token(const shape *s, uint8_t *block, bool tiles, bool together, int pattern, int head, int token) {
    const element_format *bf16 = element_format_of(ELEMENT_BF16);
    for (int v = 0; v < 2; v++) {
        uint8_t *piece = block + head_at(s, together, head, v) + (size_t)(token / TILE) * piece_bytes(s);
        float x[DIM_MAX];
        for (int d = 0; d < s->dim; d++) {
            x[d] = noise((uint32_t)((((pattern * 8 + head) * BLOCK + token) * 2 + v) * DIM_MAX + d));
        }
        if (tiles && v) bf16->put_v(piece, token % TILE, x, s->dim, s->dim);
        else if (tiles) bf16->put_k(piece, token % TILE, x, s->dim);
        else for (int d = 0; d < s->dim; d++) ((uint16_t *)piece)[token % TILE * s->dim + d] = f32_to_bf16(x[d]);
    }
}

uint8_t *arena_make(const shape *s, bool tiles, bool together) {
    const size_t bytes = block_bytes(s);
    const int n_blocks = s->n_tokens / BLOCK;
    uint8_t *arena = mem_take(NULL, bytes * (size_t)n_blocks);
    if (!arena) out_of_memory();
    for (int i = 0; i < n_blocks; i++) {
        if (i >= PATTERNS) {
            memcpy(arena + (size_t)i * bytes, arena + (size_t)(i % PATTERNS) * bytes, bytes);
            continue;
        }
        for (int head = 0; head < s->n_heads; head++) {
            for (int t = 0; t < BLOCK; t++) fill_token(s, arena + (size_t)i * bytes, tiles, together, i, head, t);
        }
    }
    return arena;
}

const void **stream_make(const shape *s, const uint8_t *arena, const int *table, bool together) {
    const int at_once = together ? s->n_heads : 1;
    const size_t n_pieces = (size_t)(s->n_tokens / TILE * 2 * s->n_heads);
    const void **stream = malloc((n_pieces + AHEAD_MAX) * sizeof *stream);
    if (!stream) out_of_memory();
    size_t n = 0;
    for (int segment = 0; segment < s->n_tokens / ATTN_SEGMENT; segment++) {
        for (int first = 0; first < s->n_heads; first += at_once) {
            for (int i = 0; i < 2 * SEGMENT_PAIRS * at_once; i++) {
                const int step = i / (2 * STEP_PAIRS * at_once), v = i / (STEP_PAIRS * at_once) % 2;
                const int pair = i / at_once % STEP_PAIRS, head = first + i % at_once;
                const int block = table[segment * SEGMENT_PAIRS + step * STEP_PAIRS + pair];
                const uint8_t *p = arena + (size_t)block * block_bytes(s) + head_at(s, together, head, v);
                stream[n++] = p;
                stream[n++] = p + piece_bytes(s);
            }
        }
    }
    for (int i = 0; i < AHEAD_MAX; i++) stream[n + (size_t)i] = stream[n - 1];
    return stream;
}

int *table_make(const shape *s, size_t resident) {
    const int n = s->n_tokens / BLOCK;
    int *table = malloc((size_t)n * sizeof *table);
    if (!table) out_of_memory();
    for (int i = 0; i < n; i++) table[i] = i;
    for (int i = n - 1; i > 0; i--) {
        const int j = (int)(mix((uint32_t)i) % (uint32_t)(i + 1)), t = table[i];
        table[i] = table[j];
        table[j] = t;
    }
    for (int i = 0; resident && i < n; i++) table[i] = i % (int)(resident / block_bytes(s));
    return table;
}
