/* near.c - the word that somebody who mistyped meant, by the number of slips between the two. */
#include "command.h"

#include <string.h>

enum { WORD_MAX = 40 }; /* longer ones are no slip of the hand, and the table of distances stays small */

static int least_of(int a, int b, int c) {
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Damerau and Levenshtein's distance in its restricted form (no letter is edited twice): row i, column j of the table
 * is the number of edits from the first i letters of a to the first j of b. */
static int distance_of(const char *a, int n_a, const char *b, int n_b) {
    int d[WORD_MAX + 1][WORD_MAX + 1];
    for (int i = 0; i <= n_a; i++) d[i][0] = i;
    for (int j = 0; j <= n_b; j++) d[0][j] = j;
    for (int i = 1; i <= n_a; i++)
        for (int j = 1; j <= n_b; j++) {
            d[i][j] = least_of(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    return d[n_a][n_b];
}

near_word near_of(const char *wanted) {
    return (near_word){ .wanted = wanted };
}

void near_offer(near_word *n, const char *word, int length) {
    size_t n_wanted = strcspn(n->wanted, "="); /* of --name=value the name */
    if (n_wanted > WORD_MAX || length > WORD_MAX) return;
    int letters = (int)(n_wanted - strspn(n->wanted, "-")); /* the dashes may be wrong, and make nothing near */
    int distance = distance_of(n->wanted, (int)n_wanted, word, length);
    if (distance * 3 > letters || (n->best && distance >= n->distance)) return;
    n->best = word;
    n->n_best = length;
    n->distance = distance;
}

option_text near_text(const near_word *n) {
    option_text out = { "" };
    if (n->best) snprintf(out.text, sizeof out.text, "; did you mean %.*s?", n->n_best, n->best);
    return out;
}
