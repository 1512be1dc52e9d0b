"""The machine code of the CUDA kernels as a graph of basic blocks: what predict.py counts.

nvcc.py compiles to a cubin, nvdisasm ($INGOT_NVDISASM, the Python package nvidia-cuda-nvdisasm, or the path) prints it."""
import functools
import heapq
import os
import pathlib
import re
import shutil
import subprocess
import sys

from nvcc import ROOT, compiled, plain_names


def nvdisasm():
    """Its path, or None."""
    places = [pathlib.Path(p, "nvidia/cu13/bin/nvdisasm") for p in sys.path]
    found = next((str(p) for p in places if p.exists()), None)
    return os.environ.get("INGOT_NVDISASM") or found or shutil.which("nvdisasm")


class Kernel:
    """blocks: lists of opcodes; follow: the successors of each block."""

    def __init__(self, lines):
        labels, flat = {}, []
        for line in lines:
            if m := re.match(r"\s*(\.L_\w+):", line):
                labels[m.group(1)] = len(flat)
            elif m := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?\w+\s+)?([A-Z][\w.]*)(.*?);", line):
                target = re.search(r"`\((\.L_\w+)\)", m.group(3))
                flat.append((m.group(2), bool(m.group(1)), target and target.group(1)))
        starts = {0, *labels.values()}
        jumps = ("BRA", "EXIT", "RET", "BRX", "JMP", "CALL")
        starts |= {i + 1 for i, (op, _, _) in enumerate(flat) if op.split(".")[0] in jumps}
        begin = sorted(s for s in starts if s < len(flat))
        number = {s: i for i, s in enumerate(begin)}
        self.blocks, self.follow = [], []
        for i, s in enumerate(begin):
            end = begin[i + 1] if i + 1 < len(begin) else len(flat)
            self.blocks.append([op for op, _, _ in flat[s:end]])
            op, guarded, target = flat[end - 1]
            if op.startswith("BRA.DIV"):  # lanes that have diverged at a shuffle go elsewhere: not here
                target, guarded = None, True
            op, after = op.split(".")[0], set()
            if op == "BRA" and target and labels[target] in number:
                after.add(number[labels[target]])
            if end in number and (guarded or op not in ("BRA", "EXIT", "RET")):
                after.add(number[end])
            self.follow.append(after)

    def count(self, i, name):
        return sum(op.split(".")[0] == name for op in self.blocks[i])

    @functools.cache
    def loops(self):
        """[blocks of a natural loop], the smallest first; a jump to an earlier block closes a loop."""
        before, out = {i: set() for i in range(len(self.blocks))}, []
        for i, after in enumerate(self.follow):
            for j in after:
                before[j].add(i)
        for i, after in enumerate(self.follow):
            for head in after:
                if head > i:
                    continue
                body, todo = {head}, [i]
                while todo:
                    b = todo.pop()
                    if b not in body:
                        body.add(b)
                        todo += before[b]
                out.append((head, body))
        return sorted(out, key=lambda loop: len(loop[1]))

    def turn(self, head, body, through):
        """The fewest instructions of one turn of a loop that passes block `through`."""
        def distance(start, goal):
            # from the begin of `start` to the begin of `goal`, at least one step
            seen, heap = {}, [(0, start, False)]
            while heap:
                d, b, moved = heapq.heappop(heap)
                if b == goal and moved:
                    return d
                if (b, moved) in seen:
                    continue
                seen[b, moved] = d
                for n in self.follow[b] & body:
                    heapq.heappush(heap, (d + len(self.blocks[b]), n, True))
            return 0
        return distance(through, through) if head == through else distance(head, through) + distance(through, head)

    def way(self, start, goal, within=None, closed=None):
        """The fewest instructions from the begin of block `start` to that of `goal`, through `within` and not through block
        `closed`; None: there is no way."""
        seen, heap = set(), [(0, start)]
        while heap:
            d, b = heapq.heappop(heap)
            if b == goal:
                return d
            if b in seen:
                continue
            seen.add(b)
            for n in self.follow[b]:
                if n != closed and (within is None or n in within):
                    heapq.heappush(heap, (d + len(self.blocks[b]), n))
        return None

    def through(self, head, body, op):
        """(instructions, op's) of a turn from `head` through blocks of `body` that have op, in the code's order: of several
        that exclude each other the first; then by the fewest instructions to a block that leads back, or ends."""
        body, at, total = set(body), head, 0
        found = self.count(head, op)
        for b in sorted(i for i in body if i != head and self.count(i, op)):
            d = self.way(at, b, body, head)
            if d is not None:
                at, total, found = b, total + d, found + self.count(b, op)
        ends = [(self.way(at, i, body, head), i) for i in body
                if head in self.follow[i] or any(o.split(".")[0] == "EXIT" for o in self.blocks[i][-1:])]
        rest = [d + len(self.blocks[i]) for d, i in ends if d is not None]
        return total + min(rest, default=len(self.blocks[at])), found

    def hot_loop(self, op, without=""):
        """(head, blocks) of the innermost loop with the most of op and nothing of `without`.  "FFMA*": of FFMA, the loop whose
        turn has the most, whatever is inside."""
        any_depth, op = op.endswith("*"), op.rstrip("*")
        def of(body, o):
            return sum(self.count(i, o) for i in body)
        loops = [(h, b) for h, b in self.loops() if of(b, op) and not (without and of(b, without))]
        if not any_depth:
            loops = [(h, b) for h, b in loops if not any(other < b for _, other in loops)]
        assert loops, f"no loop with {op}"
        return max(loops, key=lambda loop: (of(loop[1], op), -len(loop[1])))

    def chain(self, i):
        """Block i and those that follow it alone, one after the other."""
        out = [i]
        while self.follow[out[-1]] == {out[-1] + 1}:
            out.append(out[-1] + 1)
        return out

    def tile_loops(self):
        """[(head, blocks)]: the smallest loops with copies and products: those over tiles."""
        def whole(body):
            return all(any(self.count(b, op) for b in body) for op in ("HMMA", "LDGSTS"))
        loops = [(head, body) for head, body in self.loops() if whole(body)]
        return [(h, body) for h, body in loops if not any(other < body for _, other in loops)]

    def per_copy(self):
        """Instructions for each asynchronous 16-byte copy in the loops over tiles: of a turn of an inner loop, else of the
        chain of blocks that has the copies; the worst of the places."""
        worst = 0.0
        for _, tile in self.tile_loops():
            chains = [self.chain(i) for i in tile if self.count(i, "LDGSTS")]
            chains = [c for c in chains if not any(c[0] in other[1:] for other in chains)]
            copies = [sum(self.count(b, "LDGSTS") for b in c) for c in chains]
            for chain, n in zip(chains, copies):
                inner = next(((h, b) for h, b in self.loops() if chain[0] in b and b < tile), None)
                if inner:
                    worst = max(worst, self.turn(*inner, chain[0]) / n)
                elif 2 * n > max(copies):
                    last = max(i for i, b in enumerate(chain) if self.count(b, "LDGSTS"))
                    worst = max(worst, sum(len(self.blocks[b]) for b in chain[:last + 1]) / n)
        return worst


@functools.cache
def kernels(source, arch="90a", root=ROOT):
    """{name: Kernel} of a .cu file of backends/cuda, below another root to compare."""
    return of_cubin(compiled(source, arch, root).cubin)


def of_cubin(cubin):
    text = subprocess.run([nvdisasm(), "-c", cubin], capture_output=True, text=True, check=True).stdout
    found, lines = {}, None
    for line in text.splitlines():
        if m := re.match(r"\.text\.(\S+):", line.strip()):
            lines = found.setdefault(m.group(1), [])
        elif lines is not None:
            lines.append(line)
    names = plain_names(sorted(found))
    return {names[m]: Kernel(text) for m, text in found.items()}
