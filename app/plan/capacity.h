/* capacity.h - what a shape's cache takes and costs: bytes, how many sequences and tokens fit, floors of time. The
 * bytes of a layer are kvt_layer_bytes', and nobody else's. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include <stdint.h>

#include "shape.h"

enum { CAPACITY_MOST = 1 << 30 }; /* tokens of a sequence, and sequences; more is no plan */

typedef struct capacity_options {
    kvt_format k_format, v_format;
    int block_tokens, hot_tokens;
    int64_t tokens, sequences; /* what is planned for, 1 .. CAPACITY_MOST each */
    int64_t answer;            /* of the tokens, those that are answered, 0 .. tokens - 1 */
    int chunk;                 /* tokens of a step of a prompt */
    double memory;             /* bytes there are; 0: not told */
    double bandwidth, flops;   /* of the machine per second; 0: not told */
} capacity_options;

/* Of a shape's layers, or of a group of them. */
typedef struct capacity_bytes {
    size_t per_token;      /* in all layers that keep tokens */
    size_t per_token_long; /* in those without a window: what a long context grows by */
    size_t fixed;          /* of a sequence, however long: states */
    size_t sequence;       /* of one sequence */
    size_t sequence_reserved; /* the same in whole blocks */
    size_t all, reserved;     /* of all sequences: what they hold, and in whole blocks, as an allocator counts */
} capacity_bytes;

/* Of sequences of so many tokens each. KVT_E_LIMIT: more than a size_t counts. */
kvt_status capacity_bytes_of(const shape *s, const capacity_options *opt, int64_t tokens, int64_t sequences,
                             capacity_bytes *out);
/* Likewise of one group alone; out is set to what it adds. */
kvt_status capacity_group(const shape_group *g, const capacity_options *opt, int64_t tokens, int64_t sequences,
                          capacity_bytes *out);

/* The most tokens, 0 .. CAPACITY_MOST, for which so many sequences stay within `room` bytes in whole blocks. */
int64_t capacity_tokens_within(const shape *s, const capacity_options *opt, int64_t sequences, double room);

typedef struct capacity {
    capacity_bytes bytes;
    double weights, scratch, needed; /* bytes; needed is these and the cache in whole blocks */
    double tables; /* of scratch, the library's: block tables, what its attention works in, hot places of a step */
    double spare;                    /* memory - needed; 0 where the memory is not told */

    /* In the memory, beside weights and the scratch of so many: 0: not even one; -1: not told; CAPACITY_MOST: that many
     * or more, as where nothing grows with them. */
    int64_t sequences_max, tokens_max;
    int64_t tokens_outweigh; /* tokens in all from which on the cache is larger than the weights; 0: never, unknown */

    int64_t positions_cached, positions_recomputed; /* pushed through the model for one sequence */

    /* below 0: not known */
    double step_bytes, step_ms; /* a step of decode of all sequences: what it reads, how long that takes at least */
    double step_weights;        /* of step_bytes, those of weights */
    double prefill_flop, prefill_ms; /* of one sequence's prompt */
} capacity;

/* KVT_E_LIMIT: more bytes than can be counted; the error says of what. */
kvt_status capacity_of(const shape *s, const capacity_options *opt, capacity *out, error_text *err);

/* Of the rows of float32 that a step of `chunk` tokens holds: two on their way through a layer, the queries, keys,
 * values and what attention gives, two of the feed-forward part; and a row of logits for each sequence. */
double capacity_rows_bytes(const shape *s, const capacity_options *opt);

/* Bytes that a step of decode reads of the caches of all sequences at so many tokens; below 0: too many to count. Of a
 * layer that chooses its tokens, the index keys of all and the rest of those it chose. */
double capacity_read_bytes(const shape *s, const capacity_options *opt, int64_t tokens);
/* Bytes of weights that it reads: all that a token meets, the embedding only where it is the output matrix too;
 * 0: unknown. */
double capacity_read_weights(const shape *s);

#endif
