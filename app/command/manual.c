/* manual.c - kvtile manual: the manual pages in roff, from the rows of commands and options and the prose here.
 *
 * Only requests that groff and mandoc have in common are used: .TH .SH .SS .TP .PP .nf .fi .RS .RE. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kvtile.h"

/* ----------------------------------------------------------------------------------------------- prose */

typedef struct entry {
    const char *name, *text;
} entry;

static const char ABOUT[] =
    "kvtile generates text with models of the Llama family in GGUF files, through the cache of libkvtile: blocks of "
    "16, 32 or 64 tokens found through a block table, shared by sequences that begin alike. It measures what that "
    "cache does and saves on this machine.\n\n"
    "The value of an option is its next argument, or follows an equals sign: --ctx 4096, --ctx=4096. Sizes are bytes, "
    "or have a unit: 512M and 4GiB are powers of 1024, MB and GB powers of 1000.";

static const entry program_options[] = {
    { "--help", "The list of commands, or behind a command its help." },
    { "--version", "The version of the program, of its numeric contract, and the instruction set that it runs on." },
};

static const entry environment[] = {
    { "KVTILE_MODELS", "Folder of models, instead of `~/.cache/kvtile/models`." },
    { "KVTILE_STORE", "Folder of `kvtile store`, instead of `~/.cache/kvtile/store`." },
    { "KVTILE_CPU", "`scalar`, `avx2`, `avx512` or `avx512bf16`: the best instruction set that kernels may use. "
                    "Without it the fastest is taken. The answer is the same in every bit." },
    { "KVTILE_DATA", "Folder with `azure_conv.csv` for `kvtile bench memory`." },
};

static const entry files[] = {
    { "~/.cache/kvtile/models/SmolLM2-135M-Instruct.Q4_1.gguf", "The default model." },
};

static const entry statuses[] = {
    { "0", "Done." },
    { "1", "It failed, and one line on standard error says what, which file and which number." },
    { "2", "Wrong usage; nothing was done." },
    { "130", "Interrupted by Ctrl-C. What was there by then has been written." },
};

/* ------------------------------------------------------------------------------------------------ roff */

enum { LINE = 72 }; /* letters of a line of roff, not counting escapes */

/* A letter as itself: a dash that can be searched and copied, nothing that roff would read. */
static void letter(FILE *to, char c) {
    if (c == '-') fputs("\\-", to);
    else if (c == '\\') fputs("\\e", to);
    else if (c == '\'') fputs("\\(aq", to);
    else if (c == '~') fputs("\\(ti", to);
    else if (c == '^') fputs("\\(ha", to);
    else fputc(c, to);
}

static void letters(FILE *to, const char *text, int n) {
    if (n > 0 && text[0] == '.') fputs("\\&", to);
    for (int i = 0; i < n; i++) letter(to, text[i]);
}

/* One word of a sentence; backquotes turn bold letters on and off. */
static void word(FILE *to, const char *text, int n, bool *bold) {
    if (text[0] == '.') fputs("\\&", to);
    for (int i = 0; i < n; i++) {
        if (text[i] != '`') letter(to, text[i]);
        else fputs((*bold = !*bold) ? "\\fB" : "\\fR", to);
    }
}

/* Paragraphs. A sentence begins on a line of its own, as roff wants it, and what stands between backquotes is bold. */
static void prose(FILE *to, const char *text) {
    bool bold = false;
    for (int column = 0, n; *text; text += n) {
        int gap = (int)strspn(text, " \n");
        bool paragraph = strncmp(text, "\n\n", 2) == 0;
        text += gap;
        n = (int)strcspn(text, " \n");
        bool sentence = gap && text[-gap - 1] == '.' && isupper((unsigned char)text[0]);
        if (paragraph) fputs("\n.PP\n", to);
        else if (gap) fputc(sentence || column + n > LINE ? '\n' : ' ', to);
        column = (paragraph || sentence || column + n > LINE ? 0 : column) + n + 1;
        word(to, text, n, &bold);
    }
    fputc('\n', to);
}

static void section(FILE *to, const char *title) {
    fprintf(to, ".SH ");
    for (; *title; title++) letter(to, (char)toupper((unsigned char)*title));
    fputc('\n', to);
}

/* Words of a usage line or of an option's value: bold as they are typed, italic where they stand for something. */
static void usage(FILE *to, const char *text) {
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    while (*text) {
        int n = (int)strspn(text, inside);
        if (n) {
            bool dots = text[0] == '.';
            fputs(dots ? "" : isupper((unsigned char)text[0]) ? "\\fI" : "\\fB", to);
            letters(to, text, n);
            fputs(dots ? "" : "\\fR", to);
        } else {
            letter(to, text[n++]);
        }
        text += n;
    }
}

static void entries(FILE *to, const entry *e, size_t n) {
    for (size_t i = 0; i < n; i++) {
        fputs(".TP\n\\fB", to);
        letters(to, e[i].name, (int)strlen(e[i].name));
        fputs("\\fR\n", to);
        prose(to, e[i].text);
    }
}
#define ENTRIES(to, table) entries(to, table, sizeof table / sizeof table[0])

/* ------------------------------------------------------------------------------------------ rows as roff */

static void synopsis(FILE *to, const command *c, bool last) {
    fputs("\\fBkvtile ", to);
    letters(to, c->name, (int)strlen(c->name));
    fputs("\\fR ", to);
    usage(to, c->usage);
    fputs(last ? "\n" : "\n.br\n", to);
}

static void option_entry(FILE *to, const option *o, const void *defaults) {
    option_about about = option_tell(o, defaults);
    fputs(".TP\n\\fB", to);
    letters(to, o->name, (int)strlen(o->name));
    fputs("\\fR", to);
    if (o->value) {
        fputc(' ', to);
        usage(to, o->value);
    }
    char text[sizeof about.text + 1];
    snprintf(text, sizeof text, "%c%s.", toupper((unsigned char)about.text[0]), about.text + 1);
    fputc('\n', to);
    prose(to, text);
    if (o->kind == OPTION_INT || o->kind == OPTION_REAL) fprintf(to, "From %.15g to %.15g.\n", o->least, o->most);
    if (o->kind == OPTION_LIST)
        fprintf(to, "Up to %d numbers from %.15g to %.15g, parted by commas.\n", OPTION_LIST_MAX, o->least, o->most);
    if (o->kind == OPTION_TEXTS) fprintf(to, "May be given up to %d times.\n", OPTION_TEXTS_MAX);
    if (o->more) prose(to, o->more);
}

static void option_entries(FILE *to, const command *c, bool headed) {
    void *defaults = command_defaults(c);
    option_walk walk = option_walk_of(c);
    if (c->operand) option_entry(to, c->operand, NULL);
    for (const option *o; (o = option_next(&walk));)
        if (o->kind != OPTION_HEADING) option_entry(to, o, defaults);
        else if (headed) fprintf(to, ".SS %s\n", o->help);
    free(defaults);
}

/* Below a section's title the first paragraph is one already. */
static void examples(FILE *to, const command *c, bool below_title) {
    for (int i = 0; i < c->n_examples; i++) {
        if (i > 0 || !below_title) fputs(".PP\n", to);
        prose(to, c->examples[i].what);
        fputs(".PP\n.RS 4\n.nf\nkvtile ", to);
        letters(to, c->examples[i].line, (int)strlen(c->examples[i].line));
        fputs("\n.fi\n.RE\n", to);
    }
}

/* ----------------------------------------------------------------------------------------------- pages */

/* The command on whose page c is told of; NULL: the program's. */
static const command *page_of(const command *c) {
    const command *family = command_family(c);
    if (family) return family;
    return c->minor ? NULL : c;
}

static void head(FILE *to, const command *c) {
    fputs(".TH KVTILE", to);
    for (const char *p = c ? c->name : ""; *p; p++) fprintf(to, "%s%c", p == c->name ? "\\-" : "", toupper(*p));
    fprintf(to, " 1 %s \"kvtile %s\" \"User Commands\"\n.SH NAME\n", KVT_BUILD_DATE, kvt_version());
    if (c) fprintf(to, "kvtile\\-%s \\- ", c->name);
    else fputs("kvtile \\- ", to);
    prose(to, c ? c->summary : "run language models on a paged key/value cache, and measure the cache");
}

static void tail(FILE *to, const command *c) {
    section(to, "environment");
    ENTRIES(to, environment);
    section(to, "files");
    ENTRIES(to, files);
    section(to, "exit status");
    ENTRIES(to, statuses);
    section(to, "see also");
    if (c) fputs("\\fBkvtile\\fR(1),\n", to);
    for (int i = 0; i < n_commands; i++)
        if (commands[i] != c && page_of(commands[i]) == commands[i])
            fprintf(to, "\\fBkvtile\\-%s\\fR(1),\n", commands[i]->name);
    prose(to, "`kvtile.h`, the library's manual.");
}

static void page_program(FILE *to) {
    section(to, "synopsis");
    for (int i = 0; i < n_commands; i++)
        if (!command_family(commands[i])) synopsis(to, commands[i], i + 1 == n_commands);
    section(to, "description");
    prose(to, ABOUT);
    section(to, "commands");
    for (int i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        if (command_family(c)) continue;
        fprintf(to, ".TP\n\\fB%s\\fR", c->name);
        fputs(c->minor ? " " : "\n", to);
        if (c->minor) usage(to, c->usage);
        if (c->minor) fputc('\n', to);
        prose(to, c->about);
        if (c->minor && c->more) prose(to, c->more);
        if (!c->minor) fprintf(to, "See\n\\fBkvtile\\-%s\\fR(1).\n", c->name);
        if (c->minor && c->n_options) {
            fputs(".RS\n", to);
            option_entries(to, c, false);
            fputs(".RE\n", to);
        }
    }
    section(to, "options");
    ENTRIES(to, program_options);
    section(to, "examples");
    for (int i = 0; i < n_commands; i++)
        if (commands[i]->minor || i == 0) examples(to, commands[i], i == 0);
}

static void page_command(FILE *to, const command *c) {
    section(to, "synopsis");
    synopsis(to, c, true);
    section(to, "description");
    prose(to, c->about);
    if (c->more) fputs(".PP\n", to);
    if (c->more) prose(to, c->more);
    section(to, "options");
    option_entries(to, c, true);
    section(to, "examples");
    examples(to, c, true);
}

static void page_family(FILE *to, const command *family) {
    section(to, "synopsis");
    synopsis(to, family, true);
    section(to, "description");
    prose(to, family->about);
    if (family->more) fputs(".PP\n", to);
    if (family->more) prose(to, family->more);
    for (int i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        if (command_family(c) != family) continue;
        section(to, c->name);
        synopsis(to, c, true);
        fputs(".PP\n", to);
        prose(to, c->about);
        if (c->more) fputs(".PP\n", to);
        if (c->more) prose(to, c->more);
        option_entries(to, c, false);
        examples(to, c, false);
    }
}

void manual_print(FILE *to, const command *c) {
    if (c) c = page_of(c);
    head(to, c);
    if (!c) page_program(to);
    else if (c->run) page_command(to, c);
    else page_family(to, c);
    tail(to, c);
}

/* -------------------------------------------------------------------------------------- kvtile manual */

typedef struct manual_options {
    option_texts words;
    const char *folder;
} manual_options;

static const option option_table[] = {
    { "--write", "FOLDER", OPTION_FILE, offsetof(manual_options, folder),
      "write all pages to a folder: kvtile.1, kvtile-run.1 and so on" },
};

static const option operand = { "COMMAND", NULL, OPTION_COMMAND, offsetof(manual_options, words),
                                "the command whose page is wanted" };

static const command_example example_table[] = {
    { "manual run | man -l -", "Read a page that is not installed." },
};

/* NULL: the program's. */
static int page_write(const char *folder, const command *c) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/kvtile%s%s.1", folder, c ? "-" : "", c ? c->name : "");
    FILE *f = fopen(path, "w");
    if (!f) return cli_fail("%s: %s", path, strerror(errno));
    manual_print(f, c);
    bool failed = ferror(f);
    if (fclose(f) != 0 || failed) return cli_fail("%s: %s", path, strerror(errno));
    return CLI_DONE;
}

static int manual_command(const void *options) {
    const manual_options *o = options;
    const command *c = NULL;
    int n_words = 0, status = CLI_DONE;
    if (o->folder && o->words.n) return cli_usage("manual", "--write writes all pages; no command goes with it");
    if (o->folder) status = page_write(o->folder, NULL);
    for (int i = 0; i < n_commands && o->folder && status == CLI_DONE; i++)
        if (page_of(commands[i]) == commands[i]) status = page_write(o->folder, commands[i]);
    if (o->folder) return status;
    if (o->words.n && !(c = command_of_words(o->words.n, o->words.text, &n_words))) return CLI_USAGE;
    if (o->words.n > n_words)
        return cli_usage("manual", "\"%s\" is one argument too many", o->words.text[n_words]);
    manual_print(stdout, c);
    return cli_flush();
}

const command command_manual = {
    .name = "manual",
    .summary = "manual pages, in roff",
    .usage = "[COMMAND | --write FOLDER]",
    .about = "Write a manual page to stdout, as `man -l -` reads it: of the program, or of a command.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(example_table),
    .minor = true,
    .options_bytes = sizeof(manual_options),
    .run = manual_command,
};
