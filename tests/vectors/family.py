#!/usr/bin/env python3
"""Make family.json, family.f32 and family-*.gguf in this folder: a tiny random model of each architecture and of each
way of stretching positions, with logits of transformers.

    python3 -m venv venv && venv/bin/pip install torch==2.15.0 transformers==5.24.0 gguf==0.19.0 numpy==2.4.6
    venv/bin/python tests/vectors/family.py --out tests/vectors
    venv/bin/python tests/vectors/family.py --out /elsewhere --float     all weights F32, to compare other programs with

Run by hand; the outputs are committed and the tests read only those. A row of MODELS says what transformers' class is
configured with and what the GGUF file has to say about it; docs/add-a-model.md tells how to write one. The reference
holds the weights as they are read back from their types in the file. README.md describes the files written."""

import argparse
import json
import math
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Quant

SEED = 20250711
VOCAB = 266
CONTEXT = 128

# ---- what is made ----------------------------------------------------------------------------------------------
#
# config: transformers' own words, on top of COMMON. keys: what the file says besides, behind the prefix.
# pairs: the file holds the rows of q and k reordered into pairs (GGUF's llama); otherwise as transformers has them.
# prompts: lengths; `context`: of the engine that reads one. factors: name and function of a tensor of factors.
# types: of the matrices, in the order of the model's parameters, where they are others than usual.

COMMON = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, tie_word_embeddings=True,
    pad_token_id=None, bos_token_id=0, eos_token_id=0, attn_implementation="eager", dtype="float32",
)  # fmt: skip


def rope(kind="default", theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


def llama3_factors(p, dim):
    """The converters' formula: what Llama 3 divides each frequency by."""
    frequency = p["rope_theta"] ** -(np.arange(0, dim, 2) / dim)
    turns = p["original_max_position_embeddings"] * frequency / (2 * math.pi)
    share = np.clip((turns - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"]), 0, 1)
    return 1 / ((1 - share) / p["factor"] + share)


LONG = [1.0, 1.3, 2.1, 3.7, 5.5, 7.9, 11.0, 16.0]
SHORT = [1.0, 1.0, 1.1, 1.25, 1.4, 1.7, 2.0, 2.2]

MODELS = {
    "llama-linear": dict(
        arch="llama", cls="Llama", pairs=True, prompts=[50],
        config=dict(hidden_size=160, intermediate_size=32, num_hidden_layers=1, num_attention_heads=5,
                    num_key_value_heads=1, head_dim=24, rope_parameters=rope("linear", factor=4.0)),
        keys={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "llama-llama3": dict(
        arch="llama", cls="Llama", pairs=True, prompts=[70],
        config=dict(num_hidden_layers=1, tie_word_embeddings=False, rope_parameters=rope(
            "llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32)),
        factors={"rope_freqs": lambda c: llama3_factors(c.rope_parameters, c.head_dim)},
    ),
    "llama-yarn": dict(
        arch="llama", cls="Llama", pairs=True, prompts=[70],
        config=dict(num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=48,
                    rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=32,
                                         beta_fast=1.0, beta_slow=0.25)),
        keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32,
              "rope.scaling.yarn_beta_fast": 1.0, "rope.scaling.yarn_beta_slow": 0.25},
    ),
    "llama-bias": dict(
        arch="llama", cls="Llama", pairs=True, prompts=[40],
        config=dict(hidden_size=96, num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=3, head_dim=16,
                    attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    ),
    "mistral": dict(
        arch="llama", cls="Mistral", pairs=True, prompts=[40], config=dict(num_key_value_heads=1, sliding_window=40),
        keys={"attention.sliding_window": 40},
    ),
    "mistral3": dict(
        arch="mistral3", cls="Ministral3", pairs=True, prompts=[60],
        config=dict(num_hidden_layers=1, head_dim=32, rope_parameters=rope(
            "yarn", 1e6, factor=8.0, original_max_position_embeddings=64, beta_fast=8.0, beta_slow=1.0, mscale=1.0,
            mscale_all_dim=0.5, llama_4_scaling_beta=0.1)),
        keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 8.0, "rope.scaling.original_context_length": 64,
              "rope.scaling.yarn_beta_fast": 8.0, "rope.scaling.yarn_beta_slow": 1.0,
              "rope.scaling.yarn_log_multiplier": 0.5, "attention.temperature_scale": 0.1},
    ),
    "qwen2": dict(arch="qwen2", cls="Qwen2", prompts=[40], config=dict(num_key_value_heads=1)),
    "qwen3": dict(
        arch="qwen3", cls="Qwen3", prompts=[40], config=dict(head_dim=32, rope_parameters=rope(theta=1e6)),
    ),
    "smollm3": dict(
        arch="smollm3", cls="SmolLM3", pairs=True, prompts=[50],
        config=dict(hidden_size=32, num_hidden_layers=5, rope_parameters=rope(theta=5e6)),
    ),
    "phi3-partial": dict(
        arch="phi3", cls="Phi3", prompts=[40],
        config=dict(num_key_value_heads=4, rope_parameters=rope(partial_rotary_factor=0.5)),
        keys={"attention.sliding_window": 0},
    ),
    "phi3-long": dict(
        arch="phi3", cls="Phi3", prompts=[24, 70],
        config=dict(num_hidden_layers=1, original_max_position_embeddings=32, rope_parameters=rope(
            "longrope", long_factor=LONG, short_factor=SHORT, original_max_position_embeddings=32)),
        keys={"rope.scaling.original_context_length": 32,
              "rope.scaling.attn_factor": math.sqrt(1 + math.log(CONTEXT / 32) / math.log(32))},
        factors={"rope_factors_long": lambda c: LONG, "rope_factors_short": lambda c: SHORT},
    ),
    "granite": dict(
        arch="granite", cls="Granite", pairs=True, prompts=[40],
        config=dict(attention_multiplier=0.4, embedding_multiplier=6.0, residual_multiplier=0.22,
                    logits_scaling=3.0),
        keys={"attention.scale": 0.4, "embedding_scale": 6.0, "residual_scale": 0.22, "logit_scale": 3.0},
    ),
    "seed-oss": dict(
        arch="seed_oss", cls="SeedOss", prompts=[40],
        config=dict(num_key_value_heads=1, head_dim=32, attention_bias=True, rope_parameters=rope(theta=1e6)),
    ),
    "ernie": dict(
        arch="ernie4_5", cls="Ernie4_5", prompts=[40],
        config=dict(num_hidden_layers=1, head_dim=32, rope_parameters=rope(theta=500000.0)),
    ),
    "glm4": dict(
        arch="glm4", cls="Glm4", prompts=[40],
        config=dict(num_hidden_layers=1, head_dim=16, attention_bias=True,
                    rope_parameters=rope(partial_rotary_factor=0.5)),
    ),
    "olmo2": dict(arch="olmo2", cls="Olmo2", prompts=[40], config=dict(tie_word_embeddings=False)),
    "llama-blocks": dict(
        arch="llama", cls="Llama", pairs=True, prompts=[40],
        config=dict(hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=4,
                    num_key_value_heads=1, head_dim=16, tie_word_embeddings=False),
        types=[Quant.Q2_K, Quant.Q3_K, Quant.IQ4_NL, Quant.Q6_K, Quant.Q5_0, Quant.Q4_K, Quant.Q5_K, Quant.IQ4_XS,
               Quant.Q5_1],
    ),
}  # fmt: skip

# transformers' names of the parts of a layer; those that a model has not are passed over.
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_feedforward_layernorm": "post_ffw_norm",
}
# Where one name means something else (in olmo2 it is a norm behind attention), or is written as another.
OTHER_PARTS = dict.fromkeys(["olmo2", "seed_oss"], {"post_attention_layernorm": "post_attention_norm"})
OTHER_PARTS["glm4"] = {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}


# ---- weights ---------------------------------------------------------------------------------------------------


def random_weights(model, rng):
    """Norms and biases far from 1 and 0, so that one that is forgotten shows; matrices that let attention matter."""
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            value = rng.uniform(-0.7, 0.7, p.shape)
        elif p.dim() == 1:
            value = rng.uniform(0.5, 1.6, p.shape)
        elif "embed_tokens" in name:
            value = rng.standard_normal(p.shape) * 0.5
        else:
            value = rng.standard_normal(p.shape) * 1.5 * p.shape[1] ** -0.5
        p.data = torch.from_numpy(value.astype(np.float32))


# Where scales and minima lie in blocks that the package reads but does not make: those are drawn.
SCALES = {Quant.IQ4_NL: 0, Quant.IQ4_XS: 0, Quant.Q2_K: 80, Quant.Q3_K: 108, Quant.Q4_K: 0, Quant.Q5_K: 0, Quant.Q6_K: 208}
MINIMA = {Quant.Q2_K: 82, Quant.Q4_K: 2, Quant.Q5_K: 2}


def put_half(blocks, at, values):
    blocks[:, at : at + 2] = np.asarray(values, dtype="<f2").reshape(-1, 1).view(np.uint8)


def drawn(data, kind, rng):
    """Blocks of any codes, with scales and minima such that their values have the data's deviation and a mean of 0."""
    columns, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (data.size // columns, size), dtype=np.uint8)

    def values(scale, minimum):
        put_half(blocks, SCALES[kind], scale)
        if kind in MINIMA:
            put_half(blocks, MINIMA[kind], minimum)
        return gguf.quants.dequantize(blocks, kind)

    share = -values(1, 0).mean() / values(0, 1).mean() if kind in MINIMA else 0
    scales = data.std() / values(1, share).std() * rng.uniform(0.7, 1.3, len(blocks))
    values(scales, share * scales)
    return blocks.reshape(*data.shape[:-1], -1)


def gguf_name(name, arch):
    outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    stem, kind = name.rsplit(".", 1)
    if stem in outside:
        return f"{outside[stem]}.{kind}"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    part = (PARTS | OTHER_PARTS.get(arch, {}))[part]
    return f"blk.{layer}.{part}.{kind}"


def pairs_from_halves(data, n_heads):
    """Rows of a head in the order 0, half, 1, half + 1, ..."""
    rows = data.reshape(n_heads, 2, data.shape[0] // n_heads // 2, -1)
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(data.shape)


def write_tensors(writer, row, config, model, types, rng):
    """Each weight goes to the file in the next of the types and comes back to the model as the file's reader sees it."""
    turn = 0
    for name, p in model.named_parameters():
        data, theirs = p.data.numpy(), gguf_name(name, row["arch"])
        kind = Quant.F32
        if data.ndim == 2:
            kind = types[turn % len(types)]
            turn += 1
            if data.shape[1] % 32 and kind != Quant.F32:
                kind = Quant.F16
            coded = drawn(data, kind, rng) if kind in SCALES else gguf.quants.quantize(data, kind)
            p.data = torch.from_numpy(gguf.quants.dequantize(coded, kind).astype(np.float32).reshape(data.shape))
        else:
            coded = data
        if row.get("pairs") and (".attn_q." in theirs or ".attn_k." in theirs):
            coded = pairs_from_halves(coded, config.num_attention_heads if ".attn_q." in theirs else config.num_key_value_heads)
        writer.add_tensor(theirs, coded, raw_dtype=kind)
    for name, values in row.get("factors", {}).items():
        writer.add_tensor(f"{name}.weight", np.asarray(values(config), dtype=np.float32))


# ---- the file --------------------------------------------------------------------------------------------------


def byte_spelling():
    """GPT-2's spelling of each byte as a printable character."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + n) for n, b in enumerate(others)}


def add_tokenizer(writer):
    merges = ["Ġ t", "Ġ a", "h e", "i n", "r e", "o n", "Ġt he"]
    tokens = ["<|im_start|>", "<|im_end|>", *byte_spelling().values(), *(m.replace(" ", "") for m in merges), "<pad>"]
    assert len(tokens) == len(set(tokens)) == VOCAB
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t.startswith("<") and len(t) > 1 else 1 for t in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)


def add_config(writer, row, c):
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    writer.add_context_length(c.max_position_embeddings)
    writer.add_embedding_length(c.hidden_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_rope_freq_base(c.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(int(head * c.rope_parameters.get("partial_rotary_factor", 1.0)))
    writer.add_vocab_size(c.vocab_size)
    if head != c.hidden_size // c.num_attention_heads:
        writer.add_key_length(head)
        writer.add_value_length(head)
    for key, value in row.get("keys", {}).items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}[type(value)]
        add(f"{row['arch']}.{key}", value)


@torch.inference_mode()
def logits_of(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].numpy()


def make(name, row, out, types):
    rng = np.random.default_rng([SEED, *name.encode()])
    config = getattr(transformers, row["cls"] + "Config")(**(COMMON | row.get("config", {})))
    model = getattr(transformers, row["cls"] + "ForCausalLM")(config).float().eval()
    assert config._attn_implementation == "eager"
    random_weights(model, rng)
    path = out / f"family-{name}.gguf"
    writer = gguf.GGUFWriter(path, row["arch"])
    writer.add_name("tiny")  # llama.cpp takes a file with phi3 in its name for the real one, and misses its tokens
    add_config(writer, row, config)
    add_tokenizer(writer)
    write_tensors(writer, row, config, model, types, rng)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    runs = []
    for n in row["prompts"]:
        ids = rng.integers(0, VOCAB, n).tolist()
        logits = logits_of(model, ids)
        positions = sorted({*range(0, n, 9), n - 1})
        print(f"{name}: {path.stat().st_size} bytes, {n} tokens, logits {logits.min():.1f} to {logits.max():.1f}")
        runs.append(dict(name=name, ids=ids, positions=positions, logits=logits[positions]))
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--float", action="store_true", help="all weights F32")
    args = parser.parse_args()
    types = [Quant.F32] if args.float else [Quant.Q8_0, Quant.Q8_0, Quant.F16, Quant.Q4_0]
    runs = []
    for name, row in MODELS.items():
        runs += make(name, row, args.out, types if args.float else row.get("types", types))
    logits = np.concatenate([run.pop("logits") for run in runs])
    (args.out / "family.f32").write_bytes(logits.astype("<f4").tobytes())
    lines = ",\n".join("  " + json.dumps(run) for run in runs)
    (args.out / "family.json").write_text(f'{{"n_vocab": {VOCAB}, "runs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
