/* scene.c - see scene.h. */
#include "scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

kvt_workers *team;
model *tiny;

int scene_setup(void **state) {
    (void)state;
    error_text err;
    assert_int_equal(kvt_workers_open(&team, 2), KVT_OK);
    if (model_open(&tiny, "tests/vectors/tiny-a.gguf", team, &err) != KVT_OK) fail_msg("%s", err.text);
    return 0;
}

int scene_teardown(void **state) {
    (void)state;
    model_close(tiny);
    kvt_workers_close(team);
    return 0;
}

engine_options options_of(int context) {
    engine_options opt = engine_options_default();
    opt.context = context;
    opt.block_tokens = 16;
    return opt;
}

talk_options saying(int tokens_max) {
    return (talk_options){ .system = "Be brief.", .tokens_max = tokens_max, .sampling = sample_options_default() };
}

scene scene_open(engine_options e, talk_options o) {
    scene s = { 0 };
    error_text err;
    if (engine_open(&s.e, tiny, team, &e, &err) != KVT_OK) fail_msg("%s", err.text);
    if (talk_open(&s.t, s.e, &o, &err) != KVT_OK) fail_msg("%s", err.text);
    return s;
}

void scene_close(scene *s) {
    talk_close(s->t);
    engine_close(s->e);
    byte_list_free(&s->heard);
}

static void on_text(void *ctx, const char *bytes, size_t n) {
    scene *s = ctx;
    byte_list_add(&s->heard, bytes, n);
    if (s->stop_after && --s->stop_after == 0) s->stop = 1;
}

kvt_status answer_it(scene *s) {
    error_text err;
    talk_listener l = { .on_text = on_text, .ctx = s, .stop = &s->stop };
    s->heard.n = 0;
    return talk_answer(s->t, &l, &s->cost, &err);
}

void say_only(scene *s, const char *text) {
    error_text err;
    if (talk_say(s->t, text, strlen(text), &s->change, &err) != KVT_OK) fail_msg("%s", err.text);
}

void say(scene *s, const char *text) {
    say_only(s, text);
    assert_int_equal(answer_it(s), KVT_OK);
}

uint64_t positions(const scene *s) {
    return engine_counted(s->e).positions_computed;
}

ids ids_of(const scene *s) {
    ids out = { .n = talk_length(s->t) };
    out.id = calloc((size_t)out.n + 1, sizeof *out.id);
    if (out.n) memcpy(out.id, engine_tokens(s->e, talk_sequence(s->t)), (size_t)out.n * sizeof *out.id);
    return out;
}

void check_places(const scene *s) {
    int at = 0, n = talk_n_messages(s->t);
    if (talk_n_turns(s->t) == 0) return;
    for (int i = 0; i < n; i++) {
        talk_message m = talk_at(s->t, i);
        assert_int_equal(m.first, at);
        at += m.n_tokens;
        byte_list text = { 0 };
        const int32_t *id = engine_tokens(s->e, talk_sequence(s->t)) + m.first;
        int held = at <= talk_length(s->t) ? m.n_tokens : talk_length(s->t) - m.first;
        assert_int_equal(tokenizer_decode(model_tokenizer(tiny), id, (size_t)held, false, &text), KVT_OK);
        if (m.turn == 0 && m.role == TALK_USER)
            assert_int_equal(id[0], tokenizer_control(model_tokenizer(tiny), "<|im_start|>"));
        bool there = m.role == TALK_ANSWER || memmem(text.at, text.n, m.text, m.n);
        if (!there) fail_msg("message %d is not in its place", i);
        byte_list_free(&text);
    }
    assert_in_range(at, talk_length(s->t), talk_length(s->t) + 1);
}

void check_bits(scene *s) {
    const engine_options *opt = engine_options_of(s->e);
    size_t bytes = (size_t)model_config_of(tiny)->n_vocab * sizeof(float);
    engine *fresh;
    int seq;
    error_text err;
    ids all = ids_of(s);
    while (engine_waiting(s->e)) assert_int_equal(engine_step(s->e), KVT_OK);
    assert_int_equal(engine_open(&fresh, tiny, team, opt, &err), KVT_OK);
    assert_int_equal(engine_add(fresh, all.id, all.n, &seq), KVT_OK);
    while (engine_waiting(fresh)) assert_int_equal(engine_step(fresh), KVT_OK);
    const float *a = engine_logits(s->e, talk_sequence(s->t)), *b = engine_logits(fresh, seq);
    assert_non_null(a);
    assert_non_null(b);
    assert_memory_equal(a, b, bytes);
    engine_close(fresh);
    free(all.id);
}

void assert_same_ids(ids a, ids b) {
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
}

char *long_text(void) {
    char *text = calloc(1, 1501);
    for (int i = 0; i < 300; i++) memcpy(text + 5 * i, "word ", 5);
    return text;
}
