/* strip.c - see strip.h. */
#include "strip.h"

#include <string.h>

static const struct {
    const char *architecture, *kind;
    const char *but[4]; /* tokens that do not; NULL behind the last */
} ROWS[] = {
    {"phi3", "llama", {"<unk>", "<s>", "<|endoftext|>"}}, /* Phi-3 and 3.5: "<|user|>\n" is one token */
};

static bool says(const model_file *f, const char *key, const char *value) {
    file_text text;
    return file_has(f, key) && file_string(f, key, &text, NULL) == KVT_OK && text.n == strlen(value) &&
           memcmp(text.at, value, text.n) == 0;
}

static bool among(const char *const *list, const vocab_special *s) {
    for (; *list; list++)
        if (strlen(*list) == s->n && memcmp(*list, s->at, s->n) == 0) return true;
    return false;
}

void strip_read(vocab *v, const model_file *f) {
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        if (!says(f, "general.architecture", ROWS[r].architecture) || !says(f, "tokenizer.ggml.model", ROWS[r].kind))
            continue;
        for (size_t i = 0; i < v->n_special; i++)
            v->special[i].strip_right = !v->special[i].user && !among(ROWS[r].but, &v->special[i]);
    }
}
