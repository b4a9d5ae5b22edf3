/* options.c - one way to read options: a table of rows says what there is, this file reads, checks and explains it. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------- the help */

static void row_print(const char *name, const char *value, const char *help) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", name, value ? " " : "", value ? value : "");
    printf("  %-30s %s\n", left, help);
}

static void help_print(const option_set *set) {
    printf("usage: kvtile %s %s\n\n%s\n\n", set->command, set->usage, set->about);
    for (int i = 0; i < set->n_options; i++)
        row_print(set->options[i].name, set->options[i].value, set->options[i].help);
    row_print("--help", NULL, "this page");
}

/* ------------------------------------------------------------------------------------------------ values */

bool option_bytes(const char *text, size_t *out) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        { "", 1 },
        { "B", 1 },
        { "K", 0x1p10 }, { "KiB", 0x1p10 }, { "kB", 1e3 }, { "KB", 1e3 },
        { "M", 0x1p20 }, { "MiB", 0x1p20 }, { "MB", 1e6 },
        { "G", 0x1p30 }, { "GiB", 0x1p30 }, { "GB", 1e9 },
        { "T", 0x1p40 }, { "TiB", 0x1p40 }, { "TB", 1e12 },
    };
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double n = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        n *= units[i].factor;
        if (!(n >= 1 && n < 0x1p62)) return false;
        *out = (size_t)n;
        return true;
    }
    return false;
}

static bool real_of(const char *text, double least, double most, double *out) {
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) return false;
    *out = v;
    return true;
}

static bool whole_of(const char *text, double least, double most, int *out) {
    double v;
    if (strspn(text, "-0123456789") != strlen(text) || !real_of(text, least, most, &v)) return false;
    *out = (int)v;
    return true;
}

static bool seed_of(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    if (text[0] < '0' || text[0] > '9' || *end || errno) return false;
    *out = v;
    return true;
}

/* The place of a word in "a|b|c"; -1: it is none of them. */
static int choice_of(const char *words, const char *word) {
    size_t n = strlen(word);
    for (int place = 0;; place++) {
        size_t length = strcspn(words, "|");
        if (length == n && memcmp(words, word, n) == 0) return place;
        if (!words[length]) return -1;
        words += length + 1;
    }
}

/* Next number of a list: where it ends, NULL: it is none. */
static const char *list_next(const char *text, double least, double most, int *out) {
    char number[16];
    size_t n = strcspn(text, ",");
    if (n == 0 || n >= sizeof number) return NULL;
    memcpy(number, text, n);
    number[n] = 0;
    return whole_of(number, least, most, out) ? text + n : NULL;
}

static bool list_good(const char *text, double least, double most) {
    int v, n = 0;
    while (n++ < OPTION_LIST_MAX && (text = list_next(text, least, most, &v)) && *text == ',') text++;
    return text && *text == 0;
}

int option_list(const char *text, int out[OPTION_LIST_MAX]) {
    int n = 0;
    while (n < OPTION_LIST_MAX && (text = list_next(text, -2147483648.0, 2147483647.0, &out[n]))) {
        n++;
        if (*text++ != ',') break;
    }
    return n;
}

static bool take_value(const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_TEXT: *(const char **)o->out = text; return true;
    case OPTION_FILE: *(const char **)o->out = text; return text[0] != 0;
    case OPTION_INT: return whole_of(text, o->least, o->most, o->out);
    case OPTION_REAL: return real_of(text, o->least, o->most, o->out);
    case OPTION_SEED: return seed_of(text, o->out);
    case OPTION_BYTES: return option_bytes(text, o->out);
    case OPTION_CHOICE: {
        int place = choice_of(o->value, text);
        if (place >= 0) *(int *)o->out = place;
        return place >= 0;
    }
    case OPTION_LIST: *(const char **)o->out = text; return list_good(text, o->least, o->most);
    case OPTION_FLAG: break;
    }
    return false;
}

static int refuse_value(const option_set *set, const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_REAL:
        return cli_usage(set->command, "%s wants a number from %.15g to %.15g, not \"%s\"", o->name, o->least, o->most,
                         text);
    case OPTION_LIST:
        return cli_usage(set->command, "%s wants up to %d numbers from %.15g to %.15g, not \"%s\"", o->name,
                         OPTION_LIST_MAX, o->least, o->most, text);
    case OPTION_BYTES:
        return cli_usage(set->command, "%s wants a size such as 512M or 4GiB, not \"%s\"", o->name, text);
    case OPTION_FILE: return cli_usage(set->command, "%s wants a name, not \"%s\"", o->name, text);
    case OPTION_CHOICE: return cli_usage(set->command, "%s is one of %s, not \"%s\"", o->name, o->value, text);
    default: return cli_usage(set->command, "%s does not take \"%s\"", o->name, text);
    }
}

/* ------------------------------------------------------------------------------------------------ the line */

/* "--name" or "--name=value"; *value is set to what follows the sign. */
static const option *find(const option_set *set, const char *word, const char **value) {
    size_t n = strcspn(word, "=");
    *value = word[n] ? word + n + 1 : NULL;
    for (int i = 0; i < set->n_options; i++) {
        const option *o = &set->options[i];
        if (strlen(o->name) == n && memcmp(o->name, word, n) == 0) return o;
    }
    return NULL;
}

static bool is_operand(const char *word) {
    return word[0] != '-' || !word[1];
}

static int take_operand(const option_set *set, const char *word) {
    if (!word[0]) return cli_usage(set->command, "an argument is empty");
    if (*set->n_operands == set->operands_max) return cli_usage(set->command, "\"%s\" is one argument too many", word);
    set->operands[(*set->n_operands)++] = word;
    return OPTIONS_GO;
}

int options_parse(const option_set *set, int argc, char **argv) {
    int none = 0;
    option_set own = *set;
    if (!own.n_operands) own.n_operands = &none;
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help_print(set);
            return cli_flush();
        }
        if (is_operand(argv[i])) {
            int status = take_operand(&own, argv[i]);
            if (status != OPTIONS_GO) return status;
            continue;
        }
        const option *o = find(set, argv[i], &value);
        if (!o) return cli_usage(set->command, "unknown option %s", argv[i]);
        if (o->kind == OPTION_FLAG) {
            if (value) return cli_usage(set->command, "%s takes no value", o->name);
            *(bool *)o->out = true;
            continue;
        }
        if (!value && i + 1 == argc) return cli_usage(set->command, "%s wants a value: %s", o->name, o->value);
        if (!value) value = argv[++i];
        if (!take_value(o, value)) return refuse_value(set, o, value);
    }
    return OPTIONS_GO;
}
