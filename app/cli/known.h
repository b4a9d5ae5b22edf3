/* known.h - models that commands know by name, of shape_names.c's table. */
#ifndef APP_KNOWN_H
#define APP_KNOWN_H

#include "cli.h"
#include "plan/plan.h"

/* CLI_DONE, or CLI_USAGE after telling on stderr that the command `asking` knows no such model. */
int known_shape(shape *out, const char *asking, const char *name);

#endif
