#!/usr/bin/env python3
"""Make weights.bin: blocks of GGUF's quantised weight types and what the gguf package says they hold.

    pip install gguf==0.19.0 numpy==2.4.6
    python3 tests/vectors/weights.py tests/vectors/weights.bin

Run by hand. The bytes of a block are drawn, not quantised from anything: every code and every byte of a scale may
occur. Halves are finite; the first blocks have the outermost ones and the outermost bytes.
"""

import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

HALVES = {  # where f16 lie in a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
# least denormal, largest denormal, zeros, least normal, largest: of either sign
OUTERMOST = [0x0001, 0x03FF, 0x0000, 0x8000, 0x0400, 0x7BFF, 0xFBFF, 0x8001]


def blocks_of(name, rng):
    columns, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (12 if columns == 256 else 32, size), dtype=np.uint8)
    blocks[1], blocks[2] = 0x00, 0xFF
    for i, at in enumerate(HALVES[name]):
        halves = rng.integers(0, 0x10000, len(blocks), dtype=np.uint16) & 0xBBFF
        for b, h in enumerate(OUTERMOST):
            halves[b] = OUTERMOST[(b + 3 * i) % len(OUTERMOST)]
        blocks[:, at : at + 2] = halves.astype("<u2").view(np.uint8).reshape(-1, 2)
    return blocks


def main():
    rng = np.random.default_rng(7)
    with open(sys.argv[1], "wb") as out:
        for name in HALVES:
            blocks, kind = blocks_of(name, rng), GGMLQuantizationType[name]
            values = dequantize(blocks, kind).astype("<f4")
            assert np.isfinite(values).all()
            out.write(struct.pack("<8sIIII", name.encode(), kind, values.shape[1], blocks.shape[1], len(blocks)))
            out.write(blocks.tobytes() + values.tobytes())


main()
