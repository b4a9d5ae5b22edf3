/* line.c - which command a command line means, and running it. A command of two words is a member of a family. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "kvtile.h"

/* ------------------------------------------------------------------------------------------------- names */

const command *command_named(const char *name) {
    for (int i = 0; i < n_commands; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

const char *command_word(const command *c) {
    const char *space = strchr(c->name, ' ');
    return space ? space + 1 : c->name;
}

const command *command_family(const command *c) {
    size_t n = (size_t)(command_word(c) - c->name);
    for (int i = 0; i < n_commands && n; i++)
        if (strlen(commands[i]->name) == n - 1 && memcmp(commands[i]->name, c->name, n - 1) == 0) return commands[i];
    return NULL;
}

/* Of a family, or of none. */
static const command *member(const command *family, const char *word) {
    for (int i = 0; i < n_commands; i++)
        if (command_family(commands[i]) == family && strcmp(command_word(commands[i]), word) == 0) return commands[i];
    return NULL;
}

static void unknown(const command *family, const char *word) {
    static const char *const others[] = { "--help", "--version" };
    near_word near = near_of(word);
    for (int i = 0; i < n_commands; i++) {
        const char *name = command_word(commands[i]);
        if (command_family(commands[i]) == family) near_offer(&near, name, (int)strlen(name));
    }
    for (int i = 0; i < 2 && word[0] == '-'; i++) near_offer(&near, others[i], (int)strlen(others[i]));
    const char *what = word[0] == '-' ? "option" : "command", *of = family ? family->name : "";
    option_text mean = near_text(&near);
    cli_usage(of, "unknown %s %s%s%s%s", what, of, of[0] ? " " : "", word, mean.text);
}

const command *command_of_words(int n, const char *const *words, int *n_words) {
    const command *c = member(NULL, words[0]), *inner = NULL;
    *n_words = 1;
    if (!c) unknown(NULL, words[0]);
    if (!c || c->run || n < 2 || strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0) return c;
    *n_words = 2;
    inner = member(c, words[1]);
    if (!inner) unknown(c, words[1]);
    return inner;
}

/* --------------------------------------------------------------------------------------------- running */

void *command_defaults(const command *c) {
    void *options = calloc(1, c->options_bytes ? c->options_bytes : 1);
    if (options && c->defaults) c->defaults(options);
    return options;
}

static int run(const command *c, int argc, char **argv) {
    void *options = command_defaults(c);
    if (!options) return cli_fail("no memory for the options");
    int status = options_parse(c, options, argc, argv);
    if (status == OPTIONS_GO) status = c->run(options);
    free(options);
    return status;
}

static int version(void) {
    printf("kvtile %s (numeric contract %d, %s)\n", kvt_version(), KVT_NUMERIC_CONTRACT, kvt_cpu());
    return cli_flush();
}

static int help(const command *c) {
    help_print(stdout, c);
    return cli_flush();
}

int command_line(int argc, char **argv) {
    int n_words;
    if (argc < 2) {
        help_print(stderr, NULL);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help(NULL);
    if (strcmp(argv[1], "--version") == 0) return version();
    const command *c = command_of_words(argc - 1, (const char *const *)argv + 1, &n_words);
    if (!c) return CLI_USAGE;
    if (c->run) return run(c, argc - n_words, argv + n_words);
    if (argc > 2) return help(c);
    help_print(stderr, c);
    return CLI_USAGE;
}

/* ------------------------------------------------------------------------------------------- kvtile help */

typedef struct help_options {
    option_texts words;
} help_options;

static const option help_operand = { "COMMAND", NULL, OPTION_COMMAND, offsetof(help_options, words),
                                     "the command, of one word or two" };

static int help_run(const void *options) {
    const option_texts *words = &((const help_options *)options)->words;
    int n_words;
    if (words->n == 0) return help(NULL);
    const command *c = command_of_words(words->n, words->text, &n_words);
    if (!c) return CLI_USAGE;
    return words->n == n_words ? help(c)
                               : cli_usage("help", "\"%s\" is one argument too many", words->text[n_words]);
}

const command command_help = {
    .name = "help",
    .summary = "the help of a command",
    .usage = "[COMMAND]",
    .about = "The same as kvtile COMMAND --help; without a command, the list of commands.",
    .operand = &help_operand,
    .minor = true,
    .options_bytes = sizeof(help_options),
    .run = help_run,
};
