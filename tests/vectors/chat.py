#!/usr/bin/env python3
"""Make chat.json: what the models' own chat templates render, by jinja2 with the settings of transformers.

    python3 tests/vectors/chat.py > tests/vectors/chat.json          (jinja2 3.1.6)

Run by hand. The templates are data from outside, kept as they are in chat_templates.json with where they come from; the
conversations are below. A conversation that ends with a user's message is rendered with the opening of an answer. Where a
row of app/model/chat_form.c departs from its template on purpose, DEPARTS says why, and the test expects a difference.
"""

import json
import os
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))

S, U, A = "system", "user", "assistant"
MARKS = (
    "a <|im_start|>system\nx<|im_end|> <s>[INST] b [/INST]</s> <<SYS>> <|eot_id|><|start_header_id|> <end_of_turn> <|end|>"
    " <｜Assistant｜> <｜end▁of▁sentence｜> {} {bos} {eos} <|endoftext|> <|end_of_turn|> \nUser: c"
)
BLANKS = "\u3000\u00a0 \u2028\u0085\x1c"
CONVERSATIONS = {
    "question": [(U, "Hello")],
    "system": [(S, "Be terse."), (U, "Hello")],
    "turns": [(U, "Hello"), (A, "Hi there"), (U, "And you?")],
    "system, turns": [(S, "Be terse."), (U, "Hello"), (A, "Hi there"), (U, "And you?")],
    "five": [(S, "Be\nterse."), (U, "1"), (A, "2"), (U, "3"), (A, "4"), (U, "5"), (A, "6"), (U, "7"), (A, "8"), (U, "9")],
    "answered": [(U, "Hello"), (A, "Hi there")],
    "blanks": [(U, "  Hello \n"), (A, " \tHi there  "), (U, "\n\nAnd you?\n ")],
    "blanks, system": [(S, " Be terse.\n"), (U, "  Hello \n"), (A, " Hi\n"), (U, "x ")],
    "breaks": [(U, "1"), (A, "\n\n2\n"), (U, "3")],
    "empty": [(U, ""), (A, ""), (U, "")],
    "empty system": [(S, ""), (U, "Hello")],
    "marks": [(S, MARKS), (U, MARKS), (A, MARKS), (U, MARKS)],
    "unicode": [(S, "Ὀδυσσεύς"), (U, "안녕하세요 👋🏽"), (A, "e\u0301 " + BLANKS + " é"), (U, "你好。\u200b")],
    "unicode blanks": [(U, BLANKS + "Hello" + BLANKS), (A, BLANKS + "Hi" + BLANKS), (U, BLANKS)],
    "code": [(U, "Why?\n\n```c\nint x = 1;\n\tx++;\n```"), (A, "```c\n  y--;\n```"), (U, "{{ 'a' }} {% if b %}")],
    "thought": [(U, "1"), (A, "<think>\nHm.\n</think>\n\n2"), (U, "3")],
    "two questions": [(U, "Hello"), (U, "Are you there?")],
    "late system": [(U, "Hello"), (A, "Hi"), (S, "Be terse."), (U, "And you?")],
    "answer first": [(A, "Hi there"), (U, "Hello")],
}

PLAIN = "plain text"  # templates that no row is for

# What a date would be taken from: the tests know no clock.
NOW = "2024-01-01"

PHI_3 = {"answered": "the end of a text that is not to go on"}
INST = {c: "the system message goes to the last user message, and moves with each turn" for c in
        ("system, turns", "five", "blanks, system", "marks", "unicode")}
DATED = "without a system message it writes one with today's date"
NO_SYSTEM = {c for c, m in CONVERSATIONS.items() if m[0][0] != S}
ORDER = {"two questions", "late system", "answer first"}  # refused by templates that want question and answer in turn
DEPARTS = {
    "LiquidAI/LFM2-8B-A1B": {"empty system": "an empty system message is left out"},
    "meta-llama/Meta-Llama-3-8B-Instruct": {"answered": "an answer is opened whether it is asked for or not"},
    "HuggingFaceTB/SmolLM3-3B": {
        "breaks": "line breaks in front of an answer are left out",
        "blanks, system": "blanks behind the system message are left out",
        "empty system": "an empty system message is replaced by the default one",
        "late system": "a system message that is not the first is left out",
    },
    "Qwen/Qwen3-0.6B": {"answered": "the last answer is given an empty thought"},
    "Qwen/QwQ-32B": {"breaks": "line breaks in front of an answer are left out, thought or not"},
    "microsoft/Phi-3-mini-4k-instruct": {
        **{c: "system messages are left out" for c, m in CONVERSATIONS.items() if any(r == S for r, _ in m)},
        "two questions": "each question opens an answer",
        "answer first": "only a question opens an answer",
    },
    "microsoft/Phi-3-small-8k-instruct": PHI_3,
    "microsoft/Phi-3.5-mini-instruct": {**PHI_3, "empty system": "an empty system message is left out"},
    "microsoft/Phi-4-mini-instruct": PHI_3,
    "phi-4": {"two questions": "each question opens an answer", "answer first": "only a question opens an answer"},
    "mistralai/Mistral-Large-Instruct-2407": INST,
    "mistralai/Mistral-Nemo-Instruct-2407": INST,
    "mistralai/Mistral-Small-3.2-24B-Instruct-2506": {c: DATED for c in NO_SYSTEM - ORDER},
    "ibm-granite/granite-3.3-2b-instruct": {c: DATED for c in NO_SYSTEM},
    "bofenghuang/vigogne-2-70b-chat": {c: "without a system message it writes one" for c in NO_SYSTEM - ORDER},
    "allenai/OLMo-2-1124-7B-SFT": {"answered": "no line break behind the last answer"},
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": {"late system": "all system messages stand in front"},
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B, first": {"late system": "all system messages stand in front"},
}


def refuse(text):
    raise ValueError(text)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
    env.globals["raise_exception"] = refuse
    if now:
        env.globals["strftime_now"] = lambda form: NOW
    return env


def render(t, conversation):
    """None where the template refuses."""
    messages = [{"role": role, "content": text} for role, text in conversation]
    template = environment(t.get("now")).from_string(t["template"])
    try:
        return template.render(
            messages=messages,
            add_generation_prompt=conversation[-1][0] != A,
            bos_token=t["bos"] or "",
            eos_token=t["eos"],
            **t.get("set", {}),
        )
    except ValueError:
        return None


def main():
    source = os.path.join(HERE, "chat_templates.json") if len(sys.argv) < 2 else sys.argv[1]
    with open(source, encoding="utf-8") as f:
        templates = json.load(f)
    texts = {t["name"]: [render(t, c) for c in CONVERSATIONS.values()] for t in templates if t["form"] != PLAIN}
    out = {
        "conversations": [{"name": n, "messages": c} for n, c in CONVERSATIONS.items()],
        "texts": texts,
        "departs": DEPARTS,
    }
    json.dump(out, sys.stdout, ensure_ascii=False, indent=0, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
