/* bytes.c - what one layer keeps of one sequence, for every kind of layer: the formula behind all sizes. A token's
 * bytes are the same number that layer_shape_of lays out in tiles. */
#include "base/mem.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "layer.h"

int layer_pad(int dim) {
    return (dim + TILE - 1) / TILE * TILE;
}

/* No product here can overflow: at most 1,024 heads of 2 * 512 dims of 4 bytes. What a kind has no use for was not
 * checked and is not read. */
static size_t token_bytes(const kvt_layer *l, size_t k_bytes, size_t v_bytes) {
    if (l->kind == KVT_LAYER_STATE) return 0;
    size_t k = (size_t)layer_pad(l->dim_k), v = (size_t)layer_pad(l->dim_v);
    switch (l->kind) {
    case KVT_LAYER_LATENT: return (k + v) * k_bytes; /* the latent is key and value at once */
    case KVT_LAYER_SPARSE: return (k + v + (size_t)layer_pad(l->dim_index)) * k_bytes;
    default: return (size_t)l->n_heads_kv * (k * k_bytes + v * v_bytes);
    }
}

/* Blocks that hold n tokens; the window's of a longer sequence begin and end anywhere in theirs. */
static size_t blocks_of(const kvt_layer *l, size_t n_tokens, size_t kept, size_t block_tokens) {
    size_t whole = kept / block_tokens + (kept % block_tokens != 0);
    if (l->kind != KVT_LAYER_WINDOW || n_tokens <= kept) return whole;
    return (kept + block_tokens - 2) / block_tokens + 1;
}

static kvt_status use_of(const kvt_layer *l, size_t k_bytes, size_t v_bytes, size_t block_tokens, size_t n_tokens,
                         kvt_layer_use *out) {
    bool fits;
    out->tokens_kept = l->kind == KVT_LAYER_STATE ? 0 : n_tokens;
    if (l->kind == KVT_LAYER_WINDOW && n_tokens > (size_t)l->window) out->tokens_kept = (size_t)l->window;
    out->bytes_per_token = token_bytes(l, k_bytes, v_bytes);
    out->bytes_fixed = l->kind == KVT_LAYER_STATE ? l->state_bytes : 0;
    fits = mem_mul(out->tokens_kept, out->bytes_per_token, &out->bytes) &&
           mem_add(out->bytes, out->bytes_fixed, &out->bytes);
    fits = fits && mem_mul(blocks_of(l, n_tokens, out->tokens_kept, block_tokens), block_tokens * out->bytes_per_token,
                           &out->bytes_reserved);
    fits = fits && mem_add(out->bytes_reserved, out->bytes_fixed, &out->bytes_reserved);
    return fits ? KVT_OK : KVT_E_LIMIT;
}

kvt_status kvt_layer_bytes(const kvt_layer *layer, kvt_format k_format, kvt_format v_format, int block_tokens,
                           size_t n_tokens, kvt_layer_use *out) {
    log_sink silent = {0};
    if (!layer || !out) return KVT_E_ARGUMENT;
    *out = (kvt_layer_use){0};
    const element_format *k = element_format_of((int)k_format), *v = element_format_of((int)v_format);
    if (!k || !v) return KVT_E_UNSUPPORTED;
    if (block_tokens != 16 && block_tokens != 32 && block_tokens != 64) return KVT_E_ARGUMENT;
    TRY(layer_check(layer, "", &silent));
    return use_of(layer, k->bytes, v->bytes, (size_t)block_tokens, n_tokens, out);
}
