/* handmade.h - small tokenizers made by hand, and what tests of text share. */
#ifndef HANDMADE_H
#define HANDMADE_H

#include "gguf_writer.h"
#include "model/tokenizer.h"

/* What a tokenizer's file says; NULL leaves a key out. */
typedef struct handmade {
    const char *model, *pre, *template, *architecture;
    const char *const *tokens, *const *merges;
    const int32_t *types;
    size_t n_tokens, n_merges, n_types;
    uint32_t eos;
    uint32_t bos; /* the id and one more; 0: the file names none */
    const float *scores;
    size_t n_scores;
    const uint8_t *table; /* of characters to replace, [n_table] bytes */
    size_t n_table;
    const char *flags; /* keys that are true, one blank between them, those that are false with a ! in front */
} handmade;

/* a b c ab bc abc, the user-defined <w>, the control tokens <ww> <|im_start|> <|im_end|>, and < > w. */
handmade handmade_good(void);

/* The same for SentencePiece's BPE: <unk> <s> </s>, the bytes <0x41> and <0xC3>, blank a b ab " a" " ab" bb, the
 * user-defined <w> and the control token <|end|>. */
handmade handmade_spm(void);

/* The file, to be closed before w->at is freed. */
model_file *handmade_file(const handmade *h, gguf_writer *w);
tokenizer *handmade_tokenizer(const handmade *h);

/* The tokenizer of a file that has to be good. */
tokenizer *handmade_open(const char *path);

/* The text has these ids, in a test's line. */
#define ENCODES(t, text, parse, ...) handmade_encodes(__LINE__, t, text, parse, (const int32_t[]){__VA_ARGS__, -1})
void handmade_encodes(int line, const tokenizer *t, const char *text, bool parse, const int32_t *want);
/* It is refused so, with a sentence that has this word in it. */
void handmade_refused(handmade h, kvt_status want, const char *word);

bool ids_same(const token_list *a, const token_list *b);
void ids_show(const char *what, const token_list *ids);

#endif
