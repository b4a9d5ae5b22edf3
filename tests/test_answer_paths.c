/* test_answer_paths.c - every sampling rule at once gives the same tokens, text and log-probabilities on every CPU path
 * and with any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"

enum { N_PROMPT = 50, N_SAMPLES = 3, N_ANSWER = 40, N_TOP = 5 };

static sample_options everything(void) {
    static const sample_bias bias[] = { { 3, 2.5 }, { 200, -4 } };
    return (sample_options){
        .temp = 1.3,
        .top_k = 100,
        .top_p = 0.98,
        .min_p = 0.001,
        .typical = 0.97,
        .repeat_penalty = 1.15,
        .repeat_last = 20,
        .frequency_penalty = 0.2,
        .presence_penalty = 0.1,
        .bias = bias,
        .n_bias = 2,
        .seed = 9,
    };
}

static bool open_engine(engine **e, model **m, kvt_workers **team, int n_threads) {
    engine_options opt = engine_options_default();
    opt.sequences_max = N_SAMPLES;
    return kvt_workers_open(team, n_threads) == KVT_OK &&
           model_open(m, "tests/vectors/tiny-c.gguf", *team, NULL) == KVT_OK &&
           engine_open(e, *m, *team, &opt, NULL) == KVT_OK;
}

/* What was said, to a file. */
static void write_answers(engine *e, FILE *to) {
    int32_t ids[N_PROMPT];
    answer a[N_SAMPLES];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (i * 37 + 11) % 300 + 5;
    prompt p = { ids, N_PROMPT };
    generate_options g = { .prompts = &p, .n_prompts = 1, .n_samples = N_SAMPLES, .tokens_max = N_ANSWER };
    g.sampling = everything();
    g.logprobs = true;
    g.n_top = N_TOP;
    if (generate(e, &g, a, NULL) != KVT_OK) return;
    for (int i = 0; i < N_SAMPLES; i++) {
        fwrite(a[i].tokens, sizeof a[i].tokens[0], (size_t)a[i].n_tokens, to);
        fwrite(a[i].text.at, 1, a[i].text.n, to);
        for (int j = 0; j < a[i].n_tokens * (1 + N_TOP); j++) {
            fwrite(&a[i].logprobs[j].id, sizeof(int32_t), 1, to);
            fwrite(&a[i].logprobs[j].logprob, sizeof(double), 1, to);
        }
    }
    answers_free(a, N_SAMPLES);
}

/* In a child: the path is chosen once in a process. */
static int child(const char *cpu, int n_threads, FILE *to) {
    kvt_workers *team;
    model *m;
    engine *e;
    setenv("KVTILE_CPU", cpu, 1);
    if (strcmp(kvt_cpu(), cpu) != 0) return 0; /* this machine cannot */
    if (!open_engine(&e, &m, &team, n_threads)) return 1;
    write_answers(e, to);
    engine_close(e);
    model_close(m);
    kvt_workers_close(team);
    return fflush(to);
}

/* The bytes that the child wrote; *n is 0 where the machine cannot. */
static char *answers_on(const char *cpu, int n_threads, size_t *n) {
    FILE *file = tmpfile();
    int status = 1;
    assert_non_null(file);
    pid_t pid = fork();
    if (pid == 0) _exit(child(cpu, n_threads, file));
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(*n + 1);
    assert_int_equal(fread(bytes, 1, *n, file), *n);
    fclose(file);
    return bytes;
}

static void answers_are_the_same_on_every_path(void **state) {
    static const char *const cpus[] = { "scalar", "avx2", "avx512", "avx512bf16" };
    size_t n_first, n;
    (void)state;
    char *first = answers_on("scalar", 1, &n_first);
    assert_true(n_first > (size_t)N_SAMPLES * N_ANSWER * 60); /* no answer ends early */
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++)
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            char *again = answers_on(cpus[i], n_threads, &n);
            if (n > 0 && (n != n_first || memcmp(first, again, n) != 0))
                fail_msg("%s with %d threads says something else", cpus[i], n_threads);
            free(again);
        }
    free(first);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers_are_the_same_on_every_path) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
