/* log.c - see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 512 };

static void say(const log_sink *sink, kvt_log_level level, const char *format, va_list args) {
    char line[LINE_MAX_BYTES];
    if (!sink || !sink->fn) return;
    vsnprintf(line, sizeof line, format, args);
    sink->fn(sink->ctx, level, line);
}

kvt_status log_fail(const log_sink *sink, kvt_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(sink, KVT_LOG_ERROR, format, args);
    va_end(args);
    return status;
}
