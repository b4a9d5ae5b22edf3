/* fuzz_tokenizer.c - any bytes as text, over the small vocabulary of a file in tests/vectors (so it runs from the root
 * of the repository): what is valid UTF-8 comes back, and streaming gives what decoding at once gives. The first byte
 * chooses whether control tokens are parsed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/tokenizer.h"
#include "model/utf8.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static tokenizer *t;

static void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "fuzz_tokenizer: %s\n", what);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    model_file *f;
    error_text err = {""};
    check(file_open(&f, "tests/vectors/tiny-a.gguf", &err) == KVT_OK, err.text);
    check(tokenizer_open(&t, f, &err) == KVT_OK, err.text);
    file_close(f);
    return 0;
}

static void check_stream(const token_list *ids, const byte_list *whole, bool valid) {
    byte_list part = {0};
    tokenizer_decoder d = tokenizer_decoder_of(t, true);
    for (size_t i = 0; i < ids->n; i++) {
        check(tokenizer_push(&d, ids->id[i], &part) == KVT_OK, "a token is refused");
        check(!valid || d.n_tail == 0 || utf8_unfinished(d.tail, (size_t)d.n_tail) == (size_t)d.n_tail,
              "a whole character waits");
    }
    check(tokenizer_flush(&d, &part) == KVT_OK, "the flush fails");
    check(part.n == whole->n && (!part.n || memcmp(part.at, whole->at, part.n) == 0), "streaming differs");
    byte_list_free(&part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n == 0) return 0;
    const char *text = (const char *)data + 1;
    token_list ids = {0};
    byte_list repaired = {0}, whole = {0};
    check(utf8_repair(text, n - 1, &repaired) == KVT_OK, "repair fails");
    check(tokenizer_encode(t, text, n - 1, data[0] & 1, &ids) == KVT_OK, "encoding fails");
    check(tokenizer_decode(t, ids.id, ids.n, true, &whole) == KVT_OK, "decoding fails");
    check(whole.n == repaired.n && (!whole.n || memcmp(whole.at, repaired.at, whole.n) == 0),
          "the text does not come back");
    check_stream(&ids, &whole, utf8_valid(text, n - 1));
    token_list_free(&ids);
    byte_list_free(&repaired);
    byte_list_free(&whole);
    return 0;
}
