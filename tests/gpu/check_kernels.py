"""Compiles the CUDA kernels for every architecture that is shipped, without a GPU, and compares what ptxas says of each
kernel (registers, stack, spills) with tests/gpu/registers.txt.

    check_kernels.py          as a test
    check_kernels.py --write [FILE.cu ...]
                              writes registers.txt anew, or the kernels of these files in it (one that is no more is
                              left to be taken out by hand)

A kernel may spill only where the table knows of stack.  The numbers belong to one version of the compiler; with another
one only spills are looked at.
"""
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import before_wait  # noqa: E402
import tap  # noqa: E402
from nvcc import ARCHS, FLAGS, NVCC, ROOT, TABLE, need_nvcc, plain_names, version, written  # noqa: E402


STACK = 1024  # bytes a thread: the default of cudaLimitStackSize, which a context holds before memory is planned


def compile_one(source):
    """[(kernel, arch, registers, stack, spills)] of a file."""
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
    code = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in ARCHS]
    with tempfile.TemporaryDirectory() as folder:  # a real file, so that ccache takes part
        return parse(source, run(source, ccache + [NVCC, *FLAGS, *code, "-I", ".", "-c",
                                                   str(source.relative_to(ROOT)), "-o", f"{folder}/x.o"]))


def run(source, cmd):
    r = subprocess.run(cmd, capture_output=True, text=True, cwd=ROOT)
    if r.returncode != 0:
        raise AssertionError(f"{source.name}: {r.stderr[-3000:]}")
    return r.stderr


def parse(source, text):
    found, at, stack, spills = [], None, 0, 0
    for line in text.splitlines():
        if m := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
            at, stack, spills = m.groups(), 0, 0
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spills = int(m.group(1)), int(m.group(2)) + int(m.group(3))
        elif (m := re.search(r"Used (\d+) registers", line)) and at:
            found.append((*at, int(m.group(1)), stack, spills))
            at = None
    assert found, f"{source.name}: ptxas named no kernel"
    return found


def measured(files=()):
    """{kernel: {arch: (registers, stack, spills)}} of these files, or of all"""
    sources = sorted(p for p in (ROOT / "backends" / "cuda").glob("*.cu") if not files or p.name in files)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = [row for rows in pool.map(compile_one, sources) for row in rows]
    names, out = plain_names(sorted({r[0] for r in rows})), {}
    for mangled, arch, *numbers in rows:
        out.setdefault(names[mangled], {})[arch] = tuple(numbers)
    return out


def write(files):
    lines = [f"registers/stack of each kernel on the architectures below, by nvcc {version()}", " ".join(ARCHS)]
    compiler, table = written()
    assert not files or compiler == version(), f"the table is of nvcc {compiler}: all files"
    for kernel, numbers in sorted({**(table if files else {}), **measured(files)}.items()):
        lines.append(kernel + "\t" + " ".join("{}/{}".format(*numbers[a]) for a in ARCHS))
    TABLE.write_text("\n".join(lines) + "\n")


@tap.case
def every_architecture_compiles_and_no_kernel_grows():
    need_nvcc()
    compiler, table = written()
    wrong, rows = [], measured()
    for kernel, numbers in rows.items():
        for arch, (registers, stack, spills) in numbers.items():
            was = table.get(kernel, {}).get(arch)
            if spills and not (was and was[1]):
                wrong.append(f"{kernel} sm_{arch}: spills {spills} bytes")
            if stack > STACK:
                wrong.append(f"{kernel} sm_{arch}: {stack} bytes of stack are memory that no plan has")
            if not was:
                wrong.append(f"{kernel} sm_{arch}: not in registers.txt (check_kernels.py --write)")
            elif compiler == version() and (registers > was[0] or stack > was[1]):
                wrong.append(f"{kernel} sm_{arch}: {registers} registers, {stack} bytes of stack; were {was}")
    wrong += [f"{kernel}: in registers.txt, but no kernel" for kernel in table.keys() - rows.keys()]
    print(f"{len(rows)} kernels" + ("" if compiler == version() else f"; not compared: the table is of {compiler}"))
    assert not wrong, "\n" + "\n".join(wrong)


@tap.case
def a_kernel_that_waits_touches_nothing_before():
    """A launch may begin before its predecessor has ended (gpu.h): the emulator sees a missing wait, not a late one."""
    found = list(before_wait.kernels())
    waiting = {name for name, waits, _ in found if waits}
    print(f"{len(waiting)} kernels wait for their predecessor")
    wrong = [t for name, waits, touched in found if waits for t in touched]
    assert len(waiting) >= 70 and not wrong, "\n" + "\n".join(wrong)
    text = "".join(p.read_text() for p in (ROOT / "backends/cuda").glob("*.cu"))
    early = set(re.findall(r"\bLAUNCH_\w+\(\s*(?:be,\s*)?\(?(\w+)", text)) - {"kernel"}  # of macros over LAUNCH_DEPENDENT too
    names = waiting | {f"{name}_kernel" for name in waiting}  # of backends/gpu
    assert len(early) >= 60 and not early - names, f"launched before their predecessors end, and do not wait: {early - names}"


ROWS, ROWS_H, MMA = (f"backends/cuda/linear_{f}" for f in ("rows.cu", "rows.h", "mma.h"))
LATE = [  # (file, what it has, what is put in its place, kernels that then touch memory of a step)
    (ROWS, "    pdl_wait(); /* w", "    const float early = segment_scale(a, s);\n    pdl_wait(); /* w", "rows_kernel hidden_rows_kernel"),
    (ROWS, "return gate_up_rows{group * 8 * MT,", "return gate_up_rows{a.rows[group] * 8 * MT,", "hidden_rows_kernel"),
    (ROWS_H, "    const int32_t row = rows.row0 + r;", "    const int32_t row = rows.row0 + rows.x[r];",
     "rows_kernel hidden_rows_kernel heads_rows_kernel"),
    (MMA, "    int32_t slice = 0;\n", "    int32_t slice = *first;\n", "rows_kernel hidden_rows_kernel heads_rows_kernel"),
    ("backends/cuda/quant_device.h", "    if (BITS & 8) {\n        q.eight[0] =", "    if (BITS & 8) {\n        m.packed[0] =",
     "quant_rows_kernel"),
    ("backends/cuda/quant_device.h", "    q.d = ((const uint32_t *)panel)[at];\n", "    q.d = ((const uint32_t *)m.packed)[at];\n",
     "quant_rows_kernel"),
    ("backends/cuda/quant_device.h", "        return {first[0], first[1] - first[0], first[0]};",
     "        return {first[0], s.x[1] - first[0], first[0]};", "quant_rows_kernel"),
    ("backends/cuda/scaled_device.h", "    if (EARLY)\n", "    if (!EARLY)\n", "scaled_kernel"),
    ("backends/cuda/scaled_rows.cu", "    if (!EXPERTS)\n        pdl_wait", "    if (EXPERTS)\n        pdl_wait", "scaled_rows_kernel"),
]


@tap.case
def a_touch_in_a_called_function_is_seen():
    """Mistakes, planted one at a time."""
    for file, was, becomes, kernels in LATE:
        text = (ROOT / file).read_text()
        assert text.count(was) == 1, (file, was)
        found = {name for name, _, touched in before_wait.kernels({file: text.replace(was, becomes)}) if touched}
        assert found - untouching() == set(kernels.split()), (becomes, found - untouching())


@functools.cache
def untouching():
    """Kernels that do not wait, so that all that they touch is before."""
    return {name for name, waits, touched in before_wait.kernels() if touched and not waits}


@tap.case
def one_shot_kernels_order_by_their_flags():
    """A fence of sequential consistency at system scope by every thread costs microseconds; a barrier and one release do."""
    need_nvcc()
    source = ROOT / "backends" / "cuda" / "oneshot.cu"
    with tempfile.TemporaryDirectory() as folder:
        run(source, [NVCC, *FLAGS[:4], "-arch=compute_90", "-ptx", "-I", ".", str(source.relative_to(ROOT)), "-o", f"{folder}/x.ptx"])
        ptx = pathlib.Path(folder, "x.ptx").read_text()
    assert len(re.findall(r"st\.release\.sys", ptx)) >= 3 and len(re.findall(r"ld\.acquire\.sys", ptx)) >= 3
    fences = re.findall(r"(?:membar|fence)\.\S+", ptx)
    assert not fences, fences


if __name__ == "__main__":
    write(sys.argv[2:]) if sys.argv[1:2] == ["--write"] else tap.main()
