/* formats.c - see formats.h. */
#include "formats.h"

/* kNvM: keys in codes of N bits, values of M. The last rows are other words for what has one. */
static const format_pair pairs[] = {
    { "k8v8", KVT_INT8, KVT_INT8 }, { "k8v4", KVT_INT8, KVT_INT4 }, { "k4v4", KVT_INT4, KVT_INT4 },
    { "k4v2", KVT_INT4, KVT_INT2 }, { "k3v3", KVT_INT3, KVT_INT3 }, { "k3v2", KVT_INT3, KVT_INT2 },
    { "k2v2", KVT_INT2, KVT_INT2 }, { "fp8", KVT_E4M3, KVT_E4M3 },
};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0], N_SYNONYMS = 1 };

static int n_singles(void) {
    int n = 0;
    while (kvt_format_name((kvt_format)n)) n++;
    return n;
}

const char *format_word(int i) {
    return kvt_format_name((kvt_format)i);
}

format_pair format_pair_at(int i) {
    int n = n_singles();
    if (i < n) return (format_pair){ format_word(i), (kvt_format)i, (kvt_format)i };
    return i < n + N_PAIRS ? pairs[i - n] : (format_pair){ NULL, KVT_BF16, KVT_BF16 };
}

const char *format_pair_word(int i) {
    return format_pair_at(i).name;
}

/* Is there a pair's word for a single format? */
static bool has_pair(int format) {
    for (int i = 0; i < N_PAIRS - N_SYNONYMS; i++)
        if ((int)pairs[i].k == format && (int)pairs[i].v == format) return true;
    return false;
}

int format_row_next(int i) {
    int n = n_singles();
    while (i < n && has_pair(i)) i++;
    return i < n + N_PAIRS - N_SYNONYMS ? i : -1;
}

/* -------------------------------------------------------------------------------------------- what they take */

bool format_cost_of(const kvt_layer *layers, int n_layers, format_pair pair, int block_tokens, format_cost *out) {
    double elements = 0;
    *out = (format_cost){ 0 };
    for (int i = 0; i < n_layers; i++) {
        const kvt_layer *l = &layers[i];
        kvt_layer_use use;
        if (kvt_layer_bytes(l, pair.k, pair.v, block_tokens, 1, &use) != KVT_OK) return false;
        out->bytes_per_token += use.bytes_per_token;
        elements += (double)l->n_heads_kv * (l->dim_k + l->dim_v);
    }
    if (elements > 0) out->bits = 8 * (double)out->bytes_per_token / elements;
    return true;
}
