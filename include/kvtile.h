/* kvtile.h - the KV cache of a language model, as a library.
 *
 * A transformer makes one token at a time, and each token looks back at the keys and values of all
 * tokens before it. This library keeps them, in blocks of 16, 32 or 64 tokens, and computes attention
 * over them where they lie. The caller computes everything else of the model; kvtile_ops.h offers the
 * arithmetic for that too, and neither header needs the other.
 *
 *
 * THE WHOLE USE, with error checks left out (examples/embed.c is the complete program)
 *
 *     kvt_layer layer[30];                              1. describe: what each layer keeps
 *     for (int i = 0; i < 30; i++)
 *         layer[i] = (kvt_layer){ .kind = KVT_LAYER_FULL, .n_heads_q = 9, .n_heads_kv = 3,
 *                                 .dim_k = 64, .dim_v = 64 };
 *     kvt_options opt = kvt_options_default();
 *     opt.layers = layer;
 *     opt.n_layers = 30;
 *     kvt_cache *cache;
 *     kvt_open(&cache, &opt);                           2. open: all memory is asked for here
 *     kvt_seq seq;
 *     kvt_seq_new(cache, &seq);                         3. a sequence: a list of blocks
 *
 *     kvt_batch batch = { .n_seqs = 1, .seqs = &seq, .n_new = &n };
 *     kvt_reserve(cache, &batch);                       4. one step: room for n new tokens ...
 *     for (int i = 0; i < 30; i++) {
 *         ...                                              q, k, v of the new tokens, rope applied
 *         kvt_attend(cache, i, &batch, q, k, v, out);      ... each layer stores k, v and attends ...
 *         ...
 *     }
 *     kvt_commit(cache, &batch, tokens);                   ... and only now do the tokens exist
 *
 *     kvt_seq_fork(cache, seq, &other);                 5. share everything so far, copy nothing
 *     kvt_seq_truncate(cache, seq, 100);                6. forget all but the first 100 tokens
 *     kvt_seq_free(cache, seq);
 *     kvt_close(cache);
 *
 *
 * WHAT IS PROMISED
 *
 * - The result of attention for a token does not depend, in a single bit, on the batch it was in, on how
 *   the prompt was cut into steps, on the number of threads, the kind of cache, the instruction set (x86-64),
 *   or, in formats that are kept as they come, the block size: docs/numeric-contract.md fixes the order of
 *   every sum.
 * - Memory is asked for once, in kvt_open. Afterwards a step allocates nothing. Full is a status.
 * - A call that does not return KVT_OK has changed nothing, unless its comment says otherwise.
 *
 * THREADS. A cache has one owner: calls on one cache must not overlap, reading ones included. Different caches
 * are independent, but a worker pool runs one call at a time: caches that share one must not overlap either.
 *
 * FLOATING POINT. Every call sets the rounding, flush and exception mode it needs and restores the
 * caller's before it returns.
 */
#ifndef KVTILE_H
#define KVTILE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_VERSION_MAJOR 0
#define KVT_VERSION_MINOR 1
#define KVT_VERSION_PATCH 0

/* Version of docs/numeric-contract.md: caches and answers of two builds agree in every bit if this does. */
#define KVT_NUMERIC_CONTRACT 1

#ifndef KVT_API
#if defined(__GNUC__)
#define KVT_API __attribute__((visibility("default")))
#else
#define KVT_API
#endif
#endif

/* ------------------------------------------------------------------------------------------ status */

/* 0: done. Above 0: not now, come back later. Below 0: failed; the log callback, where options have one, was told the
 * details, unless it is a NULL pointer that was passed. A number out of its range is KVT_E_ARGUMENT, an enum's that is
 * none of its values KVT_E_UNSUPPORTED. */
typedef enum kvt_status {
    KVT_OK = 0,
    KVT_FULL = 1,         /* no block (or sequence slot) is free; free or truncate something, then retry */
    KVT_E_ARGUMENT = -1,  /* an argument out of its range */
    KVT_E_MEMORY = -2,    /* the memory asked for cannot be had */
    KVT_E_STATE = -3,     /* this call is not allowed now, e.g. kvt_attend without kvt_reserve */
    KVT_E_SEQUENCE = -4,  /* no such sequence: never made, or freed */
    KVT_E_LIMIT = -5,     /* longer than tokens_max, or more rows than batch_tokens_max */
    KVT_E_CORRUPT = -6,   /* kvt_check found the cache's own records in contradiction */
    KVT_E_UNSUPPORTED = -7 /* a format, kind or size that this build does not offer */
} kvt_status;

/* One short English sentence for a status; never NULL. */
KVT_API const char *kvt_status_text(kvt_status status);

/* "0.1.0", of the library that is linked. */
KVT_API const char *kvt_version(void);

/* ------------------------------------------------------------------------------------- description */

/* What a layer keeps of the past. kvt_open takes KVT_LAYER_FULL; the others can be planned for (kvt_layer_bytes). */
typedef enum kvt_layer_kind {
    KVT_LAYER_FULL = 0,   /* every token's key and value (MHA, GQA, MQA by the head counts) */
    KVT_LAYER_WINDOW = 1, /* those of the newest `window` tokens */
    KVT_LAYER_LATENT = 2, /* per token one latent of dim_v elements and one rotary key of dim_k, whatever the heads: MLA
                             (DeepSeek-AI 2024, DeepSeek-V2) */
    KVT_LAYER_STATE = 3,  /* no tokens, but a state of state_bytes (recurrent layers) */
    KVT_LAYER_SPARSE = 4  /* as LATENT, and an index key of dim_index elements, by which tokens are chosen (DSA) */
} kvt_layer_kind;

/* One attention layer. Query head h reads key/value head h / (n_heads_q / n_heads_kv). */
typedef struct kvt_layer {
    kvt_layer_kind kind;
    int n_heads_q;  /* 1 .. 1024, a multiple of n_heads_kv */
    int n_heads_kv; /* 1 .. 1024 */
    int dim_k;      /* elements of a key (and query) head, 1 .. 512; kept padded to a multiple of 16 */
    int dim_v;      /* elements of a value head, 1 .. 512; kept padded to a multiple of 16 */
    float scale;    /* factor on q.k before the softmax, 2^-126 .. 2^127; 0 means 1 / sqrt(dim_k) */
    const float *k_balance; /* NULL, or [n_heads_kv][dim_k] factors above 0, copied: keys are divided by them before
                               they are encoded in KVT_INT8 .. KVT_INT2, and queries multiplied. Best is
                               sqrt(size of the key's element / size of the query's), from the weights */
    int window;         /* of KVT_LAYER_WINDOW: tokens kept, 1 .. 2^30 */
    int dim_index;      /* of KVT_LAYER_SPARSE: 1 .. 512; kept padded to a multiple of 16 */
    size_t state_bytes; /* of KVT_LAYER_STATE */
} kvt_layer;

/* Format of keys or of values. The first three are kept as they come. The others are for blocks that are full: as
 * kvt_attend fills a block it encodes it, once, and from the next block on its tokens are read as codes; the block a
 * token is in, and the first ones of a sequence, are kept in 16 or 32 bits ("hot"). So a token's place in its sequence
 * decides which tokens it sees in which precision, never the batch or the step. docs/formats.md has bits and losses. */
typedef enum kvt_format {
    KVT_BF16 = 0, /* default: widening is one shift, and every instruction set can do it exactly */
    KVT_F16 = 1,
    KVT_F32 = 2,
    KVT_E4M3 = 3, /* 8-bit floats, a scale per token and head */
    KVT_E5M2 = 4,
    KVT_INT8 = 5, /* codes of so many bits, rotated, a scale per token and head; keys less the mean of their block */
    KVT_INT4 = 6,
    KVT_INT3 = 7,
    KVT_INT2 = 8
} kvt_format;

/* Name of a format ("bf16"); NULL for a number that is none. */
KVT_API const char *kvt_format_name(kvt_format format);
/* The format of that name. KVT_E_UNSUPPORTED: there is none. */
KVT_API kvt_status kvt_format_parse(kvt_format *out, const char *name);

/* How sequences get their memory. Same tiles, same kernels, same bits; see docs/design.md. */
typedef enum kvt_cache_kind {
    KVT_PAGED = 0,      /* blocks on demand through a block table; forks share them */
    KVT_CONTIGUOUS = 1, /* the textbook cache: tokens_max tokens reserved per sequence; forks copy */
    KVT_NONE = 2        /* nothing outlives a step: kvt_commit drops it, lengths stay 0, the caller
                           computes every token again */
} kvt_cache_kind;

/* Precision: of attention here, of matrix products in kvtile_ops.h. */
typedef enum kvt_math {
    KVT_MATH_FAST = 0,    /* over bf16 tiles the query and the softmax weights are rounded to bf16 too */
    KVT_MATH_EXACT = 1,   /* both stay float32; products and sums are float32 in any mode */
    KVT_MATH_ACCURATE = 2 /* attention as in KVT_MATH_EXACT, matrix products between the two */
} kvt_math;

typedef enum kvt_log_level { KVT_LOG_ERROR = 0, KVT_LOG_WARN = 1, KVT_LOG_INFO = 2 } kvt_log_level;

/* Called on the thread of the call that has something to say; message is one line, no newline. It returns, and calls
 * nothing of this library. */
typedef void (*kvt_log_fn)(void *ctx, kvt_log_level level, const char *message);

/* Memory for everything a cache keeps, but for a worker pool of its own. alloc returns at least `bytes` bytes aligned
 * to `align` (a power of two, up to 2 MiB) or NULL; release gets back what alloc gave, with its size. */
typedef void *(*kvt_alloc_fn)(void *ctx, size_t bytes, size_t align);
typedef void (*kvt_release_fn)(void *ctx, void *p, size_t bytes);

struct kvt_workers; /* the worker pool of kvtile_ops.h */

typedef struct kvt_options {
    kvt_cache_kind kind;
    const kvt_layer *layers; /* [n_layers], copied */
    int n_layers;            /* 1 .. 4096 */
    kvt_format k_format, v_format;
    int block_tokens;     /* 16, 32 (default) or 64 */
    int hot_tokens;       /* first tokens of a sequence, in whole blocks, that are never encoded; default 1 */
    int sequences_max;    /* sequences alive at once, 1 .. 65535; default 16 */
    int tokens_max;       /* longest sequence in tokens, 1 .. 2^30; default 4096 */
    int batch_tokens_max; /* most new tokens in one step, all sequences together, 1 .. 2^20; default 512 */
    size_t bytes_max;     /* limit for the memory of keys and values, hot ones included; 0: enough for
                             sequences_max sequences of tokens_max tokens */
    kvt_math math;
    struct kvt_workers *workers; /* shared pool, must outlive the cache; NULL: the cache makes its own */
    int n_threads;               /* of its own pool, 0 .. 256: 0 means the processors this process may use */
    int read_apart; /* not 0: blocks that several sequences of a step share are read once for each of them, not once
                       for all. The same bits; it is here so that what sharing saves can be measured */
    kvt_log_fn log;              /* NULL: silent */
    void *log_ctx;
    kvt_alloc_fn alloc; /* both or neither; neither: anonymous memory in huge pages where offered */
    kvt_release_fn release;
    void *alloc_ctx;
} kvt_options;

/* Every field at its default; layers and n_layers are left for the caller. */
KVT_API kvt_options kvt_options_default(void);

/* --------------------------------------------------------------------------------------- estimates */

/* Exact bytes for given options. The same formula plans and allocates. */
typedef struct kvt_bytes_info {
    size_t bytes_per_token; /* keys and values of one token in all layers: the sum over layers of
                               n_heads_kv * (dim_k * bytes(k_format) + dim_v * bytes(v_format)),
                               each dim rounded up to a multiple of 16; of encoded formats with scales and centroids */
    double bits_per_element; /* the same in bits of one of the layers' n_heads_kv * (dim_k + dim_v) elements */
    size_t bytes_per_block; /* bytes_per_token * block_tokens */
    size_t n_blocks;        /* blocks in the pool */
    size_t bytes_cache;     /* n_blocks * bytes_per_block */
    size_t bytes_hot;       /* of encoded formats: slots for the first blocks and the open one of sequences_max
                               sequences and one more for each of a step, and a step's new blocks in one layer */
    size_t bytes_tables;    /* block tables, free lists, token ids */
    size_t bytes_scratch;   /* what a step needs while it runs, all threads together */
    size_t bytes_total;     /* what kvt_open will ask for */
} kvt_bytes_info;

/* Needs no open cache. KVT_E_ARGUMENT, KVT_E_UNSUPPORTED: as kvt_open. KVT_E_LIMIT: bytes_max is too small for
 * one sequence of tokens_max tokens (n_blocks tells how many it would hold), or a size overflows. */
KVT_API kvt_status kvt_bytes(const kvt_options *opt, kvt_bytes_info *out);

/* What one layer keeps of one sequence. */
typedef struct kvt_layer_use {
    size_t tokens_kept;
    size_t bytes_per_token; /* of each token kept */
    double bits_per_element; /* the same in bits of one of the token's elements; 0: it has none */
    size_t bytes_fixed;     /* however long the sequence is: a state; of encoded formats its first block and its open
                               one in their hot formats, as of hot_tokens from 1 to block_tokens */
    size_t bytes;           /* tokens_kept * bytes_per_token + bytes_fixed */
    size_t bytes_reserved;  /* the same in whole blocks; of a window, wherever in their blocks its tokens lie */
} kvt_layer_use;

/* Of a sequence of n_tokens tokens, for any kind of layer. block_tokens is 16, 32 or 64.
 * KVT_E_ARGUMENT, KVT_E_UNSUPPORTED: a bad description. KVT_E_LIMIT: a size overflows. */
KVT_API kvt_status kvt_layer_bytes(const kvt_layer *layer, kvt_format k_format, kvt_format v_format,
                                   int block_tokens, size_t n_tokens, kvt_layer_use *out);

/* ------------------------------------------------------------------------------------ open and close */

typedef struct kvt_cache kvt_cache;

/* Ask for all memory, start the worker pool if none was given.
 * KVT_E_ARGUMENT, KVT_E_UNSUPPORTED: a bad description; the log names the field and the number.
 * KVT_E_LIMIT: bytes_max cannot hold one sequence of tokens_max tokens; the log says need and have.
 * KVT_E_MEMORY: the machine has not that much. On failure *out is NULL and nothing is left behind. */
KVT_API kvt_status kvt_open(kvt_cache **out, const kvt_options *opt);

/* Free everything, sequences included. NULL is fine. */
KVT_API void kvt_close(kvt_cache *cache);

/* --------------------------------------------------------------------------------------- sequences */

/* A handle that its cache never reuses: one kept after kvt_seq_free gives KVT_E_SEQUENCE, not another's tokens. */
typedef uint64_t kvt_seq;
#define KVT_SEQ_NONE ((kvt_seq)0)

/* An empty sequence. KVT_FULL: sequences_max are alive (contiguous: no region is free). */
KVT_API kvt_status kvt_seq_new(kvt_cache *cache, kvt_seq *out);

/* A second sequence with the same tokens. Paged: both share every block, and the partly filled last one is
 * copied when the first of them writes to it (in kvt_reserve). Contiguous: copies the tokens. Not during a step. */
KVT_API kvt_status kvt_seq_fork(kvt_cache *cache, kvt_seq seq, kvt_seq *out);

/* Keep the first n_tokens tokens (0 .. length), give the blocks behind them back. Never KVT_FULL. Not during a step.
 * An encoded block cannot go on: where n_tokens ends inside one, all of its tokens go. kvt_seq_length says how many are
 * left; the caller computes the others again. */
KVT_API kvt_status kvt_seq_truncate(kvt_cache *cache, kvt_seq seq, int n_tokens);

/* End a sequence. KVT_SEQ_NONE is fine. Not during a step. */
KVT_API kvt_status kvt_seq_free(kvt_cache *cache, kvt_seq seq);

/* Committed tokens; below 0 a kvt_status, which is not logged. */
KVT_API int kvt_seq_length(const kvt_cache *cache, kvt_seq seq);

/* Copy the ids of tokens first .. first + n - 1, as given to kvt_commit. KVT_E_ARGUMENT: there are not so many. */
KVT_API kvt_status kvt_seq_tokens(const kvt_cache *cache, kvt_seq seq, int first, int n, int32_t *out);

/* -------------------------------------------------------------------------------------- one step */

/* A ragged batch. Its rows are the new tokens: n_new[0] of seqs[0], then n_new[1] of seqs[1], ...;
 * a row's position is the sequence's length plus its place among the new ones. A sequence may appear once. Until the
 * step ends every call takes the batch that was reserved, or gives KVT_E_ARGUMENT. */
typedef struct kvt_batch {
    int n_seqs;
    const kvt_seq *seqs; /* [n_seqs] */
    const int *n_new;    /* [n_seqs], each at least 1 */
} kvt_batch;

/* Make room for every sequence's new tokens. Starts the step, which ends with kvt_commit or kvt_abort.
 * KVT_FULL: not enough blocks; nothing changed, free something and come back.
 * KVT_E_LIMIT: a sequence would pass tokens_max, or the batch batch_tokens_max. KVT_E_STATE: a step is open. */
KVT_API kvt_status kvt_reserve(kvt_cache *cache, const kvt_batch *batch);

/* Store the new keys and values of a layer without attending to them.
 *     k [n_rows][n_heads_kv][dim_k]    v [n_rows][n_heads_kv][dim_v]    float32, position encoding applied
 * Stored into a layer once per step; what an earlier call stored is replaced. KVT_E_ARGUMENT: one of the formats is
 * encoded, and a key or value is infinite or NaN (or too large for the hot format); the log names the layer. */
KVT_API kvt_status kvt_append(kvt_cache *cache, int layer, const kvt_batch *batch, const float *k, const float *v);

/* kvt_append, then causal attention of the new tokens over all tokens of their own sequence up to themselves:
 *     q   [n_rows][n_heads_q][dim_k]   float32, position encoding applied
 *     out [n_rows][n_heads_q][dim_v]   float32: softmax(scale * q.k) v
 * k and v may both be NULL where kvt_append was called before; of encoded formats, only for the layer that was stored
 * last (KVT_E_STATE): hot tokens of a step's full blocks are kept for one layer at a time. out must not overlap the
 * inputs. Infinities and NaN in q, k and v reach the rows that see them and no others; of encoded formats, as above. */
KVT_API kvt_status kvt_attend(kvt_cache *cache, int layer, const kvt_batch *batch, const float *q,
                              const float *k, const float *v, float *out);

/* The step's tokens exist from here on. tokens [n_rows] are their ids, kept with the blocks; NULL records
 * them as -1. KVT_E_STATE: no step is open, or a layer has not got its keys and values (the step stays open). */
KVT_API kvt_status kvt_commit(kvt_cache *cache, const kvt_batch *batch, const int32_t *tokens);

/* The step never happened. KVT_E_STATE: no step is open. */
KVT_API kvt_status kvt_abort(kvt_cache *cache, const kvt_batch *batch);

/* -------------------------------------------------------------------------- prefixes without their bytes */

/* Which blocks of which prefixes a cache of so many blocks would hold: its pool and its eviction, and nothing of keys
 * and values. For planning (kvtile simulate), and for engines whose blocks lie elsewhere. */
typedef struct kvt_index kvt_index;

typedef struct kvt_index_options {
    int blocks_max; /* that stay while nobody reads them, 1 .. 2^26 */
    int chain_max;  /* most blocks of one request, 1 .. 2^20; a request's own blocks are not counted above */
    int ghosts_max; /* blocks that are remembered after they left, at least; 0 .. 2^28; -1: 16 for each of
                       blocks_max */
} kvt_index_options;

/* KVT_E_ARGUMENT: a number out of range. KVT_E_MEMORY. On failure *out is NULL. */
KVT_API kvt_status kvt_index_open(kvt_index **out, const kvt_index_options *opt);
KVT_API void kvt_index_close(kvt_index *index); /* NULL is fine */

typedef struct kvt_index_result {
    int n_hit;     /* blocks that were there, from the first on; those behind a missing one do not count */
    int n_cold;    /* of the others: never read, or forgotten */
    int n_evicted; /* of the others: known, but their bytes had to leave */
    int n_left;    /* blocks that left the cache to make room for these */
} kvt_index_result;

/* One request reads the blocks of a prefix. keys [n_blocks], first block first, each names a block and all before it:
 * where one key stands behind different ones, counts mean nothing, and no harm is done. The first n_full are full, the
 * others, the end of a prompt as a rule, are not. Afterwards all of them are in the cache, and what is too much has
 * left, ends of prefixes first. KVT_E_LIMIT: more than chain_max; nothing changed. */
KVT_API kvt_status kvt_index_request(kvt_index *index, const uint64_t *keys, int n_blocks, int n_full,
                                     kvt_index_result *out);

/* ------------------------------------------------------------------------------------------- looking */

typedef struct kvt_stats {
    size_t bytes_per_token;
    double bits_per_element;
    size_t bytes_reserved; /* memory of keys and values that no other sequence can get: paged, the blocks in
                              use; contiguous, a whole region per sequence; and hot slots in use */
    size_t bytes_used;     /* of it, what holds a token: a hot one in its slot, and in its block, too */
    size_t blocks_total, blocks_used, blocks_free;
    size_t blocks_shared;      /* in use by more than one sequence */
    size_t blocks_used_most;   /* highest blocks_used so far */
    size_t tokens_held;        /* tokens of all sequences, a shared one counted for each that holds it */
    size_t tokens_stored;      /* slots that hold a token, a shared one counted once */
    size_t n_sequences;
    uint64_t blocks_taken, blocks_given; /* so far; taken - given = used */
    uint64_t blocks_copied;              /* so far, because a shared last block was written to; aborted steps count */
    uint64_t n_commits, n_aborts;
    uint64_t n_full;                     /* KVT_FULL of kvt_reserve, kvt_seq_new and kvt_seq_fork */
    uint64_t tokens_committed;           /* rows of all committed steps */
} kvt_stats;

KVT_API kvt_status kvt_stats_get(const kvt_cache *cache, kvt_stats *out);

/* "paged", "contiguous", "none"; NULL for a number that is no kind. */
KVT_API const char *kvt_cache_kind_name(kvt_cache_kind kind);
/* The instruction set the kernels of this process run on: "scalar", "avx2", "avx512", "avx512bf16". KVTILE_CPU in the
 * environment, read once, chooses another one that the processor has; of those above it the highest there is. */
KVT_API const char *kvt_cpu(void);
/* What attention over keys or values of a format runs on in this process, "avx512 vnni": the kernels' instruction set,
 * a lesser one than kvt_cpu() where none was written for that. NULL for a number that is no format. */
KVT_API const char *kvt_format_path(kvt_format format);

/* Walk all records and prove them consistent: every block is free or held, exactly as often as tables name it.
 * KVT_E_CORRUPT and a log line otherwise. O(blocks + tables); for tests and debugging. */
KVT_API kvt_status kvt_check(const kvt_cache *cache);

#ifdef __cplusplus
}
#endif
#endif
