/* test_gguf.c - the model file reader: good files are read, and every bad one is refused in one sentence that names the
 * file and the fault, without a byte read outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "file/file.h"
#include "fixture.h"
#include "gguf_writer.h"
#include "guard.h"
#include "kvtile_ops.h"

/* ------------------------------------------------------------------------------------------- helpers */

/* Every kind of key, two tensors: F32 of 8 x 2 at 0, Q8_0 of 32 x 3 at 64. */
static gguf_writer small_file(uint32_t version) {
    gguf_writer w = {0};
    put_header(&w, version, 2, 9);
    put_key_text(&w, "general.architecture", "llama");
    put_key_u32(&w, "llama.block_count", 30);
    put_key(&w, "a.negative", FILE_I8);
    put_bytes(&w, "\xFE", 1);
    put_key(&w, "a.float", FILE_F32);
    put_u32(&w, 0x40490FDB);
    put_key(&w, "a.double", FILE_F64);
    put_u64(&w, 0x3FF8000000000000);
    put_key(&w, "a.bool", FILE_BOOL);
    put_bytes(&w, "\1", 1);
    put_key(&w, "a.large", FILE_U64);
    put_u64(&w, UINT64_MAX);
    put_key_array(&w, "a.shorts", FILE_I16, 3);
    put_bytes(&w, "\x01\x00\xFF\xFF\x00\x80", 6);
    put_key_texts(&w, "a.texts", (const char *const[]){"one", "", "three"}, 3);
    put_tensor(&w, "floats", 2, (const uint64_t[]){8, 2}, KVT_W_F32, 0);
    put_tensor(&w, "codes", 2, (const uint64_t[]){32, 3}, KVT_W_Q8_0, 64);
    put_padding(&w, 32);
    for (int i = 0; i < 64 + 102; i++) put_bytes(&w, &(uint8_t){(uint8_t)i}, 1);
    return w;
}

/* The header of a file; keys, tensors and put_data follow. */
static gguf_writer begin(uint64_t n_tensors, uint64_t n_keys) {
    gguf_writer w = {0};
    put_header(&w, 3, n_tensors, n_keys);
    return w;
}

static void put_data(gguf_writer *w, size_t n) {
    put_padding(w, 32);
    for (size_t i = 0; i < n; i++) put_bytes(w, "", 1);
}

/* Read all that an open file offers; the sum is there so that the reads are. */
static unsigned read_everything(const model_file *f) {
    unsigned sum = 0;
    char name[256];
    for (size_t i = 0; i < file_key_count(f); i++) {
        file_text key = file_key_name(f, i);
        file_array a;
        file_text text;
        if (key.n >= sizeof name || memchr(key.at, 0, key.n)) continue;
        snprintf(name, sizeof name, "%.*s", (int)key.n, key.at);
        assert_true(file_has(f, name));
        if (file_string(f, name, &text, NULL) == KVT_OK)
            for (size_t j = 0; j < text.n; j++) sum += (unsigned char)text.at[j];
        if (file_array_any(f, name, &a, NULL) != KVT_OK) continue;
        int64_t whole;
        float real;
        for (size_t j = 0; a.item != FILE_STRING && j < a.n; j++)
            sum += file_item_i64(&a, j, &whole) + file_item_f32(&a, j, &real);
        while (a.item == FILE_STRING && a.n) sum += (unsigned)file_take_string(&a).n;
    }
    for (size_t i = 0; i < file_tensor_count(f); i++) {
        const file_tensor *t = file_tensor_at(f, i);
        const unsigned char *p = t->data;
        for (size_t j = 0; j < t->bytes; j++) sum += p[j];
    }
    return sum;
}

/* The bytes are refused with this status, and the sentence says "made.gguf" and each of the words. Frees w. */
#define REFUSED(w, status, ...) refused(__LINE__, w, status, (const char *const[]){__VA_ARGS__, NULL})
static void refused(int line, gguf_writer w, kvt_status want, const char *const *words) {
    uint8_t *bytes = guard_alloc(w.n, 1); /* a read past the end is a crash in every build */
    memcpy(bytes, w.at, w.n);
    model_file *f;
    error_text err = {"nothing"};
    kvt_status got = file_open_memory(&f, "made.gguf", bytes, w.n, &err);
    if (got != want || f) fail_msg("line %d: status %d, not %d: %s", line, got, want, err.text);
    if (strncmp(err.text, "made.gguf: ", 11) != 0 || strchr(err.text, '\n')) fail_msg("line %d: %s", line, err.text);
    for (; *words; words++)
        if (!strstr(err.text, *words)) fail_msg("line %d: \"%s\" does not say \"%s\"", line, err.text, *words);
    guard_free(bytes);
    free(w.at);
}

static model_file *open_bytes(const gguf_writer *w) {
    model_file *f;
    error_text err;
    if (file_open_memory(&f, "made.gguf", w->at, w->n, &err) != KVT_OK) fail_msg("%s", err.text);
    return f;
}

static void path_refused(const char *path, const char *word) {
    model_file *f;
    error_text err;
    assert_int_equal(file_open(&f, path, &err), KVT_E_ARGUMENT);
    assert_null(f);
    if (strncmp(err.text, path, strlen(path)) != 0 || !strstr(err.text, word)) fail_msg("%s", err.text);
}

/* ------------------------------------------------------------------------------------------ good files */

static void reads_both_versions(void **state) {
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        gguf_writer w = small_file(version);
        model_file *f = open_bytes(&w);
        assert_int_equal(file_key_count(f), 9);
        assert_int_equal(file_tensor_count(f), 2);

        const file_tensor *t;
        assert_int_equal(file_need(f, "codes", &t, NULL), KVT_OK);
        assert_ptr_equal(t, file_tensor_at(f, 1));
        assert_int_equal(t->n_dims, 2);
        assert_int_equal(t->dims[0], 32);
        assert_int_equal(t->dims[1], 3);
        assert_int_equal(t->dims[2] * t->dims[3], 1);
        assert_int_equal(t->type, KVT_W_Q8_0);
        assert_int_equal(t->bytes, 102);
        assert_int_equal(*(const uint8_t *)t->data, 64);
        assert_int_equal(file_tensor_find(f, "floats")->bytes, 64);
        assert_null(file_tensor_find(f, "float"));
        assert_null(file_tensor_find(f, "floatss"));
        file_close(f);
        free(w.at);
    }
}

static void reads_every_kind_of_value(void **state) {
    (void)state;
    gguf_writer w = small_file(3);
    model_file *f = open_bytes(&w);
    uint32_t u = 0;
    float x = 0;
    bool yes = false;
    file_text text;
    assert_int_equal(file_u32(f, "llama.block_count", &u, NULL), KVT_OK);
    assert_int_equal(u, 30);
    assert_int_equal(file_f32(f, "a.float", &x, NULL), KVT_OK);
    assert_true(x == 0x1.921fb6p+1f);
    assert_int_equal(file_f32(f, "a.double", &x, NULL), KVT_OK);
    assert_true(x == 1.5f);
    assert_int_equal(file_bool(f, "a.bool", &yes, NULL), KVT_OK);
    assert_true(yes);
    assert_int_equal(file_string(f, "general.architecture", &text, NULL), KVT_OK);
    assert_int_equal(text.n, 5);
    assert_memory_equal(text.at, "llama", 5);

    file_array a;
    int64_t item;
    const int64_t shorts[] = {1, -1, -32768};
    assert_int_equal(file_array_of(f, "a.shorts", FILE_I16, &a, NULL), KVT_OK);
    assert_int_equal(a.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(file_item_i64(&a, i, &item));
        assert_true(item == shorts[i]);
    }
    assert_false(file_item_i64(&a, 3, &item));
    assert_false(file_item_f32(&a, 0, &x));
    assert_int_equal(file_array_of(f, "a.texts", FILE_STRING, &a, NULL), KVT_OK);
    const char *const texts[] = {"one", "", "three"};
    for (size_t i = 0; i < 3; i++) {
        text = file_take_string(&a);
        assert_int_equal(text.n, strlen(texts[i]));
        assert_memory_equal(text.at, texts[i], text.n);
    }
    assert_int_equal(a.n, 0);
    assert_int_equal(file_take_string(&a).n, 0);
    file_close(f);
    free(w.at);
}

static void says_why_a_value_is_not_given(void **state) {
    (void)state;
    gguf_writer w = small_file(3);
    model_file *f = open_bytes(&w);
    uint32_t u = 7;
    error_text err;
    file_array a;
    assert_int_equal(file_u32(f, "llama.nothing", &u, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: key llama.nothing is missing");
    assert_int_equal(file_u32(f, "a.negative", &u, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: key a.negative is negative, not from 0 to 4294967295");
    assert_int_equal(file_u32(f, "a.large", &u, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: key a.large is too large, not from 0 to 4294967295");
    assert_int_equal(file_u32(f, "a.texts", &u, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: key a.texts is of type array of string, not an integer");
    assert_int_equal(file_array_of(f, "a.shorts", FILE_STRING, &a, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: key a.shorts is an array of i16, not of string");
    assert_int_equal(u, 7);
    file_close(f);
    free(w.at);
}

static void alignment_is_the_files_own(void **state) {
    (void)state;
    gguf_writer w = begin(1, 1);
    put_key_u32(&w, "general.alignment", 128);
    put_tensor(&w, "x", 1, (const uint64_t[]){1}, KVT_W_F32, 128);
    put_padding(&w, 128);
    for (int i = 0; i < 132; i++) put_bytes(&w, &(uint8_t){(uint8_t)i}, 1);
    model_file *f = open_bytes(&w);
    assert_int_equal(*(const uint8_t *)file_tensor_find(f, "x")->data, 128);
    file_close(f);
    free(w.at);
}

static void a_type_not_offered_fails_when_its_data_is_wanted(void **state) {
    (void)state;
    gguf_writer w = begin(2, 0);
    put_tensor(&w, "two", 1, (const uint64_t[]){256}, 16, 0);
    put_tensor(&w, "odd", 1, (const uint64_t[]){256}, 77, 0);
    put_data(&w, 66);
    model_file *f = open_bytes(&w);
    const file_tensor *t = NULL;
    error_text err;
    assert_int_equal(file_tensor_find(f, "two")->type, 16);
    assert_int_equal(file_tensor_find(f, "two")->bytes, 0);
    assert_int_equal(file_need(f, "two", &t, &err), KVT_E_UNSUPPORTED);
    assert_string_equal(err.text, "made.gguf: tensor two is of type IQ2_XXS (16), which this version does not read");
    assert_int_equal(file_need(f, "odd", &t, &err), KVT_E_UNSUPPORTED);
    assert_string_equal(err.text, "made.gguf: tensor odd is of type unknown (77), which this version does not read");
    assert_int_equal(file_need(f, "none", &t, &err), KVT_E_CORRUPT);
    assert_string_equal(err.text, "made.gguf: tensor none is missing (2 others are there)");
    assert_null(t);
    file_close(f);
    free(w.at);
}

/* ------------------------------------------------------------------------------------------- bad paths */

static void paths_that_are_no_model(void **state) {
    (void)state;
    char folder[64], path[96];
    snprintf(folder, sizeof folder, P_tmpdir "/kvtile-test-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    path_refused(folder, "is a folder");
    path_refused(path, "cannot be opened: No such file");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fclose(f);
    path_refused(path, "is empty");
    f = fopen(path, "wb");
    assert_non_null(f);
    fputs("version https://git-lfs.github.com/spec/v1\n", f);
    fclose(f);
    path_refused(path, "is not a GGUF file");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    path_refused(path, "is not a regular file");
    unlink(path);
    rmdir(folder);
}

static void a_long_path_leaves_room_for_the_sentence(void **state) {
    (void)state;
    char path[3000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    model_file *f;
    error_text err;
    assert_int_equal(file_open(&f, path, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, ": cannot be opened: "));
}

/* ------------------------------------------------------------------------------------------- bad bytes */

static void headers_that_lie(void **state) {
    (void)state;
    gguf_writer w = {0};
    put_bytes(&w, "GGUF\3\0\0\0", 8);
    REFUSED(w, KVT_E_CORRUPT, "ends inside the header", "8 of 24");
    w = (gguf_writer){0};
    put_header(&w, 1, 0, 0);
    REFUSED(w, KVT_E_UNSUPPORTED, "version 1");
    w = (gguf_writer){0};
    put_header(&w, 4, 0, 0);
    REFUSED(w, KVT_E_UNSUPPORTED, "version 4");
    w = (gguf_writer){0};
    put_header(&w, 0x03000000, 0, 0);
    REFUSED(w, KVT_E_UNSUPPORTED, "big-endian", "version 3");
    REFUSED(begin(UINT64_MAX, 0), KVT_E_CORRUPT, "18446744073709551615 tensors", "24 bytes");
    REFUSED(begin(0, (uint64_t)1 << 60), KVT_E_CORRUPT, "1152921504606846976 keys", "24 bytes");
}

static void counts_that_the_rest_cannot_hold(void **state) {
    (void)state;
    gguf_writer w = begin(0, 2);
    put_data(&w, 17); /* with the padding 25 bytes; two keys are 26 at least */
    REFUSED(w, KVT_E_CORRUPT, "claims 2 keys");
    w = begin(2, 0);
    put_data(&w, 39); /* 47 bytes; two tensors are 48 at least */
    REFUSED(w, KVT_E_CORRUPT, "claims 2 tensors");
}

static void keys_that_lie(void **state) {
    (void)state;
    gguf_writer w = begin(0, 1);
    put_key(&w, "k", 13);
    put_u64(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "key k is of unknown type 13");
    w = begin(0, 1);
    put_key_array(&w, "k", 99, 1);
    put_u64(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "key k is an array of unknown type 99");
    w = begin(0, 1);
    put_key_array(&w, "k", FILE_ARRAY, 1);
    put_u64(&w, 0);
    REFUSED(w, KVT_E_UNSUPPORTED, "key k is an array of arrays");
    w = begin(0, 1);
    put_key_array(&w, "k", FILE_U32, (uint64_t)1 << 62); /* times 4 it is 0 again */
    put_u64(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "key k claims 4611686018427387904 items", "8 bytes");
    w = begin(0, 1);
    put_key_array(&w, "k", FILE_STRING, 2);
    put_u64(&w, 0);
    put_u32(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "key k claims 2 items", "12 bytes");
    w = begin(0, 1);
    put_key(&w, "k", FILE_STRING);
    put_u64(&w, (uint64_t)1 << 63);
    REFUSED(w, KVT_E_CORRUPT, "ends inside key 0 of 1, k");
    w = begin(0, 1);
    put_u64(&w, UINT64_MAX);
    put_u64(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "ends inside key 0 of 1");
    w = begin(0, 2);
    put_key_u32(&w, "twice", 1);
    put_key_u32(&w, "twice", 2);
    REFUSED(w, KVT_E_CORRUPT, "key twice is there twice");
    w = begin(0, 1);
    put_key(&w, "bell\a\n\x1b[31m", 13);
    put_u64(&w, 0);
    REFUSED(w, KVT_E_CORRUPT, "key bell???[31m is of unknown type 13");
}

static gguf_writer one_tensor(uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset, size_t data) {
    gguf_writer w = begin(1, 0);
    put_tensor(&w, "t", n_dims, dims, type, offset);
    put_data(&w, data);
    return w;
}
#define DIMS(...) (const uint64_t[]){__VA_ARGS__}

static void a_tensor_is_as_long_as_all_its_dimensions(void **state) {
    (void)state;
    gguf_writer w = one_tensor(4, DIMS(32, 3, 5, 7), KVT_W_Q4_0, 0, 32 * 3 * 5 * 7 / 32 * 18);
    model_file *f = open_bytes(&w);
    assert_int_equal(file_tensor_find(f, "t")->bytes, 32 * 3 * 5 * 7 / 32 * 18);
    file_close(f);
    free(w.at);
}

/* Numbers, names and sizes of blocks as GGUF's own documents have them. */
static void every_type_of_weight_is_as_long_as_its_blocks(void **state) {
    (void)state;
    const struct {
        const char *name;
        uint32_t number;
        size_t columns, bytes;
    } types[] = {
        {"F32", 0, 1, 4},         {"F16", 1, 1, 2},       {"Q4_0", 2, 32, 18},   {"Q4_1", 3, 32, 20},
        {"Q5_0", 6, 32, 22},      {"Q5_1", 7, 32, 24},    {"Q8_0", 8, 32, 34},   {"Q2_K", 10, 256, 84},
        {"Q3_K", 11, 256, 110},   {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210},
        {"IQ4_NL", 20, 32, 18},   {"IQ4_XS", 23, 256, 136}, {"BF16", 30, 1, 2},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t row = 2 * types[i].columns, bytes = 2 * types[i].bytes * 3;
        gguf_writer w = one_tensor(2, DIMS(row, 3), types[i].number, 0, bytes);
        model_file *f = open_bytes(&w);
        assert_int_equal(file_tensor_find(f, "t")->bytes, bytes);
        assert_string_equal(file_type_name(types[i].number), types[i].name);
        file_close(f);
        free(w.at);
        REFUSED(one_tensor(2, DIMS(row, 3), types[i].number, 0, bytes - 1), KVT_E_CORRUPT, "tensor t");
        if (types[i].columns > 1)
            REFUSED(one_tensor(2, DIMS(row - 16, 3), types[i].number, 0, bytes), KVT_E_CORRUPT, "tensor t: a row of",
                    "is not a whole number of blocks of", types[i].name);
    }
}

static void tensors_that_lie(void **state) {
    (void)state;
    REFUSED(one_tensor(1, DIMS(9), KVT_W_F32, 0, 35), KVT_E_CORRUPT, "tensor t (36 bytes at offset 0)",
            "holds 35 bytes");
    REFUSED(one_tensor(1, DIMS(8), KVT_W_F32, 32, 63), KVT_E_CORRUPT, "tensor t (32 bytes at offset 32)",
            "holds 63 bytes");
    REFUSED(one_tensor(1, DIMS(8), KVT_W_F32, UINT64_MAX - 31, 64), KVT_E_CORRUPT, "tensor t", "past the end");
    REFUSED(one_tensor(1, DIMS(8), KVT_W_F32, 16, 64), KVT_E_CORRUPT, "tensor t is at offset 16", "multiple of 32");
    REFUSED(one_tensor(1, DIMS(8), 16, 96, 64), KVT_E_CORRUPT, "tensor t", "past the end");
    REFUSED(one_tensor(5, DIMS(1, 1, 1, 1, 1), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t has 5 dimensions");
    REFUSED(one_tensor(2, DIMS(8, 0), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "dimension 1 of tensor t is 0");
    REFUSED(one_tensor(1, DIMS(33), KVT_W_Q4_1, 0, 64), KVT_E_CORRUPT, "tensor t: a row of 33 elements", "Q4_1 (3)");
    uint64_t half = (uint64_t)1 << 32;
    REFUSED(one_tensor(2, DIMS(half, half), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t of 4294967296 x 4294967296",
            "too large");
    REFUSED(one_tensor(4, DIMS(1, half, half, 1), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t", "too large");
    REFUSED(one_tensor(4, DIMS(1, half, half / 2, 4), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t", "too large");
    REFUSED(one_tensor(2, DIMS(half, half / 2), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t", "too large");
    REFUSED(one_tensor(1, DIMS((uint64_t)1 << 62), KVT_W_F32, 0, 64), KVT_E_CORRUPT, "tensor t");

    gguf_writer w = begin(2, 0);
    put_tensor(&w, "t", 1, DIMS(8), KVT_W_F32, 0);
    put_tensor(&w, "t", 1, DIMS(8), KVT_W_F32, 32);
    put_data(&w, 64);
    REFUSED(w, KVT_E_CORRUPT, "tensor t is there twice", "0 and 1");
    const uint32_t alignments[] = {0, 4, 48};
    const char *const words[] = {"general.alignment is 0,", "general.alignment is 4,", "general.alignment is 48,"};
    for (int i = 0; i < 3; i++) {
        w = begin(1, 1);
        put_key_u32(&w, "general.alignment", alignments[i]);
        put_tensor(&w, "t", 1, DIMS(8), KVT_W_F32, 0);
        put_data(&w, 96);
        REFUSED(w, KVT_E_CORRUPT, words[i]);
    }
}

/* Loading copies each tensor, so bytes that many share would be as much memory as the file pleases. */
static void tensors_that_overlap(void **state) {
    (void)state;
    for (uint64_t offset = 0; offset <= 64; offset += 32) {
        gguf_writer w = begin(3, 0);
        put_tensor(&w, "long", 1, DIMS(16), KVT_W_F32, 32);
        put_tensor(&w, "first", 1, DIMS(8), KVT_W_F32, 0);
        put_tensor(&w, "other", 1, DIMS(8), KVT_W_F32, offset);
        put_data(&w, 96);
        REFUSED(w, KVT_E_CORRUPT, "tensors ", offset ? "long" : "first", " and ", "other", " overlap");
    }
}

static void every_cut_is_refused(void **state) {
    (void)state;
    gguf_writer whole = small_file(3);
    for (size_t n = 1; n < whole.n; n++) {
        gguf_writer w = {0};
        put_bytes(&w, whole.at, n);
        REFUSED(w, n < 4 ? KVT_E_ARGUMENT : KVT_E_CORRUPT, ": ");
    }
    free(whole.at);
}

static void no_changed_byte_is_followed_outside(void **state) {
    (void)state;
    gguf_writer w = small_file(3);
    uint8_t *bytes = guard_alloc(w.n, 1);
    memcpy(bytes, w.at, w.n);
    size_t opened = 0, refused_ones = 0;
    for (size_t i = 0; i < w.n - 166; i++) { /* all but the tensor data */
        for (unsigned change = 1; change < 256; change++) {
            model_file *f;
            error_text err;
            bytes[i] ^= (uint8_t)change;
            kvt_status st = file_open_memory(&f, "made.gguf", bytes, w.n, &err);
            if (st == KVT_OK) read_everything(f);
            st == KVT_OK ? opened++ : refused_ones++;
            file_close(f);
            bytes[i] ^= (uint8_t)change;
        }
    }
    assert_true(opened > 0 && refused_ones > 0);
    guard_free(bytes);
    free(w.at);
}

/* ------------------------------------------------------------------------------------------ real files */

static void reads_the_default_model(void **state) {
    (void)state;
    if (!fixture_model()) fixture_skip("the default model is not there (make model)");
    model_file *f;
    error_text err;
    if (file_open(&f, fixture_model(), &err) != KVT_OK) fail_msg("%s", err.text);
    const file_tensor *t;
    uint32_t layers = 0;
    assert_int_equal(file_u32(f, "llama.block_count", &layers, &err), KVT_OK);
    assert_int_equal(layers, 30);
    assert_int_equal(file_tensor_count(f), 272);
    assert_int_equal(file_need(f, "token_embd.weight", &t, &err), KVT_OK);
    assert_int_equal(t->dims[0], 576);
    assert_int_equal(t->dims[1], 49152);
    assert_int_equal(t->type, KVT_W_Q8_0);
    assert_int_equal(t->bytes, (size_t)49152 * 576 / 32 * 34);
    file_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_both_versions),
        cmocka_unit_test(reads_every_kind_of_value),
        cmocka_unit_test(says_why_a_value_is_not_given),
        cmocka_unit_test(alignment_is_the_files_own),
        cmocka_unit_test(a_type_not_offered_fails_when_its_data_is_wanted),
        cmocka_unit_test(paths_that_are_no_model),
        cmocka_unit_test(a_long_path_leaves_room_for_the_sentence),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(counts_that_the_rest_cannot_hold),
        cmocka_unit_test(keys_that_lie),
        cmocka_unit_test(a_tensor_is_as_long_as_all_its_dimensions),
        cmocka_unit_test(every_type_of_weight_is_as_long_as_its_blocks),
        cmocka_unit_test(tensors_that_lie),
        cmocka_unit_test(tensors_that_overlap),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(no_changed_byte_is_followed_outside),
        cmocka_unit_test(reads_the_default_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
