#!/usr/bin/env python3
"""Make contract.json: what docs/numeric-contract.md says, by an implementation of its own.

    python3 tests/vectors/contract.py > tests/vectors/contract.json

Run by hand; needs nothing but Python 3.9 (and blocks.py beside it). Every operation is exact integer arithmetic rounded once, so the
processor, its mode and the C library have no part in it, but for the sines, cosines and powers behind rotary
encoding. Inputs are made from a seed by splitmix64, here and in tests/test_contract.c alike, and only the
results are kept: hexadecimal digits of the bits, eight a number.
"""

import json
import math
import struct
import sys
from functools import reduce

import blocks

INF, NAN = math.inf, math.nan


# ---- numbers: a float that holds a binary32 value -----------------------------------------------------


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def of_bits(u):
    return struct.unpack("<f", struct.pack("<I", u))[0]


def negative(x):
    return math.copysign(1, x) < 0


def nearest_even(n, d, bits):
    """n / d, both positive, as (m, e) with m of `bits` bits: m * 2**e."""
    e = n.bit_length() - d.bit_length() - bits
    while True:
        top, bottom = (n, d << e) if e >= 0 else (n << -e, d)
        m, rest = divmod(top, bottom)
        if m.bit_length() > bits:
            e += 1
        elif m.bit_length() < bits:
            e -= 1
        else:
            break
    if 2 * rest > bottom or (2 * rest == bottom and m & 1):
        m += 1
    return m, e


def rounded(sign, n, d=1):
    """The binary32 number nearest to n / d (n not 0), denormals flushed."""
    m, e = nearest_even(n, d, 24)
    if m.bit_length() + e > 128:
        return -INF if sign else INF
    x = math.ldexp(m, e) if m.bit_length() + e > -126 else 0.0
    return -x if sign else x


def daz(x):
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def ratio(x):
    """abs(x) as integers n / d; d is a power of two."""
    return abs(x).as_integer_ratio()


def finite(*xs):
    return all(math.isfinite(x) for x in xs)


def fma(a, b, c):
    a, b, c = daz(a), daz(b), daz(c)
    if not finite(a, b, c):
        return a * b + c  # infinities and NaN: nothing is rounded
    (an, ad), (bn, bd), (cn, cd) = ratio(a), ratio(b), ratio(c)
    minus = negative(a) != negative(b)
    p = an * bn * cd * (-1 if minus else 1)
    q = cn * ad * bd * (-1 if negative(c) else 1)
    if p + q == 0:
        return -0.0 if p == 0 and minus and negative(c) else 0.0
    return rounded(p + q < 0, abs(p + q), ad * bd * cd)


def add(a, b):
    return fma(a, 1.0, b)


def mul(a, b):
    a, b = daz(a), daz(b)
    if not finite(a, b) or a == 0 or b == 0:
        return a * b
    (an, ad), (bn, bd) = ratio(a), ratio(b)
    return rounded(negative(a) != negative(b), an * bn, ad * bd)


def div(a, b):
    a, b = daz(a), daz(b)
    if not finite(a, b) or b == 0:
        return NAN if a != a or b != b else math.copysign(0.0 if b else INF, a) * math.copysign(1, b)
    if a == 0:
        return a * math.copysign(1, b)
    (an, ad), (bn, bd) = ratio(a), ratio(b)
    return rounded(negative(a) != negative(b), an * bd, ad * bn)


def sqrt(x):
    n, d = ratio(daz(x))
    if n == 0:
        return x
    shift = 200  # far more places than are kept; one more says whether anything is left behind them
    n, d = n << 2 * shift, d
    if (d.bit_length() - 1) % 2:
        n, d = n * 2, d * 2
    root = math.isqrt(n)
    exact = root * root == n
    return rounded(False, root * 2 + (not exact), 2 << shift + (d.bit_length() - 1) // 2)


def f32(x):
    """A binary64 number rounded to binary32."""
    return rounded(negative(x), *ratio(x)) if x else x


# ---- section 1 to 3 -----------------------------------------------------------------------------------


def tree16(a):
    a = list(a)
    for w in (8, 4, 2, 1):
        for i in range(w):
            a[i] = add(a[i], a[i + w])
    return a[0]


def bf16(x):
    """The bf16 number nearest to x."""
    x = daz(x)
    if x == 0 or not finite(x):
        return x
    m, e = nearest_even(*ratio(x), 8)
    return math.copysign(INF if m.bit_length() + e > 128 else math.ldexp(m, e), x)


def f16(x):
    """The f16 number nearest to x; its denormals are made."""
    x = daz(x)
    if x == 0 or not finite(x):
        return x
    n, d = ratio(x)
    if n << 14 < d:  # below 2**-14: whole units of 2**-24
        units, rest = divmod(n << 24, d)
        return math.copysign(math.ldexp(units + (2 * rest > d or (2 * rest == d and units & 1)), -24), x)
    m, e = nearest_even(n, d, 11)
    return math.copysign(INF if m.bit_length() + e > 16 else math.ldexp(m, e), x)


C1, C2, C3, C4, C5 = (f32(c) for c in (6.931513121e-01, 2.401644466e-01, 5.579992612e-02, 9.017012227e-03,
                                       1.867138582e-03))


def exp2(t):
    t = daz(t)
    if t != t:
        return t
    if t < -126:
        return 0.0
    t = min(t, 127.0)
    n = math.floor(t)
    f = add(t, -float(n))
    p = C5
    for c in (C4, C3, C2, C1, 1.0):
        p = fma(p, f, c)
    return mul(p, 2.0**n)


# ---- section 4 ----------------------------------------------------------------------------------------


def rmsnorm(x, weight, eps):
    a = [0.0] * 16
    for i, v in enumerate(x):
        a[i % 16] = fma(v, v, a[i % 16])
    r = div(1.0, sqrt(add(div(tree16(a), float(len(x))), eps)))
    return [mul(mul(v, r), w) for v, w in zip(x, weight)]


def add_scaled(x, y, s):
    return [fma(s, b, a) for a, b in zip(x, y)]


def silu_mul(g, u):
    e = [exp2(mul(v, f32(-1.44269504))) for v in g]
    return [mul(div(v, add(1.0, w)), x) for v, w, x in zip(g, e, u)]


def rope_freqs(dim, base):
    return [f32(1 / base ** (2 * i / dim)) for i in range(dim // 2)]


def rope_turns(freqs, position, magnitude):
    """(cos, sin) of each pair."""
    turns = []
    for f in freqs:
        angle = mul(f32(float(position)), f)
        turns.append((f32(math.cos(angle) * magnitude), f32(math.sin(angle) * magnitude)))
    return turns


def rope(x, turns, halves):
    y = list(x)
    for i, (c, s) in enumerate(turns):
        ia, ib = (i, i + len(turns)) if halves else (2 * i, 2 * i + 1)
        a, b = x[ia], x[ib]
        y[ia] = fma(a, c, -mul(b, s))
        y[ib] = fma(b, c, mul(a, s))
    return y


# ---- section 5 ----------------------------------------------------------------------------------------


def chain(w, x):
    return reduce(lambda acc, wx: fma(wx[0], wx[1], acc), zip(w, x), 0.0)


def activations(x, most):
    """Of one block: codes up to `most`, scale, scale times sum."""
    amax = max(abs(v) for v in x) if finite(*x) else INF
    if not math.isfinite(amax):
        return [0] * 32, NAN, NAN
    if amax < f32(1e-30):
        return [0] * 32, 0.0, 0.0
    s, inv = div(amax, float(most)), div(float(most), amax)
    q = [round(mul(v, inv)) for v in x]
    return q, s, mul(s, float(sum(q)))


def opened(kind, row):
    """The groups of a row's blocks: (scale, minimum or None, codes)."""
    def product(pair):
        return pair and mul(pair[0], float(pair[1]))

    return [(product(d), product(m), codes) for block in row for d, m, codes in blocks.groups(kind, block)]


def row_codes(kind, row, x, most):
    acc, at = 0.0, 0
    for d, m, codes in opened(kind, row):
        q, s, fs = activations(x[at // 32 * 32 :][:32], most)
        if len(codes) < 32:
            q = q[at % 32 :][: len(codes)]
            fs = mul(s, float(sum(q)))
        acc = fma(f32(float(sum(c * v for c, v in zip(codes, q)))), mul(d, s), acc)
        if m is not None:
            acc = fma(m, fs, acc)
        at += len(codes)
    return acc


def row_widened(kind, row):
    return [mul(d, float(c)) if m is None else fma(d, float(c), m) for d, m, codes in opened(kind, row) for c in codes]


# ---- section 6 ----------------------------------------------------------------------------------------

SEGMENT, STEP, LAZY = 1024, 256, 8.0


def score(k, q):
    acc = 0.0
    for first in range(0, len(k), 32):
        e = o = 0.0
        for i in range(first, min(first + 32, len(k)), 2):
            e = fma(k[i], q[i], e)
            o = fma(k[i + 1], q[i + 1], o)
        acc = add(acc, add(e, o))
    return acc


def segment(q, keys, values, n_visible, c, narrow):
    """(m, l, o) of the first n_visible tokens of a segment."""
    m, L, o = -INF, [0.0] * 16, [0.0] * len(values[0])
    for at in range(0, n_visible, STEP):
        n = min(n_visible - at, STEP)
        scores = [score(keys[at + t], q) for t in range(n)]
        mx = mul(max(scores), c)
        if not mx <= add(m, LAZY):
            a = 0.0 if m == -INF else exp2(add(m, -mx))
            L, o, m = [mul(x, a) for x in L], [mul(x, a) for x in o], mx
        p = [exp2(fma(s, c, -m)) for s in scores] + [0.0] * (-n % 32)
        for pair in range(0, len(p), 32):
            for i in range(16):
                L[i] = add(L[i], add(p[pair + i], p[pair + 16 + i]))
        weight = [bf16(x) for x in p] if narrow else p
        for pair in range(0, len(p), 32):
            for d in range(len(o)):
                e = u = 0.0
                for t in range(pair, pair + 32, 2):
                    if t < n:
                        e = fma(values[at + t][d], weight[t], e)
                    if t + 1 < n:
                        u = fma(values[at + t + 1][d], weight[t + 1], u)
                o[d] = add(o[d], add(e, u))
    return m, tree16(L), [add(x, 0.0) for x in o]


def attend(q, keys, values, position, c, narrow):
    M, L, O = -INF, 0.0, None
    for first in range(0, position + 1, SEGMENT):
        n = min(position + 1 - first, SEGMENT)
        m, l, o = segment(q, keys[first:], values[first:], n, c, narrow)
        if O is None:
            M, L, O = m, l, o
            continue
        mn = max(M, m)
        a, b = exp2(add(M, -mn)), exp2(add(m, -mn))
        M, L = mn, fma(l, b, mul(L, a))
        O = [fma(x, b, mul(y, a)) for x, y in zip(o, O)]
    return [mul(x, div(1.0, L)) for x in O]


# ---- inputs and cases ---------------------------------------------------------------------------------


class Random:
    """splitmix64 (Steele, Lea and Flood 2014)."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = self.state + 0x9E3779B97F4A7C15 & 2**64 - 1
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & 2**64 - 1
        z = (z ^ z >> 27) * 0x94D049BB133111EB & 2**64 - 1
        return z ^ z >> 31

    def floats(self, n, size):
        """Between -size and size."""
        return [f32(-size + 2 * size * ((self.bits() >> 11) * 2.0**-53)) for _ in range(n)]

    def codes(self, n, low, high):
        return [low + (self.bits() >> 32) * (high - low + 1) // 2**32 for _ in range(n)]


def hexes(xs):
    return "".join("%08x" % bits_of(x) for x in xs)


def of_hexes(text):
    return [of_bits(int(text[i : i + 8], 16)) for i in range(0, len(text), 8)]


def case_exp2():
    r = Random(1)
    t = [0.0, -0.0, 1.0, -1.0, -126.0, -126.5, 127.0, 130.0, -INF, of_bits(0xC2FC0001), of_bits(0xB0000000),
         of_bits(0x3F7FFFFF), of_bits(0xBF800001)]
    t += r.floats(100, 1.0) + r.floats(100, 127.0)
    return {"t": hexes(t), "out": hexes(map(exp2, t))}


def case_narrow():
    r = Random(2)
    x = [of_bits(u) for u in (0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F7F7FFF, 0x7F7F8000, 0x477FEFFF,
                              0x477FF000, 0x33000000, 0x33000001, 0x33800000, 0x387FC000, 0x387FE000, 0x38800000,
                              0x3F808000, 0x3F818000, 0x3F801000, 0x3F803000, 0x7F800000)]
    x += [of_bits(r.bits() >> 32 & 0xBFFFFFFF) for _ in range(100)] + r.floats(50, 1e-4) + r.floats(50, 70000.0)
    return {"x": hexes(x), "bf16": hexes(map(bf16, x)), "f16": hexes(map(f16, x))}


def case_norm(n, size):
    r = Random(n)
    return {"n": n, "size": size, "eps": hexes([f32(1e-5)]),
            "out": hexes(rmsnorm(r.floats(n, size), r.floats(n, 2.0), f32(1e-5)))}


def case_scaled(n, s):
    r = Random(n)
    out = add_scaled(r.floats(n, 30.0), r.floats(n, 2.0), f32(s))
    return {"n": n, "s": hexes([f32(s)]), "out": hexes(mul(v, f32(s)) for v in out)}


def case_silu(n, size):
    r = Random(n)
    return {"n": n, "size": size, "out": hexes(silu_mul(r.floats(n, size), r.floats(n, 2.0)))}


def case_rope(dim, base, position, halves):
    turns = rope_turns(rope_freqs(dim, base), position, 1.0)
    return {"dim": dim, "base": base, "position": position, "halves": halves,
            "turns": hexes(x for turn in turns for x in turn),
            "out": hexes(rope(Random(dim).floats(dim, 3.0), turns, halves))}


def case_freqs(dim, position, magnitude):
    freqs = [abs(f) for f in Random(dim).floats(dim // 2, 1.0)]
    return {"dim": dim, "position": position, "magnitude": hexes([f32(magnitude)]), "freqs": hexes(freqs),
            "turns": hexes(x for turn in rope_turns(freqs, position, f32(magnitude)) for x in turn)}


def draw_block(r, kind):
    """Scale and minimum, then all bytes; Q8_0, Q4_0 and Q4_1 draw codes instead, one by one."""
    n_bytes, _, d_at, m_at = blocks.SHAPES[kind]
    halves = [(d_at, f16(r.floats(1, 0.1)[0]))]
    if m_at is not None:
        halves.append((m_at, f16(r.floats(1, 0.5)[0])))
    if kind == "Q8_0":
        block = bytearray(2) + bytes(c & 255 for c in r.codes(32, -128, 127))
    elif kind in ("Q4_0", "Q4_1"):
        codes = r.codes(32, 0, 15)
        block = bytearray(n_bytes - 16) + bytes(low | high << 4 for low, high in zip(codes, codes[16:]))
    else:
        block = bytearray(r.codes(n_bytes, 0, 255))
    for at, h in halves:
        struct.pack_into("<e", block, at, h)
    return block


def case_codes(kind, n_rows, n_cols):
    """x is ordinary but for the second block, zeros, and the third, as near as can be to halves of the fast mode's
    codes."""
    r = Random(n_cols)
    x = r.floats(n_cols, 4.0)
    x[32:64] = [0.0] * 32
    x[64:96] = [f32((i + 0.5) * 3.8 / 127) for i in range(31)] + [f32(3.8)]
    x = x[:n_cols]
    rows = [[draw_block(r, kind) for _ in range(n_cols // blocks.SHAPES[kind][1])] for _ in range(n_rows)]
    return {"type": kind, "n_rows": n_rows, "n_cols": n_cols,
            "fast": hexes(row_codes(kind, b, x, 127) for b in rows),
            "accurate": hexes(row_codes(kind, b, x, 32767) for b in rows),
            "exact": hexes(chain(row_widened(kind, b), x) for b in rows)}


def case_floats(kind, n_rows, n_cols):
    r, narrow = Random(n_cols), {"F32": lambda v: v, "F16": f16, "BF16": bf16}[kind]
    x = r.floats(n_cols, 4.0)
    out = [chain([narrow(v) for v in r.floats(n_cols, 1.0)], x) for _ in range(n_rows)]
    return {"type": kind, "n_rows": n_rows, "n_cols": n_cols,
            "fast": hexes(out), "accurate": hexes(out), "exact": hexes(out)}


def case_attend(k_format, v_format, math_mode, dim_k, dim_v, scale, positions):
    """Two query heads on one key/value head; a token's key, value and queries come in this order."""
    narrow = {"bf16": bf16, "f16": f16, "f32": lambda v: v}
    r, keys, values, queries = Random(dim_k), [], [], []
    pad_k = -dim_k % 16
    for _ in range(max(positions) + 1):
        keys.append([narrow[k_format](v) for v in r.floats(dim_k, 2.0)] + [0.0] * pad_k)
        values.append([narrow[v_format](v) for v in r.floats(dim_v, 2.0)])
        queries.append(r.floats(2 * dim_k, 6.0))
    fast = math_mode == "fast"
    c = f32((scale if scale else 1 / math.sqrt(dim_k)) * 1.4426950408889634)
    out = []
    for position in positions:
        for head in range(2):
            q = queries[position][head * dim_k :][:dim_k] + [0.0] * pad_k
            if fast and k_format == "bf16":
                q = [bf16(v) for v in q]
            out += attend(q, keys, values, position, c, fast and v_format == "bf16")
    return {"k_format": k_format, "v_format": v_format, "math": math_mode, "dim_k": dim_k, "dim_v": dim_v,
            "scale": scale, "positions": positions, "out": hexes(out)}


POSITIONS = [0, 1, 15, 16, 31, 33, 255, 256, 300, 600, 1023, 1024, 1025, 1060]

CASES = {
    "exp2": case_exp2(),
    "narrow": case_narrow(),
    "rmsnorm": [case_norm(64, 1.0), case_norm(37, 30.0), case_norm(5, 1e-18), case_norm(576, 0.5)],
    "scaled": [case_scaled(64, 0.22), case_scaled(37, -1e-20), case_scaled(5, 12.0)],
    "silu": [case_silu(64, 8.0), case_silu(37, 200.0)],
    "rope": [case_rope(d, b, p, h) for d, b in ((64, 10000.0), (20, 500000.0)) for p in (0, 1, 77, 8000, 131071)
             for h in (0, 1)],
    "freqs": [case_freqs(40, p, m) for p, m in ((3, 1.0), (9000, 1.1902381), (131071, 0.7))],
    "matmul": [case_codes(k, 17, 160) for k in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL")]
    + [case_codes("Q4_1", 3, 64)]
    + [case_codes(k, 17, 512) for k in ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")]
    + [case_floats(k, 17, n) for k, n in (("F32", 97), ("F16", 100), ("BF16", 64))],
    "attend": [
        case_attend("bf16", "bf16", "fast", 64, 64, 0, POSITIONS),
        case_attend("bf16", "bf16", "exact", 48, 17, 0, POSITIONS),
        case_attend("f16", "f16", "fast", 16, 32, 0.5, POSITIONS),
        case_attend("f32", "f32", "accurate", 40, 24, 0, POSITIONS),
        case_attend("f32", "bf16", "fast", 17, 16, 0.125, POSITIONS),
        case_attend("bf16", "f16", "fast", 16, 16, 3.0, POSITIONS),
        # weights that differ little, so that segments count for about as much as each other
        case_attend("f16", "f32", "exact", 16, 16, 0.0625, [1100, 1250, 1400, 1600, 1800, 2047, 2060, 2300]),
    ],
}

json.dump(CASES, sys.stdout, indent=1)
print()
