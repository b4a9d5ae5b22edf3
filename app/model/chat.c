/* chat.c - see chat.h: a file's template recognised, and what is read out of its text. The rows are chat_form.c's,
 * rendering is chat_render.c's. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "chat_form.h"

static const char *find(file_text in, const char *what) {
    return memmem(in.at, in.n, what, strlen(what));
}

static file_text rest_from(file_text text, const char *at) {
    return (file_text){at, text.n - (size_t)(at - text.at)};
}

/* ------------------------------------------------------------------------------------ default system message */

/* What is left of a literal behind a line break, which may be written \n or as it is; n = 0: none comes here. */
static file_text after_break(file_text text) {
    size_t n = text.n && text.at[0] == '\n' ? 1 : text.n > 1 && memcmp(text.at, "\\n", 2) == 0 ? 2 : text.n;
    return (file_text){text.at + n, text.n - n};
}

/* The message in the literal that `at` stands in, see chat_form.h. Where the literal ends before `close` does, it is
 * put together from variables: that is none. */
static file_text message_at(file_text text, const char *at, const char *open, const char *close) {
    bool quoted = open[0] == '"' || open[0] == '\'';
    char quote = quoted ? open[0] : at > text.at ? at[-1] : 0;
    if (quote != '\'' && quote != '"') return (file_text){"", 0};
    file_text literal = rest_from(text, at + (quoted ? 1 : strlen(open)));
    const char *end = memchr(literal.at, quote, literal.n);
    literal.n = end ? (size_t)(end - literal.at) : 0;
    file_text message = quoted ? literal : after_break(literal);
    const char *closed = find(message, close);
    message.n = closed ? (size_t)(closed - message.at) : 0;
    return message.n && !memchr(message.at, '\\', message.n) ? message : (file_text){"", 0};
}

/* Each try reads no further than to the next quote of its kind: all together read the text a few times at most. */
static file_text default_system_of(file_text text, const chat_form *form) {
    file_text rest = text, none = {"", 0};
    if (!form->default_open) return none;
    for (const char *open; (open = find(rest, form->default_open));) {
        file_text message = message_at(text, open, form->default_open, form->default_close);
        if (message.n) return message;
        rest = rest_from(rest, open + strlen(form->default_open));
    }
    return none;
}

/* ---------------------------------------------------------------------------------------------------- opening */

/* The row of the file's template and its text; why says what is amiss with it. */
static const chat_form *read_form(const model_file *f, file_text *text, error_text *why) {
    static const char KEY[] = "tokenizer.chat_template";
    static const char INSTEAD[] = "messages are written as plain text, \"User: ...\"";
    *text = (file_text){"", 0};
    if (why) why->text[0] = 0;
    if (!file_has(f, KEY)) {
        (void)file_fail(f, why, KVT_OK, "no chat template (key %s): %s", KEY, INSTEAD);
        return &CHAT_PLAIN;
    }
    if (file_string(f, KEY, text, why) != KVT_OK) return &CHAT_PLAIN;
    const chat_form *form = chat_form_of(*text);
    if (form) return form;
    (void)file_fail(f, why, KVT_OK, "this version does not know its chat template (key %s, %zu bytes): %s", KEY,
                    text->n, INSTEAD);
    return &CHAT_PLAIN;
}

/* The start token stands in front where the template writes it, or where the tokenizer wants it in front of any
 * text. */
static bool begins_with_bos(const tokenizer *t, file_text template) {
    const tokenizer_info *info = tokenizer_about(t);
    return info->bos >= 0 && (info->add_bos || find(template, "bos_token"));
}

/* In some vocabularies "<|user|>\n" is one token, though a line break is one as well: asked by trying. */
static kvt_status try_blank(const tokenizer *t, const char *control, bool *takes) {
    byte_list text = {0};
    token_list both = {0}, alone = {0};
    kvt_status st = byte_list_add(&text, control, strlen(control));
    if (st == KVT_OK) st = byte_list_add(&text, "\n", 1);
    if (st == KVT_OK) st = tokenizer_encode(t, text.at, text.n, true, &both);
    if (st == KVT_OK) st = tokenizer_encode(t, "\n", 1, false, &alone);
    *takes = both.n == 1 && alone.n > 0;
    byte_list_free(&text);
    token_list_free(&both);
    token_list_free(&alone);
    return st;
}

static kvt_status find_controls(chat *c) {
    for (int i = 0; i < CHAT_CONTROLS; i++) {
        const char *spelling = c->form->control[i];
        c->control[i] = spelling ? tokenizer_control(c->t, spelling) : -1;
        if (c->control[i] >= 0) TRY(try_blank(c->t, spelling, &c->takes_blanks[i]));
    }
    return KVT_OK;
}

kvt_status chat_open(chat **out, const model_file *f, const tokenizer *t, error_text *why) {
    file_text text;
    const chat_form *form = read_form(f, &text, why);
    file_text system = default_system_of(text, form);
    chat *c = calloc(1, sizeof *c);
    *out = NULL;
    if (c) *c = (chat){.t = t, .form = form, .begins = begins_with_bos(t, text)};
    if (c) c->default_system = strndup(system.at, system.n);
    if (!c || !c->default_system || find_controls(c) != KVT_OK) {
        chat_close(c);
        return file_fail(f, why, KVT_E_MEMORY, "no memory for the chat template");
    }
    *out = c;
    return KVT_OK;
}

void chat_close(chat *c) {
    if (!c) return;
    free(c->default_system);
    free(c);
}

/* ---------------------------------------------------------------------------------------------------- looking */

const char *chat_name(const chat *c) { return c->form->name; }
bool chat_known(const chat *c) { return c->form != &CHAT_PLAIN; }
const char *chat_default_system(const chat *c) { return c->default_system; }

/* An end that this vocabulary has no control token for is text, and has to be watched for as such. */
const char *chat_stop(const chat *c) {
    for (int i = 0; i < CHAT_CONTROLS && c->form->control[i]; i++)
        if (c->control[i] < 0 && strcmp(c->form->control[i], c->form->end) == 0) return c->form->end;
    return c->form->stop;
}
