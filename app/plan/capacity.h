/* capacity.h - what a shape's cache takes and costs: bytes, how many sequences and tokens fit, floors of time. The
 * bytes of a layer are kvt_layer_bytes', and nobody else's. */
#ifndef CAPACITY_H
#define CAPACITY_H

#include <stdint.h>

#include "shape.h"

typedef struct capacity_options {
    kvt_format k_format, v_format;
    int block_tokens;
    int64_t tokens, sequences; /* what is planned for, at least 1 each */
    int64_t answer;            /* of the tokens, those that are answered, 0 .. tokens - 1 */
    int chunk;                 /* tokens of a step of a prompt */
    double memory;             /* bytes there are; 0: not told */
    double bandwidth, flops;   /* of the machine per second; 0: not told */
} capacity_options;

typedef struct capacity {
    /* bytes; doubles where a sum may pass what a size_t holds */
    double bytes_per_token;  /* of the layers that keep all tokens */
    double bytes_fixed;      /* of one sequence, however long: states */
    double bytes_sequence;   /* of one sequence of `tokens` */
    double bytes_cache;      /* of all sequences, in whole blocks */
    double bytes_weights, bytes_scratch, bytes_total;

    double sequences_max, tokens_max; /* in `memory`, weights and scratch taken off; below 1: none. -1: not told */
    double tokens_outweigh; /* tokens in all from which on the cache is larger than the weights; 0: never, or not known */

    double positions_cached, positions_recomputed; /* pushed through the model for one sequence */

    /* below 0: not known */
    double step_bytes, step_ms; /* a step of decode of all sequences: what it reads, how long that takes at least */
    double prefill_flop, prefill_ms; /* of one sequence's prompt */
} capacity;

/* KVT_E_LIMIT: more bytes than 2^62; the error says of what. */
kvt_status capacity_of(const shape *s, const capacity_options *opt, capacity *out, error_text *err);

/* Bytes of one sequence of n tokens in whole blocks, as an allocator counts; below 0: too many to count. */
double capacity_sequence_bytes(const shape *s, const capacity_options *opt, int64_t n_tokens);

/* What one group keeps of one sequence. */
kvt_status capacity_group(const shape_group *g, const capacity_options *opt, int64_t n_tokens, kvt_layer_use *out);

#endif
