/* main.c - the table of commands. */
#include "cli.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "run", "generate from a prompt", cmd_run },
    { "bench", "measure on this machine", cmd_bench },
    { "inspect", "a model file: architecture, layers, cache bytes per token", cmd_inspect },
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void help_print(FILE *to) {
    fprintf(to, "usage: kvtile COMMAND [OPTIONS]\n\n");
    for (int i = 0; i < N_COMMANDS; i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(to, "\nkvtile COMMAND --help lists a command's options; kvtile --version says which version this is.\n");
}

static int help(void) {
    help_print(stdout);
    return cli_flush();
}

static int version(void) {
    printf("kvtile %s (numeric contract %d, %s)\n", kvt_version(), KVT_NUMERIC_CONTRACT, kvt_cpu());
    return cli_flush();
}

/* Where stdin, stdout or stderr is closed, the next file opened would take its place, and what is said would end in
 * that file. Opened the wrong way round they still fail when they are used. */
static void streams_hold(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    /* A reader that goes away, or a limit on the size of files, is seen as a failed write, where the command can end
     * what it is doing. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    streams_hold();
    if (argc < 2) {
        help_print(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) return help();
    if (strcmp(argv[1], "--version") == 0) return version();
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    return cli_usage("", argv[1][0] == '-' ? "unknown option %s" : "unknown command %s", argv[1]);
}
