/* test_vocabularies.c - small vocabularies of every kind of tokenizer, against the ids that outside references gave
 * (tests/vectors/vocabularies.json). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <dirent.h>
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "fixture.h"
#include "handmade.h"
#include "model/pretokenize.h"
#include "model/tokenizer.h"
#include "model/utf8.h"

static json_t *fixture;

static int fixture_open(void **state) {
    (void)state;
    json_error_t error;
    fixture = json_load_file("tests/vectors/vocabularies.json", 0, &error);
    if (!fixture) print_message("tests/vectors/vocabularies.json: %s, line %d\n", error.text, error.line);
    return fixture ? 0 : -1;
}

static int fixture_close(void **state) {
    (void)state;
    json_decref(fixture);
    return 0;
}

/* --------------------------------------------------------------------------------------- files from JSON */

static void put_json_texts(gguf_writer *w, const char *name, const json_t *list) {
    put_key_array(w, name, FILE_STRING, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(list, i);
        put_u64(w, json_string_length(text));
        put_bytes(w, json_string_value(text), json_string_length(text));
    }
}

static void put_json_number(gguf_writer *w, const json_t *number, bool whole) {
    float real = (float)json_number_value(number);
    uint32_t bits = (uint32_t)json_integer_value(number);
    if (!whole) memcpy(&bits, &real, sizeof bits);
    put_u32(w, bits);
}

static void put_json_bytes(gguf_writer *w, const char *name, const json_t *list) {
    put_key_array(w, name, FILE_U8, json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++)
        put_bytes(w, &(uint8_t){(uint8_t)json_integer_value(json_array_get(list, i))}, 1);
}

static void put_json_key(gguf_writer *w, const char *name, const json_t *value) {
    const json_t *first = json_array_get(value, 0);
    if (json_is_string(value)) put_key_text(w, name, json_string_value(value));
    else if (json_is_boolean(value)) {
        put_key(w, name, FILE_BOOL);
        put_bytes(w, json_is_true(value) ? "\1" : "\0", 1);
    } else if (strstr(name, "precompiled_charsmap")) put_json_bytes(w, name, value);
    else if (json_is_integer(value)) put_key_u32(w, name, (uint32_t)json_integer_value(value));
    else if (json_is_string(first) || !first) put_json_texts(w, name, value);
    else {
        bool whole = json_is_integer(first);
        put_key_array(w, name, whole ? FILE_I32 : FILE_F32, json_array_size(value));
        for (size_t i = 0; i < json_array_size(value); i++) put_json_number(w, json_array_get(value, i), whole);
    }
}

/* The keys of a set, and those of its vocabulary. */
static tokenizer *tokenizer_of(const json_t *set) {
    json_t *vocabulary = json_object_get(json_object_get(fixture, "vocabularies"),
                                         json_string_value(json_object_get(set, "vocabulary")));
    json_t *keys = json_copy(vocabulary), *value;
    const char *name;
    assert_non_null(vocabulary);
    json_object_update(keys, json_object_get(set, "keys"));
    gguf_writer w = {0};
    put_header(&w, 3, 0, json_object_size(keys));
    json_object_foreach(keys, name, value) put_json_key(&w, name, value);
    json_decref(keys);
    model_file *f;
    tokenizer *t;
    error_text err;
    if (file_open_memory(&f, "made.gguf", w.at, w.n, &err) != KVT_OK) fail_msg("%s", err.text);
    if (tokenizer_open(&t, f, &err) != KVT_OK) fail_msg("%s", err.text);
    file_close(f);
    free(w.at);
    return t;
}

/* -------------------------------------------------------------------------------------------------- ids */

static int digit_of(char c) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return (int)(strchr(DIGITS, c) - DIGITS);
}

/* Two characters for an id. */
static token_list unpacked(const char *packed) {
    token_list out = {0};
    for (; *packed; packed += 2)
        assert_int_equal(token_list_add(&out, digit_of(packed[0]) * 64 + digit_of(packed[1])), KVT_OK);
    return out;
}

static byte_list from_hex(const char *hex) {
    byte_list out = {0};
    for (unsigned byte; *hex; hex += 2) {
        assert_int_equal(sscanf(hex, "%2x", &byte), 1);
        assert_int_equal(byte_list_add(&out, &(unsigned char){(unsigned char)byte}, 1), KVT_OK);
    }
    return out;
}

static bool encodes(const tokenizer *t, const json_t *text, const char *packed, const char *name) {
    const char *hex = json_string_value(json_object_get(text, "hex"));
    byte_list bytes = from_hex(hex);
    token_list want = unpacked(packed), got = {0};
    bool special = json_is_true(json_object_get(text, "special"));
    assert_int_equal(tokenizer_encode(t, bytes.at, bytes.n, special, &got), KVT_OK);
    bool same = ids_same(&want, &got);
    if (!same) {
        print_message("%s, %s: %.*s\n", name, hex, (int)bytes.n, bytes.at);
        ids_show("reference", &want);
        ids_show("here", &got);
    }
    token_list_free(&want);
    token_list_free(&got);
    byte_list_free(&bytes);
    return same;
}

/* Calls check for each text that the set has ids for; how many it found wrong. */
typedef bool check_text(const tokenizer *t, const json_t *set, size_t i, const json_t *text, const char *packed);

static size_t check_sets(const char *part, check_text *check) {
    const json_t *texts = json_object_get(fixture, "texts"), *sets = json_object_get(fixture, "sets"), *set;
    size_t i, wrong = 0;
    assert_true(json_array_size(texts) >= 300);
    json_array_foreach(sets, i, set) {
        const json_t *ids = json_object_get(set, "ids");
        if (!json_object_get(set, part)) continue;
        tokenizer *t = tokenizer_of(set);
        bool all = !json_is_true(json_object_get(set, "special_only"));
        size_t n = 0;
        for (size_t k = 0; k < json_array_size(texts); k++) {
            const json_t *text = json_array_get(texts, k);
            if (!all && !json_is_true(json_object_get(text, "special"))) continue;
            wrong += !check(t, set, n, text, json_string_value(json_array_get(ids, n)));
            n++;
        }
        assert_int_equal(n, json_array_size(ids));
        tokenizer_close(t);
    }
    return wrong;
}

static bool encodes_this(const tokenizer *t, const json_t *set, size_t i, const json_t *text, const char *packed) {
    (void)i;
    return encodes(t, text, packed, json_string_value(json_object_get(set, "name")));
}

static void encodes_as_the_reference(void **state) {
    (void)state;
    assert_int_equal(check_sets("ids", encodes_this), 0);
}

/* "=": the text comes back as it was. */
static bool decodes_this(const tokenizer *t, const json_t *set, size_t i, const json_t *text, const char *packed) {
    token_list ids = unpacked(packed);
    const char *hex = json_string_value(json_array_get(json_object_get(set, "decoded"), i));
    byte_list want = from_hex(*hex != '=' ? hex : json_string_value(json_object_get(text, "hex"))), got = {0};
    assert_int_equal(tokenizer_decode(t, ids.id, ids.n, false, &got), KVT_OK);
    bool same = got.n == want.n && (got.n == 0 || memcmp(got.at, want.at, got.n) == 0);
    if (!same) {
        print_message("%s: \"%.*s\", not \"%.*s\"\n", json_string_value(json_object_get(set, "name")), (int)got.n,
                      got.at, (int)want.n, want.at);
        ids_show("ids", &ids);
    }
    token_list_free(&ids);
    byte_list_free(&want);
    byte_list_free(&got);
    return same;
}

static void decodes_as_the_reference(void **state) {
    (void)state;
    assert_int_equal(check_sets("decoded", decodes_this), 0);
}

/* ids alone would not tell where a text was cut wherever no merge crosses the cut. */
static bool cuts(piece_walk *walk, const json_t *text, const char *packed, const char *name) {
    const char *hex = json_string_value(json_object_get(text, "hex"));
    byte_list bytes = from_hex(hex), valid = {0};
    token_list want = unpacked(packed), got = {0};
    assert_int_equal(utf8_repair(bytes.at, bytes.n, &valid), KVT_OK);
    piece_walk_start(walk, valid.at, valid.n);
    for (size_t first;;) {
        assert_int_equal(piece_next(walk, &first), KVT_OK);
        if (first == walk->at) break;
        assert_int_equal(token_list_add(&got, (int32_t)(walk->at - first)), KVT_OK);
    }
    bool same = ids_same(&want, &got);
    if (!same) {
        print_message("%s, %s: %.*s\n", name, hex, (int)bytes.n, bytes.at);
        ids_show("lengths of the reference's pieces", &want);
        ids_show("here", &got);
    }
    token_list_free(&want);
    token_list_free(&got);
    byte_list_free(&bytes);
    byte_list_free(&valid);
    return same;
}

static size_t cuts_wrong(const json_t *set, const json_t *texts, uint32_t options) {
    const char *name = json_string_value(json_object_get(set, "name"));
    handmade h = handmade_good();
    gguf_writer w;
    h.pre = name;
    model_file *f = handmade_file(&h, &w);
    pretokenizer *p;
    piece_walk walk;
    size_t wrong = 0;
    assert_int_equal(pretokenizer_open(&p, f, NULL), KVT_OK);
    assert_int_equal(piece_walk_open(&walk, p), KVT_OK);
    walk.options |= options;
    for (size_t k = 0; k < json_array_size(texts); k++)
        wrong += !cuts(&walk, json_array_get(texts, k),
                       json_string_value(json_array_get(json_object_get(set, "pieces"), k)), name);
    piece_walk_close(&walk);
    pretokenizer_close(p);
    file_close(f);
    free(w.at);
    return wrong;
}

static void cuts_as_the_reference(void **state) {
    (void)state;
    const json_t *texts = json_object_get(fixture, "texts"), *sets = json_object_get(fixture, "sets"), *set;
    size_t i, wrong = 0, n_sets = 0;
    json_array_foreach(sets, i, set) {
        if (!json_object_get(set, "pieces")) continue;
        wrong += cuts_wrong(set, texts, 0) + cuts_wrong(set, texts, PCRE2_NO_JIT);
        n_sets++;
    }
    assert_int_equal(n_sets, 13);
    assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------------------------------ real vocabularies
 *
 * They are too large to be kept here. KVTILE_VOCABULARIES names a folder of them, by hand: X.gguf with texts in
 * X.gguf.inp and a line of ids for each in X.gguf.out, as llama.cpp's models/ has. */

static size_t file_differs(const char *path, char *texts, char *lines) {
    static const char BETWEEN[] = "\n__ggml_vocab_test__\n";
    tokenizer *t = handmade_open(path);
    size_t n = 0, wrong = 0;
    for (char *next; texts; texts = next, n++) {
        token_list want = {0}, got = {0};
        next = strstr(texts, BETWEEN);
        size_t length = next ? (size_t)(next - texts) : strlen(texts);
        if (!next && length == 0) break;
        if (next) next += sizeof BETWEEN - 1;
        for (char *end = strchr(lines, '\n'), *id; *lines && lines != end; lines = id) {
            long value = strtol(lines, &id, 10);
            if (id == lines) break;
            assert_int_equal(token_list_add(&want, (int32_t)value), KVT_OK);
            while (*id == ' ') id++;
        }
        if (*lines == '\n') lines++;
        assert_int_equal(tokenizer_encode(t, texts, length, false, &got), KVT_OK);
        wrong += !ids_same(&want, &got);
        token_list_free(&want);
        token_list_free(&got);
    }
    tokenizer_close(t);
    print_message("%s: %zu of %zu texts differ\n", path, wrong, n);
    return wrong;
}

static void vocabularies_of_a_folder_agree(void **state) {
    (void)state;
    const char *folder = getenv("KVTILE_VOCABULARIES");
    if (!folder) skip();
    DIR *d = opendir(folder);
    size_t wrong = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        char path[1024], inputs[1040], outputs[1040];
        if (n < 5 || strcmp(e->d_name + n - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        snprintf(inputs, sizeof inputs, "%s.inp", path);
        snprintf(outputs, sizeof outputs, "%s.out", path);
        if (access(outputs, R_OK) != 0) continue;
        char *texts = fixture_read(inputs, NULL), *lines = fixture_read(outputs, NULL);
        wrong += file_differs(path, texts, lines);
        free(texts);
        free(lines);
    }
    closedir(d);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabularies_of_a_folder_agree),
        cmocka_unit_test(cuts_as_the_reference),
        cmocka_unit_test(encodes_as_the_reference),
        cmocka_unit_test(decodes_as_the_reference),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
