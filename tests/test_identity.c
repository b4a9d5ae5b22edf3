/* test_identity.c - which model it is: the same for the same file, another for other weights, frequencies, arithmetic;
 * and when the hash of a file that is kept may be used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"
#include "model/model.h"

static char folder[] = "/tmp/kvtile-identity-XXXXXX";
static kvt_workers *team;

typedef struct identity {
    uint8_t at[MODEL_IDENTITY_BYTES];
} identity;

static const char *in_folder(const char *name) {
    static char path[4][256];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_file(const char *path, const char *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *to) {
    size_t n;
    char *bytes = fixture_read(from, &n);
    write_file(to, bytes, n);
    free(bytes);
}

static model *open_model(const char *path) {
    error_text err;
    model *m;
    if (model_open(&m, path, team, &err) != KVT_OK) fail_msg("%s", err.text);
    return m;
}

static identity identity_in(const model *m, int context, kvt_math math) {
    error_text err;
    identity id;
    if (model_identity(m, context, math, id.at, &err) != KVT_OK) fail_msg("%s", err.text);
    return id;
}

static identity identity_of(const char *path) {
    model *m = open_model(path);
    identity id = identity_in(m, 64, KVT_MATH_FAST);
    model_close(m);
    return id;
}

static void assert_same(identity a, identity b) {
    assert_memory_equal(a.at, b.at, sizeof a.at);
}

static void assert_other(identity a, identity b) {
    assert_memory_not_equal(a.at, b.at, sizeof a.at);
}

/* Old enough for its hash to be kept. */
static void wait_until_settled(void) {
    usleep(2100000);
}

/* How many hashes are kept; path: of the last one. */
static int kept_files(char path[512]) {
    const char *kept = in_folder("kvtile/weights");
    DIR *d = opendir(kept);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && ++n) snprintf(path, 512, "%s/%s", kept, e->d_name);
    if (d) closedir(d);
    return n;
}

static int clear(void **state) {
    char path[512];
    (void)state;
    while (kept_files(path) > 0) assert_int_equal(unlink(path), 0);
    unlink(in_folder("model.gguf"));
    return 0;
}

/* ------------------------------------------------------------------------------------------------- what it is of */

static void test_a_model_is_itself_wherever_it_lies(void **state) {
    (void)state;
    copy_file("tests/vectors/tiny-c.gguf", in_folder("model.gguf"));
    identity here = identity_of("tests/vectors/tiny-c.gguf"), there = identity_of(in_folder("model.gguf"));
    assert_same(here, there);
    assert_other(here, identity_of("tests/vectors/tiny-a.gguf"));
    assert_other(here, identity_of("tests/vectors/tiny-b.gguf"));
}

static void test_arithmetic_is_part_of_it(void **state) {
    (void)state;
    model *m = open_model("tests/vectors/tiny-c.gguf");
    identity of[3];
    for (int math = 0; math < 3; math++) of[math] = identity_in(m, 64, (kvt_math)math);
    for (int math = 0; math < 3; math++) assert_other(of[math], of[(math + 1) % 3]);
    /* One list of frequencies serves every context. */
    assert_same(of[0], identity_in(m, 100000, KVT_MATH_FAST));
    model_close(m);
}

static void test_the_frequencies_that_a_context_chooses_are_part_of_it(void **state) {
    (void)state;
    model *m = open_model("tests/vectors/family-phi3-long.gguf");
    int original = model_config_of(m)->rope.original;
    assert_int_equal(model_config_of(m)->rope.factors, ROPE_FACTORS_TWO);
    identity within = identity_in(m, original, KVT_MATH_FAST);
    assert_same(within, identity_in(m, 1, KVT_MATH_FAST));
    assert_other(within, identity_in(m, original + 1, KVT_MATH_FAST));
    model_close(m);
}

/* The same bytes of tensors behind another key: a file's keys change what is computed. */
static void test_what_keys_say_is_part_of_it(void **state) {
    (void)state;
    static const char key[] = "llama.attention.layer_norm_rms_epsilon";
    size_t n;
    char *bytes = fixture_read("tests/vectors/tiny-c.gguf", &n);
    char *at = memmem(bytes, n, key, sizeof key - 1);
    assert_non_null(at);
    const float epsilon = 3e-3f;
    memcpy(at + sizeof key - 1 + 4, &epsilon, sizeof epsilon); /* behind the name and the type */
    write_file(in_folder("model.gguf"), bytes, n);
    free(bytes);
    model *m = open_model(in_folder("model.gguf"));
    assert_true(model_config_of(m)->norm_eps == epsilon);
    assert_other(identity_in(m, 64, KVT_MATH_FAST), identity_of("tests/vectors/tiny-c.gguf"));
    model_close(m);
}

/* ---------------------------------------------------------------------------------------------- the kept hash */

/* One bit of the last tensor, the file's times as they were. */
static void change_a_weight(const char *path) {
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -8, SEEK_END), 0);
    int byte = fgetc(f);
    assert_int_equal(fseek(f, -8, SEEK_END), 0);
    fputc(byte ^ 1, f);
    fclose(f);
    const struct timespec times[] = { before.st_atim, before.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    struct stat after;
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void test_other_weights_under_the_same_name_are_another_model(void **state) {
    (void)state;
    char kept[512];
    const char *path = in_folder("model.gguf");
    copy_file("tests/vectors/tiny-c.gguf", path);
    identity young = identity_of(path);
    assert_int_equal(kept_files(kept), 0); /* it could change once more within its time stamp */
    wait_until_settled();
    identity first = identity_of(path);
    assert_same(young, first);
    assert_int_equal(kept_files(kept), 1);
    change_a_weight(path);
    wait_until_settled();
    identity second = identity_of(path);
    assert_other(first, second);
    change_a_weight(path);
    assert_same(first, identity_of(path));
}

/* A kept hash that says something else is believed where everything before it agrees, which shows that the weights are
 * not read again; and in no other case. */
static void test_a_kept_hash_is_used_only_whole(void **state) {
    (void)state;
    const char *path = in_folder("model.gguf");
    copy_file("tests/vectors/tiny-c.gguf", path);
    wait_until_settled();
    identity right = identity_of(path);
    char kept[512];
    struct stat st;
    assert_int_equal(kept_files(kept), 1);
    assert_int_equal(stat(kept, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    size_t n;
    char *text = fixture_read(kept, &n);
    assert_same(right, identity_of(path));

    text[n - 2] = text[n - 2] == '0' ? '1' : '0';
    write_file(kept, text, n);
    identity other = identity_of(path);
    assert_other(right, other);
    for (size_t i = 0; i < n; i++) { /* each byte, and each length */
        char was = text[i];
        text[i] = (char)(was == 'z' ? 'y' : 'z');
        write_file(kept, text, n);
        text[i] = was;
        assert_same(right, identity_of(path));
        write_file(kept, text, i);
        assert_same(right, identity_of(path));
    }
    free(text);
}

static void test_a_file_that_changed_since_it_was_loaded_has_no_identity(void **state) {
    (void)state;
    error_text err = { "" };
    identity id;
    const char *path = in_folder("model.gguf");
    copy_file("tests/vectors/tiny-c.gguf", path);
    model *m = open_model(path);
    identity_in(m, 64, KVT_MATH_FAST);
    usleep(20000); /* a tick of the clock that stamps files */
    change_a_weight(path);
    assert_int_equal(model_identity(m, 64, KVT_MATH_FAST, id.at, &err), KVT_E_STATE);
    assert_non_null(strstr(err.text, "has changed"));
    unlink(path);
    assert_int_equal(model_identity(m, 64, KVT_MATH_FAST, id.at, &err), KVT_E_ARGUMENT);
    model_close(m);
}

static void test_a_cache_folder_that_cannot_be_written_is_no_error(void **state) {
    (void)state;
    identity right = identity_of("tests/vectors/tiny-c.gguf");
    clear(NULL);
    setenv("XDG_CACHE_HOME", "/dev/null/nowhere", 1);
    assert_same(right, identity_of("tests/vectors/tiny-c.gguf"));
    unsetenv("XDG_CACHE_HOME");
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    assert_same(right, identity_of("tests/vectors/tiny-c.gguf"));
    if (home) setenv("HOME", home, 1);
    free(home);
    setenv("XDG_CACHE_HOME", folder, 1);
}

static int begin(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    setenv("XDG_CACHE_HOME", folder, 1);
    return kvt_workers_open(&team, 2) == KVT_OK ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    kvt_workers_close(team);
    rmdir(in_folder("kvtile/weights"));
    rmdir(in_folder("kvtile"));
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_model_is_itself_wherever_it_lies, clear),
        cmocka_unit_test_teardown(test_arithmetic_is_part_of_it, clear),
        cmocka_unit_test_teardown(test_the_frequencies_that_a_context_chooses_are_part_of_it, clear),
        cmocka_unit_test_teardown(test_what_keys_say_is_part_of_it, clear),
        cmocka_unit_test_teardown(test_other_weights_under_the_same_name_are_another_model, clear),
        cmocka_unit_test_teardown(test_a_kept_hash_is_used_only_whole, clear),
        cmocka_unit_test_teardown(test_a_file_that_changed_since_it_was_loaded_has_no_identity, clear),
        cmocka_unit_test_teardown(test_a_cache_folder_that_cannot_be_written_is_no_error, clear),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
