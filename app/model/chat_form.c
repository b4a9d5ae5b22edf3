/* chat_form.c - the table of chat templates, and how a template's text finds its row. */
#include "chat_form.h"

#include <string.h>

#define CHATML_SYSTEM "<|im_start|>system\n{}<|im_end|>\n"
#define CHATML                                                           \
    .control = {"<|im_start|>", "<|im_end|>"}, .system = CHATML_SYSTEM,  \
    .user = "<|im_start|>user\n{}<|im_end|>\n", .open = "<|im_start|>assistant\n", .assistant = "{}", \
    .end = "<|im_end|>", .after = "\n"

#define LLAMA_3_SYSTEM(before) "<|start_header_id|>system<|end_header_id|>\n\n" before "{}<|eot_id|>"
#define LLAMA_3                                                                                       \
    .control = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},                            \
    .trim = TRIM_SYSTEM | TRIM_USER | TRIM_ASSISTANT, .system = LLAMA_3_SYSTEM(""),                                    \
    .user = "<|start_header_id|>user<|end_header_id|>\n\n{}<|eot_id|>",                               \
    .open = "<|start_header_id|>assistant<|end_header_id|>\n\n", .assistant = "{}", .end = "<|eot_id|>", .after = ""

#define LLAMA_2                                                                                       \
    .trim = TRIM_USER | TRIM_ASSISTANT | TRIM_FOLD, .fold = "<<SYS>>\n{}\n<</SYS>>\n\n", .open = "",  \
    .assistant = " {}", .end = " {eos}", .after = ""

#define MISTRAL                                                                                   \
    .control = {"[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, .fold = "{}\n\n",    \
    .open = "", .end = "{eos}"

#define PHI_3 .control = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"}, .assistant = "{}", .end = "<|end|>"

#define DEEPSEEK_3                                                                                \
    .control = {"<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<think>"}, .system = "{}", \
    .user = "<｜User｜>{}", .open = "<｜Assistant｜>", .assistant = "{}",                            \
    .end = "<｜end▁of▁sentence｜>", .after = "", .thought = "</think>"

/* Tried in this order: a template that borrows another's marks stands above it. */
static const chat_form FORMS[] = {
    {
        .name = "Phi-4",
        .mark = {"<|im_start|>", "<|im_sep|>"},
        .control = {"<|im_start|>", "<|im_sep|>", "<|im_end|>"},
        .system = "<|im_start|>system<|im_sep|>{}<|im_end|>",
        .user = "<|im_start|>user<|im_sep|>{}<|im_end|>",
        .open = "<|im_start|>assistant<|im_sep|>",
        .assistant = "{}",
        .end = "<|im_end|>",
        .after = "",
    },
    {
        .name = "SmolLM3",
        .mark = {"<|im_start|>", "## Custom Instructions", "Reasoning Mode: "},
        CHATML,
        .default_open = "\"You are a helpful AI assistant named SmolLM",
        .default_close = "\\n\\n",
        .system_first = "<|im_start|>system\n## Metadata\n\nKnowledge Cutoff Date: June 2025\n"
                        "Reasoning Mode: /think\n\n## Custom Instructions\n\n{}\n\n<|im_end|>\n",
    },
    {
        .name = "QwQ",
        .mark = {"<|im_start|>", "<|im_end|>", "assistant\\n<think>\\n"},
        .lacks = {"<think></think>"},
        CHATML,
        .answer = "<|im_start|>assistant\n<think>\n",
        .thought = "</think>\n",
    },
    {
        .name = "Qwen3",
        .mark = {"<|im_start|>", "<|im_end|>", "'</think>'"},
        .lacks = {"<think></think>", "<|vision_start|>"},
        CHATML,
        .thought = "</think>\n",
    },
    {
        .name = "ChatML",
        .mark = {"<|im_start|>", "<|im_end|>"},
        .lacks = {"<think></think>", "<|vision_start|>", "You are a function calling AI model"},
        CHATML,
        .default_open = "<|im_start|>system",
        .default_close = "<|im_end|>",
    },
    {
        .name = "Llama 3.1",
        .mark = {"<|start_header_id|>", "<|eot_id|>", "Cutting Knowledge Date: December 2023"},
        .lacks = {"<function="},
        LLAMA_3,
        .system_first = LLAMA_3_SYSTEM("Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"),
    },
    {
        .name = "Llama 3",
        .mark = {"<|start_header_id|>", "<|eot_id|>"},
        .lacks = {"Cutting Knowledge Date", ">>>", "functools"},
        LLAMA_3,
    },
    {
        .name = "Mistral v7",
        .mark = {"[INST] ", "[SYSTEM_PROMPT] "},
        MISTRAL,
        .system = "[SYSTEM_PROMPT] {}[/SYSTEM_PROMPT]",
        .user = "[INST] {}[/INST]",
        .assistant = " {}",
        .after = "",
    },
    {
        .name = "Mistral v7 Tekken",
        .mark = {"[INST]", "[SYSTEM_PROMPT]"},
        MISTRAL,
        .system = "[SYSTEM_PROMPT]{}[/SYSTEM_PROMPT]",
        .user = "[INST]{}[/INST]",
        .assistant = "{}",
        .after = "",
    },
    {.name = "Llama 2", .mark = {"<<SYS>>", "bos_token + '[INST]"}, LLAMA_2, .user = "{bos}[INST] {} [/INST]"},
    {.name = "Llama 2, one start", .mark = {"<<SYS>>", "[INST]"}, LLAMA_2, .user = "[INST] {} [/INST]"},
    {
        .name = "Mistral v3 Tekken",
        .mark = {"[AVAILABLE_TOOLS]", "\"[INST]\""},
        MISTRAL,
        .user = "[INST]{}[/INST]",
        .assistant = "{}",
        .after = "",
    },
    {
        .name = "Mistral v3",
        .mark = {"[AVAILABLE_TOOLS]", "[INST] "},
        MISTRAL,
        .trim = TRIM_ASSISTANT,
        .user = "[INST] {}[/INST]",
        .assistant = " {}",
        .after = "",
    },
    {
        .name = "Mistral v1",
        .mark = {"' [INST] '", "' [/INST]'"},
        MISTRAL,
        .user = " [INST] {} [/INST]",
        .assistant = " {}",
        .after = "",
    },
    {
        .name = "Mistral 0.1",
        .mark = {"'[INST] '", "' [/INST]'", "eos_token + ' '"},
        MISTRAL,
        .user = "[INST] {} [/INST]",
        .assistant = "{}",
        .after = " ",
    },
    {
        .name = "Mistral 0.2",
        .mark = {"'[INST] '", "' [/INST]'"},
        MISTRAL,
        .user = "[INST] {} [/INST]",
        .assistant = "{}",
        .after = "",
    },
    {
        .name = "Phi-4 mini",
        .mark = {"'<|' + message['role'] + '|>' + message['content'] + '<|end|>'", "<|assistant|>"},
        PHI_3,
        .system = "<|system|>{}<|end|>",
        .user = "<|user|>{}<|end|>",
        .open = "<|assistant|>",
        .after = "",
    },
    {
        .name = "Phi-3",
        .mark = {"<|end|>", "<|assistant|>"},
        .lacks = {"<|content|>"},
        PHI_3,
        .system = "<|system|>\n{}<|end|>\n",
        .user = "<|user|>\n{}<|end|>\n",
        .open = "<|assistant|>\n",
        .after = "\n",
    },
    {
        .name = "Tulu",
        .mark = {"<|user|>", "<|assistant|>", "eos_token", "not loop.last"},
        .lacks = {"<|end|>"},
        .control = {"<|system|>", "<|user|>", "<|assistant|>"},
        .system = "<|system|>\n{}\n",
        .user = "<|user|>\n{}\n",
        .open = "<|assistant|>\n",
        .assistant = "{}",
        .end = "{eos}",
        .after = "\n",
    },
    {
        .name = "Zephyr",
        .mark = {"<|user|>", "<|assistant|>", "message['content'] + eos_token"},
        .control = {"<|system|>", "<|user|>", "<|assistant|>"},
        .system = "<|system|>\n{}{eos}\n",
        .user = "<|user|>\n{}{eos}\n",
        .open = "<|assistant|>\n",
        .assistant = "{}",
        .end = "{eos}",
        .after = "\n",
    },
    {
        .name = "Gemma",
        .mark = {"<start_of_turn>", "<end_of_turn>", "model"},
        .control = {"<start_of_turn>", "<end_of_turn>"},
        .trim = TRIM_USER | TRIM_ASSISTANT,
        .fold = "{}\n\n",
        .user = "<start_of_turn>user\n{}<end_of_turn>\n",
        .open = "<start_of_turn>model\n",
        .assistant = "{}",
        .end = "<end_of_turn>",
        .after = "\n",
    },
    {
        .name = "DeepSeek R1",
        .mark = {"<｜User｜>", "<｜Assistant｜><think>\\n"},
        .lacks = {"enable_thinking", "macro"},
        DEEPSEEK_3,
        .answer = "<｜Assistant｜><think>\n",
    },
    {
        .name = "DeepSeek V3",
        .mark = {"<｜User｜>", "'<｜Assistant｜>'", "<｜end▁of▁sentence｜>"},
        .lacks = {"thinking", "macro"},
        DEEPSEEK_3,
    },
    {
        .name = "DeepSeek LLM",
        .mark = {"'User: '", "'Assistant: '", "eos_token"},
        .system = "{}\n\n",
        .user = "User: {}\n\n",
        .open = "Assistant:",
        .assistant = " {}",
        .end = "{eos}",
        .after = "",
    },
    {
        .name = "Granite 3",
        .mark = {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"},
        .control = {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"},
        .system = "<|start_of_role|>system<|end_of_role|>{}<|end_of_text|>\n",
        .user = "<|start_of_role|>user<|end_of_role|>{}<|end_of_text|>\n",
        .open = "<|start_of_role|>assistant<|end_of_role|>",
        .assistant = "{}",
        .end = "<|end_of_text|>",
        .after = "\n",
    },
    {
        .name = "Command-R",
        .mark = {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>"},
        .lacks = {"<|START_RESPONSE|>", "<|START_THINKING|>", "Safety Preamble"},
        .control = {"<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>",
                    "<|CHATBOT_TOKEN|>"},
        .trim = TRIM_USER | TRIM_ASSISTANT,
        .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{}<|END_OF_TURN_TOKEN|>",
        .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{}<|END_OF_TURN_TOKEN|>",
        .open = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        .assistant = "{}",
        .end = "<|END_OF_TURN_TOKEN|>",
        .after = "",
    },
    {
        .name = "OpenChat",
        .mark = {"GPT4 Correct ", "<|end_of_turn|>"},
        .control = {"<|end_of_turn|>"},
        .system = "GPT4 Correct System: {}<|end_of_turn|>",
        .user = "GPT4 Correct User: {}<|end_of_turn|>",
        .open = "GPT4 Correct Assistant:",
        .assistant = " {}",
        .end = "<|end_of_turn|>",
        .after = "",
    },
    {
        .name = "Vicuna",
        .mark = {"'USER: '", "'ASSISTANT: '", "+ '\n\n'"},
        .system = "{}\n\n",
        .user = "USER: {}\n",
        .open = "ASSISTANT:",
        .assistant = " {}",
        .end = "{eos}",
        .after = "\n",
    },
};

const chat_form CHAT_PLAIN = {
    .name = "plain text",
    .trim = TRIM_SYSTEM | TRIM_USER | TRIM_ASSISTANT,
    .system = "{}\n\n",
    .user = "User: {}\n",
    .open = "Assistant:",
    .assistant = " {}",
    .end = "",
    .after = "\n",
    .stop = "\nUser:",
};

static bool stands_in(file_text text, const char *what) { return memmem(text.at, text.n, what, strlen(what)) != NULL; }

static bool is_of(file_text text, const chat_form *form) {
    for (int i = 0; i < CHAT_MARKS && form->mark[i]; i++)
        if (!stands_in(text, form->mark[i])) return false;
    for (int i = 0; i < CHAT_LACKS && form->lacks[i]; i++)
        if (stands_in(text, form->lacks[i])) return false;
    return true;
}

const chat_form *chat_form_of(file_text text) {
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (is_of(text, &FORMS[i])) return &FORMS[i];
    return NULL;
}
