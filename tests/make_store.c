/* make_store.c - a program for shell tests: a cache of a small model fills a store, through the public calls alone.
 *
 *     make_store DIR FORMAT BLOCKS      so many blocks of 16 tokens, in a space of that format */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvtile.h"

enum { LAYERS = 2, HEADS = 2, DIM = 16, BLOCK = 16 };

static int fail(const char *what, kvt_status status) {
    fprintf(stderr, "make_store: %s: %s\n", what, kvt_status_text(status));
    return 1;
}

static void tell(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    if (level <= KVT_LOG_WARN) fprintf(stderr, "make_store: %s\n", message);
}

/* One block after the other, as a decode would, and its records written. */
static kvt_status fill(kvt_cache *cache, int n_blocks) {
    static float rows[BLOCK * HEADS * DIM];
    int32_t tokens[BLOCK];
    int n = BLOCK;
    kvt_seq seq;
    kvt_status status = kvt_seq_new(cache, &seq);
    kvt_batch batch = {.n_seqs = 1, .seqs = &seq, .n_new = &n};
    for (int block = 0; block < n_blocks && status == KVT_OK; block++) {
        for (int i = 0; i < BLOCK; i++) tokens[i] = block * BLOCK + i;
        for (int i = 0; i < BLOCK * HEADS * DIM; i++) rows[i] = (float)((i + block) % 7);
        status = kvt_reserve(cache, &batch);
        for (int layer = 0; layer < LAYERS && status == KVT_OK; layer++)
            status = kvt_append(cache, layer, &batch, rows, rows);
        if (status == KVT_OK) status = kvt_commit(cache, &batch, tokens);
        if (status == KVT_OK) status = kvt_flush(cache);
    }
    return status;
}

int main(int argc, char **argv) {
    static const uint8_t identity[32] = "make_store";
    kvt_layer layers[LAYERS];
    kvt_options opt = kvt_options_default();
    kvt_tier *tier;
    kvt_cache *cache;
    if (argc != 4 || kvt_format_parse(&opt.k_format, argv[2]) != KVT_OK)
        return fail("DIR FORMAT BLOCKS", KVT_E_ARGUMENT);
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (kvt_layer){.n_heads_q = HEADS, .n_heads_kv = HEADS, .dim_k = DIM, .dim_v = DIM};
    kvt_status status = kvt_tier_disk(&tier, argv[1], 1 << 30, tell, NULL);
    if (status != KVT_OK) return fail(argv[1], status);
    opt.layers = layers;
    opt.n_layers = LAYERS;
    opt.v_format = opt.k_format;
    opt.block_tokens = BLOCK;
    opt.n_threads = 1;
    opt.identity = identity;
    opt.tiers = &tier;
    opt.n_tiers = 1;
    opt.log = tell;
    status = kvt_open(&cache, &opt);
    if (status == KVT_OK) status = fill(cache, atoi(argv[3]));
    kvt_close(cache);
    kvt_tier_close(tier);
    return status == KVT_OK ? 0 : fail("the cache", status);
}
