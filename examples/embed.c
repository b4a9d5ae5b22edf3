/* embed.c - kvtile in another program: a toy model on top of kvtile.h alone.
 *
 *     cc examples/embed.c -lkvtile -o embed && ./embed && ./embed FOLDER && ./embed FOLDER
 *
 * The model is two layers of attention with random weights, 32 words, and no sense. What it shows is the use of the
 * cache: a prompt in one step, an answer token by token, a fork that answers differently, a prompt that begins like one
 * that was computed, and what they share. With a folder, the second run finds there what the first has computed. */
#include <stdio.h>
#include <stdlib.h>

#include "kvtile.h"

enum { N_LAYERS = 2, N_HEADS_Q = 4, N_HEADS_KV = 2, DIM = 16, WIDTH = N_HEADS_Q * DIM, N_WORDS = 32, ROWS_MAX = 64 };

static float embedding[N_WORDS][WIDTH], place[ROWS_MAX][WIDTH], head[N_WORDS][WIDTH],
    wq[N_LAYERS][WIDTH][WIDTH], wk[N_LAYERS][N_HEADS_KV * DIM][WIDTH], wv[N_LAYERS][N_HEADS_KV * DIM][WIDTH],
    wo[N_LAYERS][WIDTH][WIDTH];

/* Every call of kvtile.h says how it went; an example may stop at the first that went wrong. */
static void check(kvt_status status, const char *what) {
    if (status == KVT_OK) return;
    fprintf(stderr, "%s: %s\n", what, kvt_status_text(status));
    exit(1);
}

static void print_log(void *ctx, kvt_log_level level, const char *message) {
    (void)ctx;
    (void)level;
    fprintf(stderr, "kvtile: %s\n", message);
}

/* The same random weights on every run. */
static void weights_make(float *w, size_t n, float size) {
    static uint32_t state = 1;
    for (size_t i = 0; i < n; i++) w[i] = ((float)((state = state * 1664525 + 1013904223) >> 8) / (1 << 23) - 1) * size;
}

/* y[i] (+)= w[i] . x */
static void product(const float *w, int n_out, const float *x, float *y, int add) {
    for (int i = 0; i < n_out; i++) {
        float sum = add ? y[i] : 0;
        for (int j = 0; j < WIDTH; j++) sum += w[i * WIDTH + j] * x[j];
        y[i] = sum;
    }
}

/* One step: n new tokens of one sequence go through the model. Returns the word that follows. */
static int step(kvt_cache *cache, kvt_seq seq, const int32_t *tokens, int n) {
    static float x[ROWS_MAX][WIDTH], q[ROWS_MAX][WIDTH], k[ROWS_MAX][N_HEADS_KV * DIM], v[ROWS_MAX][N_HEADS_KV * DIM];
    static float out[ROWS_MAX][WIDTH];
    kvt_batch batch = {.n_seqs = 1, .seqs = &seq, .n_new = &n};
    int first = kvt_seq_length(cache, seq);

    check(kvt_reserve(cache, &batch), "kvt_reserve"); /* a server would free something on KVT_FULL, and retry */
    for (int t = 0; t < n; t++)
        for (int i = 0; i < WIDTH; i++) x[t][i] = embedding[tokens[t]][i] + place[first + t][i];
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (int t = 0; t < n; t++) {
            product(wq[layer][0], WIDTH, x[t], q[t], 0);
            product(wk[layer][0], N_HEADS_KV * DIM, x[t], k[t], 0);
            product(wv[layer][0], N_HEADS_KV * DIM, x[t], v[t], 0);
        }
        check(kvt_attend(cache, layer, &batch, q[0], k[0], v[0], out[0]), "kvt_attend");
        for (int t = 0; t < n; t++) product(wo[layer][0], WIDTH, out[t], x[t], 1);
    }
    check(kvt_commit(cache, &batch, tokens), "kvt_commit"); /* from here on the tokens exist */

    float logits[N_WORDS];
    int best = 0;
    product(head[0], N_WORDS, x[n - 1], logits, 0);
    for (int i = 1; i < N_WORDS; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* A prompt, less what is known of it: of another sequence, or in the folder. Returns the word that follows. */
static int begin(kvt_cache *cache, kvt_seq seq, const int32_t *prompt, int n) {
    kvt_match_result hit;
    check(kvt_match(cache, seq, prompt, n, NULL, &hit), "kvt_match");
    while (hit.n_coming > 0) { /* a server would let other sequences go on meanwhile */
        check(kvt_wait(cache, -1), "kvt_wait");
        check(kvt_match(cache, seq, prompt, n, NULL, &hit), "kvt_match");
    }
    printf("of a prompt of %d tokens %d are known (%s)\n", n, hit.n_tokens, kvt_miss_name(hit.reason));
    return step(cache, seq, prompt + hit.n_tokens, n - hit.n_tokens);
}

/* n words more, each computed from the one before and from what the cache keeps. */
static void answer(kvt_cache *cache, kvt_seq seq, int32_t word, int n) {
    for (int i = 0; i < n; i++) word = step(cache, seq, &word, 1);
}

static void print_tokens(kvt_cache *cache, const char *name, kvt_seq seq) {
    int32_t tokens[ROWS_MAX];
    int n = kvt_seq_length(cache, seq);
    check(kvt_seq_tokens(cache, seq, 0, n, tokens), "kvt_seq_tokens");
    printf("%-9s", name);
    for (int i = 0; i < n; i++) printf(" %d", tokens[i]);
    printf("\n");
}

static void print_stats(kvt_cache *cache) {
    kvt_stats s;
    check(kvt_stats_get(cache, &s), "kvt_stats_get");
    printf("%zu tokens held, %zu stored, in %zu blocks, of which %zu are shared\n", s.tokens_held, s.tokens_stored,
           s.blocks_used, s.blocks_shared);
}

int main(int argc, char **argv) {
    weights_make(embedding[0], N_WORDS * WIDTH, 1);
    weights_make(place[0], ROWS_MAX * WIDTH, 1);
    weights_make(wq[0][0], N_LAYERS * WIDTH * WIDTH, 0.3f);
    weights_make(wk[0][0], N_LAYERS * N_HEADS_KV * DIM * WIDTH, 0.3f);
    weights_make(wv[0][0], N_LAYERS * N_HEADS_KV * DIM * WIDTH, 0.3f);
    weights_make(wo[0][0], N_LAYERS * WIDTH * WIDTH, 0.3f);
    weights_make(head[0], N_WORDS * WIDTH, 1);

    /* Describe what each layer keeps; open asks for all the memory there will be. */
    kvt_layer layers[N_LAYERS];
    for (int i = 0; i < N_LAYERS; i++)
        layers[i] = (kvt_layer){.n_heads_q = N_HEADS_Q, .n_heads_kv = N_HEADS_KV, .dim_k = DIM, .dim_v = DIM};
    kvt_options options = kvt_options_default();
    options.layers = layers;
    options.n_layers = N_LAYERS;
    options.tokens_max = ROWS_MAX;
    options.block_tokens = 16;
    options.log = print_log;

    /* Where blocks outlive this process. What keys and values depend on must be in the identity: here the weights are
     * always the same, so their name will do; of a real model it is a hash of them. */
    static const uint8_t identity[32] = "the toy model of embed.c";
    kvt_tier *tier = NULL;
    if (argc > 1) check(kvt_tier_disk(&tier, argv[1], 1 << 20, print_log, NULL), argv[1]);
    options.identity = identity;
    options.tiers = &tier;
    options.n_tiers = argc > 1;
    kvt_cache *cache;
    check(kvt_open(&cache, &options), "kvt_open");

    /* A prompt of 20 tokens in one step, then an answer of 8. */
    int32_t prompt[20];
    for (int i = 0; i < 20; i++) prompt[i] = i % 5;
    kvt_seq first, second, third;
    check(kvt_seq_new(cache, &first), "kvt_seq_new");
    int word = begin(cache, first, prompt, 20);
    answer(cache, first, word, 8);

    /* The same prompt, answered from another first word, without computing it again. */
    check(kvt_seq_fork(cache, first, &second), "kvt_seq_fork");
    check(kvt_seq_truncate(cache, second, 20), "kvt_seq_truncate");
    answer(cache, second, (word + 1) % N_WORDS, 8);

    /* Another prompt, that goes on otherwise behind 18 tokens: the full block of them is taken as it lies. */
    prompt[18] = 31;
    check(kvt_seq_new(cache, &third), "kvt_seq_new");
    answer(cache, third, begin(cache, third, prompt, 20), 8);

    print_tokens(cache, "first:", first);
    print_tokens(cache, "second:", second);
    print_tokens(cache, "third:", third);
    print_stats(cache);
    check(kvt_seq_free(cache, first), "kvt_seq_free");
    check(kvt_seq_free(cache, second), "kvt_seq_free");
    check(kvt_seq_free(cache, third), "kvt_seq_free");
    kvt_close(cache); /* writes what is still to be written */
    kvt_tier_close(tier);
    return 0;
}
