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
 *     kvt_match(cache, third, prompt, n, NULL, &hit);   7. begin with what others have computed of a prompt
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
    KVT_MISS = 2,         /* a tier has no such record */
    KVT_E_ARGUMENT = -1,  /* an argument out of its range */
    KVT_E_MEMORY = -2,    /* the memory asked for cannot be had */
    KVT_E_STATE = -3,     /* this call is not allowed now, e.g. kvt_attend without kvt_reserve */
    KVT_E_SEQUENCE = -4,  /* no such sequence: never made, or freed */
    KVT_E_LIMIT = -5,     /* longer than tokens_max, or more rows than batch_tokens_max */
    KVT_E_CORRUPT = -6,   /* kvt_check found the cache's own records in contradiction; a tier's record is damaged */
    KVT_E_UNSUPPORTED = -7, /* a format, kind or size that this build does not offer */
    KVT_E_IO = -8         /* a tier could not be read or written */
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
struct kvt_tier;    /* where blocks wait outside the cache's memory, see below */

/* Nanoseconds of a clock that never goes back. */
typedef uint64_t (*kvt_clock_fn)(void *ctx);

/* When full blocks are written to the tiers. */
typedef enum kvt_write {
    KVT_WRITE_THROUGH = 0, /* as soon as they are committed: what a process has computed outlives it */
    KVT_WRITE_BACK = 1     /* once no sequence holds them */
} kvt_write;

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
    int forget; /* not 0: no prefix index. A block is free once no sequence holds it, kvt_match finds nothing, and tiers
                   are not used */
    const uint8_t *identity; /* [32] or NULL: a hash of all outside this cache that keys and values depend on: weights,
                                position encoding, the arithmetic of products. Needed where there are tiers */
    const char *label;       /* NULL or the model's name, for people who look at a tier; no part of any key */
    const uint8_t *secret;   /* [32] or NULL (zeros): key of the hashes. Caches with another one find nothing of it */
    struct kvt_tier *const *tiers; /* [n_tiers], the nearest first; the caller's, must outlive the cache */
    int n_tiers;             /* 0 .. 4 */
    kvt_write write;
    int moves_max;           /* blocks on their way to and from tiers at once, 1 .. 4096; default 64 */
    size_t pinned_bytes_max; /* limit of kvt_pin; 0: a quarter of the blocks */
    kvt_clock_fn clock;      /* NULL: the system's */
    void *clock_ctx;
    kvt_log_fn log;              /* NULL: silent */
    void *log_ctx;
    kvt_alloc_fn alloc; /* both or neither; neither: anonymous memory in huge pages where offered */
    kvt_release_fn release;
    void *alloc_ctx;
} kvt_options;

/* Every field at its default; layers and n_layers are left for the caller. */
KVT_API kvt_options kvt_options_default(void);

/* ----------------------------------------------------------------------------------------------- tiers
 *
 * A tier keeps records: bytes under a key. Blocks wait there when memory has no room for them, and outlive the process
 * where it is a disk. A cache reads and writes on a thread of its own for each tier; several caches, and several
 * processes where it is a folder, may use one. What comes back is checked (docs/format.md): whatever is damaged, of
 * another model or of another format is a miss. */
typedef struct kvt_tier kvt_tier;

typedef struct kvt_tier_key {
    uint8_t space[32]; /* of all records whose bytes have the same meaning */
    uint8_t name[32];
} kvt_tier_key;

typedef struct kvt_piece {
    void *at;
    size_t n;
} kvt_piece;

typedef struct kvt_tier_entry {
    kvt_tier_key key;
    uint64_t length;  /* of the record */
    uint64_t bytes;   /* it takes, as the limit counts them */
    uint64_t used_ns; /* when it was last written or read, since 1970 */
} kvt_tier_entry;
/* Not KVT_OK ends the walk with that status. */
typedef kvt_status (*kvt_tier_fn)(void *ctx, const kvt_tier_entry *entry);

typedef struct kvt_tier_usage {
    uint64_t bytes, bytes_max, n_records;
} kvt_tier_usage;

/* A tier of one's own. All but `close` may be called by several threads at once. */
typedef struct kvt_tier_ops {
    const char *name;
    /* The pieces, one behind the other, are a record: it is there whole, or not at all. Replaces one that is there.
     * KVT_FULL: it is larger than the limit. KVT_E_IO, KVT_E_MEMORY. */
    kvt_status (*put)(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces);
    /* Fill the pieces. KVT_MISS: not there. KVT_E_CORRUPT: of another length. KVT_E_UNSUPPORTED: and of another version
     * (not every tier says so). KVT_E_IO. What they hold is undefined unless KVT_OK. It counts as used. */
    kvt_status (*get)(void *ctx, const kvt_tier_key *key, const kvt_piece *pieces, int n_pieces);
    /* At once, without waiting for a disk: 1 it is probably there, 0 it is not. */
    int (*has)(void *ctx, const kvt_tier_key *key);
    void (*drop)(void *ctx, const kvt_tier_key *key); /* it need not be there */
    /* The least recently used first; fn may drop records. */
    kvt_status (*walk)(void *ctx, kvt_tier_fn fn, void *fn_ctx);
    void (*usage)(void *ctx, kvt_tier_usage *out);
    void (*close)(void *ctx);
} kvt_tier_ops;

/* ops are copied; all functions and the name are there. Not KVT_OK: ctx is still the caller's. */
KVT_API kvt_status kvt_tier_new(kvt_tier **out, const kvt_tier_ops *ops, void *ctx);
/* In this process's memory; bytes_max counts what it takes in all, records and tables. The least recently used leave.
 * KVT_E_ARGUMENT: bytes_max is below 4096. */
KVT_API kvt_status kvt_tier_memory(kvt_tier **out, uint64_t bytes_max);
/* In a folder, a file for each record, made if it is not there (its parent is). bytes_max counts what all files take on
 * the disk, those of other processes and those being written included; the least recently used leave. The log is called
 * on whatever thread works on the tier, a cache's own ones among them. KVT_E_ARGUMENT: bytes_max is below 65536.
 * KVT_E_IO: the folder cannot be used; the log says why. */
KVT_API kvt_status kvt_tier_disk(kvt_tier **out, const char *folder, uint64_t bytes_max, kvt_log_fn log, void *log_ctx);
KVT_API void kvt_tier_close(kvt_tier *tier); /* NULL is fine; no cache uses it any more */

KVT_API kvt_status kvt_tier_usage_get(kvt_tier *tier, kvt_tier_usage *out);
KVT_API kvt_status kvt_tier_walk(kvt_tier *tier, kvt_tier_fn fn, void *ctx);
KVT_API void kvt_tier_drop(kvt_tier *tier, const kvt_tier_key *key);

/* What a record says of itself. */
typedef struct kvt_record_info {
    uint32_t version; /* there with KVT_E_UNSUPPORTED too; all else is there with KVT_OK only */
    uint32_t kind; /* 1 a block, 2 what the records of its space have in common, 3 a swapped block of one sequence */
    uint32_t n_tokens, index; /* of a block: tokens, and its number in the sequence */
    uint64_t bytes;           /* header and payload */
    char about[160];          /* of kind 2: "8 layers, k8v8, blocks of 32, ...", for people */
} kvt_record_info;
/* Read and check a whole record. KVT_MISS: not there. KVT_E_CORRUPT: damaged, or not the record of this key.
 * KVT_E_UNSUPPORTED: of another version. KVT_E_MEMORY, KVT_E_IO. */
KVT_API kvt_status kvt_tier_verify(kvt_tier *tier, const kvt_tier_entry *entry, kvt_record_info *out);

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
    size_t bytes_tables;    /* block tables, free lists, token ids, the prefix index; buffers of moves to tiers */
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

/* ---------------------------------------------------------------------------- what others have computed
 *
 * A full block whose tokens were given to kvt_commit is found by what it is: the key of a block is a hash of the key of
 * the block before it and of its tokens, the first one's of everything that its bytes depend on. A block that no
 * sequence holds is idle: it stays, and can be found, until its room is needed or its time is over; ends of prefixes
 * leave before beginnings, docs/eviction.md says in which order. A block that comes to be a second time is kept once.
 * What is found is compared by its tokens and by what stands before it, and is what computing would give, bit by bit.
 * Paged caches only. */

/* Why a prefix ended where it did. */
typedef enum kvt_miss {
    KVT_MISS_NONE = 0,         /* it did not: all tokens but the last are there */
    KVT_MISS_COLD = 1,         /* nobody has computed this */
    KVT_MISS_DIFFERS = 2,      /* what is known goes on with other tokens */
    KVT_MISS_EVICTED = 3,      /* it was here, and had to leave */
    KVT_MISS_SHORT = 4,        /* what is left is less than a block */
    KVT_MISS_OTHER_FORMAT = 5, /* a tier has it from this model, in other formats, blocks or layers */
    KVT_MISS_OTHER_MODEL = 6,  /* a tier has the same tokens from another identity or numeric contract */
    KVT_MISS_TIER_SLOW = 7,    /* a tier has it, and reading it takes longer than computing it */
    KVT_MISS_TIER_BAD = 8,     /* a tier's record could not be read, or was not what it should be */
    KVT_MISS_WINDOW = 9,       /* tokens that a window needs have left it */
    KVT_MISS_DISABLED = 10,    /* this kind of cache has no prefix index, or options.forget */
    KVT_N_MISSES = 11
} kvt_miss;

/* "cold", "differs", "evicted", "shorter_than_block", "other_format", "other_model", "tier_slow", "tier_bad", "window",
 * "disabled", and "none"; NULL for a number that is none. */
KVT_API const char *kvt_miss_name(kvt_miss reason);

typedef struct kvt_match_options {
    int priority;    /* -100 .. 100, of the blocks of this sequence; a lower one leaves before a higher one */
    uint64_t ttl_ns; /* they are forgotten when nobody has read them for so long; 0: no limit */
    int resumed;     /* not 0: the sequence was here before and gave its blocks back; its hits are counted apart */
    int memory_only; /* not 0: tiers are not asked */
} kvt_match_options;

typedef struct kvt_match_result {
    int n_tokens;  /* that the sequence now has */
    int n_found;   /* of them, found by this call; */
    int n_partial; /* of these, in a block that goes on with other tokens (the newest 48 are looked at), */
    int n_fetched; /* and those that came from a tier */
    int n_coming;  /* more that are on their way from a tier: call again (kvt_wait) before computing, or go on */
    kvt_miss reason; /* why there are no more; KVT_MISS_NONE also while some are coming */
} kvt_match_result;

/* Give a sequence the longest known beginning of `tokens`, but at most n_tokens - 1 of them, since the last one's
 * logits have to be computed. What the sequence has already must be the beginning of tokens, and not all of them
 * (KVT_E_ARGUMENT); an empty one is the usual case. opt NULL: all 0. Blocks in tiers are fetched in the background, as
 * far as blocks are free; the next call takes those that have come, as far as it asks for the same tokens. A step over
 * a sequence whose blocks are still coming goes on without them. Never KVT_FULL. Not during a step. */
KVT_API kvt_status kvt_match(kvt_cache *cache, kvt_seq seq, const int32_t *tokens, int n_tokens,
                             const kvt_match_options *opt, kvt_match_result *out);

/* Hold the known blocks of this beginning, which then cannot leave; both count. *n_pinned: tokens that are held, which
 * are what kvt_unpin is to be given: of further ones, which have become known since, others may hold the blocks.
 * KVT_FULL: options.pinned_bytes_max is reached; nothing changed. */
KVT_API kvt_status kvt_pin(kvt_cache *cache, const int32_t *tokens, int n_tokens, int *n_pinned);
KVT_API kvt_status kvt_unpin(kvt_cache *cache, const int32_t *tokens, int n_tokens);

/* Take the sequence's blocks to a tier (number of options.tiers) and give their memory back. It keeps its length and
 * its tokens; until kvt_seq_swap_in it can only be freed (else KVT_E_STATE). Returns when all is written. KVT_E_IO: it
 * could not be written; the sequence is as before. */
KVT_API kvt_status kvt_seq_swap_out(kvt_cache *cache, kvt_seq seq, int tier);
/* Bring it back, bit by bit as it was. KVT_FULL: no room, KVT_E_IO: it could not be read; it is where it was.
 * KVT_MISS: the tier has lost some of it; the sequence ends before that, kvt_seq_length says where. */
KVT_API kvt_status kvt_seq_swap_in(kvt_cache *cache, kvt_seq seq);

/* Wait until something that is on its way from a tier has come, at most so many milliseconds (below 0: however long).
 * KVT_OK: it has, or nothing is on its way. KVT_MISS: not yet. */
KVT_API kvt_status kvt_wait(kvt_cache *cache, int timeout_ms);
/* Wait until all that is on its way to tiers is written; with KVT_WRITE_THROUGH also what found no room on that way.
 * kvt_close does. */
KVT_API kvt_status kvt_flush(kvt_cache *cache);

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
 * KVT_FULL: not enough blocks; nothing changed but that blocks nobody uses may have left, and that no sequence of the
 * batch waits any more for blocks from a tier. Free something and come back.
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
    size_t blocks_total, blocks_used, blocks_free; /* used: by sequences or moves; free: with those that are idle */
    size_t blocks_idle;        /* held by nobody, found by kvt_match */
    size_t blocks_pinned;
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

    /* Of kvt_match: asked = found + missed, where found = in memory + from tiers. A token that is asked for again by a
     * further call for the same sequence is not counted again. */
    uint64_t tokens_asked;
    uint64_t tokens_found;   /* in memory, */
    uint64_t tokens_fetched; /* and from tiers; */
    uint64_t tokens_resumed; /* of both: by sequences that had been here before (kvt_match_options.resumed) */
    uint64_t tokens_missed[KVT_N_MISSES]; /* by the reason for which the prefix ended */
    uint64_t blocks_evicted; /* so far, idle ones that left for another */
    uint64_t blocks_expired; /* their time was over */
    uint64_t blocks_merged;  /* that were computed a second time, and are kept once */
    uint64_t n_puts, n_gets; /* records written to and read from tiers, */
    uint64_t bytes_put, bytes_got;
    uint64_t n_puts_failed, n_gets_failed; /* and those that could not be, or were not what they should be */
    uint64_t n_puts_skipped; /* not written: too many were on their way, or the block had to leave before */
    size_t moves_open;       /* on their way now */
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
