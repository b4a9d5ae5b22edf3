/* config.c - see config.h. */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

kvt_status config_fail(const config *c, kvt_status status, const char *format, ...) {
    char what[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (c->err) {
        snprintf(c->err->text, sizeof c->err->text, "%.200s: %s", c->path, what);
        text_one_line(c->err->text);
    }
    return status;
}

/* A value, the name that it was found by, and whether any of the names is there at all. */
typedef struct found {
    const json_t *value;
    char name[64];
    bool is_there;
} found;

static found find_in(const json_t *object, const char *names) {
    found f = { NULL };
    for (size_t n; *names && !f.value; names += n + (names[n] != 0)) {
        n = strcspn(names, "|");
        snprintf(f.name, sizeof f.name, "%.*s", (int)n, names);
        const json_t *v = json_object_get(object, f.name);
        f.is_there |= v != NULL;
        if (v && !json_is_null(v)) f.value = v;
    }
    return f;
}

static found find(const config *c, const char *names) {
    found f = find_in(c->root, names);
    return f.is_there ? f : find_in(c->defaults, names);
}

const json_t *config_value(const config *c, const char *names) {
    return find(c, names).value;
}

kvt_status config_number(const config *c, const char *names, int64_t least, int64_t most, int64_t otherwise, int *out) {
    found f = find(c, names);
    if (!f.value && otherwise == CONFIG_REQUIRED) return config_fail(c, KVT_E_CORRUPT, "the key %s is missing", names);
    if (f.value && !json_is_integer(f.value)) return config_fail(c, KVT_E_CORRUPT, "%s is not a whole number", f.name);
    int64_t n = f.value ? json_integer_value(f.value) : otherwise;
    if (f.value && (n < least || n > most))
        return config_fail(c, KVT_E_CORRUPT, "%s is %" PRId64 ", outside %" PRId64 " .. %" PRId64, f.name, n, least,
                           most);
    *out = (int)n;
    return KVT_OK;
}

bool config_flag(const config *c, const char *names, bool otherwise) {
    const json_t *v = config_value(c, names);
    return v && json_is_boolean(v) ? json_is_true(v) : otherwise;
}

const char *config_text(const config *c, const char *names) {
    return json_string_value(config_value(c, names));
}
