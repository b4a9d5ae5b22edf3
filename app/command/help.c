/* help.c - what --help prints: usage, what the command is about, its options with their defaults, examples. */
#include "command.h"

#include <stdlib.h>
#include <string.h>

/* Of a terminal that nobody widened; where the second column begins. */
enum { WIDTH = 80, COLUMN_OPTIONS = 30, COLUMN_COMMANDS = 14 };

static const char STATUSES[] = "Exit status: 0 done, 1 it failed, 2 wrong usage, 130 interrupted.\n";

/* ----------------------------------------------------------------------------------------------- text */

/* Words from column `at` on, further lines at `indent`; an empty line parts paragraphs. Ends the line. */
static void wrap(FILE *to, const char *text, int at, int indent) {
    while (*text) {
        int gap = (int)strspn(text, " \n"), paragraph = strncmp(text, "\n\n", 2) == 0;
        int length = (int)strcspn(text + gap, " \n");
        if (paragraph || (at > indent && at + 1 + length > WIDTH)) {
            fprintf(to, paragraph ? "\n\n%*s" : "\n%*s", indent, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', to);
            at++;
        }
        fprintf(to, "%.*s", length, text + gap);
        at += length;
        text += gap + length;
    }
    fputc('\n', to);
}

/* Two columns; where the left one is too wide the right one begins on the next line. */
static void row_print(FILE *to, int column, const char *left, const char *right) {
    fprintf(to, "  %-*s", column - 2, left);
    if ((int)strlen(left) + 2 >= column) fprintf(to, "\n%*s", column, "");
    wrap(to, right, column, column);
}

static void option_print(FILE *to, const option *o, const void *defaults) {
    char left[96];
    snprintf(left, sizeof left, "%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
    row_print(to, COLUMN_OPTIONS, left, option_tell(o, defaults).text);
}

/* --------------------------------------------------------------------------------------------- parts */

static void options_print(FILE *to, const command *c, const void *defaults) {
    if (c->operand) option_print(to, c->operand, NULL);
    option_walk walk = option_walk_of(c);
    bool first = !c->operand; /* what is above ends in an empty line */
    for (const option *o; (o = option_next(&walk)); first = false)
        if (o->kind == OPTION_HEADING) fprintf(to, "%s%s:\n", first ? "" : "\n", o->help);
        else option_print(to, o, defaults);
    fputc('\n', to);
    row_print(to, COLUMN_OPTIONS, "--help", "this page");
}

/* Commands of a family, or of none. */
static void commands_print(FILE *to, const command *family) {
    for (int i = 0; i < n_commands; i++)
        if (command_family(commands[i]) == family)
            row_print(to, COLUMN_COMMANDS, command_word(commands[i]), commands[i]->summary);
}

static void examples_print(FILE *to, const command *c) {
    if (c->n_examples) fprintf(to, "\nExamples:\n");
    for (int i = 0; i < c->n_examples; i++) {
        fprintf(to, "  kvtile %s\n      ", c->examples[i].line);
        wrap(to, c->examples[i].what, 6, 6);
    }
}

void help_print(FILE *to, const command *c) {
    if (!c) {
        fprintf(to, "usage: kvtile COMMAND [OPTIONS]\n\n");
        commands_print(to, NULL);
        fputs("\nkvtile COMMAND --help lists a command's options.\nkvtile --version says which version this is.\n", to);
        fputs(STATUSES, to);
        return;
    }
    void *defaults = command_defaults(c); /* without memory for it: the help without defaults */
    fprintf(to, "usage: kvtile %s %s\n\n", c->name, c->usage);
    wrap(to, c->about, 0, 0);
    fputc('\n', to);
    if (c->run) options_print(to, c, defaults);
    else commands_print(to, c);
    examples_print(to, c);
    int n_word = (int)strcspn(c->usage, " "); /* what a family calls its members */
    if (!c->run) fprintf(to, "\nkvtile %s %.*s --help lists its options.\n", c->name, n_word, c->usage);
    else if (!c->minor) fprintf(to, "\n%s", STATUSES);
    free(defaults);
}
