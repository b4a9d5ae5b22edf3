/* test_options.c - the table of commands: its rows are sound, everything in them stands in the help, the manual and the
 * completions, and a mistyped word finds its near one. What the shells make of the scripts is test_options.sh's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ctype.h>

#include "cli/cli.h"
#include "cli/formats.h"
#include "command/completion.h"

/* ------------------------------------------------------------------------------------------------ texts */

/* What a writer writes. */
static void written(char **out, void (*writer)(FILE *, const command *), const command *c) {
    size_t n;
    FILE *f = open_memstream(out, &n);
    assert_non_null(f);
    writer(f, c);
    fclose(f);
}

static void bash_print(FILE *to, const command *c) {
    (void)c;
    completion_bash(to);
}

static void zsh_print(FILE *to, const command *c) {
    (void)c;
    completion_zsh(to);
}

static void fish_print(FILE *to, const command *c) {
    (void)c;
    completion_fish(to);
}

/* Cut a text to what lies between two others; it fails where one is missing. */
static void cut(char *text, const char *from, const char *to) {
    char *start = strstr(text, from), *end = start ? strstr(start + strlen(from), to) : NULL;
    if (!end) fail_msg("no part from \"%s\" to \"%s\"", from, to);
    *end = 0;
    memmove(text, start, strlen(start) + 1);
}

static void assert_holds(const char *text, const char *part, const command *c, const char *where) {
    if (!strstr(text, part)) fail_msg("%s: the %s lacks \"%s\"", c->name, where, part);
}

/* "--top-k" as roff has it. */
static const char *roff_of(const char *name) {
    static char out[128];
    char *p = out;
    for (; *name && p < out + sizeof out - 3; name++) {
        if (*name == '-') *p++ = '\\';
        *p++ = *name;
    }
    *p = 0;
    return out;
}

/* ------------------------------------------------------------------------------------------------- rows */

static void row_is_sound(const command *c, const option *o, const void *defaults) {
    bool flag = o->kind == OPTION_FLAG;
    assert_true(o->name[0] == '-' && o->name[1]);
    assert_true(o->at < c->options_bytes);
    assert_true(o->help && o->help[0]);
    assert_true(o->kind != OPTION_WORD || o->word_at);
    if (flag != !o->value) fail_msg("%s %s: a flag has no value, all others have one", c->name, o->name);
    if ((o->kind == OPTION_INT || o->kind == OPTION_REAL || o->kind == OPTION_LIST) && !(o->least < o->most))
        fail_msg("%s %s takes no number", c->name, o->name);
    option_text given = option_default(o, defaults);
    void *options = command_defaults(c);
    if (given.text[0] && !option_take(o, given.text, options))
        fail_msg("%s %s does not take its own default, %s", c->name, o->name, given.text);
    free(options);
    if (!given.text[0]) return;
    assert_null(strstr(o->help, "(default"));
}

static void every_row_is_sound(void **state) {
    (void)state;
    for (int i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        option_walk walk = option_walk_of(c);
        void *defaults = command_defaults(c);
        assert_ptr_equal(command_named(c->name), c);
        assert_true(c->run || (c->n_options == 0 && !c->operand));
        assert_true(!command_family(c) || !command_family(c)->run);
        if (c->operand) assert_true(c->operand->at < c->options_bytes);
        for (const option *o; (o = option_next_named(&walk));) {
            option_walk others = walk;
            row_is_sound(c, o, defaults);
            for (const option *p; (p = option_next_named(&others));)
                if (strcmp(p->name, walk.row.name) == 0) fail_msg("%s has %s twice", c->name, p->name);
        }
        free(defaults);
    }
}

/* Split an example as a shell does, but for all that it does not hold; where the program's part of it ends. */
static int split(char *line, char *argv[], int most) {
    int n = 0;
    for (char *p = line; *p && n < most;) {
        char end = *p == '"' ? '"' : ' ';
        if (*p == '|' || *p == '>') break;
        argv[n++] = end == '"' ? ++p : p;
        p += strcspn(p, end == '"' ? "\"" : " ");
        if (*p) *p++ = 0;
        if (*p == ' ') p++;
    }
    return n;
}

static void every_example_is_a_command_line(void **state) {
    (void)state;
    for (int i = 0; i < n_commands; i++)
        for (int k = 0; k < commands[i]->n_examples; k++) {
            char line[256], *argv[32];
            int n_words;
            snprintf(line, sizeof line, "%s", commands[i]->examples[k].line);
            int n = split(line, argv, 32);
            const command *c = command_of_words(n, (const char *const *)argv, &n_words);
            assert_ptr_equal(c, commands[i]);
            void *options = command_defaults(c);
            if (options_parse(c, options, n - n_words + 1, argv + n_words - 1) != OPTIONS_GO)
                fail_msg("kvtile %s", commands[i]->examples[k].line);
            free(options);
        }
}

/* "-m" of a usage line is an option too. */
static void usage_names_options_that_there_are(void **state) {
    (void)state;
    for (int i = 0; i < n_commands; i++)
        for (const char *p = commands[i]->usage; (p = strpbrk(p, "-"));) {
            size_t n = strcspn(p, " ]|)");
            option_walk walk = option_walk_of(commands[i]);
            const option *o = option_next_named(&walk);
            while (o && (strlen(o->name) != n || strncmp(o->name, p, n) != 0)) o = option_next_named(&walk);
            if (n > 1 && !o) fail_msg("%s: the usage line names %.*s", commands[i]->name, (int)n, p);
            p += n;
        }
}

/* ----------------------------------------------------------------------------------- what is made of rows */

static void help_has(const command *c, const option *o, const char *help) {
    char part[128];
    snprintf(part, sizeof part, "\n  %s%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "",
             o->value ? "" : " ");
    assert_holds(help, part, c, "help");
}

static void manual_has(const command *c, const option *o, const char *page) {
    char part[160];
    snprintf(part, sizeof part, ".TP\n\\fB%s\\fR", roff_of(o->name));
    assert_holds(page, part, c, "manual page");
}

/* The words of a choice with spaces between them. */
static const char *spaced(const char *words) {
    static char out[128];
    snprintf(out, sizeof out, "%s", words);
    for (char *p = out; *p; p++)
        if (*p == '|') *p = ' ';
    return out;
}

/* In the help words of their own may go over several lines. */
static void help_offers(const command *c, const option *o, const char *help) {
    const char *word, *at = strstr(help, o->name);
    for (int i = 0; (word = o->word_at(i)); i++)
        if (!at || !strstr(at, word)) fail_msg("%s: the help of %s lacks %s", c->name, o->name, word);
}

static void scripts_have(const command *c, const option *o, const char *bash, const char *zsh, const char *fish) {
    char part[256];
    bool is_long = o->name[1] == '-', choice = o->kind == OPTION_CHOICE;
    snprintf(part, sizeof part, "%s ", o->name);
    assert_holds(strstr(bash, "_kvtile_words \"$cur\" '-"), part, c, "bash script");
    snprintf(part, sizeof part, "%s) %s%s%s", o->name, choice ? "_kvtile_words \"$cur\" '" : "",
             choice ? spaced(o->value) : "", choice ? "'; return ;;\n" : "");
    if (o->value) assert_holds(bash, part, c, "bash script");
    snprintf(part, sizeof part, "'%s%s%s[", o->kind == OPTION_TEXTS ? "*" : "", o->name,
             is_long && o->value ? "=" : "");
    assert_holds(zsh, part, c, "zsh script");
    snprintf(part, sizeof part, "'__kvtile_is %s' %s %s%s%s%s ", c->name, is_long ? "-l" : "-s",
             o->name + (is_long ? 2 : 1), choice ? " -x -a '" : "", choice ? spaced(o->value) : "", choice ? "'" : "");
    assert_holds(fish, part, c, "fish script");
}

/* Words that may be taken beside others. */
static void scripts_offer(const command *c, const option *o, const char *bash, const char *zsh, const char *fish) {
    char part[1200];
    option_words words = option_words_of(o->word_at);
    snprintf(part, sizeof part, "%s) _kvtile_words \"$cur\" '%s'", o->name, words.text);
    assert_holds(bash, part, c, "bash script");
    snprintf(part, sizeof part, " -l %s -x -a '%s' ", o->name + 2, words.text);
    assert_holds(fish, part, c, "fish script");
    for (char *colon = words.text; (colon = strchr(colon, ':')); colon += 2) {
        memmove(colon + 1, colon, strlen(colon) + 1);
        *colon = '\\';
    }
    snprintf(part, sizeof part, ":(%s)'", words.text);
    assert_holds(zsh, part, c, "zsh script");
}

static void manual_part(char *page, const command *c) {
    char from[64], to[64] = ".SH ENVIRONMENT";
    if (!command_family(c) && !c->minor) return;
    if (c->minor) snprintf(from, sizeof from, ".TP\n\\fB%s\\fR", c->name);
    else snprintf(from, sizeof from, ".SH %s ", command_family(c)->name);
    for (char *p = from + 4; !c->minor && *p; p++) *p = (char)toupper((unsigned char)*p);
    cut(page, from, to);
    if (c->minor) return;
    snprintf(from, sizeof from, "\\fBkvtile %s\\fR", c->name);
    cut(strcat(page, ".SH "), from, ".SH ");
}

static void every_option_stands_in_help_manual_and_completions(void **state) {
    (void)state;
    int n_seen = 0;
    for (int i = 0; i < n_commands; i++) {
        const command *c = commands[i];
        if (!c->run) continue;
        char *help, *page, *bash, *zsh, *fish, from[64];
        written(&help, help_print, c);
        written(&page, manual_print, c);
        written(&bash, bash_print, c);
        written(&zsh, zsh_print, c);
        written(&fish, fish_print, c);
        snprintf(from, sizeof from, "\n    '%s')\n", c->name);
        cut(bash, from, "\n        ;;\n");
        cut(zsh, from, "\n        ;;\n");
        page = realloc(page, strlen(page) + 8);
        manual_part(page, c);
        option_walk walk = option_walk_of(c);
        for (const option *o; (o = option_next_named(&walk)); n_seen++) {
            help_has(c, o, help);
            manual_has(c, o, page);
            scripts_have(c, o, bash, zsh, fish);
            if (o->word_at) scripts_offer(c, o, bash, zsh, fish);
            if (o->kind == OPTION_WORD) help_offers(c, o, help);
        }
        if (c->operand) help_has(c, c->operand, help);
        if (c->operand && !c->minor) manual_has(c, c->operand, page);
        for (int k = 0; k < c->n_examples; k++) assert_holds(help, c->examples[k].line, c, "help");
        free(help), free(page), free(bash), free(zsh), free(fish);
    }
    assert_true(n_seen >= 80);
}

static void every_command_stands_in_the_lists(void **state) {
    (void)state;
    char *page, *help, part[128];
    written(&page, manual_print, NULL);
    for (int i = 0; i < n_commands; i++) {
        const command *c = commands[i], *family = command_family(c);
        written(&help, help_print, family);
        snprintf(part, sizeof part, "\n  %s ", command_word(c));
        assert_holds(help, part, c, "list of commands");
        snprintf(part, sizeof part, ".TP\n\\fB%s\\fR", c->name);
        if (!family) assert_holds(page, part, c, "program's page");
        free(help);
    }
    free(page);
}

/* -------------------------------------------------------------------------------------------- near words */

static const char *nearest(const char *wanted, const char *const *words) {
    static option_text out;
    near_word near = near_of(wanted);
    for (; *words; words++) near_offer(&near, *words, (int)strlen(*words));
    snprintf(out.text, sizeof out.text, "%.*s", near.n_best, near.best ? near.best : "");
    return out.text;
}

static void a_slip_finds_its_word(void **state) {
    (void)state;
    static const char *const words[] = { "--cache", "--cache-size", "--temp", "--seed", "--k", "--kv", "-n", NULL };
    static const struct {
        const char *wanted, *word;
    } rows[] = {
        { "--cache-sise", "--cache-size" }, /* another letter */
        { "--cahce", "--cache" },           /* swapped: one slip, not two */
        { "--cach", "--cache" },            /* left out */
        { "--teemp", "--temp" },            /* put in */
        { "--sede", "--seed" },
        { "-cache", "--cache" },            /* a dash too few is a slip too */
        { "--cache-sise=4G", "--cache-size" },
        { "--tepm", "--temp" },
        { "--tmpe", "" },                   /* two slips of four letters are too many */
        { "--x", "" },
        { "-x", "" },
        { "--frobnicate", "" },
        { "--kvv", "--kv" },
        { "", "" },
        { "-", "" },
        { "--", "" },
        { "--an-option-of-far-more-letters-than-anybody-would-type", "" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(nearest(rows[i].wanted, words), rows[i].word);
}

static void of_equally_near_words_the_first_counts(void **state) {
    (void)state;
    static const char *const words[] = { "bf16", "bf32", NULL }, *const turned[] = { "bf32", "bf16", NULL };
    assert_string_equal(nearest("bf36", words), "bf16");
    assert_string_equal(nearest("bf36", turned), "bf32");
}

/* ------------------------------------------------------------------------------------- words of formats */

/* Each single format, by the library's own word, stands for both; kNvM is what its letters say. */
static void words_of_formats_are_the_librarys(void **state) {
    (void)state;
    int n = 0;
    for (const char *name; (name = kvt_format_name((kvt_format)n)); n++) {
        kvt_format parsed;
        assert_string_equal(format_word(n), name);
        assert_string_equal(format_pair_word(n), name);
        assert_int_equal(kvt_format_parse(&parsed, name), KVT_OK);
        assert_int_equal(format_pair_at(n).k, parsed);
        assert_int_equal(format_pair_at(n).v, parsed);
    }
    assert_true(n > KVT_INT2);
    assert_null(format_word(n));
    for (const char *name; (name = format_pair_word(n)); n++) {
        format_pair p = format_pair_at(n);
        char spelled[32], k = kvt_format_name(p.k)[3], v = kvt_format_name(p.v)[3];
        snprintf(spelled, sizeof spelled, "k%cv%c", k, v);
        if (strcmp(name, "fp8") == 0) assert_true(p.k == KVT_E4M3 && p.v == KVT_E4M3);
        else assert_string_equal(name, spelled);
    }
    assert_null(format_pair_at(n + 1).name);
}

/* Tables have each pair of formats once, and every single one. */
static void tables_have_a_row_of_each_pair(void **state) {
    (void)state;
    bool seen[16][16] = { { false } };
    for (int i = 0; (i = format_row_next(i)) >= 0; i++) {
        format_pair p = format_pair_at(i);
        assert_false(seen[p.k][p.v]);
        seen[p.k][p.v] = true;
    }
    for (int i = 0; format_pair_word(i); i++) assert_true(seen[format_pair_at(i).k][format_pair_at(i).v]);
}

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct all_kinds {
    int before;
    common_options common;
    option_texts stops;
    double real;
    const char *operand;
} all_kinds;

static const option all_rows[] = {
    OPTION_HEAD("Cache"),
    OPTION_FORMATS(all_kinds),
    { "--stop", "TEXT", OPTION_TEXTS, offsetof(all_kinds, stops), "stop there" },
    OPTION_JSON(all_kinds),
    { "--real", "X", OPTION_REAL, offsetof(all_kinds, real), "a number", -1, 1 },
};
static const option all_operand = { "NAME", NULL, OPTION_TEXT, offsetof(all_kinds, operand), "a name" };
static const command all = {
    .name = "test",
    .usage = "",
    .about = "",
    COMMAND_OPTIONS(all_rows),
    .operand = &all_operand,
    .options_bytes = sizeof(all_kinds),
};

static int parse(all_kinds *out, const char *line) {
    char *copy = strdup(line), *argv[64] = { "test" };
    int n = 1 + split(copy, argv + 1, 63), status = options_parse(&all, out, n, argv);
    if (out->operand) out->operand = "seen";
    free(copy);
    return status;
}

static void values_land_where_their_rows_say(void **state) {
    (void)state;
    all_kinds o = { .before = 77 };
    assert_int_equal(parse(&o, "--kv=f32 --v f16 name --json --real -0.5 --block 64"), OPTIONS_GO);
    assert_int_equal(o.before, 77);
    assert_int_equal(o.common.kv, 2);
    assert_int_equal(o.common.v, 1);
    assert_int_equal(o.common.k, 0);
    assert_int_equal(o.common.block, 2);
    assert_true(o.common.json && o.real == -0.5 && o.operand);
    assert_int_equal(o.stops.n, 0);
}

static void formats_come_from_kv_unless_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int k, v, hot;
    } rows[] = {
        { "", KVT_BF16, KVT_BF16, 1 },
        { "--kv int4", KVT_INT4, KVT_INT4, 1 },
        { "--kv k8v4 --hot 64", KVT_INT8, KVT_INT4, 64 },
        { "--kv fp8 --v f16", KVT_E4M3, KVT_F16, 1 },
        { "--k int8 --kv k4v2 --hot 0", KVT_INT8, KVT_INT2, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        all_kinds o = { .common = common_options_default() };
        assert_int_equal(parse(&o, rows[i].line), OPTIONS_GO);
        engine_options e = common_engine_options(&o.common);
        assert_int_equal(e.k_format, rows[i].k);
        assert_int_equal(e.v_format, rows[i].v);
        assert_int_equal(e.hot_tokens, rows[i].hot);
    }
}

static void an_option_of_several_values_keeps_them_in_order(void **state) {
    (void)state;
    static const char *argv[2 * OPTION_TEXTS_MAX + 3] = { "test" };
    all_kinds o = { 0 };
    for (int i = 0; i <= OPTION_TEXTS_MAX; i++) {
        argv[1 + 2 * i] = "--stop";
        argv[2 + 2 * i] = i % 2 ? "" : "a";
    }
    assert_int_equal(options_parse(&all, &o, 1 + 2 * OPTION_TEXTS_MAX, (char **)argv), OPTIONS_GO);
    assert_int_equal(o.stops.n, OPTION_TEXTS_MAX);
    assert_string_equal(o.stops.text[0], "a");
    assert_string_equal(o.stops.text[OPTION_TEXTS_MAX - 1], "");
    o.stops.n = 0;
    assert_int_equal(options_parse(&all, &o, 3 + 2 * OPTION_TEXTS_MAX, (char **)argv), CLI_USAGE);
}

static void what_is_no_line_is_refused(void **state) {
    (void)state;
    static const char *const lines[] = { "--nope", "--kv", "--kv f64", "--kv f", "--kv bf16|f16", "--k k8v4",
                                         "--hot -1", "--json=1", "a b", "--real 2", "--real x", "--real", "-kv f16",
                                         "--stop", "\"\"" };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        all_kinds o = { 0 };
        if (parse(&o, lines[i]) != CLI_USAGE) fail_msg("taken: %s", lines[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_sound),
        cmocka_unit_test(every_example_is_a_command_line),
        cmocka_unit_test(usage_names_options_that_there_are),
        cmocka_unit_test(every_option_stands_in_help_manual_and_completions),
        cmocka_unit_test(every_command_stands_in_the_lists),
        cmocka_unit_test(a_slip_finds_its_word),
        cmocka_unit_test(of_equally_near_words_the_first_counts),
        cmocka_unit_test(words_of_formats_are_the_librarys),
        cmocka_unit_test(tables_have_a_row_of_each_pair),
        cmocka_unit_test(formats_come_from_kv_unless_told_apart),
        cmocka_unit_test(values_land_where_their_rows_say),
        cmocka_unit_test(an_option_of_several_values_keeps_them_in_order),
        cmocka_unit_test(what_is_no_line_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
