/* words.c - the words that an option offers beside others that it takes: all in a line, and what is said to whom none
 * of them was meant. */
#include "command.h"

#include <string.h>

option_words option_words_of(option_word_at word_at) {
    option_words out = { "" };
    const char *word;
    size_t n = 0;
    for (int i = 0; (word = word_at(i)) && n < sizeof out.text; i++)
        n += (size_t)snprintf(out.text + n, sizeof out.text - n, "%s%s", i ? " " : "", word);
    return out;
}

int option_word_find(option_word_at word_at, const char *word) {
    const char *known;
    for (int i = 0; (known = word_at(i)); i++)
        if (strcmp(known, word) == 0) return i;
    return -1;
}

int option_words_refuse(const char *name, const char *what, const char *text, option_word_at word_at) {
    near_word near = near_of(text);
    const char *word;
    for (int i = 0; (word = word_at(i)); i++) near_offer(&near, word, (int)strlen(word));
    if (near.best) return cli_usage(name, "%s \"%s\"%s", what, text, near_text(&near).text);
    return cli_usage(name, "%s \"%s\"; known are: %s", what, text, option_words_of(word_at).text);
}
