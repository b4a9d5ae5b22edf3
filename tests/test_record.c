/* test_record.c - the envelope: every byte where it belongs, and nothing damaged, cut, foreign or of another version is
 * taken for a record. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "random.h"
#include "tier/tier.h"

enum { PAYLOAD_MOST = 1 << 16 };

/* A record in memory that ends at an unreadable page, header and payload apart and unaligned. */
typedef struct sample {
    record what;
    uint8_t *header, *payload;
    kvt_piece pieces[2];
} sample;

static sample sample_new(size_t n_payload) {
    sample s = {.what = {.kind = RECORD_BLOCK, .index = 7, .n_tokens = 32, .payload_bytes = n_payload}};
    uint64_t seed = n_payload + 1;
    for (int i = 0; i < 32; i++) {
        s.what.space[i] = (uint8_t)(0x20 + i);
        s.what.key[i] = (uint8_t)(0x60 + i);
        s.what.parent[i] = (uint8_t)(0xa0 + i);
        s.what.tokens[i] = (int32_t)random_bits(&seed);
    }
    s.header = guard_alloc(RECORD_HEADER + 1, 1);
    s.header++;
    s.payload = guard_alloc(n_payload + 1, 1);
    s.payload++;
    for (size_t i = 0; i < n_payload; i++) s.payload[i] = (uint8_t)random_bits(&seed);
    s.pieces[0] = (kvt_piece){s.header, RECORD_HEADER};
    s.pieces[1] = (kvt_piece){s.payload, n_payload};
    record_write(&s.what, record_hash(s.pieces + 1, 1), s.header);
    return s;
}

static void sample_free(sample *s) {
    guard_free(s->header - 1);
    guard_free(s->payload - 1);
}

static uint64_t little(const uint8_t *at, int n) {
    uint64_t v = 0;
    while (n-- > 0) v = v << 8 | at[n];
    return v;
}

static void put_u32(uint8_t *at, uint32_t v) {
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(v >> 8 * i);
}

static void hash_again(uint8_t *header) {
    const uint64_t hash = record_hash(&(kvt_piece){header, 504}, 1);
    put_u32(header + 504, (uint32_t)hash);
    put_u32(header + 508, (uint32_t)(hash >> 32));
}

static void every_byte_is_where_the_format_says(void **state) {
    (void)state;
    sample s = sample_new(1000);
    const uint8_t *h = s.header;
    assert_memory_equal(h, "kvtr\x89\r\n\x1a", 8);
    assert_int_equal(little(h + 8, 4), 1);
    assert_int_equal(little(h + 12, 4), RECORD_BLOCK);
    assert_int_equal(little(h + 16, 4), 7);
    assert_int_equal(little(h + 20, 4), 32);
    assert_memory_equal(h + 24, s.what.space, 32);
    assert_memory_equal(h + 56, s.what.key, 32);
    assert_memory_equal(h + 88, s.what.parent, 32);
    assert_int_equal(little(h + 120, 8), 1000);
    assert_true(little(h + 128, 8) == record_hash(s.pieces + 1, 1));
    for (int i = 0; i < 64; i++) assert_int_equal(little(h + 136 + 4 * i, 4), (uint32_t)s.what.tokens[i]);
    for (int i = 392; i < 504; i++) assert_int_equal(h[i], 0);
    assert_true(little(h + 504, 8) == record_hash(&(kvt_piece){s.header, 504}, 1));
    sample_free(&s);
}

/* The first is XXH3's own vector for no bytes; the others are what the shared library of xxHash 0.8.1 gives. */
static void the_hash_is_xxh3(void **state) {
    (void)state;
    uint8_t bytes[1000];
    for (int i = 0; i < 1000; i++) bytes[i] = (uint8_t)i;
    assert_true(record_hash(NULL, 0) == 0x2d06800538d394c2u);
    assert_true(record_hash(&(kvt_piece){bytes, 100}, 1) == 0x4e4f921a64bd1cu);
    assert_true(record_hash(&(kvt_piece){bytes, 1000}, 1) == 0xd33dd80b46f60e50u);
}

static void the_hash_does_not_know_where_pieces_end(void **state) {
    (void)state;
    sample s = sample_new(5000);
    uint64_t whole = record_hash(s.pieces + 1, 1), seed = 3;
    for (int i = 0; i < 500; i++) {
        size_t a = random_below(&seed, 5001), b = random_below(&seed, 5001);
        if (a > b) continue;
        kvt_piece cut[] = {{s.payload, a}, {s.payload + a, b - a}, {NULL, 0}, {s.payload + b, 5000 - b}};
        assert_true(record_hash(cut, 4) == whole);
    }
    sample_free(&s);
}

static void what_was_written_is_read(void **state) {
    (void)state;
    sample s = sample_new(77);
    record got;
    uint64_t hash;
    assert_int_equal(record_read(s.header, &got, &hash), KVT_OK);
    assert_true(record_is(&got, &s.what));
    assert_true(hash == record_hash(s.pieces + 1, 1));
    assert_int_equal(record_version(s.header), RECORD_VERSION);
    assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_OK);
    kvt_piece cut[] = {s.pieces[0], {s.payload, 70}, {s.payload + 70, 7}};
    assert_int_equal(record_check(cut, 3, &s.what), KVT_OK);
    sample_free(&s);
}

static void flip(uint8_t *bytes, size_t bit) { bytes[bit / 8] ^= (uint8_t)(1 << bit % 8); }

static int flips_missed(sample *s, uint8_t *bytes, size_t bit) {
    flip(bytes, bit);
    int missed = record_check(s->pieces, 2, &s->what) != KVT_E_CORRUPT;
    flip(bytes, bit);
    return missed;
}

/* All of the header, and of payloads all bits, or a thousand of them. */
static void any_flipped_bit_is_found(void **state) {
    static const size_t sizes[] = {1, 16, 17, 128, 240, 241, 4096, PAYLOAD_MOST - 1};
    (void)state;
    int missed = 0, n = 0;
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        sample s = sample_new(sizes[i]);
        const size_t bits = sizes[i] * 8;
        for (size_t bit = 0; bit < RECORD_HEADER * 8; bit++, n++) missed += flips_missed(&s, s.header, bit);
        for (size_t j = 0; j < (bits < 1000 ? bits : 1000); j++, n++)
            missed += flips_missed(&s, s.payload, bits < 1000 ? j : random_below(&seed, (uint32_t)bits));
        assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_OK);
        sample_free(&s);
    }
    assert_int_equal(missed, 0);
    assert_true(n > 30000);
}

static void every_other_length_is_refused(void **state) {
    (void)state;
    sample s = sample_new(300);
    uint8_t *longer = calloc(1, RECORD_HEADER + 301);
    memcpy(longer, s.header, RECORD_HEADER);
    memcpy(longer + RECORD_HEADER, s.payload, 300);
    for (size_t n = 0; n <= RECORD_HEADER + 301; n++) {
        const size_t head = n < RECORD_HEADER ? n : RECORD_HEADER;
        kvt_piece cut[] = {{longer, head}, {longer + head, n - head}};
        assert_int_equal(record_check(cut, 2, &s.what), n == RECORD_HEADER + 300 ? KVT_OK : KVT_E_CORRUPT);
    }
    assert_int_equal(record_check(s.pieces, 1, &s.what), KVT_E_CORRUPT);
    assert_int_equal(record_check(s.pieces, 0, &s.what), KVT_E_CORRUPT);
    free(longer);
    sample_free(&s);
}

/* Whatever a later version has moved, it is told by its number; but a header of this one is damaged. */
static void another_version_is_told_by_its_number(void **state) {
    (void)state;
    static const uint32_t versions[] = {2, 3, 255, 256, 0x01000000, UINT32_MAX};
    sample s = sample_new(10);
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        put_u32(s.header + 8, versions[i]);
        assert_int_equal(record_check(s.pieces, 2, &s.what), i == 0 ? KVT_E_CORRUPT : KVT_E_UNSUPPORTED);
        for (int j = 12; j < RECORD_HEADER; j++) s.header[j] = (uint8_t)random_bits(&seed);
        assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_E_UNSUPPORTED);
        assert_true(record_version(s.header) == versions[i]);
    }
    put_u32(s.header + 8, 0);
    assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_E_CORRUPT);
    put_u32(s.header + 8, 2);
    s.header[0] ^= 1;
    assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_E_CORRUPT);
    assert_int_equal(record_version(s.header), 0);
    sample_free(&s);
}

static void whole_headers_that_make_no_sense_are_refused(void **state) {
    static const struct {
        uint32_t kind, n_tokens;
        kvt_status wanted;
    } rows[] = {
        {RECORD_BLOCK, 64, KVT_OK},          {RECORD_ABOUT, 0, KVT_OK},          {RECORD_PRIVATE, 1, KVT_OK},
        {0, 1, KVT_E_CORRUPT},               {4, 1, KVT_E_CORRUPT},              {UINT32_MAX, 1, KVT_E_CORRUPT},
        {RECORD_BLOCK, 65, KVT_E_CORRUPT},   {RECORD_BLOCK, UINT32_MAX, KVT_E_CORRUPT},
    };
    (void)state;
    sample s = sample_new(10);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s.what.kind = rows[i].kind;
        s.what.n_tokens = rows[i].n_tokens;
        record_write(&s.what, record_hash(s.pieces + 1, 1), s.header);
        assert_int_equal(record_check(s.pieces, 2, &s.what), rows[i].wanted);
    }
    s.what.kind = RECORD_BLOCK, s.what.n_tokens = 1;
    for (int i = 392; i < 504; i++) {
        record_write(&s.what, record_hash(s.pieces + 1, 1), s.header);
        s.header[i] = 1;
        hash_again(s.header);
        assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_E_CORRUPT);
    }
    sample_free(&s);
}

static void other_kind(record *r) { r->kind = RECORD_PRIVATE; }
static void other_index(record *r) { r->index++; }
static void other_count(record *r) { r->n_tokens--; }
static void other_space(record *r) { r->space[31] ^= 0x80; }
static void other_key(record *r) { r->key[0] ^= 1; }
static void other_parent(record *r) { r->parent[16] ^= 1; }
static void other_first_token(record *r) { r->tokens[0]++; }
static void other_last_token(record *r) { r->tokens[63]++; }
static void other_length(record *r) { r->payload_bytes++; }

static void a_whole_record_that_is_another_one_is_refused(void **state) {
    static void (*const changes[])(record *) = {other_kind, other_index,  other_count,       other_space,     other_key,
                                                other_parent, other_first_token, other_last_token, other_length};
    (void)state;
    sample s = sample_new(100);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        record expected = s.what;
        changes[i](&expected);
        assert_false(record_is(&s.what, &expected));
        assert_int_equal(record_check(s.pieces, 2, &expected), KVT_E_CORRUPT);
    }
    assert_int_equal(record_check(s.pieces, 2, &s.what), KVT_OK);
    sample_free(&s);
}

/* ------------------------------------------------------------------------------------ about a space */

static record_about about_sample(void) {
    record_about a = {.contract = 1, .n_layers = 30, .k_format = 5, .v_format = 6, .block_tokens = 32, .hot_blocks = 1,
                      .math = 2, .bytes_per_block = 0x1122334455667788, .text = "30 layers, k8v4, blocks of 32"};
    for (int i = 0; i < 32; i++) a.identity[i] = (uint8_t)(1 + i), a.layout[i] = (uint8_t)(0xff - i);
    return a;
}

static void what_is_said_of_a_space_comes_back(void **state) {
    (void)state;
    record_about a = about_sample(), got;
    uint8_t *bytes = guard_alloc(RECORD_ABOUT_BYTES, 1);
    memset(&got, 0xff, sizeof got);
    about_write(&a, bytes);
    assert_int_equal(little(bytes, 4), 1);
    assert_int_equal(little(bytes + 24, 4), 2);
    assert_true(little(bytes + 28, 8) == a.bytes_per_block);
    assert_memory_equal(bytes + 36, a.identity, 32);
    assert_memory_equal(bytes + 68, a.layout, 32);
    assert_string_equal((char *)bytes + 100, a.text);
    assert_int_equal(about_read(bytes, RECORD_ABOUT_BYTES, &got), KVT_OK);
    assert_true(got.contract == 1 && got.n_layers == 30 && got.k_format == 5 && got.v_format == 6);
    assert_true(got.block_tokens == 32 && got.hot_blocks == 1 && got.math == 2);
    assert_true(got.bytes_per_block == a.bytes_per_block);
    assert_memory_equal(got.identity, a.identity, 32);
    assert_memory_equal(got.layout, a.layout, 32);
    assert_string_equal(got.text, a.text);
    guard_free(bytes);
}

static void texts_of_a_space_end(void **state) {
    (void)state;
    record_about a = about_sample(), got;
    uint8_t bytes[RECORD_ABOUT_BYTES];
    memset(a.text, 'x', sizeof a.text);
    about_write(&a, bytes);
    assert_int_equal(about_read(bytes, sizeof bytes, &got), KVT_OK);
    assert_int_equal(strlen(got.text), RECORD_ABOUT_TEXT - 1);
    bytes[RECORD_ABOUT_BYTES - 1] = 'x';
    assert_int_equal(about_read(bytes, sizeof bytes, &got), KVT_E_CORRUPT);
    for (size_t n = 0; n < RECORD_ABOUT_BYTES; n++) assert_int_equal(about_read(bytes, n, &got), KVT_E_CORRUPT);
    assert_int_equal(about_read(bytes, RECORD_ABOUT_BYTES + 1, &got), KVT_E_CORRUPT);
}

/* What is read is what keys are made with: of so many tokens and no more. */
static void blocks_of_a_space_have_a_size(void **state) {
    static const uint32_t none[] = {0, RECORD_TOKENS_MAX + 1, 4096, INT32_MAX, (uint32_t)INT32_MAX + 1, UINT32_MAX};
    (void)state;
    record_about a = about_sample(), got;
    uint8_t bytes[RECORD_ABOUT_BYTES];
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        a.block_tokens = none[i];
        about_write(&a, bytes);
        assert_int_equal(about_read(bytes, sizeof bytes, &got), KVT_E_CORRUPT);
    }
    a.block_tokens = RECORD_TOKENS_MAX;
    about_write(&a, bytes);
    assert_int_equal(about_read(bytes, sizeof bytes, &got), KVT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_where_the_format_says),
        cmocka_unit_test(the_hash_is_xxh3),
        cmocka_unit_test(the_hash_does_not_know_where_pieces_end),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(any_flipped_bit_is_found),
        cmocka_unit_test(every_other_length_is_refused),
        cmocka_unit_test(another_version_is_told_by_its_number),
        cmocka_unit_test(whole_headers_that_make_no_sense_are_refused),
        cmocka_unit_test(a_whole_record_that_is_another_one_is_refused),
        cmocka_unit_test(what_is_said_of_a_space_comes_back),
        cmocka_unit_test(texts_of_a_space_end),
        cmocka_unit_test(blocks_of_a_space_have_a_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
