/* main.c - the program's beginning: the process as its commands expect it. Which command is meant is commands.c's. */
#include "cli.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where stdin, stdout or stderr is closed, the next file opened would take its place, and what is said would end in
 * that file. Opened the wrong way round they still fail when they are used. */
static void streams_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* The library takes the fastest where KVTILE_CPU names nothing it knows; who set it should hear of the slip. */
static void cpu_check(void) {
    static const char *const known[] = { "scalar", "avx2", "avx512", "avx512bf16" };
    const char *asked = getenv("KVTILE_CPU");
    if (!asked || !asked[0]) return;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(asked, known[i]) == 0) return;
    cli_warn("KVTILE_CPU=%.40s is not scalar, avx2, avx512 or avx512bf16: the fastest is taken, %s", asked, kvt_cpu());
}

int main(int argc, char **argv) {
    /* A reader that goes away, or a limit on the size of files, is seen as a failed write, where the command can end
     * what it is doing. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    streams_hold();
    cpu_check();
    return command_line(argc, argv);
}
