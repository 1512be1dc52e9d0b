"""A small reader and writer of GGUF files in Python: cuts one into parts."""
import struct

SCALAR = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
BLOCK = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
         12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2), 39: (32, 17)}  # type: (elements, bytes)
NAME = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 12: "q4_k",
        13: "q5_k", 14: "q6_k", 30: "bf16", 39: "mxfp4"}


class Reader:
    def __init__(self, path):
        self.b = path.read_bytes()
        self.at = 0
        magic, version, n_tensors, n_keys = self.take("<4sIQQ")
        assert magic == b"GGUF" and version == 3
        self.keys = [self.key() for _ in range(n_keys)]
        table = [self.entry() for _ in range(n_tensors)]
        start = self.at + -self.at % 32
        self.tensors = []  # (name, dims, type, data)
        for name, dims, kind, offset in table:
            n = 1
            for d in dims:
                n *= d
            size = n // BLOCK[kind][0] * BLOCK[kind][1]
            self.tensors.append((name, dims, kind, self.b[start + offset:start + offset + size]))
            assert len(self.tensors[-1][3]) == size and offset % 32 == 0

    def take(self, form):
        v = struct.unpack_from(form, self.b, self.at)
        self.at += struct.calcsize(form)
        return v

    def string(self):
        n, = self.take("<Q")
        self.at += n
        return self.b[self.at - n:self.at]

    def skip(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            inner, n = self.take("<IQ")
            for _ in range(n):
                self.skip(inner)
        else:
            self.at += SCALAR[kind]

    def key(self):
        name = self.string()
        begin = self.at
        kind, = self.take("<I")
        self.skip(kind)
        return name, self.b[begin:self.at]

    def entry(self):
        name = self.string()
        n, = self.take("<I")
        return (name, self.take(f"<{n}Q"), *self.take("<IQ"))

    def value(self, name):
        return dict(self.keys).get(name.encode())

    def types(self):
        return {name.decode(): NAME[kind] for name, _, kind, _ in self.tensors}


def text(s):
    return struct.pack("<Q", len(s)) + s


def write(path, keys, tensors):
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    out += b"".join(text(name) + value for name, value in keys)
    offset, data = 0, b""
    for name, dims, kind, content in tensors:
        out += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        content += b"\0" * (-len(content) % 32)
        data += content
        offset += len(content)
    out += b"\0" * (-len(out) % 32)
    path.write_bytes(out + data)


def cut(path, stem, n):
    """stem-0000i-of-0000n.gguf; the paths."""
    r = Reader(path)
    paths = []
    for i in range(n):
        numbers = ((b"split.no", 2, "<H", i), (b"split.count", 2, "<H", n),
                   (b"split.tensors.count", 5, "<i", len(r.tensors)))
        keys = [(name, struct.pack("<I", kind) + struct.pack(form, v))
                for name, kind, form, v in numbers]
        paths.append(path.parent / f"{stem}-{i + 1:05d}-of-{n:05d}.gguf")
        write(paths[-1], (r.keys if i == 0 else []) + keys, r.tensors[i::n])
    return paths
