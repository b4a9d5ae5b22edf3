#!/usr/bin/env python3
"""Time kvtile beside llama.cpp: same GGUF, same threads, same machine, in turn.

The peer is llama.cpp through the PyPI package llama-cpp-python 0.3.36, which
carries llama.cpp 0.5.0-dev at commit 0c1e57098bba43ac29e6e3b677cdceebdd22334f
(2026-10-01, ggml 0.25.3). The package's checkout is shallow, so it has no build
number. It is compiled from source with the instruction sets of llama.cpp's own
Sapphire Rapids release variant, less AMX, into an environment of its own:

    python3 -m venv peer
    CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DGGML_SSE42=ON \
      -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_BMI2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
      -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON \
      -DGGML_AVX512_BF16=ON" \
      peer/bin/pip install --no-cache-dir --no-binary llama-cpp-python \
        llama-cpp-python==0.3.36

For a CPU without AVX-512 leave the four AVX512 options out. Then:

    peer/bin/python bench/peers.py --model M.gguf --kvtile ./kvtile \
      --rows decode0,decode8192,prefill512,prefill4096 --threads 2 --runs 5 \
      --out bench/results/peers.csv

A row is decodeD (one token at a time behind D cached tokens, ms per token), prefillN
(a prompt of N tokens into an empty cache, ms in all) or shareNxP (N sequences behind
one common prefix of P tokens, a token each in one batch, ms per step). The peer is
tried with every cache type and flash attention setting asked for; those near its
best take turns with kvtile, and the one with the lowest median is what counts.
bench/peers.md says why, and what each side's number holds.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import pathlib
import random
import re
import statistics
import sys
import time
import typing

import limits
import peer_common
from limits import choice_list, csv_write, note, positive
from peer_common import KV_TYPES

import llama_cpp

NOT_QUANTIZED = ("f32", "f16", "bf16")
# A setting whose trial is slower than this many times the peer's best is out.
NEAR_BEST = 1.25
# From here on a prompt, or a depth, is long: settings are tried on a shorter one.
LONG = 4096
DEEP = 16384
# The key of kvtile's samples among those of the peer's settings.
KVTILE = "kvtile"


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the peer keeps and reads its cache.

    unified: all sequences in one buffer, where a common prefix is held once. Without
    it each has a stream of its own, with a copy of the prefix.
    """

    kv: str
    flash: bool
    unified: bool = True

    def __str__(self):
        streams = "" if self.unified else " streams"
        return f"{self.kv} fa={'on' if self.flash else 'off'}{streams}"


class Peer:
    """A model loaded by llama.cpp, driven through its C API as llama-bench does."""

    N_BATCH = 2048
    WARMUP = 16
    # Tokens of one decode sample, and fewer of them where each takes long.
    DECODED = 64
    DECODED_DEEP = 16
    # Steps of one sample over a shared prefix.
    STEPS = 16

    def __init__(self, model_path, threads, ubatch, computed):
        self.threads = threads
        self.ubatch = ubatch
        self.computed = computed
        self.model = peer_common.model_open(model_path)
        self.vocab_size = peer_common.vocab_size(self.model)

    @staticmethod
    def cpu():
        """The widest vector instruction set of this build, by kvtile's names."""
        info = llama_cpp.llama_print_system_info().decode()
        names = {"AVX512_BF16": "avx512bf16", "AVX512": "avx512", "AVX2": "avx2", "NEON": "neon"}
        has = (name for key, name in names.items() if re.search(rf"\b{key} = 1\b", info))
        return next(has, "scalar")

    @contextlib.contextmanager
    def context(self, setting, n_ctx, n_seqs=1):
        """`n_ctx` cells for `n_seqs` sequences together, warmed up and empty."""
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = max(n_ctx, self.WARMUP)
        params.n_seq_max = n_seqs
        params.kv_unified = setting.unified
        params.n_batch = self.N_BATCH
        params.n_ubatch = self.ubatch
        params.n_threads = params.n_threads_batch = self.threads
        params.type_k = params.type_v = KV_TYPES[setting.kv]
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if setting.flash
            else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        ctx = llama_cpp.llama_init_from_model(self.model, params)
        if not ctx:
            sys.exit(f"peers.py: llama.cpp refuses a context of {n_ctx} with {setting}")
        try:
            self.feed(ctx, self.tokens(self.WARMUP), self.WARMUP)
            self.cut(ctx, 0)
            yield ctx
        finally:
            llama_cpp.llama_free(ctx)

    def tokens(self, n):
        draw = random.Random(n)
        return [draw.randrange(self.vocab_size) for _ in range(n)]

    def feed(self, ctx, tokens, step):
        """Append tokens to sequence 0, `step` a call, and return the ms it took."""
        buffer = (llama_cpp.llama_token * len(tokens))(*tokens)
        start = time.perf_counter()
        for at in range(0, len(tokens), step):
            count = min(step, len(tokens) - at)
            part = ctypes.cast(
                ctypes.byref(buffer, at * ctypes.sizeof(llama_cpp.llama_token)),
                ctypes.POINTER(llama_cpp.llama_token),
            )
            batch = llama_cpp.llama_batch_get_one(part, count)
            if llama_cpp.llama_decode(ctx, batch) != 0:
                sys.exit(f"peers.py: llama_decode failed at token {at}")
            llama_cpp.llama_synchronize(ctx)
        return (time.perf_counter() - start) * 1e3

    def cut(self, ctx, end):
        """Drop what any sequence holds at position `end` and behind it."""
        memory = llama_cpp.llama_get_memory(ctx)
        if not llama_cpp.llama_memory_seq_rm(memory, -1, end, -1):
            sys.exit("peers.py: this model's memory can't be cut back")

    def fill(self, ctx, depth):
        """Give sequence 0 `depth` cells and return the position behind its last.

        Computing a deep cache takes far longer than measuring it, so the first
        `computed` tokens are a prompt and the other cells copies of theirs: the state
        is restored into sequence 1, which hands its cells to sequence 0. Positions
        repeat, but what a token costs depends on the number of cells alone.
        """
        end = min(depth, self.computed)
        self.feed(ctx, self.tokens(end), self.N_BATCH)
        if end == depth:
            return end
        memory = llama_cpp.llama_get_memory(ctx)
        size = llama_cpp.llama_state_seq_get_size(ctx, 0)
        state = (ctypes.c_uint8 * size)()
        llama_cpp.llama_state_seq_get_data(ctx, state, size, 0)
        for held in range(end, depth, end):
            if llama_cpp.llama_state_seq_set_data(ctx, state, size, 1) != size:
                sys.exit(f"peers.py: no room for copies behind {held} cells")
            llama_cpp.llama_memory_seq_cp(memory, 1, 0, 0, min(end, depth - held))
            llama_cpp.llama_memory_seq_rm(memory, 1, 0, -1)
        return end

    @contextlib.contextmanager
    def decode(self, setting, depth):
        """Fill the cache to `depth` once; the function got measures ms per token."""
        count = self.DECODED if depth < DEEP else self.DECODED_DEEP
        # Room for whole copies: what the last one has too much is dropped afterwards.
        whole = -(-depth // self.computed) * self.computed
        with self.context(setting, whole + count, n_seqs=2) as ctx:
            end = self.fill(ctx, depth)
            following = self.tokens(count)

            def measure():
                self.cut(ctx, end)
                return self.feed(ctx, following, 1) / count

            yield measure

    @contextlib.contextmanager
    def prefill(self, setting, count):
        """The function got measures the ms of a prompt of `count` tokens."""
        with self.context(setting, count) as ctx:
            prompt = self.tokens(count)

            def measure():
                self.cut(ctx, 0)
                return self.feed(ctx, prompt, self.N_BATCH)

            yield measure

    @contextlib.contextmanager
    def share(self, setting, n_seqs, prefix):
        """Compute the prefix once; the function got measures ms per step of a token
        and its logits for each sequence, all of them just behind the prefix."""
        n_ctx = prefix + n_seqs if setting.unified else n_seqs * (prefix + 1)
        row = peer_common.batch_of(self.tokens(n_seqs), [prefix] * n_seqs, range(n_seqs))
        with self.context(setting, n_ctx, n_seqs) as ctx, row as batch:
            self.feed(ctx, self.tokens(prefix), self.N_BATCH)
            for seq in range(1, n_seqs):
                llama_cpp.llama_memory_seq_cp(llama_cpp.llama_get_memory(ctx), 0, seq, -1, -1)

            def measure():
                return sum(self.step(ctx, batch, prefix) for _ in range(self.STEPS)) / self.STEPS

            yield measure

    def step(self, ctx, batch, position):
        """The ms of decoding `batch` at `position`, what was there dropped first."""
        self.cut(ctx, position)
        start = time.perf_counter()
        if llama_cpp.llama_decode(ctx, batch) != 0:
            sys.exit(f"peers.py: llama_decode failed for {batch.n_tokens} sequences")
        llama_cpp.llama_synchronize(ctx)
        return (time.perf_counter() - start) * 1e3


class Kvtile(limits.Kvtile):
    """kvtile's side of each kind of row: one process is one sample."""

    def decode(self, depth):
        return self.times("decode", [depth])[0][depth]

    def prefill(self, count):
        # A long prompt is its own average: one of them is a sample, as on the peer's side.
        steps = ["--steps", 1] if count >= LONG else []
        return self.times("prefill", [count], *steps)[0][count]

    def share(self, n_seqs, prefix):
        result = self.bench("share", "--sequences", n_seqs, "--prefix", prefix, "--own", 0)
        return next(row["ms_per_step"] for row in result["rows"] if row["mode"] == "shared")


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of row: its name's pattern and how each side measures it.

    trial(*numbers) are the numbers that settings are tried with, those of a shorter row
    where the row itself is too long to be tried with each.
    """

    pattern: str
    peer: typing.Callable
    kvtile: typing.Callable
    trial: typing.Callable
    tokens: typing.Callable  # (*numbers) of the row: tokens that its ms give
    streams: bool = False  # can sequences have streams of their own?


KINDS = (
    Kind(r"decode(\d+)", Peer.decode, Kvtile.decode,
         trial=lambda depth: (depth if depth < DEEP else DEEP // 2,), tokens=lambda depth: 1),
    Kind(r"prefill([1-9]\d*)", Peer.prefill, Kvtile.prefill,
         trial=lambda count: (count if count < LONG else LONG // 4,), tokens=lambda count: count),
    Kind(r"share([1-9]\d*)x([1-9]\d*)", Peer.share, Kvtile.share,
         trial=lambda *numbers: numbers, tokens=lambda n_seqs, prefix: n_seqs, streams=True),
)


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    kind: Kind
    numbers: tuple

    @classmethod
    def parse(cls, name):
        for kind in KINDS:
            found = re.fullmatch(kind.pattern, name)
            if found:
                return cls(name, kind, tuple(map(int, found.groups())))
        raise argparse.ArgumentTypeError(f"{name!r} is none of decodeD, prefillN, shareNxP")

    @property
    def trial(self):
        return self.kind.trial(*self.numbers)

    def settings(self, asked):
        """The peer's settings that this row can be measured with."""
        if not self.kind.streams:
            return asked
        return [dataclasses.replace(s, unified=u) for s in asked for u in (True, False)]


def near_best(row, peer, settings, trials):
    """The settings whose best trial comes near the best of all."""
    best = {}
    for setting in settings:
        with row.kind.peer(peer, setting, *row.trial) as measure:
            best[setting] = min(measure() for _ in range(trials))
        note(f"{row.name}: trial {setting}: {best[setting]:.3f} ms")
    limit = NEAR_BEST * min(best.values())
    return [setting for setting in settings if best[setting] <= limit]


def measure_row(row, peer, kvtile, settings, args):
    """The row's samples, {setting or KVTILE: [ms, ...]}, and the share of the CPUs'
    time that others took meanwhile."""
    settings = row.settings(settings)
    if kvtile:
        settings = near_best(row, peer, settings, args.trials)
    with contextlib.ExitStack() as stack:
        measures = {
            setting: stack.enter_context(row.kind.peer(peer, setting, *row.numbers))
            for setting in settings
        }
        if kvtile:
            measures[KVTILE] = lambda: row.kind.kvtile(kvtile, *row.numbers)
        if row.trial == row.numbers:
            for measure in measures.values():
                measure()
        samples = {side: [] for side in measures}
        others = limits.Others()
        for _ in range(args.runs):
            for side, measure in measures.items():
                samples[side].append(measure())
        share = others.share()
    if share > limits.OTHERS_LIMIT:
        note(f"{row.name}: in doubt, others took {share:.0%} of the CPUs")
    return samples, share


def table(row, samples, others, cpu, args):
    """The row's lines of the CSV: the peer's best against kvtile, or, with no
    kvtile samples, each of the peer's settings."""
    medians = {side: statistics.median(ms) for side, ms in samples.items()}
    ours = medians.pop(KVTILE, None)
    tokens = row.kind.tokens(*row.numbers)
    for setting in [min(medians, key=medians.get)] if ours else medians:
        theirs = medians[setting]
        yield {
            "what": row.name,
            "peer_ms": f"{theirs:.3f}",
            "kvtile_ms": f"{ours:.3f}" if ours else "",
            "ratio": f"{theirs / ours:.2f}" if ours else "",
            "runs": args.runs,
            "cpu": cpu,
            "threads": args.threads,
            "peer_setting": setting,
            "others_cpu": f"{others:.2f}",
            "peer_tokens_per_s": f"{tokens * 1e3 / theirs:.1f}",
            "kvtile_tokens_per_s": f"{tokens * 1e3 / ours:.1f}" if ours else "",
        }


def row_list(text):
    return [Row.parse(name) for name in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description="Time kvtile beside llama.cpp.")
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--kvtile", default="./kvtile", help="the program")
    parser.add_argument("--kvtile-options", default="", help="more options for kvtile bench")
    parser.add_argument("--peer-only", action="store_true", help="every setting, no kvtile")
    parser.add_argument("--rows", type=row_list, default="decode0,prefill512,prefill4096")
    parser.add_argument("--kv", type=choice_list(KV_TYPES), default="f16,bf16,q8_0",
                        help="the peer's cache types to try, of " + ", ".join(KV_TYPES))
    parser.add_argument("--fa", type=choice_list(("on", "off")), default="on,off",
                        help="the peer's flash attention to try")
    parser.add_argument("--ubatch", type=positive, default=512, help="the peer's n_ubatch")
    parser.add_argument("--computed", type=positive, default=2048,
                        help="cells at depth that the peer computes; the others are copies")
    parser.add_argument("--trials", type=positive, default=2, help="tries of each setting")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--runs", type=positive, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results/peers.csv"))
    return parser.parse_args()


def lines(args, peer, kvtile, settings):
    for row in args.rows:
        samples, others = measure_row(row, peer, kvtile, settings, args)
        cpu = peer.cpu()
        if kvtile and kvtile.cpu() != cpu:
            note(f"peers.py: the peer is built for {cpu}, kvtile ran {kvtile.cpu()}")
            cpu = f"{cpu} vs {kvtile.cpu()}"
        yield from table(row, samples, others, cpu, args)


def main():
    args = arguments()
    peer_common.start()
    # llama.cpp has no attention without flash over a quantized V.
    settings = [
        Setting(kv, fa == "on")
        for kv in args.kv
        for fa in args.fa
        if fa == "on" or kv in NOT_QUANTIZED
    ]
    if not settings:
        sys.exit("peers.py: a quantized cache needs --fa on")

    peer = Peer(args.model, args.threads, args.ubatch, args.computed)
    kvtile = None
    if not args.peer_only:
        options = ["--threads", args.threads, *args.kvtile_options.split()]
        kvtile = Kvtile(args.kvtile, args.model, options)

    csv_write(args.out, lines(args, peer, kvtile, settings))


if __name__ == "__main__":
    main()
