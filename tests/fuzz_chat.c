/* fuzz_chat.c - any bytes as a template and as messages. The first three bytes choose tell-tales of the table, which
 * make the template's text together with what follows up to a byte 0xff; each further such byte begins a message,
 * and the byte behind it chooses its role. Whatever they say, rendering succeeds, control tokens come from the form
 * alone, and a conversation that goes on ends as the whole one does. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/chat.h"
#include "model/utf8.h"
#include "spoken.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MESSAGES_MAX = 16, TEMPLATE_MAX = 65536 };

static const char *const TELL[] = {
    "'<|im_start|>system\\n", "<|im_end|>'", "<|im_sep|>", "'</think>'", "<|start_header_id|><|eot_id|>",
    "Cutting Knowledge Date: December 2023", "[INST] ", "[SYSTEM_PROMPT] ", "[SYSTEM_PROMPT]", "<<SYS>>",
    "bos_token + '[INST]", "[AVAILABLE_TOOLS]\"[INST]\"", "' [INST] '' [/INST]'", "<|end|><|assistant|>",
    "<|user|><|assistant|>message['content'] + eos_token", "<start_of_turn><end_of_turn>model",
    "<｜User｜><｜Assistant｜><think>\\n",
    "<｜User｜>'<｜Assistant｜>'<｜end▁of▁sentence｜>", "'User: ''Assistant: 'eos_token",
    "<|start_of_role|><|end_of_role|><|end_of_text|>", "<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|CHATBOT_TOKEN|>",
    "GPT4 Correct <|end_of_turn|>", "'USER: ''ASSISTANT: '+ '\n\n'", "## Custom InstructionsReasoning Mode: ",
};

static void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "fuzz_chat: %s\n", what);
    abort();
}

static size_t controls_in(const tokenizer *t, const token_list *ids) {
    size_t count = 0;
    for (size_t i = 0; i < ids->n; i++) count += tokenizer_is_control(t, ids->id[i]);
    return count;
}

static size_t controls_of(const tokenizer *t, const chat *c, const chat_message *messages, size_t n) {
    token_list ids = {0};
    check(chat_render(c, messages, n, n % 2, &ids) == KVT_OK, "rendering fails");
    size_t count = controls_in(t, &ids);
    token_list_free(&ids);
    return count;
}

/* The same roles, and nothing said. */
static void check_controls(const tokenizer *t, const chat *c, const chat_message *messages, size_t n) {
    chat_message silent[MESSAGES_MAX];
    for (size_t i = 0; i < n; i++) silent[i] = (chat_message){messages[i].role, "", 0};
    check(controls_of(t, c, messages, n) == controls_of(t, c, silent, n), "a message makes a control token");
}

/* What continues an answer is the end of the whole. (Half a character at its end could become one in the whole.) */
static void check_continue(const tokenizer *t, const chat *c, const chat_message *messages, size_t n, size_t first) {
    if (!utf8_valid(messages[first - 1].text, messages[first - 1].n)) return;
    token_list whole = {0}, rest = {0};
    byte_list a = {0}, b = {0};
    kvt_status want = strcmp(messages[first - 1].role, "assistant") == 0 ? KVT_OK : KVT_E_ARGUMENT;
    check(chat_render(c, messages, n, true, &whole) == KVT_OK, "rendering fails");
    check(chat_continue(c, messages, n, first, false, true, &rest) == want, "continuing goes wrong");
    check(tokenizer_decode(t, whole.id, whole.n, true, &a) == KVT_OK, "decoding fails");
    check(tokenizer_decode(t, rest.id, rest.n, true, &b) == KVT_OK, "decoding fails");
    check(b.n <= a.n && (!b.n || memcmp(a.at + a.n - b.n, b.at, b.n) == 0), "a continued text differs");
    byte_list_free(&a), byte_list_free(&b);
    token_list_free(&whole), token_list_free(&rest);
}

static size_t template_read(char *out, const uint8_t *data, size_t n) {
    size_t at = 0, used = 3;
    for (size_t i = 0; i < sizeof TELL / sizeof *TELL; i++)
        if (data[i / 8] >> i % 8 & 1) at += (size_t)sprintf(out + at, "%s", TELL[i]);
    for (; used < n && data[used] != 0xff && at < TEMPLATE_MAX - 1; used++) out[at++] = (char)data[used];
    out[at] = 0;
    return used;
}

static size_t messages_read(chat_message *out, const uint8_t *data, size_t n) {
    static const char *const ROLE[] = {"user", "assistant", "system"};
    size_t count = 0;
    while (n >= 2 && data[0] == 0xff && count < MESSAGES_MAX) {
        const uint8_t *text = data + 2, *end = memchr(text, 0xff, n - 2);
        size_t length = end ? (size_t)(end - text) : n - 2;
        out[count++] = (chat_message){ROLE[data[1] % 3], (const char *)text, length};
        data += length + 2;
        n -= length + 2;
    }
    return count;
}

static model_file *file_of(const gguf_writer *w) {
    model_file *f;
    error_text err = {""};
    check(file_open_memory(&f, "made.gguf", w->at, w->n, &err) == KVT_OK, err.text);
    return f;
}

static tokenizer *tokenizer_of(unsigned kind) {
    const spoken s = {
        .control = {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|start_header_id|>",
                    "<|end_header_id|>", "<|eot_id|>", "[INST]", "[/INST]", "<|user|>", "<|end|>", "<end_of_turn>",
                    "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>",
                    "<|USER_TOKEN|>", "<|end_of_role|>"},
        .bos = kind & 1 ? "<s>" : "<|im_start|>",
        .eos = kind & 2 ? "</s>" : NULL,
        .add_bos = kind & 4,
    };
    gguf_writer w = {0};
    tokenizer *t;
    error_text err = {""};
    spoken_write(&s, &w);
    model_file *f = file_of(&w);
    check(tokenizer_open(&t, f, &err) == KVT_OK, err.text);
    file_close(f);
    free(w.at);
    return t;
}

static chat *chat_of(const char *template, const tokenizer *t) {
    gguf_writer w = {0};
    chat *c;
    error_text why = {"?"};
    put_header(&w, 3, 0, 1);
    put_key_text(&w, "tokenizer.chat_template", template);
    model_file *f = file_of(&w);
    check(chat_open(&c, f, t, &why) == KVT_OK, "opening fails");
    check(chat_known(c) == (why.text[0] == 0), "a warning without a reason, or none");
    file_close(f);
    free(w.at);
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static char template[TEMPLATE_MAX + 4096];
    static tokenizer *tokenizers[8];
    if (n < 3) return 0;
    unsigned kind = (data[0] & 1u) | (data[1] & 1u) << 1 | (data[2] & 1u) << 2;
    if (!tokenizers[kind]) tokenizers[kind] = tokenizer_of(kind);
    const tokenizer *t = tokenizers[kind];
    chat_message messages[MESSAGES_MAX];
    size_t used = template_read(template, data, n), n_messages = messages_read(messages, data + used, n - used);
    chat *c = chat_of(template, t);
    check_controls(t, c, messages, n_messages);
    for (size_t i = 1; i <= n_messages; i++) check_continue(t, c, messages, n_messages, i);
    chat_close(c);
    return 0;
}
