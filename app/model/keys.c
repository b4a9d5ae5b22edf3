/* keys.c - see keys.h. */
#include "keys.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"

const char *key_of(const key_reader *r, const char *name, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", r->arch->name, name);
    return key;
}

bool key_has(const key_reader *r, const char *name) {
    char key[KEY_BYTES];
    return file_has(r->f, key_of(r, name, key));
}

kvt_status key_int(const key_reader *r, const char *name, int least, int most, int otherwise, int *out) {
    char key[KEY_BYTES];
    uint32_t v = (uint32_t)otherwise;
    if (otherwise == KEY_REQUIRED || key_has(r, name)) TRY(file_u32(r->f, key_of(r, name, key), &v, r->err));
    if (v < (uint32_t)least || v > (uint32_t)most)
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %u, outside %d .. %d", key_of(r, name, key), v, least,
                         most);
    *out = (int)v;
    return KVT_OK;
}

kvt_status key_positive(const key_reader *r, const char *name, float otherwise, float *out) {
    char key[KEY_BYTES];
    *out = otherwise;
    if (!key_has(r, name)) return KVT_OK;
    TRY(file_f32(r->f, key_of(r, name, key), out, r->err));
    if (!(*out > 0) || !isfinite(*out))
        return file_fail(r->f, r->err, KVT_E_CORRUPT, "%s is %g, not a positive number", key, (double)*out);
    return KVT_OK;
}

kvt_status key_flag(const key_reader *r, const char *name, bool otherwise, bool *out) {
    char key[KEY_BYTES];
    *out = otherwise;
    if (key_has(r, name)) TRY(file_bool(r->f, key_of(r, name, key), out, r->err));
    return KVT_OK;
}
