/* prompts.c - see prompts.h. */
#include "prompts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 30, PROMPTS_MAX = 65535 };

/* ----------------------------------------------------------------------------------------------- reading */

/* A pipe or a device may have no end. */
static int read_all(FILE *f, const char *name, byte_list *out) {
    char part[16384];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0) {
        if (n > TEXT_MAX - out->n) return cli_fail("%s: more than %d bytes of text", name, TEXT_MAX);
        if (byte_list_add(out, part, n) != KVT_OK) return cli_fail("%s: no memory for its text", name);
    }
    return ferror(f) ? cli_fail("%s: %s", name, strerror(errno)) : CLI_DONE;
}

int prompts_read_file(const char *path, byte_list *out) {
    if (strcmp(path, "-") == 0) return read_all(stdin, "stdin", out);
    FILE *f = fopen(path, "rb");
    if (!f) return cli_fail("%s: %s", path, strerror(errno));
    int status = read_all(f, path, out);
    fclose(f);
    return status;
}

static int text_read(const prompt_options *opt, byte_list *out) {
    if (opt->lines) return prompts_read_file(opt->lines, out);
    if (opt->file) return prompts_read_file(opt->file, out);
    if (!opt->text) return read_all(stdin, "stdin", out);
    return byte_list_add(out, opt->text, strlen(opt->text)) == KVT_OK ? CLI_DONE : cli_fail("no memory for the prompt");
}

/* ----------------------------------------------------------------------------------------------- encoding */

static int encode_chat(token_list *out, const prompt_options *opt, const model *m, const char *text, size_t n) {
    const chat *c = model_chat(m, NULL);
    const char *system = opt->system ? opt->system : "";
    chat_message both[] = { { "system", system, strlen(system) }, { "user", text, n } };
    int first = opt->system ? 0 : 1;
    kvt_status status = chat_render(c, both + first, (size_t)(2 - first), true, out);
    if (status != KVT_OK) return cli_fail("the prompt: %s", kvt_status_text(status));
    return out->n ? CLI_DONE : cli_fail("the prompt is empty: the model has no tokens for it");
}

/* Text as it is, with the start token where the model wants one; an empty text is the start token alone. */
static int encode_text(token_list *out, const model *m, const char *text, size_t n) {
    const tokenizer *t = model_tokenizer(m);
    const tokenizer_info *info = tokenizer_about(t);
    kvt_status status = KVT_OK;
    if (info->add_bos) status = token_list_add(out, info->bos);
    if (status == KVT_OK) status = tokenizer_encode(t, text, n, false, out);
    if (status == KVT_OK && out->n == 0 && info->bos >= 0) status = token_list_add(out, info->bos);
    if (status != KVT_OK) return cli_fail("the prompt: %s", kvt_status_text(status));
    if (out->n == 0) return cli_fail("the prompt is empty, and the model has no start token to begin from");
    return CLI_DONE;
}

static int encode(token_list *out, const prompt_options *opt, const model *m, const char *text, size_t n) {
    int status = opt->chat ? encode_chat(out, opt, m, text, n) : encode_text(out, m, text, n);
    if (status != CLI_DONE) return status;
    return out->n < 1u << 30 ? CLI_DONE : cli_fail("the prompt has %zu tokens", out->n);
}

static bool room_take(prompt_list *list, int n) {
    list->prompt = calloc((size_t)n, sizeof *list->prompt);
    list->tokens = calloc((size_t)n, sizeof *list->tokens);
    return list->prompt && list->tokens;
}

/* Take the first line off a text; its end, \n or \r\n, is part of neither. */
static file_text line_take(file_text *text) {
    const char *end = memchr(text->at, '\n', text->n);
    size_t n = end ? (size_t)(end - text->at) : text->n, taken = end ? n + 1 : n;
    file_text line = { text->at, n > 0 && text->at[n - 1] == '\r' ? n - 1 : n };
    *text = (file_text){ text->at + taken, text->n - taken };
    return line;
}

/* Empty lines are not prompts. */
static int lines_count(file_text text) {
    int n = 0;
    while (text.n && n <= PROMPTS_MAX) n += line_take(&text).n > 0;
    return n;
}

static int encode_lines(prompt_list *list, const prompt_options *opt, const model *m, file_text text) {
    int n = lines_count(text), status = CLI_DONE;
    if (n == 0) return cli_fail("%s: holds no prompt", opt->lines);
    if (n > PROMPTS_MAX) return cli_fail("%s: more than %d prompts", opt->lines, PROMPTS_MAX);
    if (!room_take(list, n)) return cli_fail("no memory for %d prompts", n);
    while (text.n && status == CLI_DONE) {
        file_text line = line_take(&text);
        if (line.n) status = encode(&list->tokens[list->n++], opt, m, line.at, line.n);
    }
    return status;
}

static int encode_all(prompt_list *list, const prompt_options *opt, const model *m, const byte_list *text) {
    if (opt->lines) return encode_lines(list, opt, m, (file_text){ text->at, text->n });
    if (!room_take(list, 1)) return cli_fail("no memory for the prompt");
    list->n = 1;
    return encode(&list->tokens[0], opt, m, text->n ? text->at : "", text->n);
}

static void warn_plain(const model *m) {
    error_text why;
    if (!chat_known(model_chat(m, &why))) cli_warn("%s", why.text);
}

int prompts_encode(prompt_list *list, const prompt_options *opt, const model *m) {
    byte_list text = { 0 };
    int status = text_read(opt, &text);
    if (opt->chat) warn_plain(m);
    if (status == CLI_DONE) status = encode_all(list, opt, m, &text);
    for (int i = 0; i < list->n; i++) list->prompt[i] = (prompt){ list->tokens[i].id, (int)list->tokens[i].n };
    byte_list_free(&text);
    return status;
}

void prompts_free(prompt_list *list) {
    for (int i = 0; i < list->n; i++) token_list_free(&list->tokens[i]);
    free(list->prompt);
    free(list->tokens);
}
