/* bytes.c - THE formula of bytes: what a block of a layer takes, and from it what one layer of any kind keeps of one
 * sequence. Leaves the size of a record to format/. */
#include "base/mem.h"
#include "format/format.h"
#include "kernel/kernel.h"
#include "layer.h"

int layer_pad(int dim) {
    return (dim + TILE - 1) / TILE * TILE;
}

/* No product here can overflow: at most 1,024 heads of 2 * 512 dims of 4 bytes and 64 tokens. */
block_shape layer_block_of(int n_heads, int pad_k, int pad_v, const kv_format *k, const kv_format *v, int n_tiles) {
    block_shape s = {
        .k_tile_bytes = kv_tile_bytes(k, pad_k),
        .v_tile_bytes = kv_tile_bytes(v, pad_v),
        .k_head_bytes = kv_record_bytes(k, pad_k, n_tiles, 1),
        .v_head_bytes = kv_record_bytes(v, pad_v, n_tiles, 0),
    };
    s.v_offset = s.k_head_bytes * (size_t)n_heads;
    s.bytes = s.v_offset + s.v_head_bytes * (size_t)n_heads;
    return s;
}

/* A block of a layer of any kind. What a kind has no use for was not checked and is not read. */
static size_t block_bytes(const kvt_layer *l, const kv_format *k, const kv_format *v, int n_tiles) {
    if (l->kind == KVT_LAYER_STATE) return 0;
    int pad_k = layer_pad(l->dim_k), pad_v = layer_pad(l->dim_v);
    if (l->kind == KVT_LAYER_FULL || l->kind == KVT_LAYER_WINDOW)
        return layer_block_of(l->n_heads_kv, pad_k, pad_v, k, v, n_tiles).bytes;
    size_t latent = kv_record_bytes(k, pad_k + pad_v, n_tiles, 1); /* key and value at once, one head of all dims */
    return l->kind == KVT_LAYER_LATENT ? latent : latent + kv_record_bytes(k, layer_pad(l->dim_index), n_tiles, 1);
}

/* Numbers of a token, without padding. */
static size_t token_elements(const kvt_layer *l) {
    switch (l->kind) {
    case KVT_LAYER_STATE: return 0;
    case KVT_LAYER_LATENT: return (size_t)l->dim_k + (size_t)l->dim_v;
    case KVT_LAYER_SPARSE: return (size_t)l->dim_k + (size_t)l->dim_v + (size_t)l->dim_index;
    default: return (size_t)l->n_heads_kv * ((size_t)l->dim_k + (size_t)l->dim_v);
    }
}

double layer_bits(size_t bytes, size_t n_elements) {
    return n_elements ? 8 * (double)bytes / (double)n_elements : 0;
}

/* Blocks that hold n tokens; the window's of a longer sequence begin and end anywhere in theirs. */
static size_t blocks_of(const kvt_layer *l, size_t n_tokens, size_t kept, size_t block_tokens) {
    size_t whole = kept / block_tokens + (kept % block_tokens != 0);
    if (l->kind != KVT_LAYER_WINDOW || n_tokens <= kept) return whole;
    return (kept + block_tokens - 2) / block_tokens + 1;
}

/* Hot bytes of the first block and of the open one. */
static size_t hot_bytes(const kvt_layer *l, const kv_format *k, const kv_format *v, int n_tiles) {
    if (!formats_seal(k, v)) return 0;
    return 2 * block_bytes(l, kv_format_of(k->hot_k), kv_format_of(v->hot_v), n_tiles);
}

static kvt_status use_of(const kvt_layer *l, const kv_format *k, const kv_format *v, size_t block_tokens,
                         size_t n_tokens, kvt_layer_use *out) {
    const int n_tiles = (int)block_tokens / TILE;
    bool fits;
    out->tokens_kept = l->kind == KVT_LAYER_STATE ? 0 : n_tokens;
    if (l->kind == KVT_LAYER_WINDOW && n_tokens > (size_t)l->window) out->tokens_kept = (size_t)l->window;
    out->bytes_per_token = block_bytes(l, k, v, n_tiles) / block_tokens; /* blocks are lines of 64 bytes */
    out->bits_per_element = layer_bits(out->bytes_per_token, token_elements(l));
    out->bytes_fixed = l->kind == KVT_LAYER_STATE ? l->state_bytes : hot_bytes(l, k, v, n_tiles);
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
    const kv_format *k = kv_format_of((int)k_format), *v = kv_format_of((int)v_format);
    if (!k || !v) return KVT_E_UNSUPPORTED;
    if (block_tokens != 16 && block_tokens != 32 && block_tokens != 64) return KVT_E_ARGUMENT;
    TRY(layer_check(layer, "", &silent));
    return use_of(layer, k, v, (size_t)block_tokens, n_tokens, out);
}
