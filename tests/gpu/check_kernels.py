"""Compares what ptxas says of each CUDA kernel (registers, stack, spills) with tests/gpu/registers.txt, for the architectures
that are shipped, without a GPU.

    check_kernels.py          as a test
    check_kernels.py --write [FILE.cu ...]
                              writes registers.txt anew, or the kernels of these files in it (one that is no more is
                              left to be taken out by hand)

A kernel may spill only where the table knows of stack.  The numbers belong to one version of the compiler; with another
one only spills are looked at.
"""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import shlex
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import before_wait  # noqa: E402
import tap  # noqa: E402
from nvcc import ARCHS, BIN, BUILT, FLAGS, ROOT, TABLE, compiled, need_nvcc, plain_names, version, written  # noqa: E402

STACK = 1024  # bytes a thread: the default of cudaLimitStackSize, which a context holds before memory is planned


def parse(source, text):
    """[(kernel, arch, registers, stack, spills)] of ptxas' report on a file."""
    found, at, stack, spills = [], None, 0, 0
    for line in text.splitlines():
        if m := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
            at, stack, spills = m.groups(), 0, 0
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spills = int(m.group(1)), int(m.group(2)) + int(m.group(3))
        elif (m := re.search(r"Used (\d+) registers", line)) and at:
            found.append((*at, int(m.group(1)), stack, spills))
            at = None
    assert found, f"{source}: ptxas named no kernel"
    return found


def sources():
    return sorted(p.name for p in (ROOT / "backends" / "cuda").glob("*.cu"))


def measured(archs, files=()):
    """{kernel: {arch: (registers, stack, spills)}} of these files, or of all"""
    pairs = [(s, a) for s in sources() if not files or s in files for a in archs]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = pool.map(lambda pair: (pair[0], compiled(*pair)), pairs)
        rows = [row for source, code in codes for row in parse(source, code.report.read_text())]
    names, out = plain_names(sorted({r[0] for r in rows})), {}
    for mangled, arch, *numbers in rows:
        out.setdefault(names[mangled], {})[arch] = tuple(numbers)
    return out


def write(files):
    lines = [f"registers/stack of each kernel on the architectures below, by nvcc {version()}", " ".join(ARCHS)]
    compiler, table = written()
    assert not files or compiler == version(), f"the table is of nvcc {compiler}: all files"
    for kernel, numbers in sorted({**(table if files else {}), **measured(ARCHS, files)}.items()):
        lines.append(kernel + "\t" + " ".join("{}/{}".format(*numbers[a]) for a in ARCHS))
    TABLE.write_text("\n".join(lines) + "\n")


def check(archs):
    """No kernel takes more registers or stack on these architectures than the table says."""
    need_nvcc()
    compiler, table = written()
    wrong, rows = [], measured(archs)
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
def no_kernel_grows():
    check(BUILT)


def bare_ptx(source, arch):
    """Without the architecture and the hash of the source's path in names of a file's own variables: with ccache the path may be
    that of another tree."""
    return re.sub(rf"_INTERNAL_[0-9a-f]{{8}}_|\.target sm_{arch}\n", "", compiled(source, arch).ptx.read_text())


@tap.case
def no_kernel_grows_on_sm_89():
    need_nvcc()
    if not os.environ.get("INGOT_ALL"):
        raise tap.Skip("its PTX is that of sm_80; registers and stack are compared with --all")
    check(["89"])
    for source in sources():
        assert bare_ptx(source, "80") == bare_ptx(source, "89"), f"{source}: BUILT of nvcc.py needs sm_89 too"


@tap.case
def options_are_those_of_the_build():
    """What is checked here, and runs in tests/ptx, is the code that is shipped."""
    commands = BIN.parent / "compile_commands.json"
    if not commands.exists():
        raise tap.Skip("no build")
    shipped = [c["command"] for c in json.loads(commands.read_text())
               if "ingot_backends_real" in c["command"] and c["file"].endswith(".cu")]
    if not shipped:
        raise tap.Skip("a build without CUDA")
    theirs = ("-D", "-I", "-isystem", "-Xcompiler", "--generate-code", "-forward-unknown", "-x", "-c", "-o", "-M", "-Werror",
              "-lineinfo")  # lines beside the same code
    for command in shipped:
        options = {o for o in shlex.split(command) if o.startswith("-") and not o.startswith(theirs)}
        assert options == {o for o in FLAGS if not o.startswith(theirs)}, command
    assert len(shipped) == len(sources()), (len(shipped), sources())


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
    ptx = compiled("oneshot.cu").ptx.read_text()
    assert len(re.findall(r"st\.release\.sys", ptx)) >= 3 and len(re.findall(r"ld\.acquire\.sys", ptx)) >= 3
    fences = re.findall(r"(?:membar|fence)\.\S+", ptx)
    assert not fences, fences


if __name__ == "__main__":
    write(sys.argv[2:]) if sys.argv[1:2] == ["--write"] else tap.main()
