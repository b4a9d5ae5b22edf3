/* completion_zsh.c - the script for zsh: the rows of each command as arguments of _arguments. */
#include "completion.h"

/* Read from a folder of functions the file is the function's body; sourced it defines and names one. */
static const char TAIL[] = "}\n"
                           "\n"
                           "if [ \"$funcstack[1]\" = _kvtile ]; then\n"
                           "    _kvtile \"$@\"\n"
                           "else\n"
                           "    compdef _kvtile kvtile\n"
                           "fi\n";

/* Within single quotes, where a text's own one leaves them for a moment. */
static void quoted(FILE *to, const char *text, const char *escaped) {
    for (char one[2] = ""; (one[0] = *text); text++)
        if (one[0] == '\'') fputs("'\\''", to);
        else completion_escaped(to, one, escaped);
}

/* 'word:summary' of a family's members, NULL: of the commands that have none. */
static void members(FILE *to, const command *family, const char *indent) {
    fprintf(to, "%sknown=(\n", indent);
    for (int i = 0; i < n_commands; i++) {
        if (command_family(commands[i]) != family) continue;
        fprintf(to, "%s    '%s:", indent, command_word(commands[i]));
        quoted(to, commands[i]->summary, "\\");
        fputs("'\n", to);
    }
    fprintf(to, "%s)\n%s_describe command known\n", indent, indent);
}

/* ":what it is:what completes it", the end of an argument's description. */
static void value(FILE *to, const option *o) {
    fputc(':', to);
    quoted(to, o->kind == OPTION_CHOICE || !o->value ? o->name : o->value, "\\:[]");
    fputc(':', to);
    if (completion_has_words(o)) {
        fputc('(', to);
        completion_offer(to, o, ":");
        fputc(')', to);
    } else if (o->kind == OPTION_FILE && o->files) {
        fputs("_files -g \"*.", to); /* a pattern of its own each: behind *. one word in brackets would be flags */
        completion_words(to, o->files, " *.");
        fputs("\"", to);
    } else if (o->kind == OPTION_FILE) {
        fputs("_files", to);
    }
}

static void option_argument(FILE *to, const option *o) {
    bool is_long = o->name[1] == '-';
    fprintf(to, "            '%s%s%s[", o->kind == OPTION_TEXTS ? "*" : "", o->name,
            is_long && completion_takes_value(o) ? "=" : "");
    quoted(to, o->help, "\\:[]");
    fputc(']', to);
    if (completion_takes_value(o)) value(to, o);
    fputs("' \\\n", to);
}

static void command_case(FILE *to, const command *c) {
    option_walk walk = option_walk_of(c);
    const option *operand = c->operand;
    fprintf(to, "    '%s')\n        _arguments \\\n", c->name);
    for (const option *o; (o = option_next_named(&walk));) option_argument(to, o);
    if (operand && operand->kind == OPTION_COMMAND) fputs("            '*: :_kvtile_commands' \\\n", to);
    else if (operand && operand->kind != OPTION_TEXT && operand->kind != OPTION_TEXTS) {
        fputs("            '1", to);
        value(to, operand);
        fputs("' \\\n", to);
    }
    fputs("            '--help[this page]'\n        ;;\n", to);
}

/* The words of a command's name, as an operand. */
static void commands_function(FILE *to) {
    fputs("_kvtile_commands() {\n    local -a known\n    case $words[CURRENT-1] in\n", to);
    for (int i = 0; i < n_commands; i++) {
        if (commands[i]->run) continue;
        fprintf(to, "    %s)\n", commands[i]->name);
        members(to, commands[i], "        ");
        fputs("        ;;\n", to);
    }
    fputs("    *)\n", to);
    members(to, NULL, "        ");
    fputs("        ;;\n    esac\n}\n\n", to);
}

void completion_zsh(FILE *to) {
    fputs("#compdef kvtile\n# zsh completion of kvtile, written by `kvtile completion zsh`\n\n", to);
    commands_function(to);
    fputs("_kvtile() {\n    local command=$words[2]\n    local -a known\n    if ((CURRENT == 2)); then\n", to);
    members(to, NULL, "        ");
    fputs("        return\n    fi\n", to);
    for (int i = 0; i < n_commands; i++) {
        if (commands[i]->run) continue;
        fprintf(to, "    if [[ $command == %s ]]; then\n        if ((CURRENT == 3)); then\n", commands[i]->name);
        members(to, commands[i], "            ");
        fputs("            return\n        fi\n        command+=\" $words[3]\"\n", to);
        fputs("        shift words\n        ((CURRENT--))\n    fi\n", to);
    }
    fputs("    shift words\n    ((CURRENT--))\n    case $command in\n", to);
    for (int i = 0; i < n_commands; i++)
        if (commands[i]->run) command_case(to, commands[i]);
    fputs("    esac\n", to);
    fputs(TAIL, to);
}
