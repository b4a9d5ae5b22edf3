/* store_rm.c - kvtile store rm: all records of some spaces, or of all, leave. */
#include <stdlib.h>
#include <string.h>

#include "store.h"

typedef struct rm_options {
    common_options common;
    option_texts words; /* the folder, then spaces */
    bool all;
} rm_options;

static const option option_table[] = {
    { "--all", NULL, OPTION_FLAG, offsetof(rm_options, all), "all spaces" },
    OPTION_JSON(rm_options),
};

static const option operand = { "DIR", NULL, OPTION_TEXTS, offsetof(rm_options, words),
                                "the folder of the store, and behind it the first digits of spaces" };

static const command_example examples[] = {
    { "store rm /var/cache/kvtile 3f2a 91", "Two spaces, by digits that begin no other one's name." },
    { "store rm --all", "Everything in the default store." },
};

static void rm_defaults(void *options) {
    *(rm_options *)options = (rm_options){ .common = common_options_default() };
}

/* The space whose name begins so. CLI_DONE, or CLI_FAILED told on stderr. */
static int space_find(const store *s, const char *digits, size_t *out) {
    size_t n = 0, length = strlen(digits);
    for (size_t i = 0; i < s->n_spaces; i++)
        if (strncmp(hex_of(s->spaces[i].name, 32).text, digits, length) == 0) {
            *out = i;
            n++;
        }
    if (n == 0) return cli_fail("%s: no space begins with \"%s\"", s->folder, digits);
    if (n > 1) return cli_fail("%s: %s begin with \"%s\"", s->folder, show_counted(n, "space").text, digits);
    return CLI_DONE;
}

static void space_remove(store *s, size_t space) {
    for (size_t i = 0; i < s->n_records; i++)
        if (s->records[i].space == space) store_remove(s, &s->records[i]);
}

/* All names are looked up before anything leaves. A space that is named twice leaves once. */
static int spaces_remove(store *s, const rm_options *o) {
    size_t space[OPTION_TEXTS_MAX];
    for (int i = 1; i < o->words.n; i++)
        if (space_find(s, o->words.text[i], &space[i]) != CLI_DONE) return CLI_FAILED;
    for (int i = 1; i < o->words.n; i++)
        if (s->spaces[space[i]].n_records > 0) space_remove(s, space[i]);
    for (size_t i = 0; o->all && i < s->n_spaces; i++) space_remove(s, i);
    return CLI_DONE;
}

static int rm(const void *options) {
    const rm_options *o = options;
    store s;
    if (o->all && o->words.n > 1) return cli_usage("store rm", "spaces or --all, not both");
    if (!o->all && o->words.n < 2) return cli_usage("store rm", "DIR and spaces are wanted, or --all");
    int status = store_open(&s, o->words.n > 0 ? o->words.text[0] : NULL);
    if (status == CLI_DONE) status = spaces_remove(&s, o);
    if (status == CLI_DONE) status = store_tell_removed(&s, o->common.json);
    store_close(&s);
    return status;
}

const command command_store_rm = {
    .name = "store rm",
    .summary = "remove spaces",
    .usage = "DIR SPACE... | [DIR] --all",
    .about = "Remove all records of spaces from a store, or all there are. `kvtile store ls` lists spaces; as many "
             "digits of a name as begin no other one's are enough. The folder stays, and nobody is asked. Sessions "
             "of `kvtile chat` are files of their own there, sessions/NAME.json, and stay too.",
    COMMAND_OPTIONS(option_table),
    .operand = &operand,
    COMMAND_EXAMPLES(examples),
    .options_bytes = sizeof(rm_options),
    .defaults = rm_defaults,
    .run = rm,
};
