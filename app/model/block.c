/* block.c - the forward pass: rows of the embedding, the layers, logits of the rows that are asked for.
 *
 * Owns its scratch, taken once. Where keys and values lie, and which tokens a row sees, is the cache's. */
#include "base/log.h"
#include "base/mem.h"
#include "weights.h"

#include <string.h>

enum { LINE_FLOATS = 16 };

struct model_state {
    const model *model;
    kvt_workers *team;
    kvt_input *input;
    kvt_input *wanted; /* rows for the output matrix; NULL: input serves it too */
    const kvt_rope *rope;
    int rows_max;
    int32_t *position; /* [rows_max] */
    float *turns;      /* [rows_max][rope.dim / 2][2] */
    float *x;          /* [rows_max][width]: the rows on their way through the layers */
    float *y;          /* [rows_max][width]: a norm's result, or what a layer adds */
    float *q, *k, *v;  /* [rows_max][n_heads][dim] */
    float *attended;   /* [rows_max][n_heads_q][dim_v] */
    float *gate, *up;  /* [rows_max][width_ffn] */
    void *memory;      /* all of the above */
    size_t bytes;
};

/* ---------------------------------------------------------------------------------------------- scratch */

/* One array of the state: where its pointer is, elements per row (4 bytes each). */
typedef struct piece {
    void *pointer; /* float ** or int32_t ** */
    int columns;
} piece;

enum { N_PIECES = 10 };

static void pieces_of(model_state *s, piece out[N_PIECES]) {
    const model_config *c = &s->model->config;
    const piece list[N_PIECES] = {
        { &s->position, 1 },
        { &s->turns, c->rope.dim },
        { &s->x, c->width },
        { &s->y, c->width },
        { &s->q, c->n_heads_q * c->dim_k },
        { &s->k, c->n_heads_kv * c->dim_k },
        { &s->v, c->n_heads_kv * c->dim_v },
        { &s->attended, c->n_heads_q * c->dim_v },
        { &s->gate, c->width_ffn },
        { &s->up, c->width_ffn },
    };
    memcpy(out, list, sizeof list);
}

static int columns_max(const model_config *c) {
    int most = c->width > c->width_ffn ? c->width : c->width_ffn;
    int attended = c->n_heads_q * c->dim_v;
    return most > attended ? most : attended;
}

/* Room for all arrays in one piece of memory, each from a line of 64 bytes on. */
static bool scratch_take(model_state *s) {
    piece pieces[N_PIECES];
    size_t at[N_PIECES];
    pieces_of(s, pieces);
    for (int i = 0; i < N_PIECES; i++) {
        size_t n;
        at[i] = s->bytes;
        if (!mem_mul((size_t)s->rows_max, (size_t)pieces[i].columns * sizeof(float), &n)) return false;
        if (!mem_add(s->bytes, mem_round(n, LINE_FLOATS * sizeof(float)), &s->bytes)) return false;
    }
    s->memory = mem_take(NULL, s->bytes);
    if (!s->memory) return false;
    for (int i = 0; i < N_PIECES; i++) {
        void *p = (char *)s->memory + at[i];
        memcpy(pieces[i].pointer, &p, sizeof p);
    }
    return true;
}

/* In fast mode the output matrix gets its rows in 16 bits: a quarter of what 8-bit activations change in the
 * probabilities of the next token comes from that one matrix, and it is a small part of the work (docs/speed.md). */
static kvt_status inputs_new(model_state *s, kvt_math math) {
    const model_config *c = &s->model->config;
    TRY(kvt_input_new(&s->input, s->rows_max, columns_max(c), math));
    if (math != KVT_MATH_FAST) return KVT_OK;
    return kvt_input_new(&s->wanted, s->rows_max, c->width, KVT_MATH_ACCURATE);
}

kvt_status model_state_new(model_state **out, const model *m, int rows_max, int context, kvt_math math,
                           kvt_workers *team) {
    *out = NULL;
    model_state *s = mem_take(NULL, sizeof *s);
    if (!s) return KVT_E_MEMORY;
    s->model = m;
    s->team = team;
    s->rope = model_rope(m, context);
    s->rows_max = rows_max;
    kvt_status status = inputs_new(s, math);
    if (status == KVT_OK && !scratch_take(s)) status = KVT_E_MEMORY;
    if (status != KVT_OK) {
        model_state_free(s);
        return status;
    }
    *out = s;
    return KVT_OK;
}

void model_state_free(model_state *s) {
    if (!s) return;
    kvt_input_free(s->input);
    kvt_input_free(s->wanted);
    mem_give(NULL, s->memory, s->bytes);
    mem_give(NULL, s, sizeof *s);
}

/* ----------------------------------------------------------------------------------------------- layers */

/* y = x w^T for up to three matrices that read the same rows. */
static void project(model_state *s, kvt_input *input, const float *x, int n_rows, const kvt_product *products,
                    int n_products) {
    int n_cols = (int)kvt_matrix_cols(products[0].w);
    kvt_input_set(input, s->team, x, (size_t)n_cols, n_rows, n_cols);
    kvt_matmul(s->team, input, products, n_products);
}

static kvt_product product(const kvt_matrix *w, float *y) {
    return (kvt_product){ .w = w, .y = y, .y_stride = kvt_matrix_rows(w) };
}

static void norm(model_state *s, const vector *weight, const float *x, int n_rows, float *y) {
    kvt_rmsnorm(s->team, x, weight->at, s->model->config.norm_eps, n_rows, (int)weight->n, y);
}

/* What a part of a layer reads: the rows, or their norm. */
static const float *input_of(model_state *s, const vector *weight, int n_rows) {
    if (!weight->at) return s->x;
    norm(s, weight, s->x, n_rows, s->y);
    return s->y;
}

/* x += y, or the norm of y, or a part of either. */
static void output_add(model_state *s, const vector *weight, int n_rows) {
    size_t n = (size_t)n_rows * (size_t)s->model->config.width;
    float scale = s->model->config.residual_scale;
    if (weight->at) norm(s, weight, s->y, n_rows, s->y);
    if (scale == 1) kvt_add(s->team, s->x, s->y, n);
    else kvt_add_scaled(s->team, s->x, s->y, scale, n);
}

static void bias_add(model_state *s, const vector *bias, int n_rows, float *x) {
    if (bias->at) kvt_add_row(s->team, x, bias->at, n_rows, (int)bias->n);
}

/* Queries or keys as attention wants them: bias, norm of each head or of the whole row, position. */
static void heads_make(model_state *s, int layer, const vector *bias, const vector *weight, int n_rows, int n_heads,
                       float *x) {
    const model_config *c = &s->model->config;
    size_t row = (size_t)n_heads * (size_t)c->dim_k;
    bias_add(s, bias, n_rows, x);
    if (weight->at) norm(s, weight, x, n_rows * (int)(row / weight->n), x);
    if (rope_turns(&c->rope, layer)) kvt_rope_apply(s->team, s->rope, s->turns, x, row, n_rows, n_heads, c->dim_k);
}

/* x += attention(norm(x)) */
static kvt_status attention(model_state *s, kvt_cache *cache, int layer, const kvt_batch *batch, int n_rows) {
    const model_config *c = &s->model->config;
    const layer_weights *w = &s->model->weights.layer[layer];

    kvt_product qkv[] = { product(w->q, s->q), product(w->k, s->k), product(w->v, s->v) };
    project(s, s->input, input_of(s, &w->attn_norm, n_rows), n_rows, qkv, 3);
    heads_make(s, layer, &w->q_bias, &w->q_norm, n_rows, c->n_heads_q, s->q);
    heads_make(s, layer, &w->k_bias, &w->k_norm, n_rows, c->n_heads_kv, s->k);
    bias_add(s, &w->v_bias, n_rows, s->v);
    TRY(kvt_attend(cache, layer, batch, s->q, s->k, s->v, s->attended));
    kvt_product out = product(w->attn_output, s->y);
    project(s, s->input, s->attended, n_rows, &out, 1);
    bias_add(s, &w->attn_output_bias, n_rows, s->y);
    output_add(s, &w->attn_post_norm, n_rows);
    return KVT_OK;
}

/* x += down(silu(gate) * up) of norm(x) (Shazeer 2020, SwiGLU) */
static void feed_forward(model_state *s, int layer, int n_rows) {
    const model_config *c = &s->model->config;
    const layer_weights *w = &s->model->weights.layer[layer];

    kvt_product both[] = { product(w->gate, s->gate), product(w->up, s->up) };
    project(s, s->input, input_of(s, &w->ffn_norm, n_rows), n_rows, both, 2);
    bias_add(s, &w->gate_bias, n_rows, s->gate);
    bias_add(s, &w->up_bias, n_rows, s->up);
    kvt_silu_mul(s->team, s->gate, s->up, (size_t)n_rows * (size_t)c->width_ffn);
    kvt_product down = product(w->down, s->y);
    project(s, s->input, s->gate, n_rows, &down, 1);
    bias_add(s, &w->down_bias, n_rows, s->y);
    output_add(s, &w->ffn_post_norm, n_rows);
}

/* ------------------------------------------------------------------------------------------------ a step */

/* Positions of the batch's rows; the number of rows, or a status below 0. */
static int positions(model_state *s, const kvt_cache *cache, const kvt_batch *batch) {
    int n_rows = 0;
    for (int i = 0; i < batch->n_seqs; i++) {
        int length = kvt_seq_length(cache, batch->seqs[i]);
        if (length < 0) return length;
        if (batch->n_new[i] > s->rows_max - n_rows) return KVT_E_LIMIT;
        for (int j = 0; j < batch->n_new[i]; j++) s->position[n_rows++] = length + j;
    }
    return n_rows;
}

typedef struct embed_work {
    const kvt_matrix *table;
    const int32_t *tokens;
    float *x;
    size_t width;
} embed_work;

static void embed(void *ctx, int row, int worker) {
    const embed_work *work = ctx;
    (void)worker;
    kvt_matrix_row(work->table, (size_t)work->tokens[row], work->x + (size_t)row * work->width);
}

/* Norm and output matrix for the wanted rows alone: in a prompt that is one row of hundreds. */
static void logits(model_state *s, const model_step *step) {
    const model_config *c = &s->model->config;
    const model_weights *w = &s->model->weights;
    size_t width = (size_t)c->width;
    if (step->n_wanted == 0) return;
    for (int i = 0; i < step->n_wanted; i++)
        memcpy(s->y + (size_t)i * width, s->x + (size_t)step->wanted[i] * width, width * sizeof(float));
    norm(s, &w->output_norm, s->y, step->n_wanted, s->y);
    kvt_product out = product(w->output, step->logits);
    project(s, s->wanted ? s->wanted : s->input, s->y, step->n_wanted, &out, 1);
    size_t n_logits = (size_t)step->n_wanted * (size_t)c->n_vocab;
    if (c->logit_scale != 1) kvt_scale(s->team, step->logits, c->logit_scale, n_logits);
}

kvt_status model_forward(model_state *s, kvt_cache *cache, const model_step *step) {
    const model_config *c = &s->model->config;
    int n_rows = positions(s, cache, &step->batch);
    if (n_rows < 0) return (kvt_status)n_rows;
    for (int i = 0; i < n_rows; i++)
        if (step->tokens[i] < 0 || step->tokens[i] >= c->n_vocab) return KVT_E_ARGUMENT;

    kvt_rope_turns(s->rope, s->position, n_rows, s->turns);
    embed_work work = { s->model->weights.embedding, step->tokens, s->x, (size_t)c->width };
    kvt_workers_run(s->team, n_rows, embed, &work);
    if (c->embedding_scale != 1) kvt_scale(s->team, s->x, c->embedding_scale, (size_t)n_rows * work.width);
    for (int layer = 0; layer < c->n_layers; layer++) {
        TRY(attention(s, cache, layer, &step->batch, n_rows));
        feed_forward(s, layer, n_rows);
    }
    logits(s, step);
    return KVT_OK;
}
