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

A row is decodeD (one token at a time behind D cached tokens, ms per token) or
prefillN (a prompt of N tokens into an empty cache, ms in all). The peer is tried
with every cache type and flash attention setting asked for; those near its best
take turns with kvtile, and the one with the lowest median is what counts.
bench/peers.md says why, and what each side's number holds.
"""

import argparse
import contextlib
import csv
import ctypes
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

try:
    import llama_cpp
except ImportError:
    sys.exit("peers.py: no llama_cpp in this Python; see the top of bench/peers.py")

PINNED = "0.3.36"
KV_TYPES = {
    "f16": llama_cpp.GGML_TYPE_F16,
    "bf16": 30,  # GGML_TYPE_BF16, which the bindings leave out
    "q8_0": llama_cpp.GGML_TYPE_Q8_0,
    "q4_0": llama_cpp.GGML_TYPE_Q4_0,
}
QUANTIZED = ("q8_0", "q4_0")
# With more than this share of the CPUs' time gone to others, a row is in doubt.
OTHERS_LIMIT = 0.05
# Each setting's trial is the best of this many tries, and a setting slower than
# this many times the peer's best is out.
TRIALS = 2
NEAR_BEST = 1.25


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the peer keeps and reads its cache."""

    kv: str
    flash: bool

    def __str__(self):
        return f"{self.kv} fa={'on' if self.flash else 'off'}"


class Peer:
    """A model loaded by llama.cpp, driven through its C API as llama-bench does."""

    N_BATCH = 2048
    DECODED = 64
    WARMUP = 16

    def __init__(self, model_path, threads, ubatch):
        self._log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self._log, None)
        llama_cpp.llama_backend_init()
        self.threads = threads
        self.ubatch = ubatch
        self.model = llama_cpp.llama_model_load_from_file(
            str(model_path).encode(), llama_cpp.llama_model_default_params()
        )
        if not self.model:
            sys.exit(f"peers.py: llama.cpp can't load {model_path}")
        vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(vocab)

    @staticmethod
    def cpu():
        """The widest vector instruction set of this build, by kvtile's names."""
        info = llama_cpp.llama_print_system_info().decode()
        for name, key in (("avx512", "AVX512"), ("avx2", "AVX2"), ("neon", "NEON")):
            if re.search(rf"\b{key} = 1\b", info):
                return name
        return "scalar"

    @contextlib.contextmanager
    def context(self, setting, n_ctx):
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = max(n_ctx, self.WARMUP)
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

    def cut(self, ctx, length):
        """Drop all that the cache holds past its first `length` tokens."""
        memory = llama_cpp.llama_get_memory(ctx)
        if not llama_cpp.llama_memory_seq_rm(memory, 0, length, -1):
            sys.exit("peers.py: this model's memory can't be cut back")

    @contextlib.contextmanager
    def decode(self, setting, depth):
        """Fill the cache to `depth` once; the function got measures ms per token."""
        with self.context(setting, depth + self.DECODED) as ctx:
            self.feed(ctx, self.tokens(depth), self.N_BATCH)
            following = self.tokens(self.DECODED)

            def measure():
                self.cut(ctx, depth)
                return self.feed(ctx, following, 1) / len(following)

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


class Kvtile:
    """The kvtile program, run once for each measurement."""

    def __init__(self, program, model_path, threads, options):
        self.program = shutil.which(program)
        if not self.program:
            sys.exit(f"peers.py: {program} is no program")
        self.common = ["-m", str(model_path), "--threads", str(threads), "--json", *options]
        self.seen_cpu = None

    def cpu(self):
        return self.seen_cpu

    def bench(self, kind, option, number):
        command = [self.program, "bench", kind, option, str(number), *self.common]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"peers.py: {' '.join(command)} failed:\n{done.stderr}")
        result = json.loads(done.stdout)
        self.seen_cpu = result.get("cpu", self.seen_cpu)
        return result["rows"]

    def decode(self, depth):
        rows = self.bench("decode", "--depths", depth)
        return next(row["ms_per_token"] for row in rows if row["depth"] == depth)

    def prefill(self, count):
        rows = self.bench("prefill", "--tokens", count)
        return next(row["ms"] for row in rows if row["tokens"] == count)


class Others:
    """The share of all CPU time that other processes took since this was made.

    The peer's threads spin at barriers, so one busy neighbour slows it many times
    over: a ratio from a busy machine says nothing.
    """

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        """All CPU seconds, the busy ones among them, and our own with kvtile's."""
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]
        return sum(ticks) / second, (sum(ticks) - idle) / second, sum(os.times()[:4])

    def share(self):
        total, busy, own = (b - a for a, b in zip(self.start, self.now()))
        return max(0.0, busy - own) / total if total else 0.0


# What a row's name may begin with, and how each side measures it.
ROWS = {
    "decode": (Peer.decode, Kvtile.decode),
    "prefill": (Peer.prefill, Kvtile.prefill),
}


def measure_row(what, peer, kvtile, settings, runs):
    """The row's samples: {setting: [ms, ...]} of the peer, kvtile's [ms, ...], and
    the share of the CPUs' time that others took meanwhile."""
    kind, number = re.fullmatch(r"([a-z]+)(\d+)", what).groups()
    peer_how, kvtile_how = ROWS[kind]
    number = int(number)
    with contextlib.ExitStack() as stack:
        measures = {}
        trial = {}
        for setting in settings:
            measures[setting] = stack.enter_context(peer_how(peer, setting, number))
            trial[setting] = min(measures[setting]() for _ in range(TRIALS))
            note(f"{what}: trial {setting}: {trial[setting]:.3f} ms")
        if kvtile:
            limit = NEAR_BEST * min(trial.values())
            measures = {s: m for s, m in measures.items() if trial[s] <= limit}
            kvtile_how(kvtile, number)
        others = Others()
        peer_ms = {setting: [] for setting in measures}
        kvtile_ms = []
        for _ in range(runs):
            for setting, measure in measures.items():
                peer_ms[setting].append(measure())
            if kvtile:
                kvtile_ms.append(kvtile_how(kvtile, number))
        share = others.share()
    if share > OTHERS_LIMIT:
        note(f"{what}: in doubt, others took {share:.0%} of the CPUs")
    return peer_ms, kvtile_ms, share


def note(text):
    print(text, file=sys.stderr, flush=True)


def table(what, peer_ms, kvtile_ms, others, runs, cpu, threads):
    """The row's lines of the CSV: the peer's best against kvtile, or, with no
    kvtile samples, each of the peer's settings."""
    medians = {setting: statistics.median(ms) for setting, ms in peer_ms.items()}
    shown = [min(medians, key=medians.get)] if kvtile_ms else list(medians)
    ours = statistics.median(kvtile_ms) if kvtile_ms else None
    for setting in shown:
        yield {
            "what": what,
            "peer_ms": f"{medians[setting]:.3f}",
            "kvtile_ms": f"{ours:.3f}" if kvtile_ms else "",
            "ratio": f"{medians[setting] / ours:.2f}" if kvtile_ms else "",
            "runs": runs,
            "cpu": cpu,
            "threads": threads,
            "peer_setting": setting,
            "others_cpu": f"{others:.2f}",
        }


def row_names(text):
    names = text.split(",")
    for name in names:
        found = re.fullmatch(r"([a-z]+)(\d+)", name)
        if not found or found[1] not in ROWS or name == "prefill0":
            raise argparse.ArgumentTypeError(f"{name!r} is neither decodeD nor prefillN")
    return names


def choice_list(choices):
    def parse(text):
        picked = text.split(",")
        for one in picked:
            if one not in choices:
                raise argparse.ArgumentTypeError(f"{one!r} is none of {', '.join(choices)}")
        return picked

    return parse


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def arguments():
    parser = argparse.ArgumentParser(description="Time kvtile beside llama.cpp.")
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--kvtile", default="./kvtile", help="the program")
    parser.add_argument("--kvtile-options", default="", help="more options for kvtile bench")
    parser.add_argument("--peer-only", action="store_true", help="every setting, no kvtile")
    parser.add_argument("--rows", type=row_names, default="decode0,prefill512,prefill4096")
    parser.add_argument("--kv", type=choice_list(KV_TYPES), default="f16,bf16,q8_0",
                        help="the peer's cache types to try: f16, bf16, q8_0, q4_0")
    parser.add_argument("--fa", type=choice_list(("on", "off")), default="on,off",
                        help="the peer's flash attention to try")
    parser.add_argument("--ubatch", type=positive, default=512, help="the peer's n_ubatch")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument("--runs", type=positive, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results/peers.csv"))
    return parser.parse_args()


def main():
    args = arguments()
    if llama_cpp.__version__ != PINNED:
        note(f"peers.py: llama-cpp-python is {llama_cpp.__version__}, not {PINNED}")
    # llama.cpp has no attention without flash over a quantized V.
    settings = [
        Setting(kv, fa == "on")
        for kv in args.kv
        for fa in args.fa
        if fa == "on" or kv not in QUANTIZED
    ]
    if not settings:
        sys.exit("peers.py: a quantized cache needs --fa on")

    peer = Peer(args.model, args.threads, args.ubatch)
    kvtile = None
    if not args.peer_only:
        kvtile = Kvtile(args.kvtile, args.model, args.threads, args.kvtile_options.split())

    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="") as file:
        writer = None
        for what in args.rows:
            samples = measure_row(what, peer, kvtile, settings, args.runs)
            cpu = peer.cpu()
            if kvtile and kvtile.cpu() != cpu:
                note(f"peers.py: the peer is built for {cpu}, kvtile ran {kvtile.cpu()}")
                cpu = f"{cpu} vs {kvtile.cpu()}"
            for line in table(what, *samples, args.runs, cpu, args.threads):
                if writer is None:
                    writer = csv.DictWriter(file, line.keys(), lineterminator="\n")
                    writer.writeheader()
                writer.writerow(line)
                file.flush()
                note(", ".join(str(value) for value in line.values()))


if __name__ == "__main__":
    main()
