/* rank.h - the first of many tokens by a key, without sorting those that are not kept.
 *
 * Owns the order. Leaves to others what key and weight mean. */
#ifndef APP_RANK_H
#define APP_RANK_H

typedef struct candidate {
    double weight; /* not negative */
    float key;     /* finite, and no -0 */
    int id;
} candidate;

/* Keep the smallest keys, in order, the earlier place first among equals: no more than it takes for their weights to
 * reach `mass`, at most `most`, at least one; they are then at the list's beginning. scratch [n]. Returns how many. */
int rank_first(candidate *list, candidate *scratch, int n, int most, double mass);

#endif
