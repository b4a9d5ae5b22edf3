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


# ---- section 8 ----------------------------------------------------------------------------------------

TILE, LEAST = 16, 2.0**-100

BITS = {"e4m3": 8, "e5m2": 8, "int8": 8, "int4": 4, "int3": 3, "int2": 2}
POSITIVE = {"int4": [6, 18, 31, 44, 58, 75, 96, 127], "int3": [14, 45, 79, 127], "int2": [38, 127]}
TRIES = {"int4": (0.8, 0.9, 1.0), "int3": (0.7, 0.8, 0.9), "int2": (0.4, 0.5, 0.6)}
FLOAT8 = {"e4m3": (3, 7, 448.0), "e5m2": (2, 15, 57344.0)}  # bits of fraction, bias, largest number


def is_codes(kind):
    return kind.startswith("int")


def rotated(x):
    x, run = list(x), len(x) & -len(x)
    h = 1
    while h < run:
        for i in range(len(x)):
            if not i & h:
                x[i], x[i + h] = add(x[i], x[i + h]), add(x[i], -x[i + h])
        h *= 2
    return x


def kept(kind, x, balance=None):
    """What enters the cache: padded, of int formats balanced and rotated too."""
    x = x + [0.0] * (-len(x) % 16)
    if not is_codes(kind):
        return x
    if balance:
        x = [div(v, b) for v, b in zip(x, balance + [1.0] * (len(x) - len(balance)))]
    return rotated([mul(v, 1.0 / (len(x) & -len(x))) for v in x])


def within(x, most):
    return max(-most, min(most, x))


def centroid(block):
    means = []
    for column in zip(*block):
        a = [0.0] * 16
        for i, v in enumerate(column):
            a[i % 16] = add(a[i % 16], mul(v if finite(v) else 0.0, 1.0 / len(block)))
        means.append(bf16(within(tree16(a), of_bits(0x7F7F0000))))
    return means


def scale_up(amax, most):
    s = div(amax, most)
    return of_bits(bits_of(s) + 0xFFFF & 0xFFFF0000) if s >= LEAST else LEAST


def float8(kind, x):
    """Code of the nearest number; 0 and numbers that are normal are all there are."""
    fraction, bias, _ = FLOAT8[kind]
    sign, x = 128 if negative(x) else 0, abs(x)
    least = 2.0 ** (1 - bias)
    if x < least:
        return sign | (x > least / 2) << fraction
    m, e = nearest_even(*ratio(x), fraction + 1)
    if m >> fraction + 1:
        m, e = m >> 1, e + 1
    return sign | (e + fraction + bias) << fraction | m - (1 << fraction)


def float8_number(kind, code):
    fraction, bias, _ = FLOAT8[kind]
    e = code >> fraction & (1 << 7 - fraction) - 1
    x = math.ldexp((1 << fraction) + (code & (1 << fraction) - 1), e - bias - fraction) if e else 0.0
    return -x if code & 128 else x


def sum4(xs, ys):
    c = [0.0] * 4
    for i, (x, y) in enumerate(zip(xs, ys)):
        c[i % 4] = fma(x, y, c[i % 4])
    return add(add(c[0], c[1]), add(c[2], c[3]))


def by_levels(kind, x):
    positive = [float(v) for v in POSITIVE[kind]]
    thresholds = [(a + b) / 2 for a, b in zip(positive, positive[1:])]
    amax = max(map(abs, x))
    e = math.frexp(amax)[1] - 1
    u, top = [mul(v, 2.0 ** (1 - e) if amax >= LEAST else 0.0) for v in x], mul(amax, 2.0 ** (1 - e))
    if amax < LEAST:
        top = 0.0
    best = None
    for part in TRIES[kind]:
        unit = mul(div(127.0, f32(part)), div(1.0, top))
        size = [sum(mul(abs(v), unit) >= t for t in thresholds) for v in u]
        y = [positive[i] for i in size]
        uy, yy = sum4([abs(v) for v in u], y), sum4(y, y)
        r = div(uy, yy)
        if best is None or mul(uy, r) > best[0]:
            best = mul(uy, r), r, size
    half = len(positive)
    codes = [half - 1 - i if negative(v) else half + i for v, i in zip(u, best[2])]
    s = mul(2.0 ** (e - 1), best[1]) if amax >= LEAST else 0.0
    return codes, bf16(s) if s >= LEAST else LEAST


def encoded(kind, x):
    """(codes, scale) of one token."""
    if not finite(*x):
        return encoded(kind, [0.0] * len(x))[0], NAN
    if kind in TRIES:
        return by_levels(kind, x)
    s = scale_up(max(map(abs, x)), FLOAT8[kind][2] if kind in FLOAT8 else 127.0)
    y = [mul(v, div(1.0, s)) for v in x]
    return [float8(kind, v) if kind in FLOAT8 else round(v) for v in y], s


def number(kind, code):
    if kind in FLOAT8:
        return float8_number(kind, code)
    levels = kind in POSITIVE and [-v for v in reversed(POSITIVE[kind])] + POSITIVE[kind]
    return levels[code] if levels else code


def sealed(kind, keys, block):
    """A block: centroid (None: it has none), codes and scale of each token."""
    m = centroid(block) if keys and is_codes(kind) else None
    most, tokens = of_bits(0x7F7FFFFF), []
    for x in block:
        if m and finite(*x):
            x = [within(add(v, -c), most) for v, c in zip(x, m)]
        tokens.append(encoded(kind, x))
    return m, tokens


def planes(kind):
    return [n for n in (8, 4, 2, 1) if BITS[kind] & n]


def plane_bytes(n, pad):
    return -(-pad * 16 * n // 8 // 64) * 64


def put_code(kind, tile, pad, keys, token, dim, code):
    """As the picture in lib/format/format.h has it."""
    step, quad, group, groups = dim // 4, token // 4, dim // 16, pad // 16
    at = token * 4 + dim % 4 if keys else dim % 16 * 4 + token % 4
    for n in planes(kind):
        if keys:
            line, place = divmod(step, 8 // n)
        elif n == 1:
            line, place = group // 2, 4 * (group % 2) + quad
        else:
            line, place = quad // (8 // n) * groups + group, quad % (8 // n)
        tile[at + line * 64] |= (code & (1 << n) - 1) << n * place
        code >>= n
        at += plane_bytes(n, pad)


def lines(data):
    return data + bytes(-len(data) % 64)


def halves(xs):
    """bf16 numbers; NaN is the one NaN that scales may be."""
    return lines(b"".join(struct.pack("<H", 0x7FC0 if x != x else bits_of(x) >> 16) for x in xs))


def record(kind, keys, block):
    m, tokens = sealed(kind, keys, block)
    pad = len(block[0])
    data = b""
    for first in range(0, len(block), TILE):
        tile = bytearray(sum(plane_bytes(n, pad) for n in planes(kind)))
        for t, (codes, _) in enumerate(tokens[first : first + TILE]):
            for d, code in enumerate(codes):
                put_code(kind, tile, pad, keys, t, d, code)
        data += bytes(tile)
    return data + halves(s for _, s in tokens) + (halves(m) if m else b"")


def integers(x, most):
    """(what one stands for, integers)."""
    amax = max(map(abs, x)) if finite(*x) else INF
    if amax == INF:
        return NAN, [0] * len(x)
    if amax < f32(1e-30):
        return 0.0, [0] * len(x)
    by = div(most, amax)
    return div(amax, most), [round(mul(v, by)) for v in x]


def centre(m, q):
    a = [0.0] * 16
    for i, (c, v) in enumerate(zip(m, q)):
        a[i % 16] = fma(c, v, a[i % 16])
    return tree16(a)


def code_score(kind, codes, s, q, middle):
    s_q, whole = q
    dot = sum(v * number(kind, c) for v, c in zip(whole, codes))
    return fma(f32(float(dot)), mul(s_q, s), middle)


def code_sums(kind, tokens, p, o):
    """o and what the tokens of a step that lie in codes add to it; and what one integer of a weight stands for."""
    s_w, whole = integers([mul(w, s) for w, (_, s) in zip(p, tokens)], 32767.0)
    dots = [sum(w * number(kind, codes[d]) for w, (codes, _) in zip(whole, tokens)) for d in range(len(o))]
    return [fma(f32(float(n)), s_w, v) for n, v in zip(dots, o)], s_w


class Side:
    """Keys or values of a sequence: hot, and its whole blocks sealed."""

    def __init__(self, kind, keys, vectors, block):
        self.kind, self.block, narrow = kind, block, keys and is_codes(kind)
        self.hot = vectors if narrow else [[bf16(v) for v in x] for x in vectors]
        self.sealed = [sealed(kind, keys, self.hot[i : i + block]) for i in range(0, len(vectors) - block + 1, block)]

    def codes(self, t):
        return self.sealed[t // self.block][1][t % self.block]


def attend_sealed(q, keys, values, position, c, narrow, n_first):
    """One segment; hot are the first n_first tokens and the block of `position`."""
    own = position - position % keys.block
    in_codes = [n_first <= t < own for t in range(position + 1)]
    whole = integers(q, 32512.0)
    m, L, o = -INF, [0.0] * 16, [0.0] * len(values.hot[0])
    for at in range(0, position + 1, STEP):
        seen = range(at, min(at + STEP, position + 1))
        scores = []
        for t in seen:
            if not in_codes[t]:
                scores.append(score(keys.hot[t], q))
            elif is_codes(keys.kind):
                scores.append(code_score(keys.kind, *keys.codes(t), whole, centre(keys.sealed[t // keys.block][0], q)))
            else:
                codes, s = keys.codes(t)
                scores.append(mul(score([number(keys.kind, x) for x in codes], q), s))
        mx = mul(max(scores), c)
        if not mx <= add(m, LAZY):
            a = 0.0 if m == -INF else exp2(add(m, -mx))
            L, o, m = [mul(x, a) for x in L], [mul(x, a) for x in o], mx
        p = [exp2(fma(s, c, -m)) for s in scores] + [0.0] * (-len(seen) % 32)
        for pair in range(0, len(p), 32):
            for i in range(16):
                L[i] = add(L[i], add(p[pair + i], p[pair + 16 + i]))
        v = {}
        if is_codes(values.kind):
            inside = [t for t in seen if in_codes[t]]
            if inside:
                o, _ = code_sums(values.kind, [values.codes(t) for t in inside], [p[t - at] for t in inside], o)
            v = {t: values.hot[t] for t in seen if not in_codes[t]}
        else:
            for t in seen:
                v[t] = values.hot[t]
                if in_codes[t]:
                    codes, s = values.codes(t)
                    v[t], p[t - at] = [number(values.kind, x) for x in codes], mul(p[t - at], s)
        p = [bf16(x) for x in p] if narrow else p
        for pair in range(0, len(p), 32):
            for d in range(len(o)):
                e = u = 0.0
                for t in range(at + pair, at + pair + 32, 2):
                    e = fma(v[t][d], p[t - at], e) if t in v else e
                    u = fma(v[t + 1][d], p[t + 1 - at], u) if t + 1 in v else u
                o[d] = add(o[d], add(e, u))
    by = div(1.0, tree16(L))
    return [mul(add(x, 0.0), by) for x in o]


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


def draw_block_sealed(r, kind, keys, dim, n, bent):
    """Vectors of a block as they are kept; the bent ones have some of every size, and one that is not finite."""
    block = [r.floats(dim, 2.0) for _ in range(n)]
    if bent:
        for t, by in ((1, 0.0), (2, 2.0**-110), (3, f32(1e30)), (6, 2.0**-100)):
            block[t] = [mul(v, by) for v in block[t]]
        block[4][5] = INF
        block[5] = [v if d == 7 else 0.0 for d, v in enumerate(block[5])]
        block[7] = [f32((d - dim // 2) * 0.5) for d in range(dim)]  # many halves between codes
    return block if keys and is_codes(kind) else [[bf16(v) for v in x] for x in block]


def case_rotate(dim):
    return {"dim": dim, "out": hexes(rotated(Random(dim).floats(dim, 3.0)))}


def case_seal(kind, keys, dim, n, bent):
    block = draw_block_sealed(Random(dim), kind, keys, dim, n, bent)
    return {"format": kind, "keys": keys, "dim": dim, "n_tokens": n, "bent": bent,
            "record": record(kind, keys, block).hex()}


def case_products(kind, dim):
    """Three queries, the last tiny, on a block of 32 keys; three rows of weights on a block of 32 values."""
    r = Random(dim)
    m, k = sealed(kind, 1, draw_block_sealed(r, kind, 1, dim, 32, 0))
    _, v = sealed(kind, 0, draw_block_sealed(r, kind, 0, dim, 32, 0))
    sizes = (6.0, f32(1e20), f32(1e-31))
    q = [r.floats(dim, size) for size in sizes]
    p = [[abs(x) for x in r.floats(32, size)] for size in sizes]
    q_whole = [integers(x, 32512.0) for x in q]
    middle = [centre(m, x) for x in q]
    o = [code_sums(kind, v, x, r.floats(dim, 1.0)) for x in p]
    return {"format": kind, "dim": dim, "q_scale": hexes(s for s, _ in q_whole), "centre": hexes(middle),
            "scores": hexes(code_score(kind, *t, x, c) for x, c in zip(q_whole, middle) for t in k),
            "p_scale": hexes(s for _, s in o), "values": hexes(x for row, _ in o for x in row)}


def case_sealed(k_kind, v_kind, math_mode, dim_k, dim_v, balance, positions):
    """As case_attend, in blocks of 16 tokens of which the first stays hot."""
    r, keys, values, queries = Random(dim_k), [], [], []
    balance = [0.5 + d % 7 * 0.375 for d in range(dim_k)] if balance else None
    for _ in range(max(positions) + 1):
        keys.append(kept(k_kind, r.floats(dim_k, 2.0), balance))
        values.append(kept(v_kind, r.floats(dim_v, 2.0)))
        queries.append(r.floats(2 * dim_k, 6.0))
    fast, c = math_mode == "fast", f32(1 / math.sqrt(dim_k) * 1.4426950408889634)
    k, v, out = Side(k_kind, 1, keys, 16), Side(v_kind, 0, values, 16), []
    for position in positions:
        for head in range(2):
            q = queries[position][head * dim_k :][:dim_k]
            q = [mul(x, b) for x, b in zip(q, balance)] if balance else q
            q += [0.0] * (-dim_k % 16)
            q = rotated(q) if is_codes(k_kind) else [bf16(x) for x in q] if fast else q
            o = attend_sealed(q, k, v, position, c, fast and not is_codes(v_kind), 16)
            out += (rotated(o) if is_codes(v_kind) else o)[:dim_v]
    return {"k_format": k_kind, "v_format": v_kind, "math": math_mode, "dim_k": dim_k, "dim_v": dim_v, "scale": 0,
            "balance": 1 if balance else 0, "positions": positions, "out": hexes(out)}


POSITIONS = [0, 1, 15, 16, 31, 33, 255, 256, 300, 600, 1023, 1024, 1025, 1060]
SEALED = [0, 15, 16, 31, 32, 47, 50, 64, 79, 97]

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
    "rotate": [case_rotate(d) for d in (16, 48, 64, 80)],
    "seal": [case_seal(k, keys, d, n, 1) for k in BITS for keys in (1, 0) for d, n in ((48, 16), (80, 16))]
    + [case_seal(k, keys, 32, 32, 0) for k in BITS for keys in (1, 0)],
    "products": [case_products(k, d) for k in BITS if is_codes(k) for d in (48, 80)],
    "sealed": [
        case_sealed("int4", "int4", "fast", 64, 32, 1, SEALED),
        case_sealed("int8", "int8", "accurate", 32, 48, 0, SEALED + [255, 271, 290]),
        case_sealed("int3", "int3", "fast", 40, 24, 1, SEALED),
        case_sealed("int2", "int2", "exact", 16, 16, 0, SEALED),
        case_sealed("int8", "e4m3", "fast", 48, 32, 0, SEALED),
        case_sealed("e4m3", "e4m3", "fast", 64, 32, 0, SEALED),
        case_sealed("e5m2", "int2", "accurate", 32, 16, 0, SEALED + [255, 271, 290]),
    ],
}

json.dump(CASES, sys.stdout, indent=1)
print()
