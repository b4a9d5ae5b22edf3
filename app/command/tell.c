/* tell.c - what goes wrong, told on stderr in one line, and the end of what was written to stdout. */
#include "command.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"

static void say(const char *kind, const char *format, va_list args) {
    char line[2 * 4096]; /* a path at its longest, and a sentence */
    vsnprintf(line, sizeof line, format, args);
    text_one_line(line);
    fprintf(stderr, "kvtile: %s%s\n", kind, line);
}

int cli_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
    fprintf(stderr, "try: kvtile %s%s--help\n", name, name[0] ? " " : "");
    return CLI_USAGE;
}

void cli_warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("warning: ", format, args);
    va_end(args);
}

int cli_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return CLI_DONE;
    if (errno == EPIPE) return CLI_DONE;
    return cli_fail("stdout: %s", strerror(errno));
}
