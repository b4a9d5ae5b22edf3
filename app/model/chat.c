/* chat.c - see chat.h. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

typedef enum piece_kind { PIECE_END, PIECE_CONTROL, PIECE_TEXT, PIECE_ROLE, PIECE_MESSAGE } piece_kind;

typedef struct piece {
    piece_kind kind;
    const char *text; /* of PIECE_CONTROL and PIECE_TEXT */
} piece;

enum { MARKS = 2 };

/* A template is known by marks that its text in the file contains. */
typedef struct chat_template {
    const char *mark[MARKS];
    const char *system_open, *system_close; /* around a line break and a default system message, in the file's text */
    const piece *message, *answer;
} chat_template;

static const piece CHATML_MESSAGE[] = {
    {PIECE_CONTROL, "<|im_start|>"}, {PIECE_ROLE},       {PIECE_TEXT, "\n"}, {PIECE_MESSAGE},
    {PIECE_CONTROL, "<|im_end|>"},   {PIECE_TEXT, "\n"}, {PIECE_END},
};
static const piece CHATML_ANSWER[] = {{PIECE_CONTROL, "<|im_start|>"}, {PIECE_TEXT, "assistant\n"}, {PIECE_END}};

static const chat_template TEMPLATES[] = {
    {
        .mark = {"<|im_start|>", "<|im_end|>"},
        .system_open = "'<|im_start|>system",
        .system_close = "<|im_end|>",
        .message = CHATML_MESSAGE,
        .answer = CHATML_ANSWER,
    },
};

struct chat {
    const tokenizer *t;
    const chat_template *template;
    char *default_system;
};

/* ------------------------------------------------------------------------------------------- opening */

static const char *find(file_text in, const char *what) {
    return memmem(in.at, in.n, what, strlen(what));
}

static const chat_template *template_of(file_text text) {
    for (size_t i = 0; i < sizeof TEMPLATES / sizeof *TEMPLATES; i++) {
        bool all = true;
        for (int m = 0; m < MARKS; m++) all = all && find(text, TEMPLATES[i].mark[m]);
        if (all) return &TEMPLATES[i];
    }
    return NULL;
}

/* What is left of a literal behind a line break, which may be written \n or as it is; n = 0: none comes here. */
static file_text after_break(file_text text) {
    size_t n = text.n && text.at[0] == '\n' ? 1 : text.n > 1 && memcmp(text.at, "\\n", 2) == 0 ? 2 : text.n;
    return (file_text){text.at + n, text.n - n};
}

/* A default system message stands in the template as part of one string literal, '...system\nYou are ...<|im_end|>...'.
 * Where the literal ends before the message does, the message is put together from variables: that is none. */
static file_text default_system_of(file_text text, const chat_template *known) {
    for (const char *open; (open = find(text, known->system_open));) {
        const char *from = open + strlen(known->system_open);
        text = (file_text){from, text.n - (size_t)(from - text.at)};
        file_text message = after_break(text);
        const char *close = find(message, known->system_close);
        message.n = close ? (size_t)(close - message.at) : 0;
        if (message.n && !memchr(message.at, '\'', message.n) && !memchr(message.at, '\\', message.n)) return message;
    }
    return (file_text){"", 0};
}

static kvt_status check_control(const model_file *f, const tokenizer *t, const piece *p, error_text *err) {
    for (; p->kind != PIECE_END; p++)
        if (p->kind == PIECE_CONTROL && tokenizer_control(t, p->text) < 0)
            return file_fail(f, err, KVT_E_CORRUPT,
                             "its chat template needs the control token %s, which the vocabulary lacks", p->text);
    return KVT_OK;
}

static kvt_status read_template(const model_file *f, const tokenizer *t, const chat_template **known, file_text *text,
                                error_text *err) {
    if (!file_has(f, "tokenizer.chat_template"))
        return file_fail(f, err, KVT_E_UNSUPPORTED, "no chat template (key tokenizer.chat_template)");
    TRY(file_string(f, "tokenizer.chat_template", text, err));
    *known = template_of(*text);
    if (!*known)
        return file_fail(f, err, KVT_E_UNSUPPORTED,
                         "no chat template this version knows (its tokenizer.chat_template of %zu bytes is not ChatML)",
                         text->n);
    TRY(check_control(f, t, (*known)->message, err));
    return check_control(f, t, (*known)->answer, err);
}

kvt_status chat_open(chat **out, const model_file *f, const tokenizer *t, error_text *err) {
    *out = NULL;
    file_text text = {0};
    const chat_template *known = NULL;
    TRY(read_template(f, t, &known, &text, err));
    file_text system = default_system_of(text, known);
    chat *c = calloc(1, sizeof *c);
    if (c) c->default_system = strndup(system.at, system.n);
    if (!c || !c->default_system) {
        chat_close(c);
        return file_fail(f, err, KVT_E_MEMORY, "no memory for the chat template");
    }
    c->t = t;
    c->template = known;
    *out = c;
    return KVT_OK;
}

void chat_close(chat *c) {
    if (!c) return;
    free(c->default_system);
    free(c);
}

const char *chat_default_system(const chat *c) { return c->default_system; }

/* ----------------------------------------------------------------------------------------- rendering */

/* Text gathers until the next control token, so that the pre-tokenizer sees it whole, as in the rendered text. */
typedef struct rendering {
    const chat *c;
    byte_list text;
    token_list *out;
} rendering;

static kvt_status end_text(rendering *r) {
    kvt_status st = tokenizer_encode(r->c->t, r->text.at, r->text.n, false, r->out);
    r->text.n = 0;
    return st;
}

static kvt_status render_pieces(rendering *r, const piece *p, const chat_message *m) {
    for (; p->kind != PIECE_END; p++) {
        if (p->kind == PIECE_CONTROL) {
            TRY(end_text(r));
            TRY(token_list_add(r->out, tokenizer_control(r->c->t, p->text)));
        }
        if (p->kind == PIECE_TEXT) TRY(byte_list_add(&r->text, p->text, strlen(p->text)));
        if (p->kind == PIECE_ROLE) TRY(byte_list_add(&r->text, m->role, strlen(m->role)));
        if (p->kind == PIECE_MESSAGE) TRY(byte_list_add(&r->text, m->text, m->n));
    }
    return KVT_OK;
}

static kvt_status render_all(rendering *r, const chat_message *messages, size_t n, bool answer) {
    const chat_template *known = r->c->template;
    chat_message system = {"system", r->c->default_system, strlen(r->c->default_system)};
    if (n && system.n && strcmp(messages[0].role, "system") != 0) TRY(render_pieces(r, known->message, &system));
    for (size_t i = 0; i < n; i++) TRY(render_pieces(r, known->message, &messages[i]));
    if (answer) TRY(render_pieces(r, known->answer, NULL));
    return end_text(r);
}

kvt_status chat_render(const chat *c, const chat_message *messages, size_t n, bool answer, token_list *out) {
    rendering r = {.c = c, .out = out};
    size_t n_before = out->n;
    kvt_status st = render_all(&r, messages, n, answer);
    if (st != KVT_OK) out->n = n_before;
    byte_list_free(&r.text);
    return st;
}
