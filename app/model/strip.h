/* strip.h - special tokens that take the white space behind them: an option of tokenizer.json files that GGUF files
 * have no key for, so models that need it are told by other keys. */
#ifndef STRIP_H
#define STRIP_H

#include "vocab.h"

void strip_read(vocab *v, const model_file *f);

#endif
