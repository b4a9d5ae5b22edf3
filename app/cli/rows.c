/* rows.c - options that several commands have, each written down once. */
#include "cli.h"
#include "formats.h"

#define ROWS(table) { table, sizeof table / sizeof table[0] }

static const option model_table[] = {
    { "-m", "MODEL", OPTION_FILE, offsetof(common_options, model),
      "a .gguf file (default: the one that `make model` fetches)", .files = "gguf" },
};
const option_rows rows_model = ROWS(model_table);

static const option sampling_table[] = {
    OPTION_HEAD("Sampling"),
    { "--temp", "T", OPTION_REAL, offsetof(sample_options, temp), "temperature; 0: the likeliest token each time", 0,
      100,
      .more = "Rules apply in this order: --logit-bias, --repeat-penalty, --frequency-penalty and --presence-penalty, "
              "--temp, --top-k, --top-p, --min-p, --typical. Each sees what the ones before it left; at temperature 0 "
              "only those before --temp count." },
    { "--top-k", "K", OPTION_INT, offsetof(sample_options, top_k), "only the K likeliest tokens; 0: all", 0, 16777216 },
    { "--top-p", "P", OPTION_REAL, offsetof(sample_options, top_p), "only the likeliest that together reach P; 1: all",
      0, 1 },
    { "--min-p", "P", OPTION_REAL, offsetof(sample_options, min_p),
      "only those P times as likely as the likeliest; 0: all", 0, 1 },
    { "--typical", "P", OPTION_REAL, offsetof(sample_options, typical),
      "only the most typical that together reach P; 1: all", 0, 1,
      .more = "Typical is a token whose log-probability is near the mean of all: neither the obvious nor the odd "
              "(locally typical sampling)." },
    { "--repeat-penalty", "R", OPTION_REAL, offsetof(sample_options, repeat_penalty),
      "make tokens that were there less likely: logits above 0 / R, others * R; 1: none", 0.01, 100 },
    { "--repeat-last", "N", OPTION_INT, offsetof(sample_options, repeat_last),
      "the repetition penalty looks at the last N tokens, the prompt's too; 0: all", 0, 16777216 },
    { "--frequency-penalty", "F", OPTION_REAL, offsetof(sample_options, frequency_penalty),
      "less F for each time that the answer has a token", -100, 100 },
    { "--presence-penalty", "F", OPTION_REAL, offsetof(sample_options, presence_penalty),
      "less F once for a token that the answer has", -100, 100 },
    { "--seed", "S", OPTION_SEED, offsetof(sample_options, seed), "same seed, same text, on every machine" },
};
const option_rows rows_sampling = ROWS(sampling_table);

static const option sampling_texts_table[] = {
    { "--logit-bias", "ID:VALUE,...", OPTION_TEXTS, offsetof(sampling_texts, bias),
      "add VALUE, -100 to 100, to a token's logit; -inf: never",
      .more = "Pairs are separated by commas, and the option may be given several times." },
    { "--stop", "TEXT", OPTION_TEXTS, offsetof(sampling_texts, stop),
      "end the answer before TEXT; may be given 16 times",
      .more = "TEXT is found wherever tokens begin and end, and nothing of it is shown." },
};
const option_rows rows_sampling_texts = ROWS(sampling_texts_table);

static const option cache_table[] = {
    OPTION_HEAD("Cache"),
    { "--cache", "paged|contiguous|none", OPTION_CHOICE, offsetof(common_options, kind), "how the cache is kept",
      .more = "All three give the same bits; the last two are there to compare with." },
    { "--cache-size", "BYTES", OPTION_BYTES, offsetof(common_options, cache_bytes),
      "limit of the cache, e.g. 512M, 4GiB (default: enough for all sequences at full length)" },
};
const option_rows rows_cache = ROWS(cache_table);

static const option blocks_table[] = {
    { "--block", "16|32|64", OPTION_CHOICE, offsetof(common_options, block), "tokens of a block" },
    { "--hot", "TOKENS", OPTION_INT, offsetof(common_options, hot),
      "first tokens that keep 16 or 32 bits, in whole blocks, where the format has fewer", 0, 1 << 30 },
};
const option_rows rows_blocks = ROWS(blocks_table);

static const option formats_table[] = {
    { "--kv", "FORMAT", OPTION_WORD, offsetof(common_options, kv), "format of keys and values",
      .word_at = format_pair_word,
      .more = "kNvM are codes of N bits for keys and of M bits for values. Formats below 16 bits are for blocks that "
              "are full: the block that is being filled, and the first ones, have 16 or 32 bits." },
    { "--k", "FORMAT", OPTION_WORD, offsetof(common_options, k), "format of keys alone", .word_at = format_word },
    { "--v", "FORMAT", OPTION_WORD, offsetof(common_options, v), "format of values alone", .word_at = format_word },
};
const option_rows rows_formats = ROWS(formats_table);

static const option machine_table[] = {
    OPTION_HEAD("Machine"),
    { "--math", "fast|accurate|exact", OPTION_CHOICE, offsetof(common_options, math),
      "precision: 8-bit activations, 16-bit, or float32",
      .more = "fast has exact integer products of 8-bit activations, of 16-bit ones before the output matrix; "
              "accurate has 16 bits everywhere; exact has float32 throughout. The last two do not round queries and "
              "softmax weights either." },
};
const option_rows rows_machine = ROWS(machine_table);

static const option threads_table[] = {
    { "--threads", "N", OPTION_INT, offsetof(common_options, threads),
      "threads (default: the processors that this process may use)", 1, 256 },
};
const option_rows rows_threads = ROWS(threads_table);

static const option chunk_table[] = {
    { "--chunk", "TOKENS", OPTION_INT, offsetof(common_options, chunk), "most tokens of one step", 1, 65536,
      .more = "Ctrl-C ends the work between two steps: of thousands of tokens, not before that step is done." },
};
const option_rows rows_chunk = ROWS(chunk_table);

static const option json_table[] = {
    OPTION_HEAD("Output"),
    { "--json", NULL, OPTION_FLAG, offsetof(common_options, json), "one JSON object on stdout" },
};
const option_rows rows_json = ROWS(json_table);
