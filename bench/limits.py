#!/usr/bin/env python3
"""Time kvtile against what this machine allows it: a second thread, a taken core, a cold start.

    bench/limits.py --model M.gguf --kvtile ./kvtile --rows threads,busy,start --runs 5 \\
      --out bench/results/limits.csv

Rows: `threads` (two threads against one, the bandwidth of plain reads beside it), `busy`
(two threads while another process takes one core, against one thread on a quiet machine)
and `start` (from the start of the process to its first token). bench/limits.md says what
each line means. Plain Python 3 on Linux, no packages.

bench/peers.py runs kvtile and watches the machine with what is here.
"""

import argparse
import contextlib
import csv
import dataclasses
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

# With more than this share of the CPUs' time gone to others, a row is in doubt.
OTHERS_LIMIT = 0.05
SCRIPT = os.path.basename(sys.argv[0])
# Takes one CPU until it is killed, or until this script is gone.
BUSY_LOOP = """import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]):
    pass
"""


class Kvtile:
    """The kvtile program, run once for each measurement."""

    # kvtile bench KIND: its option for the numbers, and the names in its JSON.
    FIELDS = {
        "decode": ("--depths", "depth", "ms_per_token"),
        "prefill": ("--tokens", "tokens", "ms"),
    }

    def __init__(self, program, model_path, options):
        self.program = shutil.which(program)
        if not self.program:
            sys.exit(f"{SCRIPT}: {program} is no program")
        self.model = ["-m", str(model_path)]
        self.options = options
        self.seen_cpu = None

    def cpu(self):
        return self.seen_cpu

    def bench(self, kind, *options):
        """The JSON object of one `kvtile bench`."""
        command = [self.program, "bench", kind, *options, *self.model, "--json", *self.options]
        command = [str(word) for word in command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{SCRIPT}: {' '.join(command)} failed:\n{done.stderr}")
        result = json.loads(done.stdout)
        self.seen_cpu = result.get("cpu", self.seen_cpu)
        return result

    def times(self, kind, numbers, *options):
        """{number: ms} of a `decode` or `prefill`, and the read bandwidth in bytes a second."""
        option, number, ms = self.FIELDS[kind]
        result = self.bench(kind, option, ",".join(map(str, numbers)), *options)
        return {row[number]: row[ms] for row in result["rows"]}, result["bandwidth_read"]

    def first_token_ms(self, *options):
        """From the start of a process to the first byte of its answer."""
        command = [self.program, "run", *self.model, "-p", "Hello", "-n", "1", *options]
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
            run.stdout.read(1)
            ms = (time.perf_counter() - start) * 1e3
        if run.returncode != 0:
            sys.exit(f"{SCRIPT}: {' '.join(command)} failed")
        return ms


class Others:
    """The share of all CPU time that other processes took since this was made.

    A ratio from a busy machine says nothing: threads that wait for each other are slowed
    many times over by one neighbour.
    """

    def __init__(self):
        self.start = self.now()

    @staticmethod
    def now():
        """All CPU seconds, the busy ones among them, and our own with our children's."""
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(field) for field in file.readline().split()[1:9]]
        second = os.sysconf("SC_CLK_TCK")
        idle = ticks[3] + ticks[4]
        return sum(ticks) / second, (sum(ticks) - idle) / second, sum(os.times()[:4])

    def share(self):
        total, busy, own = (b - a for a, b in zip(self.start, self.now()))
        return max(0.0, busy - own) / total if total else 0.0


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement of one line, and what it is held against."""

    what: str
    ms: float
    against_ms: float = None
    bandwidth: float = None
    against_bandwidth: float = None


def threads_round(kvtile):
    for kind, numbers in (("decode", (32768,)), ("prefill", (512, 2048))):
        one, one_bandwidth = kvtile.times(kind, numbers, "--threads", 1)
        two, two_bandwidth = kvtile.times(kind, numbers, "--threads", 2)
        for number in numbers:
            yield Sample(
                what=f"threads-{kind}{number}",
                ms=two[number],
                against_ms=one[number],
                bandwidth=two_bandwidth,
                against_bandwidth=one_bandwidth,
            )


def busy_round(kvtile):
    depths = (0, 1024)
    one, _ = kvtile.times("decode", depths, "--threads", 1)
    with busy_cpu(max(os.sched_getaffinity(0))):
        two, _ = kvtile.times("decode", depths, "--threads", 2)
    for depth in depths:
        yield Sample(what=f"busy-decode{depth}", ms=two[depth], against_ms=one[depth])


def start_round(kvtile):
    yield Sample(what="start", ms=kvtile.first_token_ms("--threads", "2"))


ROWS = {"threads": threads_round, "busy": busy_round, "start": start_round}


@contextlib.contextmanager
def busy_cpu(cpu):
    """Another process keeps `cpu` busy meanwhile."""
    loop = subprocess.Popen([sys.executable, "-c", BUSY_LOOP, str(cpu), str(os.getpid())])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def two_cpus():
    """Keep to two CPUs, so that a core taken is one of two on any machine."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        sys.exit(f"{SCRIPT}: two CPUs are needed")
    os.sched_setaffinity(0, allowed[:2])


def measure(name, kvtile, runs):
    """{what: [samples]} of a row, and the share of the CPUs' time that others took."""
    samples = {}
    others = Others()
    for _ in range(runs):
        for sample in ROWS[name](kvtile):
            samples.setdefault(sample.what, []).append(sample)
    share = others.share()
    if share > OTHERS_LIMIT:
        note(f"{name}: in doubt, others took {share:.0%} of the CPUs")
    return samples, share


def note(text):
    print(text, file=sys.stderr, flush=True)


def line(what, samples, others, cpu):
    def median(field):
        values = [getattr(sample, field) for sample in samples]
        return statistics.median(values) if values[0] else None

    def text(value, digits):
        return "" if value is None else f"{value:.{digits}f}"

    def ratio(a, b):
        return text(a / b if a and b else None, 2)

    ms, against_ms = median("ms"), median("against_ms")
    read, against_read = median("bandwidth"), median("against_bandwidth")
    return {
        "what": what,
        "ms": text(ms, 3),
        "against_ms": text(against_ms, 3),
        "ratio": ratio(against_ms, ms),
        "read_gb_per_s": text(read and read / 1e9, 1),
        "against_read_gb_per_s": text(against_read and against_read / 1e9, 1),
        "read_ratio": ratio(read, against_read),
        "runs": len(samples),
        "cpu": cpu or "",
        "others_cpu": text(others, 2),
    }


def csv_write(path, lines):
    """Lines as dicts, each written and said when it comes: a run that is stopped leaves those before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = None
        for line in lines:
            if writer is None:
                writer = csv.DictWriter(file, line.keys(), lineterminator="\n")
                writer.writeheader()
            writer.writerow(line)
            file.flush()
            note(", ".join(str(value) for value in line.values()))


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
    parser = argparse.ArgumentParser(description="Time kvtile against what this machine allows.")
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--kvtile", default="./kvtile", help="the program")
    parser.add_argument("--kvtile-options", default="", help="more options for kvtile bench")
    parser.add_argument("--rows", type=choice_list(ROWS), default="threads,busy,start")
    parser.add_argument("--runs", type=positive, default=5)
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path("bench/results/limits.csv"))
    return parser.parse_args()


def lines(args):
    two_cpus()
    kvtile = Kvtile(args.kvtile, args.model, args.kvtile_options.split())
    kvtile.first_token_ms()  # the file is in the page cache from here on
    for name in args.rows:
        samples, others = measure(name, kvtile, args.runs)
        for what, of_what in samples.items():
            yield line(what, of_what, others, kvtile.cpu())


def main():
    args = arguments()
    csv_write(args.out, lines(args))


if __name__ == "__main__":
    main()
