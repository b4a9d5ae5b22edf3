/* known.c - a model by its name, or what is said where there is none of that name. */
#include "known.h"

int known_shape(shape *out, const char *asking, const char *name) {
    if (shape_of_name(out, name)) return CLI_DONE;
    return option_words_refuse(asking, "no model is known as", name, shape_name);
}
