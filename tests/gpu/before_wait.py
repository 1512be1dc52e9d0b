"""What a CUDA kernel touches before pdl_wait (gpu.h), by reading its text: the statements in their order, calls of device
functions and of lambdas with them, conditions on template parameters as the call has them.

    for name, waits, touched in kernels(): ...

A touch is an access through a pointer: ->, *p, p[i] where p is no array of the function, its arguments or a struct that
it has by value, a load or store of the device layer.  A call of something unknown counts as one."""
import itertools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUDA = ROOT / "backends/cuda"
LAYER, HOST = CUDA / "gpu_device.h", CUDA / "cuda_backend.h"  # the device layer; structs that no kernel gets
MATRIX = "the matrix, which no step writes"
ALLOWED = {"load_w": MATRIX, "load_group": MATRIX, "load_codes": MATRIX, "load_step": MATRIX, "load_scales": MATRIX,
           "slice_groups_of": MATRIX, "read_groups": MATRIX, "load_next": MATRIX,
           "stage_levels": "the matrix's levels, which are an argument, to shared memory"}
# what no function of ALLOWED may name; .x of a vector in registers is none of it
OF_A_STEP = r"(?<!Idx)(?<!\bv)(?<!four)(?<!eight\[1\])\.(?:x|packed|unscale|out|part|sums|rows|groups|up)\b"
MEMORY = r"(?:ld|st|ldmatrix|cp_async|atomic)(?:_\w+)?$"
NO_CALLS = {"for", "while", "switch", "return", "sizeof", "SHARED", "DYN_SMEM", "SYNC_THREADS", "TOPK_KEYS"}
EVENT = re.compile(r"(?P<wait>\bpdl_wait\(\))|(?P<cond>\bif (?:constexpr )?\()|\b(?P<flag>[A-Z]\w*) \? |(?P<arrow>->)"
                   r"|(?:^|[=(,;{?:&|<>!+-]|\breturn)\s*(?P<star>\*\s*[\w(])|(?P<index>(?<!\])\[)"
                   r"|\b(?P<call>\w+)(?:<(?P<targs>[^<>;(){}]*)>)?\(", re.M)
OPEN, CLOSE = "([{", ")]}"


def close_of(text, at):
    """Place of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in OPEN) - (text[i] in CLOSE)
        if depth == 0:
            return i
    raise AssertionError(f"no end: {text[at:at + 60]}")


def until(text, at, ends):
    """The first of `ends` outside brackets, or the bracket that closes what is around; the text's end where there is none."""
    while at < len(text) and text[at] not in ends + CLOSE:
        at = close_of(text, at) + 1 if text[at] in OPEN else at + 1
    return at


def statement_end(text, at):
    at += len(text[at:]) - len(text[at:].lstrip())
    if text.startswith("{", at):
        return close_of(text, at) + 1
    if m := re.match(r"(?:if (?:constexpr )?|for |while )\(", text[at:]):
        at = statement_end(text, close_of(text, at + m.end() - 1) + 1)
        other = re.match(r"\s*else\b", text[at:])
        return statement_end(text, at + other.end()) if other else at
    if m := re.match(r"UNROLL|NO_UNROLL", text[at:]):
        return statement_end(text, at + m.end())
    while at < len(text) and text[at] != ";":
        at = close_of(text, at) + 1 if text[at] in OPEN else at + 1
    return at + 1


def split(text):
    """At commas outside brackets, those of templates too."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text + ","):
        depth += (c in OPEN + "<") - (c in CLOSE + ">")
        if c == "," and depth == 0:
            parts, start = [*parts, text[start:i].strip()], i + 1
    return [p for p in parts if p]


def last_name(declared):
    return re.search(r"(\w+)\W*(?:\[[^=]*\])*\s*(?:=.*)?$", declared).group(1)


def declared_arrays(body):
    yield from re.findall(r"\b(?:SHARED|DYN_SMEM)\([^,]+, (\w+)", body)
    for statement in re.split("[;{}]", body):
        m = re.match(r"\s*(?:constexpr |const |struct )*(?!return|else|case)\w+(?:<[^<>]*>)? (\w.*)", statement, re.S)
        for declared in split(m.group(1)) if m else ():
            if array := re.match(r"(\w+)(?:\[[^\]]*\])+\s*(?:=|$)", declared):
                yield array.group(1)


class Function:
    def __init__(self, name, template, params, body):
        self.name, self.body, self.params = name, body, params
        self.template = [last_name(p) for p in split(template or "")]
        self.flags = [last_name(p) for p in split(template or "") if p.startswith("bool ")]


class Unit:
    """A file and what it includes."""

    def __init__(self, path, planted):
        self.files = {}
        self.read(path, planted)
        device = r"(?:template <([^{};]*?)>\s*)?\b(?:DEVICE|static inline)\b[^;{}()]*?\b(\w+)\(([^{};]*)\)\s*\n\{\n(.*?)\n\}"
        self.functions, structs = {}, ""
        for file, text in self.files.items():
            for template, name, params, body in re.findall(device, text, re.S) if file != LAYER else ():
                self.functions.setdefault(name, []).append(Function(name, template, split(params), body))
            structs += "".join(re.findall(r"\bstruct \w+ \{\n(.*?)\n\};", text if file != HOST else "", re.S))
        self.layer = set(re.findall(r"\bDEVICE [^;{}()]*?\b(\w+)\(", self.files.get(LAYER, "")))
        self.arrays = set(re.findall(r"(\w+)(?:\[[^\]]*\])+[,;]", structs)) - set(re.findall(r"\*\s*(\w+)", structs))

    def of_a_step(self, f):
        """Where f, and what it calls, names what is of a step."""
        found = [f"{f.name} has {name}" for name in re.findall(OF_A_STEP, f.body)]
        for callee in {name for name in re.findall(r"\b(\w+)(?:<[^<>;]*>)?\(", f.body) if name != f.name}:
            found += [f"{f.name} > {more}" for g in self.functions.get(callee, ()) for more in self.of_a_step(g)]
        return found

    def read(self, path, planted):
        if path in self.files or not path.exists():
            return
        text = planted.get(path.relative_to(ROOT).as_posix()) or path.read_text()
        self.files[path] = re.sub(r"/\*.*?\*/|\[\[\w+\]\]", "", text, flags=re.S)
        for name in re.findall(r'^#include "(backends/.*?)"', text, re.M):
            self.read(ROOT / name, planted)

    def kernels(self):
        own = r"(?:template <([^{};]*?)>\s*)?\bKERNEL\([^{;]*?\)\s+(\w+)\(([^{;]*)\)\s*\n\{\n(.*?)\n\}\n"
        shared = r"()\bGPU_KERNEL\([^,;]+, (\w+)([^{;]*)\)\s*\n\{\n(.*?)\n\}\n"
        for file, text in self.files.items():
            for template, name, params, body in re.findall(own if file.parent == CUDA else shared, text, re.S):
                yield file, Function(name, template, split(params), body)


class Reader:
    """Reads one function: `flags` are those of its template that are known, `lambdas` {name: (body, Reader)}."""

    def __init__(self, unit, function, flags, lambdas, path=()):
        self.unit, self.function, self.flags, self.path = unit, function, flags, (*path, function.name)
        self.lambdas, self.touched = dict(lambdas), []
        assert len(self.path) < 20, self.path
        self.arrays = {*re.findall(r"\(&(\w+)\)\[", "".join(function.params)), *declared_arrays(function.body)}

    def run(self):
        """Has it waited?"""
        return self.read(self.function.body)

    def read(self, text):
        text, at = self.take_lambdas(text), 0
        while m := EVENT.search(text, at):
            at = m.end()
            if m["wait"]:
                return True
            if m["cond"]:
                waited, at = self.condition(text, at - 1)
                if waited:
                    return True
            elif m["flag"]:
                if self.flags.get(m["flag"]) is not None:
                    colon = until(text, at, ":")
                    end = until(text, colon + 1, ",;")
                    if self.read(text[at:colon] if self.flags[m["flag"]] else text[colon + 1:end]):
                        return True
                    at = end
            elif m["call"]:
                if m["call"] in NO_CALLS:
                    at = close_of(text, at - 1) if m["call"] in ("SHARED", "DYN_SMEM") else at
                    continue
                end = close_of(text, at - 1)
                if self.read(text[at:end]) or self.call(m["call"], m["targs"], text[at:end]):
                    return True
                at = end + 1
            elif not (m["index"] and self.is_array(text[:m.start("index")])):
                self.touch(text, m.end() - 1)
        return False

    def touch(self, text, at):
        self.touched.append(f"{' > '.join(self.path)}: {re.sub(r'.*[;{}]', '', text[:at], flags=re.S).strip()}{text[at:].splitlines()[0]}")

    def is_array(self, before):
        if m := re.search(r"\.(\w+)$", before):
            return m.group(1) in self.unit.arrays
        m = re.search(r"(\w+)$", before)
        return bool(m) and m.group(1) in self.arrays

    def condition(self, text, at):
        """The if whose condition begins at `at`: has it waited, and where it ends."""
        close = close_of(text, at)
        end = statement_end(text, close + 1)
        branches, other = [text[close + 1:end]], re.match(r"\s*else\b", text[end:])
        if other:
            begin, end = end + other.end(), statement_end(text, end + other.end())
            branches.append(text[begin:end])
        known = re.fullmatch(r"(!?)(\w+)", text[at + 1:close])
        if known and self.flags.get(known.group(2)) is not None:
            taken = self.flags[known.group(2)] != bool(known.group(1))
            return any(self.read(b) for b in (branches[:1] if taken else branches[1:])), end
        if self.read(text[at + 1:close]):
            return True, end
        waited = [self.read(b) for b in branches]
        if any(waited) and not (len(waited) == 2 and all(waited)):
            self.touched.append(f"{' > '.join(self.path)}: waits only if {text[at + 1:close]}")
        return any(waited), end

    def take_lambdas(self, text):
        while m := re.search(r"\[[&=]\]\s*(?:\([^()]*\))?\s*\{", text):
            end, name = close_of(text, m.end() - 1), f"lambda_{len(self.lambdas)}"
            self.lambdas[name] = (text[m.end():end], self)
            text = text[:m.start()] + name + text[end + 1:]
            for bound in re.findall(rf"(\w+) = {name};", text):
                self.lambdas[bound] = self.lambdas[name]
        return text

    def call(self, name, targs, args):
        args = split(re.sub(r"(\w+)<[^<>;(){}]*>(?=\()", r"\1", args).replace("<", " ").replace(">", " "))
        if name in self.lambdas:
            body, reader = self.lambdas[name]
            return reader.read(body)
        known = [f for f in self.unit.functions.get(name, ()) if len(args) <= len(f.params)]
        if name in ALLOWED and known:
            self.touched += [f"{' > '.join(self.path)} > {more}: not only {ALLOWED[name]}" for f in known
                             for more in self.unit.of_a_step(f)]
            return False
        if known:
            return any([self.follow(f, targs, args) for f in known])
        if re.match(MEMORY, name) or name not in self.unit.layer:
            self.touched.append(f"{' > '.join(self.path)}: {name}({', '.join(args)})")
        return False

    def follow(self, f, targs, args):
        given = dict(zip(f.template, split(targs or "")))
        flags = {flag: {"true": True, "false": False}.get(given.get(flag), self.flags.get(given.get(flag)))
                 for flag in f.flags}
        lambdas = {last_name(p): self.lambdas[a] for p, a in zip(f.params, args) if a in self.lambdas}
        reader = Reader(self.unit, f, flags, lambdas, self.path)
        waited = reader.run()
        self.touched += reader.touched
        return waited


def kernels(planted=None):
    """Of every kernel once: (name, does it wait, what it touches before).  planted: {path from the root: text}, in place of a
    file's own text."""
    seen = set()
    for source in sorted(CUDA.glob("*.cu")):
        unit = Unit(source, planted or {})
        for file, f in unit.kernels():
            if (file, f.name) in seen:
                continue
            seen.add((file, f.name))
            waits, touched = [], []
            for values in itertools.product((False, True), repeat=len(f.flags)):
                reader = Reader(unit, f, dict(zip(f.flags, values)), {})
                waits.append(reader.run())
                touched += [t for t in reader.touched if t not in touched]
            yield f.name, all(waits), touched
