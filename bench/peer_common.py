"""llama.cpp as the scripts of this folder use it: loaded and silent, batches, logits, other types of weights.

Owns what is the same for all of them. Leaves what is measured to peers.py, formats_peer.py and modes.py, and what
needs no package to limits.py.
"""

import contextlib
import os
import pathlib
import sys
import tempfile

SCRIPT = os.path.basename(sys.argv[0])
try:
    import llama_cpp as L
except ImportError:
    sys.exit(f"{SCRIPT}: no llama_cpp in this Python; see the top of bench/peers.py")
import numpy as np

from limits import note

PINNED = "0.3.36"
# Types of a cache by ggml's numbers, of which the bindings leave some out.
KV_TYPES = {"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2, "iq4_nl": 20}
FILE_F32 = 0  # the type of a file of weights in float32


@L.llama_log_callback
def _silent(*_):
    pass


def start():
    """Before the first model: no chatter, and a word if this is another version than the published numbers'."""
    if L.__version__ != PINNED:
        note(f"{SCRIPT}: llama-cpp-python is {L.__version__}, not {PINNED}")
    L.llama_log_set(_silent, None)
    L.llama_backend_init()


def model_open(path):
    """llama_model_free() is the caller's."""
    model = L.llama_model_load_from_file(str(path).encode(), L.llama_model_default_params())
    if not model:
        sys.exit(f"{SCRIPT}: llama.cpp can't load {path}")
    return model


def vocab_size(model):
    return L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))


def text_tokens(model, text):
    """Tokens of bytes, without a start token."""
    room = (L.llama_token * (len(text) + 8))()
    vocab = L.llama_model_get_vocab(model)
    return list(room[: L.llama_tokenize(vocab, text, len(text), room, len(room), False, False)])


@contextlib.contextmanager
def batch_of(tokens, positions, sequences):
    """A batch of tokens that all give logits."""
    batch = L.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, (token, position, sequence) in enumerate(zip(tokens, positions, sequences)):
        batch.token[i], batch.pos[i], batch.logits[i] = token, position, 1
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
    try:
        yield batch
    finally:
        L.llama_batch_free(batch)


class Reader:
    """A model over a cache of types k and v that computes `step` tokens at a time; decode() gives the logits of every
    token in float64."""

    def __init__(self, model, n_ctx, k="f32", v="f32", flash=False, step=128, threads=None):
        p = L.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = n_ctx, n_ctx, step
        p.type_k, p.type_v, p.flash_attn_type = KV_TYPES[k], KV_TYPES[v], int(flash)
        if threads:
            p.n_threads = p.n_threads_batch = threads
        self.context = L.llama_init_from_model(model, p)
        if not self.context:
            sys.exit(f"{SCRIPT}: llama.cpp refuses a cache of {k} and {v}")
        self.n_vocab = vocab_size(model)

    def decode(self, tokens, at):
        """Tokens of sequence 0, the first at position `at`."""
        with batch_of(tokens, range(at, at + len(tokens)), [0] * len(tokens)) as batch:
            if L.llama_decode(self.context, batch) != 0:
                sys.exit(f"{SCRIPT}: llama_decode failed at token {at}")
            logits = np.ctypeslib.as_array(L.llama_get_logits(self.context), shape=(len(tokens), self.n_vocab))
            return logits.astype(np.float64)

    def forget(self):
        L.llama_memory_clear(L.llama_get_memory(self.context), True)

    def close(self):
        L.llama_free(self.context)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(p, q):
    """The Kullback-Leibler divergence of rows of logarithms, in nats."""
    return (np.exp(p) * (p - q)).sum(-1)


def weights_convert(source, target, file_type):
    """The same weights in a file of another type."""
    p = L.llama_model_quantize_default_params()
    p.ftype, p.allow_requantize, p.nthread = file_type, True, 2
    if L.llama_model_quantize(str(source).encode(), str(target).encode(), p) != 0:
        sys.exit(f"{SCRIPT}: {source} cannot be converted")


@contextlib.contextmanager
def widened(path):
    """The same weights in a file of float32, for as long as this is open."""
    with tempfile.TemporaryDirectory() as folder:
        wide = pathlib.Path(folder) / "f32.gguf"
        weights_convert(path, wide, FILE_F32)
        yield wide
