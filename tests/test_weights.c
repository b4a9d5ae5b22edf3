/* test_weights.c - the formats of weights: rows of the file against what the gguf package says they hold
 * (vectors/weights.bin), panels against the pictures of format.h, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp.h"
#include "fixture.h"
#include "format/format.h"
#include "guard.h"
#include "kvtile_ops.h"
#include "random.h"

static bool is_float(int format) { return weight_layouts[format].low == 0; }

static uint16_t half_at(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }

static void put16(uint8_t *p, uint16_t h) {
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
}

/* ------------------------------------------------------------------------------------------- rows of the file */

/* One type of weights.bin, as weights.py wrote it. */
typedef struct entry {
    char name[8];
    uint32_t type, columns, bytes, n;
} entry;

/* n columns of f widen to want, however the mode of the processor is set. */
static void check_widening(const weight_format *f, const uint8_t *row, size_t n, const uint8_t *want) {
    size_t n_bytes = weight_row_bytes(f, n);
    uint8_t *in = guard_alloc(n_bytes, 1);
    memcpy(in, row, n_bytes);
    for (int flush = 0; flush < 2; flush++) {
        float *out = guard_alloc(n * sizeof *out, 4);
        uint64_t callers = flush ? fp_enter() : 0;
        f->widen(in, n, out);
        if (flush) fp_leave(callers);
        for (size_t k = 0; k < n; k++)
            if (memcmp(out + k, want + 4 * k, 4)) fail_msg("%s element %zu is %a", f->name, k, (double)out[k]);
        guard_free(out);
    }
    guard_free(in);
}

static void test_rows_widen_to_the_bits_of_the_reference(void **state) {
    (void)state;
    size_t n;
    int n_formats = 0;
    char *file = fixture_read("tests/vectors/weights.bin", &n);
    for (const uint8_t *at = (uint8_t *)file; at < (uint8_t *)file + n; n_formats++) {
        entry e;
        memcpy(&e, at, sizeof e);
        const weight_format *f = weight_format_of(weight_format_find((int)e.type));
        const uint8_t *rows = at + sizeof e, *values = rows + e.bytes * e.n;
        assert_non_null(f);
        assert_string_equal(f->name, e.name);
        assert_int_equal(f->block, e.columns);
        assert_int_equal(f->block_bytes, e.bytes);
        check_widening(f, rows, e.columns * e.n, values);
        check_widening(f, rows, e.columns, values);
        at = values + sizeof(float) * e.columns * e.n;
    }
    assert_int_equal(n_formats, N_WEIGHT_FORMATS - 3);
    free(file);
}

static void test_floats_widen_exactly(void **state) {
    (void)state;
    const uint8_t f32[] = {0x01, 0x02, 0x83, 0xc1}, f16[] = {0x01, 0x80, 0x00, 0xbe}, bf16[] = {0x40, 0xc0, 0x01, 0x00};
    float out[2];
    weight_format_of(WEIGHT_F32)->widen(f32, 1, out);
    assert_memory_equal(out, f32, 4);
    weight_format_of(WEIGHT_F16)->widen(f16, 2, out);
    assert_true(out[0] == -0x1p-24f && out[1] == -1.5f);
    weight_format_of(WEIGHT_BF16)->widen(bf16, 2, out);
    assert_true(out[0] == -3.0f);
    assert_memory_equal(out + 1, "\0\0\1\0", 4); /* a denormal */
}

/* ------------------------------------------------------------------------------------------------------ sizes */

static void test_row_and_panel_sizes(void **state) {
    (void)state;
    const weight_format *q4_1 = weight_format_of(WEIGHT_Q4_1), *f16 = weight_format_of(WEIGHT_F16);
    const weight_format *q6_k = weight_format_of(WEIGHT_Q6_K);
    assert_int_equal(weight_row_bytes(q4_1, 576), 360);
    assert_int_equal(weight_row_bytes(q4_1, 570), 0);
    assert_int_equal(weight_row_bytes(q6_k, 768), 630);
    assert_int_equal(weight_row_bytes(q6_k, 576), 0);
    assert_int_equal(weight_row_bytes(f16, 3), 6);
    assert_int_equal(weight_row_bytes(f16, SIZE_MAX), 0);
    assert_int_equal(weight_panel_bytes(q4_1, 576), 9 * 640);
    assert_int_equal(weight_panel_bytes(q4_1, 544), 9 * 640);
    assert_int_equal(weight_panel_bytes(q6_k, 768), 3 * 53 * 64);
    assert_int_equal(weight_panel_bytes(f16, 65), 2 * 2048);
    assert_int_equal(weight_panel_bytes(f16, SIZE_MAX), SIZE_MAX);
}

/* Rows that are no whole number of blocks are refused before anything is packed. */
static void test_rows_that_are_no_whole_blocks_are_refused(void **state) {
    (void)state;
    const uint8_t data[2 * 210] = {0};
    for (int i = 0; i < N_WEIGHT_FORMATS; i++) {
        const weight_format *f = weight_format_of(i);
        size_t n_cols = 2 * (size_t)f->block - 16;
        kvt_matrix *w = NULL;
        kvt_weight_type type = (kvt_weight_type)f->ggml_type;
        if (f->block == 1) continue;
        assert_string_equal(kvt_weight_name(type), f->name);
        assert_int_equal(kvt_weight_bytes(type, 2 * (size_t)f->block), 2 * f->block_bytes);
        assert_int_equal(kvt_weight_bytes(type, n_cols), 0);
        kvt_matrix_source source = {type, 1, n_cols, data, 2 * f->block_bytes};
        assert_int_equal(kvt_matrix_pack(&w, &source, NULL), KVT_E_ARGUMENT);
        source.n_cols = 2 * (size_t)f->block;
        assert_int_equal(kvt_matrix_pack(&w, &source, NULL), KVT_OK);
        kvt_matrix_free(w);
    }
}

/* The table in words (what a reader of files gets) and the one in numbers (what kernels are compiled from) agree. */
static void test_both_tables_say_the_same(void **state) {
    (void)state;
    for (int i = 0; i < N_WEIGHT_FORMATS; i++) {
        const weight_format *f = weight_format_of(i);
        weight_layout layout = weight_layouts[i];
        assert_int_equal(weight_format_find(f->ggml_type), i);
        if (is_float(i)) continue;
        assert_int_equal(f->chunk, layout.chunk);
        assert_int_equal(f->chunk_bytes, weight_chunk_bytes(layout));
        assert_int_equal(f->block, layout.chunk == 64 ? 32 : 256);
    }
    assert_int_equal(weight_format_find(9), -1); /* Q8_1 */
    assert_int_equal(weight_format_find(15), -1); /* Q8_K */
    assert_int_equal(weight_format_find(-1), -1);
    assert_null(weight_format_of(N_WEIGHT_FORMATS));
    assert_null(weight_format_of(-1));
}

/* ----------------------------------------------------------------------------------------------------- panels */

/* Where a block of a format has its f16, and how many. */
static int halves_of(int format, size_t at[2]) {
    const weight_layout layout = weight_layouts[format];
    size_t bytes = weight_format_of(format)->block_bytes;
    at[0] = format == WEIGHT_Q2_K ? bytes - 4 : format == WEIGHT_Q3_K || format == WEIGHT_Q6_K ? bytes - 2 : 0;
    at[1] = at[0] + 2;
    return layout.minima ? 2 : 1;
}

/* Random row of a format: any codes, finite scales of either sign, denormals among them. */
static void random_row(int format, size_t n_k, uint64_t *seed, uint8_t *row) {
    const weight_format *f = weight_format_of(format);
    size_t n = weight_row_bytes(f, n_k), at[2];
    for (size_t i = 0; i < n; i++) row[i] = (uint8_t)random_bits(seed);
    for (size_t k = 0; is_float(format) && k < n_k; k++) /* no NaN, whose bits need not survive */
        row[(k + 1) * f->block_bytes - 1] &= 0xbf;
    for (size_t b = 0; !is_float(format) && b < n / f->block_bytes; b++)
        for (int h = 0; h < halves_of(format, at); h++)
            put16(row + b * f->block_bytes + at[h], (uint16_t)(random_bits(seed) & 0xbbff));
}

typedef struct matrix {
    int format;
    const weight_format *f;
    size_t n_k, row_bytes;
    int n_rows;
    uint8_t *rows, *panel;
} matrix;

static matrix matrix_make(int format, int n_rows, size_t n_k, uint64_t *seed) {
    const weight_format *f = weight_format_of(format);
    matrix m = {format, f, n_k, weight_row_bytes(f, n_k), n_rows, NULL, NULL};
    m.rows = guard_alloc(m.row_bytes * (size_t)n_rows, 1);
    m.panel = guard_alloc(weight_panel_bytes(f, n_k), 64);
    memset(m.panel, 0xee, weight_panel_bytes(f, n_k));
    for (int r = 0; r < n_rows; r++) random_row(format, n_k, seed, m.rows + (size_t)r * m.row_bytes);
    f->pack(m.rows, m.row_bytes, n_rows, n_k, m.panel);
    return m;
}

static void matrix_free(matrix *m) {
    guard_free(m->rows);
    guard_free(m->panel);
}

static void check_panel_rows(const matrix *m) {
    float *want = guard_alloc(m->n_k * sizeof *want, 4), *got = guard_alloc(m->n_k * sizeof *got, 4);
    for (int r = 0; r < m->n_rows; r++) {
        m->f->widen(m->rows + (size_t)r * m->row_bytes, m->n_k, want);
        m->f->panel_row(m->panel, r, m->n_k, got);
        if (memcmp(want, got, m->n_k * sizeof *want))
            fail_msg("%s row %d of %d, k %zu", m->f->name, r, m->n_rows, m->n_k);
    }
    guard_free(want);
    guard_free(got);
}

static void test_a_row_comes_back_from_its_panel(void **state) {
    (void)state;
    uint64_t seed = 3;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++)
        for (int n_rows = 1; n_rows <= 16; n_rows++)
            for (size_t n = 1; n < 140; n += n < 4 ? 1 : 27) {
                size_t block = (size_t)weight_format_of(format)->block;
                if (block == 256 && n > 4) continue;
                matrix m = matrix_make(format, n_rows, n * block, &seed);
                check_panel_rows(&m);
                matrix_free(&m);
            }
}

/* ------------------------------------------------------------------ format.h's picture, line by line and bit by bit */

/* n bits of row's byte i in a line, from bit `shift` on. */
static int bits_at(const uint8_t *line, size_t row, size_t i, size_t shift, int n) {
    return line[4 * row + i] >> shift & ((1 << n) - 1);
}

/* The code of column i (0 .. 31) of a block. */
static int code_in(weight_layout f, const uint8_t *lines, size_t row, size_t i) {
    const uint8_t *high = lines + f.low * 64;
    size_t step = f.low == 8 ? i / 4 : i % 16 / 4 * 2 + i / 16;
    int code = 0;
    if (f.low == 8) return (int8_t)lines[step * 64 + 4 * row + i % 4];
    if (f.low == 4) code = bits_at(lines + step / 2 * 64, row, i % 4, step % 2 * 4, 4);
    if (f.low == 2) code = bits_at(lines + step / 4 * 64, row, i % 4, step % 4 * 2, 2);
    if (f.high == 2) code |= bits_at(high + step / 4 * 64, row, i % 4, step % 4 * 2, 2) << f.low;
    if (f.high == 1) code |= bits_at(high, row, i % 4, step, 1) << f.low;
    return f.table ? weight_table[code] : code - f.bias;
}

typedef struct scales {
    float scale, minimum;
} scales;

/* Of column i of a chunk, from the lines behind its codes. */
static scales scales_in(weight_layout f, const uint8_t *lines, size_t row, size_t i) {
    size_t n_groups = 256 / (size_t)f.group, group = i / (size_t)f.group;
    if (f.chunk == 64) {
        const uint8_t *d = lines + i / 32 * 32 + row * 2;
        return (scales){f16_to_f32(half_at(d)), f.minima ? f16_to_f32(half_at(d + 64)) : 0};
    }
    const uint8_t *byte = lines + group * 16 + row, *minimum = byte + n_groups * 16;
    const uint8_t *head = lines + n_groups * 16 * (f.minima && !f.nibbles ? 2 : 1);
    int s = f.nibbles ? *byte & 15 : f.is_signed ? (int8_t)*byte : *byte;
    int m = !f.minima ? 0 : f.nibbles ? *byte >> 4 : *minimum;
    float dmin = f16_to_f32(half_at(head + 32 + row * 2));
    if (!f.minima) assert_int_equal(half_at(head + 32 + row * 2), 0);
    return (scales){f16_to_f32(half_at(head + row * 2)) * (float)s, -(dmin * (float)m)};
}

static float value_in(const matrix *m, size_t row, size_t k) {
    weight_layout f = weight_layouts[m->format];
    size_t chunk = (size_t)m->f->chunk, i = k % chunk;
    const uint8_t *lines = m->panel + k / chunk * m->f->chunk_bytes;
    if (m->f->block == 1) {
        size_t w = 4 / m->f->block_bytes;
        float value;
        m->f->widen(lines + i / w * 64 + (row * w + i % w) * m->f->block_bytes, 1, &value);
        return value;
    }
    size_t code_bytes = (size_t)(f.low + f.high) * 64;
    int code = code_in(f, lines + i / 32 * code_bytes, row, i % 32);
    scales s = scales_in(f, lines + chunk / 32 * code_bytes, row, i);
    return f.minima ? s.scale * (float)code + s.minimum : s.scale * (float)code;
}

static void test_panels_lie_as_drawn(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++) {
        size_t n_k = weight_format_of(format)->block == 256 ? 512 : 160;
        matrix m = matrix_make(format, 16, n_k, &seed);
        float want[512];
        for (size_t r = 0; r < 16; r++) {
            m.f->widen(m.rows + r * m.row_bytes, n_k, want);
            for (size_t k = 0; k < n_k; k++) {
                float value = value_in(&m, r, k);
                if (memcmp(&value, want + k, 4)) fail_msg("%s row %zu column %zu: %a, not %a", m.f->name, r, k,
                                                          (double)value, (double)want[k]);
            }
        }
        matrix_free(&m);
    }
}

/* Whose byte `at` of a chunk is. */
static size_t row_of(int format, size_t at) {
    weight_layout f = weight_layouts[format];
    size_t codes = is_float(format) ? SIZE_MAX : (size_t)(f.chunk / 32 * (f.low + f.high) * 64);
    size_t head = weight_format_of(format)->chunk_bytes - 64;
    if (at < codes) return at % 64 / 4;
    return f.chunk == 64 || at >= head ? at % 32 / 2 : at % 16;
}

/* Rows and columns that are not there are zeros, whatever the memory held: as in a panel of zeros with them put in. */
static void check_rest(int format, size_t n_rows, size_t n_k, uint64_t *seed) {
    size_t chunk = (size_t)weight_format_of(format)->chunk, n_k_full = (n_k + chunk - 1) / chunk * chunk;
    matrix part = matrix_make(format, (int)n_rows, n_k, seed), full = matrix_make(format, 16, n_k_full, seed);
    size_t n = weight_panel_bytes(part.f, n_k);
    memset(full.rows, 0, full.row_bytes * 16);
    for (size_t r = 0; r < n_rows; r++)
        memcpy(full.rows + r * full.row_bytes, part.rows + r * part.row_bytes, part.row_bytes);
    full.f->pack(full.rows, full.row_bytes, 16, n_k_full, full.panel);
    for (size_t i = 0; i < n; i++) { /* zeros of a file are not always zeros of a panel: 32 is taken off some scales */
        int is_there = row_of(format, i % part.f->chunk_bytes) < n_rows;
        if (part.panel[i] != (is_there ? full.panel[i] : 0)) fail_msg("%s: byte %zu of a panel", part.f->name, i);
    }
    matrix_free(&part);
    matrix_free(&full);
}

static void test_the_rest_of_a_panel_is_zero(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (int format = 0; format < N_WEIGHT_FORMATS; format++) {
        size_t block = (size_t)weight_format_of(format)->block;
        check_rest(format, 5, block == 256 ? 256 : 96, &seed);
        check_rest(format, 16, block == 256 ? 256 : 96, &seed);
        check_rest(format, 5, block == 256 ? 512 : 128, &seed);
        if (block == 1) check_rest(format, 16, 65, &seed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_widen_to_the_bits_of_the_reference),
        cmocka_unit_test(test_floats_widen_exactly),
        cmocka_unit_test(test_row_and_panel_sizes),
        cmocka_unit_test(test_rows_that_are_no_whole_blocks_are_refused),
        cmocka_unit_test(test_both_tables_say_the_same),
        cmocka_unit_test(test_a_row_comes_back_from_its_panel),
        cmocka_unit_test(test_panels_lie_as_drawn),
        cmocka_unit_test(test_the_rest_of_a_panel_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
