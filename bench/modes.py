#!/usr/bin/env python3
"""What precision loses on each type of weights: kvtile's modes and llama.cpp's own products, both beside float32.

    peer/bin/python bench/modes.py --model M.gguf --text TEXT --kvtile ./kvtile --tokens 512 --types Q8_0,Q4_K_M

(peers.py says how the environment is made; numpy comes with it.) For each file type the model is quantised again by
llama.cpp, which then also widens that file to float32. That float32 file in llama.cpp is the reference: of llama.cpp
with the quantised file on the same tokens, and of the logits that kvtile in exact mode gives behind each of 48 tokens
of an answer. `kvtile bench modes` says what fast and accurate lose against exact. Prints a line of CSV for each type.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import peer_common
from peer_common import FILE_F32, divergence, log_softmax

import llama_cpp as L
import numpy as np

TYPES = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_M": 12, "Q4_K_M": 15, "Q5_K_M": 17,
         "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30}
CHUNK, PROMPT_BYTES, ANSWER = 128, 900, 48


class Peer(peer_common.Reader):
    """A model in llama.cpp, keys and values in float32."""

    def __init__(self, path, context):
        self.model = peer_common.model_open(path)
        super().__init__(self.model, context, step=CHUNK)

    def tokens(self, text):
        return peer_common.text_tokens(self.model, text)

    def close(self):
        super().close()
        L.llama_model_free(self.model)


def peer_loss(reference, other, ids):
    kl, same = [], []
    for at in range(0, len(ids), CHUNK):
        a, b = (m.decode(ids[at : at + CHUNK], at) for m in (reference, other))
        kl += list(divergence(log_softmax(a), log_softmax(b)))
        same += list(a.argmax(1) == b.argmax(1))
    return np.mean(kl), np.mean(same)


def exact_distance(kvtile, path, reference, prompt, folder):
    """Largest difference of a logit, largest divergence, and how many likeliest tokens agree."""
    (folder / "prompt").write_bytes(prompt)
    command = [kvtile, "run", "-m", path, "-f", folder / "prompt", "--math", "exact", "--kv", "f32", "-n", str(ANSWER),
               "--logits", folder / "logits"]
    subprocess.run(command, check=True, capture_output=True)
    mine = np.fromfile(folder / "logits", np.float32).reshape(-1, reference.n_vocab).astype(np.float64)
    ids, theirs = reference.tokens(prompt), []
    reference.forget()
    for i, row in enumerate(mine):
        theirs.append(reference.decode(ids if i == 0 else ids[-1:], 0 if i == 0 else len(ids) - 1)[-1])
        ids.append(int(row.argmax()))
    theirs = np.array(theirs)
    same = int((theirs.argmax(1) == mine.argmax(1)).sum())
    off = divergence(log_softmax(theirs), log_softmax(mine)).max()
    return np.abs(theirs - mine).max(), off, f"{same}/{len(mine)}"


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in "model", "text", "kvtile":
        a.add_argument(f"--{name}", required=True)
    a.add_argument("--types", default=",".join(TYPES))
    a.add_argument("--tokens", type=int, default=512)
    a = a.parse_args()
    peer_common.start()
    text = pathlib.Path(a.text).read_bytes()[: 16 * a.tokens + PROMPT_BYTES]
    print("type,perplexity,fast_mean,fast_p999,fast_same,accurate_mean,accurate_same,peer_mean,peer_same,"
          "exact_logit,exact_divergence,exact_same")
    for name in a.types.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            path, wide = folder / f"{name}.gguf", folder / "f32.gguf"
            peer_common.weights_convert(a.model, path, TYPES[name])
            peer_common.weights_convert(path, wide, FILE_F32)
            reference, other = Peer(wide, a.tokens + 512), Peer(path, a.tokens + 512)
            peer = peer_loss(reference, other, reference.tokens(text)[: a.tokens])
            exact = exact_distance(a.kvtile, path, reference, text[:PROMPT_BYTES], folder)
            reference.close()
            other.close()
            modes = [a.kvtile, "bench", "modes", "-m", path, "-f", a.text, "--ctx", str(a.tokens), "--json"]
            fast, accurate, float32 = json.loads(subprocess.run(modes, check=True, capture_output=True).stdout)["rows"]
        print(f"{name},{float32['ppl']:.4f},{fast['kl_mean']:.3e},{fast['kl_p999']:.3e},"
              f"{fast['top1_agree']:.4f},{accurate['kl_mean']:.3e},{accurate['top1_agree']:.4f},{peer[0]:.3e},"
              f"{peer[1]:.4f},{exact[0]:.2e},{exact[1]:.1e},{exact[2]}", flush=True)


main()
