/* text.c - see text.h. */
#include "base/text.h"

#include <stdbool.h>

void text_one_line(char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool c1 = c == 0xC2 && (unsigned char)text[1] >= 0x80 && (unsigned char)text[1] < 0xA0; /* U+0080 .. U+009F */
        if (c < 0x20 || c == 0x7F || c1) *text = '?';
        if (c1) *++text = '?';
    }
}
