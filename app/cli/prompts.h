/* prompts.h - where prompts come from (an argument, a file, stdin, a file of lines) and how they become tokens. */
#ifndef APP_PROMPTS_H
#define APP_PROMPTS_H

#include "cli.h"

typedef struct prompt_options {
    const char *text, *file, *lines; /* -p, -f, --prompts; one of them, or the operand "-" */
    const char *operand; /* "-": stdin */
    bool chat;
    const char *system;
} prompt_options;

typedef struct prompt_list {
    int n;
    prompt *prompt;     /* [n], their tokens are in `tokens` */
    token_list *tokens; /* [n] */
} prompt_list;

/* CLI_DONE, or the status to exit with, told on stderr. prompts_free in either case. */
int prompts_encode(prompt_list *list, const prompt_options *opt, const model *m);
void prompts_free(prompt_list *list);

/* Append a whole file, "-" being stdin; CLI_DONE, or CLI_FAILED told on stderr. */
int prompts_read_file(const char *path, byte_list *out);

#endif
