/* crowd.c - greedy placing of texts: each takes the cheapest free place, and nobody moves for a later one. */
#include "crowd.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

static const double BLOCKED = 1e9;      /* of a place that cannot be */
static const double CROSSED = 10;       /* for each line under the text, up to CROSSED_MOST */
static const double CROSSED_MOST = 40;
static const double FARTHER = 6;        /* for each ring away from the point */
static const double AIR = 3;            /* pixels around a text */
enum { RINGS = 4, SEGMENT_PLACES = 5 };

const spot SPOT_NONE = { .ux = 1, .cost = 1e9 };

bool spot_found(const spot *s) {
    return s->cost < BLOCKED;
}

/* ---------------------------------------------------------------------------------------- what is there */

/* Room for one more item behind n; false: no memory. */
static bool grow(void **items, int n, int *room, size_t item_bytes) {
    if (n < *room) return true;
    if (n > INT32_MAX / 4) return false;
    int more = n < 64 ? 64 : 2 * n;
    void *grown = realloc(*items, (size_t)more * item_bytes);
    if (!grown) return false;
    *items = grown;
    *room = more;
    return true;
}

void crowd_add_box(crowd *c, box b) {
    void *items = c->boxes;
    bool taken = grow(&items, c->n_boxes, &c->boxes_room, sizeof b);
    c->boxes = items;
    if (taken) c->boxes[c->n_boxes++] = b;
    else c->failed = true;
}

void crowd_add_segment(crowd *c, segment s) {
    void *items = c->segments;
    bool taken = grow(&items, c->n_segments, &c->segments_room, sizeof s);
    c->segments = items;
    if (taken) c->segments[c->n_segments++] = s;
    else c->failed = true;
}

void crowd_free(crowd *c) {
    free(c->boxes);
    free(c->segments);
    *c = (crowd){ 0 };
}

/* -------------------------------------------------------------------------------------------- geometry */

/* One edge of Liang and Barsky's clipping: the segment's share from *t0 to *t1 shrinks to the side where p * t <= q. */
static bool clip_edge(double p, double q, double *t0, double *t1) {
    if (p == 0) return q >= 0;
    double t = q / p;
    if (p < 0 && t > *t0) *t0 = t;
    if (p > 0 && t < *t1) *t1 = t;
    return *t0 <= *t1;
}

bool segment_clip(segment *s, box b) {
    double dx = s->x1 - s->x0, dy = s->y1 - s->y0, t0 = 0, t1 = 1;
    if (!clip_edge(-dx, s->x0 - b.x0, &t0, &t1) || !clip_edge(dx, b.x1 - s->x0, &t0, &t1) ||
        !clip_edge(-dy, s->y0 - b.y0, &t0, &t1) || !clip_edge(dy, b.y1 - s->y0, &t0, &t1))
        return false;
    *s = (segment){ s->x0 + t0 * dx, s->y0 + t0 * dy, s->x0 + t1 * dx, s->y0 + t1 * dy };
    return true;
}

static bool boxes_meet(box a, box b) {
    return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

/* A text as upright boxes: one, or where it is turned a chain of squares along it. Piece i of n. */
static box piece(const spot *s, size text, int i, int n) {
    double along = n == 1 ? 0 : ((i + 0.5) / n - 0.5) * (text.w - text.h) * n / (n - 1);
    double w = n == 1 ? text.w * fabs(s->ux) + text.h * fabs(s->uy) : text.h;
    double h = n == 1 ? text.w * fabs(s->uy) + text.h * fabs(s->ux) : text.h;
    double x = s->x + along * s->ux, y = s->y + along * s->uy;
    return (box){ x - w / 2 - AIR, y - h / 2 - AIR, x + w / 2 + AIR, y + h / 2 + AIR };
}

static int pieces(const spot *s, size text) {
    if (s->ux == 0 || s->uy == 0 || text.w < 2 * text.h) return 1;
    return (int)(text.w / text.h) + 1;
}

/* A point as the text sees it: its centre is 0, x the direction it is read in. */
static void seen_from(const spot *s, double *x, double *y) {
    double dx = *x - s->x, dy = *y - s->y;
    *x = dx * s->ux + dy * s->uy;
    *y = dy * s->ux - dx * s->uy;
}

/* The text's own box, in the directions that it sees. */
static box own_box(size text) {
    return (box){ -text.w / 2 - AIR, -text.h / 2 - AIR, text.w / 2 + AIR, text.h / 2 + AIR };
}

/* Two rectangles meet unless one of their four directions shows a gap between them. `bounds` is the text's upright
 * box. */
static bool text_meets(const spot *s, size text, box bounds, box b) {
    if (!boxes_meet(bounds, b)) return false;
    double x = (b.x0 + b.x1) / 2, y = (b.y0 + b.y1) / 2, w = b.x1 - b.x0, h = b.y1 - b.y0;
    double across = w * fabs(s->ux) + h * fabs(s->uy), up = w * fabs(s->uy) + h * fabs(s->ux);
    seen_from(s, &x, &y);
    return boxes_meet(own_box(text), (box){ x - across / 2, y - up / 2, x + across / 2, y + up / 2 });
}

static bool text_crossed(const spot *s, size text, segment line) {
    seen_from(s, &line.x0, &line.y0);
    seen_from(s, &line.x1, &line.y1);
    return segment_clip(&line, own_box(text));
}

static bool holds(box b, double x, double y) {
    return x >= b.x0 && x <= b.x1 && y >= b.y0 && y <= b.y1;
}

/* ---------------------------------------------------------------------------------------------- places */

static double cost_of(const crowd *c, const spot *s, size text) {
    double cost = 0;
    box b = piece(s, text, 0, 1);
    if (b.x0 < c->frame.x0 || b.y0 < c->frame.y0 || b.x1 > c->frame.x1 || b.y1 > c->frame.y1) return BLOCKED;
    for (int i = 0; i < c->n_boxes; i++)
        if (text_meets(s, text, b, c->boxes[i])) return BLOCKED;
    for (int i = 0; i < c->n_segments && cost < CROSSED_MOST; i++)
        if (text_crossed(s, text, c->segments[i])) cost += CROSSED;
    return cost;
}

/* What the stroke from a text to its point runs over, except what lies on the point itself. */
static double stroke_cost(const crowd *c, const spot *s, double x, double y) {
    double cost = 0;
    for (int i = 0; i < c->n_boxes && cost < CROSSED_MOST; i++) {
        segment stroke = { x, y, s->x, s->y };
        if (!holds(c->boxes[i], x, y) && segment_clip(&stroke, c->boxes[i])) cost += CROSSED;
    }
    return cost;
}

/* `extra` is what the place costs when nothing is in its way. */
static void spot_try(const crowd *c, spot s, size text, double extra, spot *best) {
    if (extra < best->cost) s.cost = extra + cost_of(c, &s, text);
    if (extra < best->cost && s.cost < best->cost) *best = s;
}

void crowd_try_beside(const crowd *c, double x, double y, double gap, size text, spot *best) {
    /* Right first, since that is how one reads on; then left, above, below, the corners. */
    static const struct {
        int x, y;
    } sides[] = { { 1, 0 }, { -1, 0 }, { 0, -1 }, { 0, 1 }, { 1, -1 }, { -1, -1 }, { 1, 1 }, { -1, 1 } };
    for (int ring = 0; ring < RINGS; ring++)
        for (int i = 0; i < 8; i++) {
            double away = gap + AIR + ring * (text.h + 2 * AIR);
            double corner = sides[i].x && sides[i].y ? 0.7 : 1;
            spot s = { .ux = 1, .apart = ring > 0 };
            s.x = x + sides[i].x * (away * corner + text.w / 2);
            s.y = y + sides[i].y * (away * corner + text.h / 2);
            spot_try(c, s, text, i + ring * FARTHER + (s.apart ? stroke_cost(c, &s, x, y) : 0), best);
        }
}

void crowd_try_along(const crowd *c, segment s, size text, spot *best) {
    /* The end first, where the eye arrives, then the middle, the beginning and what is between. */
    static const double places[SEGMENT_PLACES] = { 1, 0.5, 0, 0.75, 0.25 };
    double dx = s.x1 - s.x0, dy = s.y1 - s.y0, length = sqrt(dx * dx + dy * dy), space = length - text.w - 4 * AIR;
    if (!(space > 0)) return;
    double ux = dx / length, uy = dy / length, sign = ux < 0 || (ux == 0 && uy > 0) ? -1 : 1;
    for (int i = 0; i < 2 * SEGMENT_PLACES; i++) {
        double at = 2 * AIR + text.w / 2 + space * places[i % SEGMENT_PLACES];
        double up = (i < SEGMENT_PLACES ? 1 : -1) * sign * (text.h / 2 + 2 * AIR);
        spot turned = { .ux = sign * ux, .uy = sign * uy };
        turned.x = s.x0 + at * ux + up * uy;
        turned.y = s.y0 + at * uy - up * ux;
        spot_try(c, turned, text, i, best);
    }
}

void crowd_take(crowd *c, const spot *s, size text) {
    int n = pieces(s, text);
    for (int i = 0; i < n; i++) crowd_add_box(c, piece(s, text, i, n));
}
