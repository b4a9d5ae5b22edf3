"""Blocks of quantised weights as a GGUF file has them, opened: groups of columns with a scale each.

groups(kind, block) gives a list of (scale, minimum, codes): a column's weight is scale * code + minimum, and both are
factors that nothing was rounded in yet: scale = (half, integer), minimum = (half, integer) or None. Codes have their
bias taken off. A second reading of the format: it shares nothing with lib/format.
"""

import struct

# Bytes of a block, columns, and where its halves lie: the scale, then the minimum's.
SHAPES = {"Q8_0": (34, 32, 0, None), "Q4_0": (18, 32, 0, None), "Q4_1": (20, 32, 0, 2), "Q5_0": (22, 32, 0, None),
          "Q5_1": (24, 32, 0, 2), "IQ4_NL": (18, 32, 0, None), "IQ4_XS": (136, 256, 0, None),
          "Q2_K": (84, 256, 80, 82), "Q3_K": (110, 256, 108, None), "Q4_K": (144, 256, 0, 2),
          "Q5_K": (176, 256, 0, 2), "Q6_K": (210, 256, 208, None)}

TABLE = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def half(block, at):
    return struct.unpack_from("<e", block, at)[0]


def nibbles(data):
    """Low ones first, then the high ones."""
    return [b & 15 for b in data] + [b >> 4 for b in data]


def cut(codes, n):
    return [codes[i : i + n] for i in range(0, len(codes), n)]


def q8_0(block):
    return [((half(block, 0), 1), None, [b - 256 * (b > 127) for b in block[2:]])]


def q4_0(block):
    return [((half(block, 0), 1), None, [q - 8 for q in nibbles(block[2:])])]


def q4_1(block):
    return [((half(block, 0), 1), (half(block, 2), 1), nibbles(block[4:]))]


def fives(high, low):
    bits = int.from_bytes(high, "little")
    return [q | (bits >> i & 1) << 4 for i, q in enumerate(nibbles(low))]


def q5_0(block):
    return [((half(block, 0), 1), None, [q - 16 for q in fives(block[2:6], block[6:])])]


def q5_1(block):
    return [((half(block, 0), 1), (half(block, 2), 1), fives(block[4:8], block[8:]))]


def iq4_nl(block):
    return [((half(block, 0), 1), None, [TABLE[q] for q in nibbles(block[2:])])]


def iq4_xs(block):
    d, high = half(block, 0), block[2] | block[3] << 8
    out = []
    for g in range(8):
        scale = (block[4 + g // 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4
        out.append(((d, scale - 32), None, [TABLE[q] for q in nibbles(block[8 + 16 * g :][:16])]))
    return out


def q2_k(block):
    d, dmin = half(block, 80), half(block, 82)
    codes = [block[16 + 32 * n + i] >> shift & 3 for n in range(2) for shift in (0, 2, 4, 6) for i in range(32)]
    return [((d, s & 15), (-dmin, s >> 4), c) for s, c in zip(block[:16], cut(codes, 16))]


def q3_k(block):
    d, packed = half(block, 108), block[96:108]
    codes = [(block[32 + 32 * n + i] >> 2 * j & 3) - (0 if block[i] >> 4 * n + j & 1 else 4)
             for n in range(2) for j in range(4) for i in range(32)]
    low = nibbles(packed[:8])
    scales = [(low[g] | (packed[8 + g % 4] >> 2 * (g // 4) & 3) << 4) - 32 for g in range(16)]
    return [((d, s), None, c) for s, c in zip(scales, cut(codes, 16))]


def sixes(p):
    """Eight pairs of scale and minimum of six bits."""
    out = [(p[g] & 63, p[g + 4] & 63) for g in range(4)]
    return out + [(p[g + 8] & 15 | p[g] >> 6 << 4, p[g + 8] >> 4 | p[g + 4] >> 6 << 4) for g in range(4)]


def q4_k(block):
    d, dmin = half(block, 0), half(block, 2)
    codes = [q for j in range(4) for q in nibbles(block[16 + 32 * j :][:32])]
    return [((d, s), (-dmin, m), c) for (s, m), c in zip(sixes(block[4:16]), cut(codes, 32))]


def q5_k(block):
    d, dmin = half(block, 0), half(block, 2)
    codes = [q for j in range(4) for q in nibbles(block[48 + 32 * j :][:32])]
    codes = [q | (block[16 + i % 32] >> i // 32 & 1) << 4 for i, q in enumerate(codes)]
    return [((d, s), (-dmin, m), c) for (s, m), c in zip(sixes(block[4:16]), cut(codes, 32))]


def q6_k(block):
    codes = []
    for n in range(2):
        low = nibbles(block[64 * n :][:64])
        high = [b >> shift & 3 for shift in (0, 2, 4, 6) for b in block[128 + 32 * n :][:32]]
        codes += [(q | h << 4) - 32 for q, h in zip(low, high)]
    scales = struct.unpack_from("<16b", block, 192)
    return [((half(block, 208), s), None, c) for s, c in zip(scales, cut(codes, 16))]


def groups(kind, block):
    return globals()[kind.lower()](bytes(block))
