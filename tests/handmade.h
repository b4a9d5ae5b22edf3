/* handmade.h - small tokenizers made by hand, and what tests of text share. */
#ifndef HANDMADE_H
#define HANDMADE_H

#include "gguf_writer.h"
#include "model/tokenizer.h"

/* What a tokenizer's file says; NULL leaves a key out. */
typedef struct handmade {
    const char *model, *pre, *template;
    const char *const *tokens, *const *merges;
    const int32_t *types;
    size_t n_tokens, n_merges, n_types;
    uint32_t eos;
} handmade;

/* a b c ab bc abc, the user-defined <w>, the control tokens <ww> <|im_start|> <|im_end|>, and < > w. */
handmade handmade_good(void);

/* The file, to be closed before w->at is freed. */
model_file *handmade_file(const handmade *h, gguf_writer *w);
tokenizer *handmade_tokenizer(const handmade *h);

/* The tokenizer of a file that has to be good. */
tokenizer *handmade_open(const char *path);

bool ids_same(const token_list *a, const token_list *b);
void ids_show(const char *what, const token_list *ids);

#endif
