/* values.c - what the keys of a model file hold: scalars, strings, arrays, checked against the type that is wanted. */
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "file.h"
#include "table.h"

static const struct {
    const char *name;
    size_t bytes; /* of a scalar */
} KINDS[FILE_KINDS] = {
    [FILE_U8] = {"u8", 1},           [FILE_I8] = {"i8", 1},       [FILE_U16] = {"u16", 2}, [FILE_I16] = {"i16", 2},
    [FILE_U32] = {"u32", 4},         [FILE_I32] = {"i32", 4},     [FILE_F32] = {"f32", 4}, [FILE_BOOL] = {"bool", 1},
    [FILE_STRING] = {"string", 0},   [FILE_ARRAY] = {"array", 0}, [FILE_U64] = {"u64", 8}, [FILE_I64] = {"i64", 8},
    [FILE_F64] = {"f64", 8},
};

size_t table_kind_bytes(uint32_t kind) {
    return kind < FILE_KINDS ? KINDS[kind].bytes : 0;
}

const char *table_kind_name(file_kind kind) {
    return KINDS[kind].name;
}

/* ------------------------------------------------------------------------------------------- scalars */

static bool integer_at(const uint8_t *p, file_kind kind, int64_t *v) {
    cursor c = cursor_of(p, table_kind_bytes(kind));
    uint64_t u;
    switch (kind) {
    case FILE_U8: *v = cursor_u8(&c); return true;
    case FILE_I8: *v = (int8_t)cursor_u8(&c); return true;
    case FILE_U16: *v = cursor_u16(&c); return true;
    case FILE_I16: *v = (int16_t)cursor_u16(&c); return true;
    case FILE_U32: *v = cursor_u32(&c); return true;
    case FILE_I32: *v = (int32_t)cursor_u32(&c); return true;
    case FILE_I64: *v = (int64_t)cursor_u64(&c); return true;
    case FILE_U64:
        u = cursor_u64(&c);
        *v = (int64_t)u;
        return u <= INT64_MAX;
    default: return false;
    }
}

static bool float_at(const uint8_t *p, file_kind kind, float *v) {
    cursor c = cursor_of(p, table_kind_bytes(kind));
    if (kind == FILE_F32) {
        uint32_t bits = cursor_u32(&c);
        memcpy(v, &bits, sizeof *v);
        return true;
    }
    if (kind == FILE_F64) {
        uint64_t bits = cursor_u64(&c);
        double wide;
        memcpy(&wide, &bits, sizeof wide);
        *v = (float)wide;
        return true;
    }
    return false;
}

bool file_has(const model_file *f, const char *key) {
    return table_key(f, key) != NULL;
}

static kvt_status need_key(const model_file *f, const char *key, const file_key **out, error_text *err) {
    *out = table_key(f, key);
    return *out ? KVT_OK : file_fail(f, err, KVT_E_CORRUPT, "key %s is missing", key);
}

static kvt_status wrong_kind(const model_file *f, const file_key *k, const char *wanted, error_text *err) {
    return file_fail(f, err, KVT_E_CORRUPT, "key %.*s is of type %s%s%s, not %s", FILE_SHOW(k->name),
                     table_kind_name(k->kind), k->kind == FILE_ARRAY ? " of " : "",
                     k->kind == FILE_ARRAY ? table_kind_name(k->item) : "", wanted);
}

kvt_status file_u32(const model_file *f, const char *key, uint32_t *v, error_text *err) {
    const file_key *k;
    int64_t wide = 0;
    TRY(need_key(f, key, &k, err));
    bool small = integer_at(k->data, k->kind, &wide); /* integer_at refuses whatever is no integer */
    if (!small && k->kind != FILE_U64) return wrong_kind(f, k, "an integer", err);
    if (!small || wide < 0 || wide > UINT32_MAX)
        return file_fail(f, err, KVT_E_CORRUPT, "key %s is %s, not from 0 to %u", key,
                         wide < 0 && small ? "negative" : "too large", UINT32_MAX);
    *v = (uint32_t)wide;
    return KVT_OK;
}

kvt_status file_f32(const model_file *f, const char *key, float *v, error_text *err) {
    const file_key *k;
    TRY(need_key(f, key, &k, err));
    return float_at(k->data, k->kind, v) ? KVT_OK : wrong_kind(f, k, "f32", err);
}

kvt_status file_bool(const model_file *f, const char *key, bool *v, error_text *err) {
    const file_key *k;
    TRY(need_key(f, key, &k, err));
    if (k->kind != FILE_BOOL) return wrong_kind(f, k, "bool", err);
    *v = *k->data != 0;
    return KVT_OK;
}

kvt_status file_string(const model_file *f, const char *key, file_text *v, error_text *err) {
    const file_key *k;
    TRY(need_key(f, key, &k, err));
    if (k->kind != FILE_STRING) return wrong_kind(f, k, "string", err);
    *v = (file_text){(const char *)k->data, k->bytes};
    return KVT_OK;
}

/* -------------------------------------------------------------------------------------------- arrays */

kvt_status file_array_any(const model_file *f, const char *key, file_array *v, error_text *err) {
    const file_key *k;
    TRY(need_key(f, key, &k, err));
    if (k->kind != FILE_ARRAY) return wrong_kind(f, k, "array", err);
    *v = (file_array){k->item, k->n, k->data, k->bytes};
    return KVT_OK;
}

kvt_status file_array_of(const model_file *f, const char *key, file_kind item, file_array *v, error_text *err) {
    file_array any;
    TRY(file_array_any(f, key, &any, err));
    if (any.item != item)
        return file_fail(f, err, KVT_E_CORRUPT, "key %s is an array of %s, not of %s", key, table_kind_name(any.item),
                         table_kind_name(item));
    *v = any;
    return KVT_OK;
}

bool file_item_i64(const file_array *a, size_t i, int64_t *v) {
    return i < a->n && integer_at(a->data + i * table_kind_bytes(a->item), a->item, v);
}

bool file_item_f32(const file_array *a, size_t i, float *v) {
    return i < a->n && float_at(a->data + i * table_kind_bytes(a->item), a->item, v);
}

file_text file_take_string(file_array *a) {
    cursor c = cursor_of(a->data, a->bytes);
    uint64_t n = cursor_u64(&c);
    const char *at = (const char *)cursor_bytes(&c, n);
    if (!at) return (file_text){"", 0}; /* the array is used up */
    a->data = c.at;
    a->bytes = cursor_left(&c);
    a->n--;
    return (file_text){at, (size_t)n};
}
