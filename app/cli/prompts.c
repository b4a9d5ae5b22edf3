/* prompts.c - see prompts.h. */
#include "prompts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------- reading */

static int read_all(FILE *f, const char *name, byte_list *out) {
    char part[16384];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        if (byte_list_add(out, part, n) != KVT_OK) return cli_fail("%s: no memory for its text", name);
    return ferror(f) ? cli_fail("%s: %s", name, strerror(errno)) : CLI_DONE;
}

static int read_file(const char *path, byte_list *out) {
    FILE *f = fopen(path, "rb");
    if (!f) return cli_fail("%s: %s", path, strerror(errno));
    int status = read_all(f, path, out);
    fclose(f);
    return status;
}

static int text_read(const prompt_options *opt, byte_list *out) {
    if (opt->lines) return read_file(opt->lines, out);
    if (opt->file) return read_file(opt->file, out);
    if (!opt->text) return read_all(stdin, "stdin", out);
    return byte_list_add(out, opt->text, strlen(opt->text)) == KVT_OK ? CLI_DONE : cli_fail("no memory for the prompt");
}

/* ----------------------------------------------------------------------------------------------- encoding */

static int encode_chat(token_list *out, const prompt_options *opt, const model *m, const char *text, size_t n) {
    error_text err;
    const chat *c = model_chat(m, &err);
    if (!c) return cli_fail("%s", err.text);
    const char *system = opt->system ? opt->system : "";
    chat_message both[] = { { "system", system, strlen(system) }, { "user", text, n } };
    int first = opt->system ? 0 : 1;
    kvt_status status = chat_render(c, both + first, (size_t)(2 - first), true, out);
    return status == KVT_OK ? CLI_DONE : cli_fail("the prompt: %s", kvt_status_text(status));
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

/* Where the line that begins at `at` ends. */
static size_t line_end(const byte_list *text, size_t at) {
    const char *end = memchr(text->at + at, '\n', text->n - at);
    return end ? (size_t)(end - text->at) : text->n;
}

static int lines_count(const byte_list *text) {
    int n = 0;
    for (size_t at = 0; at < text->n && n < 65536; at = line_end(text, at) + 1)
        if (line_end(text, at) > at) n++;
    return n;
}

/* Empty lines are not prompts. */
static int encode_lines(prompt_list *list, const prompt_options *opt, const model *m, const byte_list *text) {
    int n = lines_count(text), status = CLI_DONE;
    if (n == 0) return cli_fail("%s: holds no prompt", opt->lines);
    if (n > 65535) return cli_fail("%s: more than 65535 prompts", opt->lines);
    if (!room_take(list, n)) return cli_fail("no memory for %d prompts", n);
    for (size_t at = 0, end; at < text->n && status == CLI_DONE; at = end + 1) {
        end = line_end(text, at);
        if (end > at) status = encode(&list->tokens[list->n++], opt, m, text->at + at, end - at);
    }
    return status;
}

static int encode_all(prompt_list *list, const prompt_options *opt, const model *m, const byte_list *text) {
    if (opt->lines) return encode_lines(list, opt, m, text);
    if (!room_take(list, 1)) return cli_fail("no memory for the prompt");
    list->n = 1;
    return encode(&list->tokens[0], opt, m, text->n ? text->at : "", text->n);
}

int prompts_encode(prompt_list *list, const prompt_options *opt, const model *m) {
    byte_list text = { 0 };
    int status = text_read(opt, &text);
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
