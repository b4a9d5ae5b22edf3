#!/usr/bin/env python3
"""What formats of the cache lose and take: kvtile's beside llama.cpp's, same file, same text, same windows.

    peer/bin/python bench/formats_peer.py quality --model M.gguf --text TEXT --kvtile ./kvtile \\
      --ctx 2048 --chunks 4 --out bench/results/formats-quality.csv
    peer/bin/python bench/formats_peer.py speed --model M.gguf --kvtile ./kvtile \\
      --rows decode0,decode8192,decode32768,prefill4096 --runs 3 --out bench/results/formats-speed.csv

peers.py says how the environment is made. bench/peers.md, "Formats of the cache", says what a line holds.

quality: several contexts of llama.cpp, one for each format, read the same windows of the text step by step, and each
one's probabilities are compared with those over its own cache in float32 without flash attention (with it llama.cpp
narrows such a cache to f16, and gives the bits that f16 gives). With --widen the same weights are widened to float32
first, so that products round nothing and what is left is the format's. kvtile's lines are those of `kvtile perplexity
--kl` over the same windows.

speed: rows of peers.py, for pairs of formats of about the same bits, one sample of each side in turn.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys

import limits
import peer_common
import peers
from limits import choice_list, csv_write, note, positive
from peer_common import KV_TYPES, divergence, log_softmax

import llama_cpp as L
import numpy as np

STEP = 128  # tokens that a context reads at a time, as kvtile perplexity does
BITS = {"f32": 32, "f16": 16, "bf16": 16, "q8_0": 8.5, "q5_1": 6, "q5_0": 5.5, "q4_1": 5, "q4_0": 4.5, "iq4_nl": 4.5}
REFERENCE = "f32-noflash"
# With this in its environment llama.cpp leaves keys and values of a quantised cache as they are.
NO_ROTATION = "LLAMA_ATTN_ROT_DISABLE"


@dataclasses.dataclass(frozen=True)
class Format:
    """A cache of the peer: "q8_0", "q8_0/q4_0" for keys and values apart, "q4_0-plain" without rotation,
    "f32-noflash" without flash attention."""

    name: str
    k: str
    v: str
    rotated: bool
    flash: bool

    @classmethod
    def parse(cls, name):
        types, _, how = name.partition("-")
        k, _, v = types.partition("/")
        v = v or k
        if k not in KV_TYPES or v not in KV_TYPES or how not in ("", "plain", "noflash"):
            raise argparse.ArgumentTypeError(f"{name!r} is no format: TYPE, TYPE/TYPE, TYPE-plain or TYPE-noflash")
        return cls(name, k, v, how != "plain", how != "noflash")

    @property
    def bits(self):
        return (BITS[self.k] + BITS[self.v]) / 2


def format_list(text):
    return [Format.parse(name) for name in text.split(",")]


# ------------------------------------------------------------------------------------------------------- quality


class Reader(peer_common.Reader):
    """The model over one format of the cache, and what it is off by so far."""

    def __init__(self, model, kind, n_ctx, threads):
        os.environ.pop(NO_ROTATION, None)
        if not kind.rotated:
            os.environ[NO_ROTATION] = "1"
        super().__init__(model, n_ctx, kind.k, kind.v, kind.flash, STEP, threads)
        self.kind = kind
        self.nll, self.kl, self.same = [], [], []

    def count(self, log_p, reference, following):
        n = len(following)
        self.nll += list(-log_p[np.arange(n), following])
        self.kl += list(divergence(reference[:n], log_p[:n]))
        self.same += list(log_p[:n].argmax(1) == reference[:n].argmax(1))


def window_read(readers, window):
    for at in range(0, len(window), STEP):
        part, following = window[at : at + STEP], window[at + 1 : at + STEP + 1]
        reference = None
        for reader in readers:
            log_p = log_softmax(reader.decode(part, at))
            reference = log_p if reference is None else reference
            reader.count(log_p, reference, following)


def line_of(side, file, ctx, name, bits, math, result):
    return {"side": side, "weights": file, "ctx": ctx, "format": name, "bits": f"{bits:.4g}", "math": math,
            "tokens": result["tokens"], "ppl": f"{result['ppl']:.4f}", "kl_mean": f"{result['kl_mean']:.4g}",
            "kl_p999": f"{result['kl_p999']:.4g}", "top1": f"{100 * result['top1_agree']:.2f}"}


def peer_quality(path, weights, args):
    """Lines of the peer's formats, the reference first."""
    model = peer_common.model_open(path)
    if L.llama_vocab_get_add_bos(L.llama_model_get_vocab(model)):
        sys.exit("formats_peer.py: windows of this model begin with a start token, which this script does not add")
    tokens = peer_common.text_tokens(model, args.text.read_bytes())[: args.chunks * args.ctx]
    readers = [Reader(model, kind, args.ctx, args.threads) for kind in [Format.parse(REFERENCE), *args.formats]]
    for first in range(0, args.chunks * args.ctx, args.ctx):
        window_read(readers, tokens[first : first + args.ctx])
        for reader in readers:
            reader.forget()
        note(f"{weights}: {first + args.ctx} tokens")
    for r in readers:
        kl = np.sort(r.kl)
        result = {"tokens": len(kl), "ppl": np.exp(np.mean(r.nll)), "kl_mean": kl.mean(),
                  "kl_p999": kl[len(kl) - 1 - len(kl) // 1000], "top1_agree": np.mean(r.same)}
        yield line_of("llama.cpp", weights, args.ctx, r.kind.name, r.kind.bits, "", result)
        r.close()
    L.llama_model_free(model)


def kvtile_quality(args):
    for math in args.math:
        for name in args.kv:
            command = [args.kvtile, "perplexity", "-m", args.model, "-f", args.text, "--ctx", args.ctx, "--stride",
                       args.ctx, "--chunks", args.chunks, "--kl", "--json", "--kv", name, "--math", math, "--threads",
                       args.threads]
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"formats_peer.py: {' '.join(map(str, command))} failed:\n{done.stderr}")
            result = json.loads(done.stdout)
            yield line_of("kvtile", args.model.name, args.ctx, name, result["bits_per_element"], math, result)


def quality_lines(args):
    if args.kvtile:
        yield from kvtile_quality(args)
    if args.formats and not args.widen_only:
        yield from peer_quality(args.model, args.model.name, args)
    if args.formats and (args.widen or args.widen_only):
        with peer_common.widened(args.model) as wide:
            yield from peer_quality(wide, "widened to f32", args)


# --------------------------------------------------------------------------------------------------------- speed


def speed_lines(args):
    peer = peers.Peer(args.model, args.threads, 512, 2048)
    for row in args.rows:
        with contextlib.ExitStack() as stack:
            sides = {}
            for kv in dict.fromkeys(theirs for theirs, _ in args.pairs if theirs):
                setting = peers.Setting(kv, True)
                sides["llama.cpp", kv] = stack.enter_context(row.kind.peer(peer, setting, *row.numbers))
            for kv in dict.fromkeys(ours for _, ours in args.pairs if ours):
                options = ["--threads", args.threads, "--kv", kv]
                kvtile = peers.Kvtile(args.kvtile, args.model, options)
                sides["kvtile", kv] = lambda k=kvtile: row.kind.kvtile(k, *row.numbers)
            yield from pairs_lines(row, rounds(row, sides, args.runs), args)


def rounds(row, sides, runs):
    """{side: [ms]}, and the share of the processors that others took."""
    samples = {side: [] for side in sides}
    others = limits.Others()
    for _ in range(runs):
        for side, measure in sides.items():
            samples[side].append(measure())
            note(f"{row.name}: {' '.join(side)}: {samples[side][-1]:.3f} ms")
    return samples, others.share()


def pairs_lines(row, measured, args):
    samples, others = measured
    median = {side: statistics.median(ms) for side, ms in samples.items()}
    for theirs, ours in args.pairs:
        a, b = median.get(("llama.cpp", theirs)), median.get(("kvtile", ours))
        yield {"what": row.name, "peer_kv": theirs, "peer_ms": f"{a:.3f}" if a else "", "kvtile_kv": ours,
               "kvtile_ms": f"{b:.3f}" if b else "", "ratio": f"{a / b:.2f}" if a and b else "", "runs": args.runs,
               "threads": args.threads, "others_cpu": f"{others:.2f}"}


def pair_list(text):
    """q8_0=k8v8: the peer's format and ours; either side may be left out."""
    pairs = [pair.partition("=")[::2] for pair in text.split(",")]
    for theirs, _ in pairs:
        if theirs and theirs not in KV_TYPES:
            raise argparse.ArgumentTypeError(f"{theirs!r} is none of {', '.join(KV_TYPES)}")
    return pairs


# -------------------------------------------------------------------------------------------------- the command


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("quality", "speed"))
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--kvtile", help="the program; without it the peer alone")
    parser.add_argument("--ctx", type=positive, default=2048)
    parser.add_argument("--chunks", type=positive, default=4, help="windows of --ctx tokens")
    parser.add_argument("--formats", type=format_list, default="f16,q8_0,q5_1,q4_0,q8_0/q4_0,f16/q4_0",
                        help="the peer's, each against its " + REFERENCE)
    parser.add_argument("--widen", action="store_true", help="the peer once more with weights widened to float32")
    parser.add_argument("--widen-only", action="store_true", help="with weights widened alone")
    parser.add_argument("--kv", type=lambda text: text.split(","), help="kvtile's formats",
                        default="bf16,f16,e4m3,e5m2,k8v8,k8v4,k4v4,k4v2,k3v2,k2v2")
    parser.add_argument("--math", type=choice_list(("exact", "accurate", "fast")), default="exact,fast")
    parser.add_argument("--rows", type=peers.row_list, default="decode0,decode8192,decode32768,prefill4096")
    parser.add_argument("--pairs", type=pair_list, default="f16=bf16,q8_0=k8v8,q4_0=k4v4,=k8v4,=k2v2",
                        help="the peer's format and kvtile's")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--runs", type=positive, default=3)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    return parser.parse_args()


def main():
    args = arguments()
    if args.what == "quality" and not args.text:
        sys.exit("formats_peer.py: quality wants --text")
    if args.what == "speed" and not args.kvtile:
        args.pairs = [(theirs, "") for theirs, _ in args.pairs if theirs]
    peer_common.start()
    csv_write(args.out, quality_lines(args) if args.what == "quality" else speed_lines(args))


if __name__ == "__main__":
    main()
