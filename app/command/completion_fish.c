/* completion_fish.c - the script for fish: a line for each command, option and word. */
#include "completion.h"

static const char HEAD[] =
    "# fish completion of kvtile, written by `kvtile completion fish`\n"
    "\n"
    "# Are these the first words behind the program's name?\n"
    "function __kvtile_is\n"
    "    set -l words (commandline -opc)\n"
    "    set -e words[1]\n"
    "    set -l n (count $argv)\n"
    "    test (count $words) -ge $n; and test \"$words[1..$n]\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# Are these all words before the one that is being typed?\n"
    "function __kvtile_after\n"
    "    set -l words (commandline -opc)\n"
    "    set -e words[1]\n"
    "    test \"$words\" = \"$argv\"\n"
    "end\n"
    "\n"
    "complete -c kvtile -f\n"
    "complete -c kvtile -n __kvtile_after -l help -d 'the list of commands'\n"
    "complete -c kvtile -n __kvtile_after -l version -d 'which version this is'\n";

static void quoted(FILE *to, const char *text) {
    fputc('\'', to);
    completion_escaped(to, text, "'\\");
    fputc('\'', to);
}

/* What is typed behind some words: a family's members, NULL: the commands that have none. */
static void members(FILE *to, const char *behind, const command *family) {
    for (int i = 0; i < n_commands; i++) {
        if (command_family(commands[i]) != family) continue;
        fprintf(to, "complete -c kvtile -n '__kvtile_after%s%s' -a %s -d ", behind[0] ? " " : "", behind,
                command_word(commands[i]));
        quoted(to, commands[i]->summary);
        fputc('\n', to);
    }
}

/* Words or files, and that no others are meant. */
static void value(FILE *to, const option *o) {
    if (completion_has_words(o)) {
        fputs(" -x -a '", to);
        completion_offer(to, o, "");
        fputc('\'', to);
    } else if (o->kind == OPTION_FILE && o->files) {
        fputs(" -x -k -a '", to);
        for (const char *p = o->files; *p; p++) {
            if (p == o->files || p[-1] == ' ') fputs("(__fish_complete_suffix .", to);
            if (*p == ' ') fputs(") ", to);
            else fputc(*p, to);
        }
        fputs(")'", to);
    } else {
        fputs(o->kind == OPTION_FILE ? " -r -F" : " -x", to);
    }
}

static void option_line(FILE *to, const command *c, const option *o) {
    bool is_long = o->name[1] == '-';
    fprintf(to, "complete -c kvtile -n '__kvtile_is %s' %s %s", c->name, is_long ? "-l" : "-s",
            o->name + (is_long ? 2 : 1));
    if (completion_takes_value(o)) value(to, o);
    fputs(" -d ", to);
    quoted(to, o->help);
    fputc('\n', to);
}

static void command_lines(FILE *to, const command *c) {
    option_walk walk = option_walk_of(c);
    const option *operand = c->operand;
    fprintf(to, "\n");
    for (const option *o; (o = option_next_named(&walk));) option_line(to, c, o);
    fprintf(to, "complete -c kvtile -n '__kvtile_is %s' -l help -d 'this page'\n", c->name);
    if (operand && (operand->kind == OPTION_FILE || operand->kind == OPTION_CHOICE)) {
        fprintf(to, "complete -c kvtile -n '__kvtile_is %s'", c->name);
        value(to, operand);
        fputc('\n', to);
    }
    if (!operand || operand->kind != OPTION_COMMAND) return;
    members(to, c->name, NULL);
    for (int i = 0; i < n_commands; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s %s", c->name, commands[i]->name);
        if (!commands[i]->run) members(to, words, commands[i]);
    }
}

void completion_fish(FILE *to) {
    fputs(HEAD, to);
    members(to, "", NULL);
    for (int i = 0; i < n_commands; i++)
        if (commands[i]->run) command_lines(to, commands[i]);
        else members(to, commands[i]->name, commands[i]);
}
