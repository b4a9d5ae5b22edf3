/* fixture.h - what tests need from outside themselves: a model, recorded data, the vectors in tests/vectors.
 * Tests run from the root of the repository. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Path of the default model in $KVTILE_MODELS or ~/.cache/kvtile/models; NULL: it is not there. Static memory. */
const char *fixture_model(void);

/* KVTILE_QUICK is set: a run whose arithmetic is many times slower (a sanitizer's), which leaves out computing with the
 * default model. The small models take the same code. */
bool fixture_quick(void);

/* Path of a file in $KVTILE_DATA; NULL: the variable is not set, or the file is not there. Static memory. */
const char *fixture_data(const char *name);

/* Skip the running test for want of something - or fail it where KVTILE_DATA is set, which says that everything is
 * there. Does not return. */
void fixture_skip(const char *why) __attribute__((noreturn));

/* A whole file and a 0 behind it, for the caller to free; n may be NULL. A test fails if it cannot be read. */
char *fixture_read(const char *path, size_t *n);

/* Processor time of this process: what a test can hold to a bound on a machine that others use too. */
double fixture_cpu_seconds(void);

#endif
