/* values.c - the values of options: text to value and back, and the sentence for a text that is none. */
#include "command.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------- text to value */

bool option_bytes(const char *text, size_t *out) {
    static const struct {
        const char *name;
        double factor;
    } units[] = {
        { "", 1 },
        { "B", 1 },
        { "K", 0x1p10 }, { "KiB", 0x1p10 }, { "kB", 1e3 }, { "KB", 1e3 },
        { "M", 0x1p20 }, { "MiB", 0x1p20 }, { "MB", 1e6 },
        { "G", 0x1p30 }, { "GiB", 0x1p30 }, { "GB", 1e9 },
        { "T", 0x1p40 }, { "TiB", 0x1p40 }, { "TB", 1e12 },
    };
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double n = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        n *= units[i].factor;
        if (!(n >= 1 && n < 0x1p62)) return false;
        *out = (size_t)n;
        return true;
    }
    return false;
}

bool option_rate(const char *text, double *out) {
    static const char letters[] = "kMGTP", *const ends[] = { "", "B", "B/s", "FLOP", "FLOP/s", "FLOPS" };
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double n = strtod(text, &end);
    while (*end == ' ') end++;
    const char *letter = *end ? strchr(letters, *end) : NULL;
    for (int power = letter ? (int)(letter - letters) + 1 : 0; power > 0; power--) n *= 1e3;
    end += letter != NULL;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strcmp(end, ends[i]) == 0 && n >= 1 && n <= 1e21) {
            *out = n;
            return true;
        }
    return false;
}

bool option_time(const char *text, uint64_t *out) {
    static const struct {
        char name;
        double seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 7 * 86400 } };
    char *end;
    if (text[0] < '0' || text[0] > '9') return false;
    double n = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const double seconds = n * units[i].seconds;
        if (end[0] != units[i].name || end[1] || !(seconds >= 1 && seconds < 1e10)) continue;
        *out = (uint64_t)(seconds * 1e9);
        return true;
    }
    return false;
}

static bool real_of(const char *text, double least, double most, double *out) {
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) return false;
    *out = v;
    return true;
}

static bool whole_of(const char *text, double least, double most, int *out) {
    double v;
    if (strspn(text, "-0123456789") != strlen(text) || !real_of(text, least, most, &v)) return false;
    *out = (int)v;
    return true;
}

static bool seed_of(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    if (text[0] < '0' || text[0] > '9' || *end || errno) return false;
    *out = v;
    return true;
}

int option_word(const char **words, const char **out) {
    if (!**words) return -1;
    int length = (int)strcspn(*words, "|");
    *out = *words;
    *words += length + ((*words)[length] == '|');
    return length;
}

/* The place of a word in "a|b|c"; -1: it is none of them. */
static int choice_of(const char *words, const char *wanted) {
    const char *word;
    int length, n = (int)strlen(wanted);
    for (int place = 0; (length = option_word(&words, &word)) >= 0; place++)
        if (length == n && memcmp(word, wanted, (size_t)n) == 0) return place;
    return -1;
}

/* Next number of a list: where it ends, NULL: it is none. */
static const char *list_next(const char *text, double least, double most, int *out) {
    char number[16];
    size_t n = strcspn(text, ",");
    if (n == 0 || n >= sizeof number) return NULL;
    memcpy(number, text, n);
    number[n] = 0;
    return whole_of(number, least, most, out) ? text + n : NULL;
}

static bool list_good(const char *text, double least, double most) {
    int v, n = 0;
    while (n++ < OPTION_LIST_MAX && (text = list_next(text, least, most, &v)) && *text == ',') text++;
    return text && *text == 0;
}

int option_list(const char *text, int out[OPTION_LIST_MAX]) {
    int n = 0;
    while (n < OPTION_LIST_MAX && (text = list_next(text, -2147483648.0, 2147483647.0, &out[n]))) {
        n++;
        if (*text++ != ',') break;
    }
    return n;
}

static bool choice_take(const option *o, const char *text, int *out) {
    int place = choice_of(o->value, text);
    if (place >= 0) *out = place;
    return place >= 0;
}

static bool word_take(const option *o, const char *text, int *out) {
    int place = option_word_find(o->word_at, text);
    if (place >= 0) *out = place;
    return place >= 0;
}

static bool texts_take(option_texts *texts, const char *text) {
    if (texts->n == OPTION_TEXTS_MAX) return false;
    texts->text[texts->n++] = text;
    return true;
}

bool option_take(const option *o, const char *text, void *options) {
    void *out = (char *)options + o->at;
    switch (o->kind) {
    case OPTION_TEXT: *(const char **)out = text; return true;
    case OPTION_FILE: *(const char **)out = text; return text[0] != 0;
    case OPTION_INT: return whole_of(text, o->least, o->most, out);
    case OPTION_REAL: return real_of(text, o->least, o->most, out);
    case OPTION_SEED: return seed_of(text, out);
    case OPTION_BYTES: return option_bytes(text, out);
    case OPTION_RATE: return option_rate(text, out);
    case OPTION_TIME: return option_time(text, out);
    case OPTION_CHOICE: return choice_take(o, text, out);
    case OPTION_WORD: return word_take(o, text, out);
    case OPTION_LIST: *(const char **)out = text; return list_good(text, o->least, o->most);
    case OPTION_TEXTS:
    case OPTION_COMMAND: return texts_take(out, text);
    case OPTION_FLAG:
    case OPTION_HEADING:
    case OPTION_ROWS: break;
    }
    return false;
}

/* ------------------------------------------------------------------------------------- a text that is none */

static int choice_refuse(const command *c, const option *o, const char *text) {
    near_word near = near_of(text);
    const char *words = o->value, *word;
    int length;
    while ((length = option_word(&words, &word)) >= 0) near_offer(&near, word, length);
    return cli_usage(c->name, "%s is one of %s, not \"%s\"%s", o->name, o->value, text, near_text(&near).text);
}

static int word_refuse(const command *c, const option *o, const char *text) {
    char what[64];
    snprintf(what, sizeof what, "%s does not know", o->name);
    return option_words_refuse(c->name, what, text, o->word_at);
}

int option_refuse(const command *c, const option *o, const char *text) {
    switch (o->kind) {
    case OPTION_INT:
    case OPTION_REAL:
        return cli_usage(c->name, "%s wants a number from %.15g to %.15g, not \"%s\"", o->name, o->least, o->most,
                         text);
    case OPTION_LIST:
        return cli_usage(c->name, "%s wants up to %d numbers from %.15g to %.15g, not \"%s\"", o->name,
                         OPTION_LIST_MAX, o->least, o->most, text);
    case OPTION_BYTES: return cli_usage(c->name, "%s wants a size such as 512M or 4GiB, not \"%s\"", o->name, text);
    case OPTION_RATE:
        return cli_usage(c->name, "%s wants an amount per second such as 50G or 3.35T, not \"%s\"", o->name, text);
    case OPTION_TIME:
        return cli_usage(c->name, "%s wants a time such as 12h or 7d, not \"%s\"", o->name, text);
    case OPTION_FILE: return cli_usage(c->name, "%s wants a name, not \"%s\"", o->name, text);
    case OPTION_CHOICE: return choice_refuse(c, o, text);
    case OPTION_WORD: return word_refuse(c, o, text);
    case OPTION_TEXTS:
    case OPTION_COMMAND:
        return cli_usage(c->name, "%s is given more than %d times, the last being \"%s\"", o->name, OPTION_TEXTS_MAX,
                         text);
    default: return cli_usage(c->name, "%s does not take \"%s\"", o->name, text);
    }
}

/* ------------------------------------------------------------------------------------------- value to text */

/* A number out of an option's range stands for "not given". */
static bool in_range(const option *o, double v) {
    return v >= o->least && v <= o->most;
}

option_text option_default(const option *o, const void *defaults) {
    option_text out = { "" };
    const void *at = (const char *)defaults + o->at;
    const char *words = o->value, *word = "";
    int length = 0;
    if (!defaults || strstr(o->help, "(default:")) return out;
    switch (o->kind) {
    case OPTION_INT:
        if (in_range(o, *(const int *)at)) snprintf(out.text, sizeof out.text, "%d", *(const int *)at);
        break;
    case OPTION_REAL:
        if (in_range(o, *(const double *)at)) snprintf(out.text, sizeof out.text, "%g", *(const double *)at);
        break;
    case OPTION_RATE:
        if (*(const double *)at >= 1) snprintf(out.text, sizeof out.text, "%g", *(const double *)at);
        break;
    case OPTION_SEED: snprintf(out.text, sizeof out.text, "%" PRIu64, *(const uint64_t *)at); break;
    case OPTION_BYTES:
        if (*(const size_t *)at) snprintf(out.text, sizeof out.text, "%zu", *(const size_t *)at);
        break;
    case OPTION_CHOICE:
        for (int i = *(const int *)at; i >= 0 && length >= 0; i--) length = option_word(&words, &word);
        if (length > 0) snprintf(out.text, sizeof out.text, "%.*s", length, word);
        break;
    case OPTION_WORD:
        for (int i = 0; i <= *(const int *)at && word; i++) word = o->word_at(i);
        if (*(const int *)at >= 0 && word) snprintf(out.text, sizeof out.text, "%s", word);
        break;
    case OPTION_TEXT:
    case OPTION_FILE:
    case OPTION_LIST:
        if (*(const char *const *)at) snprintf(out.text, sizeof out.text, "%s", *(const char *const *)at);
        break;
    case OPTION_TIME: /* none has one */
    case OPTION_FLAG:
    case OPTION_TEXTS:
    case OPTION_COMMAND:
    case OPTION_HEADING:
    case OPTION_ROWS: break;
    }
    return out;
}

option_about option_tell(const option *o, const void *defaults) {
    option_about out;
    option_text given = option_default(o, defaults);
    bool lists = o->kind == OPTION_WORD;
    snprintf(out.text, sizeof out.text, "%s%s%s%s%s%s", o->help, lists ? ": " : "",
             lists ? option_words_of(o->word_at).text : "", given.text[0] ? " (default: " : "", given.text,
             given.text[0] ? ")" : "");
    return out;
}
