/* text.h - text from outside, made fit to be shown. */
#ifndef KVT_TEXT_H
#define KVT_TEXT_H

/* Control characters become '?': what comes from a file or a command line stays one line, and a terminal obeys nothing
 * in it. */
void text_one_line(char *text);

#endif
