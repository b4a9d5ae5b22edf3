/* trace.h - a recorded stream of requests: when each came, how long it was, and which prefix blocks it read.
 *
 * Two kinds of file, either of them also as .gz:
 * - JSON lines with hash_ids (a prefix chain of block ids: equal ids, equal blocks and equal blocks before) and, where
 *   the recorder had them, timestamp (ms), input_length, output_length (tokens) and block_size (tokens, the same in all
 *   lines);
 * - CSV with TIMESTAMP,ContextTokens,GeneratedTokens: lengths without ids. */
#ifndef TRACE_H
#define TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/file.h"

enum { TRACE_UNKNOWN = -1 };

typedef struct trace_request {
    double time_ms;           /* below 0: not recorded */
    int64_t n_input, n_output; /* tokens; TRACE_UNKNOWN */
    size_t first;             /* its blocks are trace.block[first .. first + n_blocks - 1] */
    int n_blocks;
} trace_request;

typedef struct trace {
    trace_request *request; /* [n_requests] */
    size_t n_requests;
    int32_t *block; /* [n_blocks] the ids, numbered anew from 0 on in order of first appearance */
    size_t n_blocks;
    int32_t n_distinct;
    int blocks_longest; /* of a request */
    int block_tokens;   /* 0: the file does not say */
} trace;

/* KVT_E_ARGUMENT: cannot be read. KVT_E_CORRUPT: a line that is no request; the error tells which and why.
 * KVT_E_MEMORY. On failure *out is empty. */
kvt_status trace_read(trace *out, const char *path, error_text *err);
void trace_free(trace *t);

/* Blocks of a request that are full, of block_tokens tokens each: the last one may not be. Without a length all are. */
int trace_full_blocks(const trace_request *r, int block_tokens);

#endif
