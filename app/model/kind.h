/* kind.h - the kinds of tokenizers that tokenizer.ggml.model names, each a row for tokenizer.c, which finds the special
 * tokens and hands over what lies between them. */
#ifndef KIND_H
#define KIND_H

#include "bpe.h"
#include "nfc.h"
#include "pretokenize.h"
#include "vocab.h"

/* What a kind finds out about a file. */
typedef struct kind_traits {
    bool bos;   /* the model wants bos in front where the file does not say */
    bool blank; /* a text begins with a blank that was not in it */
} kind_traits;

/* Memory of one encoding, reused from text to text; {0} is empty. */
typedef struct kind_scratch {
    bpe_scratch bpe;
    piece_walk walk;
    byte_list text; /* normalised */
    struct unigram_place *place; /* [n_places] */
    size_t n_places;
    nfc_scratch nfc;
} kind_scratch;

void kind_scratch_free(kind_scratch *s);

typedef struct kind {
    const char *name, *words; /* of tokenizer.ggml.model; for people */
    vocab_style style;
    const char *bos, *eos; /* control tokens that are these where the file does not say; NULL: none */
    unsigned special; /* what is cut out of the text first; user-defined tokens are not where the kind finds them */
    /* The vocabulary outlives what is opened. On failure *self is NULL. */
    kvt_status (*open)(void **self, kind_traits *traits, const model_file *f, vocab *v, const spellings *s,
                       error_text *err);
    void (*close)(void *self); /* NULL is fine */
    /* Append the ids of valid UTF-8 without special tokens. On failure out may have some of them. */
    kvt_status (*encode)(const void *self, kind_scratch *scratch, const char *text, size_t n, token_list *out);
} kind;

extern const kind kind_bytelevel; /* "gpt2", bytelevel.c */
extern const kind kind_spm;       /* "llama", spm.c */
extern const kind kind_unigram;   /* "t5", unigram.c */

#endif
