#!/usr/bin/env python3
"""What KIVI's cache loses on a model: the reference that kvtile's two-bit formats are held against.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 tokenizers gguf==0.19.0 numpy==2.4.6
    venv/bin/python bench/kivi.py --model M.gguf --text TEXT --ctx 2048 --chunks 4

KIVI (Liu et al. 2024, arXiv 2402.02750): keys behind rope per channel in groups of 32 tokens, values per token in
groups of 32 channels; a group has a least element and a step in f16 and codes between, so 2 bits are 3.0 and 4 bits
5.0 with all of it counted. The newest 128 tokens stay as they are. As in kvtile, position decides: the query at
position p sees the tokens up to p - 128 in codes, of keys in whole groups, and those behind them in float32, which is
as good as this format gets; "kivi2-code" is what its published code does with keys: 1 to 128 tokens in full.

A plain forward pass of the Llama family in float32, weights widened from the file, over the same windows as
`kvtile perplexity --kl --math exact`; the text is split as SmolLM's tokenizer does it. Each line: perplexity, mean and
99.9th percentile of the KL divergence from float32 keys and values, share of equal likeliest tokens.
"""

import argparse
import pathlib

import gguf
import tokenizers
import torch

GROUP, RESIDUAL, QUERIES = 32, 128, 256


class Model:
    """Weights and numbers of a file, widened to float32."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {t.name: torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type)) for t in reader.tensors}
        if self.fields["general.architecture"] != "llama":
            raise SystemExit(f"kivi.py: {path} is no plain Llama model")
        self.n_layers, self.n_q = self.of("block_count"), self.of("attention.head_count")
        self.n_kv, self.dim = self.of("attention.head_count_kv"), self.of("rope.dimension_count")
        self.epsilon, self.base = self.of("attention.layer_norm_rms_epsilon"), self.of("rope.freq_base")
        self.embedding = self.tensors["token_embd.weight"]
        self.output = self.tensors.get("output.weight", self.embedding)

    def of(self, key):
        return self.fields["llama." + key]

    def layer(self, n):
        return lambda name: self.tensors[f"blk.{n}.{name}.weight"]

    def norm(self, x, weight):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.epsilon) * weight

    def rope(self, x):
        """Elements 2i and 2i + 1 of a head turn together. x [formats, tokens, heads, dim]."""
        turns = torch.arange(x.shape[1])[:, None] * self.base ** (-torch.arange(0, self.dim, 2).double() / self.dim)
        cos, sin = turns.cos().float()[:, None], turns.sin().float()[:, None]
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


# ------------------------------------------------------------------------------------------------------ formats


def codes(x, bits):
    """The last axis of x is one group: what its codes give back."""
    least, most = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    step, least = ((most - least) / (2**bits - 1)).half().float(), least.half().float()
    code = ((x - least) / step.clamp(min=1e-30)).round().clamp(0, 2**bits - 1)
    return code * step + least


def keys(k, bits):
    """k [heads, tokens, dim], tokens that fill no group as they are."""
    n = k.shape[1] // GROUP * GROUP
    groups = k[:, :n].unflatten(1, (-1, GROUP)).transpose(-1, -2)
    return torch.cat((codes(groups, bits).transpose(-1, -2).flatten(1, 2), k[:, n:]), 1)


def values(v, bits):
    return codes(v.unflatten(-1, (-1, GROUP)), bits).flatten(-2)


class Float32:
    name, bits = "float32", 32

    def encode(self, k, v):
        return k, v

    def ends(self, p):
        """Behind the last key and the last value that the queries at positions p see in codes."""
        return 0 * p, 0 * p


class Kivi:
    def __init__(self, bits, as_code=False):
        self.code_bits, self.as_code = bits, as_code
        self.name, self.bits = f"kivi{bits}" + ("-code" if as_code else ""), bits + 2 * 16 / GROUP

    def encode(self, k, v):
        return keys(k, self.code_bits), values(v, self.code_bits)

    def ends(self, p):
        old = (p + 1 - RESIDUAL).clamp(min=0)
        return (p // RESIDUAL * RESIDUAL if self.as_code else old // GROUP * GROUP), old


# ------------------------------------------------------------------------------------------------- forward pass


def attention(kind, q, k, v):
    """q [heads_q, tokens, dim], k and v [heads_kv, tokens, dim]."""
    group = q.shape[0] // k.shape[0]
    k, v, sealed_k, sealed_v = (x.repeat_interleave(group, 0) for x in (k, v, *kind.encode(k, v)))
    out = torch.empty_like(q)
    for first in range(0, q.shape[1], QUERIES):
        end = min(first + QUERIES, q.shape[1])
        p, at, part = torch.arange(first, end)[:, None], torch.arange(end), q[:, first:end] * q.shape[-1] ** -0.5
        end_k, end_v = kind.ends(p)
        score = torch.where(at < end_k, part @ sealed_k[:, :end].mT, part @ k[:, :end].mT)
        weight = score.masked_fill(at > p, -torch.inf).softmax(-1)
        out[:, first:end] = (weight * (at < end_v)) @ sealed_v[:, :end] + (weight * (at >= end_v)) @ v[:, :end]
    return out


def forward(model, kinds, ids):
    """The last hidden rows [formats, tokens, width]; each format has a pass of its own through the layers."""
    x = model.embedding[ids].expand(len(kinds), -1, -1)
    for n in range(model.n_layers):
        weight = model.layer(n)
        h = model.norm(x, weight("attn_norm"))
        q, k, v = ((h @ weight(f"attn_{name}").T).unflatten(-1, (-1, model.dim)) for name in "qkv")
        q, k = model.rope(q), model.rope(k)
        rows = [attention(kind, *(t[i].transpose(0, 1) for t in (q, k, v))) for i, kind in enumerate(kinds)]
        x = x + torch.stack(rows).transpose(1, 2).flatten(-2) @ weight("attn_output").T
        h = model.norm(x, weight("ffn_norm"))
        x = x + (torch.nn.functional.silu(h @ weight("ffn_gate").T) * (h @ weight("ffn_up").T)) @ weight("ffn_down").T
    return model.norm(x, model.tensors["output_norm.weight"])


class Tally:
    def __init__(self):
        self.nll, self.kl, self.same = [], [], []

    def count(self, log_p, reference, following):
        self.nll += (-log_p.gather(1, following[:, None])[:, 0]).tolist()
        self.kl += (reference.exp() * (reference - log_p)).sum(1).tolist()
        self.same += (reference.argmax(1) == log_p.argmax(1)).tolist()

    def line(self, kind):
        n, kl = len(self.kl), sorted(self.kl)
        return (f"{kind.name},{kind.bits},{n},{torch.tensor(self.nll).mean().exp():.4f},{sum(kl) / n:.4g},"
                f"{kl[n - 1 - n // 1000]:.4g},{100 * sum(self.same) / n:.2f}")


def window_read(model, kinds, tallies, ids):
    hidden = forward(model, kinds, ids)
    for first in range(0, len(ids) - 1, QUERIES):
        end = min(first + QUERIES, len(ids) - 1)
        rows = [(h[first:end] @ model.output.T).double().log_softmax(-1) for h in hidden]
        for tally, row in zip(tallies, rows):
            tally.count(row, rows[0], ids[first + 1 : end + 1])


def tokens(model, args):
    f = model.fields
    words = {word: i for i, word in enumerate(f["tokenizer.ggml.tokens"])}
    merges = [tuple(pair.split(" ")) for pair in f["tokenizer.ggml.merges"]]
    t = tokenizers.Tokenizer(tokenizers.models.BPE(words, merges))
    split = tokenizers.pre_tokenizers
    t.pre_tokenizer = split.Sequence([split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False)])
    return torch.tensor(t.encode(args.text.read_text()).ids[: args.ctx * args.chunks])


def main(kinds=(Float32(), Kivi(2), Kivi(2, as_code=True), Kivi(4))):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in "model", "text":
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--chunks", type=int, default=4)
    args = parser.parse_args()
    model, tallies = Model(args.model), [Tally() for _ in kinds]
    ids = tokens(model, args)
    print("format,bits,tokens,ppl,kl_mean,kl_p999,top1", flush=True)
    with torch.inference_mode():
        for window in ids.split(args.ctx):
            window_read(model, kinds, tallies, window)
    for kind, tally in zip(kinds, tallies):
        print(tally.line(kind))


if __name__ == "__main__":
    main()
