/* sampling.c - what a command line says of sampling in texts: biases and stop texts. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* "ID:VALUE" up to a comma or the end: where it ends, NULL: it is none. */
static const char *bias_next(const char *text, sample_bias *out) {
    char *end;
    if (*text < '0' || *text > '9') return NULL;
    errno = 0;
    long id = strtol(text, &end, 10);
    if (errno || id > INT32_MAX || *end != ':') return NULL;
    text = end + 1;
    out->id = (int32_t)id;
    out->value = strtod(text, &end);
    bool good = out->value == -INFINITY || (out->value >= -100 && out->value <= 100);
    return good && end > text && (*end == ',' || *end == 0) ? end : NULL;
}

static int biases_read(const char *name, const char *text, bias_list *out) {
    const char *next = text;
    do {
        if (out->n == BIASES_MAX) return cli_usage(name, "--logit-bias has more than %d pairs", BIASES_MAX);
        next = bias_next(next, &out->at[out->n]);
        if (!next)
            return cli_usage(name, "--logit-bias wants ID:VALUE, values -100 to 100 or -inf, not \"%s\"", text);
        out->n++;
    } while (*next++ == ',');
    return OPTIONS_GO;
}

int sampling_texts_read(const char *name, const sampling_texts *texts, bias_list *biases) {
    biases->n = 0;
    for (int i = 0; i < texts->stop.n; i++)
        if (!texts->stop.text[i][0]) return cli_usage(name, "--stop wants a text, not an empty one");
    for (int i = 0; i < texts->bias.n; i++) {
        int status = biases_read(name, texts->bias.text[i], biases);
        if (status != OPTIONS_GO) return status;
    }
    return OPTIONS_GO;
}
