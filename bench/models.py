#!/usr/bin/env python3
"""Write a GGUF model of random weights, for measuring speed and memory alone.

The tokenizer and every option but the shape come from an existing file of a Llama-like
model, so that llama.cpp and kvtile load the new file as they load that one:

    python3 -m venv models
    models/bin/pip install gguf==0.19.0 numpy
    models/bin/python bench/models.py --like SmolLM2-135M.gguf --type F16 random.F16.gguf
    models/bin/python bench/models.py --like SmolLM2-135M.gguf --type Q4_1 --shape 1b 1b.Q4_1.gguf

--shape file is the shape of that file; 1b is Llama-3.2-1B's (width 2048, 16 layers, 32
query and 8 kv heads of 64, ffn 8192) with the file's vocabulary. Every matrix has the
type asked for, the embedding as well, which is the output matrix too where the file has
none of its own. Norms are ones in F32.

A weight is drawn from a normal distribution of variance 1 / columns, so that activations
keep their size from layer to layer. A matrix's numbers depend on --seed and its place
alone: files of one seed and shape hold the same model, rounded to each type. Types that
the gguf package only reads (Q2_K to Q6_K, IQ4_NL, IQ4_XS) are blocks of random bytes with
scales that give the same variance; their rows are a multiple of 256 (32 for IQ4_NL) long.
"""

import argparse
import dataclasses
import pathlib
import sys

try:
    import gguf
    import numpy
except ImportError:
    sys.exit("models.py: no gguf or no numpy in this Python; see the top of this file")

TYPES = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
# Drawn as bytes: where a block has its scale, and that of its minima, which is so many times
# as large that they take the mean off.
DRAWN = {"IQ4_NL": (0, None, 0), "IQ4_XS": (0, None, 0), "Q2_K": (80, 82, 1.5), "Q3_K": (108, None, 0),
         "Q4_K": (0, 2, 7.5), "Q5_K": (0, 2, 15.5), "Q6_K": (208, None, 0)}
# The writer sets these itself, or they describe what the other file's weights were made of.
LEFT_OUT = ("GGUF.", "general.", "quantize.")


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int
    n_layers: int
    n_heads: int
    n_heads_kv: int
    dim_head: int
    ffn: int

    def options(self, arch):
        """The file's options that say this shape."""
        return {
            f"{arch}.embedding_length": self.width,
            f"{arch}.block_count": self.n_layers,
            f"{arch}.attention.head_count": self.n_heads,
            f"{arch}.attention.head_count_kv": self.n_heads_kv,
            f"{arch}.rope.dimension_count": self.dim_head,
            f"{arch}.feed_forward_length": self.ffn,
        }

    def tensors(self, n_vocab, tied):
        """Names and shapes, rows first: matrices have two numbers, norms one."""
        kv = self.n_heads_kv * self.dim_head
        q = self.n_heads * self.dim_head
        yield "token_embd.weight", (n_vocab, self.width)
        for i in range(self.n_layers):
            yield f"blk.{i}.attn_norm.weight", (self.width,)
            yield f"blk.{i}.attn_q.weight", (q, self.width)
            yield f"blk.{i}.attn_k.weight", (kv, self.width)
            yield f"blk.{i}.attn_v.weight", (kv, self.width)
            yield f"blk.{i}.attn_output.weight", (self.width, q)
            yield f"blk.{i}.ffn_norm.weight", (self.width,)
            yield f"blk.{i}.ffn_gate.weight", (self.ffn, self.width)
            yield f"blk.{i}.ffn_up.weight", (self.ffn, self.width)
            yield f"blk.{i}.ffn_down.weight", (self.width, self.ffn)
        yield "output_norm.weight", (self.width,)
        if not tied:
            yield "output.weight", (n_vocab, self.width)


SHAPES = {"1b": Shape(width=2048, n_layers=16, n_heads=32, n_heads_kv=8, dim_head=64, ffn=8192)}


class Like:
    """The existing file: its options, its shape, its vocabulary."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.fields = reader.fields
        self.arch = self.value("general.architecture")
        self.n_vocab = len(self.fields["tokenizer.ggml.tokens"].data)
        self.tied = all(tensor.name != "output.weight" for tensor in reader.tensors)

    def value(self, key):
        return self.fields[key].contents()

    def shape(self):
        def option(name):
            return self.value(f"{self.arch}.{name}")

        return Shape(
            width=option("embedding_length"),
            n_layers=option("block_count"),
            n_heads=option("attention.head_count"),
            n_heads_kv=option("attention.head_count_kv"),
            dim_head=option("rope.dimension_count"),
            ffn=option("feed_forward_length"),
        )

    def options(self, shape):
        """Each as (key, value, type, type of an array's elements), the shape's put in."""
        changed = shape.options(self.arch)
        for key, field in self.fields.items():
            if key.startswith(LEFT_OUT):
                continue
            element = field.types[-1] if len(field.types) > 1 else None
            yield key, changed.get(key, field.contents()), field.types[0], element


def drawn_blocks(n, draw, kind, scale):
    d_at, m_at, ratio = DRAWN[kind.name]
    blocks = draw.integers(0, 256, (n, gguf.GGML_QUANT_SIZES[kind][1]), numpy.uint8)
    for at, value in ((d_at, scale), (m_at, scale * ratio)):
        if at is not None:
            blocks[:, at : at + 2] = numpy.frombuffer(numpy.float16(value).tobytes(), numpy.uint8)
    return blocks


def drawn_weights(dims, draw, kind):
    sample = drawn_blocks(1000, draw, kind, 1)
    spread = gguf.quants.dequantize(sample, kind).std()
    block = gguf.GGML_QUANT_SIZES[kind][0]
    return drawn_blocks(dims[0] * dims[1] // block, draw, kind, dims[1] ** -0.5 / spread)


def weights(dims, place, seed, kind):
    """The bytes of one tensor: `dims` as Shape.tensors gives them, `place` its number."""
    if len(dims) == 1:
        return numpy.ones(dims, numpy.float32)
    draw = numpy.random.default_rng([seed, place])
    if kind.name in DRAWN:
        return drawn_weights(dims, draw, kind)
    drawn = draw.standard_normal(dims, numpy.float32)
    drawn *= dims[1] ** -0.5
    return gguf.quants.quantize(drawn, kind)


def write(path, like, shape, kind, seed):
    writer = gguf.GGUFWriter(path, like.arch)
    writer.add_name(f"random weights, {kind.name}")
    names = gguf.LlamaFileType.__members__
    writer.add_file_type(next(names[name] for name in (f"MOSTLY_{kind.name}", f"MOSTLY_{kind.name}_S") if name in names))
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for option in like.options(shape):
        writer.add_key_value(*option)

    # One tensor in memory at a time: all are announced first, then drawn and written.
    tensors = list(shape.tensors(like.n_vocab, like.tied))
    for name, dims in tensors:
        stored = kind if len(dims) == 2 else gguf.GGMLQuantizationType.F32
        block, block_bytes = gguf.GGML_QUANT_SIZES[stored]
        n_bytes = int(numpy.prod(dims)) // block * block_bytes
        writer.add_tensor_info(name, dims, numpy.dtype(numpy.float32), n_bytes, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for place, (_, dims) in enumerate(tensors):
        writer.write_tensor_data(weights(dims, place, seed, kind))
    writer.close()


def arguments():
    parser = argparse.ArgumentParser(description="Write a GGUF model of random weights.")
    parser.add_argument("--like", required=True, type=pathlib.Path,
                        help="a GGUF file: tokenizer, options and, by default, shape")
    parser.add_argument("--shape", choices=("file", *SHAPES), default="file")
    parser.add_argument("--type", choices=(*TYPES, *DRAWN), default="F16", help="of every matrix")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("out", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = arguments()
    like = Like(args.like)
    shape = SHAPES.get(args.shape) or like.shape()
    write(args.out, like, shape, gguf.GGMLQuantizationType[args.type], args.seed)


if __name__ == "__main__":
    main()
