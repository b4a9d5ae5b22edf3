/* chat_render.c - messages written in the form of a template, as token ids. */
#include "chat.h"

#include <string.h>

#include "base/log.h"
#include "chat_form.h"
#include "utf8.h"

/* Text gathers until the next control token, so that the pre-tokenizer sees it whole, as in the rendered text. */
typedef struct rendering {
    const chat *c;
    byte_list text;
    token_list *out;
    size_t n_before;   /* tokens that stood in out */
    bool began;        /* only the start token was written so far */
    bool takes_blanks; /* the token before has the white space behind it for its own */
    file_text fold;    /* a system message that waits for the next user message */
    bool folds;
} rendering;

/* ---------------------------------------------------------------------------------------------------- blanks */

/* Bytes of blanks that the text begins with. Python's str.isspace knows four separators that White_Space does not. */
static size_t blanks_at(const char *at, size_t n) {
    return n && at[0] >= 0x1c && at[0] <= 0x1f ? 1 : utf8_blanks(at, n);
}

/* Bytes of the blank character that n bytes end with; 0: none. */
static size_t blank_before(const char *at, size_t n) {
    for (size_t length = 1; length <= 3 && length <= n; length++)
        if (blanks_at(at + n - length, length) == length) return length;
    return 0;
}

static file_text trimmed(file_text text) {
    for (size_t n; (n = blanks_at(text.at, text.n)) > 0;) text = (file_text){text.at + n, text.n - n};
    for (size_t n; (n = blank_before(text.at, text.n)) > 0;) text.n -= n;
    return text;
}

/* ----------------------------------------------------------------------------------------------------- forms */

/* Where the token before has white space behind it for its own, that is no text. */
static kvt_status end_text(rendering *r) {
    size_t taken = r->takes_blanks && r->text.n ? utf8_blanks(r->text.at, r->text.n) : 0;
    kvt_status st = KVT_OK;
    if (r->text.n > taken) st = tokenizer_encode(r->c->t, r->text.at + taken, r->text.n - taken, false, r->out);
    r->text.n = 0;
    return st;
}

static bool takes_blanks(const chat *c, int32_t id) {
    for (int i = 0; i < CHAT_CONTROLS; i++)
        if (c->control[i] == id && id >= 0) return c->takes_blanks[i];
    return false;
}

/* -1: the file names no such token. A start token behind the one in front is the same one: a template may write it with
 * each question, or use it to open a turn. */
static kvt_status add_token(rendering *r, int32_t id) {
    bool there = r->began && r->text.n == 0 && id == tokenizer_about(r->c->t)->bos;
    if (id < 0 || there) return KVT_OK;
    r->began = false;
    TRY(end_text(r));
    r->takes_blanks = takes_blanks(r->c, id);
    return token_list_add(r->out, id);
}

static kvt_status add_start(rendering *r) {
    TRY(add_token(r, tokenizer_about(r->c->t)->bos));
    r->began = true;
    return KVT_OK;
}

static const char *skip(const char *form, const char *what) {
    size_t n = strlen(what);
    return strncmp(form, what, n) == 0 ? form + n : NULL;
}

/* The control token that the form goes on with, and where behind it; NULL: it goes on with text. */
static const char *control_at(const chat *c, const char *form, int32_t *id) {
    for (int i = 0; i < CHAT_CONTROLS && c->form->control[i]; i++) {
        const char *behind = c->control[i] < 0 ? NULL : skip(form, c->form->control[i]);
        if (!behind) continue;
        *id = c->control[i];
        return behind;
    }
    return NULL;
}

static kvt_status add_form(rendering *r, const char *form, file_text message) {
    kvt_status st = KVT_OK;
    while (*form && st == KVT_OK) {
        int32_t id;
        const char *behind;
        if ((behind = skip(form, "{}"))) st = byte_list_add(&r->text, message.at, message.n);
        else if ((behind = skip(form, "{bos}"))) st = add_token(r, tokenizer_about(r->c->t)->bos);
        else if ((behind = skip(form, "{eos}"))) st = add_token(r, tokenizer_about(r->c->t)->eos);
        else if ((behind = control_at(r->c, form, &id))) st = add_token(r, id);
        else st = byte_list_add(&r->text, form, 1);
        form = behind ? behind : form + 1;
    }
    return st;
}

static kvt_status add_fixed(rendering *r, const char *form) { return add_form(r, form, (file_text){"", 0}); }

/* -------------------------------------------------------------------------------------------------- messages */

static bool is(const chat_message *m, const char *role) { return strcmp(m->role, role) == 0; }

static file_text text_of(const rendering *r, const chat_message *m) {
    file_text text = {m->n ? m->text : "", m->n};
    unsigned trim = is(m, "system") ? TRIM_SYSTEM : is(m, "user") ? TRIM_USER : TRIM_ASSISTANT;
    return r->c->form->trim & trim ? trimmed(text) : text;
}

/* An answer's thoughts are for the moment: a template that says so keeps only what came behind them. */
static file_text without_thought(file_text text, const char *thought) {
    size_t n = strcspn(thought, "\n");
    file_text rest = text;
    for (const char *at; (at = memmem(rest.at, rest.n, thought, n));)
        rest = (file_text){at + n, rest.n - (size_t)(at - rest.at) - n};
    bool breaks = thought[n] && rest.n < text.n;
    while (breaks && rest.n && rest.at[0] == '\n') rest = (file_text){rest.at + 1, rest.n - 1};
    return rest;
}

/* The user's text behind the system message that waits for it. */
static kvt_status folded(rendering *r, file_text message, byte_list *out) {
    const char *fold = r->c->form->fold, *hole = strstr(fold, "{}");
    TRY(byte_list_add(out, fold, (size_t)(hole - fold)));
    TRY(byte_list_add(out, r->fold.at, r->fold.n));
    TRY(byte_list_add(out, hole + 2, strlen(hole + 2)));
    return byte_list_add(out, message.at, message.n);
}

static kvt_status add_user(rendering *r, const chat_message *m) {
    const chat_form *form = r->c->form;
    if (!r->folds) return add_form(r, form->user, text_of(r, m));
    byte_list both = {0};
    bool whole = form->trim & TRIM_FOLD;
    kvt_status st = folded(r, whole ? (file_text){m->text, m->n} : text_of(r, m), &both);
    file_text text = {both.at, both.n};
    if (st == KVT_OK) st = add_form(r, form->user, whole ? trimmed(text) : text);
    r->folds = false;
    byte_list_free(&both);
    return st;
}

/* A system message that no user message follows is a user's turn by itself: it is never lost. */
static kvt_status end_fold(rendering *r) {
    const chat_message nothing = {"user", "", 0};
    return r->folds ? add_user(r, &nothing) : KVT_OK;
}

static kvt_status add_assistant(rendering *r, const chat_message *m) {
    const chat_form *form = r->c->form;
    file_text text = text_of(r, m);
    if (form->thought) text = without_thought(text, form->thought);
    TRY(add_fixed(r, form->open));
    TRY(add_form(r, form->assistant, text));
    TRY(add_fixed(r, form->end));
    return add_fixed(r, form->after);
}

static kvt_status add_message(rendering *r, const chat_message *m) {
    const chat_form *form = r->c->form;
    if (is(m, "user")) return add_user(r, m);
    TRY(end_fold(r));
    if (is(m, "assistant")) return add_assistant(r, m);
    if (form->system) return add_form(r, form->system, text_of(r, m));
    r->fold = (file_text){m->text, m->n};
    r->folds = true;
    return KVT_OK;
}

/* ---------------------------------------------------------------------------------------------- conversations */

/* The turn in front of all others: the first message's, the template's default, or one that is always there.
 * `taken`: it was messages[0]. */
static kvt_status add_front(rendering *r, const chat_message *messages, size_t n, bool *taken) {
    const chat *c = r->c;
    chat_message standard = {"system", c->default_system, strlen(c->default_system)};
    bool given = n && is(&messages[0], "system");
    if (c->begins) TRY(add_start(r));
    *taken = given && c->form->system_first;
    if (n && c->form->system_first) return add_form(r, c->form->system_first, text_of(r, given ? messages : &standard));
    return n && !given && standard.n ? add_message(r, &standard) : KVT_OK;
}

static kvt_status add_all(rendering *r, const chat_message *messages, size_t n, bool answer) {
    const chat_form *form = r->c->form;
    for (size_t i = 0; i < n; i++) TRY(add_message(r, &messages[i]));
    TRY(end_fold(r));
    if (answer) TRY(add_fixed(r, form->answer ? form->answer : form->open));
    return end_text(r);
}

static kvt_status check_roles(const chat_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!is(&messages[i], "system") && !is(&messages[i], "user") && !is(&messages[i], "assistant"))
            return KVT_E_ARGUMENT;
    return KVT_OK;
}

static kvt_status finish(rendering *r, kvt_status st) {
    if (st != KVT_OK) r->out->n = r->n_before;
    byte_list_free(&r->text);
    return st;
}

kvt_status chat_render(const chat *c, const chat_message *messages, size_t n, bool answer, token_list *out) {
    rendering r = {.c = c, .out = out, .n_before = out->n};
    bool taken;
    TRY(check_roles(messages, n));
    kvt_status st = add_front(&r, messages, n, &taken);
    if (st == KVT_OK) st = add_all(&r, messages + taken, n - taken, answer);
    return finish(&r, st);
}

kvt_status chat_continue(const chat *c, const chat_message *messages, size_t n, size_t first, bool ended, bool answer,
                         token_list *out) {
    rendering r = {.c = c, .out = out, .n_before = out->n};
    if (first == 0 || first > n || !is(&messages[first - 1], "assistant")) return KVT_E_ARGUMENT;
    TRY(check_roles(messages + first, n - first));
    if (ended) r.takes_blanks = takes_blanks(c, tokenizer_control(c->t, c->form->end));
    kvt_status st = ended ? KVT_OK : add_fixed(&r, c->form->end);
    if (st == KVT_OK) st = add_fixed(&r, c->form->after);
    if (st == KVT_OK) st = add_all(&r, messages + first, n - first, answer);
    return finish(&r, st);
}
