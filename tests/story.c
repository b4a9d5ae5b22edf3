/* story.c - see story.h. */
#include "story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

enum { N_BEGINNINGS = 4, N_TOKENS = 1000 };

static const kvt_layer layer = {.n_heads_q = 1, .n_heads_kv = 1, .dim_k = STORY_DIM, .dim_v = STORY_DIM};

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t state = a * 0x9e3779b97f4a7c15u + b;
    return random_bits(&state);
}

/* Every token is that of its way; ways part now and then, one side is taken more often than the other. */
static void go_on(story *s, int from, uint64_t way, uint64_t *random) {
    for (int i = from; i < s->n; i++) {
        if (random_below(random, 12) == 0) way = mix(way, random_below(random, 4) == 0 ? 2 : 1);
        s->token[i] = (int32_t)(mix(way, (uint64_t)i) % N_TOKENS);
        s->path[i + 1] = mix(s->path[i], (uint64_t)s->token[i] + 1);
    }
}

void story_draw(story *s, int n, uint64_t *random) {
    s->n = n;
    s->path[0] = 1;
    go_on(s, 0, random_below(random, N_BEGINNINGS), random);
}

void story_turn(story *s, int n, uint64_t *random) {
    go_on(s, n, random_bits(random), random);
}

/* ------------------------------------------------------------------------------------------------ caches */

story_plan story_plan_draw(uint64_t *random, int tiers_max) {
    static const story_plan formats[] = {
        {KVT_BF16, KVT_BF16}, {KVT_BF16, KVT_F32, .seal = true}, {KVT_F16, KVT_BF16, .seal = true},
        {KVT_INT8, KVT_INT4}, {KVT_E4M3, KVT_BF16}, {KVT_BF16, KVT_BF16, .seal = true}, {KVT_INT2, KVT_INT3},
    };
    story_plan p = formats[random_below(random, sizeof formats / sizeof *formats)];
    p.hot_tokens = random_below(random, 3) ? 1 : (int)random_below(random, 40);
    p.key_bits = random_below(random, 3) ? 0 : 8;
    p.n_tiers = random_below(random, 5) ? 1 + (int)random_below(random, (uint32_t)tiers_max) : 0;
    p.moves_max = random_below(random, 3) ? 64 : 1 + (int)random_below(random, 4);
    p.write = random_below(random, 2) ? KVT_WRITE_BACK : KVT_WRITE_THROUGH;
    return p;
}

bool story_readable(const story_plan *p) {
    return p->k <= KVT_F32 && p->v <= KVT_F32;
}

static kvt_options options_of(const story_plan *p, int sequences_max) {
    static const uint8_t identity[32] = "stories";
    kvt_options opt = kvt_options_default();
    opt.layers = &layer;
    opt.n_layers = 1;
    opt.block_tokens = 16;
    opt.tokens_max = STORY_MAX;
    opt.batch_tokens_max = STORY_ROWS_MAX;
    opt.n_threads = 1;
    opt.k_format = p->k;
    opt.v_format = p->v;
    opt.hot_tokens = p->hot_tokens;
    opt.sequences_max = sequences_max;
    opt.identity = identity;
    return opt;
}

/* bytes_max for so many blocks. */
static void set_blocks(kvt_options *opt, bool seal, int n_blocks) {
    log_sink silent = {0};
    layout l = {0};
    opt->bytes_max = 1;
    layout_of(opt, seal, &silent, &l);
    for (size_t block = l.bytes_per_block; l.n_blocks != n_blocks; layout_of(opt, seal, &silent, &l))
        opt->bytes_max += block;
}

static uint64_t clock_of(void *ctx) {
    return *(uint64_t *)ctx;
}

kvt_cache *story_open(const story_plan *p, kvt_tier *const *tiers, uint64_t *now, int sequences_max, int n_blocks) {
    kvt_options opt = options_of(p, sequences_max);
    kvt_cache *c;
    opt.tiers = tiers;
    opt.n_tiers = p->n_tiers;
    opt.write = p->write;
    opt.moves_max = p->moves_max;
    opt.clock = clock_of;
    opt.clock_ctx = now;
    set_blocks(&opt, p->seal, n_blocks);
    cache_check check = {.poison = true, .seal = p->seal, .moves_inline = true, .key_bits = p->key_bits};
    assert_int_equal(cache_open(&c, &opt, &check), KVT_OK);
    return c;
}

kvt_cache *story_open_empty(const story_plan *p) {
    kvt_options opt = options_of(p, 1);
    kvt_cache *c;
    opt.forget = 1;
    assert_int_equal(cache_open(&c, &opt, &(cache_check){.seal = p->seal}), KVT_OK);
    return c;
}

/* --------------------------------------------------------------------------------------- keys and values */

/* Whole numbers from -128 to 127, which 16 bits keep exactly. */
static void numbers(uint64_t path, uint64_t what, float x[STORY_DIM]) {
    uint64_t bits = 0;
    for (int i = 0; i < STORY_DIM; i++, bits >>= 8) {
        if (i % 8 == 0) bits = mix(path, what * 2 + (uint64_t)(i / 8));
        x[i] = (float)((int)(bits & 255) - 128);
    }
}

enum { KEY, VALUE, QUERY, WRONG };

kvt_status story_store(kvt_cache *c, const kvt_batch *batch, const story_part *parts, bool wrong) {
    static float q[STORY_ROWS_MAX * STORY_DIM], k[STORY_ROWS_MAX * STORY_DIM], v[STORY_ROWS_MAX * STORY_DIM];
    static float out[STORY_ROWS_MAX * STORY_DIM];
    bool attends = false;
    int row = 0;
    for (int i = 0; i < batch->n_seqs; i++) {
        const story_part *p = &parts[i];
        attends |= p->out != NULL;
        for (int t = p->first; t < p->first + p->n_new; t++, row++) {
            uint64_t path = p->s->path[t + 1];
            numbers(path, wrong ? WRONG : KEY, k + row * STORY_DIM);
            numbers(path, wrong ? WRONG : VALUE, v + row * STORY_DIM);
            if (p->out) numbers(path, QUERY, q + row * STORY_DIM);
        }
    }
    /* such keys and queries are large: without this the softmax sees one token only */
    for (int i = 0; attends && i < row * STORY_DIM; i++) q[i] *= 0x1p-12f;
    if (!attends) return kvt_append(c, 0, batch, k, v);
    kvt_status status = kvt_attend(c, 0, batch, q, k, v, out);
    const float *from = out;
    for (int i = 0; i < batch->n_seqs; from += parts[i++].n_new * STORY_DIM)
        if (parts[i].out) memcpy(parts[i].out, from, (size_t)(parts[i].n_new * STORY_DIM) * sizeof *from);
    return status;
}

bool story_has(kvt_cache *c, kvt_seq id, const story *s, int at) {
    const seq *q = seq_of(c, id);
    float k[STORY_DIM], v[STORY_DIM], want_k[STORY_DIM], want_v[STORY_DIM];
    int32_t token;
    if (!q || kvt_seq_tokens(c, id, at, 1, &token) != KVT_OK || token != s->token[at]) return false;
    store_get(c, 0, q->table[at / c->layout.block_tokens], at % c->layout.block_tokens, 0, k, v);
    numbers(s->path[at + 1], KEY, want_k);
    numbers(s->path[at + 1], VALUE, want_v);
    return memcmp(k, want_k, sizeof k) == 0 && memcmp(v, want_v, sizeof v) == 0;
}

void story_alone(kvt_cache *empty, const story *s, int at, float out[STORY_DIM]) {
    float rows[STORY_MAX * STORY_DIM];
    kvt_seq id;
    int n = at + 1;
    assert_int_equal(kvt_seq_new(empty, &id), KVT_OK);
    kvt_batch batch = {1, &id, &n};
    assert_int_equal(kvt_reserve(empty, &batch), KVT_OK);
    assert_int_equal(story_store(empty, &batch, &(story_part){id, s, 0, n, rows}, false), KVT_OK);
    assert_int_equal(kvt_abort(empty, &batch), KVT_OK);
    assert_int_equal(kvt_seq_free(empty, id), KVT_OK);
    memcpy(out, rows + at * STORY_DIM, STORY_DIM * sizeof *out);
}
