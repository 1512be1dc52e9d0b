"""Drives grammar_probe.c."""
import os
import struct
import subprocess

BIN = os.environ.get("INGOT_BIN", "build/release/bin")
KINDS = {"schema": 1, "object": 2, "regex": 3, "choice": 4, "tags": 5, "gbnf": 6}


class Refused(Exception):
    pass


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([os.path.join(BIN, "grammar_probe")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.n_tokens = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, data):
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        head = self.process.stdout.read(4)
        if len(head) < 4:
            raise RuntimeError("grammar_probe ended with %s" % self.process.wait())
        reply = self.process.stdout.read(struct.unpack("<I", head)[0])
        if reply[0]:
            raise Refused(reply[1:].decode())
        return reply[1:]

    def compile(self, kind, source):
        """(nanoseconds, steps of work) that it took"""
        text = source if isinstance(source, bytes) else source.encode()
        return struct.unpack("<QQ", self.ask(b"G" + bytes([KINDS[kind]]) + text))

    def vocabulary(self, tokens):
        self.n_tokens = len(tokens)
        lengths = struct.pack("<%dI" % len(tokens), *map(len, tokens))
        self.ask(b"V" + struct.pack("<I", len(tokens)) + lengths + b"".join(tokens))

    def consume(self, data):
        """(were the bytes taken, may the text end)"""
        ok, ends = self.ask(b"B" + data)
        return bool(ok), bool(ends)

    def rollback(self, n):
        self.ask(b"R" + struct.pack("<I", n))

    def reset(self):
        self.ask(b"S")

    def mask(self):
        """(the mask as a number, nanoseconds)"""
        reply = self.ask(b"M")
        return int.from_bytes(reply[:-8], "little"), struct.unpack("<Q", reply[-8:])[0]

    def place(self):
        return self.ask(b"P").decode()

    def matches(self, data):
        self.reset()
        return self.consume(data) == (True, True)

    def answer_tags(self, form, choice=0, one_call=False, thinking=0, special=False, kind=None, name="", template="", tools="",
                    think="", source=""):
        """The source of structural tags; think: the two marks with a newline between them."""
        texts = b"".join(t.encode() + b"\0" for t in (name, template, tools, think, source))
        return self.ask(b"T" + bytes([form, choice, one_call, thinking, special, KINDS[kind] if kind else 0]) + texts)

    def output(self, form, text, thinking=0, think="", tools=""):
        """[(kind, text)] of the output parser's events."""
        reply = self.ask(b"O" + bytes([form, thinking]) + think.encode() + b"\0" + tools.encode() + b"\0" + text)
        events, at = [], 0
        while at < len(reply):
            n = struct.unpack_from("<I", reply, at + 1)[0]
            events.append((reply[at], reply[at + 5:at + 5 + n]))
            at += 5 + n
        return events

    def format(self, i):
        """(name, marks) of a format of tool calls"""
        name, *marks = self.ask(b"A" + bytes([i])).decode().split("\0")[:-1]
        return name, marks
