/* chat_form.c - the table of chat templates. A template that takes another shape is another row; rows are tried from
 * the most telling to the least, so that a template which borrows another's marks stands above it. */
#include "chat_form.h"

#include <string.h>

#define CHATML_SYSTEM "<|im_start|>system\n{}<|im_end|>\n"
#define CHATML                                                                                               \
    .control = {"<|im_start|>", "<|im_end|>"}, .default_open = "<|im_start|>system", .default_close = "<|im_end|>", \
    .system = CHATML_SYSTEM, .user = "<|im_start|>user\n{}<|im_end|>\n", .open = "<|im_start|>assistant\n",   \
    .assistant = "{}", .end = "<|im_end|>", .after = "\n"

static const chat_form FORMS[] = {
    {.name = "ChatML", .mark = {"<|im_start|>", "<|im_end|>"}, CHATML},
};

const chat_form CHAT_PLAIN = {
    .name = "plain text",
    .trim = TRIM_MESSAGE,
    .system = "{}\n\n",
    .user = "User: {}\n",
    .open = "Assistant:",
    .assistant = " {}",
    .end = "",
    .after = "\n",
    .stop = "\nUser:",
};

static bool stands_in(file_text text, const char *what) { return memmem(text.at, text.n, what, strlen(what)) != NULL; }

const chat_form *chat_form_of(file_text text) {
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        const chat_form *f = &FORMS[i];
        bool is = !f->lacks || !stands_in(text, f->lacks);
        for (int m = 0; m < CHAT_MARKS && f->mark[m]; m++) is = is && stands_in(text, f->mark[m]);
        if (is) return f;
    }
    return NULL;
}
