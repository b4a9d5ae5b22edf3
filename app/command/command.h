/* command.h - the door of the command line: commands and their options as rows of tables, from which everything is
 * made that a user or a shell wants of them: finding the command (line.c), parsing (options.c, values.c), suggestions
 * (near.c, words.c), the help (help.c), manual pages (manual.c), completion (completion.c). And what every command says
 * the same way: what went wrong, and with which exit status (tell.c).
 *
 * All rows are static const. A value lands in the command's own struct, so a row says where in it: offsetof. Knows
 * nothing of what commands do. */
#ifndef APP_COMMAND_H
#define APP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ------------------------------------------------------------------------------------------ exit statuses */

enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* "kvtile: ..." on stderr; returns CLI_FAILED. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and where to look; returns CLI_USAGE. */
int cli_usage(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "kvtile: warning: ...", and work goes on. */
void cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Flush stdout. CLI_DONE: written, or nobody reads any more (a closed pipe is no failure); CLI_FAILED: told. */
int cli_flush(void);

/* --------------------------------------------------------------------------------------------- options */

typedef enum option_kind {
    OPTION_FLAG,    /* bool: given or not */
    OPTION_TEXT,    /* const char * */
    OPTION_FILE,    /* const char *, not empty */
    OPTION_INT,     /* int, least .. most */
    OPTION_REAL,    /* double, least .. most */
    OPTION_SEED,    /* uint64_t */
    OPTION_BYTES,   /* size_t, at least 1: 512M, 4GiB */
    OPTION_RATE,    /* double, at least 1 a second: 50G, 3.35T (powers of 1000), with or without B/s or FLOP/s */
    OPTION_TIME,    /* uint64_t, nanoseconds, at least 1 second: 90s, 15m, 12h, 7d, 2w */
    OPTION_CHOICE,  /* int: the place among the words of `value`, "a|b|c" */
    OPTION_WORD,    /* int: the place among the words of `word_at` */
    OPTION_LIST,    /* const char *: up to OPTION_LIST_MAX numbers separated by commas, each least .. most */
    OPTION_TEXTS,   /* option_texts: may be given several times */
    OPTION_COMMAND, /* option_texts: an operand, the words of a command's name */
    OPTION_HEADING, /* no option: `help` is the title of the rows below it */
    OPTION_ROWS     /* no option: the rows of a table that several commands have, `at` being their struct's place */
} option_kind;

enum { OPTION_LIST_MAX = 16, OPTION_TEXTS_MAX = 16 };

typedef struct option_texts {
    const char *text[OPTION_TEXTS_MAX];
    int n;
} option_texts;

/* Words one by one; NULL behind the last. */
typedef const char *(*option_word_at)(int i);

typedef struct option {
    const char *name;  /* "--ctx" or "-n"; of an operand what it is called, "MODEL" */
    const char *value; /* what the help calls its value, the words of a choice; NULL: a flag */
    option_kind kind;
    size_t at;        /* where its value lies in the command's options; left as it was where the option is not given */
    const char *help; /* a line, without the default: that is read from the options' defaults, where it is a value that
                         the option would take; a default that is none is told here, in "(default: ...)" */
    double least, most;
    const char *more;  /* further sentences, for the manual page alone */
    const char *files; /* OPTION_FILE: the endings that a shell offers, "svg png"; NULL: all */
    const struct option_rows *rows; /* OPTION_ROWS */
    option_word_at word_at; /* OPTION_WORD: all that there are. OPTION_TEXT, OPTION_TEXTS: what a shell offers, and is
                               told to whom gives no value */
} option;

typedef struct option_rows {
    const option *row; /* [n] */
    int n;
} option_rows;

#define OPTION_HEAD(title) { .kind = OPTION_HEADING, .help = title }
#define OPTION_ROWS_OF(table, T, member) { .kind = OPTION_ROWS, .at = offsetof(T, member), .rows = &table }

/* -------------------------------------------------------------------------------------------- commands */

typedef struct command_example {
    const char *line, *what; /* the line without "kvtile " */
} command_example;

/* Texts of a manual page and the help: sentences, paragraphs parted by an empty line. Both break lines themselves. */
typedef struct command {
    const char *name;    /* "run"; "bench decode": one of the family "bench" */
    const char *summary; /* a few words for lists, "generate from a prompt" */
    const char *usage;   /* what follows the name in the usage line */
    const char *about;   /* the top of the help */
    const char *more;    /* further paragraphs for the manual page alone; may be NULL */
    const option *options;
    int n_options;
    const option *operand; /* what is no option: one, or several where they land in option_texts; NULL: none */
    const command_example *examples;
    int n_examples;
    bool minor;           /* told of in kvtile(1), without a page of its own */
    size_t options_bytes; /* of the struct that `defaults` fills and `run` gets; 0: there are no options */
    void (*defaults)(void *options);
    int (*run)(const void *options); /* after parsing; the exit status. NULL: a family, whose members do the work */
} command;

/* A static table and its length. */
#define COMMAND_OPTIONS(rows) .options = rows, .n_options = sizeof rows / sizeof rows[0]
#define COMMAND_EXAMPLES(rows) .examples = rows, .n_examples = sizeof rows / sizeof rows[0]

/* The table of all of them, which the program defines. */
extern const command *const commands[];
extern const int n_commands;

/* The command of that name; NULL: there is none. */
const command *command_named(const char *name);
/* "bench" of "bench decode"; NULL: it is of no family. */
const command *command_family(const command *c);
/* "decode" of "bench decode", "run" of "run". */
const char *command_word(const command *c);
/* The command that one or two words of n mean; *n_words is how many are its name. NULL: told on stderr. */
const command *command_of_words(int n, const char *const *words, int *n_words);
/* argv[1] and what follows it: find the command, read its options, run it; the exit status. */
int command_line(int argc, char **argv);

/* --------------------------------------------------------------------------------------------- reading */

enum { OPTIONS_GO = -1 };

/* The rows of a command one after the other, those of shared tables as if they stood in its own. */
typedef struct option_walk {
    const command *command;
    int i, inner;
    option row; /* the one that option_next gave */
} option_walk;
option_walk option_walk_of(const command *c);
const option *option_next(option_walk *w);         /* headings too; NULL: there is none left */
const option *option_next_named(option_walk *w);   /* without headings */

/* OPTIONS_GO, or the status to exit with: CLI_DONE after --help, CLI_USAGE after telling what is wrong.
 * argv[0] is skipped. options [c->options_bytes] hold the defaults. */
int options_parse(const command *c, void *options, int argc, char **argv);

/* Put a value where its row says; false: it is none of its kind. */
bool option_take(const option *o, const char *text, void *options);
/* Tell why option_take did not; returns CLI_USAGE. */
int option_refuse(const command *c, const option *o, const char *text);

/* What the help says of an option: its line, the words of an OPTION_WORD, the default. */
typedef struct option_about {
    char text[2048];
} option_about;
option_about option_tell(const option *o, const void *defaults);

/* The default as it would be written on the command line, "" where the row has none. */
typedef struct option_text {
    char text[80];
} option_text;
option_text option_default(const option *o, const void *defaults);
/* Memory with the defaults of a command, for free(); NULL: no memory. */
void *command_defaults(const command *c);

/* "512M", "4GiB", "1.5G" (powers of 1024; KB, MB, GB are powers of 1000); false: no size, below 1, or too large. */
bool option_bytes(const char *text, size_t *out);
/* "3.35T", "50GB/s", "9.9e14", "60 TFLOP/s", in powers of 1000; false: no rate, or below 1. */
bool option_rate(const char *text, double *out);
/* "90s", "15m", "12h", "7d", "2w" in nanoseconds; false: no such time, below a second, or above 300 years. */
bool option_time(const char *text, uint64_t *out);
/* Numbers of an OPTION_LIST; how many. */
int option_list(const char *text, int out[OPTION_LIST_MAX]);
/* Take the next word off "a|b|c": its length; -1: there is none left. */
int option_word(const char **words, const char **out);

/* ------------------------------------------------------------------------------------------- near words */

/* The nearest of the words that are offered one after the other; the first of several that are equally near. */
typedef struct near_word {
    const char *wanted;
    const char *best; /* NULL: none is near */
    int n_best, distance;
} near_word;

near_word near_of(const char *wanted);
/* Near is what a slip of the hand makes: at most one letter in three left out, put in, changed, or swapped with the
 * next one. */
void near_offer(near_word *n, const char *word, int length);
/* "; did you mean --cache-size?", or nothing. */
option_text near_text(const near_word *n);

/* All words in a line, with spaces between them. */
typedef struct option_words {
    char text[1024];
} option_words;
option_words option_words_of(option_word_at word_at);
/* The place of a word; -1: it is none of them. */
int option_word_find(option_word_at word_at, const char *word);
/* Tell that there is no such thing, `what` being "there is no policy": the word that is near, else all; returns
 * CLI_USAGE. */
int option_words_refuse(const char *name, const char *what, const char *text, option_word_at word_at);

/* ------------------------------------------------------------------------------------- help and manual */

void help_print(FILE *to, const command *c); /* NULL: of the program */

/* The manual page of a command in roff, NULL: of the program. Members of a family are on its page, minor commands on
 * the program's. */
void manual_print(FILE *to, const command *c);

/* They are about all commands, and stand in the table as the others do. */
extern const command command_help, command_manual, command_completion;

#endif
