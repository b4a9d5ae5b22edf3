#!/usr/bin/env python3
"""Make sampling.json: what Hugging Face's logits processors leave of random logits, and log-probabilities.

    pip install torch==2.15.0 transformers==5.24.0
    python3 tests/vectors/sampling.py > tests/vectors/sampling.json

Run by hand. Logits are made from a seed by splitmix64, here and in tests/test_sample_vectors.c alike, each the sum of
four uniform numbers times a spread, rounded to binary32. The processors run on binary64, in the order of generate();
frequency and presence penalties, which transformers has not, are OpenAI's formula, between the repetition penalty and
the temperature.
"""

import json
from collections import Counter

import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

MASK = (1 << 64) - 1


def splitmix(seed):
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        yield z ^ z >> 31


def logits_of(seed, n, spread):
    bits = splitmix(seed)
    uniform = lambda: -1 + 2 * ((next(bits) >> 11) * 2.0**-53)
    rows = [((uniform() + uniform()) + uniform()) + uniform() for _ in range(n)]
    return torch.tensor([x * spread for x in rows], dtype=torch.float64).float().double()


def history_of(seed, n, n_vocab):
    bits = splitmix(seed + 1000)
    return [next(bits) % n_vocab if i % 3 else i // 4 % n_vocab for i in range(n)]


def left(case):
    history = history_of(case["seed"], case["n_history"], case["n_vocab"])
    ids = torch.tensor([history])
    x = logits_of(case["seed"], case["n_vocab"], case["spread"])[None]
    get = case.get
    if get("bias"):
        x = SequenceBiasLogitsProcessor({(i,): float(v) for i, v in case["bias"]})(ids, x)
    if get("repeat_penalty", 1) != 1:
        last = get("repeat_last", 64)
        x = RepetitionPenaltyLogitsProcessor(float(case["repeat_penalty"]))(ids[:, -last:] if last else ids, x)
    for token, count in Counter(history[case["n_before"] :]).items():
        x[0, token] -= count * get("frequency_penalty", 0) + get("presence_penalty", 0)
    x = TemperatureLogitsWarper(float(get("temp", 1)))(ids, x)
    for name, off, make in (
        ("top_k", 0, TopKLogitsWarper),
        ("top_p", 1, TopPLogitsWarper),
        ("min_p", 0, MinPLogitsWarper),
        ("typical", 1, TypicalLogitsWarper),
    ):
        if get(name, off) != off:
            x = make(case[name])(ids, x)
    p = torch.softmax(x[0], 0)
    kept = [i for i in range(case["n_vocab"]) if p[i] >= 1e-17]  # kvtile leaves out what is e^-40 times as likely
    return kept, [float(f"{p[i].item():.10g}") for i in kept]


CASES = [
    dict(temp=0.7),
    dict(temp=3),
    dict(top_k=1),
    dict(top_k=40),
    dict(top_k=200, temp=1.5),
    dict(top_p=0.3),
    dict(top_p=0.9),
    dict(top_p=0.95, temp=0.5),
    dict(min_p=0.02),
    dict(min_p=0.3, temp=2),
    dict(typical=0.2),
    dict(typical=0.6),
    dict(typical=0.95),
    dict(typical=0.5, temp=2.5),
    dict(repeat_penalty=1.3),
    dict(repeat_penalty=1.8, repeat_last=0),
    dict(repeat_penalty=0.8, repeat_last=5),
    dict(frequency_penalty=0.7),
    dict(presence_penalty=1.5),
    dict(frequency_penalty=-0.5, presence_penalty=0.6),
    dict(bias=[[3, 5.5], [7, -100], [11, 2.25], [3 + 10, -1]]),
    dict(top_k=50, top_p=0.8, min_p=0.05),
    dict(top_k=30, typical=0.7, temp=0.8),
    dict(top_p=0.9, typical=0.5),
    dict(min_p=0.01, typical=0.8, temp=1.2),
    dict(
        temp=0.9, top_k=60, top_p=0.95, min_p=0.01, typical=0.9, repeat_penalty=1.2, repeat_last=20,
        frequency_penalty=0.4, presence_penalty=0.3, bias=[[5, 3], [2, -4.5]],
    ),
]  # fmt: skip


def main():
    cases, logprobs = [], []
    for i, options in enumerate(CASES):
        for j, (n_vocab, spread) in enumerate(((40, 1.5), (300, 4))):
            case = dict(seed=2 * i + j, n_vocab=n_vocab, spread=spread, n_history=30, n_before=12, **options)
            ids, p = left(case)
            cases.append({**case, "ids": ids, "p": p})
    for i, (n_vocab, spread) in enumerate(((5, 1), (40, 3), (300, 0.5), (3000, 10), (50000, 4))):
        x = torch.log_softmax(logits_of(100 + i, n_vocab, spread), 0)
        top = torch.topk(x, min(20, n_vocab))
        token = n_vocab // 3
        logprobs.append(
            dict(seed=100 + i, n_vocab=n_vocab, spread=spread, token=token, logprob=x[token].item(),
                 top=top.indices.tolist(), top_logprobs=top.values.tolist())
        )  # fmt: skip
    lines = lambda rows: ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)
    print('{"cases":[\n%s\n],"logprobs":[\n%s\n]}' % (lines(cases), lines(logprobs)))


main()
