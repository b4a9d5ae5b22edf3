/* test_generate.c - answers on living sequences, their text as it becomes certain, and the texts that end them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/writer.h"

enum { N_PROMPT = 40, N_ANSWER = 30 };

static kvt_workers *team;
static model *tiny;
static int32_t prompt_ids[N_PROMPT];

static int open_all(void **state) {
    (void)state;
    error_text err;
    assert_int_equal(kvt_workers_open(&team, 2), KVT_OK);
    if (model_open(&tiny, "tests/vectors/tiny-a.gguf", team, &err) != KVT_OK) fail_msg("%s", err.text);
    for (int i = 0; i < N_PROMPT; i++) prompt_ids[i] = (i * 37 + 11) % 290 + 5;
    return 0;
}

static int close_all(void **state) {
    (void)state;
    model_close(tiny);
    kvt_workers_close(team);
    return 0;
}

static engine *open_engine(kvt_cache_kind kind, int context) {
    error_text err;
    engine *e;
    engine_options opt = engine_options_default();
    opt.kind = kind;
    opt.context = context;
    opt.sequences_max = 4;
    if (engine_open(&e, tiny, team, &opt, &err) != KVT_OK) fail_msg("%s", err.text);
    return e;
}

static int add(engine *e, int n_tokens) {
    int seq;
    assert_int_equal(engine_add(e, prompt_ids, n_tokens, &seq), KVT_OK);
    return seq;
}

static generate_options hot(int tokens_max) {
    sample_options sampling = sample_options_default();
    sampling.temp = 1;
    sampling.seed = 3; /* no end token among the first 30 */
    return (generate_options){ .n_samples = 1, .tokens_max = tokens_max, .sampling = sampling };
}

static answer ask(engine *e, const int32_t *ids, int n, generate_options g) {
    error_text err;
    answer a;
    prompt p = { ids, n };
    g.prompts = &p;
    g.n_prompts = 1;
    if (generate(e, &g, &a, &err) != KVT_OK) fail_msg("%s", err.text);
    return a;
}

static answer ask_on(engine *e, int seq, generate_options g) {
    error_text err;
    answer a;
    if (generate_on(e, seq, &g, &a, &err) != KVT_OK) fail_msg("%s", err.text);
    return a;
}

static void assert_same_answer(const answer *a, const answer *b) {
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->n_shown, b->n_shown);
    assert_int_equal(a->finish, b->finish);
    assert_int_equal(a->text.n, b->text.n);
    assert_memory_equal(a->tokens, b->tokens, (size_t)a->n_tokens * sizeof a->tokens[0]);
    if (a->text.n > 0) assert_memory_equal(a->text.at, b->text.at, a->text.n);
}

/* ---------------------------------------------------------------------------------------- living sequences */

static void a_living_sequence_answers_as_a_prompt_does(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        engine *e = open_engine((kvt_cache_kind)kind, 128);
        answer expected = ask(e, prompt_ids, N_PROMPT, hot(N_ANSWER));
        int seq = add(e, N_PROMPT);
        answer a = ask_on(e, seq, hot(N_ANSWER));
        assert_same_answer(&a, &expected);
        assert_int_equal(a.n_tokens, N_ANSWER);

        assert_int_equal(engine_length(e, seq), N_PROMPT + N_ANSWER);
        assert_memory_equal(engine_tokens(e, seq), prompt_ids, sizeof prompt_ids);
        assert_memory_equal(engine_tokens(e, seq) + N_PROMPT, a.tokens, sizeof(int32_t) * N_ANSWER);
        answers_free(&a, 1);
        answers_free(&expected, 1);
        engine_close(e);
    }
}

/* Two turns on one sequence: the answer to all of it, and only what is new is computed. */
static void a_second_turn_computes_what_is_new(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128), *fresh = open_engine(KVT_PAGED, 128);
    int seq = add(e, N_PROMPT);
    answer first = ask_on(e, seq, hot(10));
    assert_int_equal(engine_counted(e).positions_computed, N_PROMPT + 9);
    assert_int_equal(engine_cached(e, seq), N_PROMPT + 9);
    assert_int_equal(engine_extend(e, seq, prompt_ids + 3, 20), KVT_OK);
    answer second = ask_on(e, seq, hot(10));
    assert_int_equal(engine_counted(e).positions_computed, N_PROMPT + 10 + 20 + 9);
    assert_int_equal(engine_counted(e).prefill_positions, N_PROMPT + 1 + 20);

    int32_t all[N_PROMPT + 30];
    memcpy(all, prompt_ids, sizeof prompt_ids);
    memcpy(all + N_PROMPT, first.tokens, 10 * sizeof all[0]);
    memcpy(all + N_PROMPT + 10, prompt_ids + 3, 20 * sizeof all[0]);
    answer expected = ask(fresh, all, N_PROMPT + 30, hot(10));
    assert_same_answer(&second, &expected);
    answers_free(&first, 1);
    answers_free(&second, 1);
    answers_free(&expected, 1);
    engine_close(e);
    engine_close(fresh);
}

/* Logits that are there are used; those that another sequence's step took are computed again. */
static void logits_are_used_or_computed_again(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        engine *e = open_engine((kvt_cache_kind)kind, 128);
        answer expected = ask(e, prompt_ids, N_PROMPT, hot(1));
        int seq = add(e, N_PROMPT);
        assert_int_equal(engine_step(e), KVT_OK);
        uint64_t before = engine_counted(e).positions_computed;
        answer a = ask_on(e, seq, hot(1));
        assert_int_equal(engine_counted(e).positions_computed, before);
        assert_same_answer(&a, &expected);
        answers_free(&a, 1);

        assert_int_equal(engine_truncate(e, seq, N_PROMPT), KVT_OK);
        assert_int_equal(engine_step(e), KVT_OK);
        add(e, 5);
        assert_int_equal(engine_step(e), KVT_OK);
        assert_null(engine_logits(e, seq));
        a = ask_on(e, seq, hot(1));
        assert_same_answer(&a, &expected);
        answers_free(&a, 1);
        answers_free(&expected, 1);
        engine_close(e);
    }
}

static void the_context_ends_extensions_and_answers(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, N_PROMPT + 5);
    int seq = add(e, N_PROMPT);
    assert_int_equal(engine_extend(e, seq, prompt_ids, 6), KVT_E_LIMIT);
    assert_int_equal(engine_extend(e, seq, prompt_ids, -1), KVT_E_ARGUMENT);
    assert_int_equal(engine_extend(e, seq, prompt_ids, 0), KVT_OK);
    assert_int_equal(engine_extend(e, seq + 1, prompt_ids, 1), KVT_E_SEQUENCE);
    assert_int_equal(engine_length(e, seq), N_PROMPT);
    answer a = ask_on(e, seq, hot(100));
    assert_int_equal(a.finish, FINISH_LENGTH);
    assert_int_equal(a.n_tokens, 6); /* the last one has no place */
    assert_int_equal(engine_length(e, seq), N_PROMPT + 5);
    answers_free(&a, 1);
    a = ask_on(e, seq, hot(100)); /* full: still one token */
    assert_int_equal(a.n_tokens, 1);
    answers_free(&a, 1);

    error_text err = { "" };
    generate_options g = hot(1);
    assert_int_equal(generate_on(e, seq + 1, &g, &a, &err), KVT_E_SEQUENCE);
    assert_true(strlen(err.text) > 0);
    engine_close(e);
}

/* --------------------------------------------------------------------------------------------------- text */

/* What the callbacks were told. */
typedef struct heard {
    byte_list text;
    int n_tokens, n_texts;
} heard;

static void hear_token(void *ctx, int index, int32_t token) {
    (void)index, (void)token;
    ((heard *)ctx)->n_tokens++;
}

static void hear_text(void *ctx, int index, const char *bytes, size_t n) {
    heard *h = ctx;
    (void)index;
    assert_true(n > 0);
    assert_int_equal(byte_list_add(&h->text, bytes, n), KVT_OK);
    h->n_texts++;
}

static void assert_bytes(const byte_list *list, const char *bytes, size_t n) {
    assert_int_equal(list->n, n);
    if (n > 0) assert_memory_equal(list->at, bytes, n);
}

static byte_list decoded(const int32_t *ids, int n) {
    byte_list out = { 0 };
    assert_int_equal(tokenizer_decode(model_tokenizer(tiny), ids, (size_t)n, false, &out), KVT_OK);
    return out;
}

static void text_is_what_the_tokens_decode_to(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128);
    heard h = { { 0 } };
    generate_options g = hot(N_ANSWER);
    g.on_token = hear_token;
    g.on_text = hear_text;
    g.ctx = &h;
    answer a = ask(e, prompt_ids, N_PROMPT, g);
    byte_list all = decoded(a.tokens, a.n_tokens);
    assert_bytes(&a.text, all.at, all.n);
    assert_bytes(&h.text, all.at, all.n);
    assert_int_equal(a.n_shown, a.n_tokens);
    assert_int_equal(h.n_tokens, a.n_tokens);
    assert_true(h.n_texts > 10);
    byte_list_free(&all);
    byte_list_free(&h.text);
    answers_free(&a, 1);
    engine_close(e);
}

/* The first place in `text` that is the stop text, SIZE_MAX: none. */
static size_t place_of(const byte_list *text, const char *stop) {
    const char *at = memmem(text->at, text->n, stop, strlen(stop));
    return at ? (size_t)(at - text->at) : SIZE_MAX;
}

/* Each stretch of an answer's text as its stop text. */
static void an_answer_ends_before_its_stop_text(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128);
    answer whole = ask(e, prompt_ids, N_PROMPT, hot(N_ANSWER));
    int n_stopped = 0;
    for (size_t at = 0; at < whole.text.n; at++)
        for (size_t n = 1; n <= 5 && at + n <= whole.text.n; n++) {
            char stop[8] = "";
            memcpy(stop, whole.text.at + at, n);
            if (strlen(stop) < n) continue; /* a byte 0 is in it */
            heard h = { { 0 } };
            generate_options g = hot(N_ANSWER);
            g.on_text = hear_text;
            g.ctx = &h;
            g.stop_texts = (const char *const[]){ "never there", stop };
            g.n_stop_texts = 2;
            answer a = ask(e, prompt_ids, N_PROMPT, g);
            size_t cut = place_of(&whole.text, stop);
            assert_int_equal(a.finish, FINISH_STOP);
            assert_bytes(&a.text, whole.text.at, cut);
            assert_bytes(&h.text, whole.text.at, cut);
            assert_memory_equal(a.tokens, whole.tokens, (size_t)a.n_tokens * sizeof a.tokens[0]);
            byte_list shown = decoded(a.tokens, a.n_shown), more = decoded(a.tokens, a.n_shown + 1);
            assert_true(shown.n <= cut && more.n > cut);
            byte_list_free(&shown);
            byte_list_free(&more);
            byte_list_free(&h.text);
            answers_free(&a, 1);
            n_stopped++;
        }
    assert_true(n_stopped > 50);
    answers_free(&whole, 1);
    engine_close(e);
}

static void a_stop_text_leaves_the_sequence_as_sampled(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128);
    answer whole = ask(e, prompt_ids, N_PROMPT, hot(N_ANSWER));
    char stop[8] = "";
    size_t at = whole.text.n / 2;
    while (memchr(whole.text.at + at, 0, 3)) at++;
    memcpy(stop, whole.text.at + at, 3);
    generate_options g = hot(N_ANSWER);
    g.stop_texts = (const char *const[]){ stop };
    g.n_stop_texts = 1;
    int seq = add(e, N_PROMPT);
    answer a = ask_on(e, seq, g);
    assert_int_equal(a.finish, FINISH_STOP);
    assert_true(a.n_shown < a.n_tokens);
    assert_int_equal(engine_length(e, seq), N_PROMPT + a.n_tokens);
    assert_int_equal(engine_truncate(e, seq, N_PROMPT + a.n_shown), KVT_OK);
    answers_free(&a, 1);
    answers_free(&whole, 1);
    engine_close(e);
}

/* Each row is the model's own distribution, whatever the sampling rules made of it. */
static void check_logprobs(void *ctx, int index, const float *logits) {
    byte_list *rows = ctx;
    token_logprob row[4];
    (void)index;
    logprobs_of(logits, model_config_of(tiny)->n_vocab, 0, 3, row);
    assert_int_equal(byte_list_add(rows, row, sizeof row), KVT_OK);
}

static void log_probabilities_come_with_the_tokens(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128);
    byte_list rows = { 0 };
    generate_options g = hot(N_ANSWER);
    g.logprobs = true;
    g.n_top = 3;
    g.sampling.repeat_penalty = 1.4;
    g.on_logits = check_logprobs;
    g.ctx = &rows;
    answer a = ask(e, prompt_ids, N_PROMPT, g);
    assert_int_equal(a.n_top, 3);
    assert_int_equal(rows.n, (size_t)a.n_tokens * 4 * sizeof(token_logprob));
    for (int i = 0; i < a.n_tokens; i++) {
        const token_logprob *row = a.logprobs + 4 * i, *own = (const token_logprob *)(void *)rows.at + 4 * i;
        assert_int_equal(row[0].id, a.tokens[i]);
        assert_true(row[0].logprob <= row[1].logprob);
        for (int j = 1; j < 4; j++) {
            assert_int_equal(row[j].id, own[j].id);
            assert_true(row[j].logprob == own[j].logprob);
            if (row[j].id == a.tokens[i]) assert_true(row[j].logprob == row[0].logprob);
        }
    }
    byte_list_free(&rows);
    answers_free(&a, 1);
    answer plain = ask(e, prompt_ids, N_PROMPT, hot(3));
    assert_null(plain.logprobs);
    answers_free(&plain, 1);
    engine_close(e);
}

static void bad_options_are_refused(void **state) {
    (void)state;
    engine *e = open_engine(KVT_PAGED, 128);
    error_text err = { "" };
    answer a;
    prompt p = { prompt_ids, 3 };
    generate_options g = hot(3);
    g.prompts = &p;
    g.n_prompts = 1;
    g.stop_texts = (const char *const[]){ "" };
    g.n_stop_texts = 1;
    assert_int_equal(generate(e, &g, &a, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, "stop text"));
    g.n_stop_texts = 0;
    g.n_top = LOGPROBS_TOP_MAX + 1;
    assert_int_equal(generate(e, &g, &a, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, "21"));
    g.n_top = 0;
    g.sampling.typical = 1.5;
    assert_int_equal(generate(e, &g, &a, &err), KVT_E_ARGUMENT);
    assert_non_null(strstr(err.text, "typical"));
    answers_free(&a, 1);
    engine_close(e);
}

/* ------------------------------------------------------------------------------------------------ the writer */

/* An answer of these texts' tokens, each text encoded by itself. */
typedef struct dictation {
    writer w;
    answer a;
    heard h;
    generate_options opt;
    stop_list *stops;
} dictation;

static void dictation_open(dictation *d, const char *stop) {
    *d = (dictation){ .opt = { .on_text = hear_text, .ctx = &d->h } };
    assert_int_equal(stop_list_new(&d->stops, &stop, 1), KVT_OK);
    assert_int_equal(writer_open(&d->w, &d->a, 100, tiny, d->stops, &d->opt), KVT_OK);
}

static void dictate(dictation *d, const char *text) {
    token_list ids = { 0 };
    assert_int_equal(tokenizer_encode(model_tokenizer(tiny), text, strlen(text), true, &ids), KVT_OK);
    for (size_t i = 0; i < ids.n && d->a.finish == FINISH_NONE; i++)
        assert_int_equal(writer_add(&d->w, ids.id[i], NULL), KVT_OK);
    token_list_free(&ids);
}

static void dictation_close(dictation *d) {
    writer_close(&d->w);
    answers_free(&d->a, 1);
    byte_list_free(&d->h.text);
    stop_list_free(d->stops);
}

static void text_waits_while_it_may_be_a_stop_text(void **state) {
    (void)state;
    dictation d;
    dictation_open(&d, "aab");
    dictate(&d, "aa");
    assert_bytes(&d.h.text, "", 0);
    dictate(&d, "a");
    assert_bytes(&d.h.text, "a", 1);
    dictate(&d, "b");
    assert_int_equal(d.a.finish, FINISH_STOP);
    assert_int_equal(writer_end(&d.w, FINISH_LENGTH), KVT_OK);
    assert_int_equal(d.a.finish, FINISH_STOP);
    assert_bytes(&d.a.text, "a", 1);
    assert_bytes(&d.h.text, "a", 1);
    dictation_close(&d);

    dictation_open(&d, "aab"); /* and comes out where none came of it */
    dictate(&d, "xaa");
    assert_bytes(&d.h.text, "x", 1);
    assert_int_equal(writer_end(&d.w, FINISH_LENGTH), KVT_OK);
    assert_bytes(&d.h.text, "xaa", 3);
    assert_bytes(&d.a.text, "xaa", 3);
    assert_int_equal(d.a.finish, FINISH_LENGTH);
    dictation_close(&d);
}

static void characters_come_whole(void **state) {
    (void)state;
    dictation d;
    dictation_open(&d, "本x");
    token_list ids = { 0 };
    assert_int_equal(tokenizer_encode(model_tokenizer(tiny), "日本x", 7, false, &ids), KVT_OK);
    assert_true(ids.n > 3); /* tokens that are parts of characters */
    for (size_t i = 0; i < ids.n; i++) {
        assert_int_equal(writer_add(&d.w, ids.id[i], NULL), KVT_OK);
        assert_true(d.h.text.n == 0 || d.h.text.n == 3);
    }
    assert_int_equal(d.a.finish, FINISH_STOP);
    assert_bytes(&d.a.text, "日", 3);
    token_list_free(&ids);
    dictation_close(&d);

    dictation_open(&d, "zz"); /* half a character at the end comes out as it is */
    assert_int_equal(tokenizer_encode(model_tokenizer(tiny), "é", 2, false, &ids), KVT_OK);
    assert_true(ids.n == 2);
    assert_int_equal(writer_add(&d.w, ids.id[0], NULL), KVT_OK);
    assert_bytes(&d.h.text, "", 0);
    assert_int_equal(writer_end(&d.w, FINISH_LENGTH), KVT_OK);
    assert_bytes(&d.h.text, "\xC3", 1);
    token_list_free(&ids);
    dictation_close(&d);
}

static void a_token_may_go_beyond_the_stop_text(void **state) {
    (void)state;
    dictation d;
    dictation_open(&d, "h");
    dictate(&d, "xx the");
    assert_int_equal(d.a.finish, FINISH_STOP);
    assert_bytes(&d.a.text, "xx t", 4);
    assert_bytes(&d.h.text, "xx t", 4);
    assert_int_equal(d.a.n_shown, 2); /* " t" is part of the third token */
    dictation_close(&d);

    dictation_open(&d, "x"); /* the first byte of all */
    dictate(&d, "x");
    assert_int_equal(d.a.finish, FINISH_STOP);
    assert_int_equal(d.a.n_shown, 0);
    assert_int_equal(d.a.n_tokens, 1);
    assert_int_equal(d.h.n_texts, 0);
    dictation_close(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_living_sequence_answers_as_a_prompt_does),
        cmocka_unit_test(a_second_turn_computes_what_is_new),
        cmocka_unit_test(logits_are_used_or_computed_again),
        cmocka_unit_test(the_context_ends_extensions_and_answers),
        cmocka_unit_test(text_is_what_the_tokens_decode_to),
        cmocka_unit_test(an_answer_ends_before_its_stop_text),
        cmocka_unit_test(a_stop_text_leaves_the_sequence_as_sampled),
        cmocka_unit_test(log_probabilities_come_with_the_tokens),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(text_waits_while_it_may_be_a_stop_text),
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(a_token_may_go_beyond_the_stop_text),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
