/* log.h - one line to whoever listens: the log callback of kvt_options. */
#ifndef KVT_LOG_H
#define KVT_LOG_H

#include "kvtile.h"

typedef struct log_sink {
    kvt_log_fn fn;
    void *ctx;
} log_sink;

/* Log an error and hand the status on: return fail(log, KVT_E_ARGUMENT, "...", ...); */
kvt_status log_fail(const log_sink *sink, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Pass a status that is not KVT_OK up. */
#define TRY(call)                                \
    do {                                         \
        kvt_status try_status_ = (call);         \
        if (try_status_ != KVT_OK) return try_status_; \
    } while (0)

#endif
