/* text.c - see text.h. */
#include "base/text.h"

void text_one_line(char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7F) *text = '?';
    }
}
