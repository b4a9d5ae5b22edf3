/* chat_command.c - what a line that begins with a slash does. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

typedef struct slash {
    const char *name, *argument, *help;
    bool wants; /* the argument has to be there */
    void (*run)(chat_session *s, const char *argument);
} slash;

static void failed(chat_session *s, const error_text *err) {
    s->failed = cli_fail("%s", err->text);
}

static void context(chat_session *s, const char *argument) {
    (void)argument;
    chat_context(s);
}

static void stats(chat_session *s, const char *argument) {
    (void)argument;
    chat_totals(s);
}

static void undo(chat_session *s, const char *argument) {
    error_text err;
    int before = talk_length(s->talk);
    (void)argument;
    if (talk_undo(s->talk, &err) != KVT_OK) {
        failed(s, &err);
        return;
    }
    int now = talk_length(s->talk);
    screen_dim(&s->screen, "the last turn is taken back: %s tokens gone, %s stay, %s of them computed",
               show_count((uint64_t)(before - now)).text, show_count((uint64_t)now).text,
               show_count((uint64_t)talk_cached(s->talk)).text);
}

static void regen(chat_session *s, const char *argument) {
    error_text err;
    (void)argument;
    if (talk_again(s->talk, &err) != KVT_OK) {
        failed(s, &err);
        return;
    }
    if (s->opt->sampling.temp == 0)
        screen_dim(&s->screen, "with --temp 0 the likeliest token is taken each time: the same text comes again");
    chat_answer(s);
}

/* "~/notes.json" is written as in a shell. */
static const char *path_of(const char *argument, char path[4096]) {
    const char *home = getenv("HOME");
    if (argument[0] != '~' || argument[1] != '/' || !home) return argument;
    return snprintf(path, 4096, "%s%s", home, argument + 1) < 4096 ? path : argument;
}

static void save(chat_session *s, const char *argument) {
    char path[4096];
    argument = path_of(argument, path);
    bool replaced = false;
    int status = chat_save(s, argument, &replaced);
    int n = talk_n_turns(s->talk);
    if (status == CLI_DONE)
        screen_dim(&s->screen, "%d turn%s saved in %s%s", n, n == 1 ? "" : "s", argument,
                   replaced ? ", which was there and is replaced" : "");
    else s->failed = status;
}

static void load(chat_session *s, const char *argument) {
    char path[4096];
    talk_change change;
    int status = chat_load(s, path_of(argument, path), &change);
    if (status != CLI_DONE) {
        s->failed = status;
        return;
    }
    change.n_again = 0; /* all of it is new here */
    chat_tell_change(s, &change);
    int n = talk_n_turns(s->talk);
    screen_dim(&s->screen, "%d turn%s, %s tokens, read with the next message", n, n == 1 ? "" : "s",
               show_count((uint64_t)talk_length(s->talk)).text);
}

static void system_message(chat_session *s, const char *argument) {
    error_text err;
    talk_change change;
    if (talk_system(s->talk, argument[0] ? argument : NULL, &change, &err) != KVT_OK) {
        failed(s, &err);
        return;
    }
    chat_tell_change(s, &change);
    screen_dim(&s->screen, "from here on with %s system message", argument[0] ? "this" : "the template's own");
}

static void quit(chat_session *s, const char *argument) {
    (void)argument;
    s->leave = true;
}

static void help(chat_session *s, const char *argument);

static const slash SLASHES[] = {
    { "/help", "", "this list", false, help },
    { "/context", "", "the blocks of the cache, by message, and who leaves next", false, context },
    { "/undo", "", "take back the last turn; the cache of the others stays", false, undo },
    { "/regen", "", "answer again, by another draw", false, regen },
    { "/stats", "", "tokens computed and saved so far, times, the cache", false, stats },
    { "/save", "FILE", "write the conversation as JSON", true, save },
    { "/load", "FILE", "go on with a saved one", true, load },
    { "/system", "TEXT", "another system message; without a text the template's own", false, system_message },
    { "/quit", "", "leave", false, quit },
};
enum { N_SLASHES = sizeof SLASHES / sizeof SLASHES[0] };

static void help(chat_session *s, const char *argument) {
    (void)argument;
    for (int i = 0; i < N_SLASHES; i++) {
        char left[40];
        snprintf(left, sizeof left, "%s %s", SLASHES[i].name, SLASHES[i].argument);
        screen_say(&s->screen, "  %-16s %s", left, SLASHES[i].help);
    }
    screen_say(&s->screen, "A line that ends in \\ goes on; \"\"\" opens and closes a message of several lines;");
    screen_say(&s->screen, "// begins a message with a slash.");
}

/* ------------------------------------------------------------------------------------------ which one */

static const slash *find(const char *name, size_t n) {
    for (int i = 0; i < N_SLASHES; i++)
        if (strlen(SLASHES[i].name) == n && memcmp(SLASHES[i].name, name, n) == 0) return &SLASHES[i];
    return NULL;
}

static void unknown(chat_session *s, const char *name) {
    near_word near = near_of(name);
    for (int i = 0; i < N_SLASHES; i++) near_offer(&near, SLASHES[i].name, (int)strlen(SLASHES[i].name));
    s->failed = cli_fail("unknown command %s%s%s", name, near_text(&near).text,
                         near.best ? "" : "; /help lists them, // begins a message with a slash");
}

void chat_command(chat_session *s, char *line) {
    char name[64];
    for (size_t end = strlen(line); end > 0 && strchr(" \t", line[end - 1]);) line[--end] = 0;
    size_t n = strcspn(line, " \t");
    const char *argument = line + n + strspn(line + n, " \t");
    const slash *c = find(line, n);
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), line);
    if (!c) unknown(s, name);
    else if (c->wants && !argument[0]) s->failed = cli_fail("%s wants a %s", c->name, c->argument);
    else if (!c->argument[0] && argument[0]) s->failed = cli_fail("%s takes nothing, not \"%.40s\"", c->name, argument);
    else c->run(s, argument);
}
