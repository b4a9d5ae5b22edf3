/* completion_bash.c - the script for bash: one function that looks at the word before the cursor. It needs nothing of
 * the bash-completion package. */
#include <string.h>

#include "completion.h"

static const char HEAD[] =
    "# bash completion of kvtile, written by `kvtile completion bash`\n"
    "\n"
    "_kvtile_words() { mapfile -t COMPREPLY < <(compgen -W \"$2\" -- \"$1\"); }\n"
    "\n"
    "# Folders, and files with one of the endings; without an ending all files.\n"
    "_kvtile_files() {\n"
    "    local cur=$1 ending\n"
    "    shift\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    if (($# == 0)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <({\n"
    "            compgen -d -- \"$cur\"\n"
    "            for ending; do compgen -f -X \"!*.$ending\" -- \"$cur\"; done\n"
    "        } | sort -u)\n"
    "    fi\n"
    "}\n"
    "\n"
    "_kvtile() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}\n"
    "    COMPREPLY=()\n"
    "    # --name=value comes as three words.\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    fi\n";

static const char TAIL[] = "}\n"
                           "complete -F _kvtile kvtile\n";

/* Words of a family's members, NULL: of the commands that have none. */
static void members(FILE *to, const command *family, const char *more) {
    fputs("_kvtile_words \"$cur\" '", to);
    for (int i = 0; i < n_commands; i++)
        if (command_family(commands[i]) == family) fprintf(to, "%s ", command_word(commands[i]));
    fprintf(to, "%s'", more);
}

static void option_names(FILE *to, const command *c) {
    option_walk walk = option_walk_of(c);
    fputs("_kvtile_words \"$cur\" '", to);
    for (const option *o; (o = option_next_named(&walk));) fprintf(to, "%s ", o->name);
    fputs("--help'", to);
}

/* The call that completes a value; false: nothing does. */
static bool value(FILE *to, const option *o) {
    if (completion_has_words(o)) {
        fputs("_kvtile_words \"$cur\" '", to);
        completion_offer(to, o, "");
        fputs("'", to);
    } else if (o->kind == OPTION_FILE) {
        fprintf(to, "_kvtile_files \"$cur\"%s%s", o->files ? " " : "", o->files ? o->files : "");
    }
    return completion_has_words(o) || o->kind == OPTION_FILE;
}

static void operand(FILE *to, const command *c) {
    if (!c->operand || (c->operand->kind == OPTION_TEXT || c->operand->kind == OPTION_TEXTS)) return;
    fputs("        if [[ $cur != -* ]]; then\n", to);
    for (int i = 0; i < n_commands && c->operand->kind == OPTION_COMMAND; i++) {
        if (commands[i]->run) continue;
        fprintf(to, "            if [[ $prev == %s ]]; then\n                ", commands[i]->name);
        members(to, commands[i], "");
        fputs("\n                return\n            fi\n", to);
    }
    fputs("            ", to);
    if (c->operand->kind == OPTION_COMMAND) members(to, NULL, "");
    else value(to, c->operand);
    fputs("\n            return\n        fi\n", to);
}

static void command_case(FILE *to, const command *c) {
    option_walk walk = option_walk_of(c);
    int n_values = 0;
    fprintf(to, "    '%s')\n", c->name);
    for (const option *o; (o = option_next_named(&walk));) {
        if (!completion_takes_value(o)) continue;
        if (!n_values++) fputs("        case $prev in\n", to);
        fprintf(to, "        %s) ", o->name);
        fputs(value(to, o) ? "; return ;;\n" : "return ;;\n", to);
    }
    if (n_values) fputs("        esac\n", to);
    operand(to, c);
    fputs("        ", to);
    option_names(to, c);
    fputs("\n        ;;\n", to);
}

void completion_bash(FILE *to) {
    fputs(HEAD, to);
    fputs("    if ((COMP_CWORD == 1)); then\n        ", to);
    members(to, NULL, "--help --version");
    fputs("\n        return\n    fi\n", to);
    for (int i = 0; i < n_commands; i++) {
        if (commands[i]->run) continue;
        fprintf(to, "    if [[ $command == %s ]] && ((COMP_CWORD == 2)); then\n        ", commands[i]->name);
        members(to, commands[i], "--help");
        fprintf(to, "\n        return\n    fi\n    [[ $command == %s ]] && command+=\" ${COMP_WORDS[2]}\"\n",
                commands[i]->name);
    }
    fputs("    case $command in\n", to);
    for (int i = 0; i < n_commands; i++)
        if (commands[i]->run) command_case(to, commands[i]);
    fputs("    esac\n", to);
    fputs(TAIL, to);
}
