/* fixture.c - see fixture.h. */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char DEFAULT_MODEL[] = "SmolLM2-135M-Instruct.Q4_1.gguf";

const char *fixture_model(void) {
    static char path[4096];
    const char *folder = getenv("KVTILE_MODELS"), *home = getenv("HOME");
    if (folder) snprintf(path, sizeof path, "%s/%s", folder, DEFAULT_MODEL);
    else snprintf(path, sizeof path, "%s/.cache/kvtile/models/%s", home ? home : "", DEFAULT_MODEL);
    return access(path, R_OK) == 0 ? path : NULL;
}

bool fixture_quick(void) {
    return getenv("KVTILE_QUICK") != NULL;
}

const char *fixture_data(const char *name) {
    static char path[4096];
    const char *folder = getenv("KVTILE_DATA");
    if (!folder) return NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0 ? path : NULL;
}

void fixture_skip(const char *why) {
    if (getenv("KVTILE_DATA")) fail_msg("%s, though KVTILE_DATA is set", why);
    print_message("skipped: %s\n", why);
    skip();
    abort(); /* not reached: cmocka leaves the test by a jump */
}

char *fixture_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s cannot be opened", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
    fclose(f);
    bytes[size] = 0;
    if (n) *n = (size_t)size;
    return bytes;
}

double fixture_cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
