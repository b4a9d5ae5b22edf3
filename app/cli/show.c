/* show.c - what the program says besides its results: a progress bar, numbers for people, JSON; and Ctrl-C. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

/* --------------------------------------------------------------------------------------- ---------- Ctrl-C */

volatile sig_atomic_t cli_stop;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    cli_stop = 1;
}

void cli_catch_interrupt(void) {
    struct sigaction once = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &once, NULL);
}

/* ------------------------------------------------------------------------------------------ progress bar */

enum { BAR_COLUMNS = 40 };
static const uint64_t PATIENCE_NS = 1000000000u;

progress progress_of(const char *what) {
    return (progress){ .what = what, .start_ns = sys_now_ns() };
}

void progress_show(progress *p, int64_t done, int64_t total) {
    char bar[BAR_COLUMNS + 1];
    if (!isatty(STDERR_FILENO) || sys_now_ns() - p->start_ns < PATIENCE_NS || total <= 0 ||
        (done >= total && !p->shown))
        return;
    int filled = (int)(done * BAR_COLUMNS / total);
    for (int i = 0; i < BAR_COLUMNS; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_COLUMNS] = 0;
    fprintf(stderr, "\r%s [%s] %" PRId64 " of %" PRId64, p->what, bar, done, total);
    p->shown = true;
    if (done >= total) progress_clear(p);
}

void progress_clear(progress *p) {
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

/* -------------------------------------------------------------------------------------------- numbers */

show_text show_bytes(double bytes) {
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    show_text out;
    int unit = 0;
    for (; bytes >= 1000 && unit < 4; unit++) bytes /= 1000;
    snprintf(out.text, sizeof out.text, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

show_text show_count(uint64_t n) {
    char digits[24];
    show_text out;
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out.text[at++] = ',';
        out.text[at++] = digits[i];
    }
    out.text[at] = 0;
    return out;
}

show_text show_counted(uint64_t n, const char *one) {
    show_text out = show_count(n);
    size_t at = strlen(out.text);
    snprintf(out.text + at, sizeof out.text - at, " %s%s", one, n == 1 ? "" : "s");
    return out;
}

/* ------------------------------------------------------------------------------------------------- JSON */

json_t *json_bytes(const char *bytes, size_t n) {
    byte_list clean = { 0 };
    kvt_status status = utf8_repair(bytes, n, &clean);
    json_t *text = status == KVT_OK ? json_stringn(clean.n ? clean.at : "", clean.n) : NULL;
    byte_list_free(&clean);
    return text;
}

int json_print(json_t *object) {
    if (!object) return cli_fail("no memory for the JSON text");
    int failed = json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (!failed) putchar('\n');
    return cli_flush();
}
