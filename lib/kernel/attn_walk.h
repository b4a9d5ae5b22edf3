/* attn_walk.h - what the walk over a segment (attn.c) and the sealed tiles of its steps (attn_sealed.c) share. */
#ifndef KVT_ATTN_WALK_H
#define KVT_ATTN_WALK_H

#include "base/ints.h"
#include "kernel.h"

/* Tiles (or pairs of them) of the segment: first .. end - 1. */
typedef struct span {
    int first, end;
} span;

static inline int span_has(span s, int i) { return i >= s.first && i < s.end; }
static inline int span_length(span s) { return s.end > s.first ? s.end - s.first : 0; }
static inline span span_cut(span a, span b) {
    return (span){a.first > b.first ? a.first : b.first, int_least(a.end, b.end)};
}

/* Keys or values of the segment. */
typedef struct side {
    const kv_format *format;
    const void *const *tile;       /* [n_heads][SEGMENT_TILES] */
    const uint16_t **scale;        /* [n_heads][SEGMENT_TILES] bf16 [16] of sealed tiles; of hot ones beside float8 1 */
    int keys;                      /* 0: values */
    int number, hot;               /* of the format; of the element format of hot tiles */
    size_t dim, tile_bytes;        /* of a tile that is sealed, or of a hot one where none is */
    span codes, float8;            /* which of the tiles that are seen are sealed so; one of both is empty */
} side;

typedef struct walk {
    const kernels *k;
    const attn_segment *seg;
    attn_scratch *scratch;
    side keys, values;
    int n_tiles;               /* that any row sees */
    const void *const *stream; /* what is read next */
    int ahead;                 /* tiles between what is read and what is prefetched */
    size_t ahead_bytes;        /* that every tile of the stream has */
    float *m, *o;
} walk;

/* Pointers to scales, and queries as integers. */
void sealed_begin(walk *w);

/* Scales and centroids of the sealed tiles among these are needed soon. */
void sealed_prefetch(const walk *w, const side *side, span tiles);

/* Heads whose tiles in codes are read together, and how many tiles of each in turn. */
int sealed_heads(const walk *w, const side *side);
int sealed_group(const walk *w, const side *side, span tiles);

/* Scores of the keys of a step that lie in codes, and their values added to o. */
void sealed_scores(walk *w, span step);
void sealed_values(walk *w, span step);

/* The next n tiles of the stream, tile first .. of the segment, those in float8 widened to bf16. Valid until the next
 * call. */
const void *const *sealed_widened(const walk *w, const side *side, int first, int n);

/* How many pairs of tiles of a side can be widened at once. */
int sealed_pairs_most(const side *side);

#endif
