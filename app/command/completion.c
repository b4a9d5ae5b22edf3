/* completion.c - kvtile completion: the script that makes a shell complete this program's command lines. */
#include "completion.h"

#include <string.h>

bool completion_takes_value(const option *o) {
    return o->kind != OPTION_FLAG;
}

void completion_words(FILE *to, const char *words, const char *between) {
    for (; *words; words++)
        if (*words == '|' || *words == ' ') fputs(between, to);
        else fputc(*words, to);
}

bool completion_has_words(const option *o) {
    return o->kind == OPTION_CHOICE || o->word_at;
}

void completion_offer(FILE *to, const option *o, const char *escaped) {
    const char *word;
    if (o->kind == OPTION_CHOICE) completion_words(to, o->value, " ");
    for (int i = 0; o->word_at && (word = o->word_at(i)); i++) {
        fputs(i ? " " : "", to);
        completion_escaped(to, word, escaped);
    }
}

void completion_escaped(FILE *to, const char *text, const char *letters) {
    for (; *text; text++) {
        if (strchr(letters, *text)) fputc('\\', to);
        fputc(*text, to);
    }
}

/* --------------------------------------------------------------------------------------------- command */

typedef struct completion_options {
    int shell; /* -1: not given */
} completion_options;

static const option operand = { "SHELL", "bash|zsh|fish", OPTION_CHOICE, offsetof(completion_options, shell),
                                "the shell that reads the script" };

static const command_example example_table[] = {
    { "completion bash >~/.local/share/bash-completion/completions/kvtile",
      "For one user of bash, from the next shell on (make install does it for all)." },
};

static void completion_defaults(void *options) {
    *(completion_options *)options = (completion_options){ .shell = -1 };
}

static int completion_command(const void *options) {
    static void (*const writers[])(FILE *) = { completion_bash, completion_zsh, completion_fish };
    int shell = ((const completion_options *)options)->shell;
    if (shell < 0) return cli_usage("completion", "a shell is wanted: %s", operand.value);
    writers[shell](stdout);
    return cli_flush();
}

const command command_completion = {
    .name = "completion",
    .summary = "completion of command lines for bash, zsh and fish",
    .usage = "bash|zsh|fish",
    .about = "Write a script to stdout that makes a shell complete commands, options, the words that an option takes, "
             "and files of the kind that it takes.",
    .operand = &operand,
    COMMAND_EXAMPLES(example_table),
    .minor = true,
    .options_bytes = sizeof(completion_options),
    .defaults = completion_defaults,
    .run = completion_command,
};
