/* test_answer_paths.c - every sampling rule at once gives the same tokens, text and log-probabilities on every CPU path
 * and with any number of threads, from a model of each architecture and type of weights, in each arithmetic. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fixture.h"

/* A prompt and its answer are as long as the shortest context. */
enum { N_PROMPT = 12, N_SAMPLES = 3, N_ANSWER = 28, N_TOP = 5, N_MATHS = 3 };

static sample_options everything(void) {
    /* Tokens 1 and 2 end answers, in all models but one. */
    static const sample_bias bias[] = { { 1, -100 }, { 2, -100 }, { 3, 2.5 }, { 200, -4 } };
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
        .n_bias = sizeof bias / sizeof bias[0],
        .seed = 9,
    };
}

/* What was said, to a file. */
static bool write_answers(engine *e, FILE *to) {
    int32_t ids[N_PROMPT];
    answer a[N_SAMPLES];
    for (int i = 0; i < N_PROMPT; i++) ids[i] = (i * 37 + 11) % 250 + 5;
    prompt p = { ids, N_PROMPT };
    generate_options g = { .prompts = &p, .n_prompts = 1, .n_samples = N_SAMPLES, .tokens_max = N_ANSWER };
    g.sampling = everything();
    g.logprobs = true;
    g.n_top = N_TOP;
    if (generate(e, &g, a, NULL) != KVT_OK) return false;
    for (int i = 0; i < N_SAMPLES; i++) {
        fwrite(a[i].tokens, sizeof a[i].tokens[0], (size_t)a[i].n_tokens, to);
        fwrite(a[i].text.at, 1, a[i].text.n, to);
        for (int j = 0; j < a[i].n_tokens * (1 + N_TOP); j++) {
            fwrite(&a[i].logprobs[j].id, sizeof(int32_t), 1, to);
            fwrite(&a[i].logprobs[j].logprob, sizeof(double), 1, to);
        }
    }
    answers_free(a, N_SAMPLES);
    return true;
}

static bool answer_with(model *m, kvt_workers *team, kvt_math math, FILE *to) {
    engine *e;
    engine_options opt = engine_options_default();
    opt.sequences_max = N_SAMPLES;
    opt.math = math;
    bool good = engine_open(&e, m, team, &opt, NULL) == KVT_OK && write_answers(e, to);
    engine_close(e);
    return good;
}

/* All models, or every third. */
static int files_step(void) {
    return fixture_quick() ? 3 : 1;
}

/* In a child: the path is chosen once in a process. */
static int child(const glob_t *files, const char *cpu, int n_threads, FILE *to) {
    kvt_workers *team;
    bool good = true;
    setenv("KVTILE_CPU", cpu, 1);
    if (strcmp(kvt_cpu(), cpu) != 0) return 0; /* this machine cannot */
    if (kvt_workers_open(&team, n_threads) != KVT_OK) return 1;
    for (size_t i = 0; i < files->gl_pathc && good; i += (size_t)files_step()) {
        model *m;
        good = model_open(&m, files->gl_pathv[i], team, NULL) == KVT_OK;
        for (int math = 0; math < N_MATHS && good; math++) good = answer_with(m, team, (kvt_math)math, to);
        model_close(m);
        if (!good) fprintf(stderr, "%s: no answers\n", files->gl_pathv[i]);
    }
    kvt_workers_close(team);
    return !good || fflush(to);
}

/* The bytes that the child wrote; *n is 0 where the machine cannot. */
static char *answers_on(const glob_t *files, const char *cpu, int n_threads, size_t *n) {
    FILE *file = tmpfile();
    int status = 1;
    assert_non_null(file);
    pid_t pid = fork();
    if (pid == 0) _exit(child(files, cpu, n_threads, file));
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
    glob_t files;
    (void)state;
    assert_int_equal(glob("tests/vectors/tiny-*.gguf", 0, NULL, &files), 0);
    assert_int_equal(glob("tests/vectors/family-*.gguf", GLOB_APPEND, NULL, &files), 0);
    assert_true(files.gl_pathc >= 20);
    char *first = answers_on(&files, cpus[0], 1, &n_first);
    size_t n_files = files.gl_pathc / (size_t)files_step();
    assert_true(n_first > n_files * N_MATHS * N_SAMPLES * N_ANSWER * 60); /* next to none ends early */
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++)
        for (int n_threads = i ? 1 : 3; n_threads <= 3; n_threads += 2) {
            char *again = answers_on(&files, cpus[i], n_threads, &n);
            if (n > 0 && (n != n_first || memcmp(first, again, n) != 0))
                fail_msg("%s with %d threads says something else", cpus[i], n_threads);
            free(again);
        }
    free(first);
    globfree(&files);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers_are_the_same_on_every_path) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
