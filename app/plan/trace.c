/* trace.c - see trace.h: lines of a file to requests. The numbers of blocks are numbers.c's. */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "numbers.h"

enum { LINE_BYTES_MAX = 64 << 20, BLOCKS_MAX = 1 << 20, TOKENS_MAX = 1 << 30 };

/* Of a clock, in ms: even one of nanoseconds that somebody took for milliseconds is below it. */
static const double TIME_MAX = 1e19;

typedef struct reading {
    trace *t;
    const char *path;
    error_text *err;
    gzFile file;
    char *line; /* [room] */
    size_t room, n_line, requests_room, blocks_room;
    numbers numbers;
    int64_t line_number;
} reading;

static kvt_status fail(const reading *r, kvt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static kvt_status fail(const reading *r, kvt_status status, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    text_one_line(what);
    if (r->err && r->line_number > 0)
        snprintf(r->err->text, sizeof r->err->text, "%.200s: line %" PRId64 ": %s", r->path, r->line_number, what);
    else if (r->err) snprintf(r->err->text, sizeof r->err->text, "%.200s: %s", r->path, what);
    return status;
}

/* ------------------------------------------------------------------------------------------------- the lines */

static kvt_status line_grow(reading *r) {
    if (r->room >= LINE_BYTES_MAX) return fail(r, KVT_E_CORRUPT, "is longer than %d bytes", LINE_BYTES_MAX);
    size_t room = r->room ? 2 * r->room : 4096;
    char *grown = realloc(r->line, room);
    if (!grown) return fail(r, KVT_E_MEMORY, "no memory for it");
    r->line = grown;
    r->room = room;
    return KVT_OK;
}

/* As much of the line as there is room for; *got false: there is no more. A NUL is none of a text, and gzgets would
 * hide what comes behind it. */
static kvt_status line_part(reading *r, bool *got) {
    z_off_t from = gztell(r->file);
    *got = gzgets(r->file, r->line + r->n_line, (int)(r->room - r->n_line)) != NULL;
    if (!*got) return KVT_OK;
    size_t n = strlen(r->line + r->n_line);
    r->n_line += n;
    return gztell(r->file) - from == (z_off_t)n ? KVT_OK : fail(r, KVT_E_CORRUPT, "holds a NUL");
}

/* The next line without its end; *more false: there is none. */
static kvt_status line_next(reading *r, bool *more) {
    r->line_number++;
    r->n_line = 0;
    *more = true;
    for (bool got = true; got;) {
        if (r->room - r->n_line < 2) TRY(line_grow(r));
        TRY(line_part(r, &got));
        if (r->n_line > 0 && r->line[r->n_line - 1] == '\n') break;
    }
    int code;
    const char *said = gzerror(r->file, &code);
    if (code != Z_OK && code != Z_STREAM_END) return fail(r, KVT_E_CORRUPT, "cannot be read: %s", said);
    *more = r->n_line > 0;
    while (r->n_line > 0 && (r->line[r->n_line - 1] == '\n' || r->line[r->n_line - 1] == '\r')) r->n_line--;
    if (r->room) r->line[r->n_line] = 0;
    return KVT_OK;
}

/* --------------------------------------------------------------------------------------------------- growing */

static kvt_status grow(const reading *r, void **items, size_t n, size_t *room, size_t each) {
    size_t bytes;
    if (n <= *room) return KVT_OK;
    size_t wanted = n < 1024 ? 1024 : 2 * n;
    void *grown = mem_mul(wanted, each, &bytes) ? realloc(*items, bytes) : NULL;
    if (!grown) return fail(r, KVT_E_MEMORY, "no memory for %zu requests and blocks", n);
    *items = grown;
    *room = wanted;
    return KVT_OK;
}

static kvt_status request_add(reading *r, trace_request request) {
    void *items = r->t->request;
    TRY(grow(r, &items, r->t->n_requests + 1, &r->requests_room, sizeof *r->t->request));
    r->t->request = items;
    r->t->request[r->t->n_requests++] = request;
    if (request.n_blocks > r->t->blocks_longest) r->t->blocks_longest = request.n_blocks;
    return KVT_OK;
}

static kvt_status block_add(reading *r, int64_t id) {
    void *items = r->t->block;
    TRY(grow(r, &items, r->t->n_blocks + 1, &r->blocks_room, sizeof *r->t->block));
    r->t->block = items;
    int32_t number = numbers_of(&r->numbers, id);
    if (number < 0) return fail(r, KVT_E_MEMORY, "no memory for %zu different blocks", (size_t)r->numbers.n);
    r->t->block[r->t->n_blocks++] = number;
    return KVT_OK;
}

/* --------------------------------------------------------------------------------------------------- JSON lines */

static kvt_status count_read(const reading *r, const json_t *object, const char *name, int64_t least, int64_t *out) {
    const json_t *v = json_object_get(object, name);
    if (!v || json_is_null(v)) return KVT_OK;
    if (!json_is_integer(v)) return fail(r, KVT_E_CORRUPT, "%s is not a whole number", name);
    *out = json_integer_value(v);
    if (*out < least || *out > TOKENS_MAX)
        return fail(r, KVT_E_CORRUPT, "%s is %" PRId64 ", outside %" PRId64 " .. %d", name, *out, least, TOKENS_MAX);
    return KVT_OK;
}

static kvt_status block_size_read(reading *r, const json_t *object) {
    int64_t size = 0;
    TRY(count_read(r, object, "block_size", 1, &size));
    if (size == 0) return KVT_OK;
    if (r->t->block_tokens && r->t->block_tokens != size)
        return fail(r, KVT_E_CORRUPT, "block_size is %" PRId64 ", in lines before %d", size, r->t->block_tokens);
    r->t->block_tokens = (int)size;
    return KVT_OK;
}

static kvt_status ids_read(reading *r, const json_t *object, trace_request *q) {
    const json_t *ids = json_object_get(object, "hash_ids"), *id;
    size_t i;
    if (!json_is_array(ids)) return fail(r, KVT_E_CORRUPT, "hash_ids is missing, or no list");
    if (json_array_size(ids) > BLOCKS_MAX)
        return fail(r, KVT_E_CORRUPT, "hash_ids has %zu entries, more than %d", json_array_size(ids), BLOCKS_MAX);
    q->first = r->t->n_blocks;
    q->n_blocks = (int)json_array_size(ids);
    json_array_foreach(ids, i, id) {
        if (!json_is_integer(id)) return fail(r, KVT_E_CORRUPT, "entry %zu of hash_ids is not a whole number", i + 1);
        TRY(block_add(r, json_integer_value(id)));
    }
    return KVT_OK;
}

static kvt_status object_read(reading *r, const json_t *object) {
    trace_request q = { .time_ms = TRACE_UNKNOWN, .n_input = TRACE_UNKNOWN, .n_output = TRACE_UNKNOWN };
    const json_t *time = json_object_get(object, "timestamp");
    if (!json_is_object(object)) return fail(r, KVT_E_CORRUPT, "is no JSON object");
    if (time && !json_is_number(time)) return fail(r, KVT_E_CORRUPT, "timestamp is not a number");
    if (time) q.time_ms = json_number_value(time);
    if (q.time_ms > TIME_MAX) return fail(r, KVT_E_CORRUPT, "timestamp is %g, more than %g", q.time_ms, TIME_MAX);
    TRY(count_read(r, object, "input_length", 0, &q.n_input));
    TRY(count_read(r, object, "output_length", 0, &q.n_output));
    TRY(block_size_read(r, object));
    TRY(ids_read(r, object, &q));
    return request_add(r, q);
}

static kvt_status json_line(reading *r) {
    json_error_t wrong;
    json_t *object = json_loadb(r->line, r->n_line, JSON_REJECT_DUPLICATES, &wrong);
    if (!object) return fail(r, KVT_E_CORRUPT, "is not JSON: %s (byte %d)", wrong.text, wrong.position);
    kvt_status status = object_read(r, object);
    json_decref(object);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- CSV */

/* "2023-11-16 18:15:46.6805900" or a number of seconds, to milliseconds; an hour and a minute are enough of a clock.
 * What is no time at all is NaN, infinite, or below 0. */
static double csv_clock(const char *text) {
    int h, m;
    double s;
    long days = 0;
    int year, month, day, n = 0;
    if (sscanf(text, "%d-%d-%d %n", &year, &month, &day, &n) == 3 && n > 0) {
        days = 372L * year + 31L * month + day; /* grows with the date, which is all that is asked of it */
        text += n;
    }
    if (sscanf(text, "%d:%d:%lf", &h, &m, &s) == 3) return 1e3 * (86400.0 * (double)days + 3600.0 * h + 60.0 * m + s);
    char *end;
    double seconds = strtod(text, &end);
    return end != text && *end == ',' ? 1e3 * seconds : TRACE_UNKNOWN;
}

static double csv_time(const char *text) {
    double ms = csv_clock(text);
    return ms >= 0 && ms <= TIME_MAX ? ms : TRACE_UNKNOWN;
}

static kvt_status csv_line(reading *r) {
    trace_request q = { 0 };
    char extra;
    const char *comma = strchr(r->line, ',');
    bool good = comma && sscanf(comma, ",%" SCNd64 ",%" SCNd64 "%c", &q.n_input, &q.n_output, &extra) == 2;
    if (!good && r->line_number == 1 && comma) return KVT_OK; /* the names of the columns */
    if (!good) return fail(r, KVT_E_CORRUPT, "is not TIMESTAMP,ContextTokens,GeneratedTokens");
    if (q.n_input < 0 || q.n_output < 0 || q.n_input > TOKENS_MAX || q.n_output > TOKENS_MAX)
        return fail(r, KVT_E_CORRUPT, "has %" PRId64 " and %" PRId64 " tokens, outside 0 .. %d", q.n_input, q.n_output,
                    TOKENS_MAX);
    double time_ms = csv_time(r->line);
    q.time_ms = isfinite(time_ms) ? time_ms : TRACE_UNKNOWN;
    return request_add(r, q);
}

/* --------------------------------------------------------------------------------------------------- the file */

static kvt_status lines_read(reading *r) {
    bool more, json = false;
    for (;;) {
        TRY(line_next(r, &more));
        if (!more) break;
        if (r->n_line == 0) continue;
        if (r->t->n_requests == 0) json = r->line[strspn(r->line, " \t")] == '{';
        TRY(json ? json_line(r) : csv_line(r));
    }
    r->line_number = 0;
    return r->t->n_requests > 0 ? KVT_OK : fail(r, KVT_E_CORRUPT, "holds no requests");
}

kvt_status trace_read(trace *out, const char *path, error_text *err) {
    *out = (trace){ 0 };
    reading r = { .t = out, .path = path, .err = err };
    errno = 0;
    r.file = gzopen(path, "rb");
    if (!r.file) return fail(&r, KVT_E_ARGUMENT, "%s", errno ? strerror(errno) : "no memory");
    kvt_status status = lines_read(&r);
    out->n_distinct = r.numbers.n;
    gzclose(r.file);
    free(r.line);
    numbers_free(&r.numbers);
    if (status != KVT_OK) trace_free(out);
    return status;
}

void trace_free(trace *t) {
    free(t->request);
    free(t->block);
    *t = (trace){ 0 };
}

int trace_full_blocks(const trace_request *r, int block_tokens) {
    if (r->n_input == TRACE_UNKNOWN || block_tokens < 1) return r->n_blocks;
    int64_t full = r->n_input / block_tokens;
    return full < r->n_blocks ? (int)full : r->n_blocks;
}
