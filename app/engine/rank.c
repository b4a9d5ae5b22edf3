/* rank.c - see rank.h. What is kept is found in two passes whatever its size: counting by coarse key drops what cannot
 * be among the first, sorting by digits orders the rest. */
#include "rank.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bits.h"

enum {
    N_BINS = 1024,
    DIGIT_BITS = 11, /* three digits of 11 bits hold a float's 32 */
    N_DIGITS = 1 << DIGIT_BITS,
};

typedef struct bins {
    float lowest;
    double per_key;
    int count[N_BINS];
    double weight[N_BINS];
} bins;

static int bin_of(const bins *b, float key) {
    return (int)(((double)key - (double)b->lowest) * b->per_key);
}

/* False: all keys are equal. */
static bool bins_fill(bins *b, const candidate *list, int n) {
    float highest = list[0].key;
    *b = (bins){ .lowest = list[0].key };
    for (int i = 1; i < n; i++) {
        if (list[i].key < b->lowest) b->lowest = list[i].key;
        if (list[i].key > highest) highest = list[i].key;
    }
    if (highest == b->lowest) return false;
    b->per_key = (N_BINS - 1) / ((double)highest - (double)b->lowest);
    for (int i = 0; i < n; i++) {
        int bin = bin_of(b, list[i].key);
        b->count[bin]++;
        b->weight[bin] += list[i].weight;
    }
    return true;
}

/* Drop what lies in bins behind the first ones that hold enough; what is left stays in its order. */
static int drop(candidate *list, int n, int most, double mass) {
    bins b;
    if (!bins_fill(&b, list, n)) return n;
    /* Bins add up in another order than tokens do: 10^-9 is more than rounding can make of a vocabulary's sum. */
    double enough = mass * (1 + 1e-9), weight = 0;
    int last = -1, count = 0, left = 0;
    while (last < N_BINS - 1 && count < most && (last < 0 || weight < enough)) {
        last++;
        count += b.count[last];
        weight += b.weight[last];
    }
    for (int i = 0; i < n; i++)
        if (bin_of(&b, list[i].key) <= last) list[left++] = list[i];
    return left;
}

/* A float's bits as an integer that orders as the floats do. */
static uint32_t ordered(float key) {
    uint32_t bits = bits_of_f32(key);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static void sort_by_digit(const candidate *from, candidate *to, int n, int shift) {
    int place[N_DIGITS + 1] = { 0 };
    for (int i = 0; i < n; i++) place[((ordered(from[i].key) >> shift) & (N_DIGITS - 1)) + 1]++;
    for (int d = 0; d < N_DIGITS; d++) place[d + 1] += place[d];
    for (int i = 0; i < n; i++) to[place[(ordered(from[i].key) >> shift) & (N_DIGITS - 1)]++] = from[i];
}

static void sort(candidate *list, candidate *scratch, int n) {
    sort_by_digit(list, scratch, n, 0);
    sort_by_digit(scratch, list, n, DIGIT_BITS);
    sort_by_digit(list, scratch, n, 2 * DIGIT_BITS);
    memcpy(list, scratch, (size_t)n * sizeof *list);
}

int rank_first(candidate *list, candidate *scratch, int n, int most, double mass) {
    int kept = 0;
    double sum = 0;
    n = drop(list, n, most, mass);
    sort(list, scratch, n);
    while (kept < n && (kept == 0 || (kept < most && sum < mass))) sum += list[kept++].weight;
    return kept;
}
