#!/usr/bin/env python3
"""gguf_edit.py - a model file with something changed: how tests come by bad ones.

    gguf_edit.py SOURCE OUT STATEMENTS

The Python statements see `keys`, {name: [kind, value]} (an array's kind is (9, kind of its items)), and `tensors`,
{name: [dims, type, bytes]}, change them, and what is left is written. put(key, value) keeps the kind or takes a new
one."""
import struct
import sys

SCALAR = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 4

    def take(self, format):
        (value,) = struct.unpack_from("<" + format, self.data, self.at)
        self.at += struct.calcsize("<" + format)
        return value

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n : self.at].decode("utf-8", "surrogateescape")

    def value(self, kind):
        return self.text() if kind == STRING else self.take(SCALAR[kind])

    def key(self):
        name, kind = self.text(), self.take("I")
        if kind != ARRAY:
            return name, [kind, self.value(kind)]
        item, n = self.take("I"), self.take("Q")
        return name, [(ARRAY, item), [self.value(item) for _ in range(n)]]

    def tensor(self):
        name = self.text()
        dims = [self.take("Q") for _ in range(self.take("I"))]
        return name, [dims, self.take("I"), self.take("Q")]


def read(path):
    r = Reader(open(path, "rb").read())
    r.take("I")
    n_tensors, n_keys = r.take("Q"), r.take("Q")
    keys = dict(r.key() for _ in range(n_keys))
    tensors = dict(r.tensor() for _ in range(n_tensors))
    start = (r.at + 31) // 32 * 32
    ends = sorted(t[2] for t in tensors.values())[1:] + [len(r.data) - start]
    for t, end in zip(sorted(tensors.values(), key=lambda t: t[2]), ends):
        t[2] = r.data[start + t[2] : start + end]
    return keys, tensors


def text(s):
    raw = s.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    return text(v) if kind == STRING else struct.pack("<" + SCALAR[kind], v)


def write(path, keys, tensors):
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    for name, (kind, v) in keys.items():
        out.append(text(name))
        if isinstance(kind, tuple):
            out += [struct.pack("<IIQ", ARRAY, kind[1], len(v))] + [value(kind[1], item) for item in v]
        else:
            out += [struct.pack("<I", kind), value(kind, v)]
    data, offset = [], 0
    for name, (dims, type, raw) in tensors.items():
        out += [text(name), struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type, offset)]
        data.append(raw + b"\0" * (-len(raw) % 32))
        offset += len(data[-1])
    head = b"".join(out)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32) + b"".join(data))


def main():
    source, out, statements = sys.argv[1:]
    keys, tensors = read(source)

    def put(key, v, kind=None):
        keys[key] = [keys[key][0] if kind is None else kind, v]

    exec(statements, {**globals(), "keys": keys, "tensors": tensors, "put": put})
    write(out, keys, tensors)


main()
