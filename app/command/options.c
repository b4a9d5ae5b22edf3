/* options.c - a command line, read by the rows of its command. What values are is values.c's. */
#include "command.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------- rows */

option_walk option_walk_of(const command *c) {
    return (option_walk){ .command = c };
}

const option *option_next(option_walk *w) {
    while (w->i < w->command->n_options) {
        const option *o = &w->command->options[w->i];
        bool shared = o->kind == OPTION_ROWS;
        if (shared && w->inner == o->rows->n) {
            w->inner = 0;
            w->i++;
            continue;
        }
        w->row = shared ? o->rows->row[w->inner++] : *o;
        if (shared) w->row.at += o->at;
        else w->i++;
        return &w->row;
    }
    return NULL;
}

const option *option_next_named(option_walk *w) {
    const option *o = option_next(w);
    while (o && o->kind == OPTION_HEADING) o = option_next(w);
    return o;
}

/* ------------------------------------------------------------------------------------------------ the line */

/* "--name" or "--name=value"; *value is set to what follows the sign. */
static bool find(const command *c, const char *word, option *out, const char **value) {
    size_t n = strcspn(word, "=");
    *value = word[n] ? word + n + 1 : NULL;
    option_walk walk = option_walk_of(c);
    for (const option *o; (o = option_next_named(&walk));) {
        *out = *o;
        if (strlen(o->name) == n && memcmp(o->name, word, n) == 0) return true;
    }
    return false;
}

static int unknown(const command *c, const char *word) {
    near_word near = near_of(word);
    option_walk walk = option_walk_of(c);
    for (const option *o; (o = option_next_named(&walk));) near_offer(&near, o->name, (int)strlen(o->name));
    near_offer(&near, "--help", 6);
    return cli_usage(c->name, "unknown option %s%s", word, near_text(&near).text);
}

static bool is_operand(const char *word) {
    return word[0] != '-' || !word[1];
}

static bool is_several(const option *o) {
    return o->kind == OPTION_TEXTS || o->kind == OPTION_COMMAND;
}

static int take_operand(const command *c, void *options, const char *word, bool *taken) {
    if (!word[0]) return cli_usage(c->name, "an argument is empty");
    if (!c->operand || (*taken && !is_several(c->operand)))
        return cli_usage(c->name, "\"%s\" is one argument too many", word);
    *taken = true;
    return option_take(c->operand, word, options) ? OPTIONS_GO : option_refuse(c, c->operand, word);
}

static int no_value(const command *c, const option *o) {
    if (!o->word_at) return cli_usage(c->name, "%s wants a value: %s", o->name, o->value);
    return cli_usage(c->name, "%s wants a value: %s; known are: %s", o->name, o->value,
                     option_words_of(o->word_at).text);
}

int options_parse(const command *c, void *options, int argc, char **argv) {
    bool operand_taken = false;
    for (int i = 1; i < argc; i++) {
        const char *value;
        option o;
        if (is_operand(argv[i])) {
            int status = take_operand(c, options, argv[i], &operand_taken);
            if (status != OPTIONS_GO) return status;
            continue;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help_print(stdout, c);
            return cli_flush();
        }
        if (!find(c, argv[i], &o, &value)) return unknown(c, argv[i]);
        if (o.kind == OPTION_FLAG) {
            if (value) return cli_usage(c->name, "%s takes no value", o.name);
            *(bool *)((char *)options + o.at) = true;
            continue;
        }
        if (!value && i + 1 == argc) return no_value(c, &o);
        if (!value) value = argv[++i];
        if (!option_take(&o, value, options)) return option_refuse(c, &o, value);
    }
    return OPTIONS_GO;
}
