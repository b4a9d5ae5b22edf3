/* test_chat_templates.c - what the models' own templates render (tests/vectors/chat.py) is what the rows of the table
 * render, byte by byte and token by token; and a conversation that goes on is the conversation told from the start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "handmade.h"
#include "model/chat.h"
#include "spoken.h"

enum { MESSAGES_MAX = 12, N_TEMPLATES = 44, N_UNKNOWN = 7, N_CONVERSATIONS = 19 };

typedef struct conversation {
    const char *name;
    chat_message message[MESSAGES_MAX];
    size_t n;
    bool answer; /* it ends with a question */
} conversation;

static json_t *templates, *all; /* the two files */
static conversation conversations[N_CONVERSATIONS];

/* ------------------------------------------------------------------------------------------------ the files */

static json_t *load(const char *path) {
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (!j) fail_msg("%s: %s, line %d", path, error.text, error.line);
    return j;
}

static const char *string_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static void conversation_read(conversation *c, const json_t *j) {
    const json_t *list = json_object_get(j, "messages");
    *c = (conversation){.name = string_of(j, "name"), .n = json_array_size(list)};
    assert_in_range(c->n, 1, MESSAGES_MAX);
    for (size_t i = 0; i < c->n; i++) {
        const json_t *pair = json_array_get(list, i), *text = json_array_get(pair, 1);
        c->message[i] = (chat_message){json_string_value(json_array_get(pair, 0)), json_string_value(text),
                                       json_string_length(text)};
    }
    c->answer = strcmp(c->message[c->n - 1].role, "assistant") != 0;
}

static int setup(void **state) {
    (void)state;
    templates = load("tests/vectors/chat_templates.json");
    all = load("tests/vectors/chat.json");
    assert_int_equal(json_array_size(templates), N_TEMPLATES);
    const json_t *list = json_object_get(all, "conversations");
    assert_int_equal(json_array_size(list), N_CONVERSATIONS);
    for (size_t i = 0; i < N_CONVERSATIONS; i++) conversation_read(&conversations[i], json_array_get(list, i));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    json_decref(templates);
    json_decref(all);
    return 0;
}

/* ------------------------------------------------------------------------------------------ a file of a template */

typedef struct speaker {
    tokenizer *t;
    chat *c;
    error_text why;
} speaker;

static speaker open_template(const json_t *j) {
    const json_t *control = json_object_get(j, "control");
    spoken file = {.template = string_of(j, "template"), .bos = string_of(j, "bos"), .eos = string_of(j, "eos")};
    assert_true(json_array_size(control) < SPOKEN_CONTROLS_MAX);
    for (size_t i = 0; i < json_array_size(control); i++)
        file.control[i] = json_string_value(json_array_get(control, i));
    gguf_writer w = {0};
    spoken_write(&file, &w);
    model_file *f;
    speaker s;
    if (file_open_memory(&f, "made.gguf", w.at, w.n, &s.why) != KVT_OK) fail_msg("%s", s.why.text);
    if (tokenizer_open(&s.t, f, &s.why) != KVT_OK) fail_msg("%s", s.why.text);
    assert_int_equal(chat_open(&s.c, f, s.t, &s.why), KVT_OK);
    file_close(f);
    free(w.at);
    return s;
}

static void speaker_close(speaker *s) {
    chat_close(s->c);
    tokenizer_close(s->t);
}

static token_list rendered(const speaker *s, const chat_message *messages, size_t n, bool answer) {
    token_list ids = {0};
    assert_int_equal(chat_render(s->c, messages, n, answer, &ids), KVT_OK);
    return ids;
}

static token_list continued(const speaker *s, const conversation *c, size_t n, size_t first, bool ended, bool answer) {
    token_list ids = {0};
    assert_int_equal(chat_continue(s->c, c->message, n, first, ended, answer, &ids), KVT_OK);
    return ids;
}

/* The text of ids with their control tokens, as a string. */
static char *text_of(const speaker *s, const token_list *ids) {
    byte_list text = {0};
    assert_int_equal(tokenizer_decode(s->t, ids->id, ids->n, true, &text), KVT_OK);
    assert_int_equal(byte_list_add(&text, "", 1), KVT_OK);
    return text.at;
}

static void append(token_list *to, token_list from) {
    for (size_t i = 0; i < from.n; i++) assert_int_equal(token_list_add(to, from.id[i]), KVT_OK);
    token_list_free(&from);
}

static size_t controls_in(const speaker *s, const token_list *ids) {
    size_t n = 0;
    for (size_t i = 0; i < ids->n; i++) n += tokenizer_is_control(s->t, ids->id[i]);
    return n;
}

/* --------------------------------------------------------------------------------------------------- the tests */

static void each_template_finds_its_row(void **state) {
    (void)state;
    size_t n_unknown = 0;
    for (size_t i = 0; i < N_TEMPLATES; i++) {
        const json_t *j = json_array_get(templates, i), *system = json_object_get(j, "default_system");
        speaker s = open_template(j);
        if (strcmp(chat_name(s.c), string_of(j, "form")) != 0)
            fail_msg("%s is taken for %s", string_of(j, "name"), chat_name(s.c));
        bool known = strcmp(string_of(j, "form"), "plain text") != 0;
        n_unknown += !known;
        assert_true(chat_known(s.c) == known);
        assert_true((s.why.text[0] == 0) == known);
        assert_true((chat_stop(s.c) == NULL) == known);
        if (json_is_string(system)) assert_string_equal(chat_default_system(s.c), json_string_value(system));
        speaker_close(&s);
    }
    assert_int_equal(n_unknown, N_UNKNOWN);
}

/* What is typed in "marks" is text for us, control tokens for the reference. */
static void compare_ids(const speaker *s, const conversation *c, const token_list *ids, const char *want) {
    token_list reference = {0};
    if (strcmp(c->name, "marks") == 0 || strcmp(c->name, "thought") == 0) return;
    assert_int_equal(tokenizer_encode(s->t, want, strlen(want), true, &reference), KVT_OK);
    if (!ids_same(ids, &reference)) fail_msg("%s: the tokens differ", c->name);
    token_list_free(&reference);
}

static size_t compare(const speaker *s, const json_t *j, size_t i) {
    const conversation *c = &conversations[i];
    const char *name = string_of(j, "name");
    const json_t *want = json_array_get(json_object_get(json_object_get(all, "texts"), name), i);
    bool departs = json_object_get(json_object_get(json_object_get(all, "departs"), name), c->name) != NULL;
    token_list ids = rendered(s, c->message, c->n, c->answer);
    char *got = text_of(s, &ids);
    bool same = json_is_string(want) && strcmp(got, json_string_value(want)) == 0;
    size_t bad = json_is_string(want) && same == departs;
    if (bad) print_message("%s: %s%s\n  rendered: %s\n  template: %s\n", name, c->name,
                           departs ? " is said to depart, and does not" : "", got, json_string_value(want));
    if (departs && !json_is_string(want)) fail_msg("%s: %s is said to depart, and is refused", name, c->name);
    if (same) compare_ids(s, c, &ids, json_string_value(want));
    free(got);
    token_list_free(&ids);
    return bad;
}

static void rows_render_as_the_templates(void **state) {
    (void)state;
    size_t bad = 0;
    for (size_t i = 0; i < N_TEMPLATES; i++) {
        speaker s = open_template(json_array_get(templates, i));
        for (size_t k = 0; k < N_CONVERSATIONS; k++) bad += compare(&s, json_array_get(templates, i), k);
        speaker_close(&s);
    }
    assert_int_equal(bad, 0);
}

static void no_message_makes_a_control_token(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TEMPLATES; i++) {
        speaker s = open_template(json_array_get(templates, i));
        for (size_t k = 0; k < N_CONVERSATIONS; k++) {
            conversation plain = conversations[k];
            for (size_t m = 0; m < plain.n; m++)
                if (plain.message[m].n) plain.message[m].text = "x", plain.message[m].n = 1;
            token_list a = rendered(&s, conversations[k].message, plain.n, plain.answer);
            token_list b = rendered(&s, plain.message, plain.n, plain.answer);
            assert_int_equal(controls_in(&s, &a), controls_in(&s, &b));
            token_list_free(&a);
            token_list_free(&b);
        }
        speaker_close(&s);
    }
}

/* The text of messages[k], an answer, as the template writes it between opening and end. NULL: it opens answers to be
 * written otherwise than those that were, so that no answer fits in. */
static char *answer_text(const speaker *s, const conversation *c, size_t k) {
    token_list before = rendered(s, c->message, k, true), with = rendered(s, c->message, k + 1, false);
    token_list close = continued(s, c, k + 1, k + 1, false, false);
    char *opening = text_of(s, &before), *whole = text_of(s, &with), *end = text_of(s, &close), *text = NULL;
    if (strncmp(whole, opening, strlen(opening)) == 0) {
        size_t from = strlen(opening), to = strlen(whole) - strlen(end);
        assert_string_equal(whole + to, end);
        text = strndup(whole + from, to - from);
    }
    free(opening), free(whole), free(end);
    token_list_free(&before), token_list_free(&with), token_list_free(&close);
    return text;
}

/* Messages up to the answer, the answer's own tokens, and the rest: told from the start it is the same. */
static void goes_on(const speaker *s, const char *name, const conversation *c, size_t k, bool ended) {
    char *answer = answer_text(s, c, k);
    if (!answer) return;
    token_list ids = rendered(s, c->message, k, true), want = rendered(s, c->message, c->n, c->answer);
    assert_int_equal(tokenizer_encode(s->t, answer, strlen(answer), false, &ids), KVT_OK);
    token_list open = continued(s, c, c->n, k + 1, false, c->answer);
    token_list rest = continued(s, c, c->n, k + 1, true, c->answer);
    for (size_t i = 0; ended && i < open.n - rest.n; i++) assert_int_equal(token_list_add(&ids, open.id[i]), KVT_OK);
    if (ended && chat_known(s->c)) assert_true(tokenizer_is_control(s->t, ids.id[ids.n - 1]));
    append(&ids, ended ? rest : open);
    token_list_free(ended ? &open : &rest);
    char *got = text_of(s, &ids), *whole = text_of(s, &want);
    if (strcmp(got, whole) != 0) fail_msg("%s: %s, answer %zu:\n%s\n%s", name, c->name, k, got, whole);
    bool blank = c->message[k].n == 0 || (unsigned char)c->message[k].text[0] <= ' ';
    if (chat_known(s->c) && !blank && !ids_same(&ids, &want))
        fail_msg("%s: %s, answer %zu: the tokens differ", name, c->name, k);
    free(got), free(whole), free(answer);
    token_list_free(&ids), token_list_free(&want);
}

static void a_conversation_goes_on_as_told_from_the_start(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TEMPLATES; i++) {
        speaker s = open_template(json_array_get(templates, i));
        for (size_t k = 0; k < N_CONVERSATIONS; k++)
            for (size_t m = 0; m < conversations[k].n; m++) {
                if (strcmp(conversations[k].message[m].role, "assistant") != 0) continue;
                goes_on(&s, string_of(json_array_get(templates, i), "name"), &conversations[k], m, false);
                goes_on(&s, string_of(json_array_get(templates, i), "name"), &conversations[k], m, true);
            }
        speaker_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_template_finds_its_row),
        cmocka_unit_test(rows_render_as_the_templates),
        cmocka_unit_test(no_message_makes_a_control_token),
        cmocka_unit_test(a_conversation_goes_on_as_told_from_the_start),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
