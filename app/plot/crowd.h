/* crowd.h - where texts find room: what is drawn already, and the best place for one more. Pixels, y down. */
#ifndef PLOT_CROWD_H
#define PLOT_CROWD_H

#include <stdbool.h>

typedef struct box {
    double x0, y0, x1, y1;
} box;

/* A straight piece from (x0, y0) to (x1, y1). */
typedef struct segment {
    double x0, y0, x1, y1;
} segment;

typedef struct size {
    double w, h;
} size;

/* A place for a text: its centre, and the direction it is read in. */
typedef struct spot {
    double x, y, ux, uy;
    double cost; /* SPOT_NONE: there is no place yet */
    bool apart;  /* so far from its point that a stroke should join them */
} spot;

extern const spot SPOT_NONE;

typedef struct crowd {
    box frame;         /* texts stay inside */
    box *boxes;        /* [n_boxes] texts and marks: nothing may lie on them */
    segment *segments; /* [n_segments] lines: better not crossed */
    int n_boxes, n_segments, boxes_room, segments_room;
    bool failed; /* no memory: something is missing */
} crowd;

void crowd_free(crowd *c);
void crowd_add_box(crowd *c, box b);
void crowd_add_segment(crowd *c, segment s);

/* Try the places around a point, `gap` away from it and farther, or along both sides of a segment; *best becomes the
 * cheapest place seen so far. */
void crowd_try_beside(const crowd *c, double x, double y, double gap, size text, spot *best);
void crowd_try_along(const crowd *c, segment s, size text, spot *best);
bool spot_found(const spot *s);
/* From now on a text stands there. */
void crowd_take(crowd *c, const spot *s, size text);

/* The part of a segment inside a box; false: there is none. */
bool segment_clip(segment *s, box b);

#endif
