#!/usr/bin/env python3
"""Make the test vectors in this folder from outside references.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.24.0 \\
        tokenizers==0.23.3 gguf==0.19.0 numpy==2.4.6
    venv/bin/python tests/vectors/make.py --model SmolLM2-135M-Instruct.Q4_1.gguf --out tests/vectors

Run by hand, with Python 3.11 and the versions above; the outputs are committed and the tests read only
those. Logits and greedy ids come from transformers' LlamaForCausalLM (float32, CPU, eager attention) with
the dequantised weights of the same GGUF file; token ids come from Hugging Face tokenizers, built from the
GGUF's vocabulary and merges. README.md describes the files written.
"""

import argparse
import hashlib
import json
import re
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Quant
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

import cases

SEED = 20250607
PAGE = 64  # top logits are recorded at the last position of every page of this many tokens
TOP = 32
GREEDY = 100
CONTROL = 3  # tokenizer.ggml.token_type of special tokens


# ---- GGUF to transformers --------------------------------------------------------------------------


class Gguf:
    """A GGUF file's metadata values and tensors, the latter dequantised to float32."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def tensor(self, name):
        t = self.tensors[name]
        data = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        return data.reshape([int(n) for n in reversed(t.shape)])


def halves_from_pairs(weight, n_head):
    """Reorder the rows of attn_q or attn_k from GGUF's order to transformers'.

    RoPE turns pairs of rows of a head: GGUF keeps the two rows of a pair next to each other, transformers
    half a head apart.
    """
    rows, columns = weight.shape
    return weight.reshape(n_head, rows // n_head // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def reference(file):
    """The LlamaForCausalLM that a GGUF file describes."""
    hidden = file.get("llama.embedding_length")
    heads = file.get("llama.attention.head_count")
    kv_heads = file.get("llama.attention.head_count_kv")
    head_dim = file.get("llama.attention.key_length", hidden // heads)
    theta = file.get("llama.rope.freq_base")
    tied = "output.weight" not in file.tensors
    config = LlamaConfig(
        vocab_size=len(file.get("tokenizer.ggml.tokens")),
        hidden_size=hidden,
        intermediate_size=file.get("llama.feed_forward_length"),
        num_hidden_layers=file.get("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        max_position_embeddings=file.get("llama.context_length"),
        rms_norm_eps=file.get("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        tie_word_embeddings=tied,
        attn_implementation="eager",
        dtype="float32",
    )
    weights = {
        "model.embed_tokens.weight": file.tensor("token_embd.weight"),
        "model.norm.weight": file.tensor("output_norm.weight"),
        "lm_head.weight": file.tensor("token_embd.weight" if tied else "output.weight"),
    }
    names = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    for layer in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            weight = file.tensor(f"blk.{layer}.{ours}.weight")
            if ours in ("attn_q", "attn_k"):
                weight = halves_from_pairs(weight, heads if ours == "attn_q" else kv_heads)
            weights[f"model.layers.{layer}.{theirs}.weight"] = weight
    assert set(file.tensors) == {"token_embd.weight", "output_norm.weight"} | (
        set() if tied else {"output.weight"}
    ) | {f"blk.{i}.{n}.weight" for i in range(config.num_hidden_layers) for n in names}

    model = LlamaForCausalLM(config).float().eval()
    model.load_state_dict({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in weights.items()}, strict=True)
    assert model.config._attn_implementation == "eager"
    frequencies = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    np.testing.assert_allclose(model.model.rotary_emb.inv_freq.numpy(), frequencies, rtol=1e-5)
    return model


@torch.inference_mode()
def logits_at(model, ids, positions):
    """float32 logits [len(positions)][n_vocab] after reading all of ids at once."""
    hidden = model.model(torch.tensor([ids]), use_cache=False).last_hidden_state[0]
    return model.lm_head(hidden[positions]).numpy()


@torch.inference_mode()
def greedy(model, ids, count):
    """The next ids by largest logit, with a KV cache, and each step's lead over the second largest."""
    step, cache, chosen, gaps = torch.tensor([ids]), None, [], []
    for _ in range(count):
        out = model(step, cache=cache, use_cache=True, logits_to_keep=1)
        best = torch.topk(out.logits[0, -1], 2)
        chosen.append(int(best.indices[0]))
        gaps.append(number(best.values[0] - best.values[1]))
        step, cache = best.indices[:1][None], out.cache
    return chosen, gaps


# ---- tokenizer -------------------------------------------------------------------------------------


def byte_spelling():
    """GPT-2's spelling of each byte as a printable character."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + n) for n, b in enumerate(others)}


def reference_tokenizer(file, special):
    """SmolLM2's tokenizer.json rebuilt; with special, the text's control tokens are parsed."""
    tokens = file.get("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in file.get("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    if special:
        control = [tokens[i] for i in control_ids(file)]
        tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in control])
    assert tokenizer.get_vocab_size() == len(tokens)
    return tokenizer


def control_ids(file):
    return [i for i, kind in enumerate(file.get("tokenizer.ggml.token_type")) if kind == CONTROL]


def tokenizer_vectors(file):
    tokens = file.get("tokenizer.ggml.tokens")
    control = set(control_ids(file))
    tokenizers = {flag: reference_tokenizer(file, flag) for flag in (False, True)}
    byte_of = {spelling: byte for byte, spelling in byte_spelling().items()}

    def encode(text, special=False):
        return tokenizers[special].encode(text, add_special_tokens=False).ids

    encoded = []
    for case in cases.encode_cases(SEED):
        text = case["bytes"].decode("utf-8", errors="replace")
        entry = {"hex": case["bytes"].hex(), "special": case["special"], "ids": encode(text, case["special"])}
        if "unicode" in case:
            entry["unicode"] = case["unicode"]
        encoded.append(entry)
        lost = any(byte in cases.LOST for byte in text.encode())
        back = tokenizers[False].decode(entry["ids"], skip_special_tokens=False)
        assert lost or back == text, text

    assert {b for b, spelling in byte_spelling().items() if spelling not in tokens} == set(cases.LOST)
    decoded = []
    for ids in cases.decode_ids(SEED, tokens, control, encode):
        data = b"".join(
            tokens[i].encode() if i in control else bytes(byte_of[c] for c in tokens[i]) for i in ids
        )
        decoded.append({"ids": ids, "hex": data.hex()})
        assert tokenizers[False].decode(ids, skip_special_tokens=False) == data.decode("utf-8", errors="replace")
    return {"encode": encoded, "decode": decoded}


# ---- SmolLM2 ---------------------------------------------------------------------------------------


def smollm2_vectors(path, license_text, out):
    file = Gguf(path)
    model = reference(file)
    tokenizers = {flag: reference_tokenizer(file, flag) for flag in (False, True)}
    prompts = []
    for name, text, special, decode in cases.prompts(license_text):
        ids = tokenizers[special].encode(text, add_special_tokens=False).ids
        positions = list(range(PAGE - 1, len(ids), PAGE))
        *pages, last = logits_at(model, ids, [*positions, len(ids) - 1])
        top = []
        for position, logits in zip(positions, pages):
            best = np.argsort(-logits, kind="stable")[:TOP]
            top.append({"pos": position, "ids": best.tolist(), "logits": [number(x) for x in logits[best]]})
        prompt = {"name": name, "special": special, "text": text, "ids": ids, "top": top}
        prompt["last"] = write_logits(out / f"smollm2-{name}.f32", last)
        if decode:
            prompt["greedy"], prompt["gap"] = greedy(model, ids, GREEDY)
            assert prompt["greedy"][0] == int(last.argmax())
            print(f"--- {name}, greedy (least gap {min(prompt['gap']):.4f}):")
            print(tokenizers[False].decode(prompt["greedy"], skip_special_tokens=False))
        print(f"{name}: {len(ids)} tokens, last logits {last.min():.2f} to {last.max():.2f}")
        prompts.append(prompt)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    write_json(out / "smollm2.json", {"model_sha256": digest, "prompts": prompts})
    write_json(out / "tokenizer.json", tokenizer_vectors(file))
    return file


# ---- tiny models -----------------------------------------------------------------------------------

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# "types" go round over the matrices of the model, in the order they are written.
TINY = {
    "tiny-a": dict(
        layers=2, hidden=96, heads=3, kv_heads=1, head_dim=32, ffn=160, vocab=300, tied=True, specials_last=False,
        rope_base=10000.0, eps=1e-5, prompt=61, embedding=0.3, types=[Quant.F32],
    ),
    "tiny-b": dict(
        layers=3, hidden=64, heads=2, kv_heads=2, head_dim=80, ffn=96, vocab=307, tied=False, specials_last=True,
        rope_base=500000.0, eps=1e-5, prompt=83, embedding=0.5, types=[Quant.F16, Quant.BF16],
    ),
    "tiny-c": dict(
        layers=2, hidden=128, heads=8, kv_heads=1, head_dim=16, ffn=224, vocab=320, tied=False, specials_last=False,
        rope_base=10000.0, eps=1e-6, prompt=100, embedding=0.5, types=[Quant.Q8_0, Quant.Q4_0, Quant.Q4_1],
    ),
}  # fmt: skip


def tiny_vocabulary(size, specials_last, merges):
    """SmolLM2's first merges on top of all 256 bytes, and the special tokens before or after these."""
    merges = merges[: size - 256 - len(SPECIALS)]
    ordinary = sorted(byte_spelling().values()) + [merge.replace(" ", "") for merge in merges]
    tokens = ordinary + SPECIALS if specials_last else SPECIALS + ordinary
    assert len(set(tokens)) == size
    return tokens, merges


def write_tiny(path, shape, smollm2, rng):
    """Write a random model. Rows of attn_q and attn_k are meant in GGUF's order, pairs next to each other."""
    tokens, merges = tiny_vocabulary(shape["vocab"], shape["specials_last"], smollm2.get("tokenizer.ggml.merges"))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(path.stem)
    writer.add_block_count(shape["layers"])
    writer.add_context_length(512)
    writer.add_embedding_length(shape["hidden"])
    writer.add_feed_forward_length(shape["ffn"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    if shape["head_dim"] != shape["hidden"] // shape["heads"]:
        writer.add_key_length(shape["head_dim"])
        writer.add_value_length(shape["head_dim"])
    writer.add_rope_freq_base(shape["rope_base"])
    writer.add_layer_norm_rms_eps(shape["eps"])
    writer.add_vocab_size(shape["vocab"])
    writer.add_rope_dimension_count(shape["head_dim"])
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(False)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([CONTROL if t in SPECIALS else 1 for t in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_unk_token_id(tokens.index("<|endoftext|>"))
    writer.add_pad_token_id(tokens.index("<|im_end|>"))
    writer.add_chat_template(smollm2.get("tokenizer.chat_template"))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)

    written = 0

    def matrix(name, rows, columns, scale):
        nonlocal written
        kind = shape["types"][written % len(shape["types"])]
        written += 1
        data = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(scale)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(data, kind), raw_dtype=kind)

    def norm(name):
        data = rng.uniform(0.5, 1.5, shape["hidden"]).astype(np.float32)
        writer.add_tensor(f"{name}.weight", data)

    hidden, ffn, q, kv = (
        shape["hidden"], shape["ffn"], shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"],
    )  # fmt: skip
    matrix("token_embd", shape["vocab"], hidden, shape["embedding"])
    for layer in range(shape["layers"]):
        blk = f"blk.{layer}."
        norm(blk + "attn_norm")
        matrix(blk + "attn_q", q, hidden, 1.2 * hidden**-0.5)
        matrix(blk + "attn_k", kv, hidden, 1.2 * hidden**-0.5)
        matrix(blk + "attn_v", kv, hidden, 1.5 * hidden**-0.5)
        matrix(blk + "attn_output", hidden, q, 1.5 * q**-0.5)
        norm(blk + "ffn_norm")
        matrix(blk + "ffn_gate", ffn, hidden, 1.5 * hidden**-0.5)
        matrix(blk + "ffn_up", ffn, hidden, 1.5 * hidden**-0.5)
        matrix(blk + "ffn_down", hidden, ffn, 1.5 * ffn**-0.5)
    norm("output_norm")
    if not shape["tied"]:
        matrix("output", shape["vocab"], hidden, 2.5 * hidden**-0.5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tiny_vectors(name, shape, smollm2, out):
    rng = np.random.default_rng([SEED, *name.encode()])
    path = out / f"{name}.gguf"
    write_tiny(path, shape, smollm2, rng)
    ids = rng.integers(0, shape["vocab"], shape["prompt"]).tolist()
    file = Gguf(path)
    logits = logits_at(reference(file), ids, list(range(len(ids))))
    print(f"{name}: {len(ids)} tokens, logits {logits.min():.2f} to {logits.max():.2f}, deviation {logits.std():.2f}")
    written = write_logits(out / f"{name}.f32", logits)
    write_json(out / f"{name}.json", {"ids": ids, "n_vocab": shape["vocab"], "logits": written})


# ---- files -----------------------------------------------------------------------------------------


def number(value):
    """A float32 as the shortest double that names it among float32 values."""
    return float(f"{float(value):.9g}")


def write_logits(path, logits):
    path.write_bytes(logits.astype("<f4").tobytes())
    return path.name


def write_json(path, value):
    """Indented JSON in ASCII, with lists of numbers and the innermost objects on one line each."""
    text = json.dumps(value, indent=1)
    text = re.sub(r"\[\s*([-+.\deE,\s]*?)\s*\]", lambda m: "[" + re.sub(r",\s+", ",", m[1]) + "]", text)
    text = re.sub(r"\{\n\s*(\"(?:hex|ids|pos)\".*?)\n\s*\}", lambda m: "{" + re.sub(r"\n\s*", " ", m[1]) + "}", text, flags=re.S)
    assert json.loads(text) == value
    path.write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", type=Path, required=True, help="SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--license", type=Path, default="/usr/share/common-licenses/Apache-2.0", help="text of the long prompt")
    args = parser.parse_args()
    smollm2 = smollm2_vectors(args.model, args.license.read_text(), args.out)
    for name, shape in TINY.items():
        tiny_vectors(name, shape, smollm2, args.out)


if __name__ == "__main__":
    main()
