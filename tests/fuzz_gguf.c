/* fuzz_gguf.c - any bytes as a model file: opened or refused, and if opened everything in it can be read, down to its
 * tokenizer and chat template. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/file.h"
#include "model/chat.h"
#include "model/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static volatile unsigned sum; /* so that the reads are done */

static void read_key(const model_file *f, file_text key) {
    char name[256];
    file_array a;
    file_text text;
    int64_t whole;
    float real;
    uint32_t u;
    bool yes;
    if (key.n >= sizeof name || memchr(key.at, 0, key.n)) return;
    memcpy(name, key.at, key.n);
    name[key.n] = 0;
    if (!file_has(f, name)) abort();
    file_u32(f, name, &u, NULL);
    file_f32(f, name, &real, NULL);
    file_bool(f, name, &yes, NULL);
    if (file_string(f, name, &text, NULL) == KVT_OK)
        for (size_t i = 0; i < text.n; i++) sum += (unsigned char)text.at[i];
    if (file_array_any(f, name, &a, NULL) != KVT_OK) return;
    for (size_t i = 0; a.item != FILE_STRING && i < a.n; i++)
        sum += file_item_i64(&a, i, &whole) + file_item_f32(&a, i, &real);
    while (a.item == FILE_STRING && a.n)
        for (text = file_take_string(&a); text.n; text.n--) sum += (unsigned char)text.at[text.n - 1];
}

static void read_tensor(const file_tensor *t) {
    const unsigned char *p = t->data;
    for (size_t i = 0; i < t->bytes; i++) sum += p[i];
}

static void read_tokenizer(const model_file *f) {
    tokenizer *t;
    chat *c;
    error_text err;
    token_list ids = {0};
    if (tokenizer_open(&t, f, &err) != KVT_OK) return;
    tokenizer_encode(t, "Hi <|im_end|> 12  \xEA\xB0\x80", 20, true, &ids);
    if (chat_open(&c, f, t, &err) == KVT_OK) {
        chat_render(c, &(chat_message){"user", "Hi", 2}, 1, true, &ids);
        chat_close(c);
    }
    token_list_free(&ids);
    tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    model_file *f;
    error_text err = {""};
    if (file_open_memory(&f, "fuzz", data, n, &err) != KVT_OK) {
        if (f || !err.text[0] || strchr(err.text, '\n')) abort();
        return 0;
    }
    for (size_t i = 0; i < file_key_count(f); i++) read_key(f, file_key_name(f, i));
    for (size_t i = 0; i < file_tensor_count(f); i++) read_tensor(file_tensor_at(f, i));
    read_tokenizer(f);
    file_close(f);
    return 0;
}
