/* tokenizer.h - text to token ids and back, as a GGUF file describes it: byte-level BPE ("gpt2"), SentencePiece's BPE
 * ("llama") and its unigram model ("t5").
 *
 *     tokenizer *t;
 *     tokenizer_open(&t, file, &err);
 *     token_list ids = {0};
 *     tokenizer_encode(t, text, n, false, &ids);           appends; ids.id[0 .. ids.n - 1]
 *     byte_list out = {0};
 *     tokenizer_decode(t, ids.id, ids.n, false, &out);
 *     token_list_free(&ids); byte_list_free(&out); tokenizer_close(t);
 *
 * Ids agree with Hugging Face tokenizers for the first kind and with sentencepiece for the others. What decides them:
 * - Bytes that are not UTF-8 become U+FFFD first, one for each maximal part of a character. A NUL is a character.
 * - Control tokens in the text count only when the caller says so: text from outside is passed with parse_control
 *   false, and a typed "<|im_end|>" is then ten ordinary characters. Where several match, the longest does. In Phi-3's
 *   files white space behind most of them belongs to them (strip.c); other options that only a tokenizer.json has are
 *   not in a GGUF file and not applied. What lies between two control tokens is a text of its own.
 * - User-defined tokens (runs of blanks, say) are words of the text and always count.
 * - No token is added in front: add_bos says whether the model wants its bos id there.
 *
 * Byte-level BPE: where the model asks for it (Qwen, Command-R, MPT) text is brought to Unicode's normal form C, then
 * cut into pieces by the patterns that tokenizer.ggml.pre names (patterns.c), and the bytes of each piece are merged in
 * the order of the file's list. For Llama 3, Tekken and their relatives a piece that is a token as a whole is that
 * token. A byte that has no token (SmolLM2's vocabulary lacks 21, among them no printable one) vanishes, and its
 * neighbours touch: that is what the reference does where no unknown token is set.
 *
 * SentencePiece: characters are replaced by the file's table if it has one (precompiled_charsmap), blanks in a row
 * become one if it says so (remove_extra_whitespaces), and a text that is not empty gets a blank in front unless it
 * says otherwise (add_space_prefix; in a unigram file that lacks the key it does not). Tokens are merged by their
 * scores, or those of the best sum are taken. A character without a token becomes its bytes, if the file has tokens for
 * them; or else the unknown token, once for a run of such characters; or else nothing. Tokens marked as unused are
 * not used.
 *
 * After opening it does not change and no longer needs the file: threads may share it. */
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file/file.h"
#include "kvtile.h"

/* Growable lists: {0} is empty, calls append. */
typedef struct token_list {
    int32_t *id;
    size_t n, room;
} token_list;

typedef struct byte_list {
    char *at;
    size_t n, room;
} byte_list;

/* KVT_E_MEMORY leaves the list as it was. */
kvt_status token_list_add(token_list *list, int32_t id);
void token_list_free(token_list *list);
kvt_status byte_list_add(byte_list *list, const void *bytes, size_t n);
void byte_list_free(byte_list *list);

typedef struct tokenizer tokenizer;

/* KVT_E_UNSUPPORTED: another kind of tokenizer, or a pre-tokenizer this version does not know (the error names it).
 * KVT_E_CORRUPT: the keys contradict each other. On failure *out is NULL. */
kvt_status tokenizer_open(tokenizer **out, const model_file *f, error_text *err);
void tokenizer_close(tokenizer *t); /* NULL is fine */

typedef struct tokenizer_info {
    int32_t n_vocab;
    int32_t bos, eos, eot; /* -1: the file names none */
    bool add_bos;          /* the model wants bos in front of a text: as the file says, or as its kind does; false where
                            * there is no bos. What files say about eos or a separator behind a text (add_eos_token,
                            * add_sep_token) is for finished texts, not for those to be continued: not read */
} tokenizer_info;

const tokenizer_info *tokenizer_about(const tokenizer *t);

/* An answer ends with this token: eos, eot or eom of the file, or one known by its text (ends.c has the list). */
bool tokenizer_is_end(const tokenizer *t, int32_t id);
/* A control token, or the unknown token: no text of its own. */
bool tokenizer_is_control(const tokenizer *t, int32_t id);
/* The control token spelled so; -1: there is none. */
int32_t tokenizer_control(const tokenizer *t, const char *text);
/* The bytes of one token, not always whole characters; NULL for an id outside the vocabulary. */
const char *tokenizer_bytes(const tokenizer *t, int32_t id, size_t *n);

/* Append the ids of n bytes of text. KVT_E_LIMIT: more than 1 GiB. On failure out is as it was. */
kvt_status tokenizer_encode(const tokenizer *t, const char *text, size_t n, bool parse_control, token_list *out);

/* Append the bytes of n ids; control tokens, and the unknown token, give nothing unless show_control. The ids are those
 * of a text from its beginning: a blank in front that encoding has put there is taken away. KVT_E_ARGUMENT: an id
 * outside the vocabulary; out is as it was. */
kvt_status tokenizer_decode(const tokenizer *t, const int32_t *id, size_t n, bool show_control, byte_list *out);

/* Text as it comes, token by token, and never half a character: the first bytes of one wait here for the others. Bytes
 * that are part of no character pass unchanged. All pushes and the flush together give what tokenizer_decode gives. */
typedef struct tokenizer_decoder {
    const tokenizer *t;
    bool show_control;
    bool at_start; /* the next token begins a text; set it to false where the tokens go on with one */
    char tail[3];
    int n_tail;
} tokenizer_decoder;

tokenizer_decoder tokenizer_decoder_of(const tokenizer *t, bool show_control);
kvt_status tokenizer_push(tokenizer_decoder *d, int32_t id, byte_list *out);
/* The end: what is waiting comes out as it is. */
kvt_status tokenizer_flush(tokenizer_decoder *d, byte_list *out);

#endif
